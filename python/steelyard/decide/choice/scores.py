"""Scores of machines over a baseline: performance, performance for a watt and for money.

In: a table, workloads with weights, power and cost by machine. Out: `Scored` by machine and criterion, the
Pareto front, what overall scores hide, where suites disagree, aggregates that contradict their members.

A score is a ratio to the baseline, the overall one the weighted geometric mean, withheld where a member is
missing (DCPerf, section 4.6). Performance for a watt has the power under that workload.

Not here: order and its probability (``order``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.choice.economics import Cost, power_under
from steelyard.decide.choice.results import (
    Contradiction,
    Criterion,
    Disagreement,
    HiddenMembers,
    LowMember,
    Scored,
    SuiteScores,
    WeighedMachine,
    Workload,
)
from steelyard.decide.tables.model import MachineTable, MeasuredMachine

SHARE = "_share_ratio"
"""Ending of a result that is the share of a group in an aggregate."""
_EQUAL = 1e-9


def performance_of(machine: MeasuredMachine, workload: Workload) -> float | None:
    """Return a result such that more is better; None where it is missing."""
    found = machine.results.get(workload.name)
    if found is None:
        return None
    return found.value if workload.better == "higher" else 1 / found.value


def scores_of(
    machine: MeasuredMachine,
    baseline: MeasuredMachine,
    workloads: Sequence[Workload],
    costs: Mapping[str, Cost | None],
    why_no_cost: Mapping[str, str],
) -> dict[str, Scored]:
    """Return the scores of a machine by every criterion."""
    plain = {each.name: _ratio(machine, baseline, each) for each in workloads}
    reasons = {name: machine.why_missing(name) for name, value in plain.items() if value is None}
    found = {Criterion.PERFORMANCE.value: _scored(workloads, plain, reasons)}
    watts: dict[str, float | None] = {}
    lacking = dict(reasons)
    for name, value in plain.items():
        own, base = power_under(machine, name), power_under(baseline, name)
        watts[name] = None if None in (value, own.watts, base.watts) else value * base.watts / own.watts  # type: ignore[operator]
        if watts[name] is None and name not in lacking:
            side, power = (machine, own) if own.watts is None else (baseline, base)
            lacking[name] = f"{power.missing} of {side.name}"
    found[Criterion.PER_WATT.value] = _scored(workloads, watts, lacking)
    own_cost, base_cost = costs[machine.name], costs[baseline.name]
    if own_cost is None or base_cost is None:
        which = machine if own_cost is None else baseline
        money: dict[str, float | None] = dict.fromkeys(plain)
        missing = f"no cost of {which.name}: {why_no_cost[which.name]}"
        found[Criterion.PER_COST.value] = Scored(None, money, missing)
        return found
    relative = base_cost.total / own_cost.total
    money = {name: None if value is None else value * relative for name, value in plain.items()}
    found[Criterion.PER_COST.value] = _scored(workloads, money, reasons)
    return found


def _ratio(machine: MeasuredMachine, baseline: MeasuredMachine, workload: Workload) -> float | None:
    own, base = performance_of(machine, workload), performance_of(baseline, workload)
    return None if own is None or base is None else own / base


def _scored(
    workloads: Sequence[Workload], scores: Mapping[str, float | None], reasons: Mapping[str, str]
) -> Scored:
    counted = [each for each in workloads if each.weight > 0]
    lacking = [each.name for each in counted if scores[each.name] is None]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        why = reasons.get(lacking[0], "the baseline has none")
        return Scored(None, scores, f"withheld: {lacking[0]}{more}: {why}")
    return Scored(weighted_mean({each.name: each.weight for each in counted}, scores), scores)


def weighted_mean(weights: Mapping[str, float], scores: Mapping[str, float | None]) -> float:
    """Return the weighted geometric mean of scores that are all known."""
    total = math.fsum(weights.values())
    return math.exp(
        math.fsum(weight * math.log(scores[name] or math.nan) for name, weight in weights.items()) / total
    )


def front(
    performance: NDArray[np.float64], cost: NDArray[np.float64], watts: NDArray[np.float64]
) -> list[int | None]:
    """Return for each machine one that is better in everything that is known, None on the front.

    Cost or power that is NaN everywhere does not count.
    """
    columns = [-performance, *(each for each in (cost, watts) if np.isfinite(each).any())]
    points = np.stack(columns, axis=1)
    beaten: list[int | None] = [None] * len(points)
    order = np.argsort(points[:, 0], kind="stable")
    ahead = points[order]
    for at, point in enumerate(points):
        if not np.isfinite(point).all():
            continue
        with np.errstate(invalid="ignore"):
            better = (ahead <= point).all(axis=1) & (ahead < point).any(axis=1)
        if better.any():
            beaten[at] = int(order[int(np.argmax(better))])
    return beaten


def hidden_members(
    machines: Sequence[WeighedMachine], criterion: Criterion, baseline: str, floor: float
) -> list[HiddenMembers]:
    """Return machines with workloads below 1 - ``floor`` and below their own overall score.

    Those whose overall score is above the baseline's come first, the best before others; then the worst.
    """
    found = []
    for machine in machines:
        scored = machine.scores[criterion]
        if machine.name == baseline or scored.overall is None:
            continue
        low = [
            LowMember(machine.name, name, value)
            for name, value in scored.by_workload.items()
            if value is not None and value < min(1 - floor, scored.overall * (1 - _EQUAL))
        ]
        if low:
            low.sort(key=lambda each: each.score)
            found.append(HiddenMembers(machine.name, criterion, scored.overall, tuple(low)))

    def key(one: HiddenMembers) -> tuple[bool, float]:
        return one.overall < 1, -one.overall if one.overall >= 1 else one.members[0].score

    return sorted(found, key=key)


def suites_beside(
    suites: Mapping[str, Sequence[Workload]],
    scores: Mapping[str, Mapping[str, Mapping[str, Scored]]],
    baseline: str,
) -> tuple[list[SuiteScores], list[Disagreement]]:
    """Return suites beside each other, and where one says the opposite of the first.

    ``scores`` are those of each suite by machine and criterion.
    """
    shown = [
        SuiteScores(
            suite,
            tuple(each.name for each in members),
            {
                criterion.value: {name: found[criterion].overall for name, found in scores[suite].items()}
                for criterion in Criterion
            },
        )
        for suite, members in suites.items()
    ]
    found = []
    for suite in shown[1:]:
        for criterion, by_machine in suite.overall.items():
            for machine, says in by_machine.items():
                decides = shown[0].overall[criterion][machine]
                if machine == baseline or says is None or decides is None:
                    continue
                if (says - 1) * (decides - 1) < 0 and abs(math.log(says / decides)) > math.log(1.05):
                    found.append(Disagreement(suite.suite, machine, criterion, says, decides))
    return shown, sorted(found, key=lambda each: -abs(math.log(each.says / each.decides)))


def contradiction(
    table: MachineTable, aggregate: str, members: Sequence[str], machine: str, baseline: str
) -> Contradiction | None:
    """Return that an aggregate says the opposite of all its members; None where it does not.

    With shares of the groups (``<member>_share_ratio``) the aggregate is weighed again by the baseline's.
    """
    own, base = table.machine(machine), table.machine(baseline)
    names = (aggregate, *members)
    if any(name not in one.results for one in (own, base) for name in names):
        return None
    ratios = {name: own.results[name].value / base.results[name].value for name in names}
    better = {
        name: ratio if table.column(name).better == "higher" else 1 / ratio for name, ratio in ratios.items()
    }
    score = better.pop(aggregate)
    if not all((value - 1) * (score - 1) < 0 for value in better.values()):
        return None
    return Contradiction(aggregate, machine, score, better, same_mix(table, aggregate, members, own, base))


def same_mix(
    table: MachineTable,
    aggregate: str,
    members: Sequence[str],
    own: MeasuredMachine,
    base: MeasuredMachine,
) -> float | None:
    """Return the score of the aggregate with the baseline's shares on both sides; None without."""
    shares = [base.results.get(f"{name}{SHARE}") for name in members]
    if any(share is None for share in shares):
        return None
    weights = [share.value for share in shares if share is not None]

    def mean(machine: MeasuredMachine) -> float:
        values = [machine.results[name].value for name in members]
        return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)

    ratio = mean(own) / mean(base)
    return ratio if table.column(aggregate).better == "higher" else 1 / ratio
