"""The words and tables of a report page, ready for its template.

In: `ReportData`. Out: a mapping of plain values. Every text from outside stays text: the template escapes it.
"""

import itertools
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from steelyard.analyze.checks import advice
from steelyard.analyze.rules.findings import Evidence, Finding
from steelyard.bench import declaration
from steelyard.decide.score import Refusal, Score
from steelyard.records import Check, Level, Metric, Run, RunStatus
from steelyard.report import format as fmt
from steelyard.report.answer import Block, Chart, Column, Fragment, Section, Table, Tile, Timeline, table
from steelyard.report.bench.sides import side_sections
from steelyard.report.bench.steps import steps_section
from steelyard.report.checks import bounds_text
from steelyard.report.machine.charts import cpu_charts, machine_charts
from steelyard.report.machine.table import machine_groups, machine_line
from steelyard.report.metrics import figure_and_noun, metric_name, metric_text
from steelyard.report.model import ReportData
from steelyard.report.repeats import LEVEL_WORDS, repeats
from steelyard.report.score_text import ratio_text, score_text
from steelyard.report.sections import workload_sections
from steelyard.report.unmeasured import unmeasured, without_missing

_TILES_AT_MOST = 8
_PROCESSES_AT_MOST = 12
_SOURCE_WORDS = {
    "default": "default",
    "machine": "chosen for this machine",
    "set": "set by the command",
}


def build(data: ReportData) -> dict[str, Any]:
    """Return everything the template shows."""
    run = data.run
    sets, panels = cpu_charts(data)
    # A page of somebody else's program has these in sections of its own.
    describes = declaration.of_run(run.benchmark).describes
    sections = [
        _section(section)
        for section in (
            *(_with_percentiles(section, data) for section in workload_sections(data)),
            *steps_section(data),
            *([] if describes else side_sections(data)),
            Section("cpu", "CPU", (*sets,), _cpu_intro(data)),
            Section("machine", "Memory, network, scheduler", (*machine_charts(data),)),
        )
    ]
    if not data.complete:
        # Of a run that broke, only what there is: the list of what is missing has the rest.
        sections = [section for section in sections if section["blocks"]]
    charts = [
        chart
        for section in sections
        for kind, blocks in section["blocks"]
        if kind == "charts"
        for chart in blocks
    ] + panels
    return {
        "title": f"{run.benchmark} · {run.run_id}",
        "run": run,
        "when": fmt.moment(run.clock.realtime_ns),
        "state": state(run),
        "verdict": _verdict(run),
        "says": _says(data),
        "suite_page": _suite_page(data),
        "headline": _headline(data),
        "tiles": _tiles(data),
        "metrics": [_metric(name, metric, run.benchmark) for name, metric in run.metrics.items()],
        "score": _score(data.score),
        "no_score": data.score.reason if isinstance(data.score, Refusal) else "",
        "findings": [_finding(finding, data.conditions.headline.time) for finding in data.findings],
        "sections": sections,
        "panels": panels,
        "machine_line": machine_line(data.machine),
        "machine": machine_groups(data.machine),
        "parameters": _parameters(run),
        "phases": _phases(run),
        "processes": _processes(run),
        "top": _top(data),
        "logs": data.logs,
        "hooks": [(name, _tree(value)) for name, value in sorted(run.hooks.items())],
        "lacking": data.lacking,
        "cost": _cost(data),
        "command": shlex.join(run.command),
        "repeats": repeats(data),
        "files": sorted(run.artifacts.items()),
        "drawn": {
            "zero": "the start of the measure phase" if data.measure else "the start of the run",
            "phases": _phase_spans(data),
            "charts": [chart.spec() for chart in charts if not chart.missing],
        },
    }


def _with_percentiles(section: Section, data: ReportData) -> Section:
    """Return the section, that of percentiles with their table."""
    if section.anchor != "percentiles":
        return section
    return replace(section, blocks=(*section.blocks, *_latency_table(data)))


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


