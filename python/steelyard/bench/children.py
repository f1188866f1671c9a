"""What a process knows of its children: their CPU time once they have ended, and their ids while they live.

In: nothing, or a process id. Out: seconds, or ids.
"""

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path

_BLOCK_BYTES = 512
"""Of the block counts of getrusage(2)."""


@dataclass(frozen=True, slots=True)
class ChildrenUse:
    """What the kernel counted of children that have ended and been waited for (getrusage).

    Not their largest memory: each child begins with that of this process, until its execve(2).
    """

    user_s: float
    system_s: float
    minor_faults: int
    major_faults: int
    read_bytes: int
    """Read from disks, 0 also where the kernel keeps no account of it."""
    written_bytes: int
    """Pages made dirty, likewise."""
    switches: int
    """Times that a thread left its CPU, by itself or not: as often it had been put on one."""

    @property
    def cpu_s(self) -> float:
        """CPU time in both modes."""
        return self.user_s + self.system_s

    def since(self, before: "ChildrenUse") -> "ChildrenUse":
        """Return what was added after ``before``."""
        return ChildrenUse(
            self.user_s - before.user_s,
            self.system_s - before.system_s,
            self.minor_faults - before.minor_faults,
            self.major_faults - before.major_faults,
            self.read_bytes - before.read_bytes,
            self.written_bytes - before.written_bytes,
            self.switches - before.switches,
        )


def children_use() -> ChildrenUse:
    """Return what children have used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    disk = (used.ru_inblock * _BLOCK_BYTES, used.ru_oublock * _BLOCK_BYTES)
    switches = used.ru_nvcsw + used.ru_nivcsw
    return ChildrenUse(used.ru_utime, used.ru_stime, used.ru_minflt, used.ru_majflt, *disk, switches)


def children_cpu_s() -> float:
    """Return the CPU time of children that have ended and been waited for, s."""
    return children_use().cpu_s


def children_of(pid: int) -> list[int]:
    """Return the ids of a process's children, none where it has ended."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []


def descendants_of(pid: int) -> list[int]:
    """Return the ids of a process's living descendants, whichever of its threads made them."""
    descendants: list[int] = []
    left = [pid]
    while left:
        parent = left.pop()
        try:
            threads = [int(each.name) for each in Path(f"/proc/{parent}/task").iterdir()]
            lines = [Path(f"/proc/{parent}/task/{each}/children").read_text() for each in threads]
        except (OSError, ValueError):
            continue
        # A process may move to another parent between two reads.
        made = [int(word) for line in lines for word in line.split()]
        fresh = [each for each in made if each not in descendants and each != pid]
        descendants += fresh
        left += fresh
    return descendants


def process_cpu_s(pid: int) -> float | None:
    """Return the CPU time of the living threads of a process and of its descendants, s.

    To the nanosecond, where /proc/PID/stat counts clock ticks; None where the process has ended or the kernel
    keeps no such account.
    """
    known = [_threads_cpu_s(each) for each in (pid, *descendants_of(pid))]
    used = [each for each in known if each is not None]
    return sum(used) if used else None


def descendants_cpu_s(pid: int) -> float | None:
    """Return the CPU time so far of a process's living descendants and of children that they waited for, s.

    To the nanosecond for living threads, and to a clock tick a process for ended ones (proc(5)); None where
    no descendant lives.
    """
    used_s: float | None = None
    for each in descendants_of(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # After the name in parentheses, which may hold anything: utime, stime, cutime and cstime.
            words = Path(f"/proc/{each}/stat").read_bytes().rpartition(b")")[2].split()
            own, children = (
                sum(int(word) for word in part) / os.sysconf("SC_CLK_TCK")
                for part in (words[11:13], words[13:15])
            )
            used_s = (used_s or 0.0) + max(own, _threads_cpu_s(each) or 0.0) + children
    return used_s


def _threads_cpu_s(pid: int) -> float | None:
    """Return the CPU time of a process's living threads, s; None where there is none, or no such account."""
    used_ns: int | None = None
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            used_ns = (used_ns or 0) + int(path.read_text().split()[0])
    return None if used_ns is None else used_ns / 1e9
