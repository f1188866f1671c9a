"""The words and tables of a report page, ready for its template.

In: `ReportData`. Out: a mapping of plain values. Every text from outside stays text: the template escapes it.
"""

import itertools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from steelyard.analyze.rules.findings import Evidence, Finding
from steelyard.bench import declaration
from steelyard.records import Level, Metric, Run, RunStatus
from steelyard.report import format as fmt
from steelyard.report import runs
from steelyard.report.answer import (
    Answer,
    Chart,
    Column,
    Output,
    Remark,
    Remarks,
    Section,
    Table,
    Tile,
    Timeline,
    table,
)
from steelyard.report.bench.repeats import repeats
from steelyard.report.bench.sides import side_sections
from steelyard.report.bench.steps import steps_section
from steelyard.report.details import details
from steelyard.report.machine.charts import cpu_charts, machine_charts
from steelyard.report.machine.table import machine_line
from steelyard.report.metrics import figure_and_noun, metric_name, metric_text
from steelyard.report.model import MACHINE_LACK, ReportData
from steelyard.report.sections import workload_sections
from steelyard.report.unmeasured import without_missing

_TILES_AT_MOST = 8
_PROCESSES_AT_MOST = 12
_SOURCE_WORDS = {
    "default": "default",
    "machine": "chosen for this machine",
    "set": "set by the command",
}


def answer(data: ReportData, *, is_beside: bool = True) -> Answer:
    """Return everything the page shows; ``is_beside``: it lies in the run's folder, near others' pages."""
    run = data.run
    measured = [_laid_out(section) for section in _measured(data)]
    if not data.complete:
        # Of a run that broke, only what there is: the list of what is missing has the rest.
        measured = [section for section in measured if section.blocks]
    found = repeats(data, is_beside=is_beside)
    beside = [] if found is None else [found]
    sections = [*_logs(data), *_findings(data), *beside, *measured, *details(data)]
    suite = _suite_page(data) if is_beside else ""
    return Answer(
        runs.title(run),
        _heading(data),
        sections,
        lines=_lines(data),
        figure=_headline(data) if state(run) is None else None,
        remarks=Remarks(tuple(runs.reasons(run))),
        tiles=_tiles(data),
        level=runs.level_of(run),
        verdict=runs.word_of(run),
        eyebrow=f"run of suite {run.suite}" if run.suite and not suite else "run",
        up=(f"suite {run.suite}", suite) if suite else None,
        command=shlex.join(run.command),
        command_title="Repeat this run",
        source=f"raw records in this folder; run with Steelyard {run.steelyard_version}",
        time_axis={
            "zero": "the start of the measure phase" if data.measure else "the start of the run",
            "phases": _phase_spans(data),
        },
    )


def _heading(data: ReportData) -> str:
    broken = state(data.run)
    if broken is not None:
        return broken["title"]
    headline = _headline(data)
    return "No metric was measured" if headline is None else f"{headline.text} {headline.name}"


def _lines(data: ReportData) -> list[str]:
    """Return what stands under the headline: why a run broke, its score, what limits it, machine and time."""
    run, broken = data.run, state(data.run)
    checks = run.verdict.checks if run.verdict is not None else []
    passed = run.verdict is not None and run.verdict.level is Level.VALID
    return [
        "" if broken is None else broken["reason"],
        *(runs.score_lines(data.score) if data.score is not None else []),
        _says(data),
        f"All {len(checks)} checks passed." if passed and not runs.reasons(run) else "",
        machine_line(data.machine) or _no_machine(data),
        fmt.moment(run.clock.realtime_ns),
    ]


def _no_machine(data: ReportData) -> str:
    """Return why there is no line of the machine."""
    reasons = [lack.reason for lack in data.lacking if lack.name == MACHINE_LACK]
    return f"The machine is not known: {reasons[0]}." if reasons else ""


