"""What of a machine moves results, how much, and why: the table by which differences are ranked.

In: a `Machine`. Out: named values, each with its likely effect. The effects are those of server work in
general and order a list; they are no predictions. A value of ``None`` means that the machine did not tell.

Not here: comparing (``machine.compare``), judging one machine (``machine.checks.rule``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from steelyard._base import parse_cpu_list
from steelyard.records import Machine

Scalar = str | int | float | bool | None


class Effect(IntEnum):
    """How much of a result a difference may explain."""

    IDENTITY = 0
    """Nothing: it identifies the machine or moment it is."""
    LITTLE = 1
    """Usually below the noise; decisive for a few programs."""
    SOME = 2
    """A few per cent, for many programs."""
    LARGE = 3
    """Ten per cent and more, for many programs."""
    DECISIVE = 4
    """Sets what the machine can do at all."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One value of a machine."""

    key: str
    """Path in the record, or a name for what is derived from several fields."""
    noun: str
    value: Scalar
    unit: str | None
    effect: Effect
    why: str
    tolerance: float = 0.0
    """Share by which numbers may differ without a reported difference; for ratios, the distance."""
    missing: str | None = None
    """Path whose reason tells why there is no value; the key unless given."""


_Row = tuple[str, str, Callable[[Machine], Scalar], str | None, Effect, str]

_CAPACITY = "more of them do more work at once"
_SPEED = "each instruction takes this many fewer or more nanoseconds"
_PLACE = "the distance of memory decides the cost of a cache miss"


def _cache(level: int, kind: str) -> Callable[[Machine], Scalar]:
    def value(machine: Machine) -> Scalar:
        caches = [cache for cache in machine.cpu.caches if cache.level == level and cache.type == kind]
        if not caches or any(cache.instances is None for cache in caches):
            return None
        return sum(cache.size_bytes * (cache.instances or 0) for cache in caches)

    return value


def _last_level(machine: Machine) -> Scalar:
    """Return the last-level cache's bytes, all instances."""
    levels = [cache.level for cache in machine.cpu.caches if cache.type == "unified"]
    return _cache(max(levels), "unified")(machine) if levels else None


def _dimms(machine: Machine) -> Scalar:
    return sum(bool(dimm.size_bytes) for dimm in machine.memory.dimms) or None


def _dimm_rate(machine: Machine) -> Scalar:
    rates = [dimm.configured_transfers_per_s for dimm in machine.memory.dimms if dimm.size_bytes]
    return min((rate for rate in rates if rate), default=None)


def _node_shape(machine: Machine) -> Scalar:
    return len(machine.numa_nodes) or None


def _farthest(machine: Machine) -> Scalar:
    return max((far for node in machine.numa_nodes for far in node.distances), default=None)


def _memoryless(machine: Machine) -> Scalar:
    if not machine.numa_nodes or any(node.memory_bytes is None for node in machine.numa_nodes):
        return None
    return sum(bool(node.cpus) and node.memory_bytes == 0 for node in machine.numa_nodes)


def _bandwidth(machine: Machine) -> Scalar:
    values = [node.access.read_bytes_per_s for node in machine.numa_nodes if node.access]
    return sum(value for value in values if value) or None


def _counted(counts: dict[str, int]) -> Scalar:
    """Return one name alone, several with their numbers."""
    if len(counts) <= 1:
        return next(iter(counts), None)
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))


def _smt_state(machine: Machine) -> Scalar:
    threads = machine.cpu.threads_per_core
    return None if threads is None else ("off" if threads == 1 else f"{threads} threads per core")


def _deepest(machine: Machine) -> Scalar:
    states = machine.cpu.idle_states
    latencies = [
        state.exit_latency_ns for state in states if state.is_enabled and state.exit_latency_ns is not None
    ]
    return max(latencies, default=None)


def _pools(machine: Machine) -> Scalar:
    if not machine.memory.huge_page_pools:
        return None
    return sum(pool.size_bytes * pool.pages for pool in machine.memory.huge_page_pools)


def _number_of(text: str | None) -> Scalar:
    numbers = None if text is None else parse_cpu_list(text)
    return None if numbers is None else len(numbers)


def _counters(machine: Machine) -> Scalar:
    return has_hardware_counters(machine)


def has_hardware_counters(machine: Machine) -> bool | None:
    """Return whether perf has a processor's counters: as `cpu`, `cpu_core`, or under an Arm core's name."""
    names = machine.cpu.performance_monitors
    if not names:
        return None
    return any(name in ("cpu", "cpu_core", "cpum_cf") or name.startswith("armv") for name in names)


