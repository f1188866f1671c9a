"""Stores that no simulator made: few samples, ties, missing columns, skewed clocks, figures like NaN."""

import hashlib
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.fleet.store.layout import Partition, raw_name
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import create_store

DAY, NOON = "2026-01-01", 1_767_268_800
CLASSES = ("latency-sensitive", "batch", "best-effort")
WILD = (math.inf, -math.inf, math.nan, 0.0, -1.0, 1e308, 1e-308)


@dataclass(frozen=True)
class Shape:
    """What a store is like."""

    samples: int = 12
    """Windows of each task."""
    jobs: int = 2
    machines: int = 3
    platforms: int = 1
    tasks: int = 1
    """Tasks of a job on a machine."""
    missing: frozenset[str] = frozenset()
    """Optional columns that are null throughout; ``*`` for all."""
    equal: bool = False
    """Every figure is the same in every row."""
    wild: float = 0.0
    """Share of figures that are infinite, no number, 0 or negative."""
    null: float = 0.0
    """Share of values that are null, in required columns, too."""
    skew_s: int = 0
    """How far the clocks of machines are apart; windows then begin at any second."""
    tables: frozenset[str] = frozenset(TABLES)
    """Tables that have rows."""
    seed: int = 1


def make(folder: Path, shape: Shape) -> str:
    """Write a store of this shape; return where."""
    create_store(str(folder))
    rng = random.Random(shape.seed)
    for machine in range(shape.machines):
        for name in sorted(shape.tables):
            rows = [_spoilt(row, name, shape, rng) for row in _rows(name, machine, shape, rng)]
            if rows:
                _write(folder, name, f"m{machine}", rows)
    return str(folder)


def _rows(name: str, machine: int, shape: Shape, rng: random.Random) -> Iterable[dict[str, Any]]:
    """Yield the rows of one machine; every column has a value."""
    skew = rng.randint(-shape.skew_s, shape.skew_s)
    place = {"machine": f"m{machine}", "platform": f"p{machine % shape.platforms}"}
    draw = (lambda low, high: (low + high) / 2) if shape.equal else rng.uniform
    times = [NOON + 60 * window + skew for window in range(shape.samples)]
    if name in ("machine_samples", "machines"):
        for time in times:
            yield {**_filled(name, draw), **place, "window_start_unix_s": time, "seen_unix_s": time}
    if name in ("task_samples", "profiles"):
        for job in range(shape.jobs):
            for task in range(shape.tasks):
                who = {"job": f"job-{job}", "task": f"job-{job}/{machine}-{task}"}
                who["job_class"] = CLASSES[job % 3]
                for time in times:
                    yield {**_filled(name, draw), **place, **who, "window_start_unix_s": time}
    if name == "symbols" and machine == 0:
        yield {**_filled(name, draw), "build_id": "ab", "module": "lib", "start": 0, "size": 16, "name": "f"}
    if name == "cpi_specs" and machine == 0 and shape.jobs:
        yield {**_filled(name, draw), "job": "job-0", "platform": "p0", "built_unix_s": NOON}
    if name == "incidents" and shape.samples:
        who = {"victim_job": "job-0", "victim_task": f"job-0/{machine}-0", "action": "cap"}
        other = {"antagonist_job": "job-1", "antagonist_task": f"job-1/{machine}-0"}
        other["antagonist_class"] = "batch"
        span = {"start_unix_s": times[0], "end_unix_s": times[-1], "cap_start_unix_s": times[0] + 60}
        span["cap_end_unix_s"] = times[0] + 300
        yield {**_filled(name, draw), **place, **who, **other, **span, "incident": f"i{machine}"}


