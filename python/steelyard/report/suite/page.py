"""The page of a suite: ``report.html`` beside the directories of its members.

In: a suite with its scores, and its members' runs. Out: the page's path. The page is one file, and links to
the members' own pages; names from outside are escaped by the template.

Not here: the pages of the members (``html``), and scores.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

from steelyard._base import SteelyardError
from steelyard.analyze.advice import advice
from steelyard.analyze.utilisation import CPU_REACHED, at_capacity, expected, reached_ratio
from steelyard.bench import declaration
from steelyard.bench.suites.suite import level_of
from steelyard.decide.score import Refusal, Score
from steelyard.decide.suite import BESIDE
from steelyard.records import Check, Level, Machine, Metric, Run, RunStatus, Suite, SuiteMember, read
from steelyard.report import format as fmt
from steelyard.report.machine.table import machine_groups, machine_line
from steelyard.report.metrics import figure_and_noun, metric_name, metric_unit
from steelyard.report.model import headline_of
from steelyard.report.score_text import member_text, overall_text, short_interval
from steelyard.report.template import PAGE, page_path, publish, template

TILES_AT_MOST = 4
WORDS = {Level.VALID: "Valid", Level.SUSPECT: "Suspect", Level.INVALID: "Invalid"}
_ROOM = 1.12
"""How much longer than the longest bar its rail is."""


@dataclass(frozen=True)
class MemberRun:
    """One run of a member, and where its page is, relative to the suite's; None when it has none."""

    run: Run
    page: str | None


def page_of(run_directory: Path) -> str:
    """Return the link to a member's page from the suite's."""
    return f"{quote(run_directory.name)}/{PAGE}"


def machine_of(directory: Path) -> Machine | None:
    """Return the machine of a suite, which every member has written down alike."""
    for path in sorted(directory.glob("*/machine.json")):
        try:
            return read(Machine, path)
        except SteelyardError:
            continue
    return None


def write(
    directory: Path,
    suite: Suite,
    runs: Mapping[str, Sequence[MemberRun]],
    scores: Mapping[str, Score | Refusal],
    path: Path | None = None,
) -> Path:
    """Write the page of the suite in ``directory``, to ``path`` or there.

    Raises WorkloadFailedError when it cannot be written.
    """
    path = directory / PAGE if path is None else page_path(path)
    return publish(path, render(suite, runs, scores, machine_of(directory)))


def render(
    suite: Suite,
    runs: Mapping[str, Sequence[MemberRun]],
    scores: Mapping[str, Score | Refusal],
    machine: Machine | None,
) -> str:
    """Return the page's text."""
    # Nothing for the page's script to draw: it brings the colours, the copy button and the tables' order.
    return template("suite.html.j2", build(suite, runs, scores, machine), {"phases": [], "charts": []})


def build(
    suite: Suite,
    runs: Mapping[str, Sequence[MemberRun]],
    scores: Mapping[str, Score | Refusal],
    machine: Machine | None,
) -> dict[str, Any]:
    """Return everything the template shows."""
    known = [member.score for member in suite.members if member.score is not None]
    longest = _ROOM * max([1.0, *known])
    overall = suite.overall
    score = overall_text(overall) if overall is not None else None
    return {
        "title": f"suite {suite.suite} · {suite.suite_id}",
        "suite": suite,
        "says": says(suite, {name: [each.run for each in found] for name, found in runs.items()}),
        "when": fmt.moment(suite.clock.realtime_ns),
        "lasted": lasted(suite),
        "resumed": [fmt.moment(clock.realtime_ns) for clock in suite.resumed],
        "overall": None
        if score is None or overall is None
        else {"text": score.ratio, "raw": repr(overall.score), "notes": score.notes},
        "withheld": overall.withheld if overall is not None else None,
        "baseline": overall.baseline_title if overall is not None else None,
        "verdict": verdict(suite),
        "members": [
            _member(member, runs.get(member.benchmark, ()), suite.repeats, longest)
            for member in suite.members
        ],
        "rule": 100 / longest,
        "any_score": bool(known),
        "provenance": [
            (name, item.provenance, item.reservations)
            for name, item in scores.items()
            if isinstance(item, Score)
        ],
        "machine_line": machine_line(machine),
        "machine": machine_groups(machine),
        "command": shlex.join(suite.command),
    }


