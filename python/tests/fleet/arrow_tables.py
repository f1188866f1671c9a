"""Small tables of a store, made of rows or columns, on a DuckDB connection of their own."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.fleet.store.schema import TABLES
from steelyard.telemetry.deferred import memtable

DAY = "2026-01-01"
MIDNIGHT = 1_767_225_600
_DEFAULTS: dict[str, dict[str, Any]] = {
    "profiles": {
        "machine": "m0",
        "platform": "skylake",
        "job": "search",
        "task": "search/0",
        "window_start_unix_s": MIDNIGHT,
        "window_s": 60.0,
        "event": "cycles",
        "hz": 99.0,
        "samples": 1,
        "weight": 1e7,
        "sampled_ratio": 0.1,
    },
    "task_samples": {
        "machine": "m0",
        "platform": "skylake",
        "job": "search",
        "task": "search/0",
        "job_class": "latency-sensitive",
        "window_start_unix_s": MIDNIGHT,
        "window_s": 60.0,
        "cpu_s": 30.0,
        "labels": {},
    },
    "machines": {"machine": "m0", "platform": "skylake", "seen_unix_s": MIDNIGHT, "labels": {}},
    "machine_samples": {
        "machine": "m0",
        "platform": "skylake",
        "window_start_unix_s": MIDNIGHT,
        "window_s": 60.0,
        "threads": 8,
        "cpu_s": 240.0,
        "labels": {},
    },
    "symbols": {"build_id": "ab", "module": "prog", "start": 0, "size": 16, "name": "f"},
}


class Fleet:
    """Tables by name, as a store gives them."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}

    def put(self, name: str, rows: Iterable[Mapping[str, Any]] = (), **columns: Any) -> "Fleet":
        """Make the table ``name`` of ``rows``, or of whole columns; what is not given is as by default."""
        listed = [{**_DEFAULTS[name], "date": DAY, "cluster": "a", **row} for row in rows]
        if columns:
            length = max(len(column) for column in columns.values())
            fill = {**_DEFAULTS[name], "date": DAY, "cluster": "a"}
            made = {key: pa.array([value] * length) for key, value in fill.items() if key not in columns}
            made |= {key: pa.array(np.asarray(column)) for key, column in columns.items()}
            found = pa.table(made)
        else:
            found = None
        arrays, fields = [], []
        extra = (pa.field("date", pa.string()), pa.field("cluster", pa.string()))
        for field in (*TABLES[name].arrow, *extra):
            fields.append(pa.field(field.name, field.type))
            if found is not None and field.name in found.column_names and field.name != "labels":
                arrays.append(found[field.name].cast(field.type))
            elif found is not None and field.name == "labels":
                arrays.append(pa.array([[] for _ in range(len(found))], field.type))
            elif found is not None:
                arrays.append(pa.nulls(len(found), field.type))
            else:
                values = [row.get(field.name) for row in listed]
                values = [list(v.items()) if isinstance(v, dict) else v for v in values]
                arrays.append(pa.array(values, field.type))
        self.known[name] = memtable(pa.table(arrays, schema=pa.schema(fields)))
        return self

    def table(self, name: str) -> Any:
        """Return a table; an empty one where none was put."""
        if name not in self.known:
            self.put(name)
        return self.known[name]
