"""What differs between two suites, member by member.

In: two suites with their members' runs. Out: `SuiteComparison`: for each benchmark that both have the medians
of its metric, their ratio with its interval, and the runs that stand for them.

Invariants: a member is compared with the same benchmark only; invalid and incomplete runs are left out and
counted; suites without a common benchmark are refused.

Not here: scores against a baseline (``decide``), what differs between two runs (``comparison``), drawing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from steelyard._base import UsageError
from steelyard.analyze.comparison import RunComparison
from steelyard.analyze.sessions import Sessions, member_spreads, result_of
from steelyard.records import Run, RunStatus, Suite
from steelyard.stats.intervals import RATIO_COUNT, ratio_interval
from steelyard.stats.sessions import FEWEST_SESSIONS, SessionSpread


@dataclass(frozen=True)
class MemberSide:
    """A member of one of the suites."""

    value: float | None
    """Median of its metric over the runs that count."""
    runs: int
    """Its runs."""
    counted: int
    """Runs that count."""
    level: str | None
    """The worst verdict of them, None where no run counts."""
    run_id: str | None
    """The run whose value is nearest to the median, None where no run counts."""


@dataclass(frozen=True)
class MemberComparison:
    """One benchmark of both suites."""

    benchmark: str
    """Which benchmark."""
    metric: str
    """The metric that it is scored by."""
    unit: str | None
    """Unit of the metric."""
    a: MemberSide
    """Median and runs in A."""
    b: MemberSide
    """Median and runs in B."""
    ratio: float | None
    """B over A, None where one has no value."""
    better: bool | None
    """Whether B is better, None where there is no interval or it holds 1: noise alone may have made the
    difference."""
    ratio_low: float | None = None
    """Lower end of the interval of the ratio, with the noise of both; those of all members hold together with
    95 %. None below 3 runs of either."""
    ratio_high: float | None = None
    """Upper end of it."""
    comparison: RunComparison | None = None
    """The runs of it, None where one has none."""


@dataclass(frozen=True)
class SuiteComparison:
    """What differs between two suites: `steelyard compare --json` of two suites."""

    KIND: ClassVar[str] = "suite_comparison"

    members: tuple[MemberComparison, ...]
    """Benchmarks that both have."""
    only_a: tuple[str, ...]
    """Benchmarks that only A has."""
    only_b: tuple[str, ...]
    """Benchmarks that only B has."""
    conditions: dict[str, tuple[Any, Any]]
    """Suite, tier, repeats and version where they differ."""
    cautions: tuple[str, ...]
    """What to know before believing any of it."""


def compare_suites(
    a: Suite, a_runs: Sequence[Run], b: Suite, b_runs: Sequence[Run], earlier: Sessions = ()
) -> SuiteComparison:
    """Return what differs from ``a`` to ``b``; ``earlier`` are the runs of other sessions of the machine.

    Raises UsageError when they have no benchmark in common.
    """
    names = [[member.benchmark for member in suite.members] for suite in (a, b)]
    common = [name for name in names[0] if name in names[1]]
    if not common:
        raise UsageError(
            f"{a.suite_id} has {', '.join(names[0]) or 'no member'} and"
            f" {b.suite_id} {', '.join(names[1]) or 'no member'}: they measure different things",
            hint="compare two suites with a common benchmark",
        )
    metrics = {member.benchmark: member.metric for member in a.members}
    spreads = member_spreads([*a_runs, *b_runs], earlier, metrics)
    conditions = {"suite": (a.suite, b.suite), "tier": (a.tier, b.tier), "repeats": (a.repeats, b.repeats)}
    conditions["Steelyard"] = (a.steelyard_version, b.steelyard_version)
    return SuiteComparison(
        members=tuple(
            _member(
                name,
                metrics[name],
                _of(name, a_runs),
                _of(name, b_runs),
                spreads.get(name),
                1 - 0.05 / len(set(common)),
            )
            for name in dict.fromkeys(common)
        ),
        only_a=tuple(name for name in names[0] if name not in names[1]),
        only_b=tuple(name for name in names[1] if name not in names[0]),
        conditions={name: pair for name, pair in conditions.items() if pair[0] != pair[1]},
        cautions=(*_sessions(common, spreads), *_cautions({"A": a, "B": b}, common)),
    )


def _of(benchmark: str, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.benchmark == benchmark]


def _sessions(common: Sequence[str], spreads: Mapping[str, SessionSpread]) -> list[str]:
    """Return what to know of members whose days are not known to differ by how much."""
    unknown = [name for name in dict.fromkeys(common) if name not in spreads]
    if not unknown:
        return []
    return [
        f"A and B are one session each, and how much sessions differ is not known"
        f" ({', '.join(unknown)}): another day may move a result by more than the runs of one session"
        f" differ ({FEWEST_SESSIONS} more suites of this machine in the same folder show it)"
    ]


def _member(
    name: str,
    metric: str,
    a: Sequence[Run],
    b: Sequence[Run],
    between: SessionSpread | None,
    confidence: float,
) -> MemberComparison:
    values = [_counted(metric, runs) for runs in (a, b)]
    left, right = (_side(runs, counted) for runs, counted in zip((a, b), values, strict=True))
    known = [run.metrics[metric] for run in (*a, *b) if metric in run.metrics]
    ratio = right.value / left.value if left.value and right.value and left.value * right.value > 0 else None
    low = high = better = None
    if ratio is not None and all(value > 0 for counted in values for value in counted.values()):
        # Of many members that are alike, one would stand out by chance.
        interval = ratio_interval([*values[1].values()], [*values[0].values()], confidence, between)
        low, high = interval.low, interval.high
    if low is not None and high is not None and not low <= 1 <= high:
        better = (
            (low > 1) == (known[0].better == "higher") if known[0].better in ("higher", "lower") else None
        )
    unit = known[0].unit if known else None
    return MemberComparison(name, metric, unit, left, right, ratio, better, low, high)


def _counted(metric: str, runs: Sequence[Run]) -> dict[str, float]:
    """Return the metric's value of each run that is a result, by run."""
    return {run.run_id: value for run in runs if (value := result_of(run, metric)) is not None}


