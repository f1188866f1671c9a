"""Small tables of task samples for tests of CPI2's queries."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from steelyard.fleet.cpi.samples import COUNTED
from steelyard.fleet.store.schema import TABLES
from steelyard.telemetry.deferred import memtable

NOON = 1_767_268_800
"""2026-01-01, 12:00 UTC."""
DAY = "2026-01-01"


def sample(minute: int = 0, **changed: Any) -> dict[str, Any]:
    """Return one row of a web task that used one CPU in a minute after noon."""
    usage = changed.pop("usage", 1.0)
    return {
        "machine": "m1",
        "platform": "westmere",
        "job": "web",
        "task": "web/0",
        "job_class": "latency-sensitive",
        "window_start_unix_s": NOON + 60 * minute,
        "window_s": 60.0,
        "cpu_s": None if usage is None else usage * 60.0,
        "reference_cycles": 2_000_000,
        "instructions": 1_000_000,
        "cpi": 2.0,
        "cpi_source": COUNTED,
        "llc_misses": None,
        "operations": None,
        "date": DAY,
        "cluster": "a",
        **changed,
    }


def table(rows: Iterable[dict[str, Any]], name: str = "task_samples") -> Any:
    """Return rows as an Ibis table with the types of the store's table ``name``."""
    found = list(rows)
    schema = TABLES[name].arrow
    for partition in ("date", "cluster"):
        schema = schema.append(pa.field(partition, pa.string()))
    if name == "task_samples":
        schema = pa.schema([schema.field(column) for column in sample()])
    return memtable(pa.Table.from_pylist(found, schema=schema))


def thresholds(value: float, job: str = "web", platform: str = "westmere", source: str = COUNTED) -> Any:
    """Return a table of one spec."""
    columns = {"job": [job], "platform": [platform], "cpi_source": [source], "threshold_cpi": [value]}
    return memtable(pa.table(columns))
