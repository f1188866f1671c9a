"""What an operation costs: operations per CPU-second and joule, bytes moved per operation.

In: `Conditions` with the operations of the phase. Out: `Efficiency`, each figure with the reason where it is
missing.

Formulas. Rates over the same phase are divided: operations a second by CPUs in use (CPU-seconds a second) or
by watts (joules a second), and bytes a second by operations a second. CPUs in use are those of all processes
of the machine, time that the hypervisor took left out; the program's are those of the threads that were
looked at. Power is that of the processor packages (RAPL), without memory and without the rest of the machine.
Network is what all other interfaces moved, or loopback where that moved more: a stray packet of an idle card
is no traffic of operations between processes.

Not here: what is good (``decide``).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.operations.power import package_power
from steelyard.analyze.values import Quantity

_NOT_USED = ("idle", "iowait", "steal")


@dataclass(frozen=True)
class Efficiency:
    """What operations cost over the measure phase. Bytes count both directions."""

    per_cpu_s: Quantity
    per_program_cpu_s: Quantity
    per_joule: Quantity
    network_bytes: Quantity
    disk_bytes: Quantity


def efficiency_of(conditions: Conditions) -> Efficiency | None:
    """Return what operations cost, None without any source of operations."""
    if conditions.progress is None:
        return None
    rate = conditions.progress.operations.per_s
    use, target = conditions.cpus.all.use, conditions.target
    cpus = Quantity.of(
        None
        if use is None
        else sum(share for mode, share in use.modes.items() if mode not in _NOT_USED)
        * len(conditions.cpus.all.cpus),
        "1",
        conditions.cpus.all.missing,
    )
    program = target.cpus if target is not None else Quantity(None, "1", "no program was watched")
    return Efficiency(
        per_cpu_s=_over(rate, cpus, "1/s", "the CPUs were idle"),
        per_program_cpu_s=_over(rate, program, "1/s", "it used no CPU"),
        per_joule=_over(rate, package_power(conditions.power), "1/joule", "no power was counted"),
        network_bytes=_over(_network(conditions), rate, "bytes", "no operation ended"),
        disk_bytes=_over(_disks(conditions), rate, "bytes", "no operation ended"),
    )


def _over(part: Quantity, whole: Quantity, unit: str, none: str) -> Quantity:
    if part.value is None or whole.value is None:
        return Quantity.of(None, unit, part.missing or whole.missing)
    return Quantity(part.value / whole.value, unit) if whole.value > 0 else Quantity(None, unit, none)


def _sum(parts: Iterable[Quantity], unit: str, missing: str) -> Quantity:
    known = [part.value for part in parts if part.value is not None]
    return Quantity(sum(known), unit) if known else Quantity(None, unit, missing)


def _network(conditions: Conditions) -> Quantity:
    def total(names: Iterable[str]) -> float:
        selected = set(names)
        return sum(
            part.value or 0.0
            for each in conditions.network
            if each.interface in selected
            for part in (each.received_bytes_per_s, each.sent_bytes_per_s)
        )

    if not conditions.network:
        return Quantity(None, "bytes/s", conditions.missing.get("network", "not recorded"))
    outside = total(each.interface for each in conditions.network if each.interface != "lo")
    # What is sent on loopback is received there: it counts once.
    return Quantity(max(outside, total(["lo"]) / 2), "bytes/s")


def _disks(conditions: Conditions) -> Quantity:
    known = {disk.name for disk in conditions.machine.disks} if conditions.machine else set()
    disks = [each for each in conditions.disks if not known or each.device in known]
    if not disks:
        return Quantity(None, "bytes/s", conditions.missing.get("disk", "no disk was recorded"))
    moved = [part for each in disks for part in (each.read_bytes_per_s, each.written_bytes_per_s)]
    return _sum(moved, "bytes/s", "not recorded")
