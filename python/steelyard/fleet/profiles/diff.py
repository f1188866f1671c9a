"""What two parts of a fleet, or two times, spend their cycles on differently, beyond the noise of sampling.

In: ``profiles``, two `Selection`s. Out: `FleetDiff`: shares in A and in B, each of its own cycles, with the
interval of their difference, and whether it is a change.

How it is judged: the variance of each difference comes from machines (``shares``), pair by pair where A
and B are of the same machines; its t-test is corrected by Holm over all keys that are judged, so that two
samples of the same fleet show any change in at most ``ALPHA`` of all pairs. Keys that few machines make up in
effect are not judged: of others nothing is known.

Not here: single profiles of one machine (``analyze.profiles.diff``), drawing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from steelyard._base import ResultSaysNoError, UsageError
from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.analyze.profiles.folded import fold
from steelyard.analyze.profiles.profile import Profile, modules_of
from steelyard.analyze.profiles.tax_rules import Rules, shipped_rules
from steelyard.fleet.effects import holm
from steelyard.fleet.profiles.shares import (
    Differences,
    Floats,
    differences_of,
    job_weights,
    keyed_by_column,
    keyed_by_stack,
    pair_moments,
    pair_sizes,
    sides,
)
from steelyard.fleet.profiles.stacks import Selection, Stacks, event_rows, gather
from steelyard.fleet.profiles.top import BY, memtable, own_keys
from steelyard.stats.shares import LEAST_HOLDERS
from steelyard.telemetry.engine import fetch, fetch_rows, floats, integers

ALPHA = 0.05
_SUMS = ("a", "b", "aa", "bb", "ab", "a_of_a", "a_of_b", "b_of_a", "b_of_b")


@dataclass(frozen=True)
class DiffRow:
    """One key's shares, own, of all cycles of A and of B."""

    key: str
    """Which one."""
    module: str | None
    """Its binary, None where it has none."""
    a_ratio: float
    """Share of A."""
    b_ratio: float
    """Share of B."""
    low_ratio: float | None
    """Lower end of the interval of B's share less A's; None where a side has it on one machine or none."""
    high_ratio: float | None
    """Upper end of it."""
    p_value: float | None
    """After Holm's correction; None where the key is not judged."""
    a_samples: int
    """Samples of A that have it."""
    b_samples: int
    """Samples of B that have it."""
    machines: int
    """Machines that have it, of A or of B."""
    is_change: bool | None
    """Whether it changed; None where it is not judged: too few machines make it up."""

    @property
    @printed
    def difference_ratio(self) -> float:
        """B's share less A's."""
        return self.b_ratio - self.a_ratio


@dataclass(frozen=True)
class JobShares:
    """A job of both selections."""

    job: str
    """The job."""
    a_ratio: float
    """Its share of A."""
    b_ratio: float
    """Its share of B."""


@dataclass(frozen=True)
class FleetDiff:
    """The answer of ``fleet diff``."""

    KIND: ClassVar[str] = "fleet_diff"

    names: tuple[str, str] = field(metadata=NOT_PRINTED)
    by: str
    """What rows are: functions, binaries, jobs ..."""
    event: str
    """What was sampled."""
    unit: str
    """What weights count: cycles, or ns."""
    rows: tuple[DiffRow, ...]
    """Changes first, then by the size of the difference."""
    machines: tuple[int, int]
    """Of A and of B."""
    both_machines: int
    """Machines that A and B have both."""
    machine_minutes: tuple[int, int]
    """Minutes of machines, of A and of B."""
    samples: tuple[int, int]
    """Samples of A and of B."""
    fleet_weight: tuple[float, float]
    """Weight of A and of B, of the whole fleet."""
    profiles: tuple[Profile, Profile] = field(metadata=NOT_PRINTED)
    jobs: tuple[JobShares, ...] = ()
    """Jobs with their shares of A and of B, the most different first."""

    @property
    @printed
    def a(self) -> str:
        """Return the one selection, as it was asked for."""
        return self.names[0]

    @property
    @printed
    def b(self) -> str:
        """Return the other."""
        return self.names[1]

    @property
    @printed
    def least_machines(self) -> float:
        """Return the machines that an interval needs."""
        return LEAST_HOLDERS

    @property
    @printed
    def alpha(self) -> float:
        """Return the chance of one false change among all."""
        return ALPHA

    @property
    @printed
    def changes(self) -> int:
        """Return how many rows changed."""
        return len(self.changed)

    @property
    @printed
    def mix_distance(self) -> float:
        """Share of B's cycles that would have to be of other jobs to give A's mix."""
        return sum(abs(job.b_ratio - job.a_ratio) for job in self.jobs) / 2

    @property
    def are_same_samples(self) -> bool:
        """Whether A and B hold equally many samples of the same machines, all with equal shares."""
        alike = self.samples[0] == self.samples[1] and self.machine_minutes[0] == self.machine_minutes[1]
        return alike and self.both_machines == self.machines[0] == self.machines[1] and self.is_same

    @property
    def is_same(self) -> bool:
        """Whether all shares of A and of B are equal, as those of two selections of the same rows are."""
        return all(_same(row.a_ratio, row.b_ratio) for row in self.rows)

    @property
    def changed(self) -> tuple[DiffRow, ...]:
        """The rows that changed."""
        return tuple(row for row in self.rows if row.is_change)


