#!/usr/bin/env python3
"""Queries of a fleet's store beside a bare scan of the columns that they read.

    bench_queries.py [--machines N] [--days N] [--rounds N] [--store FOLDER]

Simulates a store (about 34 000 task samples a machine and two days), or takes one that is there. Runs each
query as a process of its own (`steelyard fleet QUERY --json`) and, in turn, DuckDB that does nothing but
aggregate the query's columns. Prints one JSON object a line, as benches/run.py asks.

The bar is CPU time: at most four times the scan's (without the start of its process) and one second, which
the start of Python and the plan of the query take; and at most 1 GB of resident memory. CPU time and not
elapsed time, because both use all CPUs and a busy machine stretches the longer one more.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEELYARD = Path(sys.executable).parent / "steelyard"
FACTOR, START_S, BAR_MB = 4.0, 1.0, 1000.0
MACHINES, DAYS, ROUNDS = 50, 2, 3
CPI = ("cpi", "cpu_s", "window_s", "instructions", "job", "platform", "cpi_source", "task")
PRESSURE = (
    *("cpu_s", "window_s", "memory_bytes", "llc_misses", "storage_bytes", "network_bytes"),
    *("job", "platform", "machine", "window_start_unix_s"),
)
PAIR = (*PRESSURE, "cpi", "cpi_source", "machine_cpu_ratio")


@dataclass(frozen=True)
class Question:
    """One query: its words on the command line, the table it reads, and the columns of it."""

    words: tuple[str, ...]
    table: str
    columns: tuple[str, ...]


QUESTIONS = (
    Question(("top",), "profiles", ("stack", "samples", "weight", "sampled_ratio")),
    Question(("cpi", "specs"), "task_samples", CPI),
    Question(("cpi", "outliers"), "task_samples", (*CPI, "machine", "job_class", "window_start_unix_s")),
    Question(("pressure",), "task_samples", PRESSURE),
    Question(("pair",), "task_samples", PAIR),
)


def child_scan(store: str, table: str, columns: list[str]) -> None:
    """Aggregate columns that the table has, each once."""
    from steelyard.fleet.store.store import open_store

    with open_store(store) as opened:
        connection = opened.view(table) and opened.engine.connection
        there = {row[0]: row[1] for row in connection.execute(f"describe {table}").fetchall()}
        parts = [f"{_aggregate(there[name])}({name})" for name in columns if name in there]
        before_s = time.process_time()
        connection.execute(f"select {', '.join(parts)} from {table}").fetchall()  # noqa: S608
        print(time.process_time() - before_s)


def _aggregate(kind: str) -> str:
    return "sum" if kind in ("DOUBLE", "FLOAT", "BIGINT", "INTEGER", "UBIGINT") else "max"


def measured(command: list[str]) -> tuple[float, float]:
    """Run a query; return its CPU time in seconds and its largest resident set in megabytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    # Exit code 1 is an answer too: "no".
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {code}: {said}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def compare(question: Question, store: Path, rounds: int) -> dict[str, Any]:
    """Measure a query and its scan in turn; return the row for the table."""
    ours, scans = [], []
    scan = [sys.executable, __file__, "--scan", str(store), question.table, ",".join(question.columns)]
    for _ in range(rounds):
        scans.append(float(subprocess.run(scan, check=True, capture_output=True, text=True).stdout))
        ours.append(measured([str(STEELYARD), "fleet", *question.words, "--store", str(store), "--json"]))
    mine, bare = statistics.median(cpu_s for cpu_s, _ in ours), statistics.median(scans)
    memory = max(memory_mb for _, memory_mb in ours)
    return {
        "name": f"fleet {' '.join(question.words)}: CPU time beside a scan of its columns",
        "ours": mine,
        "theirs": bare,
        "unit": "s",
        "ratio": mine / bare,
        "bar": f"<= {FACTOR:g} x + {START_S:g} s, {BAR_MB:,.0f} MB",
        "met": mine <= FACTOR * bare + START_S and memory <= BAR_MB,
        "note": f"{memory:,.0f} MB resident at most",
    }


def main() -> None:
    """Simulate a store if none is given, and compare each query."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=MACHINES)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--store", type=Path, help="a store that is there; it stays")
    parser.add_argument("--scan", nargs=3, metavar=("STORE", "TABLE", "COLUMNS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.scan:
        store, table, columns = arguments.scan
        child_scan(store, table, columns.split(","))
        return
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or Path(folder) / "store"
        if not arguments.store:
            size = ["--machines", str(arguments.machines), "--days", str(arguments.days)]
            command = [str(STEELYARD), "fleet", "simulate", "--store", str(store), *size]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for question in QUESTIONS:
            print(json.dumps(compare(question, store, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