def _section(section: Section) -> dict[str, Any]:
    section, missing = without_missing(section)
    groups = [(kind, list(group)) for kind, group in itertools.groupby(section.blocks, _kind)]
    return {
        "anchor": section.anchor,
        "title": section.title,
        "intro": section.intro,
        "blocks": [(kind, _shown(section.anchor, group)) for kind, group in groups],
        "unmeasured": unmeasured(missing),
    }


def _kind(block: Block) -> str:
    return (
        "charts"
        if isinstance(block, Chart | Timeline)
        else "tables"
        if isinstance(block, Table)
        else "fragments"
    )


def _shown(anchor: str, blocks: Sequence[Block]) -> list[Block]:
    """Return blocks of one kind as the page shows them: answers first in tables, some charts alone in a row.

    Those are the first over time, and one that would stand alone.
    """
    tables = [block.answer_first() for block in blocks if isinstance(block, Table)]
    charts = [block for block in blocks if isinstance(block, Chart | Timeline)]
    if tables or not charts:
        return [*tables, *(block for block in blocks if isinstance(block, Fragment))]
    if len(charts) < 2 or any(chart.wide for chart in charts):
        return [*charts]
    alone = {0} if anchor == "time" else set()
    if (len(charts) - len(alone)) % 2:
        alone.add(len(charts) - 1)
    return [replace(chart, wide=at in alone) for at, chart in enumerate(charts)]


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


def _verdict(run: Run) -> dict[str, Any]:
    if run.verdict is None:
        word = "Running" if run.status is RunStatus.RUNNING else "Incomplete"
        return {"level": "incomplete", "word": word, "reasons": [], "checks": []}
    return {
        "level": run.verdict.level.value,
        "word": LEVEL_WORDS[run.verdict.level],
        "reasons": [
            (check, advice(check, describes=declaration.of_run(run.benchmark).describes))
            for check in run.verdict.reasons
        ],
        "checks": [_check(check) for check in run.verdict.checks],
    }


def _check(check: Check) -> dict[str, str]:
    return {
        "id": check.id,
        "level": check.level.value,
        "word": {"valid": "passed"}.get(check.level.value, check.level.value),
        "claim": check.claim,
        "value": fmt.quantity(check.value, check.unit),
        "value_raw": fmt.raw(check.value, check.unit),
        "bounds": bounds_text(check),
    }


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
    return [_metric(name, data.run.metrics[name], data.run.benchmark) for name in measured[:_TILES_AT_MOST]]


def _score(score: Score | Refusal | None) -> dict[str, Any] | None:
    if score is None or isinstance(score, Refusal):
        return None
    return {
        "text": ratio_text(score.ratio),
        "raw": repr(score.ratio),
        "notes": score_text(score).notes,
        "baseline": score.baseline,
        "metric": metric_name(score.metric, score.benchmark),
        "provenance": score.provenance,
        "reservations": score.reservations,
    }


def _finding(finding: Finding, time: str) -> dict[str, Any]:
    return {
        "id": finding.id,
        "claim": " ".join((finding.claim, *finding.also)),
        "next": finding.next_step,
        "gain": finding.gain,
        "sure": finding.sure,
        "threshold": finding.threshold,
        "evidence": [
            {
                "metric": item.metric,
                "value": fmt.quantity(item.value, item.unit),
                "raw": fmt.raw(item.value, item.unit),
                "bound": None if item.bound is None else fmt.quantity(item.bound, item.unit),
            }
            for item in (*_explained(finding, time), *finding.evidence)
        ],
    }


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


def _parameters(run: Run) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "value": _parameter(parameter.value, parameter.unit),
            "raw": f"{json.dumps(parameter.value)}{' ' + parameter.unit if parameter.unit else ''}",
            "source": _SOURCE_WORDS.get(parameter.source, parameter.source),
            "chosen": parameter.source,
        }
        for name, parameter in run.parameters.items()
    ]


