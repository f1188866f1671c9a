"""The engines that a store's tables are read with: DuckDB in this process, or Spark.

In: files of a store. Out: Ibis tables of their rows, and views of expressions over them. Invariants: the same
rows on every engine; a division by zero and a map's absent key are null on none but where a query says so
(``nullif``, ``get``), because engines differ in the rest.

Not here: which files count (``listing``), which rows do (``reading``); what is asked (the queries).
"""

from collections.abc import Sequence
from typing import Any, Protocol

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.fleet.files import Place, reason
from steelyard.fleet.listing import StoreFile
from steelyard.fleet.schema import PARTITIONS, TableSchema

NAMES = "duckdb, spark-local, or spark://HOST:PORT"

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
    """What a store needs of an engine."""

    name: str

    def source(self, place: Place, schema: TableSchema, files: Sequence[StoreFile]) -> Any:
        """Return the rows of ``files``, which have the same known columns, as an Ibis table.

        It has every column of ``schema`` (null where the files lack it) and those of the path.
        """

    def empty(self, schema: TableSchema) -> Any:
        """Return the table without rows."""

    def view(self, name: str, rows: Any) -> Any:
        """Return ``rows`` under a name, so that queries over them stay short."""

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
        from steelyard.fleet.spark import SparkEngine

        return SparkEngine(name)
    raise UsageError(f"no engine is called {name!r}", hint=NAMES)


class DuckDBEngine:
    """DuckDB in this process: no server, all cores."""

    name = "duckdb"

    def __init__(self) -> None:
        import ibis

        self._connection = ibis.duckdb.connect()
        self._registered = False
        self._sources = 0

    def source(self, place: Place, schema: TableSchema, files: Sequence[StoreFile]) -> Any:
        """Return the rows of ``files`` as an Ibis table."""
        prefix = self._reach(place)
        paths = ", ".join(quoted(_literal_path(prefix + place.full(file.path))) for file in files)
        self._sources += 1
        return self._view(
            f"{schema.name}__{self._sources}",
            f"{select_list(schema, files[0].columns, dialect=0)}"
            f" FROM read_parquet([{paths}], hive_partitioning = true, hive_types_autocast = false)",
        )

    def empty(self, schema: TableSchema) -> Any:
        """Return the table without rows."""
        return self._view(f"{schema.name}__0", f"{empty_list(schema, dialect=0)} WHERE false")

    def view(self, name: str, rows: Any) -> Any:
        """Return ``rows`` under a name."""
        return self._connection.create_view(name, rows, overwrite=True)

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()

    def _view(self, name: str, body: str) -> Any:
        # A view, because a statement of thousands of paths is then told once.
        self._connection.raw_sql(f'CREATE OR REPLACE VIEW "{name}" AS {body}')
        return self._connection.table(name)

    def _reach(self, place: Place) -> str:
        """Make ``place`` readable; return what stands before its paths."""
        if place.is_local:
            return ""
        if not self._registered:
            from steelyard.fleet.remote import PROTOCOL, bridge

            self._connection.con.register_filesystem(bridge(place.filesystem))
            self._registered = True
            self._prefix = f"{PROTOCOL}://"
        return self._prefix


def select_list(schema: TableSchema, known: Sequence[str], *, dialect: int) -> str:
    """Return the SELECT of every column of ``schema``, null where it is not ``known``."""
    columns = [
        _name(column.name, dialect)
        if column.name in known
        else _null(column.name, SQL_TYPES[column.type][dialect], dialect)
        for column in schema.columns
    ]
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


def _literal_path(path: str) -> str:
    """Return ``path`` as a pattern that only it matches.

    >>> _literal_path("/tmp/a[1]/b*")
    '/tmp/a[[]1]/b[*]'
    """
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in path)


def lost(error: BaseException) -> EnvironmentLacksError:
    """Return what to say when an engine failed at reading a store."""
    return EnvironmentLacksError(
        f"the store cannot be read: {reason(error)}", hint="look at it: steelyard fleet check"
    )
