"""Other local disks of this machine that a run may write to: for a log that is best on a device of its own.

In: a folder, the mounts and devices that the kernel lists. Out: its disk; folders on other disks, the one
with the most room first.

Two file systems count as on one disk where they share a physical device, below partitions, RAID and logical
volumes too. Disks on a network, in memory or in a file are none here.

Not here: what the disks do (``devices``).
"""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NONE = re.compile(r"(loop|zram|ram|sr|nbd|rbd|fd)\d")
_OF_THE_SYSTEM = ("/boot", "/efi", "/etc", "/recovery")
_READ_ONLY = ("squashfs", "iso9660", "erofs", "vfat")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class OtherDisk:
    """A folder on another disk."""

    folder: Path
    device: str
    """The kernel's name of the device that is mounted there."""
    free_bytes: int


def device_of(folder: Path, sys: Path = Path("/sys")) -> str | None:
    """Return the kernel's name of the block device below ``folder``, None where a file system has none."""
    try:
        number = os.stat(folder).st_dev
        return (sys / "dev/block" / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True).name
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _Mount:
    number: str
    point: Path
    is_written: bool
    kind: str


def other_disks(folder: Path, needed_bytes: int, *, root: Path = Path("/")) -> list[OtherDisk]:
    """Return folders with ``needed_bytes`` that this user may write to, on other disks than ``folder``'s."""
    mounts = list(_mounts(root))
    here = _mount_of(folder.absolute(), mounts)
    mine = set() if here is None else _physical(here.number, root)
    if not mine:
        # Nobody knows what would be another disk.
        return []
    found: dict[str, OtherDisk] = {}
    for mount in mounts:
        disks = _physical(mount.number, root)
        if not disks or disks & mine or not mount.is_written or mount.kind in _READ_ONLY:
            continue
        if any(_NONE.match(disk) for disk in disks) or str(mount.point).startswith(_OF_THE_SYSTEM):
            continue
        # Temporary files of the system's own disk have a place, which its first folder is not.
        place = Path("/var/tmp") if mount.point == Path("/") else mount.point  # noqa: S108
        if place != mount.point and _mount_of(place, mounts) != mount:
            continue
        if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
            continue
        free_bytes = shutil.disk_usage(place).free
        if free_bytes >= needed_bytes:
            found.setdefault(mount.number, OtherDisk(place, _name(mount.number, root) or "", free_bytes))
    return sorted(found.values(), key=lambda disk: (-disk.free_bytes, disk.folder))


def _mounts(root: Path) -> Iterator[_Mount]:
    """Yield what is mounted (proc_pid_mountinfo(5)), in the order in which it was."""
    try:
        text = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if separator and len(fields) > 5:
            point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
            yield _Mount(fields[2], Path(point), "rw" in fields[5].split(","), rest[0])


def _mount_of(folder: Path, mounts: list[_Mount]) -> _Mount | None:
    """Return the mount that ``folder`` lies on: the deepest above it, of those at one place the last."""
    above = [mount for mount in mounts if mount.point == folder or mount.point in folder.parents]
    return max(reversed(above), key=lambda mount: len(mount.point.parts), default=None)


def _name(number: str, root: Path) -> str | None:
    """Return the kernel's name of a block device, None where the number stands for none."""
    try:
        return (root / "sys/dev/block" / number).resolve(strict=True).name
    except OSError:
        return None


def _physical(number: str, root: Path) -> set[str]:
    """Return the names of the whole disks below a block device; empty where it is none."""
    try:
        device = (root / "sys/dev/block" / number).resolve(strict=True)
    except OSError:
        return set()
    return _whole_disks(device)


def _whole_disks(device: Path) -> set[str]:
    slaves = sorted((device / "slaves").glob("*")) if (device / "slaves").is_dir() else []
    if slaves:
        return {disk for slave in slaves for disk in _whole_disks(slave.resolve())}
    return {device.parent.name if (device / "partition").exists() else device.name}
