"""The engines that a store's tables are read with: DuckDB in this process, or Spark.

In: files of a store. Out: Ibis tables of their rows, and views of expressions over them. Invariants: the same
rows on every engine; a division by zero and a map's absent key are null on none but where a query says so
(``nullif``, ``get``), because engines differ in the rest.

Not here: which files count (``listing``), which rows do (``reading``); what is asked (the queries).
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError
from steelyard.fleet.store.files import Place, reason
from steelyard.fleet.store.listing import StoreFile
from steelyard.fleet.store.row_checks import MACRO, not_finite
from steelyard.fleet.store.schema import PARTITIONS, TableSchema
from steelyard.telemetry.deferred import Deferred
from steelyard.telemetry.engine import DuckDB, literal_path

NAMES = "duckdb, spark-local, or spark://HOST:PORT"

MEMORY_LIMIT = "600MB"
"""What DuckDB may hold in memory before it uses the disk: a process then stays below 1 GB whatever the store
holds, as DuckDB does not count all of its own."""

SQL_TYPES = {
    "string": ("VARCHAR", "STRING"),
    "int64": ("BIGINT", "BIGINT"),
    "double": ("DOUBLE", "DOUBLE"),
    "bool": ("BOOLEAN", "BOOLEAN"),
    "list<int64>": ("BIGINT[]", "ARRAY<BIGINT>"),
    "list<double>": ("DOUBLE[]", "ARRAY<DOUBLE>"),
    "map<string,string>": ("MAP(VARCHAR, VARCHAR)", "MAP<STRING, STRING>"),
}
"""The columns' types as DuckDB and as Spark write them."""


class Engine(Protocol):
    """What a store needs of an engine. Queries of it are SQL that DuckDB and Spark read alike."""

    name: str
    dialect: int
    """Which of `SQL_TYPES` it writes."""

    def files(self, place: Place, schema: TableSchema, files: Sequence[StoreFile]) -> str:
        """Return the name of a view of the rows of ``files``, which have the same version and known columns
        and are all vouched for, or none.

        It has every column of ``schema`` (null where the files lack it) and those of the path.
        """

    def define(self, name: str, query: str) -> None:
        """Give the rows of ``query`` a name, so that queries over them stay short."""

    def fetch_deferred(self, expression: Deferred) -> Any:
        """Return the rows of an expression over its tables, as an Arrow table."""

    def fetch_batches(self, expression: Deferred, batch_rows: int) -> Iterator[Any]:
        """Yield the same rows in their order, as batches of Arrow."""

    def keep(self, expression: Deferred) -> Deferred:
        """Return the same rows, computed once where the engine can keep them."""

    def interrupt(self) -> None:
        """Stop what is being fetched, from another thread: fetching raises an error."""

    def close(self) -> None:
        """Free what the engine holds."""


def open_engine(name: str) -> Engine:
    """Return the engine ``name``.

    Raises UsageError for one that there is not, EnvironmentLacksError where Spark is not installed or its
    cluster does not answer.
    """
    if name == "duckdb":
        return DuckDBEngine()
    if name == "spark-local" or name.startswith(("spark://", "local[")):
        from steelyard.fleet.store.spark import SparkEngine

        return SparkEngine(name)
    raise UsageError(f"no engine is called {name!r}", hint=NAMES)


