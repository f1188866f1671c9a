"""The memory limit of this process, and so of every process of a run, and the kernel's kills for it.

In: the memory cgroups of this process, or a machine's inventory. Out: the limit, how many processes the
kernel killed for it since the object was made, and the memory that a run may plan with. It changes no limit.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.machine.tree import Tree
    from steelyard.records import Machine


def _kills(tree: "Tree") -> int:
    """Return how many processes the kernel has killed for a limit of this process's groups."""
    # Not at the top: `steelyard list` would load the whole package of machines.
    from steelyard.machine.cgroups import memory_groups

    kills = 0
    for version, group in memory_groups(tree):
        text = tree.text(f"{group}/{'memory.oom_control' if version == 1 else 'memory.events.local'}") or ""
        counts = dict(line.split() for line in text.splitlines() if len(line.split()) == 2)
        kills += int(counts.get("oom_kill", 0))
    return kills


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The smallest limit above this process. ``limit_bytes`` is None when there is none."""

    limit_bytes: int | None
    _tree: "Tree"
    _kills_at_start: int

    @classmethod
    def of_this_process(cls, root: Path = Path("/")) -> "MemoryLimit":
        """Read the limit that holds now."""
        from steelyard.machine.cgroups import memory_limit_bytes
        from steelyard.machine.tree import Tree

        tree = Tree(root)
        return cls(memory_limit_bytes(tree), tree, _kills(tree))

    @property
    def text(self) -> str:
        """Return the limit for people."""
        return "no memory cgroup" if self.limit_bytes is None else f"{self.limit_bytes / (1 << 20):.0f} MiB"

    def kills_since_start(self) -> int:
        """Return how many processes were killed for the limit since this object was made."""
        return _kills(self._tree) - self._kills_at_start


def available_memory_bytes(machine: "Machine") -> int:
    """Return the memory that processes here may use: the machine's, or what the cgroup allows."""
    limit = machine.memory.limit_bytes
    total = machine.memory.total_bytes
    return total if limit is None else min(total, limit)