def _measured(data: ReportData) -> list[Section]:
    """Return what was measured, in reading order: of the benchmark, then of the machine."""
    sets, panels = cpu_charts(data)
    # A page of somebody else's program has these in sections of its own.
    describes = declaration.of_run(data.run.benchmark).describes
    return [
        *(_with_percentiles(section, data) for section in workload_sections(data)),
        *steps_section(data),
        *([] if describes else side_sections(data)),
        Section("cpu", "CPU", (*sets,), _cpu_intro(data)),
        *_panels(panels),
        Section("machine", "Memory, network, scheduler", (*machine_charts(data),)),
    ]


def _panels(panels: Sequence[Timeline]) -> list[Section]:
    """Return the charts of single CPUs; a map of all CPUs has the whole width."""
    if not panels:
        return []
    is_map = panels[0].kind == "heat"
    title = "Every CPU" if is_map else "Each CPU by mode"
    return [Section("each-cpu", title, (*panels,), small=not is_map)]


def _laid_out(section: Section) -> Section:
    """Return a section with what it has: what is missing said apart, some charts alone in a row.

    Those are the first over time, and one that would stand alone.
    """
    section, missing = without_missing(section)
    charts = [block for block in section.blocks if isinstance(block, Chart | Timeline)]
    is_grid = len(charts) > 1 and not section.small
    if is_grid and section.anchor == "time":
        first = replace(charts[0], wide=True)
        blocks = tuple(first if block is charts[0] else block for block in section.blocks)
        section = replace(section, blocks=blocks)
    return replace(section, missing=tuple(missing), grid=is_grid)


def _with_percentiles(section: Section, data: ReportData) -> Section:
    """Return the section, that of percentiles with their table."""
    if section.anchor != "percentiles":
        return section
    return replace(section, blocks=(*section.blocks, *_latency_table(data)))


def _logs(data: ReportData) -> list[Section]:
    outputs = tuple(Output(name, text) for name, text in data.logs.items())
    return [Section("logs", "Last output of the processes", outputs)] if outputs else []


def _findings(data: ReportData) -> list[Section]:
    time = data.conditions.headline.time
    cards = tuple(_finding(finding, time) for finding in data.findings)
    return [Section("why", "Findings", (Remarks(cards, are_cards=True),))] if cards else []


def _says(data: ReportData) -> str:
    """Return what limits the run in one sentence; empty where no rule is sure, or the run is no result."""
    if not data.complete or (data.run.verdict is not None and data.run.verdict.level is Level.INVALID):
        return ""
    first = next((one for one in data.findings if one.explained_ratio is not None and one.sure), None)
    return "" if first is None else first.claim


def _suite_page(data: ReportData) -> str:
    """Return where the page of the run's suite is, relative to the run's own; empty where there is none."""
    if data.run.suite is None or not (data.folder.parent / "suite.json").is_file():
        return ""
    return "../report.html"


def state(run: Run) -> dict[str, str] | None:
    """Return the banner of a run without a result, None for a complete one."""
    if run.status is RunStatus.COMPLETE:
        return None
    if run.status is RunStatus.RUNNING:
        title, fallback = "This run is under way", "The report shows the data recorded so far."
    else:
        title = "This run is incomplete: it has no result"
        fallback = "The record gives no reason."
    reason = run.status_reason or fallback
    return {"title": title, "reason": reason[:1].upper() + reason[1:]}


def _metric(name: str, metric: Metric, benchmark: str) -> Tile:
    note = metric.missing or {"higher": "more is better", "lower": "less is better"}.get(
        metric.better or "", ""
    )
    return Tile(
        metric_name(name, benchmark),
        metric_text(name, metric),
        f"{name} = {fmt.raw(metric.value, metric.unit)}",
        note,
    )


def _headline(data: ReportData) -> Tile | None:
    """Return the first metric with its figure and its noun apart, so that the figure can stand out."""
    name = data.headline[0] if data.headline else None
    if name is None or name not in data.run.metrics:
        return None
    metric = data.run.metrics[name]
    figure, noun = figure_and_noun(name, metric, data.run.benchmark)
    return Tile(noun, figure, _metric(name, metric, data.run.benchmark).raw)


