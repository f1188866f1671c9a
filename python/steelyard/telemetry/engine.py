"""Runs Ibis expressions: the answer as an Arrow table, and the engine that recordings are read with.

Ibis's own way to Arrow loads pandas, which nothing here uses and which takes a third of a second.
"""

from typing import Any

import pyarrow as pa


def fetch(expression: Any) -> pa.Table:
    """Return the rows of an Ibis table expression, from whichever engine its tables are on."""
    backend = expression.get_backend()
    if backend.name == "duckdb":
        table: pa.Table = backend.con.sql(backend.compile(expression)).to_arrow_table()
        return table
    return expression.to_pyarrow()


def fetch_rows(expression: Any) -> list[dict[str, Any]]:
    """Return the same as one mapping a row, for few rows."""
    rows: list[dict[str, Any]] = fetch(expression).to_pylist()
    return rows
