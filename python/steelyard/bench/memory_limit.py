"""The memory cgroup that this process, and so every process of the run, lives in.

In: /proc/self/cgroup and the cgroup trees, version 1 or 2. Out: the limit, and whether the kernel killed
anything for it since the object was made.

Not here: changing limits.
"""

from dataclasses import dataclass
from pathlib import Path


def _folders(root: Path) -> list[tuple[Path, int]]:
    """Return the memory cgroup's folder and those above it, innermost first, with the cgroup version."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[tuple[Path, int]] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            base, version = root / "sys/fs/cgroup/memory", 1
        elif controllers == "" and (root / "sys/fs/cgroup/cgroup.controllers").exists():
            base, version = root / "sys/fs/cgroup", 2
        else:
            continue
        folder = base / path.lstrip("/")
        while folder.is_relative_to(base):
            found.append((folder, version))
            folder = folder.parent
    return found


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _kills(folder: Path, version: int) -> int:
    """Return how many processes the kernel has killed for the limit of ``folder``."""
    try:
        text = (folder / ("memory.oom_control" if version == 1 else "memory.events.local")).read_text()
    except OSError:
        return 0
    counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
    return int(counts.get("oom_kill", 0))


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The smallest limit above this process. ``limit_bytes`` is None when there is none."""

    limit_bytes: int | None
    _folders: tuple[tuple[Path, int], ...]
    _kills_at_start: int

    @classmethod
    def of_this_process(cls, root: Path = Path("/")) -> "MemoryLimit":
        """Read the limit that holds now."""
        folders = _folders(root)
        limits = [
            limit
            for folder, version in folders
            if (limit := _number(folder / ("memory.limit_in_bytes" if version == 1 else "memory.max")))
            is not None
            # Version 1 says "unlimited" with a number near 2^63.
            and limit < 1 << 60
        ]
        kills = sum(_kills(folder, version) for folder, version in folders)
        return cls(min(limits, default=None), tuple(folders), kills)

    @property
    def text(self) -> str:
        """Return the limit for people."""
        return "no memory cgroup" if self.limit_bytes is None else f"{self.limit_bytes / (1 << 20):.0f} MiB"

    def kills_since_start(self) -> int:
        """Return how many processes were killed for the limit since this object was made."""
        return sum(_kills(folder, version) for folder, version in self._folders) - self._kills_at_start
