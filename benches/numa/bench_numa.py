#!/usr/bin/env python3
"""What scores of 1000 processes cost beside ``numastat -p`` over the same.

``numastat -p`` tells memory by node. ``steelyard-probe numa`` tells that, CPU time by node over a window,
and the score. The processes sleep but for those that are said to run; the bench starts them and ends them
by their ids. CPU time is user plus system time of the whole process (wait4), all in one run, in turn.
Memory is read although this machine may have one node (``--pages``), where it would not be needed.

Rows: the first score of all, which must have the kernel write each process's numa_maps, as numastat must;
each later window of one that keeps watching (what an agent does), which reads again only what may have
changed; and the same processes as members of one control group. Prints one JSON object a line, as
benches/run.py asks.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROCESSES = 1000
RUNNING = 50
"""Of the processes, those that do a little work now and then."""
ROUNDS = 5
WINDOWS = 11
GROUP = "steelyard-bench-numa"


def probe() -> str:
    """Return the path of steelyard-probe: the one built beside the interpreter, or of the path."""
    beside = Path(os.environ.get("STEELYARD_BIN_DIR", "")) / "steelyard-probe"
    return str(beside) if beside.is_file() else "steelyard-probe"


def cost(command: list[str]) -> tuple[float, str]:
    """Run ``command`` and return its CPU time in seconds and what it printed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[:6]} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, said


@contextmanager
def processes() -> Iterator[list[int]]:
    """Start the processes, and end them whatever happens."""
    idle = ["sleep", "1000"]
    busy = ["sh", "-c", "while :; do sleep 0.5; done"]
    started = []
    try:
        for number in range(PROCESSES):
            command = busy if number < RUNNING else idle
            started.append(subprocess.Popen(command, start_new_session=True))
        time.sleep(1)
        yield [process.pid for process in started]
    finally:
        for process in started:
            os.killpg(process.pid, 9)
        for process in started:
            process.wait()


@contextmanager
def group(pids: list[int]) -> Iterator[str | None]:
    """Put the processes into a control group of version 1 or 2; None where none can be made."""
    mounts = Path("/proc/mounts").read_text().split("\n")
    fields = [line.split() for line in mounts if line]
    roots = [
        Path(entry[1])
        for entry in fields
        if entry[2] == "cgroup" and {"memory", "cpuacct"} & set(entry[3].split(","))
    ]
    roots = roots or [Path(entry[1]) for entry in fields if entry[2] == "cgroup2"]
    made = []
    try:
        with suppress(OSError):
            for root in dict.fromkeys(roots):
                folder = root / GROUP
                folder.mkdir()
                made.append(folder)
                for pid in pids:
                    (folder / "cgroup.procs").write_text(str(pid))
        can_be_read = any((folder / "memory.numa_stat").exists() for folder in made)
        yield f"/{GROUP}" if can_be_read else None
    finally:
        for folder in made:
            # What they have started themselves may have ended meanwhile, or may start others.
            while members := (folder / "cgroup.procs").read_text().split():
                for pid in members:
                    with suppress(ProcessLookupError):
                        (folder.parent / "cgroup.procs").write_text(pid)
            folder.rmdir()


def named(pids: list[int]) -> list[str]:
    """Return arguments that name the processes."""
    return [word for pid in pids for word in ("--pid", str(pid))]


def scored(said: str, count: int) -> None:
    """End the bench where not all have a score with memory: nothing must look cheap that was not done."""
    for line in said.splitlines():
        rows = json.loads(line)["subjects"]
        whole = [row for row in rows if row["score"] and row["memory_bytes_per_node"]]
        if len(whole) < count:
            why = next(row["missing"] for row in rows if row not in whole)
            sys.exit(f"{len(whole)} of {len(rows)} scores, {count} are needed: {why}")


def row(name: str, ours: list[float], theirs: list[float], bar: float | None, note: str) -> None:
    """Print one row: milliseconds of CPU time, and how many times ours is less."""
    mine, other = statistics.median(ours) * 1e3, statistics.median(theirs) * 1e3 if theirs else None
    ratio = None if other is None or mine <= 0 else other / mine
    print(
        json.dumps(
            {
                "name": f"numa: CPU of scores of {PROCESSES} processes, {name}",
                "ours": mine,
                "theirs": other,
                "unit": "ms",
                "ratio": ratio,
                "bar": None if bar is None else f">= {bar:g}x less",
                "met": None if bar is None or ratio is None else ratio >= bar,
                "note": note,
            }
        ),
        flush=True,
    )


def main() -> None:
    """Measure in turn, and print the rows."""
    numastat = shutil.which("numastat")
    first: list[float] = []
    later: list[float] = []
    grouped: list[float] = []
    theirs: list[float] = []
    ours = [probe(), "numa", "--json", "--pages"]
    with processes() as pids:
        table = [numastat or "numastat", "-p", str(pids[0]), *(w for p in pids[1:] for w in ("-p", str(p)))]
        for _ in range(ROUNDS):
            if numastat:
                spent, said = cost(table)
                if sum(str(pid) in said for pid in pids) < PROCESSES:
                    sys.exit("numastat did not tell of all processes")
                theirs.append(spent)
            spent, said = cost([*ours, *named(pids), "--duration", "1s", "--looks", "1"])
            scored(said, PROCESSES)
            first.append(spent)
            windows = [*ours, *named(pids), "--duration", "1s", "--looks", "1", "--count", str(WINDOWS)]
            spent, said = cost(windows)
            scored(said, PROCESSES)
            own = [json.loads(line)["cost_cpu_ns"] / 1e9 for line in said.splitlines()]
            later.append(statistics.mean(own[1:]))
        with group(pids) as path:
            for _ in range(ROUNDS if path else 0):
                spent, said = cost([*ours, "--cgroup", str(path), "--duration", "1s"])
                scored(said, 1)
                grouped.append(spent)
    absent = "" if numastat else "numastat is not installed (package numactl)"
    row(
        "the first",
        first,
        theirs,
        None,
        absent or "nine tenths of either are the kernel's, which writes numa_maps of every process",
    )
    row(
        f"each later window ({RUNNING} of them run)",
        later,
        theirs,
        10,
        absent or "memory is read again after page faults only; windows of 1 s, with looks and record",
    )
    if grouped:
        row("as one control group", grouped, theirs, 10, absent or "one score of the group, ten looks")


if __name__ == "__main__":
    main()
