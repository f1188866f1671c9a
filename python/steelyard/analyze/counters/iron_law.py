"""The iron law: operations per second = clocks per second x instructions per clock / instructions per
operation.

In: what was counted of a run (`Counts`). Out: `IronLaw`, each term with its unit or the reason why it is
missing, and the `LawDifference` of two runs with each term's share.

    performance = ops/s = clk/s x IPC / path length,   path length = (instructions/s) / (ops/s)

Path length is the software's (code, compiler, libraries), IPC the machine's under that software (branches,
caches, memory, contention), clk/s how much machine was used. After Chow, Jiang, Li and Rajput, "Software
Performance Analysis: Industry Perspectives".

A difference is decomposed in logarithms, in which the law is a sum: ln(ops/s ratio) = ln(clk/s ratio) +
ln(IPC ratio) - ln(path length ratio), and a term's share is its part of that sum. Shares sum to 1 exactly
and do not depend on an order; one is negative where its term moved the other way, and the others then
exceed 1.

Invariants: functions of their arguments only. A count that is missing, or 0 where work was done, leaves out
the terms that need it, each with the reason, and no others.

Not here: which function, branch or cache moved a term (``profiles.hot_functions``, ``topdown``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard._base import UsageError
from steelyard._base.documents import printed
from steelyard.analyze.counters.smt import (
    Bounds,
    SmtMode,
    core_cycles,
    ipc_per_core,
    require_same_mode,
    split_utilisation,
)
from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.reader import not_recorded
from steelyard.analyze.facts.span import Span
from steelyard.analyze.values import Quantity
from steelyard.records import Machine

NO_CHANGE_LOG = math.log(1.005)
"""Runs nearer than 0.5 % have no shares: parts of nothing."""


@dataclass(frozen=True)
class Meanwhile:
    """What the machine did while counters counted, which counts are held against."""

    span: Span
    cpus: Cpus = field(default_factory=Cpus)
    frequency_hz: Quantity = field(default_factory=lambda: not_recorded("hz"))


@dataclass(frozen=True)
class Counts:
    """What was counted of one run, over one time and one scope (the process, the cgroup or the machine).

    None for what was not counted, with the reason in ``missing`` by the field's name.
    """

    instructions: float | None
    """Instructions retired."""
    cycles: float | None
    """Clocks not halted, summed over hardware threads."""
    operations: float | None
    """Operations that the application finished."""
    duration_s: float | None
    """Time by the wall clock."""
    threads: int | None = None
    """Threads that each work through one operation after the other."""
    thread_s: float | None = None
    """Time of all threads together, where each has its own clock; else threads x ``duration_s`` is taken."""
    cpu_s: float | None = None
    """CPU time used."""
    smt: SmtMode | None = None
    """How threads share cores."""
    core_cycles: float | None = None
    """Clocks of physical cores while any thread of them ran, where an event counts them."""
    core_cycles_at_most: float | None = None
    """Cores x frequency x time: what ``core_cycles`` cannot exceed."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a count is None."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} is {value}: a count is finite and not negative")

    def of(self, name: str) -> Quantity:
        """Return one count as a quantity. A 0 cannot be divided by, and stands for nothing counted."""
        value = getattr(self, name)
        unit = "s" if name.endswith("_s") else "1"
        if value is None:
            return Quantity(None, unit, self.missing.get(name, not_known(name)))
        if value == 0:
            return Quantity(None, unit, self.missing.get(name, f"{_NUMBERS[name]} counted as 0"))
        return Quantity(float(value), unit)


_NUMBERS = {
    "instructions": "instructions",
    "cycles": "clocks",
    "operations": "operations",
    "duration_s": "the run's duration",
    "thread_s": "time of the threads",
    "cpu_s": "CPU time",
    "core_cycles": "clocks of cores",
    "core_cycles_at_most": "most clocks of cores",
}


def not_known(name: str) -> str:
    """Return why a count is missing of which nothing more is known.

    >>> not_known("cycles"), not_known("cpu_s")
    ('clocks were not counted', 'CPU time was not measured')
    """
    return f"{_NUMBERS[name]} {'was not measured' if name.endswith('_s') else 'were not counted'}"


