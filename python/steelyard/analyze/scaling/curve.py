"""A scaling curve: throughput, latency and counts by number of CPUs.

In: `Observation`s, one for each trial of a step. Out: `Step`s in the order of their CPUs, and `whole_blocks`,
the values that steps are compared by.

Invariants: an observation without throughput keeps its reason; counts of a step are those of the trials that
have all of them, so that ratios are of the same time.

Not here: making trials (``experiment``), reading files (``measured``), what the curve means (``loss``,
``limits``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, geometric_mean, median

from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.analyze.counters.iron_law import Counts, IronLaw, iron_law
from steelyard.analyze.values import Quantity

INSTRUCTIONS, CYCLES, OPERATIONS = "instructions", "cycles", "operations"
ELAPSED, CPU_TIME, BUSY, IDLE = "elapsed_s", "cpu_s", "busy_ratio", "idle_ratio"
LATENCY, LATENCY_P50, LATENCY_P99 = "latency_mean_ns", "latency_p50_ns", "latency_p99_ns"
ERRORS = "error_ratio"
READINGS = {
    INSTRUCTIONS: "instructions retired",
    CYCLES: "clocks, summed over the CPUs",
    OPERATIONS: "operations finished",
    ELAPSED: "time that the counts are of",
    CPU_TIME: "CPU time used",
    BUSY: "share of the CPUs' time that the workload used",
    IDLE: "share of the CPUs' time in which nothing ran",
    LATENCY: "mean latency",
    LATENCY_P50: "median latency",
    LATENCY_P99: "99th percentile of latency",
    ERRORS: "share of the operations that failed",
}
"""What may be known of a trial beside its throughput."""
READING_UNITS = {
    **dict.fromkeys((INSTRUCTIONS, CYCLES, OPERATIONS), "count"),
    **dict.fromkeys((ELAPSED, CPU_TIME), "s"),
    **dict.fromkeys((BUSY, IDLE, ERRORS), "ratio"),
    **dict.fromkeys((LATENCY, LATENCY_P50, LATENCY_P99), "ns"),
}
"""The unit of each of `READINGS`."""
SHARES = (BUSY, IDLE)
"""Readings that are parts of the CPUs' time."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial of a step."""

    cpus: int
    block: int
    ops_per_s: float | None
    reason: str | None = None
    """Why there is no throughput."""
    readings: Mapping[str, float] = field(default_factory=dict)
    """Those of `READINGS` that are known, and others under the names that they were asked for by."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why others are not."""
    is_threads: bool = False
    """Whether ``cpus`` counts threads or clients, of which there may be more than CPUs."""
    machine_cpus: int | None = None
    """CPUs of the machine where threads are counted, None where that is not known."""
    machine: MachineCpus | None = None
    """What is said of the machine beside it."""


@dataclass(frozen=True, slots=True)
class MachineCpus:
    """What a file says of the machine of a trial."""

    cpus: int | None = None
    cores: int | None = None
    threads_per_core: int | None = None
    nodes: int | None = None
    """NUMA nodes of the machine; of the trial's CPUs where it differs from step to step."""