def lasted(suite: Suite) -> str | None:
    """Return how long the suite took, None while that is not known, or where a part of it was cut off."""
    if suite.end_ns is None or suite.resumed:
        return None
    return fmt.duration(max(0, suite.end_ns - suite.clock.monotonic_ns))


def verdict(suite: Suite) -> dict[str, str]:
    """Return the worst that holds of a member: a suite may be believed as far as its weakest result."""
    if suite.status is RunStatus.RUNNING:
        return {"level": "incomplete", "word": "Running"}
    if suite.status is not RunStatus.COMPLETE:
        return {"level": "incomplete", "word": "Incomplete"}
    levels = [level_of(member) or Level.INVALID for member in suite.members]
    worst = max(levels, key=lambda level: level.severity, default=Level.SUSPECT)
    return {"level": worst.value, "word": WORDS[worst]}


def member_title(benchmark: str) -> tuple[str, str]:
    """Return the title of a benchmark and what it is; its name where it is not installed."""
    declared = declaration.of_run(benchmark)
    return declared.title, declared.doc


def state_of(member: SuiteMember) -> tuple[str, str, str | None]:
    """Return a member's badge (level and word), and why it has no result, if so."""
    if member.refused is not None:
        return "incomplete", "Not run", member.refused
    level = level_of(member)
    if level is not None:
        return level.value, WORDS[level], None
    if not member.runs:
        return "incomplete", "Not run", "not run"
    failed = [run for run in member.runs if run.status is not RunStatus.COMPLETE]
    if any(run.status is RunStatus.RUNNING for run in failed):
        return "incomplete", "Running", "it is under way"
    return "incomplete", "Incomplete", failed[0].status_reason or "the record gives no reason"


def objecting(member: SuiteMember) -> list[Check]:
    """Return the checks that object to a member's runs, each once, the weightiest first.

    Of several runs each claim begins with which it is of: of those that a check objects to most, the first.
    """
    found: dict[str, list[tuple[int, Check]]] = {}
    for number, run in enumerate(member.runs, start=1):
        for check in run.reasons:
            found.setdefault(check.id, []).append((number, check))
    checks = []
    for of_runs in found.values():
        number, worst = max(of_runs, key=lambda one: (one[1].level.severity, -one[0]))
        count = len(member.runs)
        if count > 1:
            several = f"in {len(of_runs)} of {count} runs; run {number}: "
            which = f"run {number} of {count}: " if len(of_runs) == 1 else several
            worst = worst.model_copy(update={"claim": which + worst.claim})
        checks.append(worst)
    return sorted(checks, key=lambda check: -check.level.severity)


def objections(member: SuiteMember) -> str:
    """Return the names of the checks that object; empty where none does."""
    return ", ".join(check.id for check in objecting(member))


def value_of(member: SuiteMember, runs: Sequence[Run]) -> tuple[str, str, str] | None:
    """Return the headline metric's value, its noun, and the raw value; None where nothing was measured.

    Of a member that has no usable result it is the median of what its runs measured: the verdict stands
    beside it.
    """
    metric = Metric(value=member.value, unit=member.unit or "1")
    if member.value is None:
        measured = [run.metrics[member.metric] for run in runs if member.metric in run.metrics]
        values = [one.value for one in measured if one.value is not None]
        if not values:
            return None
        metric = measured[0].model_copy(update={"value": median(values), "missing": None})
    text, noun = figure_and_noun(member.metric, metric, member.benchmark)
    return text, noun, f"{member.metric} = {fmt.raw(metric.value, metric.unit)}"


def tiles_of(run: Run) -> list[tuple[str, str, str]]:
    """Return name, value and raw value of the metrics that follow the headline."""
    names = [name for name in headline_of(run)[1:] if run.metrics[name].value is not None]
    return [
        (
            metric_name(name, run.benchmark),
            fmt.quantity(run.metrics[name].value, metric_unit(name, run.metrics[name])),
            f"{name} = {fmt.raw(run.metrics[name].value, run.metrics[name].unit)}",
        )
        for name in names[:TILES_AT_MOST]
    ]


def cpu_of(member: SuiteMember, runs: Sequence[Run]) -> tuple[str, str, str]:
    """Return the CPU use that the servers reached, median of the runs, and what is expected with its source.

    A dash stands for what was not measured, or where nothing is expected.
    """
    ratios = [
        ratio
        for run in runs
        if run.status is RunStatus.COMPLETE and (ratio := _at_limit(run.metrics)) is not None
    ]
    reached = fmt.quantity(median(ratios), "ratio") if ratios else fmt.MISSING
    bound = expected(member.benchmark)
    return (reached, fmt.MISSING, "") if bound is None else (reached, bound.text, bound.source)


