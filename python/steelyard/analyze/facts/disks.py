"""What each disk did (source ``disk``), and what processes did on disks limited for them (``cgroup``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard.analyze.facts.reader import Reader, not_recorded, total
from steelyard.analyze.pressure import disk_limits
from steelyard.analyze.pressure.disk_limits import GroupLimit, LimitedDisk
from steelyard.analyze.values import Quantity

if TYPE_CHECKING:
    from steelyard.telemetry import EntityRates


@dataclass(frozen=True)
class DiskUse:
    """One disk."""

    device: str
    read_bytes_per_s: Quantity
    written_bytes_per_s: Quantity
    busy_ratio: Quantity
    operation_ns: Quantity = field(default_factory=lambda: not_recorded("ns"))
    """Mean time of a read or write, waiting in the device's queue included."""


def observe_disks(reader: Reader) -> list[DiskUse]:
    """Return what each disk did."""
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


def observe_limited(
    reader: Reader, limits: Sequence[GroupLimit], disks: Sequence[DiskUse]
) -> list[LimitedDisk]:
    """Return what processes did on the disks that ``limits`` held for them alone."""
    if not limits:
        return []
    whole = {disk.device: (disk.read_bytes_per_s, disk.written_bytes_per_s) for disk in disks}
    return disk_limits.observe_limited(limits, reader.read("cgroup", disk_limits.COLUMNS), whole)


def _operation(reader: Reader, entity: EntityRates) -> Quantity:
    """Mean time of an operation: time of all over their number."""
    kinds = ("read", "write")
    times = total([reader.rate(entity, "disk", f"{kind}_time_ns", "ns") for kind in kinds], "ns")
    counts = total([reader.rate(entity, "disk", f"{kind}s", "1/s") for kind in kinds], "1/s")
    if times.value is None or counts.value is None:
        return Quantity.of(None, "ns", times.missing or counts.missing)
    if counts.value == 0:
        return Quantity(None, "ns", "no operation finished")
    return Quantity(times.value / counts.value, "ns")
