"""Arrow arrays of lists: Arrow's own way to make them loads pandas, which takes a quarter of a second."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa


def texts(values: Iterable[str | None]) -> pa.Array:
    """Return an array of strings."""
    listed = list(values)
    encoded = [b"" if value is None else value.encode() for value in listed]
    ends = array("i", accumulate(map(len, encoded), initial=0))
    buffers = [_valid(listed), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(listed), buffers)


def floats(values: Iterable[float | None]) -> pa.Array:
    """Return an array of floats."""
    return _numbers(pa.float64(), "d", list(values))


def integers(values: Iterable[int | None]) -> pa.Array:
    """Return an array of whole numbers of 64 bits."""
    return _numbers(pa.int64(), "q", list(values))


def _numbers(kind: pa.DataType, code: str, values: Sequence[Any]) -> pa.Array:
    filled = array(code, [0 if value is None else value for value in values])
    return pa.Array.from_buffers(kind, len(values), [_valid(values), pa.py_buffer(filled)])


def _valid(values: Sequence[object]) -> pa.Buffer | None:
    """Return a bit for each value, 1 where there is one; None where all are there."""
    if None not in values:
        return None
    bits = sum(1 << place for place, value in enumerate(values) if value is not None)
    return pa.py_buffer(bits.to_bytes(len(values) // 8 + 1, "little"))
