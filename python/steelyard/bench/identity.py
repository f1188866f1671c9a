"""Which process a number stands for: its start time and the boot it belongs to.

Process ids are used again. A process is the same only with the same id, start time and boot.
"""

from pathlib import Path


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


def boot_id(proc: Path = Path("/proc")) -> str | None:
    """Return the kernel's id of this boot."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
