"""The engines that a store's tables are read with.

In: listings. Out: Ibis tables, one for each table of a store, with all its columns and ``date`` and
``cluster``. Invariant: the same rows on every engine.

Not here: which files count (``listing``); what is asked (the queries).
"""

from collections.abc import Sequence
from typing import Any, Protocol

from steelyard._base import UsageError
from steelyard.fleet.files import Place
from steelyard.fleet.listing import Listing, StoreFile
from steelyard.fleet.schema import PARTITIONS, TableSchema

_DUCKDB_TYPES = {
    "string": "VARCHAR",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "bool": "BOOLEAN",
    "list<int64>": "BIGINT[]",
    "list<double>": "DOUBLE[]",
    "map<string,string>": "MAP(VARCHAR, VARCHAR)",
}


class Engine(Protocol):
    """What a store needs of an engine."""

    name: str

    def table(self, place: Place, listing: Listing) -> Any:
        """Return the rows of all files of ``listing`` as an Ibis table."""

    def close(self) -> None:
        """Free what the engine holds."""


def open_engine(name: str) -> Engine:
    """Return the engine ``name``: ``duckdb``. Raises UsageError for another."""
    if name == "duckdb":
        return DuckDBEngine()
    raise UsageError(f"no engine is called {name!r}", hint="duckdb")


class DuckDBEngine:
    """DuckDB in this process: no server, all cores."""

    name = "duckdb"

    def __init__(self) -> None:
        import ibis

        self._connection = ibis.duckdb.connect()

    def table(self, place: Place, listing: Listing) -> Any:
        """Return the rows of all files of ``listing`` as an Ibis table."""
        schema = listing.table
        selects = [
            _select(schema, known, _duckdb_source(place, files))
            for known, files in sorted(listing.groups().items(), key=lambda group: sorted(group[0]))
        ]
        body = " UNION ALL ".join(selects) or _empty(schema)
        # Views, because a statement of thousands of paths is then parsed once.
        self._connection.raw_sql(f'CREATE OR REPLACE VIEW "{schema.name}" AS {body}')
        return self._connection.table(schema.name)

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()


def _select(schema: TableSchema, known: frozenset[str], source: str) -> str:
    columns = [
        f'"{column.name}"' if column.name in known else _null(column.name, _DUCKDB_TYPES[column.type])
        for column in schema.columns
    ]
    columns += [f'"{name}"' for name in PARTITIONS]
    # The source is built from quoted paths alone.
    return f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608


def _empty(schema: TableSchema) -> str:
    columns = [_null(column.name, _DUCKDB_TYPES[column.type]) for column in schema.columns]
    columns += [_null(name, "VARCHAR") for name in PARTITIONS]
    return f"SELECT {', '.join(columns)} WHERE false"


def _null(name: str, kind: str) -> str:
    return f'CAST(NULL AS {kind}) AS "{name}"'


def _duckdb_source(place: Place, files: Sequence[StoreFile]) -> str:
    paths = ", ".join(_quoted(_literal_path(place.full(file.path))) for file in files)
    return f"read_parquet([{paths}], hive_partitioning = true, hive_types_autocast = false)"


def _literal_path(path: str) -> str:
    """Return ``path`` as a pattern that only it matches.

    >>> _literal_path("/tmp/a[1]/b*")
    '/tmp/a[[]1]/b[*]'
    """
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
