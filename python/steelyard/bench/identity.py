"""Which process a number stands for, and which groups it belongs to.

Process ids are used again. A process is the same only with the same id, start time and boot.
"""

import os
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.records import Orchestrator


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return when process ``pid`` started, in clock ticks since boot; None when there is no such process.

    Field 22 of /proc/PID/stat (proc_pid_stat(5)). A zombie counts as ended.
    """
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command, field 2, may hold spaces and brackets: what follows the last bracket starts at field 3.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def age_s() -> float:
    """Return how long ago this process started, s: with the interpreter's start, to a clock tick."""
    ticks = start_ticks(os.getpid())
    return time.clock_gettime(time.CLOCK_BOOTTIME) - (ticks or 0) / os.sysconf("SC_CLK_TCK")


def boot_id(proc: Path = Path("/proc")) -> str | None:
    """Return the kernel's id of this boot."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def gone(driver: "Orchestrator", proc: Path = Path("/proc"), *, phase: str | None = None) -> str | None:
    """Return how the process that a manifest names was lost, in ``phase`` of its run; None while it lives."""
    where = f" in phase {phase}" if phase else ""
    if driver.boot_id is not None and driver.boot_id != boot_id(proc):
        host = driver.hostname or "its machine"
        return f"was under way{where} when {host} rebooted, or its folder was copied from there"
    if start_ticks(driver.pid, proc) != driver.start_ticks:
        return f"the orchestrator (process {driver.pid}) was killed{where}"
    return None


def cpu_cgroups(child: str, root: Path = Path("/")) -> list[str]:
    """Return the CPU cgroups whose quotas limit this process, and the group ``child`` in its own.

    Paths are below the root of the hierarchy: version 1's cpu controller, and version 2.
    """
    # Not at the top: `steelyard list` would load the whole package of machines.
    from steelyard.machine.cgroups import own_paths
    from steelyard.machine.tree import Tree

    groups: set[str] = set()
    for controllers, path in own_paths(Tree(root)).items():
        if controllers == "" or "cpu" in controllers.split(","):
            own = PurePosixPath(path)
            groups |= {str(own), *(str(parent) for parent in own.parents), str(own / child)}
    return sorted(groups)
