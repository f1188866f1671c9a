"""Where the kernel says that the threads and the pages of running processes are.

In: a tree of /proc, process ids, the placement that they should have. Out: an `ExperimentReadBack`, or the
first thing that is elsewhere, in words.

Threads are read from ``/proc/PID/task/TID/status`` (``Cpus_allowed_list``) and ``stat`` (the CPU of its last
run), pages from ``/proc/PID/numa_maps`` (Linux, Documentation/filesystems/proc.rst and
Documentation/admin-guide/mm/numa_memory_policy.rst). Only pages of its own count: anonymous ones and shared
memory. Files are in the page cache, where whoever read them first has put them.

Invariant: what cannot be read is no proof.

Not here: placing anything (``steelyard-exec``), scores (``steelyard-probe numa``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from steelyard._base import format_cpu_list, parse_cpu_list
from steelyard.machine.tree import Tree, keyed
from steelyard.records.experiment import ExperimentReadBack

MISPLACED_RATIO = 0.05
"""Share of a program's pages that may be elsewhere: some are where the kernel put them."""
_SHARED = ("/dev/zero", "/SYSV", "/memfd:", "/dev/shm/", "/anon_hugepage")  # noqa: S108 - names in a file
"""Files that are memory of programs: mappings of shared memory."""
_SUPERVISOR = "steelyard-exec"
_CPU_OF_LAST_RUN = 36
"""Place in ``stat`` after the name, which may hold blanks (proc(5): field 39)."""


@dataclass(slots=True)
class Watch:
    """What was seen of one program and its descendants, look by look."""

    cpus: Sequence[int]
    memory_nodes: Sequence[int] = ()
    """Empty where its memory is not bound: then only threads are judged."""
    looks: int = 0
    threads: int = 0
    seen_on: set[int] = field(default_factory=set)
    bytes_per_node: Counter[int] = field(default_factory=Counter)
    astray: str | None = None
    """The first thread that was elsewhere."""

    def look(self, tree: Tree, pids: Iterable[int]) -> None:
        """Take in where threads and pages of ``pids`` are now; those that have ended are passed over."""
        threads = 0
        pages: Counter[int] = Counter()
        is_complete = False
        for pid in pids:
            if (tree.text(f"proc/{pid}/comm") or "") == _SUPERVISOR[:15]:
                continue
            found = self._threads(tree, pid)
            threads += found
            maps = tree.text(f"proc/{pid}/numa_maps")
            if found and maps:
                is_complete = True
                pages.update(own_bytes(maps))
        if not is_complete:
            return
        self.looks += 1
        self.threads = max(self.threads, threads)
        if pages.total() >= self.bytes_per_node.total():
            self.bytes_per_node = pages

    def _threads(self, tree: Tree, pid: int) -> int:
        count = 0
        for name in tree.names(f"proc/{pid}/task", r"\d+"):
            task = f"proc/{pid}/task/{name}"
            allowed = parse_cpu_list(keyed(tree.text(f"{task}/status")).get("Cpus_allowed_list", "x"))
            last = _last_cpu(tree.text(f"{task}/stat"))
            if allowed is None or last is None:
                continue
            count += 1
            self.seen_on.add(last)
            if not set(allowed) <= set(self.cpus) and self.astray is None:
                self.astray = f"may run on CPUs {format_cpu_list(allowed)}"
            elif last not in self.cpus and self.astray is None:
                self.astray = f"ran on CPU {last}"
            if self.astray is not None and not self.astray.startswith("thread "):
                self.astray = f"thread {name} ({tree.text(f'{task}/comm') or 'ended'}) {self.astray}"
        return count

    def objection(self) -> str | None:
        """Return why this is no proof of the placement, None where it is one."""
        if self.astray is not None:
            return f"{self.astray}, not on {format_cpu_list(sorted(self.cpus))} alone"
        if not self.looks:
            return "it ended, or hid its numa_maps, before its threads and pages could be read back"
        total = self.bytes_per_node.total()
        if not self.memory_nodes or not total:
            return None if not self.memory_nodes else "it has no pages of its own to read back"
        elsewhere = total - sum(self.bytes_per_node[node] for node in self.memory_nodes)
        if elsewhere > MISPLACED_RATIO * total:
            named = format_cpu_list(sorted(self.memory_nodes))
            return f"{elsewhere / total:.0%} of its pages are on other nodes than {named}"
        return None

    def record(self) -> ExperimentReadBack | None:
        """Return what was seen, None where nothing was."""
        if not self.looks:
            return None
        return ExperimentReadBack(
            looks=self.looks,
            threads=self.threads,
            cpus=format_cpu_list(sorted(self.seen_on)),
            bytes_per_node={str(node): self.bytes_per_node[node] for node in sorted(self.bytes_per_node)},
        )


def own_bytes(numa_maps: str) -> Counter[int]:
    """Return the bytes of a program's own pages by node.

    >>> own_bytes("7f00 bind:1 anon=2 dirty=2 N0=1 N1=1 kernelpagesize_kB=4")
    Counter({0: 4096, 1: 4096})
    >>> own_bytes("7f00 default file=/usr/lib/libc.so.6 mapped=9 N0=9 kernelpagesize_kB=4")
    Counter()
    """
    found: Counter[int] = Counter()
    for line in numa_maps.splitlines():
        words = line.split()[2:]
        name = next((word[5:] for word in words if word.startswith("file=")), "")
        if name and not name.startswith(_SHARED):
            continue
        size = next((int(word[18:]) for word in words if re.fullmatch(r"kernelpagesize_kB=\d+", word)), 4)
        for word in words:
            if match := re.fullmatch(r"N(\d+)=(\d+)", word):
                found[int(match[1])] += int(match[2]) * size * 1024
    return found


def _last_cpu(stat: str | None) -> int | None:
    words = (stat or "").rpartition(")")[2].split()
    try:
        return int(words[_CPU_OF_LAST_RUN])
    except (IndexError, ValueError):
        return None