def _filled(name: str, draw: Any) -> dict[str, Any]:
    """Return a value for each column of a table."""
    values = {
        "string": lambda: "x",
        "int64": lambda: int(draw(1e6, 3e6)),
        "double": lambda: draw(0.5, 0.9),
        "bool": lambda: True,
        "list<int64>": lambda: [3, 4],
        "list<double>": lambda: [0.5, 0.25],
        "map<string,string>": lambda: [("config", "a" if draw(0, 1) < 0.5 else "b")],
    }
    row = {column.name: values[column.type]() for column in TABLES[name].columns}
    known = {
        "window_s": 60.0,
        "cpu_s": draw(30.0, 60.0),
        "threads": 8,
        "cores": 4,
        "core_busy_s": draw(30.0, 35.0),
        "cpi": draw(1.0, 3.0),
        "cpi_source": "cycles/instructions",
        "event": "cycles",
        "stack": f"run;main;f{int(draw(0, 3))} [lib];0x8 [lib@ab]",
        "numa_score": draw(0.3, 1.0),
        "sampled_ratio": 0.01,
        "frequency_hz": draw(1e9, 2e9),
        "nominal_frequency_hz": 2e9,
    }
    return row | {column: value for column, value in known.items() if column in row}


def _spoilt(row: dict[str, Any], name: str, shape: Shape, rng: random.Random) -> dict[str, Any]:
    """Return ``row`` with what the shape leaves out or spoils."""
    made = {}
    for column in TABLES[name].columns:
        value = row[column.name]
        if column.nullable and (column.name in shape.missing or "*" in shape.missing):
            value = None
        elif column.type == "double" and rng.random() < shape.wild:
            value = rng.choice(WILD)
        elif rng.random() < shape.null and "<" not in column.type:
            value = None
        made[column.name] = value
    return made


def _write(folder: Path, name: str, machine: str, rows: list[dict[str, Any]]) -> None:
    """Write one raw file as a stranger would: nothing is refused, every column may be null."""
    table = TABLES[name]
    schema = pa.schema([field.with_nullable(True) for field in table.arrow], metadata=table.arrow.metadata)
    content = repr(rows).encode()
    partition = Partition(name, DAY, "a")
    file = folder / partition.path / raw_name(machine, NOON, hashlib.sha256(content).hexdigest())
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), file)


def google_sample(folder: Path, *, jobs: int = 60, seed: int = 1) -> tuple[Path, Path]:
    """Write a CSV of the shape of Google's sample of 2019, and its mapping.

    Most jobs have few samples, many with one and the same CPI; one job has thousands of equal ones.
    """
    rng = random.Random(seed)
    lines = ["time,host,job,task,cpu,cpi"]
    for job in range(jobs):
        constant = round(rng.uniform(0.5, 4.0), 3)
        ties = [round(rng.uniform(0.5, 4.0), 1) for _ in range(3)]
        kind = rng.choice(("constant", "ties", "spread", "missing"))
        count = 3476 if job == 0 else min(400, max(1, int(rng.paretovariate(0.7))))
        for sample in range(count):
            cpi: Any = {
                "constant": constant,
                "ties": rng.choice(ties),
                "spread": round(rng.lognormvariate(0.5, 0.3), 4),
                "missing": "" if rng.random() < 0.5 else constant,
            }["constant" if job == 0 else kind]
            task = sample % (7 if job == 0 else 1 + job % 5)
            time = NOON + 300 * (sample // 7)
            cells = (time, f"m{(job + task) % 20}", f"j{job}", f"j{job}/{task}.{sample}", 0.4 * 300, cpi)
            # Ids of the sample's tasks last as long as their few samples; the large job's tasks stay.
            lines.append(",".join(str(cell) for cell in (*cells[:3], f"j{job}/{task}", *cells[4:])))
    csv, mapping = folder / "sample.csv", folder / "sample.toml"
    csv.write_text("\n".join(lines) + "\n")
    mapping.write_text(
        'table = "task_samples"\n[columns]\nmachine = "host"\njob = "job"\ntask = "task"\n'
        'window_start_unix_s = { column = "time", time = "s" }\nwindow_s = { value = 300 }\ncpu_s = "cpu"\n'
        'cpi = "cpi"\ncpi_source = { value = "cycles/instructions" }\n'
        'platform = { value = "unknown" }\njob_class = { value = "batch" }\n'
    )
    return csv, mapping
