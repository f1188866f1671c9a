"""Throughput and latency of a machine by size: from a scaling curve, a sweep of load or memory, repeats.

In: steps of a curve, levels of a sweep, or repeats of a result. Out: `Throughput`, with the interval of one
trial, and latency where it was measured.

A curve's throughput is the prediction of its model (``stats.scaling.prediction``). A sweep of load gives the
largest throughput whose latency is within the limit. The interval of repeats is Student's t for one more of
them, of logarithms. Latency is the largest of the blocks; between two steps that of the line through both
(logarithms), beyond them none.

Not here: demands and prices (``making``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from steelyard.stats.intervals import RATIO_COUNT
from steelyard.stats.scaling.choice import Figure, Kind, Topology
from steelyard.stats.scaling.curve import CurveFit, fit_curve
from steelyard.stats.scaling.prediction import SiblingWorth

CONFIDENCE = 0.95
_WITHIN = 1 + 1e-9
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Throughput:
    """Throughput of a trial, operations per second."""

    ops_per_s: float | None
    """The prediction; None where ``reason`` says why."""
    low: float | None
    """Lower end of the 95 % interval of a trial; None where ``reason`` or ``no_interval`` says why."""
    high: float | None
    """Upper end of it."""
    basis: str = ""
    """What it rests on."""
    reason: str | None = None
    """Why it is not known."""
    no_interval: str | None = None
    """Why there is no interval."""


@dataclass(frozen=True)
class SizeCurve:
    """Throughput and latency by number of CPUs of one machine."""

    machine: str
    values: Mapping[int, Sequence[float]]
    """Throughput by CPUs; value i of each is of block i."""
    topology: Topology = field(default_factory=Topology)
    latency_ns: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """By name (``p99``, ``p50``, ``mean``) and CPUs: the largest of the blocks."""
    source: str = ""
    is_threads: bool = False
    """Whether threads were counted, on a machine with all its CPUs."""

    @property
    def cpus(self) -> int | None:
        """CPUs of the machine, as far as they are known."""
        return self.topology.cpus

    def fit(self) -> CurveFit:
        """Return the model."""
        return fit_curve(self.values, self.topology)

    def sizes(self, fit: CurveFit) -> list[int]:
        """Return numbers of CPUs to consider: steps, powers of two, ends of cores and nodes, all."""
        last = self.cpus or max(self.values)
        found = set(self.values) | {last, *self.topology.node_ends}
        found |= {1 << power for power in range(last.bit_length()) if 1 << power >= min(self.values)}
        if (cores := self.topology.last_core) is not None and math.isfinite(cores):
            found.add(int(cores))
        if fit.at_cpus is not None:
            found.add(round(fit.at_cpus.value))
        return sorted(cpus for cpus in found if min(self.values) <= cpus <= last)

    def share_of(self, cpus: int, whole: int) -> float:
        """Return which share of a machine a number of CPUs takes: of its cores, as steps take cores first.

        >>> SizeCurve("m", {1: [1.0]}, Topology(16, 8, 2)).share_of(4, 16)
        0.5
        """
        cores = self.topology.last_core
        if cores is None or not math.isfinite(cores) or cores > whole:
            cores = whole
        return min(1.0, cpus / cores)

    def latency_at(self, name: str, cpus: int) -> tuple[float | None, str]:
        """Return a latency in ns at a number of CPUs, or why it is not known."""
        known = self.latency_ns.get(name, {})
        if cpus in known:
            return known[cpus], "measured"
        below = [step for step in known if step < cpus]
        above = [step for step in known if step > cpus]
        if not known:
            return None, f"no {name} latency was measured"
        if not below or not above:
            return None, f"no {name} latency was measured near {cpus} CPUs"
        one, other = max(below), min(above)
        share = math.log(cpus / one) / math.log(other / one)
        logs = (1 - share) * math.log(known[one]) + share * math.log(known[other])
        return math.exp(logs), f"between {one} and {other} CPUs"


def at_cpus(fit: CurveFit, cpus: int, worth: SiblingWorth | None = None) -> Throughput:
    """Return what a model predicts of a trial on a number of CPUs."""
    found = fit.predict(cpus, worth)
    if found.ops_per_s is None:
        return Throughput(None, None, None, reason=found.reason)
    return Throughput(found.ops_per_s, found.low, found.high, found.basis or "")


@dataclass(frozen=True)
class LoadSweep:
    """Throughput and latency by load of one machine, all of whose CPUs are used."""

    machine: str
    levels: Sequence[float]
    """Ascending: clients, threads or a rate."""
    throughput: Sequence[Sequence[float]]
    """By level and block, operations per second."""
    latency_ns: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    """By name, level and block."""
    source: str = ""

    def capacity(self, name: str, limit_ns: float | None) -> tuple[Throughput, float | None]:
        """Return the throughput of the load that has most of it within the limit, and its latency."""
        latencies = self.latency_ns.get(name)
        if limit_ns is not None and not latencies:
            return Throughput(None, None, None, reason=f"no {name} latency was measured"), None
        fit = [
            at
            for at in range(len(self.levels))
            if limit_ns is None or (latencies and max(latencies[at], default=math.inf) <= limit_ns * _WITHIN)
        ]
        if not fit:
            return Throughput(None, None, None, reason="every load has a latency above the limit"), None
        best = max(fit, key=lambda at: statistics.fmean(self.throughput[at]))
        worst = max(latencies[best], default=None) if latencies else None
        found = of_repeats([self.throughput[best]], None)
        basis = f"the load of {self.levels[best]:g}"
        return Throughput(found.ops_per_s, found.low, found.high, basis, None, found.no_interval), worst


@dataclass(frozen=True)
class MemorySweep:
    """Throughput by memory of one machine."""

    machine: str
    values: Mapping[int, Sequence[float]]
    """Throughput by bytes; value i of each is of block i."""
    source: str = ""

    def edge_bytes(self) -> tuple[Figure | None, str]:
        """Return from how much memory on more gains nothing, or why that is not known."""
        if len(self.values) < 3:
            return None, "a sweep of memory needs three sizes"
        steps = {max(1, round(size / _MIB)): values for size, values in self.values.items()}
        if len(steps) < len(self.values):
            return None, "sizes of memory are less than 1 MiB from each other"
        fit = fit_curve(steps)
        at = fit.at_cpus
        if fit.kind not in (Kind.CEILING, Kind.BEND) or at is None:
            return None, _no_edge(self.values)
        ends = [None if end is None else end * _MIB for end in (at.low, at.high)]
        return Figure(at.value * _MIB, ends[0], ends[1]), ""


def _no_edge(values: Mapping[int, Sequence[float]]) -> str:
    means = [statistics.fmean(values[size]) for size in sorted(values)]
    if max(means) < min(means) * 1.05:
        return "memory changes nothing between the sizes that were tried"
    if all(b > a for a, b in pairwise(means)):
        return "throughput still grows with memory at the largest size"
    return "no model of memory fits"


def of_repeats(sessions: Sequence[Sequence[float]], noise: float | None) -> Throughput:
    """Return the median of repeats, with the interval of one more of them.

    ``noise`` is the relative standard deviation of a trial, where repeats are too few.

    >>> found = of_repeats([[100.0, 102.0, 98.0]], None)
    >>> found.ops_per_s, round(found.low), round(found.high)
    (100.0, 91, 110)
    """
    from scipy.special import ndtri, stdtrit

    values = [value for session in sessions for value in session]
    middle = statistics.median(values)
    means = [statistics.fmean(math.log(v) for v in session) for session in sessions]
    rows = means if len(means) > 1 else [math.log(value) for value in values]
    quantile = 0.5 + CONFIDENCE / 2
    if len(rows) >= RATIO_COUNT and (deviation := statistics.stdev(rows)) > 0:
        half = float(stdtrit(len(rows) - 1, quantile)) * deviation * math.sqrt(1 + 1 / len(rows))
    elif noise is not None:
        half = float(ndtri(quantile)) * noise * math.sqrt(1 + 1 / len(rows))
    else:
        why = "repeats are all the same" if len(rows) >= RATIO_COUNT else f"{_runs(len(rows))}, 3 are needed"
        return Throughput(middle, None, None, "measured", None, f"{why}: repeat it, or state --noise")
    mean = statistics.fmean(rows)
    ends = math.exp(mean - half), math.exp(mean + half)
    return Throughput(middle, min(ends[0], middle), max(ends[1], middle), "measured")


def _runs(count: int) -> str:
    return "one run" if count == 1 else f"{count} runs"
