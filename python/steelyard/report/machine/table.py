"""A machine's inventory as rows of text.

In: the machine record. Out: groups of (name, value). Missing values have no row here: the page lists them
with the reason.
"""

from collections import Counter

from steelyard.machine.models import generation
from steelyard.records import (
    Cpu,
    Dimm,
    Disk,
    Firmware,
    Interface,
    Kernel,
    LinkSettings,
    Machine,
    Memory,
    NumaNode,
    PciDevice,
)
from steelyard.report import format as fmt

Rows = list[tuple[str, str | None]]


def machine_line(machine: Machine | None) -> str:
    """Return the machine in one line, the empty string without one."""
    if machine is None:
        return ""
    parts = [
        _processor(machine.cpu),
        f"{machine.cpu.logical_cpus} CPUs",
        fmt.quantity(machine.memory.total_bytes, "bytes") if machine.memory.total_bytes else "",
        f"Linux {machine.kernel.release}" if machine.kernel.release else "",
        machine.hypervisor or "",
    ]
    return " · ".join(part for part in parts if part)


def _processor(cpu: Cpu) -> str:
    """Return the model, with its generation where the name does not say it."""
    name, built = cpu.model or "unknown processor", generation(cpu.identifier)
    return name if built is None or built.split()[0] in name else f"{name} ({built})"


