#!/usr/bin/env python3
"""Time and memory of `steelyard report` on an hour of a machine with 64 CPUs, read each second.

A short real characterization gives the run's records; its telemetry is replaced by an hour of 64 CPUs, 20
disks and partitions, 8 interfaces, 100 control groups, 300 processes and a watched program with 200 threads:
the columns that this machine's `steelyard-probe` says it has, values drawn at random with a fixed seed, and
files finished by the probe's own writer (`steelyard-probe recover`). Prints one JSON object a line, as
benches/run.py asks.

Python's byte code is kept in a folder of the benchmark's own and written before the first measurement, as a
second start of an installed command has it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECONDS, CPUS, PROCESSES, THREADS = 3600, 64, 300, 200
ROUNDS = 5
BAR_S, BAR_AGAIN_S, BAR_MB, START_BAR_S = 5.0, 2.5, 500.0, 0.3
SECOND = 1_000_000_000
TICKS_PER_BATCH = 60
TYPES = {
    "uint64": pa.uint64(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
}
IDS = {
    "pid": lambda label: label.split("/")[0],
    "tid": lambda label: label.split("/")[-1],
    "start_ticks": lambda _: 4711,
}
WORDS = {"state": "S", "sleeps_in": "futex_do_wait", "system_call": None}
MODES = {"user_ns": 0.35, "system_ns": 0.12, "softirq_ns": 0.02, "iowait_ns": 0.03, "idle_ns": 0.48}


def binary(name: str) -> str:
    """Return the path of an executable: the one beside the interpreter, or of the path."""
    beside = Path(os.environ.get("STEELYARD_BIN_DIR", "")) / name
    return str(beside) if beside.is_file() else name


def entities(source: str) -> list[dict[str, Any]]:
    """Return the labels of everything that ``source`` has on the machine that is made up."""
    cpus = [{"cpu": cpu} for cpu in range(CPUS)]
    names: dict[str, list[dict[str, Any]]] = {
        "disk": [{"device": f"nvme{disk}n1{part}"} for disk in range(10) for part in ("", "p1")],
        "network": [{"interface": name} for name in ("lo", "bond0", *(f"eth{n}" for n in range(6)))],
        "pressure": [{"resource": name} for name in ("cpu", "memory", "io", "irq")],
        "power": [{"domain": f"package-{n // 2}{'-dram' * (n % 2)}"} for n in range(4)],
        "thermal": [{"zone": f"coretemp {core}"} for core in range(CPUS + 2)],
        "numa": [{"node": node} for node in range(2)],
        "cgroup": [{"path": "/"}] + [{"path": f"/system.slice/unit{n}.service"} for n in range(99)],
        "process": [
            {"pid": 1000 + n, "start_ticks": 500 + n, "command": f"worker-{n % 40}"} for n in range(PROCESSES)
        ],
        "target_process": [
            {"pid": 1000 + n, "start_ticks": 500 + n, "command": f"worker-{n}"} for n in range(4)
        ],
        "target_thread": [
            {"pid": 1000 + n % 4, "tid": 5000 + n, "start_ticks": 600 + n} for n in range(THREADS)
        ],
        "interrupts": [
            {"irq": irq, "name": name, "cpu": cpu}
            for irq, name in (
                ("LOC", "timer"),
                ("RES", "rescheduling"),
                ("CAL", "calls"),
                ("TLB", "shootdowns"),
            )
            for cpu in range(CPUS)
        ]
        + [
            {"irq": str(100 + n), "name": f"PCI-MSIX eth{n % 6}-TxRx-{n}", "cpu": n % CPUS}
            for n in range(128)
        ],
        "softirqs": [
            {"kind": kind, "cpu": cpu}
            for kind in ("TIMER", "NET_TX", "NET_RX", "BLOCK", "TASKLET", "SCHED", "HRTIMER", "RCU")
            for cpu in range(CPUS)
        ],
    }
    per_cpu = ("cpu", "schedstat", "cpufreq", "aperfmperf", "throttle")
    return cpus if source in per_cpu else names.get(source, [{}])


def moving(source: str, count: int, random: np.random.Generator) -> Callable[[], np.ndarray]:
    """Return what draws the entities that have a row at a tick."""
    everything = np.arange(count)
    if source == "process":
        return lambda: random.choice(count, 32, replace=False)
    shares = {"interrupts": 0.7, "softirqs": 0.6, "target_thread": 0.5}
    if source not in shares:
        return lambda: everything
    return lambda: everything[random.random(count) < shares[source]]


def step(source: str, column: dict[str, Any], random: np.random.Generator, count: int) -> np.ndarray:
    """Return what a counter of every entity gains in a second, or the next readings of a gauge."""
    name, unit = column["name"], column["unit"]
    if column["kind"] == "gauge":
        scale = {"bytes": 1e10, "hz": 3e9, "uw": 2e8}.get(unit, 40.0)
        return scale * random.uniform(0.8, 1.0, count)
    if source == "cpu":
        return MODES.get(name, 0.0) * SECOND * random.uniform(0.9, 1.1, count)
    if name in ("throttled_ns", "full_ns") or "throttle" in name or "error" in name or "drop" in name:
        return np.zeros(count)
    scale = {"ns": 0.1 * SECOND, "bytes": 2e6, "uj": 1e8}.get(unit, 500.0)
    return scale * random.uniform(0.2, 1.8, count)


def batches(source: str, columns: list[dict[str, Any]], begin_ns: int) -> Iterator[pa.RecordBatch]:
    """Return the rows of an hour in batches of a minute."""
    random = np.random.default_rng(1)
    things = entities(source)
    count = len(things)
    draw = moving(source, count, random)
    values = {column["name"]: np.full(count, 1e12) for column in columns}
    labels = {name: np.array([thing.get(name) for thing in things], dtype=object) for name in things[0]}
    types = pa.schema([(column["name"], TYPES[column["type"]]) for column in columns])
    rows: dict[str, list[np.ndarray]] = {column["name"]: [] for column in columns}
    for tick in range(SECONDS + 1):
        seen = draw()
        time_ns = begin_ns + tick * SECOND
        for column in columns:
            name, kind = column["name"], column["kind"]
            if kind == "time":
                cells = np.full(len(seen), time_ns + 1000, dtype=np.uint64)
            elif name in labels:
                cells = labels[name][seen]
            elif name in WORDS:
                cells = np.full(len(seen), WORDS[name], dtype=object)
            elif name == "unmoved_ns":
                cells = np.full(len(seen), None, dtype=object)
            else:
                gained = step(source, column, random, count)
                values[name] = values[name] + gained if kind == "counter" else gained
                cells = values[name][seen]
            rows[name].append(cells)
        if tick % TICKS_PER_BATCH == 0 or tick == SECONDS:
            yield pa.RecordBatch.from_arrays(
                [_array(rows[field.name], field.type) for field in types], schema=types
            )
            rows = {column["name"]: [] for column in columns}


def _array(parts: list[np.ndarray], kind: pa.DataType) -> pa.Array:
    whole = np.concatenate(parts)
    if whole.dtype == object:
        return pa.array(whole.tolist(), type=kind)
    return pa.array(whole if pa.types.is_floating(kind) else whole.astype(np.int64)).cast(kind)


def write_recording(folder: Path, sources: list[dict[str, Any]], begin_ns: int) -> None:
    """Replace the recording in ``folder`` by an hour of ``sources``."""
    path = folder / "telemetry.json"
    record = json.loads(path.read_text())
    shutil.rmtree(folder)
    folder.mkdir()
    record |= {"begin_ns": begin_ns, "end_ns": begin_ns + SECONDS * SECOND, "interval_ns": SECOND}
    record |= {"ticks": SECONDS + 1, "missed_ticks": 0, "sources": []}
    for source in sources:
        columns = source["columns"]
        for column in columns:
            column["missing"] = None
        fields = [
            pa.field(
                column["name"],
                TYPES[column["type"]],
                nullable=column["kind"] != "time",
                metadata={"kind": column["kind"], **({"unit": column["unit"]} if column["unit"] else {})},
            )
            for column in columns
        ]
        schema, written = pa.schema(fields), 0
        path_of_stream = folder / f"{source['name']}.arrows"
        with pa.OSFile(str(path_of_stream), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
            for batch in batches(source["name"], columns, begin_ns):
                stream.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                written += batch.num_rows
        kept = ("name", "kind", "unit", "missing")
        record["sources"].append(
            {
                "name": source["name"],
                "available": True,
                "reason": None,
                "file": f"{source['name']}.parquet",
                "rows": written,
                "failed_reads": 0,
                "read_ns_mean": 20_000.0,
                "columns": [{key: column[key] for key in kept} for column in columns],
            }
        )
    path.write_text(json.dumps(record))
    subprocess.run([binary("steelyard-probe"), "recover", str(folder)], check=True, stdout=subprocess.DEVNULL)


def target_tables(folder: Path) -> list[dict[str, Any]]:
    """Return the columns of the tables of a watched program, as this machine recorded them."""
    sources = []
    for source in json.loads((folder / "telemetry.json").read_text())["sources"]:
        schema = pq.read_schema(folder / source["file"])
        for column in source["columns"]:
            column["type"] = str(schema.field(column["name"]).type)
        sources.append({"name": source["name"], "columns": source["columns"]})
    return sources


def make_run(scratch: Path, environment: dict[str, str]) -> Path:
    """Return the folder of a characterization that took an hour on 64 CPUs."""
    command = [binary("steelyard"), "characterize", "--duration", "2s", "--out", str(scratch), "--json"]
    busy = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: sum(range(1000))"
    done = subprocess.run(
        [*command, "--", sys.executable, "-c", busy], env=environment, check=True, stdout=subprocess.PIPE
    )
    folder = Path(json.loads(done.stdout)["directory"])
    run = json.loads((folder / "run.json").read_text())
    begin_ns = next(phase["begin_ns"] for phase in run["phases"] if phase["name"] == "measure")
    for phase in run["phases"]:
        if phase["name"] == "measure":
            phase["end_ns"] = begin_ns + SECONDS * SECOND + SECOND // 2
        elif phase["name"] == "drain":
            phase |= {"begin_ns": begin_ns + SECONDS * SECOND + SECOND // 2}
            phase["end_ns"] = phase["begin_ns"] + SECOND
    run["cpus"]["server"] = f"0-{CPUS - 1}"
    (folder / "run.json").write_text(json.dumps(run))
    survey = subprocess.run(
        [binary("steelyard-probe"), "sources", "--json"], check=True, stdout=subprocess.PIPE
    )
    write_recording(folder / "telemetry", json.loads(survey.stdout)["sources"], begin_ns)
    write_recording(folder / "target", target_tables(folder / "target"), begin_ns)
    return folder


def forget(run: Path) -> None:
    """Remove what was kept of the run's recordings: each of them is read anew."""
    for answers in run.glob("*/answers.arrow"):
        answers.unlink()


