#!/usr/bin/env python3
"""What a million machines would cost: measures bytes a row, and works out docs/scale.md from them.

    scale.py measure     simulates a small fleet, writes docs/scale.json: bytes a row and a file, by table
    scale.py write       writes the tables between the markers of docs/scale.md from docs/scale.json

Speeds in docs/scale.json (key "speed") are taken from runs of bench_cpi.py and set by hand with the command
that gave them; ``measure`` leaves them alone. ``write`` is arithmetic, and a test holds the document to it.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEASURED, DOCUMENT = ROOT / "docs" / "scale.json", ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- figures: benches/fleet/scale.py write -->", "<!-- end of figures -->"

MACHINES, TASKS, MINUTES, DAYS_KEPT = 1_000_000, 20, 1440, 30
BATCHES_MIN = (10, 60, 240)
"""Minutes of windows in a raw file; the agent's default is 10."""
CPI_COLUMNS = {"cpi", "cpu_s", "window_s", "instructions", "window_start_unix_s"} | {
    "job",
    "platform",
    "cpi_source",
    "task",
    "machine",
    "job_class",
}
WINDOWED = ("task_samples", "machine_samples", "profiles")

# List prices of AWS in us-east-1, 2025 (https://aws.amazon.com/s3/pricing, https://aws.amazon.com/ec2/pricing):
# S3 Standard beyond 500 TB; PUT and LIST; GET; an m7i vCPU on demand.
USD_PER_GB_MONTH, USD_PER_PUT, USD_PER_GET, USD_PER_CPU_HOUR = 0.021, 5e-6, 4e-7, 0.0504
LIST_KEYS = 1000
DAYS_PER_MONTH = 30


def measure() -> None:
    """Simulate, weigh files of a day (compacted) and of each batch, and keep the result."""
    import numpy as np
    import pyarrow.parquet as pq

    from steelyard.fleet.simulate import Settings, simulate
    from steelyard.fleet.store.schema import TABLES
    from steelyard.fleet.store.write import encode_rows, fit

    settings = Settings(machines=64, jobs=30, days=1, tasks_per_machine=TASKS, profiled_ratio=0.01)
    tables: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        truth = simulate(settings, f"{folder}/store")
        for name in WINDOWED:
            files = sorted(Path(folder).glob(f"store/{name}/**/*.parquet"))
            file = pq.ParquetFile(files[0])
            rows = fit(file.read(), TABLES[name]).combine_chunks()
            machine = sorted(set(rows["machine"].to_pylist()))[0]
            mine = rows.filter(np.array(rows["machine"].to_pylist()) == machine)
            start = np.array(mine["window_start_unix_s"])
            batches = {}
            for minutes in BATCHES_MIN:
                sizes = []
                for first in range(int(start.min()), int(start.max()) + 1, 60 * minutes):
                    part = mine.filter((start >= first) & (start < first + 60 * minutes))
                    if len(part):
                        sizes.append(len(encode_rows(part, TABLES[name])))
                per_day = len(sizes)
                batches[str(minutes)] = {"files_per_day": per_day, "bytes_per_day": sum(sizes)}
            tables[name] = {
                "rows_per_machine_day": truth["rows"][name] / settings.machines,
                "compacted_bytes_per_row": truth["bytes"][name] / truth["rows"][name],
                "raw_machine_day": batches,
                "raw_machine_rows": len(mine),
                "cpi_columns_bytes_per_row": column_bytes(file.metadata) / len(rows),
            }
    kept = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    kept["settings"] = settings.document()
    kept["tables"] = tables
    MEASURED.write_text(json.dumps(kept, indent=2) + "\n")


def column_bytes(metadata: Any) -> int:
    """Return the compressed bytes of a file's columns that the CPI questions read."""
    chunks = [
        metadata.row_group(g).column(c)
        for g in range(metadata.num_row_groups)
        for c in range(metadata.num_columns)
    ]
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in CPI_COLUMNS)


def machine_day_rows(measured: dict[str, Any], table: str) -> float:
    """Return rows of one machine and day in the fleet that is planned for."""
    if table == "task_samples":
        return TASKS * MINUTES
    if table == "machine_samples":
        return MINUTES
    # Profiles grow with tasks; the simulated machines have about as many.
    simulated = measured["tables"]["task_samples"]["rows_per_machine_day"] / MINUTES
    return float(measured["tables"][table]["rows_per_machine_day"] * TASKS / simulated)