def _side(runs: Sequence[Run], counted: Mapping[str, float]) -> MemberSide:
    levels = [run.verdict.level for run in runs if run.verdict is not None]
    worst = max(levels, key=lambda level: level.severity, default=None)
    if not counted:
        return MemberSide(None, len(runs), 0, str(worst) if worst else None, None)
    middle = median(counted.values())
    nearest = min(counted, key=lambda run_id: (abs(counted[run_id] - middle), run_id))
    return MemberSide(middle, len(runs), len(counted), str(worst) if worst else None, nearest)


def _cautions(suites: Mapping[str, Suite], common: Sequence[str]) -> list[str]:
    cautions = []
    if any(suite.repeats < RATIO_COUNT for suite in suites.values()):
        cautions.append(
            f"fewer than {RATIO_COUNT} runs of each member: no ratio has an interval, and nothing here says"
            f" whether a difference is more than noise (--repeat {RATIO_COUNT} does)"
        )
    if len({suite.tier for suite in suites.values()}) > 1:
        cautions.append("the tiers differ: so may the results, for that reason")
    for letter, suite in suites.items():
        if suite.status is not RunStatus.COMPLETE:
            cautions.append(f"{letter} is incomplete: {suite.status_reason or 'the record has no reason'}")
        for member in suite.members:
            if member.benchmark in common:
                cautions += [
                    f"{letter}: {member.benchmark}: {check.id}: {check.claim}"
                    for check in _objections(member)
                ]
    return cautions


def _objections(member: Any) -> list[Any]:
    """Return each check that objects to a member once, whichever of its runs it concerns."""
    return list({check.id: check for run in member.runs for check in run.reasons}.values())
