"""Limits on disks that hold for one control group, and how near the group's processes came to them.

In: what the hook ``disk-limit`` recorded of a run, the groups' counters (source ``cgroup``), the disks' use.
Out: `LimitedDisk`s. The kernel holds the group's processes to the rate and nobody else, so that what others
read and write, and what the kernel writes back for them, is not compared with it.

Formulas. A group's counters are over all disks (blkio.throttle.io_service_bytes, io.stat); of them at most
what the limited disk itself moved counts. Reads and writes are limited each on its own; the nearer counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.analyze.values import Quantity
from steelyard.records import Run
from steelyard.telemetry import EntityRates, Rates

COLUMNS = ("io_read_bytes", "io_written_bytes")
"""What is asked of the source ``cgroup``."""
_RATE = "bytes/s"


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """The rate at which the processes of a control group read at most, and write at most."""

    device: str
    rate_bytes_per_s: float
    group: str
    """Folder of the group, with the place where its hierarchy is mounted."""
    source: str


@dataclass(frozen=True, slots=True)
class LimitedDisk:
    """What the processes that a limit holds for did on the disk."""

    limit: GroupLimit
    read_bytes_per_s: Quantity
    written_bytes_per_s: Quantity

    @property
    def used_ratio(self) -> Quantity:
        """The nearer of reads and writes over the limit."""
        rates = (self.read_bytes_per_s, self.written_bytes_per_s)
        known = [each.value for each in rates if each.value is not None]
        if len(known) < len(rates):
            return Quantity.of(None, "ratio", next(each.missing for each in rates if each.value is None))
        return Quantity(max(known) / self.limit.rate_bytes_per_s, "ratio")


def disk_limits(run: Run) -> list[GroupLimit]:
    """Return the limits that hooks set on disks for a run; what a hook did not come to set is none."""
    limit = run.hooks.get("disk-limit")
    if not isinstance(limit, dict):
        return []
    device, rate, group = (limit.get(name) for name in ("device", "rate_bytes_per_s", "cgroup"))
    if not (isinstance(device, str) and isinstance(rate, int | float) and rate > 0):
        return []
    return [GroupLimit(device, float(rate), str(group), "set for the run by blkio")]


def group_path(folder: str, recorded: Iterable[str]) -> str | None:
    """Return which of the recorded groups has this folder.

    Paths are recorded from the root of their hierarchy, folders hold the place where it is mounted.

    >>> group_path("/sys/fs/cgroup/blkio/a/b", ["/", "/b", "/a/b"])
    '/a/b'
    """
    return max((path for path in recorded if path != "/" and folder.endswith(path)), key=len, default=None)


def observe_limited(
    limits: Iterable[GroupLimit], groups: Rates, disks: Mapping[str, tuple[Quantity, Quantity]]
) -> list[LimitedDisk]:
    """Return what the processes of each limit did; ``disks`` is what each disk read and wrote for all."""
    by_path = {str(entity.entity["path"]): entity for entity in groups.entities}
    found = []
    for limit in limits:
        path = group_path(limit.group, by_path)
        entity = None if path is None else by_path[path]
        missing = groups.missing or "what the limited processes read and wrote was not recorded"
        own = [Quantity(None, _RATE, missing) if entity is None else _rate(entity, name) for name in COLUMNS]
        read, written = map(_at_most, own, disks.get(limit.device, (None, None)))
        found.append(LimitedDisk(limit, read, written))
    return found


def _rate(group: EntityRates, column: str) -> Quantity:
    rate = group.rates.get(column)
    return Quantity.of(rate.per_s if rate else None, _RATE, rate.missing if rate else None)


def _at_most(own: Quantity, disk: Quantity | None) -> Quantity:
    if own.value is None or disk is None or disk.value is None:
        return own
    return Quantity(min(own.value, disk.value), own.unit)