@dataclass(frozen=True)
class Step:
    """All trials on one number of CPUs."""

    cpus: int
    """How many."""
    by_block: Mapping[int, float]
    """Throughput by block, operations per second."""
    lost: tuple[str, ...]
    """Why trials have no throughput."""
    readings: Mapping[str, float]
    """Latency, errors, counts and the numbers of --reading, by name: medians of the trials that have one; of
    shares of time their means, so that they add up to the whole time."""
    missing: Mapping[str, str]
    """Why there is no reading, by name."""
    law: IronLaw = field(metadata=NOT_PRINTED)
    listed: str | None = None
    """Which CPUs, None where that is not known."""
    shares_cores: bool = False
    """Whether some of them are threads of one core."""
    nodes: int | None = None
    """NUMA nodes that they are of, None where that is not known."""
    is_threads: bool = False
    """Whether ``cpus`` counts threads."""
    efficiency_ratio: float | None = None
    """Throughput of each CPU over that of each at the first step."""
    law_ops_per_s: float | None = None
    """Throughput of the model that holds, None where none does."""
    machine_cpus: int | None = None
    """CPUs of the machine where threads are counted and that is known."""

    @property
    def noun(self) -> str:
        """What ``cpus`` counts."""
        return "thread" if self.is_threads else "CPU"

    @property
    def usable_cpus(self) -> int | None:
        """CPUs that it can use; None of threads on a machine whose CPUs are not known."""
        if not self.is_threads:
            return self.cpus
        return None if self.machine_cpus is None else min(self.cpus, self.machine_cpus)

    @property
    @printed
    def path_length(self) -> Quantity:
        """Instructions for each operation."""
        return self.law.path_length

    @property
    @printed
    def cpi(self) -> Quantity:
        """Clocks for each instruction."""
        return self.law.cpi

    @property
    @printed
    def frequency_hz(self) -> Quantity:
        """Clocks for each second of CPU time."""
        return self.law.frequency_hz

    @property
    @printed
    def ops_per_s(self) -> float | None:
        """Geometric mean of the throughput, None where ``lost`` says why."""
        values = list(self.by_block.values())
        return _mean(values) if values else None

    @property
    @printed
    def busy_ratio(self) -> float | None:
        """Share of its CPUs' time that the workload used, None where that is not known."""
        used, usable = self.law.used_cpus.value, self.usable_cpus
        if BUSY in self.readings:
            return self.readings[BUSY]
        return None if used is None or usable is None else used / usable

    @property
    def idle_ratio(self) -> float | None:
        """Share of its CPUs' time in which nothing ran; what the workload left where others are not known."""
        if IDLE in self.readings or self.busy_ratio is None:
            return self.readings.get(IDLE)
        return max(0.0, 1 - self.busy_ratio)

    @property
    @printed
    def others_ratio(self) -> float | None:
        """Share of its CPUs' time that went to others; None where that was not measured."""
        if IDLE not in self.readings or self.busy_ratio is None:
            return None
        return max(0.0, 1 - self.readings[IDLE] - self.busy_ratio)

    @property
    def others_factor(self) -> float:
        """Factor of throughput that others cost at most; 1 where their share was not measured.

        While a CPU is idle, no thread waits for one. Without others, only the time in which all CPUs are busy
        gets shorter, by at most what others had: the same work then takes 1 - ``others_ratio`` of the time.
        """
        taken = self.others_ratio or 0.0
        return 1 / (1 - taken) if taken < 1 else math.inf


@dataclass(frozen=True, slots=True)
class Place:
    """Where the CPUs of a step are."""

    listed: str
    shares_cores: bool
    nodes: int | None


def steps_of(
    observations: Sequence[Observation], places: Mapping[int, Place] | None = None
) -> tuple[Step, ...]:
    """Return the steps in the order of their CPUs."""
    by_cpus: dict[int, list[Observation]] = {}
    for one in observations:
        by_cpus.setdefault(one.cpus, []).append(one)
    return tuple(_step(cpus, by_cpus[cpus], (places or {}).get(cpus)) for cpus in sorted(by_cpus))


def _step(cpus: int, trials: Sequence[Observation], place: Place | None) -> Step:
    known = [one for one in trials if one.ops_per_s is not None]
    missing = {name: reason for one in trials for name, reason in one.missing.items()}
    readings = {
        name: _mean_over_time(name, known) if name in SHARES else median(values)
        for name in (*READINGS, *sorted({name for one in trials for name in one.readings} - READINGS.keys()))
        # A trial that errors made invalid has no throughput, and these errors.
        if (
            values := [
                one.readings[name] for one in (trials if name == ERRORS else known) if name in one.readings
            ]
        )
    }
    more = (
        {}
        if place is None
        else {"listed": place.listed, "shares_cores": place.shares_cores, "nodes": place.nodes}
    )
    first = trials[0]
    return Step(
        cpus,
        {one.block: one.ops_per_s for one in known if one.ops_per_s is not None},
        tuple(one.reason or "not known" for one in trials if one.ops_per_s is None),
        readings,
        {name: reason for name, reason in missing.items() if name not in readings},
        iron_law(_counts(known, cpus, missing)),
        is_threads=first.is_threads,
        machine_cpus=first.machine_cpus,
        **more,  # type: ignore[arg-type]
    )


