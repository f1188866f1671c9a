"""Steelyard beside its peers: runs every driver below this folder and prints one table of ratios.

A driver is an executable file ``benches/<area>/bench_*``: it measures its pairs alternately in one run and
prints one JSON object a line: name, ours, theirs, unit, ratio, bar (such as ">= 1.2"), met, and note where
something must be said. Whatever else it has to say goes to standard error.

Exit codes: 0 everything was measured, 1 some bar was missed and --strict was given, 4 a driver failed.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent


def drivers(only: list[str]) -> list[Path]:
    """Return the executable drivers, those whose path holds one of ``only`` when that is not empty."""
    found = sorted(p for p in HERE.glob("*/bench_*") if p.is_file() and os.access(p, os.X_OK))
    return [p for p in found if not only or any(word in str(p.relative_to(HERE)) for word in only)]


def run(driver: Path) -> list[dict[str, object]]:
    """Run one driver and return its rows. Raises CalledProcessError when it fails."""
    command = [sys.executable, str(driver)] if driver.suffix == ".py" else [str(driver)]
    environment = os.environ | {"STEELYARD_BIN_DIR": str(Path(sys.executable).parent)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def figure(value: object) -> str:
    """Return a number with three significant digits, or a dash for a missing one."""
    if not isinstance(value, int | float):
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def table(rows: list[dict[str, object]]) -> Table:
    """Return the rows grid for a terminal."""
    grid = Table(title="Steelyard beside its peers", caption="each pair measured alternately in one run")
    for name in ("what", "ours", "theirs", "unit", "ratio", "bar", "met"):
        grid.add_column(name, justify="left" if name in ("what", "unit", "met") else "right")
    for row in rows:
        met = {True: "[green]yes[/]", False: "[red]no[/]"}.get(row.get("met"), "-")  # type: ignore[call-overload]
        grid.add_row(
            str(row["name"]),
            figure(row.get("ours")),
            figure(row.get("theirs")),
            str(row.get("unit") or ""),
            figure(row.get("ratio")),
            str(row.get("bar") or "-"),
            met,
        )
    return grid


def main() -> int:
    """Run the drivers named, print the table, store the rows with the machine and the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="run only the drivers whose path holds one of these words")
    parser.add_argument("--out", type=Path, default=HERE.parent / "target" / "bench.json")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar is missed")
    arguments = parser.parse_args()
    # A file or a pipe has no width of its own; a table squeezed into 80 columns cannot be read.
    console = Console() if sys.stdout.isatty() else Console(width=150)
    rows: list[dict[str, object]] = []
    failed: list[str] = []
    for driver in drivers(arguments.only):
        name = str(driver.relative_to(HERE))
        Console(stderr=True).print(f"[dim]{name}[/]")
        try:
            rows += run(driver)
        except (subprocess.CalledProcessError, ValueError) as error:
            failed.append(f"{name}: {error}")
    console.print(table(rows))
    for row in rows:
        if row.get("note"):
            console.print(f"[dim]{row['name']}: {row['note']}[/]")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = {"time_s": time.time(), "machine": platform.platform(), "cpus": os.cpu_count(), "rows": rows}
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")
    for line in failed:
        print(f"bench: {line}", file=sys.stderr)
    if failed:
        return 4
    missed = any(row.get("met") is False for row in rows)
    return 1 if missed and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