def machine_groups(machine: Machine | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return groups of rows; empty ones are left out."""
    if machine is None:
        return []
    groups: list[tuple[str, Rows]] = [
        ("Processor", _cpu(machine.cpu)),
        ("Memory", _memory(machine)),
        ("NUMA", [_node(node) for node in machine.numa_nodes]),
        ("Disks", [_disk(disk) for disk in machine.disks]),
        ("Network", [_interface(card) for card in machine.interfaces]),
        ("PCI devices", [_pci(device) for device in machine.pci_devices]),
        ("System", [*_firmware(machine.firmware), *_system(machine, machine.kernel)]),
        ("Kernel settings", [*sorted(machine.kernel.sysctl.items())]),
        ("Mitigations", _mitigations(machine.cpu.mitigations)),
    ]
    kept = [(title, [(name, value) for name, value in rows if value]) for title, rows in groups]
    return [(title, rows) for title, rows in kept if rows]


def _size(value: float | None) -> str | None:
    return None if value is None else fmt.quantity(value, "bytes")


def _speed(value: float | None) -> str | None:
    return None if value is None else fmt.quantity(value, "hz")


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _join(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part)


def _cpu(cpu: Cpu) -> Rows:
    caches = [
        f"L{cache.level} {cache.type} {_size(cache.size_bytes)}"
        + (f" × {cache.instances}" if cache.instances else "")
        for cache in cpu.caches
    ]
    low, high = _speed(cpu.frequency_min_hz), _speed(cpu.frequency_max_hz)
    return [
        ("model", cpu.model),
        ("generation", generation(cpu.identifier)),
        ("architecture", cpu.architecture),
        ("sockets", _number(cpu.sockets)),
        ("cores", _number(cpu.cores)),
        ("CPUs", _number(cpu.logical_cpus)),
        ("usable CPUs", _number(cpu.usable_cpus)),
        ("CPU quota", None if cpu.quota_cpus is None else f"{fmt.significant(cpu.quota_cpus)} CPUs"),
        ("threads per core", _number(cpu.threads_per_core)),
        ("frequency", f"{low} to {high}" if low and high else low or high),
        ("frequency limit", _limit(cpu)),
        ("governor", _counted(cpu.governors) or cpu.governor),
        ("frequency driver", cpu.frequency_driver),
        ("energy preference", cpu.energy_preference),
        ("boost", None if cpu.boost is None else ("on" if cpu.boost else "off")),
        ("microcode", cpu.microcode),
        ("SMT", cpu.smt),
        ("offline CPUs", cpu.offline_cpus or None),
        ("isolated CPUs", cpu.isolated_cpus or None),
        ("idle states", _idle(cpu)),
        (
            "thermal throttling",
            None if cpu.thermal_throttles is None else f"{cpu.thermal_throttles:,} times since boot",
        ),
        (
            "stolen CPU time",
            None if cpu.steal_ratio is None else f"{fmt.quantity(cpu.steal_ratio, 'ratio')} since boot",
        ),
        ("perf events", _join(*cpu.performance_monitors)),
        ("caches", _join(*caches)),
    ]


def _counted(counts: dict[str, int]) -> str | None:
    if len(counts) <= 1:
        return next(iter(counts), None)
    return _join(*(f"{name} × {count}" for name, count in counts.items()))


def _limit(cpu: Cpu) -> str | None:
    if not cpu.frequency_limited_cpus:
        return None
    return f"{_speed(cpu.frequency_limit_hz)}, {cpu.frequency_limited_cpus} CPUs limited below their highest"


def _idle(cpu: Cpu) -> str | None:
    states = [
        state.name
        + ("" if state.exit_latency_ns is None else f" {fmt.duration(state.exit_latency_ns)}")
        + (" (off)" if state.is_enabled is False else "")
        for state in cpu.idle_states
    ]
    return _join(*states) or None


def _mitigations(mitigations: dict[str, str]) -> Rows:
    affected = [(name, state) for name, state in sorted(mitigations.items()) if state != "Not affected"]
    others = sorted(name for name in mitigations if mitigations[name] == "Not affected")
    return [*affected, ("not affected by", ", ".join(others))]


def _memory(machine: Machine) -> Rows:
    memory, is_known = machine.memory, "memory.swap_bytes" not in machine.missing
    return [
        ("total", _size(memory.total_bytes or None)),
        ("limit", _size(memory.limit_bytes)),
        ("swap", _swap(memory) if is_known else None),
        ("transparent huge pages", _transparent(memory)),
        ("huge pages", _pools(memory)),
        ("modules", _modules(memory.dimms)),
        (
            "empty slots",
            _number(sum(dimm.size_bytes == 0 for dimm in memory.dimms)) if memory.dimms else None,
        ),
        ("errors since boot", _errors(memory)),
    ]


def _swap(memory: Memory) -> str | None:
    used = f"{_size(memory.swap_used_bytes)} in use" if memory.swap_used_bytes else None
    return _join(_size(memory.swap_bytes), used)


def _transparent(memory: Memory) -> str | None:
    defrag = memory.transparent_huge_page_defrag
    return _join(memory.transparent_huge_pages, f"defrag {defrag}" if defrag else None)


def _pools(memory: Memory) -> str | None:
    if not memory.huge_page_pools:
        return _number(memory.huge_pages)
    parts = [
        f"{pool.pages:,} × {_size(pool.size_bytes)}"
        + (f" ({pool.free_pages:,} free)" if pool.free_pages else "")
        for pool in memory.huge_page_pools
        if pool.pages
    ]
    return _join(*parts) or "0"


def _modules(dimms: list[Dimm]) -> str | None:
    def text(dimm: Dimm) -> str:
        now, rated = dimm.configured_transfers_per_s, dimm.rated_transfers_per_s
        rate = now or rated
        parts = [
            _size(dimm.size_bytes),
            dimm.type,
            dimm.part,
            f"at {rate / 1e6:g} MT/s" if rate else None,
            f"(rated {rated / 1e6:g})" if now and rated and now != rated else None,
        ]
        return " ".join(part for part in parts if part)

    counts = Counter(text(dimm) for dimm in dimms if dimm.size_bytes != 0)
    return "; ".join(f"{count} × {kind or 'unknown'}" for kind, count in counts.items()) or None


def _errors(memory: Memory) -> str | None:
    if memory.corrected_errors is None and memory.uncorrected_errors is None:
        return None
    return _join(
        None if memory.corrected_errors is None else f"{memory.corrected_errors:,} corrected",
        None if memory.uncorrected_errors is None else f"{memory.uncorrected_errors:,} not corrected",
    )


def _node(node: NumaNode) -> tuple[str, str | None]:
    distances = f"distances {' '.join(map(str, node.distances))}" if node.distances else None
    access = node.access
    caches = [f"side cache {_size(cache.size_bytes)}" for cache in node.side_caches if cache.size_bytes]
    sizes = [
        f"latency {access.read_latency_ns} ns" if access and access.read_latency_ns else None,
        fmt.quantity(access.read_bytes_per_s, "bytes/s") if access and access.read_bytes_per_s else None,
    ]
    cpus = f"CPUs {node.cpus}" if node.cpus else "no CPUs"
    return (f"node {node.id}", _join(cpus, _size(node.memory_bytes), *sizes, *caches, distances))


def _disk(disk: Disk) -> tuple[str, str | None]:
    kind = None if disk.rotational is None else ("rotating" if disk.rotational else "solid state")
    return (
        disk.name,
        _join(disk.model, _size(disk.size_bytes), kind, disk.scheduler, *_queues(disk)) or "no details",
    )


def _queues(disk: Disk) -> list[str | None]:
    return [
        _several(disk.hardware_queues, "queue"),
        None if disk.queue_requests is None else f"{disk.queue_requests:,} requests",
        None if disk.read_ahead_bytes is None else f"read-ahead {_size(disk.read_ahead_bytes)}",
        disk.write_cache,
    ]


def _several(count: int | None, noun: str) -> str | None:
    return None if count is None else f"{count:,} {noun}{'' if count == 1 else 's'}"


def _interface(card: Interface) -> tuple[str, str | None]:
    speed = None if card.speed_bits_per_s is None else fmt.quantity(card.speed_bits_per_s, "bits/s")
    unit = None if card.mtu_bytes is None else f"MTU {card.mtu_bytes}"
    state = card.state if card.state == "down" else None
    node = None if card.numa_node is None else f"node {card.numa_node}"
    queues = _several(card.receive_queues, "receive queue")
    details = _settings(card.settings) if card.settings else []
    return (card.name, _join(card.driver, state, speed, unit, queues, node, *details) or "no details")


def _settings(settings: LinkSettings) -> list[str | None]:
    ring, most = settings.receive_ring, settings.receive_ring_max
    off = [name for name, state in settings.offloads.items() if state == "off"]
    return [
        None if ring is None else f"ring {ring:,}" + (f" of {most:,}" if most else ""),
        f"off: {' '.join(off)}" if off else None,
    ]


def _pci(device: PciDevice) -> tuple[str, str | None]:
    link = device.link
    width = f"x{link.width}" if link and link.width else None
    rate = f"{link.transfers_per_s / 1e9:g} GT/s" if link and link.transfers_per_s else None
    node = None if device.numa_node is None else f"node {device.numa_node}"
    identity = f"{device.vendor_id}:{device.device_id}" if device.vendor_id and device.device_id else None
    return (device.address, _join(device.type, device.driver, identity, width, rate, node))


def _firmware(firmware: Firmware) -> Rows:
    system = " ".join(part for part in (firmware.vendor, firmware.product) if part)
    bios = _join(firmware.bios_vendor, firmware.bios_version, firmware.bios_date)
    return [("made as", system or None), ("board", firmware.board), ("firmware", bios or None)]


def _system(machine: Machine, kernel: Kernel) -> Rows:
    return [
        ("host", machine.hostname),
        ("distribution", machine.distribution),
        ("kernel", kernel.release),
        ("boot command line", kernel.command_line),
        ("clock source", kernel.clocksource),
        ("interrupts", _interrupts(machine)),
        ("resctrl", _join(*machine.resctrl.resources) if machine.resctrl else None),
        ("hypervisor", machine.hypervisor),
        ("container", machine.container),
    ]


def _interrupts(machine: Machine) -> str | None:
    interrupts = machine.interrupts
    if interrupts is None:
        return None
    share = fmt.quantity(interrupts.busiest_ratio, "ratio")
    serving = _several(interrupts.serving_cpus, "CPU")
    verb = "serves" if interrupts.serving_cpus == 1 else "serve"
    return f"{interrupts.total:,} of devices, {share} on CPU {interrupts.busiest_cpu}, {serving} {verb}"
