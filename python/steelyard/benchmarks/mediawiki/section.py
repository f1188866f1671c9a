"""MediaWiki's part of a report: kinds of page, CPU time by server, cache and database, the load over time.

In: `ReportData` of a run of ``mediawiki``. Out: `Section`s; what is missing says why.

Not here: metrics of the run (``bench.mediawiki.metrics``).
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from steelyard._base import RecordError, read_regular
from steelyard.records import Metric
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Chart, Section, Table, Timeline, grid, measured
from steelyard.report.bench.operation_table import operation_section
from steelyard.report.model import ReportData
from steelyard.report.sections import load_sections

_SERVERS = (
    ("nginx", "nginx", "passes requests on"),
    ("php_fpm", "PHP-FPM", "runs MediaWiki"),
    ("mariadb", "MariaDB", "answers queries"),
    ("memcached", "memcached", "keeps parsed pages, messages, sessions"),
)
_PROGRAMS = {
    "mediawiki": "MediaWiki",
    "php": "PHP",
    "nginx": "nginx",
    "mariadb": "MariaDB",
    "memcached": "memcached",
}
_LOAD_CHARTS = ("throughput", "latency", "percentiles")
"""Charts of a load whose server is no cache of Steelyard's."""


def sections(data: ReportData) -> list[Section]:
    """Return the sections of MediaWiki: pages, servers, and load in the measure phase."""
    metrics = data.run.metrics
    pages = operation_section(data, "page", title="Pages")
    shown = [replace(pages, intro=f"{_wiki(data)} {pages.intro}".strip())] if pages is not None else []
    if "server_cpu_ratio" in metrics:
        shown.append(
            Section(
                "servers",
                "Servers",
                (
                    _servers(metrics),
                    _stores(metrics),
                ),
            )
        )
    for section in load_sections(data):
        kept = tuple(
            chart
            for chart in section.blocks
            if isinstance(chart, Chart | Timeline) and chart.id in _LOAD_CHARTS
        )
        shown.append(Section(section.anchor, section.title, (*kept,), section.intro))
    return shown


def _wiki(data: ReportData) -> str:
    """Say what the wiki holds, and with which programs."""
    try:
        facts: dict[str, Any] = json.loads(read_regular(data.folder / "wiki.json"))
        # Without what a distribution adds to a version.
        versions = ", ".join(
            f"{title} {facts['versions'][name].partition('-')[0]}" for name, title in _PROGRAMS.items()
        )
        return (
            f"A generated wiki of {fmt.count(facts['articles'])} articles: {fmt.count(facts['pages'])} pages"
            f" with {fmt.count(facts['revisions'])} revisions. {versions}."
        )
    except (RecordError, ValueError, KeyError, TypeError, AttributeError):
        return ""


def _cell(metric: Metric | None) -> Cell:
    """Return a metric's figure, or why there is none."""
    if metric is None:
        return Cell("–")
    if metric.value is None:
        return Cell("–", metric.missing or "")
    return measured(metric.value, metric.unit)


def _servers(metrics: Mapping[str, Metric]) -> Table:
    rows = tuple(
        (Cell(title), _cell(metrics.get(f"{name}_cpu_ratio")), Cell(does, is_text=True))
        for name, title, does in _SERVERS
    )
    whole = (
        Cell("all"),
        _cell(metrics.get("server_cpu_ratio")),
        Cell(
            f"{_cell(metrics.get('server_cpu_user_ratio')).text} in user mode,"
            f" {_cell(metrics.get('server_cpu_system_ratio')).text} in the kernel",
            is_text=True,
        ),
    )
    return grid(
        ("server", "CPU", "work"),
        (*rows, whole),
        caption="Share of the servers' CPUs over the measure phase.",
    )


def _stores(metrics: Mapping[str, Metric]) -> Table:
    def number(name: str) -> Cell:
        metric = metrics.get(name)
        if metric is None or metric.value is None:
            return _cell(metric)
        return measured(metric.value, metric.unit, text=fmt.significant(metric.value))

    rows = (
        (
            "memcached hit ratio",
            _cell(metrics.get("memcached_hit_ratio")),
            "look-ups that found their object",
        ),
        ("memcached look-ups", number("memcached_gets_per_request"), "per request"),
        ("database queries", number("queries_per_request"), "per request"),
        ("CPU time", _cell(metrics.get("cpu_per_request_ns")), "per request, of all servers"),
        (
            "load's CPU share",
            _cell(metrics.get("load_cpu_share_ratio")),
            "of the CPU time of load and servers",
        ),
        ("start to first page", _cell(metrics.get("ready_s")), "with the copy of the wiki's data"),
    )
    return grid(
        ("cache and database", "value", "meaning"),
        tuple((Cell(name), cell, Cell(meaning, is_text=True)) for name, cell, meaning in rows),
    )
