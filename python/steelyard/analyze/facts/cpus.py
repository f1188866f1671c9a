"""How CPUs spent their time (source ``cpu``).

A CPU's share of a mode is the mode's rate over the sum of all modes' rates, so that an interval that was
lost, or a CPU that was offline for a while, does not bend it. Guest time is within user and nice time already
(proc_stat(5)) and is not added again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.analyze.facts.reader import Reader
from steelyard.analyze.values import cpus_in
from steelyard.records import Run

if TYPE_CHECKING:
    from steelyard.telemetry import Rates

MODES = ("user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle")
"""The modes of /proc/stat in drawing order. ``iowait`` is idle time too, and not busy."""

KERNEL_MODES = ("system", "irq", "softirq")
_NOT_BUSY = ("idle", "iowait")


@dataclass(frozen=True)
class CpuUse:
    """How one CPU, or several together, spent their time: mode -> share 0..1, summing to 1."""

    modes: dict[str, float]

    @property
    def busy_ratio(self) -> float:
        """Share of time in which something ran, stolen time included."""
        return sum(share for mode, share in self.modes.items() if mode not in _NOT_BUSY)

    @property
    def kernel_ratio(self) -> float | None:
        """Kernel's part of the busy time, None on idle CPUs."""
        busy = self.busy_ratio
        return sum(self.modes.get(mode, 0.0) for mode in KERNEL_MODES) / busy if busy > 0 else None

    @property
    def own_ratio(self) -> float:
        """Share of time in which something of this machine ran: busy time without what was stolen."""
        return self.busy_ratio - self.modes.get("steal", 0.0)


@dataclass(frozen=True)
class CpuSetUse:
    """A set of CPUs: ``use`` is their mean, None with the reason in ``missing``."""

    name: str
    cpus: tuple[int, ...]
    use: CpuUse | None
    missing: str | None = None

    @property
    def busy_ratio(self) -> float:
        """Share of time in which something ran on them, 0 where that is not known."""
        return 0.0 if self.use is None else self.use.busy_ratio

    @property
    def busy_cpus(self) -> float:
        """How many CPUs' worth of time was busy, 0 where that is not known."""
        return self.busy_ratio * len(self.cpus)


def _unread(name: str) -> CpuSetUse:
    return CpuSetUse(name, (), None, "not recorded")


@dataclass(frozen=True)
class Cpus:
    """The machine's CPUs, each by its number and in sets: all, the servers' and the load's."""

    by_cpu: dict[int, CpuUse] = field(default_factory=dict)
    all: CpuSetUse = field(default_factory=lambda: _unread("all"))
    server: CpuSetUse = field(default_factory=lambda: _unread("server"))
    load: CpuSetUse = field(default_factory=lambda: _unread("load"))
    is_load_here: bool = True
    """Whether a load of this machine used the set ``load``; other hosts' load has none of these CPUs."""

    @property
    def shared(self) -> tuple[int, ...]:
        """CPUs that both the servers and the load may use."""
        return tuple(sorted({*self.server.cpus} & {*self.load.cpus})) if self.is_load_here else ()


def observe_cpus(reader: Reader, run: Run, *, is_load_here: bool = True) -> Cpus:
    """Return how the CPUs spent their time; servers and load without a list may use all of them."""
    by_cpu, missing = _by_cpu(reader.read("cpu"))
    every = frozenset(by_cpu)

    def of(name: str, listed: frozenset[int]) -> CpuSetUse:
        return _cpu_set(name, listed or every, by_cpu, missing)

    return Cpus(
        by_cpu,
        of("all", every),
        of("server", cpus_in(run.cpus.server)),
        of("load", cpus_in(run.cpus.load)),
        is_load_here,
    )


def _by_cpu(rates: Rates) -> tuple[dict[int, CpuUse], str | None]:
    by_cpu: dict[int, CpuUse] = {}
    reason = rates.missing
    for entity in rates.entities:
        columns = {mode: entity.rates.get(f"{mode}_ns") for mode in MODES}
        speeds = {mode: rate.per_s for mode, rate in columns.items() if rate and rate.per_s is not None}
        whole = sum(speeds.values())
        if whole > 0:
            by_cpu[int(entity.entity["cpu"])] = CpuUse(
                {mode: speed / whole for mode, speed in speeds.items()}
            )
        else:
            reason = next((rate.missing for rate in columns.values() if rate and rate.missing), reason)
    return by_cpu, None if by_cpu else (reason or "no CPU was read")


def _cpu_set(name: str, listed: frozenset[int], cpus: dict[int, CpuUse], missing: str | None) -> CpuSetUse:
    members = tuple(sorted(listed))
    known = [cpus[cpu] for cpu in members if cpu in cpus]
    if not known:
        return CpuSetUse(name, members, None, missing or "none of these CPUs was read")
    modes = {mode: sum(use.modes.get(mode, 0.0) for use in known) / len(known) for mode in MODES}
    return CpuSetUse(name, members, CpuUse(modes))
