"""The details at the end of a run's page: checks, metrics, machine, settings, phases, processes, files.

In: `ReportData`. Out: `Section`s of tables, all but the checks closed.
"""

import json
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import JsonValue

from steelyard.decide.score import Refusal, Score
from steelyard.records import Check, Run
from steelyard.report import format as fmt
from steelyard.report.answer import Block, Cell, Column, Figure, Section, Table, measured, table, written
from steelyard.report.checks import bounds_text
from steelyard.report.machine.table import machine_groups
from steelyard.report.metrics import metric_name, metric_text
from steelyard.report.model import ReportData
from steelyard.report.score_text import ratio_text

NOT_MEASURED = "Not measured"
"""Title of the table of what is lacking."""
_PROCESSES_AT_MOST = 12
_SOURCE_WORDS = {
    "default": "default",
    "machine": "chosen for this machine",
    "set": "set by the command",
}
_DEPTH = 6
"""Levels of a hook's output that have rows of their own."""
_PAIR = (Column("what", is_text=True), Column("value", is_text=True))


def details(data: ReportData) -> list[Section]:
    """Return the sections in reading order."""
    run = data.run
    checks = run.verdict.checks if run.verdict is not None else []
    blocks: list[Block] = [
        *_metrics(run),
        *_score(data.score),
        *_machine(data),
        *_parameters(run),
        *_phases(run),
        *_processes(run),
        *_busiest(data),
        *_closed("Hooks", [row for name, value in sorted(run.hooks.items()) for row in _rows(name, value)]),
        *_closed(
            NOT_MEASURED,
            [(lack.name, lack.reason) for lack in data.lacking],
            "`steelyard doctor` says for each source how to enable it.",
        ),
        *_closed("Cost of telemetry", _cost(data)),
        *_closed("Files of this run", sorted(run.artifacts.items())),
    ]
    found = [Section("checks", "Checks behind the verdict", (_checks(checks),))] if checks else []
    return [*found, Section("details", "Details", tuple(blocks))]


def _closed(title: str, rows: Sequence[Sequence[str | Cell]], caption: str = "") -> list[Table]:
    """Return a closed table of names and texts, none without a row."""
    return [table(_PAIR, rows, title=title, caption=caption, closed=True)] if rows else []


def _checks(checks: Sequence[Check]) -> Table:
    columns = (
        Column("check", is_text=True),
        Column("answer", is_text=True, is_answer=True),
        Column("what was found", is_text=True),
        Column("value"),
        Column("bounds", is_text=True),
    )
    rows = []
    for check in checks:
        level = check.level.value
        figure = measured(check.value, check.unit)
        word = Cell("passed" if level == "valid" else level, level=level, is_text=True)
        rows.append((check.id, word, check.claim, figure, bounds_text(check)))
    return table(columns, rows)


def _metrics(run: Run) -> list[Table]:
    rows = []
    for name, metric in run.metrics.items():
        note = metric.missing or {"higher": "more is better", "lower": "less is better"}.get(
            metric.better or "", ""
        )
        raw = f"{name} = {fmt.raw(metric.value, metric.unit)}"
        figure = Figure(metric.value, unit=metric.unit)
        rows.append(
            (metric_name(name, run.benchmark), Cell(metric_text(name, metric), raw, figure=figure), note)
        )
    columns = (Column("metric", is_text=True), Column("value"), Column("note", is_text=True))
    return [table(columns, rows, title="All metrics", closed=True)] if rows else []


def _score(score: Score | Refusal | None) -> list[Table]:
    if score is None or isinstance(score, Refusal):
        return []
    text = f"{ratio_text(score.ratio)} the {metric_name(score.metric, score.benchmark)}"
    rows: list[tuple[str, str | Cell]] = [
        ("score", written(text, score.ratio, score.ratio_low, score.ratio_high, unit="ratio")),
        ("baseline", score.baseline),
        ("provenance", score.provenance),
        *(("reservation", reservation) for reservation in score.reservations),
    ]
    return _closed("Score", rows)


def _machine(data: ReportData) -> list[Table]:
    rows = [
        (f"{title}: {name}", value) for title, group in machine_groups(data.machine) for name, value in group
    ]
    return _closed("Machine", rows)


def _parameters(run: Run) -> list[Table]:
    columns = (Column("parameter", is_text=True), Column("value"), Column("source", is_text=True))
    rows = [
        (
            name,
            _parameter(parameter.value, parameter.unit),
            _SOURCE_WORDS.get(parameter.source, parameter.source),
        )
        for name, parameter in run.parameters.items()
    ]
    cpus = f"Server's CPUs: {run.cpus.server or 'not pinned'}; load's CPUs: {run.cpus.load or 'not pinned'}."
    notes = "".join(f" Placement: {note}." for note in run.cpus.notes)
    found = [table(columns, rows, title="Parameters", caption=f"{cpus}{notes}", closed=True)] if rows else []
    if run.cpus.instances:
        found.append(_instances(run))
    return found


def _instances(run: Run) -> Table:
    names = ("server's CPUs", "load's CPUs", "NUMA nodes", "memory from")
    columns = (Column("instance", "1"), *(Column(name, is_text=True) for name in names))
    rows = [
        (
            each.number,
            each.server,
            each.load or "none",
            each.nodes or "not known",
            f"node {each.memory_nodes}" if each.memory_nodes else "any node",
        )
        for each in run.cpus.instances
    ]
    return table(columns, rows, title="Instances", closed=True)


