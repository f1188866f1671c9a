"""CPU time of a run's own processes, as they counted it: what its CPUs did for others is not in it.

In: metrics of a run, and facts about its CPUs. Out: `OwnCpu`, and `Usage`: who used the CPUs, and whose doing
it was that they were not idle (`CpuBlame`). A CPU that is busy all the time may serve a neighbour; the
servers' own clock (``server_cpu_ratio`` and its parts) says what they used of it, as the kernel's says of a
program that was watched.

Not here: measuring it (``bench``), and who the neighbours are (``interference``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.foreign import Foreign
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.utilisation import reached_ratio
from steelyard.records import Metric


@dataclass(frozen=True)
class OwnCpu:
    """CPUs' worth of time over the measure phase; None where a side was not measured."""

    servers: float | None
    servers_ratio: float | None
    """``servers`` over the CPUs that they may use."""
    kernel_ratio: float | None
    """Share of ``servers`` in the kernel."""
    load: float | None
    load_ratio: float | None

    @property
    def all(self) -> float | None:
        """CPUs of servers and load together."""
        return None if self.servers is None else self.servers + (self.load or 0.0)


def own_cpu(metrics: Mapping[str, Metric] | None, server_cpus: int, load_cpus: int | None) -> OwnCpu | None:
    """Return what the processes of a run with ``metrics`` used of their CPUs, None without such metrics.

    ``load_cpus`` is None for a run without a load generator.
    """
    if not metrics:
        return None
    servers = reached_ratio(metrics)
    if servers is None:
        return None
    kernel = _value(metrics, "server_cpu_system_ratio")
    load = None
    if load_cpus is not None:
        parts = [_value(metrics, f"load_cpu_{part}_ratio") for part in ("user", "system")]
        load = sum(part for part in parts if part is not None) if None not in parts else None
    return OwnCpu(
        servers * server_cpus,
        servers,
        kernel / servers if kernel is not None and servers > 0 else None,
        None if load is None or load_cpus is None else load * load_cpus,
        load,
    )


def _value(metrics: Mapping[str, Metric], name: str) -> float | None:
    metric = metrics.get(name)
    return None if metric is None else metric.value


@dataclass(frozen=True)
class CpuBlame:
    """Whose doing it was that CPUs were not idle: CPUs' worth of time, None where that is not known.

    ``own`` is the workload's: the program's where one was watched, that of servers and load where they
    counted it, else all that ran. ``neighbours`` is that of other processes of this machine, ``hypervisor``
    what was stolen for other guests.
    """

    own: float | None
    neighbours: float | None
    hypervisor: float | None


@dataclass(frozen=True)
class Usage:
    """Who used the machine's CPUs: all that ran on them, and beside it what a workload's own clocks say."""

    cpus: Cpus = field(default_factory=Cpus)
    target: TargetUse | None = None
    """The program, where one was watched."""
    counted: OwnCpu | None = None
    """What servers and load used by their own clocks, where the run has it."""
    foreign: Foreign = field(default_factory=Foreign)

    @property
    def own_cpus(self) -> float | None:
        """How many CPUs the program, or servers and load, used; None where nobody counted it."""
        if self.target is not None:
            return self.target.cpus.value
        return None if self.counted is None else self.counted.all

    @property
    def server_ratio(self) -> float | None:
        """Share of their CPUs that servers used: by their own clock, else what ran on these CPUs."""
        if self.counted is not None and self.counted.servers_ratio is not None:
            return min(1.0, self.counted.servers_ratio)
        use = self.cpus.server.use
        return None if use is None else use.own_ratio

    @property
    def demand(self) -> float | None:
        """How many CPUs the watched program used or wanted, None where none was watched."""
        target = self.target
        if target is None or target.cpus.value is None or target.cpu_wait.value is None:
            return None
        return target.cpus.value + target.cpu_wait.value

    @property
    def busy_cpus(self) -> float:
        """How many CPUs' worth of time was busy, 0 where that is not known: with the workload's own work
        where it was counted.
        """
        own = self.own_cpus
        return self.cpus.all.busy_cpus if own is None else own

    @property
    def kernel_ratio(self) -> float | None:
        """The kernel's share of the program's or the servers' CPU time.

        Where nobody counted that, and others' load is not known to be in it, it is that of the CPUs.
        """
        if self.target is not None:
            return self.target.kernel_ratio.value
        own = None if self.counted is None else self.counted.kernel_ratio
        if own is not None or self.foreign.is_objected:
            return own
        use = self.cpus.server.use
        return None if use is None else use.kernel_ratio

    @property
    def blame(self) -> CpuBlame:
        """The CPUs' time that was not idle, split by whose doing it was."""
        use, count = self.cpus.all.use, len(self.cpus.all.cpus)
        own = self.own_cpus
        if use is None:
            return CpuBlame(own, None, None)
        stolen, ran = use.modes.get("steal", 0.0) * count, use.own_ratio * count
        if self.target is None and self.counted is None:
            return CpuBlame(ran, None, stolen)
        if self.foreign.ratio is not None:
            # One figure, one source: what Steelyard and kernel threads used is neither's.
            return CpuBlame(own, self.foreign.ratio * count, stolen)
        # Read over slightly other spans, the program may come out above the machine by that little.
        return CpuBlame(own, None if own is None else max(0.0, ran - own), stolen)
