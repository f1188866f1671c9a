"""The part of a report of the Django application: views, and who used the servers' CPUs.

In: `ReportData` of a run of ``django`` or ``social``. Out: `Section`s; what cannot be read is left out.

Not here: metrics of the run (``bench.stack.django.metrics``).
"""

from steelyard.report.answer import Cell, Section, grid, measured
from steelyard.report.bench.operation_table import operation_section
from steelyard.report.model import ReportData
from steelyard.report.sections import load_sections

_SERVERS = ("uwsgi", "cassandra", "memcached")


def sections(data: ReportData) -> list[Section]:
    """Return the sections of the application, then those of the load."""
    shown = [operation_section(data, "view", title="Views"), _servers(data)]
    return [*(section for section in shown if section is not None), *load_sections(data)]


def _servers(data: ReportData) -> Section | None:
    metrics = data.run.metrics
    rows = []
    for name in _SERVERS:
        metric = metrics.get(f"{name}_cpu_share_ratio")
        if metric is not None:
            share = metric.value
            rows.append((Cell(name), measured(share, "ratio")))
    if not rows:
        return None
    table = grid(("server", "share of the servers' CPU time"), tuple(rows))
    return Section("servers", "Servers", (table,), "CPU time in the measure phase.")
