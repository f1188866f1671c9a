"""How long CPUs were idle, by /proc/stat.

In: a list of CPUs, twice. Out: the share of their time in which nothing ran, or None where the kernel does
not report it. What ran includes other processes and other guests.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_IDLE, _IOWAIT, _GUEST = 3, 4, 8
"""Fields of a line; guests' time is in that of users, too (proc(5))."""


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """Clock ticks of some CPUs since the machine started."""

    idle: int
    total: int

    def idle_ratio_since(self, before: "CpuTicks") -> float | None:
        """Return the idle share of the time between two readings."""
        total = self.total - before.total
        # The kernel's idle counters may fall back by a tick.
        return min(1.0, max(0.0, (self.idle - before.idle) / total)) if total > 0 else None


def cpu_ticks(cpus: Collection[int], root: Path = Path("/")) -> CpuTicks:
    """Return the ticks of ``cpus``; all are counted where the list is empty. 0 where they cannot be read."""
    wanted = {f"cpu{cpu}" for cpu in cpus} or {"cpu"}
    idle = total = 0
    try:
        lines = (root / "proc/stat").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return CpuTicks(0, 0)
    for line in lines:
        name, _, rest = line.partition(" ")
        if name in wanted:
            fields = [int(word) for word in rest.split() if word.isdigit()][:_GUEST]
            idle += sum(fields[_IDLE : _IOWAIT + 1])
            total += sum(fields)
    return CpuTicks(idle, total)