def diff(
    profiles: Any,
    symbols: Any,
    a: Selection,
    b: Selection,
    *,
    by: str = "function",
    task_samples: Any = None,
    event: str | None = None,
    rules: Rules | None = None,
    confidence: float = 0.95,
) -> FleetDiff:
    """Answer what differs between two selections of profiles.

    Raises ResultSaysNoError when one of them has fewer than two machine-minutes.
    """
    if by not in BY:
        raise UsageError(f"profiles have no {by!r}", hint=f"one of {', '.join(BY)}")
    rules = rules or shipped_rules()
    # B is of A's event: cycles are never held against clock ticks.
    rows_a, event, _ = event_rows(profiles, a, task_samples, event)
    rows_b, _, _ = event_rows(profiles, b, task_samples, event)
    both = sides(rows_a, rows_b)
    size = fetch_rows(pair_sizes(both))[0]
    for name, count in ((a.text, size["a_minutes"]), (b.text, size["b_minutes"])):
        if count < 2:
            raise ResultSaysNoError(f"{name}: {count} machine-minutes with samples: nothing can be compared")
    stacks = gather(both, event, symbols)
    if by in ("function", "category"):
        keyed = keyed_by_stack(both, memtable(own_keys(stacks, by, rules)))
    else:
        keyed = keyed_by_column(both, by)
    pairs = fetch(pair_moments(both, keyed))
    modules = modules_of(stacks.profile, says_others=True) if by == "function" else {}
    made = judge(pairs, size, modules, confidence)
    return FleetDiff(
        names=(a.text, b.text),
        by=by,
        event=event,
        unit=stacks.unit,
        rows=made,
        machines=(int(size["a_machines"]), int(size["b_machines"])),
        both_machines=int(size["both_machines"]),
        machine_minutes=(int(size["a_minutes"]), int(size["b_minutes"])),
        samples=(int(size["a_samples"]), int(size["b_samples"])),
        fleet_weight=(float(size["a"]), float(size["b"])),
        profiles=(_side(rows_a, stacks), _side(rows_b, stacks)),
        jobs=_mix(fetch_rows(job_weights(both))),
    )


def _mix(rows: list[dict[str, Any]]) -> tuple[JobShares, ...]:
    sums = [sum(float(row[side] or 0.0) for row in rows) or 1.0 for side in ("a", "b")]
    mix = [
        JobShares(str(row["job"]), (row["a"] or 0.0) / sums[0], (row["b"] or 0.0) / sums[1]) for row in rows
    ]
    return tuple(sorted(mix, key=lambda one: (-abs(one.b_ratio - one.a_ratio), one.job)))


def judge(
    pairs: Any, size: dict[str, Any], modules: dict[str, str], confidence: float
) -> tuple[DiffRow, ...]:
    """Return the rows of an Arrow table of moments, judged together."""
    sums: dict[str, Floats] = {name: floats(pairs[name]) for name in _SUMS}
    machines = integers(pairs["machines"])
    known = differences_of(sums, size)
    p, q = known.a, known.b
    # Shares of the same rows are equal but for rounding, and their variance is 0 or hardly more.
    same, varies = _same(p, q), known.variance > 0
    judged = (known.holders >= LEAST_HOLDERS) & np.isfinite(known.variance) & (varies | same)
    reach, p_values = _tests(q - p, known, judged & varies, confidence)
    reach[judged & ~varies], p_values[same] = 0.0, 1.0
    keys, a_samples, b_samples = (pairs[name].to_pylist() for name in ("key", "a_samples", "b_samples"))
    rows = []
    for at, key in enumerate(keys):
        is_judged = bool(judged[at])
        gap = float(q[at] - p[at])
        rows.append(
            DiffRow(
                key=str(key),
                module=modules.get(key),
                a_ratio=float(p[at]),
                b_ratio=float(q[at]),
                low_ratio=max(-1.0, gap - float(reach[at])) if np.isfinite(reach[at]) else None,
                high_ratio=min(1.0, gap + float(reach[at])) if np.isfinite(reach[at]) else None,
                p_value=float(p_values[at]) if is_judged else None,
                a_samples=round(a_samples[at]),
                b_samples=round(b_samples[at]),
                machines=int(machines[at]),
                is_change=bool(p_values[at] <= ALPHA) if is_judged else None,
            )
        )
    rows.sort(key=lambda row: (not row.is_change, -abs(row.difference_ratio), row.key))
    return tuple(rows)


def _same(a: Any, b: Any) -> Any:
    """Return whether shares are equal but for rounding."""
    return np.isclose(a, b, rtol=1e-9, atol=0.0)


def _tests(gap: Floats, known: Differences, judged: Any, confidence: float) -> tuple[Floats, Floats]:
    """Return the half of each difference's interval, and p-values corrected over all that are judged."""
    from scipy.special import stdtr, stdtrit

    reach, p_values = np.full(len(gap), np.nan), np.ones(len(gap))
    if judged.any():
        error, degrees = np.sqrt(known.variance[judged]), known.degrees[judged]
        chance = known.by_chance[judged]
        # One side hardly has it, and says too little of how it scatters there.
        reach[judged] = np.where(np.isnan(chance), stdtrit(degrees, (1 + confidence) / 2) * error, np.nan)
        p_values[judged] = holm(np.fmax(2 * stdtr(degrees, -np.abs(gap[judged]) / error), chance))
    return reach, p_values


def _side(rows: Any, stacks: Stacks) -> Profile:
    """Return the profile of one side, with the names that were found for both."""
    fleet = fetch(rows.group_by("stack").agg(fleet=rows.fleet.sum()))
    names = stacks.named
    pairs = sorted(
        (names[text], max(1, round(weight / stacks.divisor)))
        for text, weight in zip(fleet["stack"].to_pylist(), fleet["fleet"].to_pylist(), strict=True)
        if text in names
    )
    return fold(pairs, {"unit": stacks.profile.unit, "event": stacks.event})[0]