_TABLE: tuple[_Row, ...] = (
    ("cpu.architecture", "instruction set", lambda m: m.cpu.architecture, None, Effect.DECISIVE,
     "other programs run: path lengths cannot be compared"),
    ("cpu.model", "processor", lambda m: m.cpu.model, None, Effect.DECISIVE,
     "another microarchitecture: every figure per core may differ"),
    ("cpu.cores", "cores", lambda m: m.cpu.cores, "1", Effect.DECISIVE, _CAPACITY),
    ("cpu.usable_cpus", "CPUs that may be used", lambda m: m.cpu.usable_cpus or None, "1", Effect.DECISIVE,
     _CAPACITY),
    ("cpu.logical_cpus", "CPUs online", lambda m: m.cpu.logical_cpus or None, "1", Effect.LARGE, _CAPACITY),
    ("cpu.quota_cpus", "CPU quota", lambda m: m.cpu.quota_cpus or "no limit", "1", Effect.DECISIVE,
     "beyond it every thread of the group is stopped until the next period"),
    ("cpu.threads_per_core", "SMT", _smt_state, None, Effect.DECISIVE,
     "IPC per thread and utilisation mean other things with SMT on and off"),
    ("cpu.frequency_max_hz", "highest frequency", lambda m: m.cpu.frequency_max_hz, "hz", Effect.LARGE,
     _SPEED),
    ("cpu.frequency_limit_hz", "frequency limit set", lambda m: m.cpu.frequency_limit_hz, "hz", Effect.LARGE,
     _SPEED),
    ("cpu.boost", "boost", lambda m: m.cpu.boost, None, Effect.LARGE,
     "without it the processor stays at its base frequency"),
    ("cpu.governors", "governor", lambda m: _counted(m.cpu.governors) or m.cpu.governor, None, Effect.LARGE,
     "decides how soon, and whether, the frequency follows the load"),
    ("cpu.energy_preference", "energy preference", lambda m: m.cpu.energy_preference, None, Effect.SOME,
     "how much the processor's own control favours saving"),
    ("cpu.frequency_driver", "frequency driver", lambda m: m.cpu.frequency_driver, None, Effect.SOME,
     "governors of the same name differ between drivers"),
    ("memory.total_bytes", "memory", lambda m: m.memory.total_bytes or None, "bytes", Effect.LARGE,
     "what does not fit is read from disk, or is not cached"),
    ("memory.limit_bytes", "memory limit", lambda m: m.memory.limit_bytes or "no limit", "bytes",
     Effect.LARGE, "what does not fit is reclaimed, or the group is killed"),
    ("memory.dimms.populated", "memory modules", _dimms, "1", Effect.LARGE,
     "modules fill channels, and channels are bandwidth"),
    ("memory.dimms.rate", "memory transfers", _dimm_rate, "transfers/s", Effect.LARGE,
     "memory bandwidth is in proportion"),
    ("caches.last", "last-level cache, all", _last_level, "bytes", Effect.LARGE,
     "what fits needs no memory access"),
    ("caches.l2", "L2, all", _cache(2, "unified"), "bytes", Effect.SOME, "what fits needs no L3 access"),
    ("caches.l1d", "L1 data, all", _cache(1, "data"), "bytes", Effect.LITTLE,
     "what fits costs some 4 cycles"),
    ("caches.l1i", "L1 instruction, all", _cache(1, "instruction"), "bytes", Effect.SOME,
     "server code rarely fits: front-end stalls"),
    ("cpu.sockets", "sockets", lambda m: m.cpu.sockets, "1", Effect.LARGE, _PLACE),
    ("numa_nodes.count", "NUMA nodes", _node_shape, "1", Effect.LARGE, _PLACE),
    ("numa_nodes.memoryless", "nodes with CPUs and no memory", _memoryless, "1", Effect.LARGE,
     "all memory is remote to their CPUs"),
    ("numa_nodes.farthest", "farthest node distance", _farthest, "1", Effect.SOME, _PLACE),
    ("numa_nodes.bandwidth", "memory bandwidth by HMAT", _bandwidth, "bytes/s", Effect.LARGE,
     "programs that stream are bound by it"),
    ("kernel.clocksource", "clock source", lambda m: m.kernel.clocksource, None, Effect.LARGE,
     "reading the time without the processor's counter is a slow system call or a device access"),
    ("hypervisor", "hypervisor", lambda m: m.hypervisor or "none", None, Effect.LARGE,
     "exits, a second page walk, and neighbours"),
    ("cpu.steal_ratio", "CPU time stolen since boot", lambda m: m.cpu.steal_ratio, "ratio", Effect.LARGE,
     "time that the hypervisor gave to others"),
    ("cpu.hardware_counters", "hardware counters", _counters, None, Effect.LITTLE,
     "nothing runs slower, but less can be explained"),
    ("container", "container", lambda m: m.container or "none", None, Effect.SOME,
     "its limits, network and file system are between program and kernel"),
    ("cpu.idle_states.latency", "wake-up from the deepest idle state", _deepest, "ns", Effect.SOME,
     "a request that finds its CPU idle waits for it"),
    ("cpu.idle_governor", "idle governor", lambda m: m.cpu.idle_governor, None, Effect.LITTLE,
     "chooses how deep idle CPUs sleep"),
    ("cpu.isolated", "isolated CPUs", lambda m: _number_of(m.cpu.isolated_cpus), "1", Effect.LARGE,
     "the scheduler places nothing on them"),
    ("cpu.offline", "CPUs offline", lambda m: _number_of(m.cpu.offline_cpus), "1", Effect.LARGE, _CAPACITY),
    ("cpu.throttled", "slowed for heat since boot",
     lambda m: None if m.cpu.thermal_throttles is None else m.cpu.thermal_throttles > 0, None, Effect.LARGE,
     "the clock is lower than the load needs"),
    ("memory.transparent_huge_pages", "transparent huge pages", lambda m: m.memory.transparent_huge_pages,
     None, Effect.SOME, "TLB misses of large heaps against waits for compaction"),
    ("memory.transparent_huge_page_defrag", "waiting for huge pages",
     lambda m: m.memory.transparent_huge_page_defrag, None, Effect.SOME,
     "whether a page fault compacts memory first"),
    ("memory.huge_pages.bytes", "huge pages set aside", _pools, "bytes", Effect.SOME,
     "fewer TLB misses for who uses them, less memory for all others"),
    ("memory.swap_bytes", "swap space",
     lambda m: None if "memory.swap_bytes" in m.missing else m.memory.swap_bytes, "bytes", Effect.SOME,
     "cold memory may be on disk when it is needed"),
    ("memory.swap_used", "swap in use",
     lambda m: None if m.memory.swap_used_bytes is None else m.memory.swap_used_bytes > 0, None, Effect.SOME,
     "pages were put out: memory was short"),
    ("interrupts.busiest_ratio", "device interrupts on the busiest CPU",
     lambda m: m.interrupts.busiest_ratio if m.interrupts else None, "ratio", Effect.SOME,
     "one CPU limits network and disks"),
    ("kernel.release", "kernel", lambda m: m.kernel.release, None, Effect.SOME,
     "scheduler, memory management, network stack and mitigations change"),
    ("cpu.microcode", "microcode", lambda m: m.cpu.microcode, None, Effect.SOME,
     "mitigations and erratum fixes may cost"),
    ("firmware.bios_version", "firmware", lambda m: m.firmware.bios_version, None, Effect.LITTLE,
     "its settings (power, prefetchers, sub-NUMA) are not visible from here"),
    ("resctrl.groups", "resctrl groups", lambda m: m.resctrl.groups if m.resctrl else None, "1", Effect.SOME,
     "groups may have less cache or bandwidth"),
    ("kernel.command_line", "boot command line", lambda m: m.kernel.command_line, None, Effect.SOME,
     "may switch features of the kernel"),
    ("distribution", "distribution", lambda m: m.distribution, None, Effect.LITTLE,
     "libraries and compiler options differ"),
    ("firmware.product", "system", lambda m: m.firmware.product, None, Effect.IDENTITY,
     "identifies the machine"),
    ("hostname", "host name", lambda m: m.hostname, None, Effect.IDENTITY, "identifies the machine"),
    ("kernel.boot_id", "boot", lambda m: m.kernel.boot_id, None, Effect.IDENTITY,
     "another machine, or booted again in between"),
)  # fmt: skip

