"""What the machine did during one phase, from its telemetry and the workload's own counters.

In: a recording (or None), the phase, and the run's other records. Out: `Conditions`.

Formulas. A CPU's share of a mode is the mode's rate over the sum of all modes' rates, so that an interval
that was lost, or a CPU that was offline for a while, does not bend it. Guest time is within user and nice
time already (proc_stat(5)) and is not added again. Pressure is the share of time in which some (or all)
tasks waited: PSI's totals over the covered time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from steelyard.analyze.load_hosts import load_hosts
from steelyard.analyze.operations.operations import Operations
from steelyard.analyze.operations.stalls import Stalls
from steelyard.analyze.operations.telemetry_correlation import Correlates
from steelyard.analyze.own_cpu import OwnCpu, foreign_ratio, own_cpu
from steelyard.analyze.pressure import disk_limits
from steelyard.analyze.pressure.disk_limits import GroupLimit, LimitedDisk
from steelyard.analyze.pressure.kernel_activity import Activity, observe_activity
from steelyard.analyze.pressure.thread_readings import Looks
from steelyard.analyze.pressure.threads import TargetUse, observe_target
from steelyard.analyze.pressure.traffic_shaping import Shaper
from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.services import CacheUse, GeneratorUse, observe_cache, observe_generator
from steelyard.analyze.stages import Stages
from steelyard.analyze.values import Quantity, cpus_in
from steelyard.records import CacheStats, LoadResult, Machine, Run
from steelyard.telemetry import EntityRates, Rates, Recording

if TYPE_CHECKING:
    # For types only: counters are concluded from conditions.
    from steelyard.analyze.counters.use import CounterUse
    from steelyard.records import HealthResult

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


@dataclass(frozen=True)
class PressureUse:
    """Share of the phase in which tasks waited for a resource."""

    some_ratio: Quantity
    full_ratio: Quantity


@dataclass(frozen=True)
class NetworkUse:
    """One interface. ``line_ratio`` is its busier direction over the line rate, missing without one.

    Where a lower limit was set on what it sends, that is the rate, and sending the direction.
    """

    interface: str
    received_bytes_per_s: Quantity
    sent_bytes_per_s: Quantity
    received_packets_per_s: Quantity
    sent_packets_per_s: Quantity
    lost_per_s: Quantity
    line_bytes_per_s: Quantity
    line_ratio: Quantity


@dataclass(frozen=True)
class DiskUse:
    """One disk."""

    device: str
    read_bytes_per_s: Quantity
    written_bytes_per_s: Quantity
    busy_ratio: Quantity
    operation_ns: Quantity = field(default_factory=lambda: Quantity(None, "ns", "not recorded"))
    """Mean time of a read or write, waiting in the device's queue included."""


@dataclass(frozen=True)
class MemoryUse:
    """The machine's memory over the phase."""

    total_bytes: Quantity
    available_low_bytes: Quantity
    used_high_bytes: Quantity
    swap_used_bytes: Quantity


