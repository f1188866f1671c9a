"""A fleet's store, opened for queries.

In: a folder or ``s3://bucket/prefix``, and the engine to read it with. Out: `Store`, whose tables are Ibis
tables with all columns of the schema and ``date`` and ``cluster``, and which names the files it put aside.

Not here: questions (the other modules of this package), writing (``write``, whose `write_rows` is here too).
"""

import json
from types import TracebackType
from typing import Any, Self

from steelyard._base import EnvironmentLacksError, RecordError, ResultSaysNoError, UsageError
from steelyard.fleet.store.engines import DuckDBEngine, Engine, open_engine, reading
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.layout import MARKER, check_date, partition_of
from steelyard.fleet.store.listing import Listing, Problem, list_table
from steelyard.fleet.store.reading import rows_of
from steelyard.fleet.store.schema import KIND, MAJOR, TABLES, columns_of
from steelyard.fleet.store.write import create_store, table_schema, write_compacted, write_rows
from steelyard.telemetry.deferred import table

__all__ = ["Problem", "Store", "create_store", "open_store", "write_compacted", "write_rows"]


def open_store(
    url: str, engine: str = "duckdb", *, first: str | None = None, last: str | None = None
) -> "Store":
    """Open the store at ``url`` with ``engine``, for the days ``first`` to ``last`` (included) if given.

    Raises EnvironmentLacksError where there is no store or it may not be read, RecordError for one of another
    major version, UsageError for what no engine or day is called.
    """
    for day in (first, last):
        if day is not None:
            check_date(day)
    if first is not None and last is not None and last < first:
        raise UsageError(f"no day is from {first} to {last}")
    place = Place(url)
    check_marker(place)
    return Store(place, open_engine(engine), first, last)


def check_marker(place: Place) -> None:
    """Raise unless ``place`` is a store of a version that can be read."""
    if not place.exists(MARKER):
        raise EnvironmentLacksError(
            f"{place.url}: not a store ({MARKER} is not in it)",
            hint="make one: steelyard fleet simulate, or import, or an agent's upload",
        )
    try:
        document = json.loads(place.read(MARKER))
        kind, version = document["kind"], str(document["schema_version"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RecordError(f"{place.url}/{MARKER} cannot be read: {error}") from error
    if kind != KIND or version.partition(".")[0] not in map(str, range(1, MAJOR + 1)):
        raise RecordError(
            f"{place.url}: {kind} of schema version {version}; this Steelyard reads {KIND} 1.x to {MAJOR}.x",
            hint="use the version of Steelyard that wrote it",
        )


class Store:
    """A store's tables. A context manager: closing it frees the engine."""

    def __init__(self, place: Place, engine: Engine, first: str | None, last: str | None) -> None:
        self.place = place
        self.engine = engine
        self.first, self.last = first, last
        self._listings: dict[str, Listing] = {}
        self._tables: dict[str, Any] = {}
        self._views: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the engine; queries after this raise an error of the engine."""
        self._tables.clear()
        self.engine.close()

    @property
    def url(self) -> str:
        """What the store was opened by."""
        return self.place.url

    def table(self, name: str) -> Any:
        """Return the table ``name`` as an Ibis table; it is empty where there are no files.

        Raises UsageError when a store has no such table.
        """
        if name not in self._tables:
            self._tables[name] = table(self.engine, self.view(name), columns_of(table_schema(name)))
        return self._tables[name]

    def view(self, name: str) -> str:
        """Return the name by which the engine's SQL knows the rows of the table ``name``."""
        if name not in self._views:
            self.engine.define(name, rows_of(self.engine, self.place, self.listing(name)))
            self._views.add(name)
        return name

    def fetch(self, query: str) -> Any:
        """Return the rows of a query in SQL over `view`, as an Arrow table. On DuckDB only.

        Raises EnvironmentLacksError where the store changed while it was read.
        """
        assert isinstance(self.engine, DuckDBEngine)
        with reading():
            return self.engine.fetch(query)

    def listing(self, name: str) -> Listing:
        """Return which files of the table ``name`` count, looked up once."""
        if name not in self._listings:
            schema = table_schema(name)
            # A range of days selects what happened then, not what was known before it.
            days = (self.first, self.last) if schema.windowed else (None, None)
            self._listings[name] = list_table(self.place, schema, *days)
        return self._listings[name]

    def days_of(self, name: str) -> tuple[str, str] | None:
        """Return the first and the last day of the table ``name``, whatever days were asked for."""
        paths = (entry.path for entry in self.place.entries(name, []) if entry.path.endswith(".parquet"))
        parts = (partition_of(path) for path in paths)
        days = sorted(part.date for part in parts if not isinstance(part, str))
        return (days[0], days[-1]) if days else None

    def check_days(self, name: str) -> None:
        """Raise ResultSaysNoError where the table ``name`` has rows, and none of the days asked for."""
        if self.first is None and self.last is None:
            return
        listing = self.listing(name)
        if listing.files or listing.problems or (there := self.days_of(name)) is None:
            return
        if self.last is None:
            asked = f"from {self.first} on"
        elif self.first is None:
            asked = f"up to {self.last}"
        else:
            asked = f"from {self.first} to {self.last}"
        rows = name.replace("_", " ")
        raise ResultSaysNoError(f"no {rows} {asked}; the store has {rows} of {there[0]} to {there[1]}")

    @property
    def problems(self) -> list[Problem]:
        """Files put aside, with reasons, of every table that was looked at so far."""
        return [problem for listing in self._listings.values() for problem in listing.problems]

    def look_at_all(self) -> None:
        """List every table, so that `problems` speaks of the whole store."""
        for name in TABLES:
            self.listing(name)
