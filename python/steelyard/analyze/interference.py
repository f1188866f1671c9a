"""What disturbed a run, from its telemetry: steal, foreign load, throttling.

In: a recording, the window of the measure phase, the CPUs used, and the CPU time that the run's own processes
used. Out: `Interference`, shares of the used CPUs' time; what is missing is None with a reason.

Not here: whether that is too much (``verdict``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.analyze.process_times import ProcessTime, process_times

if TYPE_CHECKING:
    # For types only: reading recordings loads a query engine, which not every run comes to need.
    from steelyard.telemetry import EntityRates, Recording

_BUSY = ("user_ns", "nice_ns", "system_ns")
_INTERRUPTS = ("irq_ns", "softirq_ns")
_MODES = (*_BUSY, *_INTERRUPTS, "steal_ns", "idle_ns", "iowait_ns")
_NAMED_FROM_RATIO = 0.01
"""What used less of one CPU is not worth naming."""


@dataclass(frozen=True, slots=True)
class Interference:
    """Shares are of the used CPUs' time over the window, 0..1."""

    missing: str | None = None
    steal_ratio: float | None = None
    foreign_ratio: float | None = None
    """That of other processes, without ``kernel_ratio``."""
    foreign_commands: tuple[str, ...] = ()
    kernel_ratio: float = 0.0
    """That of kernel threads, which do what others ask for (writes, packets, reclaim), the run among them; 0
    where the run may not use all CPUs, so that it is not known on which of them they ran."""
    quota_throttled_ratio: float | None = None
    thermal_throttles: float | None = None
    server_busy_ratio: float | None = None
    """Share of the servers' CPUs' time that was not idle, stolen time included."""
    reasons: dict[str, str] = field(default_factory=dict)

    def foreign_claim(self, *, names: bool) -> str:
        """Return what other processes used, in words, with the names of the busiest if ``names``.

        >>> found = Interference(foreign_ratio=0.21, foreign_commands=("cc1",), kernel_ratio=0.02)
        >>> found.foreign_claim(names=True)
        'other processes used 21.0% of the CPU time of the run, mostly cc1 (kernel threads: 2.0%)'
        """
        listed = ", ".join(self.foreign_commands) if names else ""
        claim = f"other processes used {self.foreign_ratio or 0.0:.1%} of the CPU time of the run"
        kernel = (
            f" (kernel threads: {self.kernel_ratio:.1%})" if self.kernel_ratio >= _NAMED_FROM_RATIO else ""
        )
        return f"{claim}{f', mostly {listed}' if listed else ''}{kernel}"


def observe(
    recording: "Recording",
    begin_ns: int,
    end_ns: int,
    *,
    cpus: Sequence[int],
    own_cpu_s: float | None,
    own_commands: Sequence[str],
    own_cgroups: Sequence[str] = ("/",),
    server_cpus: Sequence[int] = (),
    interrupts_in_process_time: bool | None = None,
) -> Interference:
    """Return what disturbed the run on ``cpus`` between ``begin_ns`` and ``end_ns``.

    ``own_cpu_s`` is the CPU time of the run's own processes in the window, s; ``own_commands`` are their
    names, so that others can be named; ``own_cgroups`` are the cgroups above them, whose quotas bind them;
    ``server_cpus`` are those of ``cpus`` on which the servers run.
    ``interrupts_in_process_time`` is how the kernel charges interrupts
    (``machine.accounting``): where they are part of the run's own CPU time, as for a server most of them are,
    they must be part of what it is taken from too, or they hide as much foreign load. Where that is not known
    they are left out, and foreign load may be underestimated by them.
    """
    reasons: dict[str, str] = {}
    steal, busy, is_whole = _cpu(
        recording,
        begin_ns,
        end_ns,
        cpus=cpus,
        columns=(*_BUSY, *_INTERRUPTS) if interrupts_in_process_time else _BUSY,
        reasons=reasons,
    )
    seconds = (end_ns - begin_ns) / 1e9
    processes = process_times(recording, begin_ns, end_ns)
    kernel = 0.0
    if is_whole and seconds > 0:
        kernel = sum(one.total_ns for one in processes if one.is_kernel) / (1e9 * seconds * len(cpus))
    foreign = None
    if own_cpu_s is None:
        reasons["foreign"] = "the CPU time of the run's own processes is not known"
    elif busy is not None and seconds > 0:
        # Tick-based accounting may charge interrupts to whoever runs, which is mostly us: below zero is zero.
        foreign = max(0.0, busy - own_cpu_s / (seconds * len(cpus)) - kernel)
    return Interference(
        steal_ratio=steal,
        foreign_ratio=foreign,
        foreign_commands=_foreign_commands(
            processes,
            own_commands,
            named_from_ns=_NAMED_FROM_RATIO * seconds * 1e9,
            named_kernel=not is_whole,
        ),
        kernel_ratio=kernel,
        quota_throttled_ratio=_quota(recording, begin_ns, end_ns, own_cgroups),
        thermal_throttles=_thermal(recording, begin_ns, end_ns),
        server_busy_ratio=_server_busy(recording, begin_ns, end_ns, server_cpus),
        reasons=reasons,
    )