@dataclass(frozen=True)
class Conditions:
    """Everything that `observe` found out about one phase."""

    begin_ns: int
    end_ns: int
    cpus: dict[int, CpuUse] = field(default_factory=dict)
    all_cpus: CpuSetUse = field(default_factory=lambda: CpuSetUse("all", (), None, "not recorded"))
    server_cpus: CpuSetUse = field(default_factory=lambda: CpuSetUse("server", (), None, "not recorded"))
    load_cpus: CpuSetUse = field(default_factory=lambda: CpuSetUse("load", (), None, "not recorded"))
    runnable: Quantity = field(default_factory=lambda: Quantity(None, "1", "not recorded"))
    blocked: Quantity = field(default_factory=lambda: Quantity(None, "1", "not recorded"))
    context_switches_per_s: Quantity = field(default_factory=lambda: Quantity(None, "1/s", "not recorded"))
    waiting_per_cpu: Quantity = field(default_factory=lambda: Quantity(None, "1", "not recorded"))
    throttles: Quantity = field(default_factory=lambda: Quantity(None, "1", "not recorded"))
    frequency_hz: Quantity = field(default_factory=lambda: Quantity(None, "hz", "not recorded"))
    power_w: dict[str, Quantity] = field(default_factory=dict)
    memory: MemoryUse | None = None
    pressure: dict[str, PressureUse] = field(default_factory=dict)
    network: list[NetworkUse] = field(default_factory=list)
    disks: list[DiskUse] = field(default_factory=list)
    limited_disks: list[LimitedDisk] = field(default_factory=list)
    """What processes did on disks whose rate was limited for them alone."""
    cache: CacheUse | None = None
    generator: GeneratorUse | None = None
    missing: dict[str, str] = field(default_factory=dict)
    """Source -> why it gave nothing."""
    foreign_ratio: float | None = None
    """What other processes used of the run's CPUs, as its verdict says; None where that was not measured."""
    foreign_load: bool = False
    """Whether the run's verdict objects to work of others on the run's CPUs."""
    has_load: bool = True
    """Whether a load generator drove the run: without one the workload decides itself how busy CPUs are."""
    load_elsewhere: bool = False
    """Whether other hosts made the load, so that none of this machine's CPUs is its."""
    activity: Activity = field(default_factory=Activity)
    shapers: Sequence[Shaper] = ()
    target: TargetUse | None = None
    """What the program's threads did, where a program was watched."""
    own_cpu: OwnCpu | None = None
    """What servers and load used by their own clocks, where the run has it."""
    machine: Machine | None = None
    profile: ProfileUse | None = None
    counters: "CounterUse | None" = None
    """What hardware counters say, where the run's folder was looked at for them; of a run with sides, of its
    servers.
    """
    load_counters: "CounterUse | None" = None
    """The same of the load."""
    health: "HealthResult | None" = None
    """The machine's last good health check, whose figures are limits."""
    operations: Operations | None = None
    """What the application finished, where a source was given."""
    correlates: Correlates | None = None
    """What of the telemetry moves with the operations."""
    stalls: Stalls | None = None
    """Stretches with much fewer operations than usual."""
    stall_cpus: tuple[float, float] | None = None
    """CPUs that the machine used in these stretches, and outside of them."""
    stages: Stages | None = None
    """Where a server's requests spent their time, by its own clock."""

    @property
    def shared_cpus(self) -> tuple[int, ...]:
        """CPUs that both the server and the load may use."""
        if not self.has_load or self.load_elsewhere:
            return ()
        return tuple(sorted(set(self.server_cpus.cpus) & set(self.load_cpus.cpus)))


def observe(
    recording: Recording | None,
    begin_ns: int,
    end_ns: int,
    *,
    run: Run,
    machine: Machine | None = None,
    load: LoadResult | None = None,
    cache_stats: Sequence[CacheStats] = (),
    looks: Looks | None = None,
    shapers: Sequence[Shaper] = (),
    set_around: Sequence[GroupLimit] = (),
    profile: ProfileUse | None = None,
    whole: bool = True,
) -> Conditions:
    """Return what happened between ``begin_ns`` and ``end_ns`` (CLOCK_MONOTONIC).

    ``looks`` are those at a program that was watched, ``shapers`` the limits set on interfaces. To the limits
    on disks that the run set, ``set_around`` adds those that were set around it. Without ``whole`` what only
    rules ask for is left out (``Conditions.activity``), which takes half of the time.
    """
    cache = observe_cache(cache_stats, begin_ns, end_ns)
    generator = observe_generator(load)
    target = observe_target(looks)
    known: dict[str, Any] = {"cache": cache, "generator": generator, "target": target, "shapers": shapers}
    elsewhere = load_hosts(run) != ()
    known |= {"machine": machine, "profile": profile, "load_elsewhere": elsewhere}
    known["has_load"] = elsewhere or run.cpus.load is not None
    if recording is None:
        return Conditions(begin_ns, end_ns, **known)
    limits = [*set_around, *disk_limits.disk_limits(run)]
    reader = _Reader(recording, begin_ns, end_ns)
    cpus, cpu_missing = _cpus(reader.read("cpu"))
    scheduler = reader.only("scheduler")
    waits = reader.read("schedstat")
    throttle = reader.read("throttle")
    disks = _disks(reader)
    server = cpus_in(run.cpus.server) or frozenset(cpus)
    load_set = cpus_in(run.cpus.load) or frozenset(cpus)
    return Conditions(
        begin_ns,
        end_ns,
        cpus=cpus,
        all_cpus=_cpu_set("all", frozenset(cpus), cpus, cpu_missing),
        server_cpus=_cpu_set("server", server, cpus, cpu_missing),
        load_cpus=_cpu_set("load", load_set, cpus, cpu_missing),
        runnable=_without_reader(reader.gauge(scheduler, "scheduler", "runnable", "1")),
        blocked=reader.gauge(scheduler, "scheduler", "blocked", "1"),
        context_switches_per_s=reader.rate(scheduler, "scheduler", "context_switches", "1/s"),
        waiting_per_cpu=_waiting(waits),
        throttles=_throttles(throttle),
        frequency_hz=_frequency(reader.read("cpufreq")),
        power_w=_power(reader),
        memory=_memory(reader),
        pressure=_pressure(reader),
        network=_network(reader, machine, shapers),
        disks=disks,
        limited_disks=_limited(reader, limits, disks),
        missing=dict(reader.missing),
        own_cpu=own_cpu(run.metrics, len(server), None if run.cpus.load is None else len(load_set)),
        activity=observe_activity(reader.read, machine=machine) if whole else Activity(),
        foreign_ratio=foreign_ratio(run, cpus),
        foreign_load=any(check.id == "foreign-load" for check in run.verdict.reasons)
        if run.verdict
        else False,
        **known,
    )


