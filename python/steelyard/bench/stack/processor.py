"""CPU time of servers whose processes live through a phase.

In: ids of supervisors. Out: user and system CPU time of everything below them, s.

Invariant: children that have ended count through their parents, which have waited for them.
Not here: CPU time of the machine (``telemetry``), and of this process's own children (``children``).
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from steelyard.bench.children import descendants_of

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME = 11
"""Place of utime among the fields after the command in /proc/PID/stat; stime, cutime and cstime follow."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU time since the start of the processes, s."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        """Return both together."""
        return self.user_s + self.system_s

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(self.user_s - earlier.user_s, self.system_s - earlier.system_s)

    def __add__(self, other: "CpuTime") -> "CpuTime":
        return CpuTime(self.user_s + other.user_s, self.system_s + other.system_s)


def cpu_time(supervisors: Iterable[int], proc: Path = Path("/proc")) -> CpuTime:
    """Return the CPU time of all processes below ``supervisors``; what has ended meanwhile is left out."""
    total = CpuTime(0.0, 0.0)
    for supervisor in supervisors:
        for pid in descendants_of(supervisor):
            try:
                # The command may hold spaces and brackets: the fields begin after the last bracket.
                fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
                user, system, children_user, children_system = map(int, fields[_UTIME : _UTIME + 4])
            except (OSError, ValueError):
                continue
            total += CpuTime((user + children_user) / _TICKS_PER_S, (system + children_system) / _TICKS_PER_S)
    return total
