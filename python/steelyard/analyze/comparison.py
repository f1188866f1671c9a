"""What differs between two runs, most telling first: results, machines, settings, findings, profiles.

In: two runs with their records, findings and profiles. Out: `RunComparison`.

Ranking. A result's place is by the logarithm of the ratio of its two values, so that half and double count
alike. Two runs have no spread: whether a difference is more than noise, only repeats tell, and the comparison
says so instead of judging. Rows of profiles are shown that stand out against the noise of their samples.

Invariant: runs of different benchmarks are refused, because no figure of one is a figure of the other; runs
of one benchmark in other tiers or with other parameters are compared, and their conditions are listed.

Not here: statistics of repeated runs, and drawing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from steelyard._base import UsageError
from steelyard.analyze.counters.comparison import CounterComparison, compare_counters
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.profiles.diff import OWN, diff
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.rules.findings import Finding
from steelyard.analyze.sessions import NOT_COMPARED
from steelyard.analyze.values import Quantity
from steelyard.machine.compare import Difference as MachineDifference
from steelyard.machine.compare import compare_machines
from steelyard.records import Level, Machine, Metric, Run

SAME_RATIO = 0.01
"""Values closer than this are called the same."""


NOISE_UNKNOWN = (
    "one run each, whose noise is not known: nothing here says whether a difference is more than that"
    " (--repeat 3 and two suites do)"
)


@dataclass(frozen=True)
class Side:
    """One run with what was derived from it."""

    run: Run
    machine: Machine | None = None
    findings: Sequence[Finding] = ()
    pressure: Sequence[str] = ()
    profile: Profile | None = None
    counters: CounterUse | None = None
    power_w: Quantity = field(default_factory=lambda: Quantity(None, "w", "not read"))
    headline: str | None = None
    """The metric that the run is about."""


@dataclass(frozen=True)
class ResultDifference:
    """One metric of both runs."""

    name: str
    """The metric."""
    a: float
    """In A."""
    b: float
    """In B."""
    unit: str
    """Unit of both."""
    ratio: float | None
    """B over A."""
    better: bool | None
    """Whether B's value is the better one, None where neither is: whatever the reason, which may be noise."""


@dataclass(frozen=True)
class ProfileChange:
    """A share of the profile that differs by more than independent samples of one profile would."""

    by: str
    """Kind of the row: a function, a category, ..."""
    name: str
    """Its name."""
    a_ratio: float
    """Share in A."""
    b_ratio: float
    """Share in B."""
    difference_ratio: float
    """B less A."""


@dataclass(frozen=True)
class RunComparison:
    """What differs between two runs of one benchmark: `steelyard compare --json`."""

    KIND: ClassVar[str] = "comparison"

    differences: tuple[ResultDifference, ...]
    """Results that differ, the largest difference first."""
    same: tuple[str, ...]
    """Results within 1 % of each other."""
    only_a: tuple[str, ...]
    """Results that only A has."""
    only_b: tuple[str, ...]
    """Results that only B has."""
    conditions: dict[str, tuple[Any, Any]]
    """What differs in how the runs were made, beside their parameters: tier, CPUs, version, hooks."""
    parameters: dict[str, tuple[Any, Any]]
    """Parameters that differ, by name."""
    machine: tuple[MachineDifference, ...]
    """What differs between the machines."""
    findings_gone: tuple[str, ...]
    """Findings that only A has."""
    findings_new: tuple[str, ...]
    """Findings that only B has."""
    pressure: tuple[tuple[str, ...], tuple[str, ...]]
    """Pressure points of A and of B."""
    profile: tuple[ProfileChange, ...]
    """Shares of the profile that stand out against the noise of its samples."""
    cautions: tuple[str, ...] = field(default_factory=tuple)
    """What to know before believing any of it."""
    counters: CounterComparison | None = None
    """Comparison of counters, None without counts."""
    headline: ResultDifference | None = None
    """The metric that the runs are about, also where it is the same; None where one lacks it."""


def compare_runs(a: Side, b: Side) -> RunComparison:
    """Return what differs from ``a`` to ``b``. Raises UsageError for runs of different benchmarks."""
    if a.run.benchmark != b.run.benchmark:
        raise UsageError(
            f"{a.run.run_id} is a run of {a.run.benchmark} and {b.run.run_id} of {b.run.benchmark}:"
            " they measure different things",
            hint="compare two runs of one benchmark, or two suites",
        )
    differences, same = _results(a.run.metrics, b.run.metrics)
    known_a, known_b = _known(a.run.metrics), _known(b.run.metrics)
    ids_a, ids_b = {finding.id for finding in a.findings}, {finding.id for finding in b.findings}
    machine, machine_caution = _machines(a.machine, b.machine)
    profile, profile_cautions = _profiles(a.profile, b.profile)
    parameters = _parameters(a.run, b.run)
    return RunComparison(
        differences=tuple(differences),
        same=tuple(same),
        only_a=tuple(sorted(known_a - known_b)),
        only_b=tuple(sorted(known_b - known_a)),
        conditions=_conditions(a.run, b.run),
        parameters=parameters,
        machine=tuple(machine),
        findings_gone=tuple(sorted(ids_a - ids_b)),
        findings_new=tuple(sorted(ids_b - ids_a)),
        pressure=(tuple(a.pressure), tuple(b.pressure)),
        profile=tuple(profile),
        cautions=(*_cautions(a, b), *machine_caution, *profile_cautions),
        counters=compare_counters(a.counters, b.counters, (a.power_w, b.power_w)),
        headline=None if a.headline is None else _difference(a.headline, a.run.metrics, b.run.metrics),
    )


