"""How hard a workload presses on each resource of a machine, and which of them are its pressure points.

In: `Conditions` of a phase, the machine, and limits that were measured (a health check) or stated. Out: one
`Pressure` for each of CPU, DRAM capacity and bandwidth, disk latency and bandwidth, and network: the ratio to
the limit, whose limit it is, the evidence in words, or the reason why there is no ratio.

The four resources and their parts are those of Awasthi et al., "System-Level Characterization of Datacenter
Applications" (ICPE 2015), whose Table 4 of pressure points the thresholds reproduce.

Invariants: a part without a limit has no ratio, and is a pressure point only where tasks were seen to wait
for it; a ratio above its threshold is one whatever the other parts say, since a workload may have several.

Not here: what to do about it (rules), what a resource's saturation cost (profiles, counters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from steelyard._base.documents import NOT_PRINTED
from steelyard.analyze.conditions import Conditions
from steelyard.analyze.counters.smt import split_utilisation, used_capacity
from steelyard.analyze.facts.cpus import CpuSetUse
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.pressure import limits as limits_of
from steelyard.analyze.pressure.disk_limits import LimitedDisk
from steelyard.analyze.pressure.limits import Limit, Limits
from steelyard.analyze.values import Quantity
from steelyard.machine.devices import rotates
from steelyard.records import HealthResult, Machine

if TYPE_CHECKING:
    from steelyard.telemetry import Recording

CPU_RATIO = 0.75
"""The paper calls 80 % (Nutch's reduce phase) a pressure point; queues grow fast from about here."""
DRAM_CAPACITY_RATIO = 0.85
"""Memory that cannot be reclaimed: Memcache's had more than 90 %, and Linux gets short before all is gone."""
DRAM_BANDWIDTH_RATIO = 0.70
"""Loaded latency rises steeply from about here; the paper's workloads stay below 0.2 and have no pressure."""
DISK_LATENCY_RATIO = 0.25
"""Share of time that was waited for disks. Cassandra's CPUs wait half of theirs."""
DISK_BANDWIDTH_RATIO = 0.70
NETWORK_RATIO = 0.70
"""Of the busier direction."""
MEMORY_STALL_RATIO = 0.10
"""Share of time in which tasks waited for memory (PSI): reclaim, refaults, swap."""

THRESHOLDS = {
    "cpu": CPU_RATIO,
    "dram_capacity": DRAM_CAPACITY_RATIO,
    "dram_bandwidth": DRAM_BANDWIDTH_RATIO,
    "disk_latency": DISK_LATENCY_RATIO,
    "disk_bandwidth": DISK_BANDWIDTH_RATIO,
    "network": NETWORK_RATIO,
}
"""Part -> ratio from which it is a pressure point."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """How near a part of the machine came to its limit."""

    part: str = field(metadata=NOT_PRINTED)
    ratio: float | None
    """Use over limit, None where there is no limit or no measurement."""
    limit: str | None
    """Whose limit: measured, stated, line rate ...; None without one."""
    evidence: str
    """What was seen, in words and human units."""
    reason: str | None
    """Why there is no ratio, None where there is one."""
    is_pressure_point: bool
    """Whether it holds the workload back."""
    binding: bool = field(default=True, metadata=NOT_PRINTED)
    """Whether the limit holds for all who use it together: loopback's is that of one connection."""


@dataclass(frozen=True, slots=True)
class Intensities:
    """All parts of one phase."""

    cpu: Pressure
    """Of the CPUs."""
    dram_capacity: Pressure
    """Of memory that is not reclaimable."""
    dram_bandwidth: Pressure
    """Of memory bandwidth."""
    disk_latency: Pressure
    """Of time that was waited for disks."""
    disk_bandwidth: Pressure
    """Of the busiest disk."""
    network: Pressure
    """Of the busiest interface."""

    def parts(self) -> list[Pressure]:
        """Return the parts in the order of the fields."""
        return [getattr(self, each.name) for each in fields(self)]


def intensities(
    conditions: Conditions,
    machine: Machine | None,
    *,
    health: HealthResult | None = None,
    limits: Limits | None = None,
    dram_bytes_per_s: Quantity | None = None,
    smt_uplift_ratio: float | None = None,
    network_peak_bytes_per_s: Mapping[str, float] | None = None,
) -> Intensities:
    """Return how hard the workload pressed on each part during one phase.

    ``dram_bytes_per_s`` is what memory controllers' counters show, ``smt_uplift_ratio`` what second threads
    add on this machine (without it utilisation stands for capacity, with bounds), and
    ``network_peak_bytes_per_s`` the busiest interval of each interface (`network_peaks`).
    """
    stated = limits or Limits()
    return Intensities(
        cpu=_cpu(conditions, machine, smt_uplift_ratio),
        dram_capacity=_dram_capacity(conditions, machine),
        dram_bandwidth=dram_bandwidth(dram_bytes_per_s, stated, health),
        disk_latency=_disk_latency(conditions, health),
        disk_bandwidth=_disk_bandwidth(conditions, machine, stated, health),
        network=_network(conditions, stated, health, network_peak_bytes_per_s or {}),
    )


def pressure_points(intensities: Intensities) -> list[str]:
    """Return the parts that are pressure points, the one furthest above its threshold first."""
    pressing = [each for each in intensities.parts() if each.is_pressure_point]
    return [each.part for each in sorted(pressing, key=lambda each: -_excess(each))]


def _excess(pressure: Pressure) -> float:
    return (pressure.ratio or 0.0) / THRESHOLDS[pressure.part]


def over_phases(phases: Mapping[str, Intensities]) -> Intensities:
    """Return for each part the phase that pressed hardest on it, which the evidence names.

    A workload that computes in one phase and writes in another has both pressure points. Raises ValueError
    for no phases.
    """
    if not phases:
        raise ValueError("no phases")
    worst: dict[str, Pressure] = {}
    for each in fields(Intensities):
        name, pressure = max(
            ((name, getattr(parts, each.name)) for name, parts in phases.items()),
            key=lambda pair: (pair[1].is_pressure_point, pair[1].ratio is not None, pair[1].ratio or 0.0),
        )
        evidence = (
            f"in {name}: {pressure.evidence}" if len(phases) > 1 and pressure.evidence else pressure.evidence
        )
        worst[each.name] = replace(pressure, evidence=evidence)
    return Intensities(**worst)


def network_peaks(recording: Recording, begin_ns: int, end_ns: int) -> dict[str, float]:
    """Return the rate of each interface's busiest interval and direction, bytes per second."""
    series = recording.series("network", begin_ns, end_ns, ["received_bytes", "sent_bytes"], points=1)
    peaks: dict[str, float] = {}
    for entity in series.entities:
        highs = [float(value) for band in entity.bands.values() for value in band.high if value == value]
        if highs:
            peaks[str(entity.entity["interface"])] = max(highs)
    return peaks


def _held(part: str, ratio: float, source: str, evidence: str, also: bool = False) -> Pressure:
    return Pressure(part, ratio, source, evidence, None, ratio >= THRESHOLDS[part] or also)


def _missing(part: str, reason: str, evidence: str = "", also: bool = False) -> Pressure:
    return Pressure(part, None, None, evidence, reason, also)


def _cpu(conditions: Conditions, machine: Machine | None, uplift: float | None) -> Pressure:
    cpus = conditions.cpus.server if conditions.cpus.server.use is not None else conditions.cpus.all
    if cpus.use is None:
        return _missing("cpu", cpus.missing or "CPU time was not recorded")
    busy, parts = _own_cpu(conditions, cpus)
    split = split_utilisation(cpus.use)
    parts.append(f"{_percent(split.wait_ratio)} waiting for disks")
    if conditions.scheduler.runnable.value is not None:
        parts.append(f"{conditions.scheduler.runnable.value:.1f} runnable tasks on {len(cpus.cpus)} CPUs")
    evidence = ", ".join(parts)
    limit = limits_of.cpus(machine, max(1, len(cpus.cpus)))
    if limit.value is not None and limit.value < len(cpus.cpus):
        # Others outside the quota may have used the CPUs too: more than all of it is all of it.
        return _held("cpu", min(1.0, busy * len(cpus.cpus) / limit.value), limit.source or "", evidence)
    threads = machine.cpu.threads_per_core if machine is not None else None
    if threads == 2:
        capacity = used_capacity(min(1.0, busy), threads_per_core=2, uplift_ratio=uplift)
        if capacity.low is not None and capacity.high is not None:
            evidence += f"; {_percent(capacity.low)} to {_percent(capacity.high)} of what the cores can do"
            if uplift is not None:
                # The scheduler fills idle cores before it shares one, which is the upper bound.
                source = f"capacity of cores whose second thread adds {_percent(uplift)}"
                return _held("cpu", capacity.high, source, evidence)
    return _held("cpu", busy, limit.source or "", evidence)


def _cpus(count: int) -> str:
    return f"{count} CPU{'s' if count > 1 else ''}"


def _own_cpu(conditions: Conditions, cpus: CpuSetUse) -> tuple[float, list[str]]:
    """Return the share of the CPUs' time that the workload itself used, and whose the rest was, in words.

    What others took from it is no pressure of its own: it disturbs, and is reported as such.
    """
    use, count = cpus.use, max(1, len(cpus.cpus))
    if use is None:
        raise AssertionError("the requested CPUs were not recorded")
    whose = conditions.usage.blame
    stolen = (
        [f"{_percent(use.modes['steal'])} stolen by the hypervisor"]
        if use.modes.get("steal", 0.0) >= 0.005
        else []
    )
    counted = conditions.own_cpu
    if conditions.target is not None and whose.own is not None:
        own = min(1.0, whose.own / count)
        evidence = [f"the program used {_percent(own)} of {_cpus(count)}"]
    elif counted is not None and counted.servers is not None:
        own = min(1.0, counted.servers / count)
        evidence = [f"the servers used {_percent(own)} of {_cpus(count)}"]
        if counted.load is not None and conditions.cpus.shared:
            evidence.append(f"the load {_percent(counted.load / count)}")
    else:
        own, evidence = None, []
    if own is not None:
        machine = max(1, len(conditions.cpus.all.cpus))
        if whose.neighbours is not None and whose.neighbours / machine >= 0.005:
            evidence.append(f"other processes {_percent(whose.neighbours / machine)} of {_cpus(machine)}")
        return own, evidence + stolen
    if conditions.foreign.is_objected:
        stolen.append("other processes' work included")
    split = split_utilisation(use)
    shares = {"user": split.user_ratio, "system": split.system_ratio}
    parts = [f"{_percent(share)} {name}" for name, share in shares.items() if share >= 0.005]
    return use.own_ratio, [
        f"{_percent(use.own_ratio)} busy{': ' if parts else ''}{', '.join(parts)}",
        *stolen,
    ]


def _dram_capacity(conditions: Conditions, machine: Machine | None) -> Pressure:
    memory = conditions.memory
    stalls = conditions.pressure.get("memory")
    stalled = stalls.some_ratio.value if stalls is not None else None
    pressed = stalled is not None and stalled >= MEMORY_STALL_RATIO
    details = f"pressure of memory (PSI, some) {_percent(stalled)}" if pressed and stalled is not None else ""
    if memory is None or memory.used_high_bytes.value is None or not memory.total_bytes.value:
        reason = memory.used_high_bytes.missing if memory is not None else None
        return _missing("dram_capacity", reason or "memory was not recorded", details, pressed)
    used, total = memory.used_high_bytes.value, memory.total_bytes.value
    evidence = f"at most {_bytes(used)} of {_bytes(total)} not reclaimable"
    if details:
        evidence += f"; {details}"
    limit = machine.memory.limit_bytes if machine is not None else None
    if limit is not None and limit < total:
        evidence += f"; the cgroup's own limit of {_bytes(limit)} is not compared, as its use is not known"
    return _held("dram_capacity", used / total, "memory size", evidence, pressed)


def dram_bandwidth(used: Quantity | None, stated: Limits, health: HealthResult | None) -> Pressure:
    """Return how hard memory's bandwidth was pressed by ``used`` bytes a second."""
    limit = limits_of.dram_bandwidth(stated, health)
    if used is None or used.value is None:
        reason = used.missing if used is not None else None
        return replace(
            _missing("dram_bandwidth", reason or "no counters of memory traffic were read"),
            limit=_limit_text(limit) if limit.value else None,
        )
    evidence = f"{_bytes(used.value)}/s read and written"
    if not limit.value:
        return _missing("dram_bandwidth", limit.missing or "no limit is known", evidence)
    return _held("dram_bandwidth", used.value / limit.value, _limit_text(limit), evidence)


def _disk_latency(conditions: Conditions, health: HealthResult | None) -> Pressure:
    """Time waited for disks, of CPUs (iowait) or of tasks (PSI): its limit is all of the time."""
    waits: list[tuple[float, str, str]] = []
    if conditions.cpus.all.use is not None:
        share = split_utilisation(conditions.cpus.all.use).wait_ratio
        waits.append((share, f"CPUs idle with a disk wait {_percent(share)}", "the CPUs' whole time"))
    stalls = conditions.pressure.get("io")
    if stalls is not None and stalls.some_ratio.value is not None:
        share = stalls.some_ratio.value
        said = f"pressure of I/O (PSI, some; an average over the CPUs) {_percent(share)}"
        waits.append((share, said, "the whole time"))
    if not waits:
        return _missing("disk_latency", "neither the wait of CPUs nor that of tasks (PSI) was recorded")
    parts = [text for _, text, _ in waits]
    slowest = max(
        (disk for disk in conditions.disks if disk.operation_ns.value is not None),
        key=lambda disk: (disk.busy_ratio.value or 0.0, disk.operation_ns.value or 0.0),
        default=None,
    )
    if slowest is not None and slowest.operation_ns.value is not None:
        idle = limits_of.measured_disk_latency_ns(slowest.device, health)
        parts.append(f"{slowest.device} took {_time(slowest.operation_ns.value)} an operation")
        if idle is not None:
            parts[-1] += f" ({_time(idle)} for one random read when checked)"
    ratio, _, source = max(waits)
    return _held("disk_latency", ratio, source, "; ".join(parts))


def _disk_bandwidth(
    conditions: Conditions, machine: Machine | None, stated: Limits, health: HealthResult | None
) -> Pressure:
    limited = [_limited_disk(each) for each in conditions.limited_disks]
    if not conditions.disks and not limited:
        return _missing("disk_bandwidth", conditions.missing.get("disk", "no disk was recorded"))
    rotating = {disk.name for disk in machine.disks if rotates(machine, disk)} if machine else set()
    pressures = [_one_disk(disk, disk.device in rotating, stated, health) for disk in conditions.disks]
    known = [each for each in (*limited, *pressures) if each.ratio is not None]
    unknown = [each for each in limited if each.ratio is None]
    if unknown and not any(each.is_pressure_point for each in known):
        # A limit that was set is the nearest one there is: others say nothing in its place.
        return unknown[0]
    if known:
        return max(known, key=lambda each: each.ratio or 0.0)
    busiest = max(
        zip(conditions.disks, pressures, strict=True), key=lambda pair: pair[0].busy_ratio.value or 0.0
    )
    return busiest[1]


def _limited_disk(disk: LimitedDisk) -> Pressure:
    limit = Limit(disk.limit.rate_bytes_per_s, disk.limit.source)
    used, read, written = disk.used_ratio, disk.read_bytes_per_s.value, disk.written_bytes_per_s.value
    if used.value is None or read is None or written is None:
        missing = _missing("disk_bandwidth", used.missing or "not recorded")
        return replace(missing, limit=_limit_text(limit))
    evidence = f"{disk.limit.device}: the run's processes read {_bytes(read)}/s and wrote {_bytes(written)}/s"
    return _held("disk_bandwidth", used.value, _limit_text(limit), evidence)


def _one_disk(disk: DiskUse, rotating: bool, stated: Limits, health: HealthResult | None) -> Pressure:
    read, written, busy = disk.read_bytes_per_s.value, disk.written_bytes_per_s.value, disk.busy_ratio.value
    if read is None or written is None:
        reason = disk.read_bytes_per_s.missing or disk.written_bytes_per_s.missing
        return _missing("disk_bandwidth", reason or "its bytes were not counted")
    evidence = f"{disk.device}: {_bytes(read)}/s read, {_bytes(written)}/s written"
    if busy is not None:
        evidence += f", {_percent(busy)} of the time with an operation under way"
    reading, writing = limits_of.disk_bandwidth(disk, stated, health)
    if (reading.value or not read) and (writing.value or not written) and (reading.value or writing.value):
        # A disk that reads half of its time has half of it left to write: shares of its time add up.
        ratio = sum(
            rate / limit.value for rate, limit in ((read, reading), (written, writing)) if limit.value
        )
        return _held("disk_bandwidth", ratio, _disk_limit_text(reading, writing), evidence)
    if rotating and busy is not None:
        return _held("disk_bandwidth", busy, "time of its one arm", evidence)
    return _missing("disk_bandwidth", reading.missing or writing.missing or "no limit is known", evidence)


def _limit_text(limit: Limit) -> str:
    """Return a rate and whose it is: ``26.7 GB/s measured by steelyard health on 2026-11-22``."""
    return f"{_bytes(limit.value or 0.0)}/s {limit.source or ''}".strip()


def _disk_limit_text(reading: Limit, writing: Limit) -> str:
    if not reading.value or not writing.value or reading == writing:
        return _limit_text(reading if reading.value else writing)
    rates = f"{_bytes(reading.value)}/s reading, {_bytes(writing.value)}/s writing"
    return f"{rates}, {reading.source or ''}"


def _network(
    conditions: Conditions, stated: Limits, health: HealthResult | None, peaks: Mapping[str, float]
) -> Pressure:
    if not conditions.network:
        return _missing("network", conditions.missing.get("network", "no interface was recorded"))
    pressures = [_one_link(link, stated, health, peaks.get(link.interface)) for link in conditions.network]
    known = [each for each in pressures if each.ratio is not None]
    if known:
        return max(known, key=lambda each: (each.is_pressure_point, each.ratio or 0.0))
    busiest = max(
        zip(conditions.network, pressures, strict=True),
        key=lambda pair: max(
            pair[0].received_bytes_per_s.value or 0.0, pair[0].sent_bytes_per_s.value or 0.0
        ),
    )
    return busiest[1]


def _one_link(link: NetworkUse, stated: Limits, health: HealthResult | None, peak: float | None) -> Pressure:
    rates = {"received": link.received_bytes_per_s.value, "sent": link.sent_bytes_per_s.value}
    known = {direction: rate for direction, rate in rates.items() if rate is not None}
    if not known:
        return _missing("network", link.received_bytes_per_s.missing or "its bytes were not counted")
    direction, rate = max(known.items(), key=lambda pair: pair[1])
    evidence = f"{link.interface}: {_bytes(rate)}/s {direction}, sustained"
    if peak is not None:
        evidence += f", {_bytes(peak)}/s in the busiest interval"
    if link.lost_per_s.value:
        evidence += f", {link.lost_per_s.value:.3g} packets/s lost"
    limit = limits_of.network(link, stated, health)
    if not limit.value:
        return _missing("network", limit.missing or "no limit is known", evidence)
    held = _held("network", rate / limit.value, f"{limit.source}, {_bytes(limit.value)}/s", evidence)
    # Loopback has no line: what one connection was measured at is no limit of several. A stated limit is one.
    has_line = link.interface != "lo" or link.interface in stated.network_bytes_per_s
    return held if has_line else replace(held, is_pressure_point=False, binding=False)


def _percent(ratio: float) -> str:
    """Write a share with enough digits.

    >>> _percent(0.983), _percent(0.004)
    ('98 %', '0.4 %')
    """
    return f"{ratio * 100:.1f} %" if 0 < ratio < 0.1 else f"{ratio * 100:.0f} %"


def _bytes(count: float) -> str:
    """Write bytes in decimal units, as line rates and disks are reported.

    >>> _bytes(1.25e9), _bytes(950)
    ('1.25 GB', '950 B')
    """
    size, unit = next(
        (pair for pair in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= pair[0]),
        (1.0, "B"),
    )
    return f"{count / size:.3g} {unit}"


def _time(ns: float) -> str:
    """Write a time span.

    >>> _time(95_000), _time(3.1e6)
    ('95 µs', '3.1 ms')
    """
    size, unit = next((pair for pair in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if ns >= pair[0]), (1.0, "ns"))
    return f"{ns / size:.3g} {unit}"
