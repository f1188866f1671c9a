"""What a process knows of its children: their CPU time once they have ended, and their ids while they live.

In: nothing, or a process id. Out: seconds, or ids.
"""

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
