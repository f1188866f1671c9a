#!/usr/bin/env python3
"""The probe's cost beside collectl's, and the cost of all its sources on a machine with 200 processes.

CPU time is user plus system time of the whole process from start to end (wait4), the final conversion to
Parquet included. Prints one JSON object a line, as benches/run.py asks.
"""

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TICKS = 8640
ROUNDS = 5
# All sources: ticks 10 ms apart, so that the processes do something between them.
ALL_TICKS = 1000
SLEEPING, BUSY = 196, 4


def probe() -> str:
    """Return the path of steelyard-probe: the one built beside the interpreter, or of the path."""
    beside = Path(os.environ.get("STEELYARD_BIN_DIR", "")) / "steelyard-probe"
    return str(beside) if beside.is_file() else "steelyard-probe"


def cost(command: list[str]) -> tuple[float, int]:
    """Run ``command`` and return its CPU time in seconds and its largest resident set in bytes."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def collectl_ticks(directory: Path) -> int:
    """Return how many ticks collectl wrote: a run that recorded nothing must not look like a fast one."""
    (raw,) = directory.glob("*.raw.gz")
    with gzip.open(raw, "rb") as file:
        return sum(line.startswith(b">>>") for line in file)


def beside_collectl(scratch: Path) -> dict[str, object]:
    """Measure cpu, disk, network and memory back to back, both recorders in turn."""
    name = f"probe: CPU per tick, cpu+disk+network+memory, {TICKS} back to back"
    ours, theirs = [], []
    collectl = shutil.which("collectl")
    for round_ in range(ROUNDS):
        out = scratch / f"ours{round_}"
        sources = ["--sources", "cpu,disk,network,memory", "--interval", "0", "--count", str(TICKS)]
        ours.append(cost([probe(), "record", *sources, "--out", str(out)])[0] / TICKS)
        if collectl:
            out = scratch / f"theirs{round_}"
            out.mkdir()
            theirs.append(cost([collectl, "-scdnm", "-i0", f"-c{TICKS}", "-f", f"{out}/"])[0] / TICKS)
            # It counts from 0, and may leave out the first, which has nothing to compare with.
            if collectl_ticks(out) < TICKS - 1:
                sys.exit("collectl recorded fewer ticks than it was asked for")
    row: dict[str, object] = {
        "name": name,
        "ours": statistics.median(ours) * 1e6,
        "theirs": None,
        "unit": "us/tick",
        "ratio": None,
        "bar": "<= 0.1",
        "met": None,
    }
    if theirs:
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        row |= {"theirs": statistics.median(theirs) * 1e6, "ratio": ratio, "met": ratio <= 0.1}
    else:
        row["note"] = "collectl is not installed"
    return row


def all_sources(scratch: Path) -> list[dict[str, object]]:
    """Measure all sources beside 200 processes of which a few are busy."""
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(SLEEPING)]
    children += [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(BUSY)]
    try:
        costs = []
        for round_ in range(3):
            out = scratch / f"all{round_}"
            options = ["--interval", "10ms", "--count", str(ALL_TICKS), "--out", str(out)]
            costs.append(cost([probe(), "record", *options]))
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
    cpu_ms = statistics.median(seconds for seconds, _ in costs) * 1e3 / ALL_TICKS
    rss_mb = max(rss for _, rss in costs) / 1e6
    count = SLEEPING + BUSY
    return [
        {
            "name": f"probe: CPU per tick, all sources, {count} processes more",
            "ours": cpu_ms,
            "theirs": None,
            "unit": "ms/tick",
            "ratio": None,
            "bar": "<= 1 ms",
            "met": cpu_ms <= 1,
        },
        {
            "name": f"probe: memory, all sources, {count} processes more",
            "ours": rss_mb,
            "theirs": None,
            "unit": "MB",
            "ratio": None,
            "bar": "<= 30 MB",
            "met": rss_mb <= 30,
        },
    ]


def main() -> None:
    """Measure and print the rows."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as scratch:
        rows = [beside_collectl(Path(scratch)), *all_sources(Path(scratch))]
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
