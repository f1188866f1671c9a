#!/usr/bin/env python3
"""CPI specs and outliers over a simulated store: time and memory, beside DuckDB's bare scan and pandas.

    bench_cpi.py [--rows N] [--pandas-rows N] [--scratch FOLDER] [--keep]

Writes a store of about N task samples (10 million by default; 100 million take 7 GB), measures each question
in a process of its own, the contenders alternately, and removes the store. Prints one JSON object a line, as
benches/run.py asks.

- "scan" is a query of DuckDB that aggregates the columns that a question reads, once, and nothing else. Both
  questions together are held against one scan of all their columns, too, although thresholds must be known
  before the second question can be asked.
- "pandas" reads the same columns and computes the same specs and outliers with group-by, on the first days of
  the store that hold as many rows as asked.

Peak memory is the largest resident set of the measured process, with the interpreter and libraries in it.
"""

import argparse
import json
import math
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BAR_S, BAR_GB, BAR_SCAN, BAR_PANDAS = 30.0, 4.0, 2.0, 10.0
BAR_ROWS = 100_000_000
DAYS, TASKS, JOBS, WINDOWS = 7, 16, 24, 1440
ROUNDS = 3
READ = {
    "specs": ("cpi", "cpu_s", "window_s", "instructions", "job", "platform", "cpi_source", "task", "date"),
    "both": ("window_start_unix_s", "machine", "job_class", "cluster"),
}
"""Columns that specs read, and those that outliers read besides."""
WORDS = ("job", "platform", "cpi_source", "task", "machine", "job_class", "cluster", "date")
NUMBERS = tuple(name for names in READ.values() for name in names if name not in WORDS)


def make_store(folder: Path, machines: int, days: int, **more: Any) -> dict[str, Any]:
    """Simulate a store in a process of its own; return its truth's counts and the time that it took."""
    call = {
        "machines": machines,
        "days": days,
        "jobs": JOBS,
        "tasks_per_machine": TASKS,
        "profiled_ratio": 1e-6,
    }
    return child("make", folder, json.dumps(call | more))


