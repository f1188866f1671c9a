#!/usr/bin/env python3
"""What counting 30 events of 100 control groups, and of 100 processes, once a second costs.

The events are the kernel's software events in each mode, which every machine has; hardware events are read by
the same call, a group at a time. CPU time is the probe's user plus system time (wait4) of a long recording
less that of a short one, so that opening and closing the events, which the note tells, are left out. The
conversion to Parquet is in it. Prints one JSON object a line, as benches/run.py asks.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENTITIES = 100
EVENTS = 30
SHORT_S, LONG_S = 2, 10
ROUNDS = 2
# Each of them wakes ten times a second.
PAUSE_S = 0.1
# include/uapi/linux/perf_event.h, perf_sw_ids
SOFTWARE = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
)


def probe() -> str:
    """Return the path of steelyard-probe: the one built beside the interpreter, or of the path."""
    beside = Path(os.environ.get("STEELYARD_BIN_DIR", "")) / "steelyard-probe"
    return str(beside) if beside.is_file() else "steelyard-probe"


def plan() -> dict[str, object]:
    """Return a plan of thirty events: ten, each in all modes, in user and in kernel mode."""
    events = [
        {
            "name": f"{name}:{mode}" if mode else name,
            "pmu": "software",
            "terms": {"config": config},
            "modifiers": mode,
            "fixed": False,
            "group": None,
        }
        for mode in ("", "u", "k")
        for config, name in enumerate(SOFTWARE)
    ]
    return {"schema_version": "1.0", "kind": "counter_plan", "cpu": "software", "events": events[:EVENTS]}


def hierarchy() -> Path | None:
    """Return where the hierarchy that perf_event belongs to is mounted."""
    unified = None
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup" and "perf_event" in options.split(","):
            return Path(point)
        if kind == "cgroup2" and unified is None:
            unified = Path(point)
    return unified


def start_processes() -> list[int]:
    """Start the processes that are counted; each does a little ten times a second."""
    children = []
    for _ in range(ENTITIES):
        child = os.fork()
        if child == 0:
            while True:
                time.sleep(PAUSE_S)
                sum(range(1000))
        children.append(child)
    return children


def end(children: list[int]) -> None:
    """End the processes."""
    for child in children:
        os.kill(child, signal.SIGKILL)
    for child in children:
        os.waitpid(child, 0)


def cost(command: list[str]) -> float:
    """Run ``command`` and return its CPU time in seconds."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def recorded(out: Path, seconds: int) -> float:
    """Return the mean time of one read in ms, having seen that everything was counted."""
    telemetry = json.loads((out / "telemetry.json").read_text())
    [source] = [source for source in telemetry["sources"] if source["name"] == "counters"]
    rows = (seconds + 1) * ENTITIES * EVENTS
    if source["rows"] != rows or source["missing_items"]:
        sys.exit(f"{source['rows']} rows instead of {rows}: {source['reason']} {source['missing_items']}")
    return float(source["read_ns_mean"]) / 1e6


def measure(scratch: Path, kind: str, targets: list[str]) -> dict[str, object]:
    """Return the row of ``targets``."""
    plan_path = scratch / "plan.json"
    plan_path.write_text(json.dumps(plan()))
    options = ["--sources", "memory", "--interval", "1s", "--counters", str(plan_path)]
    options += [word for target in targets for word in ("--counter-target", target)]
    shares, opening_s, read_ms = [], [], []
    for round_ in range(ROUNDS):
        costs = {}
        for seconds in (SHORT_S, LONG_S):
            out = scratch / f"{kind}{round_}-{seconds}"
            # The first tick is at once.
            count = ["--count", str(seconds + 1), "--out", str(out)]
            costs[seconds] = cost([probe(), "record", *options, *count])
            read_ms.append(recorded(out, seconds))
        share = (costs[LONG_S] - costs[SHORT_S]) / (LONG_S - SHORT_S)
        shares.append(share)
        opening_s.append(costs[SHORT_S] - SHORT_S * share)
    share = statistics.median(shares)
    return {
        "name": f"counters: CPU at 1 s, {EVENTS} software events, {ENTITIES} {kind}",
        "ours": share * 100,
        "theirs": None,
        "unit": "% of one CPU",
        "ratio": None,
        "bar": "<= 1 %",
        "met": share <= 0.01,
        "note": f"one read of all takes {statistics.median(read_ms):.2g} ms; opening and closing takes"
        f" {statistics.median(opening_s) * 1e3:.0f} ms of CPU time once",
    }


def in_groups(scratch: Path, children: list[int]) -> dict[str, object]:
    """Measure control groups with one process each, made for it and removed."""
    mount = hierarchy()
    name = f"counters: CPU at 1 s, {EVENTS} software events, {ENTITIES} control groups"
    missing: dict[str, object] = {"name": name, "bar": "<= 1 %"}
    if mount is None:
        return missing | {"note": "no control groups that counters follow are mounted"}
    groups = [mount / f"steelyard-bench-{os.getpid()}-{number}" for number in range(ENTITIES)]
    made = []
    try:
        for group, child in zip(groups, children, strict=True):
            group.mkdir()
            made.append(group)
            (group / "cgroup.procs").write_text(str(child))
        return measure(scratch, "control groups", [f"/{group.relative_to(mount)}" for group in groups])
    except OSError as error:
        return missing | {"note": f"no control group can be made here: {error.strerror}"}
    finally:
        for group, child in zip(made, children, strict=False):
            (mount / "cgroup.procs").write_text(str(child))
            group.rmdir()


def main() -> None:
    """Measure and print the rows."""
    children = start_processes()
    try:
        with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
            # The processes first: afterwards they have been in other groups.
            rows = [
                measure(Path(scratch), "processes", [str(child) for child in children]),
                in_groups(Path(scratch), children),
            ]
    finally:
        end(children)
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
