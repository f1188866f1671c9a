"""Rows of task samples that are true, a store of them, and what is read from one."""

import pyarrow as pa

from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import open_store, write_rows
from steelyard.telemetry.engine import fetch_rows

DAY, NOON = "2026-01-01", 1_767_268_800
FOLDER = f"task_samples/schema=2/date={DAY}/cluster=a"


def rows(machine="m1", windows=3, tasks=2, start=NOON, **changed):
    """Return task samples that are all true."""
    base = [
        {
            "machine": machine,
            "platform": "westmere",
            "job": "search",
            "task": f"{machine}/{task}",
            "job_class": "batch",
            "window_start_unix_s": start + 60 * window,
            "window_s": 60.0,
            "cpu_s": 30.0,
            "reference_cycles": 60_000_000_000,
            "instructions": 40_000_000_000,
            "cpi": 1.5,
            "cpi_source": "cycles/instructions",
            "labels": [],
            **changed,
        }
        for window in range(windows)
        for task in range(tasks)
    ]
    schema = TABLES["task_samples"].arrow
    return pa.Table.from_pylist(base, schema=pa.schema([schema.field(name) for name in base[0]]))


def write(store, table, machine="m1", date=DAY, **options):
    path = write_rows(str(store), "task_samples", table, cluster="a", date=date, machine=machine, **options)
    return store / path


def read(store):
    """Return the store's tasks, windows and CPU times, and why files were put aside."""
    return read_url(str(store))


def read_url(url):
    """Return the same of a store anywhere."""
    with open_store(url) as opened:
        table = opened.table("task_samples")
        got = fetch_rows(table.select("machine", "task", "window_start_unix_s", "cpu_s"))
        reasons = {problem.path.rsplit("/", 1)[-1]: problem.reason for problem in opened.problems}
    return sorted((row["task"], row["window_start_unix_s"], row["cpu_s"]) for row in got), reasons


TRUE = sorted((f"m1/{task}", NOON + 60 * window, 30.0) for window in range(3) for task in range(2))