class _Reader:
    """Reads sources of one recording over one phase, and keeps why some gave nothing."""

    def __init__(self, recording: Recording, begin_ns: int, end_ns: int) -> None:
        self._recording = recording
        self._span = (begin_ns, end_ns)
        self._known: dict[tuple[str, Sequence[str] | None], Rates] = {}
        self.missing: dict[str, str] = {}

    def read(self, source: str, columns: Sequence[str] | None = None) -> Rates:
        """Return a source's rates, all or those of some columns."""
        asked = source, None if columns is None else tuple(columns)
        if asked not in self._known:
            self._known[asked] = rates = self._recording.rates(source, *self._span, columns)
            if rates.missing is not None:
                self.missing[source] = rates.missing
        return self._known[asked]

    def only(self, source: str) -> EntityRates | None:
        return self.read(source).only()

    def rate(
        self, entity: EntityRates | None, source: str, column: str, unit: str, scale: float = 1.0
    ) -> Quantity:
        """Return a counter's rate times ``scale``."""
        if entity is None:
            return Quantity(None, unit, self.missing.get(source, "not recorded"))
        rate = entity.rates.get(column)
        if rate is None or rate.per_s is None:
            return Quantity.of(None, unit, rate.missing if rate else None)
        return Quantity(rate.per_s * scale, unit)

    def gauge(
        self, entity: EntityRates | None, source: str, column: str, unit: str, figure: str = "mean"
    ) -> Quantity:
        """Return a figure (mean, low, high, last) of a gauge."""
        if entity is None:
            return Quantity(None, unit, self.missing.get(source, "not recorded"))
        gauge = entity.gauges.get(column)
        value = getattr(gauge, figure) if gauge else None
        return Quantity.of(value, unit, gauge.missing if gauge else None)


def _without_reader(runnable: Quantity) -> Quantity:
    """Return the runnable tasks without the one that reads their number, which then runs."""
    return runnable if runnable.value is None else replace(runnable, value=max(0.0, runnable.value - 1.0))


def _cpus(rates: Rates) -> tuple[dict[int, CpuUse], str | None]:
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


def _waiting(rates: Rates) -> Quantity:
    """Mean number of tasks that were runnable but waited, per CPU: wait time over wall time."""
    total = rates.total("wait_ns")
    if total is None:
        return Quantity.of(None, "1", rates.missing)
    return Quantity(total / 1e9 / len(rates.entities), "1")


def _throttles(rates: Rates) -> Quantity:
    """Times that a core or its package was slowed for heat during the phase."""
    gains = [
        rate.increment
        for entity in rates.entities
        for name, rate in entity.rates.items()
        if name.endswith("throttles") and rate.increment is not None
    ]
    return Quantity(float(sum(gains)), "1") if gains else Quantity.of(None, "1", rates.missing)


def _frequency(rates: Rates) -> Quantity:
    means = [
        entity.gauges["frequency_hz"].mean for entity in rates.entities if "frequency_hz" in entity.gauges
    ]
    known = [mean for mean in means if mean is not None]
    return Quantity(sum(known) / len(known), "hz") if known else Quantity.of(None, "hz", rates.missing)


def _power(reader: _Reader) -> dict[str, Quantity]:
    by_domain = {}
    for entity in reader.read("power").entities:
        counted = reader.rate(entity, "power", "energy_uj", "w", 1e-6)
        read = reader.gauge(entity, "power", "power_uw", "w")
        gauge = Quantity.of(None if read.value is None else read.value / 1e6, "w", read.missing)
        by_domain[str(entity.entity["domain"])] = counted if counted.value is not None else gauge
    return by_domain


def _memory(reader: _Reader) -> MemoryUse | None:
    entity = reader.only("memory")
    if entity is None:
        return None
    total = reader.gauge(entity, "memory", "total_bytes", "bytes", "last")
    available = reader.gauge(entity, "memory", "available_bytes", "bytes", "low")
    swap = reader.gauge(entity, "memory", "swap_total_bytes", "bytes", "last")
    free = reader.gauge(entity, "memory", "swap_free_bytes", "bytes", "low")
    return MemoryUse(total, available, _less(total, available), _less(swap, free))