def volume(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the table of rows and bytes a day."""
    yield "| table | rows a day | bytes a row, compacted | TB a day | TB in 30 days | USD a month for these |"
    yield "|---|---|---|---|---|---|"
    total = 0.0
    for table in WINDOWED:
        rows = machine_day_rows(measured, table) * MACHINES
        each = measured["tables"][table]["compacted_bytes_per_row"]
        size = rows * each
        total += size
        yield _volume_row(table, f"{rows / 1e9:.2f} billion", f"{each:.1f}", size)
    yield _volume_row("all", "", "", total)


def _volume_row(name: str, rows: str, each: str, size: float) -> str:
    cost = size * DAYS_KEPT / 1e9 * USD_PER_GB_MONTH
    return f"| {name} | {rows} | {each} | {size / 1e12:.2f} | {size * DAYS_KEPT / 1e12:.1f} | {cost:,.0f} |"


def uploads(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the table of files, requests and upload rate by length of a batch."""
    yield (
        "| minutes a raw file | kB a file of task samples | files a day | uploads/s | bytes/s a machine"
        " | Gbit/s of the fleet | USD a day for PUTs | LIST requests for a day |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for minutes in BATCHES_MIN:
        files = size = 0.0
        for table in WINDOWED:
            one = measured["tables"][table]["raw_machine_day"][str(minutes)]
            scale = machine_day_rows(measured, table) / measured["tables"][table]["raw_machine_rows"]
            # A file is made for each batch that has rows; fewer rows than the plan's make no fewer files.
            files += one["files_per_day"]
            size += one["bytes_per_day"] * scale
        tasks = measured["tables"]["task_samples"]["raw_machine_day"][str(minutes)]
        per_day = files * MACHINES
        yield (
            f"| {minutes} | {tasks['bytes_per_day'] / tasks['files_per_day'] / 1e3:.0f}"
            f" | {per_day / 1e6:,.0f} million"
            f" | {per_day / 86400:,.0f} | {size / 86400:,.0f} | {size * MACHINES * 8 / 86400 / 1e9:.1f}"
            f" | {per_day * USD_PER_PUT:,.0f} | {per_day / LIST_KEYS:,.0f} |"
        )


def queries(measured: dict[str, Any]) -> Iterator[str]:
    """Yield the table of what the CPI queries of one day take."""
    speed = measured["speed"]
    rows = machine_day_rows(measured, "task_samples") * MACHINES
    cpu_hours = rows / speed["cpi_rows_per_s"] * speed["cpus"] / 3600
    opened_h = MACHINES * MINUTES / 10 / speed["footers_per_s"] / 3600
    read = 2 * rows * measured["tables"]["task_samples"]["cpi_columns_bytes_per_row"]
    compacted = speed.get("compact_rows_per_s")
    yield "| work on one day of task samples | measured | at a million machines | USD |"
    yield "|---|---|---|---|"
    yield (
        f"| CPI specs and outliers, one pass each | {speed['cpi_rows_per_s'] / 1e6:.1f} million rows/s on"
        f" {speed['cpus']} CPUs | {cpu_hours:.1f} CPU-hours, {read / 1e12:.2f} TB read:"
        f" {cpu_hours * 60 / speed['cpus']:.0f} min on {speed['cpus']} CPUs that get"
        f" {read * speed['cpus'] / cpu_hours / 3600 / 1e6:,.0f} MB/s | {cpu_hours * USD_PER_CPU_HOUR:.2f} |"
    )
    yield (
        f"| opening it from raw files of 10 min (footers) | {speed['footers_per_s']:,.0f} files/s |"
        f" {opened_h:,.1f} hours in one process | {MACHINES * MINUTES / 10 * USD_PER_GET:,.0f} for GETs |"
    )
    if compacted:
        compact_h = rows / compacted * speed["cpus"] / 3600
        yield (
            f"| compacting it | {compacted / 1e6:.2f} million rows/s on {speed['cpus']} CPUs |"
            f" {compact_h:,.0f} CPU-hours: {compact_h / 24:,.0f} CPUs all day |"
            f" {compact_h * USD_PER_CPU_HOUR:,.0f} |"
        )
    yield f"| specs pulled hourly by every agent | one file | {MACHINES * 24 / 86400:,.0f} GETs/s |" + (
        f" {MACHINES * 24 * USD_PER_GET:,.0f} |"
    )


def figures(measured: dict[str, Any]) -> str:
    """Return everything between the markers."""
    lines = [
        BEGIN,
        "",
        "### Bytes",
        "",
        *volume(measured),
        "",
        "### Files and uploads",
        "",
        *uploads(measured),
        "",
        "### Queries",
        "",
        *queries(measured),
        "",
        "How the speeds were measured:",
        "",
        *(f"- {line}" for line in measured["speed"]["how"]),
        "",
        END,
    ]
    return "\n".join(lines)


def rendered(text: str, measured: dict[str, Any]) -> str:
    """Return the document with its figures in place."""
    begin, end = text.index(BEGIN), text.index(END) + len(END)
    return text[:begin] + figures(measured) + text[end:]


def main() -> None:
    """Measure, or write."""
    if sys.argv[1:] == ["measure"]:
        measure()
    elif sys.argv[1:] == ["write"]:
        DOCUMENT.write_text(rendered(DOCUMENT.read_text(), json.loads(MEASURED.read_text())))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
