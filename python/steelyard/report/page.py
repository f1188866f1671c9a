"""The words and tables of a report page, ready for its template.

In: `ReportData`. Out: a mapping of plain values. Every text from outside stays text: the template escapes it.
"""

import json
import math
import shlex
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import JsonValue

from steelyard.analyze.advice import advice
from steelyard.analyze.rules.findings import Evidence, Finding
from steelyard.analyze.rules.ranking import headline_time
from steelyard.bench import declaration
from steelyard.decide.score import Refusal, Score
from steelyard.records import Check, Level, Metric, Run, RunStatus
from steelyard.report import format as fmt
from steelyard.report.bench.sides import side_sections
from steelyard.report.bench.steps import steps_section
from steelyard.report.machine.charts import cpu_charts, machine_charts
from steelyard.report.machine.table import machine_groups, machine_line
from steelyard.report.metrics import figure_and_noun, metric_name, metric_text, metric_unit
from steelyard.report.model import ReportData
from steelyard.report.score_text import ratio_text, score_text
from steelyard.report.sections import Section, workload_sections
from steelyard.report.unmeasured import unmeasured, without_missing
from steelyard.stats.intervals import median_interval

_TILES_AT_MOST = 8
_PROCESSES_AT_MOST = 12
_LEVEL_WORDS = {Level.VALID: "Valid", Level.SUSPECT: "Suspect", Level.INVALID: "Invalid"}
_SOURCE_WORDS = {
    "default": "default",
    "machine": "chosen for this machine",
    "set": "set by the command",
}


@dataclass(frozen=True)
class Figure:
    """A number as text, with its name and its raw value."""

    name: str
    text: str
    raw: str
    note: str = ""


def build(data: ReportData) -> dict[str, Any]:
    """Return everything the template shows."""
    run = data.run
    sets, panels = cpu_charts(data)
    # A page of somebody else's program has these in sections of its own.
    describes = declaration.of_run(run.benchmark).describes
    sections = [
        _section(section)
        for section in (
            *workload_sections(data),
            *steps_section(data),
            *([] if describes else side_sections(data)),
            Section("cpu", "CPU", _cpu_intro(data), tuple(sets)),
            Section("machine", "Memory, network, scheduler", "", tuple(machine_charts(data))),
        )
    ]
    if not data.complete:
        # Of a run that broke, only what there is: the list of what is missing has the rest.
        sections = [
            section for section in sections if section["charts"] or section["tables"] or section["fragment"]
        ]
    charts = [chart for section in sections for chart in section["charts"]] + panels
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
        "findings": [_finding(finding, headline_time(data.conditions)) for finding in data.findings],
        "sections": sections,
        "panels": panels,
        "latency_table": _latency_table(data),
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
        "repeats": _repeats(data),
        "files": sorted(run.artifacts.items()),
        "drawn": {
            "zero": "the start of the measure phase" if data.measure else "the start of the run",
            "phases": _phase_spans(data),
            "charts": [chart.spec() for chart in charts if chart.missing is None],
        },
    }


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
    ids = [chart.id for chart in section.charts]
    return {
        "anchor": section.anchor,
        "title": section.title,
        "intro": section.intro,
        "charts": section.charts,
        "wide": _wide(section.anchor, ids) if section.wide is None else section.wide,
        "unmeasured": unmeasured(missing),
        "tables": section.tables,
        "fragment": section.fragment,
        "lead": section.lead,
    }


def _wide(anchor: str, charts: list[str]) -> set[str]:
    """Return the charts that take a row of their own: the first over time, and one that would stand alone."""
    if len(charts) < 2:
        return set()
    wide = {charts[0]} if anchor == "time" else set()
    return wide | {charts[-1]} if (len(charts) - len(wide)) % 2 else wide


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
        "word": _LEVEL_WORDS[run.verdict.level],
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
        "bound": fmt.quantity(check.bound, check.unit),
    }


def _metric(name: str, metric: Metric, benchmark: str) -> Figure:
    note = metric.missing or {"higher": "more is better", "lower": "less is better"}.get(
        metric.better or "", ""
    )
    return Figure(
        metric_name(name, benchmark),
        metric_text(name, metric),
        f"{name} = {fmt.raw(metric.value, metric.unit)}",
        note,
    )