def _known(metrics: Mapping[str, Metric]) -> set[str]:
    return {name for name, metric in metrics.items() if metric.value is not None}


def _results(a: Mapping[str, Metric], b: Mapping[str, Metric]) -> tuple[list[ResultDifference], list[str]]:
    differences, same = [], []
    for name in _known(a) & _known(b):
        found = _difference(name, a, b)
        if found is not None:
            if _is_same(found):
                same.append(name)
            else:
                differences.append(found)
    return sorted(differences, key=_place), sorted(same)


def _difference(name: str, a: Mapping[str, Metric], b: Mapping[str, Metric]) -> ResultDifference | None:
    """Return how a metric differs, None where it has no value in one of both or another unit."""
    left, right = a.get(name), b.get(name)
    if left is None or right is None or left.value is None or right.value is None or left.unit != right.unit:
        return None
    ratio = right.value / left.value if left.value > 0 and right.value > 0 else None
    found = ResultDifference(name, left.value, right.value, left.unit, ratio, None)
    if left.better in ("higher", "lower") and not _is_same(found):
        found = replace(found, better=(right.value > left.value) == (left.better == "higher"))
    return found


def _is_same(found: ResultDifference) -> bool:
    return found.a == found.b or (found.ratio is not None and abs(found.ratio - 1) < SAME_RATIO)


def _place(difference: ResultDifference) -> tuple[float, str]:
    """Sort changes from and to zero first: they have no ratio."""
    return (-math.inf if difference.ratio is None else -abs(math.log(difference.ratio)), difference.name)


def _conditions(a: Run, b: Run) -> dict[str, tuple[Any, Any]]:
    pairs = {
        "tier": (a.tier, b.tier),
        "server CPUs": (a.cpus.server, b.cpus.server),
        "load CPUs": (a.cpus.load, b.cpus.load),
        "hooks": (", ".join(sorted(a.hooks)) or None, ", ".join(sorted(b.hooks)) or None),
        "Steelyard": (a.steelyard_version, b.steelyard_version),
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _parameters(a: Run, b: Run) -> dict[str, tuple[Any, Any]]:
    names = [name for name in {**a.parameters, **b.parameters} if name not in NOT_COMPARED]
    values = {
        name: tuple(run.parameters[name].value if name in run.parameters else None for run in (a, b))
        for name in names
    }
    return {name: (left, right) for name, (left, right) in values.items() if left != right}


def _machines(a: Machine | None, b: Machine | None) -> tuple[list[MachineDifference], list[str]]:
    if a is None or b is None:
        return [], ["a run has no inventory of its machine: whether the machines differ is not known"]
    return compare_machines(a, b).differences, []


def _profiles(a: Profile | None, b: Profile | None) -> tuple[list[ProfileChange], list[str]]:
    if a is None or b is None:
        return [], [] if a is b else ["only one of the runs has a profile"]
    compared = diff(a, b)
    changed = [
        (table.by, row)
        for table in compared.tables
        if table.measure == OWN and table.by != "module"
        for row in table.standing_out
    ]
    changed.sort(key=lambda entry: (-abs(entry[1].difference_ratio), entry[1].name))
    rows = [
        ProfileChange(by, row.name, row.a_ratio, row.b_ratio, row.difference_ratio) for by, row in changed
    ]
    return rows, [*compared.cautions, *([compared.reason] if compared.reason else [])]


def _cautions(a: Side, b: Side) -> list[str]:
    cautions = [NOISE_UNKNOWN]
    if a.run.tier != b.run.tier:
        cautions.append(
            f"the tiers differ ({a.run.tier} and {b.run.tier}): so may the results, for that reason"
        )
    for name, side in (("A", a), ("B", b)):
        if side.run.verdict is None:
            cautions.append(f"{name} is incomplete: {side.run.status_reason or 'the record has no reason'}")
            continue
        if side.run.verdict.level is Level.INVALID:
            cautions.append(f"{name} is invalid: its figures are no result")
        cautions += [f"{name}: {check.id}: {check.claim}" for check in side.run.verdict.reasons]
    return cautions