_TOLERANCES = {
    "memory.total_bytes": 0.02,
    "cpu.steal_ratio": 0.01,
    "interrupts.busiest_ratio": 0.2,
    "memory.swap_bytes": 0.02,
}
"""What a kernel reserves varies from boot to boot, and what was counted since boot varies by the hour."""

_MISSING = {
    "memory.dimms.populated": "memory.dimms",
    "memory.dimms.rate": "memory.dimms",
    "caches.last": "cpu.caches",
    "caches.l2": "cpu.caches",
    "caches.l1d": "cpu.caches",
    "caches.l1i": "cpu.caches",
    "cpu.hardware_counters": "cpu.performance_monitors",
    "cpu.idle_states.latency": "cpu.idle_states",
    "cpu.isolated": "cpu.isolated_cpus",
    "cpu.offline": "cpu.offline_cpus",
    "cpu.throttled": "cpu.thermal_throttles",
    "interrupts.busiest_ratio": "interrupts",
    "memory.huge_pages.bytes": "memory.huge_page_pools",
    "memory.swap_used": "memory.swap_used_bytes",
    "numa_nodes.bandwidth": "numa_nodes.0.access",
    "numa_nodes.count": "numa_nodes",
    "numa_nodes.farthest": "numa_nodes",
    "numa_nodes.memoryless": "numa_nodes",
    "resctrl.groups": "resctrl",
}

