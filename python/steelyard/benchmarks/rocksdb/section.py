"""RocksDB's part of a report: each step's throughput over time, and its figures.

In: `ReportData` of a run of ``rocksdb``. Out: `Section`s.
"""

import numpy as np

from steelyard.benchmarks.rocksdb.output import rates
from steelyard.report.answer import Cell, Section, Timeline, Trace, absent, grid, measured
from steelyard.report.model import ReportData
from steelyard.report.workload_charts import window_of

_COLUMNS = ("step", "operations/s", "p50", "p99", "CPU time per operation")
_WRITING = "readwhilewriting"
_WRITES = "Operations of readwhilewriting are reads; their CPU time includes that of the writing thread."


def sections(data: ReportData) -> list[Section]:
    """Return the chart of throughput and the table of the steps."""
    traces = []
    for at, step in enumerate(data.run.steps):
        values = rates(data.folder / f"rates-{step.name}.csv")
        if values:
            # The first second, which opens the database, is not among them.
            x = (step.begin_ns - data.zero_ns) / 1e9 + 1.5 + np.arange(len(values), dtype=np.float64)
            # db_bench's rates are of all its threads, its results of those that read.
            name = f"{step.name} and its writes" if step.name.startswith(_WRITING) else step.name
            traces.append(Trace(name, f"line{at % 8}", np.asarray(values), x=x, mode="lines+markers"))
    chart = (
        Timeline("throughput", "Throughput", unit="1/s", traces=tuple(traces), window=window_of(data))
        if traces
        else absent("throughput", "Throughput", "no step lasted two seconds")
    )
    rows = tuple(_row(data, step.name) for step in data.run.steps)
    has_writes = any(step.name.startswith(_WRITING) for step in data.run.steps)
    return [
        Section("time", "Over time", (chart,), "The shaded area is the measure phase."),
        Section("operations", "Operations", (grid(_COLUMNS, rows),), _WRITES if has_writes else ""),
    ]


def _row(data: ReportData, step: str) -> tuple[Cell, ...]:
    def cell(metric: str) -> Cell:
        found = data.run.metrics.get(f"{step}_{metric}")
        value, unit = (found.value, found.unit) if found is not None else (None, None)
        return measured(value, unit)

    return (Cell(step), cell("per_s"), cell("p50_ns"), cell("p99_ns"), cell("cpu_per_operation_ns"))
