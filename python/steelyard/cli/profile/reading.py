"""Profiles in any form: folded stacks, perf.data, perf script text, pprof, compressed or not.

In: a path, and what is wanted of it. Out: `Profile`. Folded stacks are read here, the rest by
``steelyard-profile fold``.

Not here: what is shown of a profile (``run``).
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from steelyard._base import (
    ExitCode,
    RecordError,
    ResultSaysNoError,
    UsageError,
    executable,
    open_regular,
)
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import Profile

FOLDED = "profile.folded"
PROGRAM = "steelyard-profile"
_FOREIGN = (b"\x1f\x8b", b"PERFILE2", b"2ELIFREP")
"""How gzip (pprof) and perf.data of either byte order begin."""
_THREADS = "data"
"""The file with the header in a folder of ``perf record --threads``."""
_PEEKED_BYTES = 1 << 16
_MOST_BYTES = 1 << 30
"""Largest text that is decompressed: a few bytes of gzip may stand for gigabytes."""
_PIECE_BYTES = 1 << 20
# A frame with a tab and an address, or a time before the event: no folded stack has either.
_SCRIPT = re.compile(rb"(?m)^\t\s*[0-9a-f]{1,16}(?:\s|$)|^[^;\n]*\s\d+\.\d{6,9}:\s")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a profile."""

    event: str | None = None
    """Samples of this event, or of the first that was recorded."""
    symfs: Path | None = None
    """Folder that stands for the root of the machine that was recorded."""
    lines: bool = False
    """Whether functions have the line of the source beside them."""
    samples: bool = False
    """Whether samples are counted where they stand for different numbers of occurrences."""

    def flags(self) -> list[str]:
        """Return the executable's flags."""
        flags = ["--event", self.event] if self.event is not None else []
        flags += ["--symfs", str(self.symfs)] if self.symfs is not None else []
        flags += ["--weight", "samples"] if self.samples else []
        return flags + (["--lines"] if self.lines else [])


ALL = Wanted()


def read_profile(path: Path, wanted: Wanted = ALL) -> Profile:
    """Read a profile in any form, folders of ``perf record --threads`` too.

    Raises RecordError when there is none in it, ResultSaysNoError when it has no such event,
    EnvironmentLacksError when it needs the executable and there is none, UsageError for flags that are
    of no use.
    """
    if path.is_dir():
        if not (path / FOLDED).exists() and _is_of_threads(path):
            return _fold(path, path, wanted)
        path /= FOLDED
    with plain(path) as text:
        return _read_plain(text, path, wanted)


def is_profile_folder(path: Path) -> bool:
    """Return whether a folder is one profile: of Steelyard, or of ``perf record --threads``."""
    return (path / FOLDED).exists() or _is_of_threads(path)


def _is_of_threads(path: Path) -> bool:
    try:
        with (path / _THREADS).open("rb") as file:
            return file.read(8).startswith(_FOREIGN[1:])
    except OSError:
        return False


def _read_plain(path: Path, name: Path, wanted: Wanted) -> Profile:
    head = _head(path, name)
    if head.startswith(_FOREIGN) or _SCRIPT.search(head):
        return _fold(path, name, wanted)
    try:
        profile = read_folded(path)
    except RecordError as error:
        # perf script text has no line that is a stack; the executable knows better why it is none.
        if not head.strip() or head.startswith(b"# unit:") or "two counts" in error.message:
            raise
        return _fold(path, name, wanted)
    if profile.reading.bad_lines * 2 > profile.reading.lines:
        return _fold(path, name, wanted)
    _check_event(profile, name, wanted.event)
    if wanted.symfs is not None or wanted.lines:
        raise UsageError(
            f"{name}: --symfs and --lines name functions of perf.data, and folded stacks have their names",
            hint="record with --lines, or fold perf.data again",
        )
    return profile


def _check_event(profile: Profile, name: Path, event: str | None) -> None:
    """Refuse another event than that of folded stacks, which are of one."""
    own = profile.facts.get("event")
    if event is None or own == event or (own is not None and event in own.split(" + ")):
        return
    known = "but folded stacks that do not name their event" if own is None else f"but {own}"
    raise ResultSaysNoError(f"{name}: no event {event}, {known}")


def _head(path: Path, name: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(_PEEKED_BYTES)
    except OSError as error:
        raise RecordError(f"{name}: {error.strerror}") from error


@contextlib.contextmanager
def plain(path: Path) -> Iterator[Path]:
    """Yield where the profile lies as it is read: a copy of compressed text and of UTF-16, else the path.

    Raises RecordError when it cannot be read, or is larger than 1 GiB.
    """
    if path.is_dir() or not path.exists():
        yield path
        return
    head = _head(path, path)
    is_wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    if not is_wide and not _is_compressed_text(head):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="steelyard-") as folder:
        copy = Path(folder) / path.name.removesuffix(".gz")
        try:
            with open_regular(path) as file, copy.open("wb") as out:
                if is_wide:
                    out.write(file.read(_MOST_BYTES).decode("utf-16", errors="replace").encode())
                else:
                    _decompress(file, out, path)
        except (OSError, EOFError, zlib.error) as error:
            raise RecordError(f"{path}: its compressed text cannot be read: {error}") from error
        yield copy


def _decompress(file: BinaryIO, out: BinaryIO, path: Path) -> None:
    size = 0
    with gzip.open(file) as inner:
        while piece := inner.read(_PIECE_BYTES):
            size += len(piece)
            if size > _MOST_BYTES:
                raise RecordError(f"{path}: more than 1 GiB when decompressed")
            out.write(piece)


def _is_compressed_text(head: bytes) -> bool:
    if not head.startswith(b"\x1f\x8b"):
        return False
    try:
        inner = zlib.decompressobj(wbits=31).decompress(head, _PEEKED_BYTES)
    except zlib.error:
        return False
    return bool(inner) and not _BINARY.search(inner)


def _fold(path: Path, shown: Path, wanted: Wanted) -> Profile:
    program = executable(PROGRAM)
    handle, name = tempfile.mkstemp(prefix="steelyard-", suffix=".folded")
    os.close(handle)
    folded = Path(name)
    try:
        done = subprocess.run(
            [str(program), "fold", str(path), "-o", name, *wanted.flags()],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode == 0:
            return read_folded(folded)
        message = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if done.returncode == ExitCode.NO:
            raise ResultSaysNoError(f"{shown}: {message.removeprefix(f'{PROGRAM}: ')}")
        # The program names the file that it was given, which may be a copy.
        reason = message.removeprefix(f"{PROGRAM}: ").replace(f"{path} is ", "", 1)
        raise RecordError(f"{shown}: not folded stacks, and {reason}")
    finally:
        folded.unlink(missing_ok=True)
