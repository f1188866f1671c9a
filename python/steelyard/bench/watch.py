"""Looks at a program's threads while it runs: whether each runs, waits for a CPU, or sleeps, and on what.

In: process ids or a cgroup, and a root for /proc. Out: ``target.jsonl``, a line that says what the file is
and then one line a look: raw counters and states, as the kernel gives them.

A profile of CPU time cannot say what a sleeping thread waits for; this can: /proc/PID/task/TID/wchan names
the kernel function that it sleeps in (proc_pid_wchan(5)), and schedstat how long it ran and how long it
waited for a CPU (Documentation/scheduler/sched-stats.rst). The session's own process looks, between two
waits, and takes at most `COST_RATIO` of one CPU for it: the more threads, the seldomer.

Not here: what the looks mean (``analyze.target``).
"""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.clock import Clock

FILE = "target.jsonl"
KIND = "target_looks"
SCHEMA_VERSION = "1.0"
COST_RATIO = 0.02
"""Share of one CPU that looking may take."""
THREADS_AT_MOST = 512
"""Threads in one look; a program with more is told from these."""
_OWN = frozenset({"steelyard-exec"})
"""Supervisors belong to the run, not to the program."""
_STARTED, _RESIDENT_PAGES = 19, 21
_MINOR_FAULTS, _MAJOR_FAULTS, _USER_TICKS, _SYSTEM_TICKS = 7, 9, 11, 12
"""Places in /proc/PID/stat after the command, from 0 (proc_pid_stat(5))."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def cgroup_folders(path: str, root: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """Return the folder of the cgroup ``path`` in each hierarchy that has it.

    ``path`` is one below the hierarchies' root, as /proc/PID/cgroup says, or a folder. Raises UsageError when
    there is no such cgroup.
    """
    given = Path(path)
    if given.is_absolute() and (given / "cgroup.procs").is_file():
        return [given]
    below = path.strip("/")
    bases = [root, *sorted(each for each in root.glob("*") if each.is_dir())] if root.is_dir() else []
    found = [base / below for base in bases if (base / below / "cgroup.procs").is_file()]
    if not below or not found:
        raise UsageError(
            f"--cgroup {path}: there is no such cgroup below {root}",
            hint="/proc/PID/cgroup names a process's",
        )
    return found


@dataclass
class Watch:
    """What is looked at: processes ``pids`` with all their descendants, or the members of cgroup
    ``folders``.
    """

    pids: Sequence[int] = ()
    folders: Sequence[Path] = ()
    proc: Path = Path("/proc")
    problem: str | None = None
    looks: int = 0
    cost_s: float = 0.0
    _file: IO[str] | None = field(default=None, repr=False)
    _next_ns: int = 0

    def open(self, folder: Path, clock: Clock) -> None:
        """Begin the file. Raises EnvironmentLacksError when it cannot be written."""
        path = folder / FILE
        try:
            self._file = path.open("w", encoding="utf-8")
            head = {"kind": KIND, "schema_version": SCHEMA_VERSION, "begin_ns": clock.monotonic_ns()}
            self._file.write(json.dumps(head) + "\n")
        except OSError as error:
            raise EnvironmentLacksError(f"{path}: cannot be written: {error.strerror}") from error

    def look(self, clock: Clock, interval_s: float, *, now: bool = False) -> None:
        """Look, when the time for it has come (or ``now``)."""
        begin_ns = clock.monotonic_ns()
        if self._file is None or (begin_ns < self._next_ns and not now):
            return
        before_s = clock.cpu_s()
        seen = self._see()
        line = json.dumps({"time_ns": begin_ns, **seen}, separators=(",", ":"))
        try:
            self._file.write(line + "\n")
        except OSError as error:
            self.problem = f"{FILE} cannot be written: {error.strerror}"
            self.close()
            return
        self.looks += 1
        cost_s = clock.cpu_s() - before_s
        self.cost_s += cost_s
        self._next_ns = begin_ns + int(max(interval_s, cost_s / COST_RATIO) * 1e9)

    def close(self) -> None:
        """Complete the file."""
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self.problem = f"{FILE} cannot be written: {error.strerror}"
            self._file = None

    def alive(self) -> bool:
        """Return whether any process that is watched still lives."""
        return any((self.proc / str(pid)).exists() for pid in self._roots())

    def _roots(self) -> list[int]:
        if not self.folders:
            return list(self.pids)
        # A cgroup may lie in several hierarchies; its members are the same in each.
        found: set[int] = set()
        for folder in (self.folders[0], *self.folders[0].rglob("*/")):
            with contextlib.suppress(OSError, ValueError):
                found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
        return sorted(found)

    def _see(self) -> dict[str, Any]:
        processes: list[list[Any]] = []
        threads: list[list[Any]] = []
        unread = 0
        queue, known = self._roots(), set[int]()
        while queue:
            pid = queue.pop()
            if pid in known:
                continue
            known.add(pid)
            folder = self.proc / str(pid)
            told = self._process(folder, pid)
            if told is None:
                continue
            with contextlib.suppress(OSError):
                for task in (folder / "task").iterdir():
                    if not self.folders:
                        queue += self._children(task)
                    if told[1] in _OWN:
                        continue
                    if len(threads) >= THREADS_AT_MOST:
                        unread += 1
                        continue
                    thread = self._thread(task, pid)
                    if thread is not None:
                        threads.append(thread)
            if told[1] not in _OWN:
                processes.append(told)
        return {"processes": processes, "threads": threads, "unread": unread}

    @staticmethod
    def _children(task: Path) -> list[int]:
        try:
            return [int(pid) for pid in (task / "children").read_text().split()]
        except (OSError, ValueError):
            return []

    @staticmethod
    def _process(folder: Path, pid: int) -> list[Any] | None:
        """Return [pid, command, start ticks, rss bytes, minor faults, major faults, user ns, system ns,
        read, written].
        """
        try:
            command, _, rest = (folder / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
            fields = rest.split()
        except OSError:
            return None
        if fields[0] in ("Z", "X"):
            return None
        moved: dict[str, int] = {}
        # Another user's I/O is not ours to read: then it is null.
        with contextlib.suppress(OSError, ValueError):
            for line in (folder / "io").read_text().splitlines():
                name, _, value = line.partition(":")
                moved[name] = int(value)
        places = (_MINOR_FAULTS, _MAJOR_FAULTS)
        faults = [int(fields[place]) for place in places]
        times = [int(fields[place]) * _NS_PER_TICK for place in (_USER_TICKS, _SYSTEM_TICKS)]
        resident = int(fields[_RESIDENT_PAGES]) * _PAGE_BYTES
        disk = (moved.get("read_bytes"), moved.get("write_bytes"))
        return [pid, command, int(fields[_STARTED]), resident, *faults, *times, *disk]

    @staticmethod
    def _thread(task: Path, pid: int) -> list[Any] | None:
        """Return [pid, tid, state, where it sleeps, system call, run ns, wait ns, timeslices]."""
        try:
            state = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return None
        if state in ("Z", "X"):
            return None
        where, call = None, None
        if state not in ("R",):
            with contextlib.suppress(OSError):
                where = (task / "wchan").read_text()
            with contextlib.suppress(OSError, ValueError):
                call = int((task / "syscall").read_text().split()[0])
        run = wait = slices = None
        with contextlib.suppress(OSError, ValueError):
            run, wait, slices = (int(word) for word in (task / "schedstat").read_text().split()[:3])
        return [pid, int(task.name), state, where, call, run, wait, slices]
