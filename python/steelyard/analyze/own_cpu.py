"""CPU time of a run's own processes, as they counted it: what its CPUs did for others is not in it.

In: metrics of a run, and its conditions. Out: `OwnCpu`, and `CpuBlame`: whose doing it was that CPUs were not
idle. A CPU that is busy all the time may serve a neighbour; the servers' own clock (``server_cpu_ratio`` and
its parts) says what they used of it, as the kernel's says of a program that was watched.

Not here: measuring it (``bench``), and who the neighbours are (``interference``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.analyze.utilisation import reached_ratio
from steelyard.analyze.values import cpus_in
from steelyard.records import Metric, Run

if TYPE_CHECKING:
    from steelyard.analyze.conditions import Conditions


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


def blame(conditions: Conditions) -> CpuBlame:
    """Split the CPUs' time that was not idle by whose doing it was."""
    use, count = conditions.all_cpus.use, len(conditions.all_cpus.cpus)
    own = own_cpus(conditions)
    if use is None:
        return CpuBlame(own, None, None)
    stolen, ran = use.modes.get("steal", 0.0) * count, use.own_ratio * count
    if conditions.target is None and conditions.own_cpu is None:
        return CpuBlame(ran, None, stolen)
    if conditions.foreign_ratio is not None:
        # One figure, one source: what Steelyard and kernel threads used is neither's.
        return CpuBlame(own, conditions.foreign_ratio * count, stolen)
    # Read over slightly other spans, the program may come out above the machine by that little.
    return CpuBlame(own, None if own is None else max(0.0, ran - own), stolen)


def own_cpus(conditions: Conditions) -> float | None:
    """Return how many CPUs the program, or servers and load, used; None where nobody counted it."""
    if conditions.target is not None:
        return conditions.target.cpus.value
    return None if conditions.own_cpu is None else conditions.own_cpu.all


def foreign_ratio(run: Run, cpus: Collection[int]) -> float | None:
    """Return the share of ``cpus``, all there are, that others used by the verdict; None if it used some."""
    if run.verdict is None or not cpus_in(run.cpus.server) | cpus_in(run.cpus.load) >= set(cpus):
        return None
    return next((check.value for check in run.verdict.checks if check.id == "foreign-load"), None)


def server_used_ratio(conditions: Conditions) -> float | None:
    """Return the share of their CPUs that servers used: by their own clock, else what ran on these CPUs."""
    if conditions.own_cpu is not None and conditions.own_cpu.servers_ratio is not None:
        return min(1.0, conditions.own_cpu.servers_ratio)
    use = conditions.server_cpus.use
    return None if use is None else use.own_ratio


def own_kernel_ratio(conditions: Conditions) -> float | None:
    """Return the kernel's share of the program's or the servers' CPU time, None where nobody counted it."""
    if conditions.target is not None:
        return conditions.target.kernel_ratio.value
    return None if conditions.own_cpu is None else conditions.own_cpu.kernel_ratio
