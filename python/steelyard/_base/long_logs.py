"""Logs of programs that print without end: their begin and their end are kept.

In: a file that a program appends to, or that it has left. Out: the same with its middle given back to the
file system. While it grows the middle reads as zeros (a hole, where the file system has them), and afterwards
it is a line that says how much there was.

Not here: writing logs (``bench.executor``).
"""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

_LONG_BYTES = 64 << 20
"""Space of a log from which its middle goes."""
_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 16 << 20
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
"""FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE (fallocate(2))."""


def release_middle(path: Path) -> None:
    """Give the middle of a log back while it is written; nothing where the file system has no holes."""
    try:
        found = path.stat()
        if found.st_blocks * 512 < _LONG_BYTES:
            return
        descriptor = os.open(path, os.O_WRONLY)
    except OSError:
        return
    try:
        length = found.st_size - _HEAD_BYTES - _TAIL_BYTES
        if length > 0:
            _fallocate()(descriptor, _KEEP_SIZE_PUNCH_HOLE, _HEAD_BYTES, length)
    finally:
        os.close(descriptor)


def shorten(path: Path) -> None:
    """Replace the middle of a long log that nobody writes any more. Raises OSError."""
    size = path.stat().st_size
    if size <= _LONG_BYTES:
        return
    partial = path.with_name(f"{path.name}.partial")
    with path.open("rb") as source, partial.open("wb") as target:
        target.write(source.read(_HEAD_BYTES))
        left_out = size - _HEAD_BYTES - _TAIL_BYTES
        target.write(f"\n[{left_out} bytes are left out here]\n".encode())
        source.seek(size - _TAIL_BYTES)
        target.write(source.read(_TAIL_BYTES))
    partial.replace(path)


@cache
def _fallocate() -> Any:
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return call