def counts_of_phase(
    meanwhile: Meanwhile,
    operations: float | None,
    *,
    machine: Machine | None = None,
    counters: Mapping[str, float | None] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Counts:
    """Return what is known of a phase: its time, CPU time and SMT mode, beside the application's operations.

    ``counters`` has ``instructions``, ``cycles`` and, where counted, ``core_cycles`` of the same phase and of
    the CPUs that the workload ran on; without them the law still has operations per second and CPU second.
    CPU time is that of all processes on the server's CPUs: a share of others is in it.
    """
    counted = dict(counters or {})
    reasons = {
        name: "no counters were read" for name in ("instructions", "cycles") if counted.get(name) is None
    }
    seconds = meanwhile.span.seconds
    cpus = meanwhile.cpus.server
    cpu_s = None
    if cpus.use is None:
        reasons["cpu_s"] = cpus.missing or "CPU time was not recorded"
    else:
        cpu_s = split_utilisation(cpus.use).total_ratio * len(cpus.cpus) * seconds
    threads = machine.cpu.threads_per_core if machine is not None else None
    frequency = meanwhile.frequency_hz.value
    # Which of the workload's CPUs share a core is known only where it has them all.
    whole = machine is not None and len(cpus.cpus) == machine.cpu.logical_cpus
    cores = machine.cpu.cores if machine is not None and whole else len(cpus.cpus)
    return Counts(
        instructions=counted.get("instructions"),
        cycles=counted.get("cycles"),
        operations=operations,
        duration_s=seconds,
        cpu_s=cpu_s,
        smt=SmtMode(threads) if threads else None,
        core_cycles=counted.get("core_cycles"),
        core_cycles_at_most=cores * frequency * seconds if cores and frequency else None,
        missing={**reasons, **(missing or {})},
    )


@dataclass(frozen=True)
class IronLaw:
    """The terms of one run. Every value may be missing, with its reason."""

    ops_per_s: Quantity
    """Operations per second."""
    instructions_per_s: Quantity
    """Instructions per second."""
    cycles_per_s: Quantity
    """Clocks per second."""
    path_length: Quantity
    """Instructions per operation."""
    ipc: Quantity
    """Instructions per clock of a hardware thread."""
    cpi: Quantity
    """Clocks of a hardware thread per instruction."""
    cycles_per_op: Quantity
    """Clocks per operation."""
    ops_per_cycle: Quantity
    """Performance free of frequency and of how many CPUs were used: IPC / path length."""
    op_time_s: Quantity
    """Mean time that a thread takes for an operation."""
    used_cpus: Quantity
    """CPU time per second: CPUs that were busy on average."""
    frequency_hz: Quantity
    """Clocks per second of CPU time."""
    core_cycles_per_s: Bounds
    """Clocks of physical cores per second."""
    core_ipc: Bounds
    """Instructions per clock of a physical core, all its threads together."""
    smt: SmtMode | None
    """How threads share cores, None where that is not known."""


def iron_law(counts: Counts) -> IronLaw:
    """Return the terms of a run.

    >>> law = iron_law(Counts(instructions=96e9, cycles=48e9, operations=1000, duration_s=1))
    >>> law.ipc.value, law.cpi.value, law.path_length.value
    (2.0, 0.5, 96000000.0)
    >>> iron_law(Counts(None, 48e9, 1000, 1, missing={"instructions": "no such counter in this guest"})).ipc
    Quantity(value=None, unit='1', missing='no such counter in this guest')
    """
    instructions, cycles = counts.of("instructions"), counts.of("cycles")
    operations, seconds = counts.of("operations"), counts.of("duration_s")
    cpu_s = counts.of("cpu_s")
    cores = core_cycles(
        cycles.value,
        counts.smt,
        counted=counts.core_cycles or None,
        core_cycles_at_most=counts.core_cycles_at_most,
        missing=cycles.missing,
    )
    return IronLaw(
        ops_per_s=_over(operations, seconds, "1/s"),
        instructions_per_s=_over(instructions, seconds, "1/s"),
        cycles_per_s=_over(cycles, seconds, "1/s"),
        path_length=_over(instructions, operations, "1"),
        ipc=_over(instructions, cycles, "1"),
        cpi=_over(cycles, instructions, "1"),
        cycles_per_op=_over(cycles, operations, "1"),
        ops_per_cycle=_over(operations, cycles, "1"),
        op_time_s=_over(_thread_time(counts), operations, "s"),
        used_cpus=_over(cpu_s, seconds, "1"),
        frequency_hz=_over(cycles, cpu_s, "hz"),
        core_cycles_per_s=_bounds_over(cores, seconds),
        core_ipc=ipc_per_core(instructions.value, cores, missing=instructions.missing),
        smt=counts.smt,
    )


def _thread_time(counts: Counts) -> Quantity:
    own = counts.of("thread_s")
    seconds = counts.of("duration_s")
    if own.value is not None or not counts.threads:
        return own
    return Quantity.of(seconds.value and seconds.value * counts.threads, "s", seconds.missing)


def _over(part: Quantity, whole: Quantity, unit: str) -> Quantity:
    """Return one count over another; both are positive or missing."""
    if part.value is None or whole.value is None:
        return Quantity(None, unit, part.missing or whole.missing)
    return Quantity(part.value / whole.value, unit)


def _bounds_over(part: Bounds, whole: Quantity) -> Bounds:
    if part.low is None or part.high is None or whole.value is None:
        return Bounds(None, None, "1/s", part.missing or whole.missing)
    return Bounds(part.low / whole.value, part.high / whole.value, "1/s")


@dataclass(frozen=True)
class Term:
    """One term of a difference."""

    name: str
    """The term."""
    before: Quantity
    """In the one run."""
    after: Quantity
    """In the other."""
    factor: Quantity
    """What this term alone does to ops/s: above 1 is more. For path length, before over after."""
    share: Quantity
    """Its part of the logarithm of the ratio; the shares of all terms sum to 1."""

    @property
    @printed
    def change_ratio(self) -> Quantity:
        """After over before, less 1."""
        if self.before.value is None or self.after.value is None:
            return Quantity.of(None, "ratio", self.before.missing or self.after.missing)
        return Quantity(self.after.value / self.before.value - 1, "ratio")


@dataclass(frozen=True)
class LawDifference:
    """The iron law of two runs."""

    before: IronLaw
    """The terms of the one run."""
    after: IronLaw
    """The terms of the other."""
    ratio: Quantity
    """Operations per second of the other over those of the one."""
    terms: tuple[Term, ...]
    """What each term does."""
    caveat: str | None
    """What a reader must know before believing the IPC term; None where nothing."""

    @property
    @printed
    def main_term(self) -> str | None:
        """Name of the term that moved furthest, None where one is missing."""
        return None if self.main is None else self.main.name

    @property
    def main(self) -> Term | None:
        """The term whose logarithm moved furthest, None where one is missing."""
        if any(term.factor.value is None for term in self.terms):
            return None
        return max(self.terms, key=lambda term: abs(math.log(term.factor.value or 1.0)))


def difference(before: IronLaw, after: IronLaw, *, per_core: bool = False) -> LawDifference:
    """Return the difference of two runs with each term's share (see the module for the method).

    The terms are clocks per second, IPC and path length; where both runs know their CPU time, clocks per
    second are split into CPUs used x frequency. ``per_core`` counts clocks and IPC by physical core, as is
    how runs of different SMT modes compare.

    Raises UsageError where IPC by thread would be compared across SMT modes, or ``per_core`` is asked for and
    clocks of cores are not known well enough.
    """
    caveat = None if per_core else require_same_mode(before.smt, after.smt)
    pairs: list[tuple[str, Quantity, Quantity, int]] = []
    if per_core:
        pairs.append(
            ("core clocks per second", *_tight(before.core_cycles_per_s, after.core_cycles_per_s), 1)
        )
        pairs.append(("IPC per core", *_tight(before.core_ipc, after.core_ipc), 1))
    else:
        if before.used_cpus.value is not None and after.used_cpus.value is not None:
            pairs.append(("CPUs used", before.used_cpus, after.used_cpus, 1))
            pairs.append(("frequency", before.frequency_hz, after.frequency_hz, 1))
        else:
            pairs.append(("clocks per second", before.cycles_per_s, after.cycles_per_s, 1))
        pairs.append(("IPC", before.ipc, after.ipc, 1))
    pairs.append(("path length", before.path_length, after.path_length, -1))
    ratio = _over(after.ops_per_s, before.ops_per_s, "1")
    return LawDifference(before, after, ratio, tuple(_term(ratio, *pair) for pair in pairs), caveat)


def _tight(before: Bounds, after: Bounds) -> tuple[Quantity, Quantity]:
    first, second = before.quantity, after.quantity
    for run, bounds, value in (("first", before, first), ("second", after, second)):
        if value.value is None and bounds.low is not None:
            raise UsageError(
                f"clocks of cores of the {run} run are {value.missing}",
                hint="count them (Intel: CPU_CLK_UNHALTED.DISTRIBUTED), or run with every thread busy",
            )
    return first, second


def _term(ratio: Quantity, name: str, before: Quantity, after: Quantity, sign: int) -> Term:
    moved = _over(after, before, "1") if sign > 0 else _over(before, after, "1")
    if moved.value is None or ratio.value is None:
        share = Quantity(None, "ratio", moved.missing or ratio.missing)
    elif abs(math.log(ratio.value)) < NO_CHANGE_LOG:
        share = Quantity(None, "ratio", "the runs differ by less than 0.5 %, which has no parts")
    else:
        share = Quantity(math.log(moved.value) / math.log(ratio.value), "ratio")
    return Term(name, before, after, moved, share)


def work_per_cpu_second(law: IronLaw) -> Quantity:
    """Return operations per second of CPU time."""
    return _over(law.ops_per_s, law.used_cpus, "1/s")


def work_per_joule(law: IronLaw, power_w: Quantity) -> Quantity:
    """Return operations per joule of ``power_w``, the mean power of the same time."""
    if power_w.value == 0:
        return Quantity(None, "1/joule", "a power of 0 W was read, which no machine has")
    return _over(law.ops_per_s, power_w, "1/joule")
