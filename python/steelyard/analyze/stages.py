"""Where the requests of a server that times its own stages spent their time, over one phase.

In: lines of ``root-stats.jsonl`` and ``leaf-stats.jsonl``, by process. Out: `Stages`: time and CPU time of a
request by stage, means over all processes of a role; None where the lines do not cover the phase.

Not here: reading the files, and drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.records import RankStats

WALL, CPU = "wall_ns_total", "cpu_ns_total"


@dataclass(frozen=True)
class StageUse:
    """One role: requests, and by stage the clock's time and CPU time of all of them, ns."""

    role: str
    requests: int
    wall_ns: Mapping[str, float]
    cpu_ns: Mapping[str, float]

    @property
    def request_ns(self) -> float:
        """Return the mean time of a request."""
        return sum(self.wall_ns.values()) / self.requests

    @property
    def cpu_ratio(self) -> float | None:
        """Return the share of a request's time in which its thread was on a CPU."""
        whole = sum(self.wall_ns.values())
        return min(1.0, sum(self.cpu_ns.values()) / whole) if whole else None

    def share(self, stage: str) -> float:
        """Return a stage's share of a request's time."""
        whole = sum(self.wall_ns.values())
        return self.wall_ns.get(stage, 0.0) / whole if whole else 0.0

    def busy(self, stage: str) -> float:
        """Return the share of a stage's time in which the request's thread was on a CPU."""
        whole = self.wall_ns.get(stage, 0.0)
        return min(1.0, self.cpu_ns.get(stage, 0.0) / whole) if whole else 0.0

    @property
    def longest(self) -> str | None:
        """Return the stage that takes most of a request's time."""
        return max(self.wall_ns, key=lambda name: self.wall_ns[name], default=None)


@dataclass(frozen=True)
class Stages:
    """A service and what it calls; None where nothing is known of a role."""

    root: StageUse | None
    leaf: StageUse | None


def observe_stages(
    roots: Sequence[Sequence[RankStats]], leaves: Sequence[Sequence[RankStats]], begin_ns: int, end_ns: int
) -> Stages | None:
    """Return what the processes' own clocks say of the phase; None where they say nothing."""
    span = (begin_ns, end_ns)
    stages = Stages(_role("root", roots, span), _role("leaf", leaves, span))
    return stages if stages.root is not None or stages.leaf is not None else None


def _role(role: str, servers: Sequence[Sequence[RankStats]], span: tuple[int, int]) -> StageUse | None:
    wall, cpu = stage_gains(servers, span, WALL), stage_gains(servers, span, CPU)
    requests = sum(requests_of(stats, span) for stats in servers)
    return StageUse(role, requests, wall, cpu) if wall and requests > 0 and sum(wall.values()) > 0 else None


def requests_of(stats: Sequence[RankStats], span: tuple[int, int]) -> int:
    """Return the requests that a process answered within ``span``."""
    before, after = around(stats, span)
    return 0 if before is None or after is None else after.requests - before.requests


def stage_gains(
    servers: Sequence[Sequence[RankStats]], span: tuple[int, int], field: str
) -> dict[str, float]:
    """Return time by stage over all servers, ns; empty where the counters do not cover ``span``."""
    total: dict[str, float] = {}
    for stats in servers:
        before, after = around(stats, span)
        if before is None or after is None:
            return {}
        first = {stage.name: getattr(stage, field) for stage in before.stages}
        for stage in after.stages:
            total[stage.name] = total.get(stage.name, 0.0) + getattr(stage, field) - first.get(stage.name, 0)
    return total


def around(stats: Sequence[RankStats], span: tuple[int, int]) -> tuple[RankStats | None, RankStats | None]:
    """Return the first and the last reading within ``span``: what is between is of the measure phase."""
    inside = [line for line in stats if span[0] <= line.monotonic_ns <= span[1]]
    return (inside[0], inside[-1]) if len(inside) > 1 else (None, None)
