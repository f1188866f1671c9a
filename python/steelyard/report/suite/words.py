"""What a suite and its members say, in words and figures.

In: a suite with its scores, and its members' runs. Out: texts, cells and tiles for its `Answer`.

Not here: where they stand (``answer``), and scores (``decide``).
"""

from collections.abc import Mapping, Sequence
from statistics import median

from steelyard.analyze.utilisation import CPU_REACHED, at_capacity, expected, reached_ratio
from steelyard.bench import declaration
from steelyard.bench.suites.suite import level_of
from steelyard.decide.suite import BESIDE
from steelyard.records import Check, Level, Metric, Run, RunStatus, Suite, SuiteMember
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Figure, Tile, Tiles
from steelyard.report.metrics import figure_and_noun, metric_name, metric_unit
from steelyard.report.model import headline_of

TILES_AT_MOST = 4
WORDS = {Level.VALID: "Valid", Level.SUSPECT: "Suspect", Level.INVALID: "Invalid"}


def lasted(suite: Suite) -> str | None:
    """Return how long the suite took, None while that is not known, or where a part of it was cut off."""
    if suite.end_ns is None or suite.resumed:
        return None
    return fmt.duration(max(0, suite.end_ns - suite.clock.monotonic_ns))


def verdict(suite: Suite) -> tuple[str, str]:
    """Return as level and word the worst of the members: a suite is as good as its weakest result."""
    if suite.status is RunStatus.RUNNING:
        return "incomplete", "Running"
    if suite.status is not RunStatus.COMPLETE:
        return "incomplete", "Incomplete"
    levels = [level_of(member) or Level.INVALID for member in suite.members]
    worst = max(levels, key=lambda level: level.severity, default=Level.SUSPECT)
    return worst.value, WORDS[worst]


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


def value_of(member: SuiteMember, runs: Sequence[Run]) -> Cell | None:
    """Return the headline metric's value with its noun; None where nothing was measured.

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
    return Cell(
        f"{text} {noun}".rstrip(),
        f"{member.metric} = {fmt.raw(metric.value, metric.unit)}",
        level=None if member.value is not None else "invalid",
        figure=Figure(metric.value, unit=metric.unit),
    )


def tiles_of(run: Run) -> Tiles:
    """Return the metrics that follow the headline."""
    names = [name for name in headline_of(run)[1:] if run.metrics[name].value is not None]
    made = [
        Tile(
            metric_name(name, run.benchmark),
            fmt.quantity(run.metrics[name].value, metric_unit(name, run.metrics[name])),
            f"{name} = {fmt.raw(run.metrics[name].value, run.metrics[name].unit)}",
        )
        for name in names[:TILES_AT_MOST]
    ]
    return Tiles(tuple(made))


def cpu_of(member: SuiteMember, runs: Sequence[Run]) -> tuple[float | None, str, str]:
    """Return the share of their CPUs that the servers used, the median of the runs, and what is expected
    with its source: a dash where nothing is.
    """
    ratios = [
        ratio
        for run in runs
        if run.status is RunStatus.COMPLETE and (ratio := _at_limit(run.metrics)) is not None
    ]
    reached = median(ratios) if ratios else None
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
        f"{member.benchmark} ({fmt.quantity(reached, 'ratio')} of its CPUs, expected {usual})"
        for member in suite.members
        if any(check.id == CPU_REACHED for check in objecting(member))
        for reached, usual, _ in [cpu_of(member, runs.get(member.benchmark, ()))]
    ]
    if idle:
        parts.append(f"not at the limit of the CPUs: {', '.join(idle)}")
    for level in (Level.SUSPECT, Level.INVALID):
        named = [name for name, other in levels.items() if other is level]
        if named:
            parts.append(
                f"{fmt.listed(named, most=len(named))} {'is' if len(named) == 1 else 'are'} {level.value}"
            )
    lacking = [name for name, level in levels.items() if level is None]
    if lacking:
        parts.append(f"without a result: {', '.join(lacking)}")
    return "; ".join(parts)
