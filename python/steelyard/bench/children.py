"""What a process knows of its children: their CPU time once they have ended, and their ids while they live.

In: nothing, or a process id. Out: seconds, or ids.
"""

import contextlib
import resource
from pathlib import Path


def children_cpu_s() -> float:
    """Return the CPU time of children that have ended and been waited for, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    used_ns: int | None = None
    for each in (pid, *descendants_of(pid)):
        for path in Path(f"/proc/{each}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                used_ns = (used_ns or 0) + int(path.read_text().split()[0])
    return None if used_ns is None else used_ns / 1e9
