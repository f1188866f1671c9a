"""Which functions a difference of two runs comes from, by their profiles and counts.

In: the share of samples of each function in two runs (from a `PerfReport`, or from samples by function),
and the iron law of each. Out: `Diagnosis`: functions by what they added to the clocks of an operation, and
whether the operation takes more instructions or more clocks for each.

Shares compare normalised: each is of its own run's samples, so that runs of any length and any number of CPUs
compare. With counts, share x clocks per operation is what a function costs each operation, and the
difference of these is what it added; a function that keeps its share of a thing that grew twentyfold grew
too.

A function that one report does not list has at most that report's smallest share there; its cost is then
bounds, of which ranking takes the cautious end.

Not here: reading profiles (``perf_report``, ``profile``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.analyze.counters.iron_law import IronLaw
from steelyard.analyze.profiles.perf_report import PerfReport
from steelyard.analyze.values import Quantity

MAIN_SHARE_RATIO = 0.8
"""A term with this much of a change is called its cause."""
_NO_CHANGE_RATIO = 0.005
_TWO_SIDED_95 = 1.96


@dataclass(frozen=True)
class FunctionShares:
    """Function -> share of samples, by event; ``floors`` is what an unlisted function has at most."""

    shares: Mapping[str, Mapping[str, float]]
    floors: Mapping[str, float]
    samples: int | None = None

    @classmethod
    def of_report(cls, report: PerfReport) -> FunctionShares:
        """Return the shares of a report."""
        return cls(
            {event: report.shares(event) for event in report.events},
            {event: report.floor(event) for event in report.events},
            report.samples,
        )

    @classmethod
    def of_samples(cls, samples: Mapping[str, int], event: str = "cycles") -> FunctionShares:
        """Return the shares of a whole profile: function -> samples in it itself."""
        total = sum(samples.values())
        shares = {name: count / total for name, count in samples.items()} if total else {}
        return cls({event: shares}, {event: 0.0}, total)


@dataclass(frozen=True)
class FunctionChange:
    """One function in both runs."""

    function: str
    """Its name."""
    before: dict[str, float | None]
    """Share of samples by event, None where the report does not list it."""
    after: dict[str, float | None]
    """The same in the other run."""
    added_cycles_per_op: Quantity
    """What it added to the clocks of an operation: the cautious end where one run does not list it."""
    share_of_change: Quantity
    """That over the whole change; the shares of all functions sum to 1 at most."""
    noise_ratio: Quantity
    """Half width of the 95 % interval of the change in share that sampling alone leaves."""


@dataclass(frozen=True)
class Diagnosis:
    """What the difference comes from, the function that explains most first."""

    event: str
    """By which samples functions are ranked."""
    functions: tuple[FunctionChange, ...]
    cycles_per_op_ratio: Quantity
    """Clocks per operation, after over before."""
    cpi_ratio: Quantity
    path_length_ratio: Quantity
    cause: str
    """In a sentence: more instructions, more clocks for each, or that this is not known."""

    @property
    def claim(self) -> str:
        """The first function and the cause, in words."""
        if not self.functions:
            return f"no function is known; {self.cause}"
        first = self.functions[0]
        moves = ", ".join(
            f"{_share(first.before[event])} -> {_share(first.after[event])} of {event}"
            for event in first.after
        )
        part = first.share_of_change.value
        weight = "" if part is None else f", {part * 100:.0f} % of the change in clocks per operation"
        return f"{first.function}: {moves}{weight}; {self.cause}"


def diagnose(
    before: FunctionShares,
    after: FunctionShares,
    law_before: IronLaw | None = None,
    law_after: IronLaw | None = None,
    *,
    event: str | None = None,
) -> Diagnosis:
    """Return which functions explain the difference of two runs.

    ``event`` ranks them: by default clocks (``cycles``, ``cpu-clock``) where sampled, else the first event
    that both have. Raises ValueError when the profiles have no event in common.
    """
    common = [name for name in before.shares if name in after.shares]
    if not common:
        raise ValueError(f"no event in common: {list(before.shares)} and {list(after.shares)}")
    chosen = event or next((name for name in common if "cycles" in name or "clock" in name), common[0])
    if chosen not in common:
        raise ValueError(f"{chosen} is not sampled in both: {', '.join(common)} are")
    costs = _costs(law_before, law_after)
    names = {name for source in (before, after) for name in source.shares[chosen]}
    changes = [_change(name, before, after, chosen, common, costs) for name in names]
    grew = costs is None or costs[1] >= costs[0]
    direction = 1 if grew else -1

    def weight(change: FunctionChange) -> float:
        added = change.added_cycles_per_op.value
        moved = added if added is not None else _least_move(change, before, after, chosen)
        return direction * moved

    ranked = sorted(changes, key=lambda change: (-weight(change), change.function))
    ratio, cpi, path = _ratios(law_before, law_after)
    return Diagnosis(chosen, tuple(ranked), ratio, cpi, path, _cause(ratio, cpi, path))


def _costs(before: IronLaw | None, after: IronLaw | None) -> tuple[float, float] | None:
    left = before.cycles_per_op.value if before else None
    right = after.cycles_per_op.value if after else None
    return None if left is None or right is None else (left, right)


def _change(
    name: str,
    before: FunctionShares,
    after: FunctionShares,
    event: str,
    common: list[str],
    costs: tuple[float, float] | None,
) -> FunctionChange:
    change = FunctionChange(
        name,
        {each: before.shares[each].get(name) for each in common},
        {each: after.shares[each].get(name) for each in common},
        Quantity(None, "1", "clocks per operation of both runs are not known"),
        Quantity(None, "ratio", "clocks per operation of both runs are not known"),
        _noise(before.shares[event].get(name), after.shares[event].get(name), before.samples, after.samples),
    )
    if costs is None:
        return change
    added = _cautious(
        [share * costs[0] for share in _range(before, event, name)],
        [share * costs[1] for share in _range(after, event, name)],
    )
    whole = costs[1] - costs[0]
    if abs(whole) < _NO_CHANGE_RATIO * costs[0]:
        part = Quantity(None, "ratio", "clocks per operation hardly differ, and that has no parts")
    else:
        part = Quantity(added / whole, "ratio")
    return FunctionChange(name, change.before, change.after, Quantity(added, "1"), part, change.noise_ratio)


def _range(source: FunctionShares, event: str, name: str) -> tuple[float, float]:
    share = source.shares[event].get(name)
    return (0.0, source.floors[event]) if share is None else (share, share)


def _cautious(before: list[float], after: list[float]) -> float:
    """Return the difference nearest to 0 that the bounds allow."""
    low, high = after[0] - before[1], after[1] - before[0]
    if low <= 0 <= high:
        return 0.0
    return low if low > 0 else high


def _least_move(change: FunctionChange, before: FunctionShares, after: FunctionShares, event: str) -> float:
    return _cautious(
        list(_range(before, event, change.function)), list(_range(after, event, change.function))
    )


def _noise(share: float | None, other_share: float | None, first: int | None, second: int | None) -> Quantity:
    """Half width for the difference of two proportions, each binomial in its run's samples (Wald)."""
    if not first or not second:
        return Quantity(None, "ratio", "how many samples there were is not known")
    if share is None or other_share is None:
        return Quantity(None, "ratio", "one report does not list the function")
    variance = share * (1 - share) / first + other_share * (1 - other_share) / second
    return Quantity(_TWO_SIDED_95 * math.sqrt(max(0.0, variance)), "ratio")


