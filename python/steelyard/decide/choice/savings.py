"""What a percent is worth: servers, megawatts and money that an improvement of throughput saves, by fleet.

In: an improvement of a server's throughput with its interval, fleets, a server's power and cost. Out:
`Savings`.

A fleet of N servers that do 1 + x times as much needs N / (1 + x): it saves N (1 - 1 / (1 + x)), a little
less than N x. To save S of N servers, throughput must grow by S / (N - S).

Not here: where the improvement was measured (``experiment``, ``compare``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from steelyard.decide.choice.economics import Economics


@dataclass(frozen=True, slots=True)
class FleetSaving:
    """What a fleet of one size saves."""

    servers: int
    """Servers without the improvement."""
    saved: int
    """Servers that it no longer needs."""
    saved_low: int | None
    """Lower end of the interval; None where the improvement has none. Below 0: more servers."""
    saved_high: int | None
    """Upper end of it."""
    megawatts: float | None
    """Power of the saved servers with that of the site; None without a power."""
    megawatts_low: float | None
    """Lower end of the interval."""
    megawatts_high: float | None
    """Upper end of it."""
    cost: float | None
    """Cost of the saved servers over the years; None without a cost."""
    cost_low: float | None
    """Lower end of the interval."""
    cost_high: float | None
    """Upper end of it."""
    needed_ratio: float | None
    """Improvement that saves the goal; None where the fleet has no more servers than that."""


@dataclass(frozen=True)
class Savings:
    """What an improvement is worth: `steelyard choose --improvement SHARE --json`."""

    KIND: ClassVar[str] = "savings"

    improvement_ratio: float
    """How much more a server does, 0.01 for 1 %."""
    improvement_low: float | None
    """Lower end of its interval; None where none was stated."""
    improvement_high: float | None
    """Upper end of it."""
    goal: int
    """Servers that are to be saved."""
    fleets: tuple[FleetSaving, ...]
    """By size of the fleet."""
    machine: str | None
    """The machine whose power and cost are used; None without one."""
    currency: str
    """Of the cost, empty where it was not named."""
    economics: Economics
    """Prices and years."""
    missing: tuple[str, ...]
    """What could not be computed, with the reason."""


def saved_servers(servers: int, improvement: float) -> int:
    """Return how many servers of a fleet an improvement saves: whole ones, what remains still does the work.

    >>> saved_servers(100_000, 0.01), saved_servers(10_000, 0.10), saved_servers(1000, -0.01)
    (990, 909, -11)
    """
    return servers - math.ceil(servers / (1 + improvement) - 1e-9)


def needed_improvement(servers: int, goal: int) -> float | None:
    """Return by how much throughput must grow so that ``goal`` servers are saved; None where none does.

    >>> round(needed_improvement(10_000, 1000), 4), round(needed_improvement(100_000, 1000), 4)
    (0.1111, 0.0101)
    """
    return goal / (servers - goal) if servers > goal else None


def savings_of(
    improvement: float,
    interval: tuple[float, float] | None,
    fleets: Sequence[int],
    goal: int,
    *,
    machine: str | None,
    currency: str,
    economics: Economics,
    watts: float | None,
    cost: float | None,
    missing: Sequence[str] = (),
) -> Savings:
    """Return what an improvement is worth; ``watts`` and ``cost`` are of one server."""
    low, high = interval if interval is not None else (None, None)
    per_megawatt = None if watts is None else watts * economics.pue / 1e6
    found = []
    for servers in fleets:
        counts = [None if x is None else saved_servers(servers, x) for x in (improvement, low, high)]
        power, money = _thrice(counts, per_megawatt), _thrice(counts, cost)
        needed = needed_improvement(servers, goal)
        found.append(FleetSaving(servers, counts[0] or 0, counts[1], counts[2], *power, *money, needed))
    return Savings(improvement, low, high, goal, tuple(found), machine, currency, economics, tuple(missing))


def _thrice(
    counts: Sequence[int | None], each: float | None
) -> tuple[float | None, float | None, float | None]:
    """Return a figure of the saved servers and both ends of it."""
    middle, low, high = (None if count is None or each is None else count * each for count in counts)
    return middle, low, high
