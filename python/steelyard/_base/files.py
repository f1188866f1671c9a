"""Files whose writer is not trusted, such as those of a run's folder that came from elsewhere.

In: a path. Out: its bytes, or an open file. Raises RecordError, in one line that names the path.

Invariants: only regular files are opened, so that a pipe or a device in a file's place neither blocks nor
feeds the reader without end; a size bound is kept while reading, so that a growing file
is no way round it.

Not here: what the bytes mean.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from steelyard._base.errors import RecordError

RECORD_BYTES_AT_MOST = 256 << 20
"""No record comes near this size: the largest, a load's result of a day, has some 20 MB."""

_PIECE_BYTES = 1 << 16
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises RecordError for anything else, without waiting for it."""
    try:
        # Without O_NONBLOCK the opening of a named pipe would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise RecordError(f"{path}: not a regular file but a socket or a device") from error
        raise RecordError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{str(path)!r}: not a path: {error}") from error
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
            raise RecordError(f"{path}: not a regular file but {kind}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, *, at_most_bytes: int = RECORD_BYTES_AT_MOST) -> bytes:
    """Return the bytes of a regular file of at most ``at_most_bytes``. Raises RecordError otherwise."""
    with open_regular(path) as file:
        try:
            data = read_at_most(file, at_most_bytes + 1)
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}") from error
    check_size(str(path), len(data), at_most_bytes)
    return data


def check_size(path: str, size_bytes: int, at_most_bytes: int = RECORD_BYTES_AT_MOST) -> None:
    """Raise RecordError for a file that is larger than any of its kind."""
    if size_bytes > at_most_bytes:
        raise RecordError(f"{path}: larger than {at_most_bytes:,} bytes, which no file of its kind is")


def read_at_most(file: BinaryIO, most_bytes: int) -> bytes:
    """Return what is left of ``file``, at most ``most_bytes`` of it.

    In small pieces: files of /proc refuse to be read in one of many megabytes.
    """
    pieces = []
    while most_bytes > 0 and (piece := file.read(min(_PIECE_BYTES, most_bytes))):
        pieces.append(piece)
        most_bytes -= len(piece)
    return b"".join(pieces)


def read_tail(path: Path, last_bytes: int) -> bytes:
    """Return the last ``last_bytes`` of a regular file, all of a shorter one. Raises RecordError."""
    with open_regular(path) as file:
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - last_bytes))
            return file.read(last_bytes)
        except OSError as error:
            raise RecordError(f"{path}: {error.strerror}") from error