def _tiles(data: ReportData) -> list[Tile]:
    names = [name for name in data.headline[1:] if name in data.run.metrics]
    measured = [name for name in names if data.run.metrics[name].value is not None]
    tiles = (_metric(name, data.run.metrics[name], data.run.benchmark) for name in measured)
    # Which way is better stands in the table of all metrics.
    return [replace(tile, note="") for tile in itertools.islice(tiles, _TILES_AT_MOST)]


def _finding(finding: Finding, time: str) -> Remark:
    figures = tuple(
        Tile(
            item.metric,
            fmt.quantity(item.value, item.unit),
            fmt.raw(item.value, item.unit),
            "" if item.bound is None else f"against {fmt.quantity(item.bound, item.unit)}",
        )
        for item in (*_explained(finding, time), *finding.evidence)
    )
    details = [("Next", finding.next_step)]
    details += [("Expect", finding.gain)] if finding.gain else []
    hint = f"Bound: {finding.threshold}" if finding.threshold else ""
    return Remark(
        " ".join((finding.claim, *finding.also)), details=tuple(details), figures=figures, hint=hint
    )


def _explained(finding: Finding, time: str) -> tuple[Evidence, ...]:
    """Return how much of the headline's time a finding explains, as the first of its evidence."""
    if finding.explained_ratio is None:
        return ()
    return (Evidence(f"explains of {time}", finding.explained_ratio, "ratio"),)


def _latency_table(data: ReportData) -> list[Table]:
    """Return the percentiles of the load's latencies; nothing where loads follow each other.

    Those have a table of their own, a row each.
    """
    if not data.loads or data.run.steps:
        return []
    latency = data.loads[0].latency
    columns = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9", "p9999": "p99.99"}
    columns["max"] = "max"
    rows = []
    for name, meaning in (
        ("response", "from the intended time"),
        ("service", "from the send"),
        ("queued", "waiting for a free connection"),
        ("lag", "delay in the load generator"),
    ):
        summary = getattr(latency, name)
        # Before 1.1, what was queued counted as lag; a closed loop queues only while a connection is lost.
        if summary is not None and not (name == "queued" and not summary.max_ns):
            values = [getattr(summary, f"{column}_ns") for column in columns]
            rows.append((f"{name}, {meaning}", *values, summary.count))
    of = "" if len(data.loads) == 1 else f" Of the first of {len(data.loads)} generators."
    heads = [
        Column("latency", is_text=True),
        *(Column(column, "ns") for column in columns.values()),
        Column("requests", "count"),
    ]
    return [table(heads, rows, caption=f"Latency in the measure phase.{of}")]


def _cpu_intro(data: ReportData) -> str:
    parts = []
    for each in (data.conditions.cpus.server, data.conditions.cpus.load):
        if each.use is not None and data.conditions.has_load and not data.conditions.cpus.shared:
            kernel = each.use.kernel_ratio
            tail = f", {fmt.quantity(kernel, 'ratio')} of it in the kernel" if kernel is not None else ""
            parts.append(f"{each.name}: {fmt.quantity(each.use.busy_ratio, 'ratio')} busy{tail}")
    use = data.conditions.cpus.all.use
    if not parts and use is not None:
        kernel = use.kernel_ratio
        tail = f", {fmt.quantity(kernel, 'ratio')} of it in the kernel" if kernel is not None else ""
        parts.append(f"all CPUs: {fmt.quantity(use.busy_ratio, 'ratio')} busy{tail}")
    return "In the measure phase: " + "; ".join(parts) + "." if parts else ""


def _phase_spans(data: ReportData) -> list[dict[str, Any]]:
    return [
        {
            "name": phase.name,
            "begin": (phase.begin_ns - data.zero_ns) / 1e9,
            "end": ((phase.end_ns or data.end_ns) - data.zero_ns) / 1e9,
        }
        for phase in data.run.phases
        if phase.begin_ns >= data.begin_ns
    ]
