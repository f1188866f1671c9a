"""What simultaneous multithreading (SMT) does to IPC and to utilisation.

In: counts, and how threads share cores (`SmtMode`). Out: IPC of a thread and of a core, CPU time by use, the
part of a machine's capacity that is used, frequency while not halted.

A clock of a core that both its threads used is counted once for each thread. So IPC by thread falls when the
second thread comes, though the core does more: figures of different modes are never compared here without
saying so. Utilisation counts threads, too, while capacity is of cores: with one thread on every core half
of the "CPUs" are busy, and nearly all of the work gets done.

Invariants: what placement alone decides is given as bounds, never as a guess in the middle.

Not here: the iron law itself (``iron_law``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from steelyard._base import UsageError
from steelyard._base.documents import printed
from steelyard.analyze.facts.cpus import CpuUse
from steelyard.analyze.values import Quantity

TIGHT_RATIO = 0.02
"""Bounds that are nearer than this count as a value: counters of one run repeat about as well."""


@dataclass(frozen=True, slots=True)
class SmtMode:
    """How threads of the workload share cores."""

    threads_per_core: int
    """Hardware threads of a core that are online: 1 is SMT off (or absent)."""
    used_threads_per_core: int | None = None
    """Where the workload is bound to fewer of them: 1 is one thread on each core. None: not bound."""

    def __post_init__(self) -> None:
        used = self.used_threads_per_core
        if self.threads_per_core < 1 or (used is not None and not 1 <= used <= self.threads_per_core):
            raise ValueError(f"a core cannot use {used} of {self.threads_per_core} threads")

    @property
    def sharing(self) -> int:
        """Threads of the workload that may run on one core at once."""
        return self.used_threads_per_core or self.threads_per_core

    @property
    @printed
    def label(self) -> str:
        """The mode in words.

        >>> SmtMode(1).label, SmtMode(2).label, SmtMode(2, 1).label
        ('SMT off', 'SMT on, 2 threads a core', 'SMT on, 1 of 2 threads a core')
        """
        if self.threads_per_core == 1:
            return "SMT off"
        used = "" if self.used_threads_per_core is None else f"{self.used_threads_per_core} of "
        return f"SMT on, {used}{self.threads_per_core} threads a core"


@dataclass(frozen=True, slots=True)
class Bounds:
    """A value known to lie between two others; both None with the reason in ``missing``."""

    low: float | None
    """The least that it may be."""
    high: float | None
    """The most that it may be."""
    unit: str
    """The base unit."""
    missing: str | None = None
    """Why there is no value."""

    @property
    def quantity(self) -> Quantity:
        """Return the middle where the bounds are tight (`TIGHT_RATIO`), else a missing value that says so."""
        if self.low is None or self.high is None:
            return Quantity.of(None, self.unit, self.missing)
        if self.high - self.low <= TIGHT_RATIO * self.high:
            return Quantity((self.low + self.high) / 2, self.unit)
        reason = f"known only to be between {self.low:.4g} and {self.high:.4g}"
        return Quantity(None, self.unit, reason)


def require_same_mode(before: SmtMode | None, after: SmtMode | None) -> str | None:
    """Return None where IPC by thread may be compared, a caveat where one mode is not known.

    >>> require_same_mode(SmtMode(2), None)
    'the SMT mode of one run is not known: IPC by thread compares only within one mode'

    Raises UsageError where the modes differ.
    """
    if before is None or after is None:
        which = "neither" if before is None and after is None else "one"
        known = f"the SMT mode of {'each' if which == 'neither' else which} run is not known"
        return f"{known}: IPC by thread compares only within one mode"
    if before.sharing != after.sharing:
        raise UsageError(
            f"IPC by thread does not compare across SMT modes ({before.label}; {after.label})",
            hint="compare by physical core: count core clocks, or give cores and frequency, and ask per core",
        )
    return None


def core_cycles(
    thread_cycles: float | None,
    mode: SmtMode | None,
    *,
    counted: float | None = None,
    core_cycles_at_most: float | None = None,
    missing: str | None = None,
) -> Bounds:
    """Return clocks of physical cores while any thread of them ran.

    ``counted`` is an event that counts them (Intel's CPU_CLK_UNHALTED.DISTRIBUTED, or THREAD_ANY / 2).
    Without it they lie between ``thread_cycles`` over the threads of a core (all always busy together) and
    ``thread_cycles`` (never together), and are at most ``core_cycles_at_most``: cores x frequency x time.

    >>> core_cycles(96e9, SmtMode(2), core_cycles_at_most=16 * 3.0e9)
    Bounds(low=48000000000.0, high=48000000000.0, unit='1', missing=None)
    """
    if counted is not None:
        return Bounds(counted, counted, "1")
    if thread_cycles is None:
        return Bounds(None, None, "1", missing or "no clocks were counted")
    if mode is None:
        return Bounds(None, None, "1", "how many threads share a core is not known")
    low = thread_cycles / mode.sharing
    high = thread_cycles
    if core_cycles_at_most is not None and mode.sharing > 1:
        # Clocks and nominal frequency disagree a little; the counted clocks are the truth.
        high = max(low, min(high, core_cycles_at_most))
    return Bounds(low, high, "1")


def ipc_per_core(instructions: float | None, cycles: Bounds, *, missing: str | None = None) -> Bounds:
    """Return instructions per clock of a physical core, all its threads together."""
    if instructions is None:
        return Bounds(None, None, "1", missing or "no instructions were counted")
    if not cycles.low or not cycles.high:
        return Bounds(None, None, "1", cycles.missing or "no clocks were counted")
    return Bounds(instructions / cycles.high, instructions / cycles.low, "1")


def smt_uplift_ratio(one_thread_per_s: float | None, all_threads_per_s: float | None) -> Quantity:
    """Return what a core's further threads add to its work, over that of one thread.

    >>> round(smt_uplift_ratio(1000, 1200).value, 3)
    0.2
    """
    if not one_thread_per_s or all_threads_per_s is None:
        return Quantity(None, "ratio", "needs the rate of work with one thread a core and with all")
    return Quantity(all_threads_per_s / one_thread_per_s - 1, "ratio")


@dataclass(frozen=True, slots=True)
class UtilisationSplit:
    """CPU time by use, shares of all of it that sum to 1. ``wait`` is idle time with a disk wait pending."""

    user_ratio: float
    system_ratio: float
    wait_ratio: float
    idle_ratio: float
    steal_ratio: float

    @property
    def total_ratio(self) -> float:
        """Utilisation as tools report it: user and system time."""
        return self.user_ratio + self.system_ratio


def split_utilisation(use: CpuUse) -> UtilisationSplit:
    """Return the modes of /proc/stat by use: nice time is user's, interrupts are the system's."""
    modes = use.modes
    return UtilisationSplit(
        user_ratio=modes.get("user", 0.0) + modes.get("nice", 0.0),
        system_ratio=math.fsum(modes.get(mode, 0.0) for mode in ("system", "irq", "softirq")),
        wait_ratio=modes.get("iowait", 0.0),
        idle_ratio=modes.get("idle", 0.0),
        steal_ratio=modes.get("steal", 0.0),
    )


class Placement(StrEnum):
    """How busy threads lie on cores with two threads."""

    SPREAD = "across cores"
    """A core gets a second thread only when every core has one, as Linux's scheduler prefers."""
    PACKED = "cores + SMT threads"
    """Both threads of a core are busy together."""
    UNKNOWN = "unknown"


def used_capacity(
    utilisation_ratio: float,
    *,
    threads_per_core: int,
    uplift_ratio: float | None = None,
    placement: Placement = Placement.UNKNOWN,
    frequency_ratio: float = 1.0,
) -> Bounds:
    """Return the part of the machine's capacity that a utilisation stands for.

    Capacity is the rate of work with every thread busy at the frequency of that state. A core with one busy
    thread works at rate 1, with two at 1 + ``uplift_ratio``. An uplift that is not known is between 0 and
    1; what is not known widens the bounds. ``frequency_ratio`` is the frequency now over that at full load.

    >>> spread = Placement.SPREAD
    >>> round(used_capacity(0.5016, threads_per_core=2, uplift_ratio=0.03, placement=spread).low, 2)
    0.97

    Raises ValueError for a utilisation outside 0..1.
    """
    if not 0 <= utilisation_ratio <= 1:
        raise ValueError(f"utilisation {utilisation_ratio} is not a ratio")
    if threads_per_core == 1:
        value = utilisation_ratio * frequency_ratio
        return Bounds(value, value, "ratio")
    if threads_per_core != 2:
        return Bounds(None, None, "ratio", f"the model is of two threads a core, not {threads_per_core}")
    uplifts = (0.0, 1.0) if uplift_ratio is None else (uplift_ratio,)
    both_least = max(0.0, 2 * utilisation_ratio - 1)
    shared = {
        Placement.SPREAD: (both_least,),
        Placement.PACKED: (utilisation_ratio,),
        Placement.UNKNOWN: (both_least, utilisation_ratio),
    }[placement]
    values = [
        _core_rate(2 * utilisation_ratio, both, uplift) * frequency_ratio
        for uplift in uplifts
        for both in shared
    ]
    return Bounds(min(values), max(values), "ratio")


def used_capacity_of_cores(
    thread_busy_ratios: Iterable[Sequence[float]], *, uplift_ratio: float | None = None
) -> Bounds:
    """Return the part of the capacity used, from the busy share of each thread, core by core.

    How long both threads of a core were busy at once is not recorded: it is at least what their shares
    exceed the whole time by, and at most the smaller share.

    >>> used_capacity_of_cores([(0.8, 0.0), (0.8, 0.0)], uplift_ratio=0.25)
    Bounds(low=0.64, high=0.64, unit='ratio', missing=None)
    """
    low, high, cores = 0.0, 0.0, 0
    uplifts = (0.0, 1.0) if uplift_ratio is None else (uplift_ratio,)
    for shares in thread_busy_ratios:
        if len(shares) > 2:
            reason = f"the model is of two threads a core, not {len(shares)}"
            return Bounds(None, None, "ratio", reason)
        cores += 1
        if len(shares) == 1:
            values = [shares[0]]
        else:
            overlap = (max(0.0, sum(shares) - 1), min(shares))
            values = [_core_rate(sum(shares), both, uplift) for uplift in uplifts for both in overlap]
        low, high = low + min(values), high + max(values)
    if not cores:
        return Bounds(None, None, "ratio", "which threads share a core is not known")
    return Bounds(low / cores, high / cores, "ratio")


def used_capacity_of_sums(
    cpu_s: float,
    core_s: float,
    *,
    threads_per_core: float,
    both_s: tuple[float, float],
    uplift_ratio: float | None = None,
) -> Bounds:
    """Return the part of the capacity used, from sums over time and machines of one kind.

    ``cpu_s`` is busy time of threads, ``core_s`` time of cores whether busy or not, ``both_s`` the least and
    most core time with both threads busy.

    >>> used_capacity_of_sums(96.0, 48.0, threads_per_core=2, both_s=(48.0, 48.0), uplift_ratio=0.2)
    Bounds(low=1.0, high=1.0, unit='ratio', missing=None)
    """
    if core_s <= 0:
        return Bounds(None, None, "ratio", "no time of cores was recorded")
    if threads_per_core == 1:
        value = min(1.0, cpu_s / core_s)
        return Bounds(value, value, "ratio")
    if threads_per_core != 2:
        return Bounds(None, None, "ratio", f"the model is of two threads a core, not {threads_per_core:g}")
    uplifts = (0.0, 1.0) if uplift_ratio is None else (uplift_ratio,)
    values = [_core_rate(cpu_s, both, uplift) / core_s for uplift in uplifts for both in both_s]
    return Bounds(min(1.0, min(values)), min(1.0, max(values)), "ratio")


def _core_rate(busy: float, both: float, uplift: float) -> float:
    """Return a core's rate over its greatest: ``busy`` thread-time, of which ``both`` is shared."""
    return ((busy - 2 * both) + both * (1 + uplift)) / max(1.0, 1 + uplift)


def effective_frequency(cycles: float | None, cpu_s: float | None) -> Quantity:
    """Return clocks per second of CPU time: the frequency while not halted.

    >>> effective_frequency(80_256_000_000, 64 * 0.5016).value
    2500000000.0
    """
    if cycles is None or not cpu_s:
        return Quantity(None, "hz", "needs counted clocks and the CPU time that they were counted in")
    return Quantity(cycles / cpu_s, "hz")


@dataclass(frozen=True, slots=True)
class SystemUse:
    """Properties of a system that utilisation alone does not show."""

    split: UtilisationSplit
    frequency_hz: float | None = None
    placement: Placement = Placement.UNKNOWN


EQUAL_RATIO = 0.02
"""Shares nearer than 2 points, and frequencies nearer than 2 %, are alike."""


def system_differences(first: SystemUse, second: SystemUse) -> list[str]:
    """Return why two systems do not do the same work at their utilisations; empty where they are alike.

    Each line names what differs: the split of user and system time, frequency, or how threads lie on cores.
    """
    differences = []
    left, right = first.split, second.split
    if abs(left.total_ratio - right.total_ratio) > EQUAL_RATIO:
        differences.append(f"utilisation {_percent(left.total_ratio)} against {_percent(right.total_ratio)}")
    if abs(left.user_ratio - right.user_ratio) > EQUAL_RATIO:
        differences.append(
            f"user/system {left.user_ratio * 100:.0f}/{left.system_ratio * 100:.0f}"
            f" against {right.user_ratio * 100:.0f}/{right.system_ratio * 100:.0f}"
        )
    left_hz, right_hz = first.frequency_hz, second.frequency_hz
    if left_hz and right_hz and abs(left_hz / right_hz - 1) > EQUAL_RATIO:
        differences.append(f"effective frequency {left_hz / 1e9:.2f} against {right_hz / 1e9:.2f} GHz")
    if first.placement is not second.placement:
        differences.append(f"threads {first.placement} against {second.placement}")
    return differences


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.0f} %"
