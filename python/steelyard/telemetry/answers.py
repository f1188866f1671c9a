"""Answers to queries of a recording, kept beside it, so that an hour of 64 CPUs is read once.

In: SQL, the rows given with it, and the files that it reads. Out: the Arrow table that DuckDB answered the
same question with before. Whoever makes a run's page asks what later readers ask: `save` then writes the
answers into ``answers.arrow`` of the recording's folder.

Invariants: the files are the authority. An answer is known by a digest of its SQL, of DuckDB's version, of
the rows given with it, and of every byte of the files; so another recording, another query or another engine
has none. What is damaged is asked again. Reading writes nothing.

Not here: what is asked (``rates``, ``series``), the SQL (``deferred``).
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from steelyard._base import RecordError, WorkloadFailedError, open_regular, read_regular, replacing
from steelyard.telemetry.deferred import Compiled, Deferred, compiled, table
from steelyard.telemetry.engine import DuckDB

if TYPE_CHECKING:
    from io import BufferedReader

FILE = "answers.arrow"
_MOST_BYTES = 4 << 20
"""Size of an answer above which it is a copy of the recording, and not kept."""
_MOST_OF_FOLDER = 32 << 20
_MOST_FOLDERS = 8
_LEAST_BYTES = 2 << 20
"""Size of a run's recordings below which their queries take less time than keeping their answers is worth."""
_CODEC = "zstd"
_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(32), nullable=False),
        pa.field("crc32", pa.uint32(), nullable=False),
        pa.field("bytes", pa.uint32(), nullable=False),
        pa.field("answer", pa.large_binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class _Packed:
    """An answer as it is in the file: compressed, with the checksum of that, and how long it is unpacked."""

    crc32: int
    bytes: int
    data: pa.Buffer | None

    def unpacked(self) -> pa.Table | None:
        """Return the answer; None where it is damaged, or claims to be larger than any that is kept."""
        if self.data is None or self.bytes > 2 * _MOST_BYTES or zlib.crc32(self.data) != self.crc32:
            return None
        try:
            whole = pa.decompress(self.data, decompressed_size=self.bytes, codec=_CODEC)
            with pa.ipc.open_stream(whole) as stream:
                rows: pa.Table = stream.read_all()
            rows.validate(full=True)
        except (pa.ArrowInvalid, OSError):
            return None
        return rows


class Answers:
    """What was asked of the recording in ``folder``, in this process and before."""

    def __init__(self, folder: Path) -> None:
        """Know nothing yet; the file is read when the first question is asked."""
        self.folder = folder
        self._new: dict[bytes, pa.Table] = {}
        self._bytes = 0
        self._lock = threading.Lock()
        self._saved: tuple[object, dict[bytes, _Packed]] = (None, {})

    def get(self, key: bytes) -> pa.Table | None:
        """Return the answer to a question, None where it was not asked."""
        if (known := self._new.get(key)) is not None:
            return known
        saved = self._read().get(key)
        return None if saved is None else saved.unpacked()

    def put(self, key: bytes, rows: pa.Table) -> None:
        """Remember an answer, unless it or all of them are large."""
        with self._lock:
            if rows.nbytes <= _MOST_BYTES and self._bytes + rows.nbytes <= _MOST_OF_FOLDER:
                self._bytes += rows.nbytes
                self._new[key] = rows

    def save(self) -> None:
        """Write what was asked in this process, where some of it is not in the file."""
        if not self._new or self._new.keys() <= self._read().keys():
            return
        columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
        for key, rows in dict(self._new).items():
            whole = _written(rows)
            packed = pa.compress(whole, codec=_CODEC, asbytes=True)
            row = (key, zlib.crc32(packed), len(whole), packed)
            for name, value in zip(_SCHEMA.names, row, strict=True):
                columns[name].append(value)
        # Of a folder that cannot be written the answers are computed again.
        with contextlib.suppress(WorkloadFailedError), replacing(self.folder / FILE) as partial:
            partial.write_bytes(_written(pa.Table.from_pydict(columns, schema=_SCHEMA)))

    def _read(self) -> dict[bytes, _Packed]:
        """Return the answers in the file by their keys, as bytes that are not looked at yet."""
        path = self.folder / FILE
        try:
            status = path.lstat()
        except OSError:
            return {}
        state = status.st_ino, status.st_size, status.st_mtime_ns
        if self._saved[0] != state:
            self._saved = (state, _in_file(path))
        return self._saved[1]


def _in_file(path: Path) -> dict[bytes, _Packed]:
    try:
        with pa.ipc.open_stream(read_regular(path, at_most_bytes=_MOST_OF_FOLDER)) as stream:
            rows = stream.read_all()
        if rows.schema != _SCHEMA:
            return {}
        rows.validate(full=True)
    except (pa.ArrowInvalid, OSError, RecordError):
        return {}
    columns = (rows[name].to_pylist() for name in ("key", "crc32", "bytes"))
    answers = (answer.as_buffer() for answer in rows["answer"])
    return {key: _Packed(*parts) for key, *parts in zip(*columns, answers, strict=True)}


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


_OPEN: dict[Path, Answers] = {}
"""Answers of the recordings that were asked last."""


def answers_of(folder: Path) -> Answers:
    """Return the answers of the recording in ``folder``."""
    folder = folder.absolute()
    found = _OPEN.pop(folder, None) or Answers(folder)
    _OPEN[folder] = found
    while len(_OPEN) > _MOST_FOLDERS:
        _OPEN.pop(next(iter(_OPEN)))
    return found


def save(run: Path) -> None:
    """Write what was asked of the recordings in the folder of a run, beside each, unless all are small."""
    run = run.absolute()
    asked = [answers for folder, answers in list(_OPEN.items()) if folder.is_relative_to(run)]
    if sum(_bytes_of(answers.folder) for answers in asked) >= _LEAST_BYTES:
        for answers in asked:
            answers.save()


def _bytes_of(folder: Path) -> int:
    """Return the size of a recording."""
    with contextlib.suppress(OSError):
        return sum(path.stat().st_size for path in folder.glob("*.parquet"))
    return 0


class RecordingEngine(DuckDB):
    """DuckDB over the files of one recording, asked only what was not asked before."""

    def __init__(self, answers: Answers) -> None:
        """Start no engine: where all answers are known, none is needed."""
        super().__init__()
        self._answers = answers
        self._paths: dict[str, Path] = {}
        self._digests: dict[str, bytes] = {}
        self._queries: dict[str, Compiled] = {}
        self._made: set[str] = set()

    def read_parquet(self, path: Path, name: str) -> None:
        """Give the rows of a file a name."""
        self._paths[name] = path

    def keep(self, expression: Deferred) -> Deferred:
        """Return the same rows, computed once, and only where a question about them is new."""
        name = f"kept_{len(self._queries)}"
        self._queries[name] = compiled(expression)
        return table(self, name, expression)

    def fetch_deferred(self, expression: Deferred) -> pa.Table:
        """Return the rows of an expression over the recording, as an Arrow table."""
        query = compiled(expression)
        key = self._key(query)
        known = None if key is None else self._answers.get(key)
        if known is not None:
            return known
        self._make(query)
        rows = self.run(query)
        if key is not None:
            self._answers.put(key, rows)
        return rows

    def _make(self, query: Compiled) -> None:
        """Make the views and tables that a query reads, where they are not made."""
        for name in query.tables:
            if name in self._made:
                continue
            self._made.add(name)
            if name in self._queries:
                self._make(self._queries[name])
                self.make_table(name, self._queries[name])
            elif name in self._paths:
                super().read_parquet(self._paths[name], name)

    def _key(self, query: Compiled) -> bytes | None:
        """Return what a question is known by; None where it reads what is in no complete file."""
        digest = hashlib.sha256(f"{_version()}\n{query.sql}\n{query.integers}\n".encode())
        for rows in query.rows:
            digest.update(_written(rows))
        for name in query.tables:
            part = self._digest(name)
            if part is None:
                return None
            digest.update(name.encode() + b"\0" + part)
        return digest.digest()

    def _digest(self, name: str) -> bytes | None:
        if name not in self._digests:
            if name in self._queries:
                found = self._key(self._queries[name])
            elif name in self._paths:
                found = _digest_of(self._paths[name])
            else:
                found = None
            if found is None:
                return None
            self._digests[name] = found
        return self._digests[name]


def _digest_of(path: Path) -> bytes | None:
    try:
        with open_regular(path) as file:
            # Its type is that of a file opened in any way; this one is buffered.
            return hashlib.file_digest(cast("BufferedReader", file), "sha256").digest()
    except (OSError, RecordError):
        return None


@functools.cache
def _version() -> str:
    """Return DuckDB's version without loading it."""
    return importlib.metadata.version("duckdb")