def _mean_over_time(name: str, trials: Sequence[Observation]) -> float:
    """Return the mean of a share over the time of the trials that have it."""
    known = [one for one in trials if name in one.readings]
    weights = [one.readings.get(ELAPSED, 0.0) for one in known]
    if not all(0 < weight < math.inf for weight in weights):
        weights = [1.0] * len(known)
    return fmean([one.readings[name] for one in known], weights)


def _counts(trials: Sequence[Observation], cpus: int, missing: Mapping[str, str]) -> Counts:
    rows = [_completed(one) for one in trials]
    means: dict[str, float | None] = {}
    # Each mean is over the trials that have everything that any has: otherwise a ratio would be of two times.
    # Means of logarithms, as that of the throughput: products of ratios stay what they are.
    names = {name for row in rows for name in row}
    whole = [row for row in rows if row.keys() >= names]
    for name in (INSTRUCTIONS, CYCLES, OPERATIONS, ELAPSED, CPU_TIME):
        values = [row[name] for row in whole] if name in names else []
        wrong = next((value for value in values if not 0 <= value < math.inf), None)
        if wrong is not None:
            values, missing = [], {**missing, name: f"{wrong:g} is no count"}
        means[name] = _mean(values) if values else None
    if not whole and names:
        missing = {**dict.fromkeys(names, "no trial has all of its counts"), **missing}
    reasons = dict(missing)
    if ELAPSED in reasons:
        reasons["duration_s"] = reasons[ELAPSED]
    return Counts(
        instructions=means[INSTRUCTIONS],
        cycles=means[CYCLES],
        operations=means[OPERATIONS],
        duration_s=means[ELAPSED],
        threads=cpus,
        cpu_s=means[CPU_TIME],
        missing=reasons,
    )


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean, exact for one value; the arithmetic one where any is 0."""
    if len(values) == 1 or min(values) == 0:
        return fmean(values)
    return geometric_mean(values)


def _completed(trial: Observation) -> dict[str, float]:
    """Return the counts of a trial with those that follow from its throughput."""
    row = {
        name: trial.readings[name]
        for name in (INSTRUCTIONS, CYCLES, OPERATIONS, ELAPSED, CPU_TIME)
        if name in trial.readings
    }
    rate = trial.ops_per_s or 0.0
    if ELAPSED not in row and OPERATIONS in row:
        row[ELAPSED] = row[OPERATIONS] / rate
    if OPERATIONS not in row and ELAPSED in row:
        row[OPERATIONS] = row[ELAPSED] * rate
    whole = trial.machine_cpus if trial.is_threads else trial.cpus
    if CPU_TIME not in row and BUSY in trial.readings and ELAPSED in row and whole is not None:
        # Where threads are counted, the share is of the machine's CPUs.
        row[CPU_TIME] = trial.readings[BUSY] * whole * row[ELAPSED]
    return row


def whole_blocks(steps: Sequence[Step]) -> dict[int, list[float]]:
    """Return throughput by CPUs, of the blocks in which every step has a value.

    Steps without any value are left out; where no block is whole, each step is its mean, as one block.
    """
    known = [step for step in steps if step.by_block]
    if not known:
        return {}
    blocks = sorted(set.intersection(*(set(step.by_block) for step in known)))
    if not blocks:
        return {step.cpus: [step.ops_per_s or fmean(step.by_block.values())] for step in known}
    return {step.cpus: [step.by_block[block] for block in blocks] for step in known}
