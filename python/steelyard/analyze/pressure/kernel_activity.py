"""What the kernel counted beside CPU time: paging, reclaim, disk operations, TCP, NUMA, quotas.

In: the sources of a recording over a phase. Out: `Activity`, rates by the kernel's own names and figures of
each disk and node, every one with the reason where it is missing.

Formulas. A disk's mean latency is the time of its operations over their number, its queue the weighted time
over the time covered (Documentation/admin-guide/iostats.rst). The remote share of a node is what tasks that
ran elsewhere allocated on it, over all that was allocated there (Documentation/admin-guide/numastat.rst).

Not here: what a figure amounts to (``rules``).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.analyze.values import Quantity
from steelyard.machine.devices import rotates

if TYPE_CHECKING:
    from steelyard.records import Machine
    from steelyard.telemetry import EntityRates, Rates

    Read = Callable[..., Rates]

VMSTAT = (
    *("pgfault", "pgmajfault", "pswpin", "pswpout", "pgscan_direct", "compact_stall", "oom_kill"),
    *("allocstall_normal", "allocstall_movable", "allocstall_dma32", "workingset_refault_file"),
    *("workingset_activate_file", "pgscan_kswapd"),
    *("thp_fault_alloc", "thp_fault_fallback", "numa_pages_migrated"),
    *("numa_hint_faults", "numa_hint_faults_local"),
)
"""Events of /proc/vmstat that a rule asks for."""
TCP = (
    *("active_opens", "passive_opens", "sent_segments", "retransmitted_segments", "timeouts"),
    *("listen_overflows", "backlog_drops", "pruned", "udp_receive_buffer_errors", "udp_send_buffer_errors"),
)
"""Counters of TCP and UDP that a rule asks for."""
_CGROUPS_NAMED = 5


@dataclass(frozen=True)
class DiskActivity:
    """One disk. Latencies are means over the operations that ended in the phase."""

    device: str
    operations_per_s: Quantity
    read_latency_ns: Quantity
    write_latency_ns: Quantity
    latency_ns: Quantity
    operation_bytes: Quantity
    queue: Quantity
    flushes_per_s: Quantity
    writes_per_s: Quantity
    busy_ratio: Quantity
    rotational: bool | None = None
    """Whether it is known to rotate; None too for a guest's disk that says so itself."""


@dataclass(frozen=True)
class NodeActivity:
    """One NUMA node. ``free_ratio`` is the lowest of the phase."""

    node: int
    remote_ratio: Quantity
    miss_ratio: Quantity
    allocated_per_s: Quantity
    free_ratio: Quantity


@dataclass(frozen=True)
class Activity:
    """Everything that `observe_activity` found; ``vmstat`` and ``tcp`` are rates a second by column."""

    vmstat: Mapping[str, float] = field(default_factory=dict)
    tcp: Mapping[str, float] = field(default_factory=dict)
    forks_per_s: Quantity = field(default_factory=lambda: Quantity(None, "1/s", "not recorded"))
    disks: Sequence[DiskActivity] = ()
    nodes: Sequence[NodeActivity] = ()
    wait_by_cpu: Mapping[int, float] = field(default_factory=dict)
    """CPU -> mean number of tasks that wanted it and did not run."""
    dirty_high_bytes: Quantity = field(default_factory=lambda: Quantity(None, "bytes", "not recorded"))
    page_tables_bytes: Quantity = field(default_factory=lambda: Quantity(None, "bytes", "not recorded"))
    anonymous_bytes: Quantity = field(default_factory=lambda: Quantity(None, "bytes", "not recorded"))
    anonymous_huge_bytes: Quantity = field(default_factory=lambda: Quantity(None, "bytes", "not recorded"))
    throttled: Mapping[str, float] = field(default_factory=dict)
    """Cgroup -> share of the phase in which its CPU quota held it back, above 0 only."""

    def event(self, name: str) -> float:
        """Return an event of /proc/vmstat a second, 0 where this kernel does not count it."""
        return self.vmstat.get(name, 0.0)


