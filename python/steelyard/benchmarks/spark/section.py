"""SparkBench's part of a report: running tasks over time, and the figures of each stage.

In: `ReportData` of a run of ``spark``. Out: `Section`s.
"""

import json
from typing import Any

import numpy as np

from steelyard._base import SteelyardError, read_regular
from steelyard.benchmarks.spark.metrics import STEPS
from steelyard.report.answer import Cell, Section, Timeline, Trace, absent, grid, measured
from steelyard.report.model import ReportData
from steelyard.report.running import running
from steelyard.report.workload_charts import seconds, window_of

STAGES = "stages.json"
MOST_BYTES = 256 << 20
_WORDS = {"first_scan": "first scan", "second_scan": "second scan", "compare": "comparison"}
_COLUMNS = (
    *("query", "stage", "time", "tasks", "rows read", "read", "shuffled", "spilled", "written"),
    *("CPU use", "garbage collection"),
)
_DID = (
    *("tasks", "failed", "CPU time", "read", "written", "shuffle written", "shuffle read"),
    *("from other executors", "spilled", "garbage collection"),
)
_SEEN = (
    ("cpu_ratio", "ratio", "CPU use"),
    ("least_available_bytes", "bytes", "least memory available"),
    ("disk_read_bytes_per_s", "bytes/s", "disks, read"),
    ("disk_written_bytes_per_s", "bytes/s", "disks, written"),
    ("network_received_bytes_per_s", "bytes/s", "network, received"),
    ("network_sent_bytes_per_s", "bytes/s", "network, sent"),
)


def sections(data: ReportData) -> list[Section]:
    """Return the chart of running tasks and the table of stages."""
    document = _stages(data)
    queries = document.get("queries", [])
    rows = tuple(
        _row(query["name"], step, query["steps"][step], document["slots"])
        for query in queries
        for step in STEPS
    )
    intro = (
        "Each query scans two weeks of the fact table, joins them with the dimensions and shuffles them by"
        " user; the last stage compares the weeks and writes a table. The scans may overlap. CPU use is of"
        " all task slots; garbage collection is its share of the tasks' time."
    )
    return [
        Section("time", "Over time", (_running(data, queries),), "The shaded area is the measure phase."),
        Section("stages", "Stages", (grid(_COLUMNS, rows),), intro),
        *_hosts(document),
    ]


def _hosts(document: dict[str, Any]) -> list[Section]:
    """Return what the executors of each host did, and the telemetry of each."""
    hosts = document.get("hosts", [])
    if not hosts:
        return []
    did = tuple(
        _did(host["host"], str(len(host["did"]["id"].split())), host["did"]) for host in hosts if host["did"]
    )
    each = tuple(_did(executor["host"], executor["id"], executor) for executor in document["executors"])
    tables = [grid(("host", "executors", *_DID), did)]
    if len(each) > len(did):
        tables.append(grid(("host", "executor", *_DID), each))
    seen = tuple(
        (
            Cell(host["host"]),
            *(_figure(host["telemetry"][name], unit) for name, unit, _ in _SEEN),
            Cell("" if host["did"] else "no executor was here", is_text=True),
        )
        for host in hosts
        if "telemetry" in host
    )
    if seen:
        tables.append(grid(("host", *(words for _, _, words in _SEEN), "note"), seen))
    unseen = tuple(
        (Cell(host["host"]), Cell(host["missing"], is_text=True)) for host in hosts if "missing" in host
    )
    if unseen:
        tables.append(grid(("host", "telemetry is missing"), unseen))
    intro = (
        "Sums over tasks of the measured queries, by host of their executor; then telemetry of whole hosts"
        " over the measured queries, in which those of one machine have the same."
    )
    return [Section("hosts", "Hosts", (*tables,), intro)]


def _did(host: str, executors: str, did: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        Cell(host),
        Cell(executors),
        _figure(did["tasks"], "1"),
        _figure(did["failed_tasks"], "1"),
        _figure(did["cpu_s"], "s"),
        _figure(did["read_bytes"], "bytes"),
        _figure(did["written_bytes"], "bytes"),
        _figure(did["shuffle_written_bytes"], "bytes"),
        _figure(did["shuffle_read_bytes"], "bytes"),
        _figure(did["remote_read_bytes"], "bytes"),
        _figure(did["spilled_disk_bytes"], "bytes"),
        _figure(did["gc_s"] / did["run_s"] if did["run_s"] else None, "ratio"),
    )


def _figure(value: float | None, unit: str) -> Cell:
    return measured(value, unit)


def _stages(data: ReportData) -> dict[str, Any]:
    """Return what the run wrote of its stages, {} where that cannot be read."""
    try:
        found: dict[str, Any] = json.loads(read_regular(data.folder / STAGES, at_most_bytes=MOST_BYTES))
    except (OSError, ValueError, SteelyardError):
        return {}
    return found


def _running(data: ReportData, queries: list[dict[str, Any]]) -> Timeline:
    """Return the tasks that ran at each moment, by stage."""
    traces = []
    for at, step in enumerate(STEPS):
        spans = [span for query in queries for span in query["steps"][step]["spans_ns"]]
        if not spans:
            continue
        times, counts = running(spans)
        # A count holds until the next change.
        x = seconds(data, np.repeat(times, 2)[1:].tolist())
        traces.append(Trace(_WORDS[step], f"line{at}", np.repeat(counts, 2)[:-1].astype(np.float64), x=x))
    if not traces:
        return absent("tasks", "Running tasks", "the run left no times of tasks")
    note = "Spark notes the end of a task shortly after the start of the next: both count for a moment."
    return Timeline(
        "tasks", "Running tasks", unit="1", traces=tuple(traces), window=window_of(data), note=note
    )


def _row(query: str, step: str, stage: dict[str, Any], slots: int) -> tuple[Cell, ...]:
    length_ns = stage["end_ns"] - stage["begin_ns"]

    available_s = length_ns / 1e9 * slots
    return (
        Cell(query),
        Cell(_WORDS[step], is_text=True),
        measured(length_ns, "ns"),
        _figure(stage["tasks"], "1"),
        _figure(stage["read_rows"], "1"),
        _figure(stage["read_bytes"], "bytes"),
        _figure(stage["shuffle_written_bytes"] + stage["shuffle_read_bytes"], "bytes"),
        _figure(stage["spilled_disk_bytes"], "bytes"),
        _figure(stage["written_bytes"], "bytes"),
        _figure(stage["cpu_s"] / available_s if available_s else None, "ratio"),
        _figure(stage["gc_s"] / stage["run_s"] if stage["run_s"] else None, "ratio"),
    )
