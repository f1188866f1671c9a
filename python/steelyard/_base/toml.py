"""TOML files of users -> plain values.

In: a path. Out: a dictionary. Raises RecordError, in one line that names the path, for what is no regular
file, no text, no TOML, nests without end, has a name of many parts, or holds a number too long to be read.

Not here: which keys there are.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard._base.errors import RecordError
from steelyard._base.files import read_regular
from steelyard._base.text import text_of

TOML_BYTES_AT_MOST = 1 << 20
"""No file that somebody wrote by hand comes near this size."""
_DEPTH = 40
_PART = (
    r"""(?: (?<![A-Za-z0-9_-]) [A-Za-z0-9_-]++ | (?<!\\) "(?: [^"\\\n] | \\. )*+" | '[^'\n]*+' ) [ \t]*+"""
)
_LONG_NAME = re.compile(rf"(?x) {_PART} (?: \. [ \t]*+ {_PART} ){{{_DEPTH}}}")
"""A name of more parts than are read; looked for in a time that grows with the text, as its parts are never
tried from two ends."""


def read_toml(path: Path, *, at_most_bytes: int = TOML_BYTES_AT_MOST) -> dict[str, Any]:
    """Return what a TOML file holds. Raises RecordError."""
    data = read_regular(path, at_most_bytes=at_most_bytes)
    try:
        text = text_of(data, f"{path}: no TOML")
        # The parser's time grows with the square of a name's parts.
        if _LONG_NAME.search(text):
            raise RecordError(f"{path}: no TOML: a name has more than {_DEPTH} parts")
        document = tomllib.loads(text)
    except RecursionError as error:
        raise RecordError(f"{path}: no TOML: it nests too deeply") from error
    except ValueError as error:
        # Beside what is no TOML: numbers of more digits than Python reads.
        raise RecordError(f"{path}: no TOML: {str(error).partition(';')[0]}") from error
    if _nests_deeply(document):
        raise RecordError(f"{path}: no TOML: it nests too deeply")
    return document


def _nests_deeply(document: Any) -> bool:
    """Return whether values are within values so deep that showing one could fail."""
    level = [document]
    for _ in range(_DEPTH):
        inner = [
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)
        ]
        level = [value for values in inner for value in values]
    return bool(level)


def table_in(document: Mapping[str, Any], key: str, path: Path) -> dict[str, Any]:
    """Return the table ``[key]`` of a document, an empty one where there is none. Raises RecordError."""
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise RecordError(f"{path}: {key} is no table: [{key}]")
    return value