def _parameter(value: JsonValue, unit: str | None) -> Cell:
    text = _parameter_text(value, unit)
    raw = f"{json.dumps(value)}{f' {unit}' if unit else ''}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return measured(value, unit, text=text, raw=raw)
    return Cell(text, raw)


def _parameter_text(value: JsonValue, unit: str | None) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and math.isfinite(value):
        if value == 0 and unit in ("s", "ms"):
            return f"0 {unit}"
        # A setting is exact: it is rounded only where its unit is scaled, and the raw value is in the title.
        return fmt.quantity(value, unit) if unit and unit != "1" else f"{value}"
    return value if isinstance(value, str) else json.dumps(value)


def _phases(run: Run) -> list[Table]:
    first = run.phases[0].begin_ns if run.phases else 0
    rows = [
        (
            phase.name,
            measured(phase.begin_ns - first, "ns", text="" if phase.begin_ns > first else "0"),
            "not ended" if phase.end_ns is None else measured(phase.end_ns - phase.begin_ns, "ns"),
        )
        for phase in run.phases
    ]
    columns = (Column("phase", is_text=True), Column("began after"), Column("lasted"))
    return [table(columns, rows, title="Phases", closed=True)] if rows else []


def _processes(run: Run) -> list[Table]:
    columns = (
        Column("process", is_text=True),
        Column("id"),
        Column("ended with", is_text=True),
        Column("command", is_text=True),
    )
    rows = []
    for process in run.processes:
        if process.signal is not None:
            ended, good = f"signal {process.signal}", False
        elif process.exit_code is None:
            ended, good = "not ended", False
        else:
            ended, good = f"exit code {process.exit_code}", process.exit_code == 0
        word = Cell(ended, level=None if good else "invalid", is_text=True)
        rows.append((process.name, str(process.pid), word, shlex.join(process.command)))
    return [table(columns, rows, title="Processes", closed=True)] if rows else []


def _busiest(data: ReportData) -> list[Table]:
    """Return the processes that used most CPU in the measure phase: shares of the whole of it."""
    measure = data.measure
    if not data.processes or measure is None or measure.end_ns is None:
        return []
    whole_ns = max(measure.end_ns - measure.begin_ns, 1)
    columns = (
        Column("command", is_text=True),
        Column("id"),
        *(Column(name, "ratio") for name in ("CPU", "user", "system")),
        Column("resident", "bytes"),
    )
    rows = [
        (
            each.command,
            str(each.pid),
            *(used_ns / whole_ns for used_ns in (each.total_ns, each.user_ns, each.system_ns)),
            each.resident_bytes,
        )
        for each in data.processes[:_PROCESSES_AT_MOST]
        if each.total_ns >= 0.001 * whole_ns
    ]
    caption = (
        "100 % is one CPU for the whole phase. Processes are read once a second: what one used after its last"
        " reading is not in it."
    )
    title = "Busiest processes in the measure phase"
    return [table(columns, rows, title=title, caption=caption, closed=True)] if rows else []


def _rows(name: str, value: JsonValue, depth: int = 0) -> Iterator[tuple[str, str | Cell]]:
    """Yield a hook's output, a row for each value, named by its path."""
    if isinstance(value, dict) and value and depth < _DEPTH:
        for key, part in value.items():
            yield from _rows(f"{name}.{key}", part, depth + 1)
        return
    yield name, _plain(value)


def _plain(value: JsonValue) -> str | Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value):
        return _text_of(measured(value, "1", text=fmt.significant(value)))
    if isinstance(value, int):
        return _text_of(measured(value, "1", text=json.dumps(value)))
    return value if isinstance(value, str) else json.dumps(value)


def _text_of(one: Cell) -> Cell:
    """Return a figure as a column of texts has it."""
    return replace(one, is_text=True)


def _cost(data: ReportData) -> list[tuple[str, str | Cell]]:
    metadata = data.metadata
    if metadata is None:
        return []
    interval_ns = metadata.interval_ns
    rows: list[tuple[str, str | Cell]] = [
        ("interval", _text_of(measured(interval_ns, "ns")) if interval_ns else "back to back"),
        ("ticks", _text_of(measured(metadata.ticks, "1"))),
        ("missed ticks", _text_of(measured(metadata.missed_ticks, "1"))),
        ("ended by", metadata.end_reason or "none: the recorder was stopped"),
    ]
    if metadata.cost is not None:
        cost = metadata.cost
        used_s = cost.cpu_user_s + cost.cpu_system_s
        rows.append(("CPU time", _text_of(measured(used_s, "s"))))
        rows.append(("CPU time per tick", _text_of(measured(cost.cpu_per_tick_ns, "ns"))))
        if metadata.end_ns is not None and metadata.end_ns > metadata.begin_ns:
            wall = (metadata.end_ns - metadata.begin_ns) / 1e9
            rows.append(("share of one CPU", _text_of(measured(used_s / wall, "ratio"))))
        rows.append(("largest resident size", _text_of(measured(cost.rss_max_bytes, "bytes"))))
    failed = [(source.name, source.failed_reads) for source in metadata.sources if source.failed_reads]
    rows += [(f"failed reads of {name}", _text_of(measured(count, "1"))) for name, count in failed]
    return rows