def _parameter(value: JsonValue, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and math.isfinite(value):
        if value == 0 and unit in ("s", "ms"):
            return f"0 {unit}"
        # A setting is exact: it is rounded only where its unit is scaled, and the raw value is in the title.
        return fmt.quantity(value, unit) if unit and unit != "1" else f"{value}"
    return value if isinstance(value, str) else json.dumps(value)


def _phases(run: Run) -> list[dict[str, str]]:
    first = run.phases[0].begin_ns if run.phases else 0
    return [
        {
            "name": phase.name,
            "begin": fmt.duration(phase.begin_ns - first) if phase.begin_ns > first else "0",
            "length": "not ended" if phase.end_ns is None else fmt.duration(phase.end_ns - phase.begin_ns),
        }
        for phase in run.phases
    ]


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


def _processes(run: Run) -> list[dict[str, str]]:
    rows = []
    for process in run.processes:
        if process.signal is not None:
            ended, good = f"signal {process.signal}", False
        elif process.exit_code is None:
            ended, good = "not ended", False
        else:
            ended, good = f"exit code {process.exit_code}", process.exit_code == 0
        rows.append(
            {
                "name": process.name,
                "pid": str(process.pid),
                "ended": ended,
                "good": "yes" if good else "",
                "command": shlex.join(process.command),
                "log": process.log or "",
            }
        )
    return rows


def _top(data: ReportData) -> list[dict[str, str]]:
    """Return the processes that used most CPU in the measure phase: shares of the whole of it."""
    measure = data.measure
    if not data.processes or measure is None or measure.end_ns is None:
        return []
    whole_ns = max(measure.end_ns - measure.begin_ns, 1)
    return [
        {
            "command": each.command,
            "pid": str(each.pid),
            "cpu": fmt.quantity(each.total_ns / whole_ns, "ratio"),
            "user": fmt.quantity(each.user_ns / whole_ns, "ratio"),
            "system": fmt.quantity(each.system_ns / whole_ns, "ratio"),
            "rss": fmt.quantity(each.resident_bytes, "bytes"),
        }
        for each in data.processes[:_PROCESSES_AT_MOST]
        if each.total_ns >= 0.001 * whole_ns
    ]


def _tree(value: JsonValue, depth: int = 0) -> Any:
    """Return a hook's output as nested (name, value) lists, lists of texts, or text."""
    if isinstance(value, dict) and depth < 6:
        return [(str(name), _tree(part, depth + 1)) for name, part in value.items()]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return fmt.significant(value)
    return value if isinstance(value, str) else json.dumps(value)


def _cost(data: ReportData) -> list[tuple[str, str]]:
    metadata = data.metadata
    if metadata is None:
        return []
    rows = [
        ("interval", fmt.duration(metadata.interval_ns) if metadata.interval_ns else "back to back"),
        ("ticks", fmt.count(metadata.ticks)),
        ("missed ticks", fmt.count(metadata.missed_ticks)),
        ("ended by", metadata.end_reason or "none: the recorder was stopped"),
    ]
    if metadata.cost is not None:
        cost = metadata.cost
        rows.append(("CPU time", fmt.duration((cost.cpu_user_s + cost.cpu_system_s) * 1e9)))
        rows.append(("CPU time per tick", fmt.duration(cost.cpu_per_tick_ns)))
        if metadata.end_ns is not None and metadata.end_ns > metadata.begin_ns:
            wall = (metadata.end_ns - metadata.begin_ns) / 1e9
            rows.append(
                ("share of one CPU", fmt.quantity((cost.cpu_user_s + cost.cpu_system_s) / wall, "ratio"))
            )
        rows.append(("largest resident size", fmt.quantity(cost.rss_max_bytes, "bytes")))
    failed = [(source.name, source.failed_reads) for source in metadata.sources if source.failed_reads]
    rows += [(f"failed reads of {name}", fmt.count(count)) for name, count in failed]
    return rows