_SYSCTL_EFFECTS = {
    "kernel.numa_balancing": (
        Effect.SOME,
        "page faults to sample where pages should be, and pages that move",
    ),
    "vm.zone_reclaim_mode": (Effect.SOME, "reclaims a node's cache before it uses another node's memory"),
    "vm.swappiness": (Effect.SOME, "which memory is reclaimed first when memory is short"),
    "kernel.sched_autogroup_enabled": (Effect.LITTLE, "CPU time is shared by session instead of by thread"),
    "net.core.somaxconn": (Effect.SOME, "connections beyond it wait or are dropped in bursts"),
    "net.ipv4.tcp_congestion_control": (Effect.SOME, "throughput over links with loss or delay"),
    "net.core.default_qdisc": (Effect.LITTLE, "order and pacing of packets that are sent"),
    "kernel.nmi_watchdog": (Effect.LITTLE, "takes one hardware counter"),
    "kernel.perf_event_paranoid": (Effect.LITTLE, "what may be measured, not how fast it runs"),
    "kernel.io_uring_disabled": (Effect.SOME, "servers fall back to other ways of I/O"),
}


def features(machine: Machine) -> Iterator[Feature]:
    """Yield the values of ``machine``, most telling first within one effect."""
    for key, noun, value, unit, effect, why in _TABLE:
        yield Feature(
            key, noun, value(machine), unit, effect, why, _TOLERANCES.get(key, 0.0), _MISSING.get(key)
        )
    for name, state in sorted(machine.cpu.mitigations.items()):
        why = "work at each entry to the kernel, or at each indirect branch"
        yield Feature(f"cpu.mitigations.{name}", f"mitigation of {name}", state, None, Effect.SOME, why)
    for name, text in sorted(machine.kernel.sysctl.items()):
        effect, why = _SYSCTL_EFFECTS.get(name, (Effect.LITTLE, "moves results of some programs"))
        yield Feature(f"kernel.sysctl.{name}", name, text, None, effect, why)
    yield from _disk_features(machine)
    yield from _interface_features(machine)


def _disk_features(machine: Machine) -> Iterator[Feature]:
    for disk in machine.disks:
        key, noun = f"disks.{disk.name}", f"disk {disk.name}"
        kind = None if disk.rotational is None else ("rotating" if disk.rotational else "solid state")
        rows: tuple[tuple[str, Scalar, str | None, Effect, str], ...] = (
            ("model", disk.model, None, Effect.SOME, "its latency and bandwidth"),
            ("size_bytes", disk.size_bytes, "bytes", Effect.LITTLE, "larger ones have more channels"),
            ("kind", kind, None, Effect.LARGE, "milliseconds against microseconds for a random read"),
            ("scheduler", disk.scheduler, None, Effect.SOME, "order of requests, and CPU time for each"),
            ("queue_requests", disk.queue_requests, "1", Effect.LITTLE, "how much the device may overlap"),
            ("read_ahead_bytes", disk.read_ahead_bytes, "bytes", Effect.LITTLE, "speed of sequential reads"),
            ("write_cache", disk.write_cache, None, Effect.SOME, "the cost of a flush"),
        )
        for name, value, unit, effect, why in rows:
            yield Feature(f"{key}.{name}", f"{noun}: {name.split('_')[0]}", value, unit, effect, why)


def _interface_features(machine: Machine) -> Iterator[Feature]:
    for card in machine.interfaces:
        key, noun = f"interfaces.{card.name}", f"interface {card.name}"
        known = card.settings
        rows: tuple[tuple[str, str, Scalar, str | None, Effect, str], ...] = (
            ("speed_bits_per_s", "speed", card.speed_bits_per_s, "bits/s", Effect.LARGE, "bounds throughput"),
            ("driver", "driver", card.driver, None, Effect.SOME, "offloads and cost of a packet"),
            ("mtu_bytes", "MTU", card.mtu_bytes, "1", Effect.SOME, "packets for the same bytes"),
            ("receive_queues", "receive queues", card.receive_queues, "1", Effect.SOME,
             "how many CPUs can receive at once"),
            ("settings.receive_ring", "receive ring", known.receive_ring if known else None, "1", Effect.SOME,
             "bursts that fit are not dropped"),
            ("settings.receive_delay_ns", "interrupt delay", known.receive_delay_ns if known else None, "ns",
             Effect.SOME, "latency against interrupts"),
        )  # fmt: skip
        for name, label, value, unit, effect, why in rows:
            yield Feature(f"{key}.{name}", f"{noun}: {label}", value, unit, effect, why)
        for name, state in (known.offloads if known else {}).items():
            why = "work moves between card and processor"
            yield Feature(f"{key}.settings.offloads.{name}", f"{noun}: {name}", state, None, Effect.SOME, why)
