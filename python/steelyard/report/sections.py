"""What a page shows of one benchmark: sections of charts and tables.

In: `ReportData`. Out: `Section`s in reading order, plain values only. A benchmark brings its own by the
function that its declaration names; without one the page shows what any load leaves behind.

Not here: the sections about the machine (``page``), which every run has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.bench import declaration
from steelyard.report.chart import Chart
from steelyard.report.workload_charts import percentile_chart, workload_charts

if TYPE_CHECKING:
    from steelyard.report.model import ReportData


@dataclass(frozen=True)
class Cell:
    """One figure: as people write it, and as it stands in the record. ``level`` colours it as a verdict."""

    text: str
    raw: str = ""
    level: str | None = None
    words: bool = False
    """Whether it is text, which stands at the left and may be broken over lines."""
    bar: float | None = None
    """Share of a rail to fill, 0 to 1: a bar instead of text."""


@dataclass(frozen=True)
class Table:
    """Rows under columns; the first cell of each row names it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    closed: bool = False
    """Whether it opens by its caption: raw values behind the figures of another table."""

    def judges(self, column: int) -> bool:
        """Whether a column holds verdicts."""
        return any(row[column].level for row in self.rows)


@dataclass(frozen=True)
class Section:
    """A heading with charts and tables, and a piece of HTML after them. ``wide`` names charts that take a
    row of their own.
    """

    anchor: str
    title: str
    intro: str = ""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    wide: frozenset[str] | None = None
    fragment: Callable[[str], str] | None = None
    """Makes a piece of HTML of ours, escaped by whoever makes it, from the nonce of the page."""
    lead: Callable[[str], str] | None = None
    """Makes such a piece that stands before the charts."""
    missing: tuple[tuple[str, str], ...] = ()
    """What could not be measured, each with its reason, beside rows and charts that say so themselves."""


def workload_sections(data: "ReportData") -> list[Section]:
    """Return what to show of the run's benchmark."""
    declared = declaration.of_run(data.run.benchmark)
    try:
        make = declaration.load(declared.sections, f"sections of {declared.name}")
        return list(make(data))
    except Exception as error:
        if declaration.is_built_in(declared.name):
            raise
        # Somebody else's sections must not cost the report of what was measured.
        reason = f"{declared.sections} failed: {type(error).__name__}: {error}"
        missing = Section("sections", declared.title, missing=(("sections of the benchmark", reason),))
        return [missing, *load_sections(data)]


def load_sections(data: "ReportData") -> list[Section]:
    """Return what a load leaves behind: throughput and latency over time, and latency by percentile."""
    return [
        Section("time", "Over time", "The shaded area is the measure phase.", tuple(workload_charts(data))),
        Section("percentiles", "Latency", "", (percentile_chart(data),)),
    ]