def cost(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run ``command``; return its wall time in seconds and its largest resident set in MB."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    passed_s = time.monotonic() - begin
    if process.returncode not in (0, 1):
        sys.exit(f"{command} ended with {process.returncode}")
    return passed_s, usage.ru_maxrss * 1024 / 1e6


def measured(
    command: list[str], environment: dict[str, str], before: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """Return the median time and the largest memory of some rounds, after one that is not counted.

    ``before`` is called before each round.
    """
    found = []
    for _ in range(1 + ROUNDS):
        before()
        found.append(cost(command, environment))
    del found[0]
    return statistics.median(time_s for time_s, _ in found), max(rss for _, rss in found)


def row(name: str, ours: float, unit: str, bar: float, note: str = "") -> dict[str, Any]:
    """Return a row of the table."""
    return {
        "name": name,
        "ours": ours,
        "theirs": None,
        "unit": unit,
        "ratio": None,
        "bar": f"<= {bar:g} {unit}",
        "met": ours <= bar,
        "note": note,
    }


def main() -> None:
    """Measure and print the rows."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as name:
        scratch = Path(name)
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = binary("steelyard")
        starts = {
            words: measured([command, *words.split()], environment)[0]
            for words in ("--help", f"list --runs {name}")
        }
        run = make_run(scratch, environment)
        recordings = [
            json.loads((run / part / "telemetry.json").read_text()) for part in ("telemetry", "target")
        ]
        rows = sum(source["rows"] for record in recordings for source in record["sources"])
        time_s, rss_mb = measured([command, "report", str(run)], environment, lambda: forget(run))
        again_s, _ = measured([command, "report", str(run)], environment)
    what = f"report: an hour at 1 s of {CPUS} CPUs ({rows / 1e6:.1f} million rows)"
    print(json.dumps(row(what, time_s, "s", BAR_S, f"of it the start alone: {starts['--help']:.2f} s")))
    print(json.dumps(row(f"{what}, memory", rss_mb, "MB", BAR_MB)))
    print(json.dumps(row(f"{what}, again: its answers are kept", again_s, "s", BAR_AGAIN_S)))
    for words, start_s in starts.items():
        print(json.dumps(row(f"start: steelyard {words.split()[0]}", start_s, "s", START_BAR_S)))


if __name__ == "__main__":
    main()