def _headline(data: ReportData) -> Figure | None:
    """Return the first metric with its figure and its noun apart, so that the figure can stand out."""
    name = data.headline[0] if data.headline else None
    if name is None or name not in data.run.metrics:
        return None
    metric = data.run.metrics[name]
    figure, noun = figure_and_noun(name, metric, data.run.benchmark)
    return Figure(noun, figure, _metric(name, metric, data.run.benchmark).raw)


def _tiles(data: ReportData) -> list[Figure]:
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


def _latency_table(data: ReportData) -> dict[str, Any] | None:
    # Loads that follow each other have a table of their own, a row each.
    if not data.loads or data.run.steps:
        return None
    latency = data.loads[0].latency
    columns = ("p50", "p90", "p95", "p99", "p999", "p9999", "max")
    rows = []
    for name, meaning in (
        ("response", "from the intended time"),
        ("service", "from the send"),
        ("queued", "waiting for a free connection"),
        ("lag", "delay in the load generator"),
    ):
        summary = getattr(latency, name)
        # Before 1.1, what was queued counted as lag; a closed loop queues only while a connection is lost.
        if summary is None or (name == "queued" and not summary.max_ns):
            continue
        cells = [getattr(summary, f"{column}_ns") for column in columns]
        rows.append(
            {
                "name": name,
                "meaning": meaning,
                "count": fmt.count(summary.count),
                "cells": [
                    (fmt.quantity(cell, "ns"), fmt.raw(None if cell is None else float(cell), "ns"))
                    for cell in cells
                ],
            }
        )
    note = "" if len(data.loads) == 1 else f"Of the first of {len(data.loads)} generators."
    return {"columns": ["p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"], "rows": rows, "note": note}


def _cpu_intro(data: ReportData) -> str:
    parts = []
    for each in (data.conditions.server_cpus, data.conditions.load_cpus):
        if each.use is not None and data.conditions.has_load and not data.conditions.shared_cpus:
            kernel = each.use.kernel_ratio
            tail = f", {fmt.quantity(kernel, 'ratio')} of it in the kernel" if kernel is not None else ""
            parts.append(f"{each.name}: {fmt.quantity(each.use.busy_ratio, 'ratio')} busy{tail}")
    use = data.conditions.all_cpus.use
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


def _repeats(data: ReportData) -> dict[str, Any] | None:
    if len(data.siblings) < 2 and data.run.series.count < 2:
        return None
    name = data.headline[0] if data.headline else None
    rows: list[dict[str, Any]] = []
    values: list[float] = []
    for sibling in data.siblings:
        metric = sibling.run.metrics.get(name) if name else None
        verdict = sibling.run.verdict
        if metric is not None and metric.value is not None:
            values.append(metric.value)
        rows.append(
            {
                "index": sibling.run.series.index,
                "run_id": sibling.run.run_id,
                "text": metric_text(name, metric) if name and metric else fmt.MISSING,
                "raw": fmt.raw(metric.value, metric.unit) if metric else "no result",
                "value": metric.value if metric else None,
                "level": verdict.level.value if verdict else "incomplete",
                "word": _LEVEL_WORDS[verdict.level] if verdict else "Incomplete",
                "here": sibling.run.run_id == data.run.run_id,
                "link": f"../{quote(sibling.folder.name)}/report.html",
            }
        )
    most = max((value for value in values), default=0.0)
    for row in rows:
        row["width"] = 0 if not most or row["value"] is None else max(0.0, 100 * float(row["value"]) / most)
    return {
        "rows": rows,
        "count": data.run.series.count,
        "metric": metric_name(name, data.run.benchmark) if name else "",
        "summary": _repeats_summary(data.run, name, values),
    }


def _repeats_summary(run: Run, name: str | None, values: list[float]) -> str:
    if name is None or len(values) < 2:
        return "Fewer than two repeats have a result: the spread is unknown."
    unit = metric_unit(name, run.metrics[name]) if name in run.metrics else None
    interval = median_interval(values, in_order=True)
    text = f"Median {fmt.quantity(interval.median, unit)}"
    if interval.low is not None and interval.high is not None:
        return (
            f"{text}, {fmt.quantity(interval.confidence, 'ratio')} interval"
            f" {fmt.quantity(interval.low, unit)} to {fmt.quantity(interval.high, unit)}"
            + (
                f", if one run does not resemble the next: {interval.count} cannot show it"
                if interval.is_order_open
                else ""
            )
        )
    extremes = f"{fmt.quantity(interval.lowest, unit)} to {fmt.quantity(interval.highest, unit)}"
    return f"{text}, runs from {extremes} ({interval.reason})"
