"""Runs Ibis expressions: the answer as an Arrow table, and DuckDB in this process.

An expression may be Ibis's own or one that was written down only (``deferred``). Ibis's own way to Arrow and
Arrow's own way to numpy load pandas, which nothing here uses and which takes a third of a second.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard._base import held_back
from steelyard.telemetry.deferred import Compiled, Deferred, compiled, source_of, table


def fetch(expression: Any) -> pa.Table:
    """Return the rows of an Ibis table expression, from whichever engine its tables are on."""
    if isinstance(expression, Deferred):
        source = source_of(expression)
        if source is not None:
            return source.fetch_deferred(expression)
        with contextlib.closing(DuckDB()) as engine:
            return engine.fetch_deferred(expression)
    import ibis.expr.operations as operations

    backend = expression.get_backend()
    # A table that was made here must be shown to the engine first, which only Ibis's own way does.
    if backend.name == "duckdb" and not expression.op().find(operations.InMemoryTable):
        answer: pa.Table = backend.con.sql(backend.compile(expression)).to_arrow_table()
        schema = expression.schema()
        return _with_whole_numbers(answer, [name for name in schema if schema[name].is_integer()])
    if backend.name == "pyspark":
        # By way of pandas, which Ibis takes, a whole number beside a missing one would become a fraction.
        rows: pa.Table = _spark_frame(expression).toArrow()
        return rows
    return expression.to_pyarrow()


def duckdb() -> ModuleType:
    """Return the module, loaded without an interrupt half-way, at which it would abort the process."""
    with held_back():
        import duckdb
    return duckdb


class DuckDB:
    """DuckDB in this process, as the engine of expressions that were written down."""

    def __init__(self, **config: str) -> None:
        self._config = config
        self._kept = 0
        self._is_closed = False

    @functools.cached_property
    def connection(self) -> Any:
        """The engine, started when it is needed first."""
        connection = duckdb().connect(config=dict(self._config))
        if self._is_closed:
            # What is asked of it now is an error of the engine.
            connection.close()
        return connection

    def fetch_deferred(self, expression: Deferred) -> pa.Table:
        """Return the rows of an expression over its tables, as an Arrow table."""
        return self.run(compiled(expression))

    def run(self, query: Compiled) -> pa.Table:
        """Return the rows of a query as an Arrow table."""
        with _shown(self.connection, query.rows):
            return _with_whole_numbers(self.connection.sql(query.sql).to_arrow_table(), query.integers)

    def fetch_batches(self, expression: Deferred, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an expression over its tables in its order, in batches."""
        query = compiled(expression)
        with _shown(self.connection, query.rows):
            yield from self.connection.sql(query.sql).to_arrow_reader(batch_rows)

    def keep(self, expression: Deferred) -> Deferred:
        """Return the same rows, computed once: DuckDB puts them on disk where memory does not hold them."""
        self._kept += 1
        name = f"kept_{self._kept}"
        self.make_table(name, compiled(expression))
        return table(self, name, expression)

    def make_table(self, name: str, query: Compiled) -> None:
        """Put the rows of a query into a table of this engine."""
        with _shown(self.connection, query.rows):
            self.connection.execute(f'CREATE TEMPORARY TABLE "{name}" AS {query.sql}')

    def read_parquet(self, path: Path, name: str) -> None:
        """Give the rows of a file a name."""
        self.connection.from_parquet(literal_path(str(path))).create_view(name)

    def close(self) -> None:
        """Close the connection, and remove what it put on disk."""
        self._is_closed = True
        if "connection" in vars(self):
            self.connection.close()


def literal_path(path: str) -> str:
    """Return ``path`` as a pattern that only it matches.

    >>> literal_path("/tmp/a[1]/b*")
    '/tmp/a[[]1]/b[*]'
    """
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in path)


@contextlib.contextmanager
def _shown(connection: Any, tables: Sequence[pa.Table]) -> Iterator[None]:
    """Show a connection the rows that were made here, by the names that queries know them by."""
    names = [f"made_{number}" for number in range(len(tables))]
    for name, rows in zip(names, tables, strict=True):
        connection.register(name, rows)
    try:
        yield
    finally:
        for name in names:
            connection.unregister(name)


def _with_whole_numbers(table: pa.Table, integers: Sequence[str]) -> pa.Table:
    """Return sums of whole numbers as such: DuckDB adds them up in 128 bits, which Arrow has as decimals.

    A column with a sum beyond 64 bits stays as it is, and exact.
    """
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) and field.name in integers:
            try:
                whole = table.column(place).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(place, field.name, whole)
    return table


def fetch_batches(expression: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an expression in its order, in batches, so that memory never holds all of them.

    Nothing else may be asked of the engine before the last one.
    """
    if isinstance(expression, Deferred):
        source = source_of(expression)
        if source is not None:
            yield from source.fetch_batches(expression, batch_rows)
            return
        with contextlib.closing(DuckDB()) as engine:
            yield from engine.fetch_batches(expression, batch_rows)
        return
    backend = expression.get_backend()
    if backend.name == "pyspark":
        yield from _spark_batches(expression, batch_rows)
        return
    # Ibis 12 asks DuckDB 2 for batches by a name that it no longer has.
    yield from backend.con.sql(backend.compile(expression)).to_arrow_reader(batch_rows)


def _spark_batches(expression: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
    from pyspark.sql.pandas.types import to_arrow_schema

    frame = _spark_frame(expression)
    schema, rows = to_arrow_schema(frame.schema), frame.toLocalIterator()
    while some := [row.asDict() for row in islice(rows, batch_rows)]:
        yield pa.RecordBatch.from_pylist(some, schema=schema)


def _spark_frame(expression: Any) -> Any:
    """Return the rows of an Ibis expression on Spark, with tables that were made here shown to it first."""
    import ibis.expr.operations as operations

    backend = expression.get_backend()
    if expression.op().find(operations.InMemoryTable):
        backend._run_pre_execute_hooks(expression)
    return backend.raw_sql(backend.compile(expression))


def fetch_rows(expression: Any) -> list[dict[str, Any]]:
    """Return the same as one mapping a row, for few rows."""
    rows: list[dict[str, Any]] = fetch(expression).to_pylist()
    return rows


def keep(expression: Deferred) -> Deferred:
    """Return the same rows, computed once where the engine of their tables can keep them."""
    source = source_of(expression)
    return expression if source is None else source.keep(expression)


def floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN where they are missing. Integers are exact up to 2 ** 53."""
    numbers = np.full(len(column), np.nan)
    begin = 0
    for chunk in column.cast(pa.float64(), safe=False).chunks:
        valid, values = chunk.buffers()
        span = slice(chunk.offset, chunk.offset + len(chunk))
        part = numbers[begin : begin + len(chunk)]
        part[:] = np.frombuffer(values, dtype=np.float64)[span]
        if chunk.null_count:
            bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), bitorder="little")
            part[bits[span] == 0] = np.nan
        begin += len(chunk)
    return numbers


def integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the numbers of a column without gaps, exactly. Raises ValueError where one is missing."""
    if column.null_count:
        raise ValueError("a number is missing, and integers cannot be null")
    numbers = np.empty(len(column), dtype=np.int64)
    begin = 0
    for chunk in column.cast(pa.int64()).chunks:
        values = np.frombuffer(chunk.buffers()[1], dtype=np.int64)
        numbers[begin : begin + len(chunk)] = values[chunk.offset : chunk.offset + len(chunk)]
        begin += len(chunk)
    return numbers