def observe_activity(read: "Read", *, machine: "Machine | None" = None) -> Activity:
    """Return what the machine did; ``read`` gives the rates of a source over the phase."""
    memory, scheduler, waits = read("memory").only(), read("scheduler").only(), read("schedstat")
    groups = read("cgroup", ("throttled_ns",))
    throttled = {
        str(entity.entity["path"]): min(1.0, per_s / 1e9)
        for entity in groups.entities
        if (per_s := _per_s(entity, "throttled_ns"))
    }
    return Activity(
        vmstat=_events(read("vmstat", VMSTAT).only()),
        tcp=_events(read("tcp", TCP).only()),
        forks_per_s=_rate(scheduler, "forks", "1/s"),
        disks=_disks(read("disk"), machine),
        nodes=[_node(entity) for entity in read("numa").entities],
        wait_by_cpu={
            int(entity.entity["cpu"]): per_s / 1e9
            for entity in waits.entities
            if (per_s := _per_s(entity, "wait_ns")) is not None
        },
        dirty_high_bytes=_gauge(memory, "dirty_bytes", "high"),
        page_tables_bytes=_gauge(memory, "page_tables_bytes", "high"),
        anonymous_bytes=_gauge(memory, "anonymous_bytes", "mean"),
        anonymous_huge_bytes=_gauge(memory, "anonymous_huge_bytes", "mean"),
        throttled=dict(sorted(throttled.items(), key=lambda item: -item[1])[:_CGROUPS_NAMED]),
    )


def _per_s(entity: "EntityRates", column: str) -> float | None:
    rate = entity.rates.get(column)
    return rate.per_s if rate is not None else None


def _events(entity: "EntityRates | None") -> dict[str, float]:
    if entity is None:
        return {}
    return {name: rate.per_s for name, rate in entity.rates.items() if rate.per_s is not None}


def _rate(entity: "EntityRates | None", column: str, unit: str, scale: float = 1.0) -> Quantity:
    per_s = None if entity is None else _per_s(entity, column)
    return Quantity.of(None if per_s is None else per_s * scale, unit, "not recorded")


def _gauge(entity: "EntityRates | None", column: str, figure: str) -> Quantity:
    gauge = None if entity is None else entity.gauges.get(column)
    value = None if gauge is None else getattr(gauge, figure)
    return Quantity.of(value, "bytes", gauge.missing if gauge else "not recorded")


def _over(part: float | None, whole: float | None, unit: str, missing: str) -> Quantity:
    if part is None or not whole:
        return Quantity(None, unit, missing)
    return Quantity(part / whole, unit)


def _plus(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _disks(rates: "Rates", machine: "Machine | None") -> list[DiskActivity]:
    """Return the disks, without their partitions where the inventory tells which are which."""
    known = (
        {disk.name: rotates(machine, disk) for disk in machine.disks} if machine and machine.disks else None
    )
    disks = []
    for entity in rates.entities:
        device = str(entity.entity["device"])
        if known is not None and device not in known:
            continue
        per = {name: _per_s(entity, name) for name in entity.rates}
        operations = _plus(per.get("reads"), per.get("writes"))
        times = _plus(per.get("read_time_ns"), per.get("write_time_ns"))
        moved = _plus(per.get("read_bytes"), per.get("written_bytes"))
        idle = "no operation ended in this phase"
        disks.append(
            DiskActivity(
                device=device,
                operations_per_s=Quantity.of(operations, "1/s", "not recorded"),
                read_latency_ns=_over(per.get("read_time_ns"), per.get("reads"), "ns", idle),
                write_latency_ns=_over(per.get("write_time_ns"), per.get("writes"), "ns", idle),
                latency_ns=_over(times, operations, "ns", idle),
                operation_bytes=_over(moved, operations, "bytes", idle),
                queue=_rate(entity, "weighted_ns", "1", 1e-9),
                flushes_per_s=_rate(entity, "flushes", "1/s"),
                writes_per_s=_rate(entity, "writes", "1/s"),
                busy_ratio=_rate(entity, "busy_ns", "ratio", 1e-9),
                rotational=known.get(device) if known else None,
            )
        )
    return disks


def _node(entity: "EntityRates") -> NodeActivity:
    per = {name: _per_s(entity, name) for name in entity.rates}
    local, other = per.get("local_node"), per.get("other_node")
    hit, miss = per.get("numa_hit"), per.get("numa_miss")
    free, used = entity.gauges.get("free_bytes"), entity.gauges.get("used_bytes")
    whole = (
        None
        if free is None or used is None or free.last is None or used.last is None
        else free.last + used.last
    )
    nothing = "nothing was allocated on this node"
    return NodeActivity(
        node=int(entity.entity["node"]),
        remote_ratio=_over(other, _plus(local, other), "ratio", nothing),
        miss_ratio=_over(miss, _plus(hit, miss), "ratio", nothing),
        allocated_per_s=Quantity.of(_plus(local, other), "pages/s", "not recorded"),
        free_ratio=_over(None if free is None else free.low, whole, "ratio", "not recorded"),
    )
