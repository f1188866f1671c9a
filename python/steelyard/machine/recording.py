"""Recorded machines: a tree of /proc and /sys in a folder, or packed in a tar archive.

In: a path. Out: a root that `snapshot` reads. An archive is unpacked into a temporary folder that is removed
again. Invariants: nothing is written outside of that folder, no link leads out of it, no device file is made,
and an archive that would fill the disk is refused.

Not here: making recordings; hwloc's ``hwloc-gather-topology`` does, and so does ``tar`` on a running machine.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from pathlib import Path

from steelyard._base import UsageError

MOST_FILES, MOST_BYTES = 200_000, 1 << 28
"""What an archive may hold; recordings of large machines have some 10,000 files of a few bytes."""

_IN_MEMORY = "/dev/shm"  # noqa: S108 - the folder below it is made by tempfile
"""Making thousands of small files takes seconds on a disk."""

# What no snapshot reads and what makes up most of a recording.
_UNREAD = re.compile(
    r"/(power|msi_irqs|infiniband|scsi_host|dma|dca|crash_notes|acpi_cppc|uevent|subsystem)(/|$)"
    r"|/usb\d|/LNXSYSTM|/firmware_node|/driver/|/net/[^/]+/statistics|/cpuidle/state\d+/(time|usage|power|desc)$"
    r"|/cpufreq/.*(stats|available|affected|related)|/cache/index\d+/(number_of_sets|ways_of|physical_line)"
    r"|/pci_bus/|/host\d+/(?!target).*|/node\d+/memory\d+(/|$)|/resource\d*(_wc)?$|/config$|/cpuset/(?!(.*/)?(cpuset\.)?(effective_)?(cpus|mems)$)"
)
_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def is_archive(path: Path) -> bool:
    """Return whether the file's name is that of a packed tree."""
    return path.name.endswith(_SUFFIXES)


def find_root(folder: Path) -> Path | None:
    """Return the folder that has ``proc`` or ``sys``: ``folder``, or the one folder in it."""
    if any((folder / name).is_dir() for name in ("proc", "sys")):
        return folder
    try:
        inside = [entry for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return None
    # hwloc packs a tree together with its own output, in one folder or in two.
    roots = [folder for folder in inside if any((folder / name).is_dir() for name in ("proc", "sys"))]
    return roots[0] if len(roots) == 1 else None


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """Yield the root of the tree in ``archive``.

    Raises UsageError for a file that is no archive, holds no tree, or is too large.
    """
    with tempfile.TemporaryDirectory(prefix="steelyard-tree-", dir=_place()) as name:
        folder = Path(name)
        _unpack(archive, folder)
        root = find_root(folder)
        if root is None:
            raise UsageError(
                f"{archive}: there is no recorded machine in it",
                hint="an archive has the folders proc and sys",
            )
        yield root


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Yield the root of a recorded tree, packed or not. Raises UsageError where there is none."""
    if path.is_dir():
        root = find_root(path)
        if root is None:
            raise UsageError(
                f"{path}: there is no recorded machine in it",
                hint="a recorded tree has the folders proc and sys",
            )
        yield root
    elif is_archive(path) and path.exists():
        with unpacked(path) as root:
            yield root
    else:
        raise UsageError(f"there is no {path}", hint="give a recorded tree (a folder, or a .tar.bz2 of one)")


def _place() -> str | None:
    """Return the folder in memory where there is room in it, ``None`` for the usual one."""
    try:
        room = os.statvfs(_IN_MEMORY)
    except OSError:
        return None
    is_open = os.access(_IN_MEMORY, os.W_OK | os.X_OK)
    return _IN_MEMORY if is_open and room.f_bavail * room.f_frsize > 2 * MOST_BYTES else None


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            places = _Places(folder)
            for member in _members(tar, archive):
                _make(tar, member, places)
    except OSError as error:
        raise UsageError(f"{archive}: {error.strerror or error}") from error
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"{archive}: not a tar archive, or not a whole one") from error


def _members(tar: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    size = 0
    for count, member in enumerate(tar):
        size += member.size if member.isreg() else 0
        if count >= MOST_FILES or size > MOST_BYTES:
            raise UsageError(
                f"{archive}: too large for a recorded machine", hint="unpack it, and give the folder"
            )
        if not _UNREAD.search(member.name) and (member.isreg() or member.isdir() or member.issym()):
            yield member


class _Places:
    """Where members of an archive go: real paths below a folder."""

    def __init__(self, folder: Path) -> None:
        self.top = os.path.realpath(folder)
        self._known: dict[tuple[str, ...], str] = {}

    def of(self, name: str) -> str | None:
        """Return where a member is made, in a folder that is there; None: it leads out, or is taken."""
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if not parts or ".." in parts:
            return None
        parent = self._folder(parts[:-1])
        path = None if parent is None else os.path.join(parent, parts[-1])
        # Nothing is replaced: a link that led inside could then lead out by another one.
        return None if path is None or os.path.lexists(path) else path

    def _folder(self, parts: tuple[str, ...]) -> str | None:
        if parts not in self._known:
            path = os.path.realpath(os.path.join(self.top, *parts))
            if not self.has(path):
                return None
            try:
                os.makedirs(path, mode=0o700, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                # A file, or a link round a loop, is in its place.
                return None
            self._known[parts] = path
        return self._known[parts]

    def has(self, path: str) -> bool:
        """Return whether a path without links is in the folder."""
        return path == self.top or path.startswith(f"{self.top}/")

    def leads_out(self, path: str, target: str) -> bool:
        """Return whether a link at ``path`` leads out, or could by what is made later."""
        names = dropwhile(lambda part: part in ("", ".", ".."), target.split("/"))
        # Beyond a name that may become a link, .. is somewhere else.
        if target.startswith("/") or ".." in names:
            return True
        return not self.has(os.path.realpath(os.path.join(os.path.dirname(path), target)))


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, places: _Places) -> None:
    """Make a member where nothing of it leads out; the first releases of Python 3.11 have no filter for that.

    Links of /sys that do, such as to /dev, tell nothing of the machine, and are left out. So are modes and
    owners: recorded files may be unreadable or write-only, as on the machine.
    """
    path = places.of(member.name)
    if path is None:
        return
    if member.isdir():
        os.mkdir(path, mode=0o700)
    elif member.issym():
        if not places.leads_out(path, member.linkname):
            os.symlink(member.linkname, path)
    else:
        source = tar.extractfile(member)
        if source is not None:
            with source, open(path, "xb") as file:
                shutil.copyfileobj(source, file)