def _at_limit(metrics: Mapping[str, Metric]) -> float | None:
    """Return the servers' share of their CPUs at the rate of the headline."""
    scaled = at_capacity(metrics)
    return reached_ratio(metrics) if scaled is None else scaled[0]


def beside_baseline(score: float) -> str:
    """Return a score as how much faster or slower than the baseline the machine is.

    >>> beside_baseline(0.95), beside_baseline(1.253)
    ('5 % slower than the baseline', '25 % faster than the baseline')
    >>> beside_baseline(2.5), beside_baseline(1.001)
    ('2.50 x the baseline', 'as fast as the baseline')
    """
    if score >= 2 or score < 0.5:
        return f"{fmt.significant(score)} x the baseline"
    percent = round(100 * abs(score - 1))
    if percent == 0:
        return "as fast as the baseline"
    return f"{percent} % {'faster' if score > 1 else 'slower'} than the baseline"


def says(suite: Suite, runs: Mapping[str, Sequence[Run]]) -> str:
    """Return in one sentence what a suite says: how much of it is a result, and how far to believe it."""
    levels = {member.benchmark: level_of(member) for member in suite.members}
    usable = [name for name, level in levels.items() if level not in (None, Level.INVALID)]
    parts = []
    if len(usable) < len(suite.members):
        parts.append(f"{len(usable)} of {fmt.several(len(suite.members), 'member')} have a result")
    if suite.overall is not None and suite.overall.score is not None:
        parts.append(beside_baseline(suite.overall.score))
        beside = [m.benchmark for m in suite.members if m.benchmark in BESIDE.get(suite.suite, ())]
        if beside:
            parts.append(f"without {', '.join(beside)}, which explains the score")
    idle = [
        f"{member.benchmark} ({reached} of its CPUs, expected {usual})"
        for member in suite.members
        if any(check.id == CPU_REACHED for check in objecting(member))
        for reached, usual, _ in [cpu_of(member, runs.get(member.benchmark, ()))]
    ]
    if idle:
        parts.append(f"not at the limit of the CPUs: {', '.join(idle)}")
    for level in (Level.SUSPECT, Level.INVALID):
        named = [name for name, other in levels.items() if other is level]
        if named:
            parts.append(f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} {level.value}")
    lacking = [name for name, level in levels.items() if level is None]
    if lacking:
        parts.append(f"without a result: {', '.join(lacking)}")
    return "; ".join(parts)


def _member(member: SuiteMember, runs: Sequence[MemberRun], repeats: int, longest: float) -> dict[str, Any]:
    title, doc = member_title(member.benchmark)
    level, word, missing = state_of(member)
    value = value_of(member, [member_run.run for member_run in runs])
    text, noun, raw = value or (None, "", "")
    score = member_text(member)
    results = [member_run for member_run in runs if member_run.run.status is RunStatus.COMPLETE]
    reached, usual, source = cpu_of(member, [member_run.run for member_run in runs])
    return {
        "cpu_reached": reached,
        "cpu_expected": usual,
        "cpu_source": source,
        "is_idle": any(check.id == CPU_REACHED for check in objecting(member)),
        "name": member.benchmark,
        "title": title,
        "doc": doc,
        "level": level,
        "word": word,
        "missing": missing,
        "text": text,
        "usable": member.value is not None,
        "noun": noun,
        "raw": raw,
        "reasons": [(check, advice(check)) for check in objecting(member)],
        "why": objections(member),
        "score": None if score is None else score.ratio,
        "score_notes": [] if score is None else score.notes,
        "interval": short_interval(member),
        "no_interval": member.no_interval or "",
        "score_raw": repr(member.score),
        "no_score": member.no_score,
        "width": 0.0 if member.score is None else 100 * member.score / longest,
        "tiles": tiles_of(results[0].run) if results else [],
        "runs": [
            {
                "index": member_run.run.series.index,
                "page": member_run.page,
                "run_id": member_run.run.run_id,
                "level": member_run.run.verdict.level.value if member_run.run.verdict else "incomplete",
                "word": WORDS[member_run.run.verdict.level] if member_run.run.verdict else "Incomplete",
            }
            for member_run in runs
        ],
        "repeats": repeats,
        "counted": sum(run.level is not None and run.level is not Level.INVALID for run in member.runs),
    }
