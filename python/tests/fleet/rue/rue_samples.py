"""Task samples made up for comparisons by RUE, as an Ibis table like a store's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from steelyard.fleet.store.schema import TABLES
from steelyard.telemetry.deferred import memtable

NOON = 1_767_268_800


def row(**changed: Any) -> dict[str, Any]:
    """Return one task sample; ``labels`` may be a mapping."""
    made: dict[str, Any] = {
        "machine": "m0",
        "platform": "westmere",
        "job": "search",
        "task": "search/0",
        "job_class": "latency-sensitive",
        "window_start_unix_s": NOON,
        "window_s": 60.0,
        "cpu_s": 30.0,
        "operations": 1.0,
        "labels": {},
        "date": "2026-01-01",
        "cluster": "a",
    } | changed
    made["labels"] = list(made["labels"].items()) if isinstance(made["labels"], Mapping) else made["labels"]
    return made


def tables_of(**tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows as tables of one DuckDB connection, with the columns that a store's tables have."""
    made = {}
    for name, rows in tables.items():
        schema = TABLES[name].arrow
        for column in ("date", "cluster"):
            schema = schema.append(pa.field(column, pa.string()))
        made[name] = memtable(pa.Table.from_pylist(list(rows), schema=schema))
    return made


def table_of(rows: Iterable[Mapping[str, Any]], name: str = "task_samples") -> Any:
    """Return rows as one such table."""
    return tables_of(**{name: rows})[name]
