"""The table of a load's operations: throughput and latency of each.

In: `ReportData` of a run whose load did several operations. Out: a `Section`, None where there is no load.
"""

from steelyard._base import SteelyardError
from steelyard.records import LoadOperations, LoadResult, read
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Section, grid, measured
from steelyard.report.model import ReportData

_PERCENTILES = ("p50", "p90", "p95", "p99", "p999")


def operation_section(
    data: ReportData, names: str = "operation", *, title: str = "Operations"
) -> Section | None:
    """Return the table of ``load.json``; ``names`` is what an operation is called here."""
    try:
        load = read(LoadResult, data.folder / "load.json")
    except SteelyardError:
        return None
    seconds = (load.end_ns - load.begin_ns) / 1e9
    total = sum(counts.completed for counts in load.operations.values())
    rows = tuple(_row(name, counts, seconds, total) for name, counts in load.operations.items())
    columns = (names, "requests/s", "share", *(level.replace("p999", "p99.9") for level in _PERCENTILES))
    intro = "Requests that were due in the measure phase and completed. Latency is response time."
    if load.requests.errors:
        intro += f" {fmt.several(load.requests.errors, 'request')} failed and are not in the table."
    return Section("operations", title, (grid(columns, rows),), intro)


def _row(name: str, counts: LoadOperations, seconds: float, total: int) -> tuple[Cell, ...]:
    rate = counts.completed / seconds
    cells = [
        Cell(name.replace("_", " ")),
        measured(rate, "1/s"),
        measured(counts.completed / total if total else None, "ratio"),
    ]
    for level in _PERCENTILES:
        number = None if counts.response is None else getattr(counts.response, f"{level}_ns")
        cells.append(measured(number, "ns"))
    return tuple(cells)
