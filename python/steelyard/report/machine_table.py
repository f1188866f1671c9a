"""A machine's inventory as rows of text.

In: the machine record. Out: groups of (name, value). What the machine did not tell has no row here: the
page's list of what is missing has it, with the reason.
"""

from steelyard.records import Cpu, Disk, Interface, Kernel, Machine, Memory, NumaNode
from steelyard.report import format as fmt

Rows = list[tuple[str, str | None]]


def machine_line(machine: Machine | None) -> str:
    """Return the machine in one line, the empty string without one."""
    if machine is None:
        return ""
    parts = [
        machine.cpu.model or "unknown processor",
        f"{machine.cpu.logical_cpus} CPUs",
        fmt.quantity(machine.memory.total_bytes, "bytes"),
        f"Linux {machine.kernel.release}" if machine.kernel.release else "",
        machine.hypervisor or "",
    ]
    return " · ".join(part for part in parts if part)


def machine_groups(machine: Machine | None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return groups of rows; empty ones are left out."""
    if machine is None:
        return []
    groups: list[tuple[str, Rows]] = [
        ("Processor", _cpu(machine.cpu)),
        ("Memory", _memory(machine.memory)),
        ("NUMA", [_node(node) for node in machine.numa_nodes]),
        ("Disks", [_disk(disk) for disk in machine.disks]),
        ("Network", [_interface(card) for card in machine.interfaces]),
        ("System", _system(machine, machine.kernel)),
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
        ("architecture", cpu.architecture),
        ("sockets", _number(cpu.sockets)),
        ("cores", _number(cpu.cores)),
        ("CPUs", _number(cpu.logical_cpus)),
        ("usable CPUs", _number(cpu.usable_cpus)),
        ("CPU quota", None if cpu.quota_cpus is None else f"{fmt.significant(cpu.quota_cpus)} CPUs"),
        ("threads per core", _number(cpu.threads_per_core)),
        ("frequency", f"{low} to {high}" if low and high else low or high),
        ("governor", cpu.governor),
        ("boost", None if cpu.boost is None else ("on" if cpu.boost else "off")),
        ("microcode", cpu.microcode),
        ("caches", _join(*caches)),
    ]


def _mitigations(mitigations: dict[str, str]) -> Rows:
    affected = [(name, state) for name, state in sorted(mitigations.items()) if state != "Not affected"]
    others = sorted(name for name in mitigations if mitigations[name] == "Not affected")
    return [*affected, ("not affected by", ", ".join(others))]


def _memory(memory: Memory) -> Rows:
    return [
        ("total", _size(memory.total_bytes)),
        ("limit", _size(memory.limit_bytes)),
        ("swap", _size(memory.swap_bytes)),
        ("transparent huge pages", memory.transparent_huge_pages),
        ("huge pages", _number(memory.huge_pages)),
    ]


def _node(node: NumaNode) -> tuple[str, str | None]:
    distances = f"distances {' '.join(map(str, node.distances))}" if node.distances else None
    return (f"node {node.id}", _join(f"CPUs {node.cpus}", _size(node.memory_bytes), distances))


def _disk(disk: Disk) -> tuple[str, str | None]:
    kind = None if disk.rotational is None else ("rotating" if disk.rotational else "solid state")
    return (disk.name, _join(disk.model, _size(disk.size_bytes), kind, disk.scheduler) or "no details")


def _interface(card: Interface) -> tuple[str, str | None]:
    speed = None if card.speed_bits_per_s is None else fmt.quantity(card.speed_bits_per_s, "bits/s")
    unit = None if card.mtu_bytes is None else f"MTU {card.mtu_bytes}"
    return (card.name, _join(card.driver, speed, unit) or "no details")


def _system(machine: Machine, kernel: Kernel) -> Rows:
    return [
        ("host", machine.hostname),
        ("distribution", machine.distribution),
        ("kernel", kernel.release),
        ("boot command line", kernel.command_line),
        ("clock source", kernel.clocksource),
        ("hypervisor", machine.hypervisor),
        ("container", machine.container),
    ]