class DuckDBEngine(DuckDB):
    """DuckDB in this process: no server, all cores, and memory that does not grow with the store."""

    name = "duckdb"
    dialect = 0

    def __init__(self) -> None:
        super().__init__(memory_limit=MEMORY_LIMIT)
        self.connection.execute(MACRO)
        self._registered = False
        self._sources = 0

    def files(self, place: Place, schema: TableSchema, files: Sequence[StoreFile]) -> str:
        """Return the name of a view of the rows of ``files``."""
        prefix = self._reach(place)
        paths = ", ".join(quoted(literal_path(prefix + place.full(file.path))) for file in files)
        self._sources += 1
        name = f"{schema.name}__{self._sources}"
        self.define(
            name,
            f"{select_list(schema, files[0], dialect=0)}"
            f" FROM read_parquet([{paths}], hive_partitioning = true, hive_types_autocast = false)",
        )
        return name

    def define(self, name: str, query: str) -> None:
        """Give the rows of ``query`` a name."""
        # A view, because a statement of thousands of paths is then read once.
        self.connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {query}')

    def fetch_deferred(self, expression: Deferred) -> Any:
        """Return the rows of an expression over its tables, as an Arrow table."""
        with reading():
            return super().fetch_deferred(expression)

    def fetch_batches(self, expression: Deferred, batch_rows: int) -> Iterator[Any]:
        """Yield the rows of an expression over its tables in its order, in batches."""
        with reading():
            yield from super().fetch_batches(expression, batch_rows)

    def keep(self, expression: Deferred) -> Deferred:
        """Return the same rows, computed once: DuckDB puts them on disk where memory does not hold them."""
        with reading():
            return super().keep(expression)

    def fetch(self, query: str) -> Any:
        """Return the rows of ``query`` as an Arrow table."""
        return self.connection.sql(query).to_arrow_table()

    def interrupt(self) -> None:
        """Stop the query that runs."""
        self.connection.interrupt()

    def _reach(self, place: Place) -> str:
        """Make ``place`` readable; return what stands before its paths."""
        if place.is_local:
            return ""
        if not self._registered:
            from steelyard.fleet.store.remote import PROTOCOL, bridge

            self.connection.register_filesystem(bridge(place.filesystem))
            self._registered = True
            self._prefix = f"{PROTOCOL}://"
        return self._prefix


def select_list(schema: TableSchema, like: StoreFile, *, dialect: int) -> str:
    """Return the SELECT of every column of ``schema`` from files ``like`` one: null where it has none.

    This is where columns of earlier versions get the names that all queries use. A figure that may be missing
    and is no finite number is missing; files that are vouched for have none.
    """
    columns = []
    for column in schema.columns:
        name = _name(column.name, dialect)
        written = _name(schema.name_in(column.name, like.major), dialect)
        if column.name not in like.columns:
            columns.append(_null(column.name, SQL_TYPES[column.type][dialect], dialect))
        elif column.nullable and column.type == "double" and not like.is_vouched:
            columns.append(f"CASE WHEN {not_finite(written)} THEN NULL ELSE {written} END AS {name}")
        else:
            columns.append(f"{written} AS {name}")
    return f"SELECT {', '.join([*columns, *(_partition(name, dialect) for name in PARTITIONS)])}"


def empty_list(schema: TableSchema, *, dialect: int) -> str:
    """Return the SELECT of a null for every column of ``schema``."""
    columns = [_null(column.name, SQL_TYPES[column.type][dialect], dialect) for column in schema.columns]
    columns += [_null(name, SQL_TYPES["string"][dialect], dialect) for name in PARTITIONS]
    return f"SELECT {', '.join(columns)}"


def _partition(name: str, dialect: int) -> str:
    quoted_name = _name(name, dialect)
    if dialect == 0:
        return quoted_name
    # Spark takes each encoded byte of a path for a letter; the bytes are those of UTF-8.
    return f"decode(encode({quoted_name}, 'ISO-8859-1'), 'UTF-8') AS {quoted_name}"


def _null(name: str, kind: str, dialect: int) -> str:
    return f"CAST(NULL AS {kind}) AS {_name(name, dialect)}"


def _name(name: str, dialect: int) -> str:
    return f'"{name}"' if dialect == 0 else f"`{name}`"


def quoted(text: str) -> str:
    """Return ``text`` as a string of SQL.

    >>> quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Say in one line what went wrong where an engine fails within."""
    try:
        yield
    except SteelyardError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb", "pyspark"):
            raise lost(error) from error
        raise


def lost(error: BaseException) -> EnvironmentLacksError:
    """Return what to say when an engine failed at reading a store."""
    return EnvironmentLacksError(
        f"the store cannot be read: {reason(error)}", hint="look at it: steelyard fleet check"
    )
