"""What ``steelyard size`` answers, as data.

Not here: computing (``making``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from steelyard.decide.choice.economics import Economics
from steelyard.decide.sizing.curves import Throughput
from steelyard.stats.scaling.choice import Figure


@dataclass(frozen=True, slots=True)
class Edge:
    """Where more of something is worth less."""

    machine: str
    """The machine."""
    kind: str
    """``siblings``, ``node``, ``ceiling``, ``bend`` or ``memory``."""
    at: Figure
    """Number of CPUs, or bytes of memory."""
    worth_ratio: Figure | None = None
    """What a CPU beyond it is worth of one before; of a level, all throughput; None where nothing says."""
    is_level: bool = False
    """Whether all throughput is lower beyond it."""


@dataclass(frozen=True, slots=True)
class Size:
    """A number of machines of one type and size."""

    machine: str
    """The machine type."""
    cpus: int | None
    """CPUs that the workload has on each; None where they are not known."""
    reserved_cpus: float | None
    """CPUs that it takes from each: with the siblings of its cores, which it leaves idle."""
    memory_bytes: float | None
    """Memory of each; None where it is not known."""
    is_part: bool
    """Whether it is a part of a larger machine's CPUs."""
    throughput: Throughput
    """Of one."""
    latency_ns: float | None
    """Latency at that throughput, the largest of the blocks; None where it was not measured."""
    count: int | None
    """How many meet the demand by the lower end; None without a demand, or where they are not known."""
    is_assured: bool
    """Whether the lower end of an interval was used, not the prediction alone."""
    margin_ratio: float | None
    """What the lower ends of all have beyond the demand, over the demand."""
    expected_margin_ratio: float | None
    """The same of the predictions themselves."""
    cost: float | None
    """Cost of all over the years, of one without a demand; None where ``cost_missing`` says why."""
    cost_missing: str | None
    """Why there is no cost."""
    cost_per_million: float | None
    """Cost of a million operations at full use; None without a cost."""
    refused: str | None = None
    """Why it cannot serve the workload; None where it can."""


@dataclass(frozen=True, slots=True)
class Point:
    """Throughput and latency of a machine at a number of CPUs."""

    machine: str
    """The machine."""
    cpus: int
    """CPUs."""
    throughput: Throughput
    """Of a trial."""
    latency_ns: float | None
    """Latency, the largest of the blocks; None where it was not measured."""


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """Throughput and latency of a machine at a level of a sweep."""

    machine: str
    """The machine."""
    axis: str
    """``memory`` in bytes, or ``load``."""
    level: float
    """The level."""
    ops_per_s: float
    """Mean throughput of the blocks."""
    latency_ns: float | None
    """Latency, the largest of the blocks; None where it was not measured."""


@dataclass(frozen=True)
class Sizing:
    """Sizes for a workload and a demand: `steelyard size --json`."""

    KIND: ClassVar[str] = "sizing"

    demand_per_s: float | None
    """Rate that is to be served, without headroom; None without one."""
    headroom_ratio: float
    """Share of the demand that is added."""
    latency: str
    """Which latency is limited."""
    latency_limit_ns: float | None
    """The limit; None without one."""
    memory_bytes: float | None
    """Memory that each machine needs; None where nothing says."""
    memory_source: str
    """Where that is from: as stated, or the edge of a sweep; empty without one."""
    ranked_by: str
    """``cost``, or ``cpus`` where no cost is known."""
    currency: str
    """Of all money, empty where it was not named."""
    economics: Economics
    """Prices and years."""
    sizes: tuple[Size, ...]
    """Those that serve the workload, the best first, then those that do not."""
    recommended: Size | None
    """The best; None where none serves it."""
    second: Size | None
    """The best of another type or size; None without one."""
    points: tuple[Point, ...]
    """Throughput and latency by CPUs, of machines with a curve."""
    sweeps: tuple[SweepPoint, ...]
    """The same by memory and by load, of machines with a sweep."""
    edges: tuple[Edge, ...]
    """Where siblings, nodes and memory end."""
    without_edge: Mapping[str, str]
    """Machines whose curve has no edge, or whose model is none, with the reason."""
    cautions: tuple[str, ...]
    """What to know before believing it."""
    notes: tuple[str, ...]
    """What to know of the data."""