def _less(whole: Quantity, part: Quantity) -> Quantity:
    if whole.value is None or part.value is None:
        return Quantity.of(None, whole.unit, whole.missing or part.missing)
    return Quantity(whole.value - part.value, whole.unit)


def _pressure(reader: _Reader) -> dict[str, PressureUse]:
    return {
        str(entity.entity["resource"]): PressureUse(
            reader.rate(entity, "pressure", "some_ns", "ratio", 1e-9),
            reader.rate(entity, "pressure", "full_ns", "ratio", 1e-9),
        )
        for entity in reader.read("pressure").entities
    }


def network_use(
    recording: Recording, begin_ns: int, end_ns: int, machine: Machine | None
) -> list[NetworkUse]:
    """Return what each interface moved between two times."""
    return _network(_Reader(recording, begin_ns, end_ns), machine, ())


def _network(reader: _Reader, machine: Machine | None, shapers: Sequence[Shaper]) -> list[NetworkUse]:
    set_limits: dict[str, float] = {}
    for shaper in shapers:
        known = set_limits.get(shaper.interface)
        set_limits[shaper.interface] = min(shaper.limit_bytes_per_s, known or shaper.limit_bytes_per_s)
    speeds = {card.name: card.speed_bits_per_s for card in machine.interfaces} if machine else {}
    uses = []
    for entity in reader.read("network").entities:
        name = str(entity.entity["interface"])

        def rate(column: str, unit: str, entity: EntityRates = entity) -> Quantity:
            return reader.rate(entity, "network", column, unit)

        received, sent = rate("received_bytes", "bytes/s"), rate("sent_bytes", "bytes/s")
        line = _line_rate(name, speeds.get(name))
        limit = set_limits.get(name)
        if limit is not None and (line.value is None or limit < line.value):
            # A limit set on an interface is one on what it sends.
            line, busier = Quantity(limit, "bytes/s"), sent.value
        else:
            busier = max((value for value in (received.value, sent.value) if value is not None), default=None)
        lost = [
            rate(column, "1/s")
            for column in ("received_drops", "received_errors", "sent_drops", "sent_errors")
        ]
        uses.append(
            NetworkUse(
                name,
                received,
                sent,
                rate("received_packets", "1/s"),
                rate("sent_packets", "1/s"),
                _sum(lost, "1/s"),
                line,
                _ratio(busier, line),
            )
        )
    return uses


def _line_rate(name: str, bits_per_s: int | None) -> Quantity:
    if name == "lo":
        return Quantity(None, "bytes/s", "loopback has no line rate: its bytes never leave the machine")
    if bits_per_s is None:
        return Quantity(None, "bytes/s", "the driver reports no line rate")
    return Quantity(bits_per_s / 8, "bytes/s")


def _ratio(value: float | None, whole: Quantity) -> Quantity:
    if value is None or not whole.value:
        return Quantity.of(None, "ratio", whole.missing or "no bytes were counted")
    return Quantity(value / whole.value, "ratio")


def _sum(parts: Iterable[Quantity], unit: str) -> Quantity:
    listed = list(parts)
    known = [part.value for part in listed if part.value is not None]
    missing = next((part.missing for part in listed if part.missing), None)
    return Quantity(sum(known), unit) if known else Quantity.of(None, unit, missing)


def _disks(reader: _Reader) -> list[DiskUse]:
    return [
        DiskUse(
            str(entity.entity["device"]),
            reader.rate(entity, "disk", "read_bytes", "bytes/s"),
            reader.rate(entity, "disk", "written_bytes", "bytes/s"),
            reader.rate(entity, "disk", "busy_ns", "ratio", 1e-9),
            _operation(reader, entity),
        )
        for entity in reader.read("disk").entities
    ]


def _operation(reader: _Reader, entity: EntityRates) -> Quantity:
    """Mean time of an operation: time of all over their number."""
    times = _sum([reader.rate(entity, "disk", f"{kind}_time_ns", "ns") for kind in ("read", "write")], "ns")
    counts = _sum([reader.rate(entity, "disk", f"{kind}s", "1/s") for kind in ("read", "write")], "1/s")
    if times.value is None or counts.value is None:
        return Quantity.of(None, "ns", times.missing or counts.missing)
    if counts.value == 0:
        return Quantity(None, "ns", "no operation finished")
    return Quantity(times.value / counts.value, "ns")


def _limited(reader: _Reader, limits: Sequence[GroupLimit], disks: Sequence[DiskUse]) -> list[LimitedDisk]:
    if not limits:
        return []
    whole = {disk.device: (disk.read_bytes_per_s, disk.written_bytes_per_s) for disk in disks}
    return disk_limits.observe_limited(limits, reader.read("cgroup", disk_limits.COLUMNS), whole)