def _cpu(
    recording: "Recording",
    begin_ns: int,
    end_ns: int,
    *,
    cpus: Sequence[int],
    columns: Sequence[str],
    reasons: dict[str, str],
) -> tuple[float | None, float | None, bool]:
    """Return shares stolen and busy, and whether ``cpus`` are all CPUs."""
    rates = recording.rates("cpu", begin_ns, end_ns)
    used = [entity for entity in rates.entities if entity.entity.get("cpu") in set(cpus)]
    if rates.missing is not None or not used:
        reasons["cpu"] = rates.missing or "the recording lacks the used CPUs"
        return None, None, False
    steal = _sum(used, ("steal_ns",))
    busy = _sum(used, columns)
    if steal is None or busy is None:
        reasons["cpu"] = "fewer than two readings are in the measure phase"
    accounted = _accounted(used)
    return (
        None if steal is None else steal / accounted,
        None if busy is None else busy / accounted,
        len(used) == len(rates.entities),
    )


def _server_busy(recording: "Recording", begin_ns: int, end_ns: int, cpus: Sequence[int]) -> float | None:
    rates = recording.rates("cpu", begin_ns, end_ns)
    used = [entity for entity in rates.entities if entity.entity.get("cpu") in set(cpus)]
    busy = _sum(used, (*_BUSY, *_INTERRUPTS, "steal_ns"))
    return None if busy is None else min(1.0, busy / _accounted(used))


def _accounted(entities: "Sequence[EntityRates]") -> float:
    """Return the time of all modes, ns for a second.

    Ticks that a virtual CPU missed are in no mode: shares are of the time that the kernel accounts for, as
    they are wherever a page tells how busy CPUs were.
    """
    return _sum(entities, _MODES) or 1e9 * len(entities)


def _sum(entities: "Sequence[EntityRates]", columns: Sequence[str]) -> float | None:
    values = [
        entity.rates[column].per_s for entity in entities for column in columns if column in entity.rates
    ]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _foreign_commands(
    processes: Sequence[ProcessTime],
    own_commands: Sequence[str],
    *,
    named_from_ns: float,
    named_kernel: bool,
) -> tuple[str, ...]:
    used: dict[str, float] = {}
    for one in processes:
        # The kernel cuts names to 15 characters (proc_pid_comm(5)).
        if any(one.command[:15] == own[:15] for own in own_commands) or (one.is_kernel and not named_kernel):
            continue
        # A worker of the kernel is called by what it does at the moment.
        command = one.command.partition("/")[0] if one.is_kernel else one.command
        used[command] = used.get(command, 0.0) + one.total_ns
    ranked = sorted(used, key=lambda command: -used[command])
    return tuple(command for command in ranked[:3] if used[command] >= named_from_ns)


def _quota(recording: "Recording", begin_ns: int, end_ns: int, own_cgroups: Sequence[str]) -> float | None:
    """Return the largest share of the window that one of the run's cgroups spent throttled."""
    rates = recording.rates("cgroup", begin_ns, end_ns, ["throttled_ns"])
    shares = [
        rate.per_s / 1e9
        for entity in rates.entities
        if entity.entity.get("path") in own_cgroups
        and (rate := entity.rates.get("throttled_ns")) is not None
        and rate.per_s is not None
    ]
    return min(1.0, max(shares)) if shares else None


def _thermal(recording: "Recording", begin_ns: int, end_ns: int) -> float | None:
    rates = recording.rates("throttle", begin_ns, end_ns)
    counts = [
        rate.increment
        for entity in rates.entities
        for column in ("core_throttles", "package_throttles")
        if (rate := entity.rates.get(column)) is not None and rate.increment is not None
    ]
    return float(sum(counts)) if counts else None
