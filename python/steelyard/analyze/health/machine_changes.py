"""What changed of a machine between two inventories: what was lost is an alert, what explains is a note.

In: two `Machine` records of one machine. Out: alerts (fewer CPUs, less memory, a disk or a link that is
gone or slower, a governor or boost setting that slows) and notes (kernel, microcode, mitigations and
settings that changed). The order of a check is that of the industry's practice: log the platform's
configuration, compare it, alert, and only then measure.

Not here: taking the inventory (``machine``), comparing measured figures (``analyze.health.comparison``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from steelyard.analyze.health.comparison import Alert
from steelyard.records import Machine

MEMORY_RATIO = 0.02
"""Memory that a kernel may reserve more than another before it counts as lost."""


def changes(now: Machine, before: Machine) -> tuple[list[Alert], list[str]]:
    """Return the alerts and the notes of what changed since ``before``."""
    return list(_alerts(now, before)), list(_notes(now, before))


def _alert(name: str, claim: str, meaning: str) -> Alert:
    return Alert(f"machine-{name}", claim, meaning)


def _alerts(now: Machine, before: Machine) -> Iterator[Alert]:
    if now.cpu.model != before.cpu.model:
        claim = f"the processor is {now.cpu.model}; it was {before.cpu.model}"
        yield _alert(
            "processor", claim, "another machine under the same name, or a guest moved to another host"
        )
    for field, noun in (
        ("logical_cpus", "CPUs online"),
        ("usable_cpus", "CPUs that this process may use"),
        ("sockets", "sockets"),
        ("cores", "cores"),
    ):
        value, old = getattr(now.cpu, field), getattr(before.cpu, field)
        if value is not None and old is not None and value < old:
            meaning = "CPUs taken offline, SMT switched off, a core that failed, or a narrower cpuset"
            yield _alert(field.replace("_", "-"), f"{noun}: {value}; there were {old}", meaning)
    total, old_total = now.memory.total_bytes, before.memory.total_bytes
    if total < old_total * (1 - MEMORY_RATIO):
        claim = f"memory: {total / 2**30:.1f} GiB; there were {old_total / 2**30:.1f} GiB"
        yield _alert("memory", claim, "a DIMM that failed or was mapped out, or a smaller guest")
    if len(now.numa_nodes) != len(before.numa_nodes):
        claim = f"NUMA nodes: {len(now.numa_nodes)}; there were {len(before.numa_nodes)}"
        yield _alert("numa-nodes", claim, "a changed BIOS setting (sub-NUMA clustering, nodes per socket)")
    for name, meaning in (
        ("governor", "lower clocks under light load"),
        ("boost", "lower clocks under load"),
        ("frequency_max_hz", "lower clocks under load"),
    ):
        value, old = getattr(now.cpu, name), getattr(before.cpu, name)
        slower = value < old if name == "frequency_max_hz" and value and old else value != old
        if old is not None and value is not None and slower:
            yield _alert(name.replace("_", "-"), f"{name.replace('_', ' ')}: {value}; it was {old}", meaning)
    yield from _devices(now, before)


def _devices(now: Machine, before: Machine) -> Iterator[Alert]:
    disks = {disk.name for disk in now.disks}
    for disk in before.disks:
        if disk.name not in disks:
            claim = f"disk {disk.name} ({disk.model or 'no model'}) is gone"
            yield _alert(f"disk-{disk.name}", claim, "a device that failed, was removed or was renamed")
    links = {link.name: link for link in now.interfaces}
    for link in before.interfaces:
        current = links.get(link.name)
        # Interfaces without a driver (bridges, pairs of containers) come and go.
        if current is None and link.driver is not None:
            yield _alert(
                f"link-{link.name}", f"interface {link.name} is gone", "a card that failed or was renamed"
            )
        elif current is not None:
            yield from _speed(link.name, current.speed_bits_per_s, link.speed_bits_per_s)


def _speed(name: str, now: int | None, before: int | None) -> Iterator[Alert]:
    if now is not None and before is not None and now < before:
        claim = f"interface {name}: {now / 1e9:g} Gbit/s; it was {before / 1e9:g} Gbit/s"
        yield _alert(f"link-{name}", claim, "a bad cable or transceiver, or another switch port")


def _notes(now: Machine, before: Machine) -> Iterator[str]:
    for name, value, old in (
        ("kernel", now.kernel.release, before.kernel.release),
        ("microcode", now.cpu.microcode, before.cpu.microcode),
        ("kernel command line", now.kernel.command_line, before.kernel.command_line),
        ("clock source", now.kernel.clocksource, before.kernel.clocksource),
        ("transparent huge pages", now.memory.transparent_huge_pages, before.memory.transparent_huge_pages),
    ):
        if value != old:
            yield f"{name} changed: {old} -> {value}"
    for noun, new, past in (
        ("mitigation of", now.cpu.mitigations, before.cpu.mitigations),
        ("setting", now.kernel.sysctl, before.kernel.sysctl),
    ):
        yield from _mapping(noun, new, past)


def _mapping(noun: str, now: Mapping[str, str], before: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*now, *before}):
        if now.get(name) != before.get(name):
            yield f"{noun} {name} changed: {before.get(name, 'absent')} -> {now.get(name, 'absent')}"