def _ratios(before: IronLaw | None, after: IronLaw | None) -> tuple[Quantity, Quantity, Quantity]:
    ratios = []
    for name in ("cycles_per_op", "cpi", "path_length"):
        left = getattr(before, name) if before else Quantity(None, "1", "the first run has no counts")
        right = getattr(after, name) if after else Quantity(None, "1", "the second run has no counts")
        if left.value is None or right.value is None:
            ratios.append(Quantity.of(None, "1", left.missing or right.missing))
        else:
            ratios.append(Quantity(right.value / left.value, "1"))
    return ratios[0], ratios[1], ratios[2]


def _cause(ratio: Quantity, cpi: Quantity, path: Quantity) -> str:
    if ratio.value is None or cpi.value is None or path.value is None:
        return f"whether by more work or by slower work is not known ({ratio.missing or cpi.missing})"
    change = f"path length {(path.value - 1) * 100:+.1f} %, CPI {cpi.value:.3g}x"
    if abs(ratio.value - 1) < _NO_CHANGE_RATIO:
        return f"clocks per operation hardly differ ({change})"
    by_cpi = math.log(cpi.value) / math.log(ratio.value)
    slower = ratio.value > 1
    if by_cpi >= MAIN_SHARE_RATIO:
        reason = (
            "mostly more clocks per instruction, because of contention or stalls"
            if slower
            else "mostly fewer clocks per instruction, because of fewer stalls"
        )
    elif by_cpi <= 1 - MAIN_SHARE_RATIO:
        reason = f"mostly {'more' if slower else 'fewer'} instructions per operation"
    else:
        reason = "both instructions per operation and clocks per instruction changed"
    return f"{reason}: {change}"


def _share(ratio: float | None) -> str:
    return "not listed" if ratio is None else f"{ratio * 100:.2f} %"
