"""What a page shows of one benchmark: sections of charts and tables.

In: `ReportData`. Out: `Section`s in reading order, plain values only. A benchmark brings its own by the
function that its declaration names; without one the page shows what any load leaves behind.

Not here: the sections about the machine (``page``), which every run has.
"""

from typing import TYPE_CHECKING

from steelyard.bench import declaration
from steelyard.report.answer import Section
from steelyard.report.workload_charts import percentile_chart, workload_charts

if TYPE_CHECKING:
    from steelyard.report.model import ReportData


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
        missing = Section("sections", declared.title, (), missing=(("sections of the benchmark", reason),))
        return [missing, *load_sections(data)]


def load_sections(data: "ReportData") -> list[Section]:
    """Return what a load leaves behind: throughput and latency over time, and latency by percentile."""
    return [
        Section("time", "Over time", (*workload_charts(data),), "The shaded area is the measure phase."),
        Section("percentiles", "Latency", (percentile_chart(data),)),
    ]