def child(what: str, store: Path, *more: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", what, str(store), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def child_make(store: str, call: str) -> dict[str, Any]:
    """Write a store."""
    from steelyard.fleet.simulate import Settings, simulate

    began_s = time.perf_counter()
    truth = simulate(Settings(**json.loads(call)), store)
    return {"s": time.perf_counter() - began_s, "rows": truth["rows"], "bytes": truth["bytes"]}


def child_ours(store: str, first: str | None = None, last: str | None = None) -> dict[str, Any]:
    """Build specs, then find outliers by task with them, as ``fleet cpi`` does; imports are not timed."""
    import ibis
    import pyarrow.dataset  # noqa: F401

    ibis.duckdb.connect().disconnect()
    from steelyard.fleet.cpi import outliers as cpi_outliers
    from steelyard.fleet.cpi import specs as cpi_specs
    from steelyard.fleet.store.store import open_store
    from steelyard.telemetry.engine import fetch

    began_s = time.perf_counter()
    with open_store(store, first=first, last=last) as opened:
        samples = opened.table("task_samples")
        rows = opened.listing("task_samples").rows
        opened_s = time.perf_counter()
        specs = cpi_specs.find_specs(samples)
        specs_s = time.perf_counter()
        outliers = cpi_outliers.expression(samples, cpi_outliers.spec_table(specs))
        found = fetch(cpi_outliers.by_task(outliers))
        end_s = time.perf_counter()
    return {
        "s": end_s - began_s,
        "open_s": opened_s - began_s,
        "specs_s": specs_s - opened_s,
        "outliers_s": end_s - specs_s,
        "rows": rows,
        "specs": sum(one.is_usable for one in specs),
        "outliers": int(sum(found["outliers"].to_pylist())),
    }


def child_scan(store: str, first: str | None = None, last: str | None = None) -> dict[str, Any]:
    """Let DuckDB aggregate the columns that the questions read, each set once."""
    from steelyard.fleet.store.store import open_store

    times: dict[str, float] = {}
    with open_store(store, first=first, last=last) as opened:
        connection = opened.view("task_samples") and opened.engine.connection
        for name, columns in (("specs", READ["specs"]), ("both", READ["specs"] + READ["both"])):
            parts = [f"{'max' if column in WORDS else 'sum'}({column})" for column in columns]
            query = f"select {', '.join(parts)} from task_samples"  # noqa: S608
            began_s = time.perf_counter()
            connection.execute(query).fetchall()
            times[f"{name}_s"] = time.perf_counter() - began_s
    return {"s": times["both_s"], **times}


def child_pandas(store: str, first: str | None = None, last: str | None = None) -> dict[str, Any]:
    """Compute the same with pandas: specs by job and platform with aged days, then outliers by task."""
    import pandas as pd
    import pyarrow.parquet as pq

    began_s = time.perf_counter()
    files = [
        str(path)
        for path in sorted(Path(store).glob("task_samples/**/*.parquet"))
        if _within(path, first, last)
    ]
    columns = ["job", "platform", "cpi_source", "task", "machine", "job_class", *NUMBERS]
    words = [name for name in columns if name not in NUMBERS]
    frames = []
    for path in files:
        frame = pq.ParquetFile(path).read(columns=columns).to_pandas()
        frame["date"] = path.split("date=")[1][:10]
        frames.append(frame)
    data = pd.concat(frames, ignore_index=True)
    del frames
    read_s = time.perf_counter()
    usage = data.cpu_s / data.window_s
    good = data[
        (data.instructions != 0)
        & data.cpi.notna()
        & (data.cpi <= 1000)
        & (data.cpi >= 0.05)
        & (usage >= 0.25)
    ]
    dates = pd.to_datetime(good.date)
    weight = 0.9 ** (dates.max() - dates).dt.days
    keys = ["job", "platform", "cpi_source"]
    weighed = good[keys].assign(
        w=weight, ww=weight * weight, x=weight * good.cpi, xx=weight * good.cpi * good.cpi
    )
    sums = weighed.groupby(keys).sum()
    mean = sums.x / sums.w
    variance = (sums.xx / sums.w - mean * mean) / (1 - sums.ww / (sums.w * sums.w))
    tasks = good.groupby([*keys, "task"]).size()
    enough = (tasks >= 100).groupby(keys).sum() >= 5
    threshold = (mean + 2 * variance**0.5)[enough].rename("threshold_cpi")
    joined = good.merge(threshold, left_on=keys, right_index=True)
    outliers = joined[joined.cpi > joined.threshold_cpi].sort_values([*words, "window_start_unix_s"])
    start = outliers.window_start_unix_s
    earlier = outliers.groupby(["machine", "platform", "job", "task"]).window_start_unix_s.shift(2)
    anomalous = (start - earlier < 300).fillna(False)
    by_task = (
        outliers.assign(anomalous=anomalous)
        .groupby(["machine", "platform", "job", "task"])
        .agg(outliers=("cpi", "size"), anomalous=("anomalous", "sum"), highest=("cpi", "max"))
    )
    return {
        "s": time.perf_counter() - began_s,
        "read_s": read_s - began_s,
        "rows": len(data),
        "specs": int(enough.sum()),
        "outliers": int(by_task.outliers.sum()),
    }


def _within(path: Path, first: str | None, last: str | None) -> bool:
    date = str(path).split("date=")[1][:10]
    return (first is None or date >= first) and (last is None or date <= last)


def peak_gb() -> float:
    """Return this process's largest resident set."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def alternate(calls: dict[str, tuple[Any, ...]], rounds: int) -> dict[str, dict[str, Any]]:
    """Run each call in turn, ``rounds`` times; return for each the run of median time."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, arguments in calls.items():
            runs[name].append(child(name, *arguments))
    chosen = {}
    for name, found in runs.items():
        found.sort(key=lambda one: one["s"])
        chosen[name] = found[len(found) // 2] | {"peak_gb": max(one["peak_gb"] for one in found)}
    return chosen


def row(
    name: str, ours: float, theirs: float | None, unit: str, bar: str, met: bool | None, note: str
) -> None:
    """Print a row for benches/run.py."""
    ratio = ours / theirs if theirs else None
    line = {
        "name": name,
        "ours": ours,
        "theirs": theirs,
        "unit": unit,
        "ratio": ratio,
        "bar": bar,
        "met": met,
    }
    print(json.dumps(line | {"note": note}), flush=True)


def slope(points: list[tuple[float, float]]) -> float:
    """Return the exponent of growth: the slope of log time over log size."""
    x = [math.log(size) for size, _ in points]
    y = [math.log(seconds) for _, seconds in points]
    return statistics.linear_regression(x, y).slope


def whole(store: Path, rounds: int) -> None:
    """Time and memory over the whole store, beside the scan."""
    runs = alternate({"ours": (store,), "scan": (store,)}, rounds)
    ours, scan = runs["ours"], runs["scan"]
    rows = ours["rows"]
    # The bars are for 100 million rows; a smaller store is held to its share of the time.
    allowed_s = BAR_S * max(rows, 10_000_000) / BAR_ROWS
    note = (
        f"{rows:,} task samples, {ours['specs']} specs in {ours['specs_s']:.2f} s,"
        f" {ours['outliers']:,} outliers in {ours['outliers_s']:.2f} s, opened in {ours['open_s']:.2f} s;"
        f" CPU time {ours['cpu_s']:.1f} s, the scans' {scan['cpu_s']:.1f} s"
    )
    bar = f"<= {allowed_s:g} s"
    row("fleet: CPI specs and outliers", ours["s"], None, "s", bar, ours["s"] <= allowed_s, note)
    scans = (
        ("fleet: CPI specs, beside a bare scan", ours["specs_s"], scan["specs_s"], "of the same 9 columns"),
        ("fleet: outliers, beside a bare scan", ours["outliers_s"], scan["both_s"], "of the same 13 columns"),
        (
            "fleet: both, beside one bare scan",
            ours["s"],
            scan["both_s"],
            "of 13 columns; ours reads 9 of them twice",
        ),
    )
    for name, mine, bare, note in scans:
        row(name, mine, bare, "s", f"<= {BAR_SCAN:g} x", mine <= BAR_SCAN * bare, note)
    peak = ours["peak_gb"]
    row("fleet: the same, peak memory", peak, None, "GB", f"<= {BAR_GB:g} GB", peak <= BAR_GB, "resident set")


def beside_pandas(store: Path, last: str) -> None:
    """The same questions of the first days, by pandas."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        row(
            "fleet: the same, beside pandas",
            math.nan,
            None,
            "s",
            "",
            None,
            "pandas is missing: scripts/build",
        )
        return
    runs = alternate({"ours": (store, "--to", last), "pandas": (store, "--to", last)}, 1)
    ours, theirs = runs["ours"], runs["pandas"]
    same = (ours["specs"], ours["outliers"]) == (theirs["specs"], theirs["outliers"])
    note = (
        f"{ours['rows']:,} task samples; pandas reads {theirs['read_s']:.1f} s of it and takes"
        f" {theirs['peak_gb']:.1f} GB, ours {ours['peak_gb']:.1f} GB; CPU time {theirs['cpu_s']:.1f} s beside"
        f" {ours['cpu_s']:.1f} s; specs and outliers are"
        f" {'the same' if same else 'NOT the same: ' + str((ours['outliers'], theirs['outliers']))}"
    )
    times = theirs["s"] / ours["s"]
    print(
        json.dumps(
            {
                "name": "fleet: the same, beside pandas",
                "ours": ours["s"],
                "theirs": theirs["s"],
                "unit": "s",
                "ratio": times,
                "bar": f">= {BAR_PANDAS:g} x",
                "met": same and times >= BAR_PANDAS,
                "note": note,
            }
        ),
        flush=True,
    )


def growth(scratch: Path, store: Path, days: list[str]) -> None:
    """How time grows with days (of the whole store), machines and rows a machine (small stores)."""
    points: dict[str, list[tuple[str, float, float]]] = {"days": [], "machines": [], "rows": []}
    for count in (1, 2, 4, len(days)):
        if count <= len(days):
            one = child("ours", store, "--to", days[count - 1])
            points["days"].append((f"{count} days", one["rows"], one["s"]))
    for machines in (15, 30, 60, 120):
        small = scratch / f"machines-{machines}"
        make_store(small, machines, 2, platforms=1)
        one = min((child("ours", small) for _ in range(ROUNDS)), key=lambda run: run["s"])
        points["machines"].append((f"{machines} machines", one["rows"], one["s"]))
        shutil.rmtree(small)
    for step_s in (240, 120, 60, 30):
        small = scratch / f"rows-{step_s}"
        make_store(small, 40, 2, step_s=step_s, platforms=1)
        one = min((child("ours", small) for _ in range(ROUNDS)), key=lambda run: run["s"])
        points["rows"].append((f"every {step_s} s", one["rows"], one["s"]))
        shutil.rmtree(small)
    for name, found in points.items():
        exponent = slope([(rows, seconds) for _, rows, seconds in found])
        note = "; ".join(f"{label}: {rows / 1e6:.2f}M rows {seconds:.2f} s" for label, rows, seconds in found)
        row(f"fleet: growth with {name}", exponent, None, "exponent", "<= 1.1", exponent <= 1.1, note)


def run_child(arguments: list[str]) -> None:
    """Run one measurement in this process and print it."""
    what, store, *rest = arguments
    calls = {"make": child_make, "ours": child_ours, "scan": child_scan, "pandas": child_pandas}
    if what == "make":
        result = child_make(store, rest[0])
    else:
        first = rest[rest.index("--from") + 1] if "--from" in rest else None
        last = rest[rest.index("--to") + 1] if "--to" in rest else None
        result = calls[what](store, first, last)
    print(json.dumps(result | {"peak_gb": peak_gb(), "cpu_s": time.process_time()}))


def main() -> None:
    """Write the store, measure, remove it."""
    if sys.argv[1:2] == ["--child"]:
        run_child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--pandas-rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--scratch", type=Path, help="folder for the stores; by default one of the system's")
    parser.add_argument("--store", type=Path, help="a simulated store that is there already, and stays")
    parser.add_argument("--no-growth", action="store_true")
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="steelyard-bench-", dir=arguments.scratch))
    try:
        store = arguments.store or scratch / "store"
        if arguments.store is None:
            machines = max(8, round(arguments.rows / (DAYS * TASKS * WINDOWS)))
            made = make_store(store, machines, DAYS)
            rate = made["rows"]["task_samples"] / made["s"] / 1e6
            written = made["rows"]["task_samples"]
            note = f"{written:,} task samples and all other tables, zstd, {made['peak_gb']:.2f} GB resident"
            row("fleet: simulate", rate, None, "M task samples/s", ">= 1", rate >= 1, note)
        days = sorted({path.name.removeprefix("date=") for path in store.glob("task_samples/*/date=*")})
        whole(store, arguments.rounds)
        per_day = child("ours", store, "--to", days[0])["rows"]
        last = days[min(len(days), max(1, math.ceil(arguments.pandas_rows / per_day))) - 1]
        beside_pandas(store, last)
        if not arguments.no_growth:
            growth(scratch, store, days)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
