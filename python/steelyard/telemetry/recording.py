"""A recording on disk, opened for queries.

In: a run directory or its ``telemetry`` folder. Out: `Recording`, whose tables are an embedded DuckDB's, in
expressions of Ibis. A recording whose recorder was killed opens too, with every batch that was flushed.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from steelyard._base import RecordError, UsageError
from steelyard.records import Source, Telemetry, read
from steelyard.telemetry import deferred
from steelyard.telemetry import rates as rates_module
from steelyard.telemetry import series as series_module
from steelyard.telemetry.answers import RecordingEngine, answers_of
from steelyard.telemetry.rates import Rates
from steelyard.telemetry.series import Series
from steelyard.telemetry.tables import SourceTable, columns_of, describe, parquet_schema, read_stream

MANIFEST = "telemetry.json"
_ANSWERS_AT_MOST = 1024
_ANSWERS: dict[tuple[object, ...], Rates] = {}
"""Rates that were asked for in this process: a run's verdict, its metrics and its report ask for the same
ones, and putting a query together takes longer than answering it."""


def open_recording(path: Path) -> "Recording":
    """Open the recording in ``path``, a run directory or a telemetry directory.

    Raises UsageError when there is none, RecordError when its metadata cannot be read.
    """
    for folder in (path, path / "telemetry"):
        # Whatever has this name: reading it says why it is none.
        if os.path.lexists(folder / MANIFEST):
            return Recording(folder)
    raise UsageError(
        f"{path}: no recording here ({MANIFEST} is in neither this folder nor its telemetry/)",
        hint="name a run directory, or a folder written by steelyard-probe record",
    )


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Recording:
    """Raw counters of one run. A context manager: closing it frees the engine."""

    def __init__(self, folder: Path) -> None:
        """Open the recording in ``folder``, which holds ``telemetry.json``."""
        self.folder = folder
        self.metadata = read(Telemetry, folder / MANIFEST)
        self._sources: dict[str, Source] = {source.name: source for source in self.metadata.sources}
        self._tables: dict[str, SourceTable | str] = {}
        self._engine: RecordingEngine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the engine; queries after this raise an error of the engine."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self._tables.clear()

    @property
    def interval_ns(self) -> int:
        """The time asked for between two ticks; 0 for back to back."""
        return self.metadata.interval_ns

    @property
    def sources(self) -> list[str]:
        """Names of the sources that have rows, in the recorder's order."""
        return [name for name in self._sources if self.missing(name) is None]

    def missing(self, source: str) -> str | None:
        """Return why ``source`` has no table, None when it has one."""
        table = self._open(source)
        return table if isinstance(table, str) else None

    def table(self, source: str) -> SourceTable:
        """Return the raw rows of ``source``. Raises UsageError when it has none; see `missing`."""
        table = self._open(source)
        if isinstance(table, str):
            raise UsageError(f"{self.folder}: no {source} telemetry: {table}")
        return table

    def rates(self, source: str, begin_ns: int, end_ns: int, columns: Sequence[str] | None = None) -> Rates:
        """Return what every entity of ``source`` did between two times; nothing and a reason if missing."""
        query = (source, begin_ns, end_ns, None if columns is None else tuple(columns))
        key = (self.folder.absolute(), self._stamp(source), query)
        known = _ANSWERS.get(key)
        if known is None:
            table = self._open(source)
            if isinstance(table, str):
                known = Rates(source, begin_ns, end_ns, missing=table)
            else:
                with self._readable(source):
                    known = rates_module.compute(source, table, begin_ns, end_ns, columns)
            if len(_ANSWERS) >= _ANSWERS_AT_MOST:
                _ANSWERS.clear()
            _ANSWERS[key] = known
        return known

    def _stamp(self, source: str) -> tuple[tuple[int, int, int] | None, ...]:
        """Return what distinguishes one state of the files of ``source`` from another."""
        return tuple(
            _state(self.folder / name) for name in (MANIFEST, f"{source}.parquet", f"{source}.arrows")
        )

    def series(
        self,
        source: str,
        begin_ns: int,
        end_ns: int,
        columns: Sequence[str] | None = None,
        points: int = 240,
    ) -> Series:
        """Return ``source`` over time in at most ``points`` points per entity, for drawing."""
        table = self._open(source)
        if isinstance(table, str):
            return Series(source, begin_ns, end_ns, max(1, end_ns - begin_ns), missing=table)
        with self._readable(source):
            return series_module.compute(source, table, begin_ns, end_ns, columns, points, self.interval_ns)

    @contextmanager
    def _readable(self, source: str) -> Iterator[None]:
        """Turn what the engine says of a source's file into a RecordError."""
        try:
            yield
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("duckdb", "_duckdb"):
                raise
            line = next(iter(str(error).splitlines()), type(error).__name__)
            raise RecordError(f"{self.folder}: the {source} telemetry cannot be read: {line}") from error

    def _open(self, source: str) -> SourceTable | str:
        if source not in self._tables:
            self._tables[source] = self._read(source)
        return self._tables[source]

    def _read(self, name: str) -> SourceTable | str:
        """Return the table of ``name``, or why there is none."""
        source = self._sources.get(name)
        # The names in telemetry.json become file names: nothing may lead out of the folder.
        if source is None or not name.replace("_", "").replace("-", "").isalnum():
            return "this source was not recorded"
        if not source.available:
            return source.reason or "this machine does not offer it"
        parquet, stream = self.folder / f"{name}.parquet", self.folder / f"{name}.arrows"
        if self._engine is None:
            self._engine = RecordingEngine(answers_of(self.folder))
        schema = parquet_schema(parquet)
        if schema is not None:
            self._engine.read_parquet(parquet, name)
            rows = deferred.table(self._engine, name, schema)
            return describe(rows, schema, columns_of(schema, source.columns, str(parquet)))
        table = read_stream(stream) if stream.is_file() else None
        if table is None:
            return source.reason or "its file is absent or was cut off before the first reading"
        self._engine.connection.register(name, table)
        rows = deferred.table(self._engine, name, table.schema)
        return describe(rows, table.schema, columns_of(table.schema, source.columns, str(stream)))
