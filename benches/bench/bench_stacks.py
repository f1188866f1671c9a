#!/usr/bin/env python3
"""How long benchmarks of other software take to install, to start and to run, and what CPU they reach.

    benches/bench/bench_stacks.py [BENCHMARK...]

without names every one that needs an installation; ``STEELYARD_BENCH_STACKS`` names them too. Each is
installed from a warm cache into a folder of its own and then run in its smallest tier. What is downloaded
stays in ``target/bench-stacks/cache``; ``STEELYARD_BENCH_FOLDER`` is another folder than
``target/bench-stacks``. Where it is not there yet, one installation that is not timed brings it, and packages
of the system that this one added are removed again, so that the timed one installs them. Packages that were
here before are not in the time, and the note says how many those are.

A figure that keeps its bar counts whoever else used the machine: others only make it worse. One that misses
its bar while others used more of the CPU time than the verdict allows counts neither way: ``met`` is null,
and the note says why. The note of a run has its verdict.

Prints one JSON object a line, as benches/run.py asks.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.bench import declaration
from steelyard.records import Level, Run, read

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("STEELYARD_BENCH_FOLDER", ROOT / "target" / "bench-stacks"))
STEELYARD = Path(os.environ.get("STEELYARD_BIN_DIR", Path(sys.executable).parent)) / "steelyard"
INSTALL_S = 120.0
"""Bar of an installation, s."""
SPARK_INSTALL_S = 240.0
SMOKE_S = 600.0
"""Bar of all smoke runs together, s."""
FOREIGN_RATIO_MAX = 0.05
"""Share of the CPU time that others may use beside an installation."""
NEIGHBOURS = ("foreign-load", "steal")
"""Checks of a verdict that tell of others on the machine."""


@dataclass(frozen=True)
class Bar:
    """What a metric of a run has to keep."""

    benchmark: str
    metric: str
    words: str
    bound: float
    at_least: bool
    unit: str

    def is_kept(self, value: float) -> bool:
        """Whether ``value`` keeps the bar."""
        return value >= self.bound if self.at_least else value <= self.bound

    @property
    def text(self) -> str:
        """Return the bar for people."""
        return f"{'>=' if self.at_least else '<='} {shown(self.bound, self.unit):g} {self.unit}"


BARS = (
    Bar("mediawiki", "server_cpu_ratio", "CPU that the servers reach", 0.9, True, "%"),
    Bar("django", "server_cpu_ratio", "CPU that the servers reach", 0.9, True, "%"),
    Bar("transcode", "server_cpu_ratio", "CPU that the encoders reach", 0.95, True, "%"),
    Bar("cassandra", "ready_s", "start to ready", 10.0, False, "s"),
    Bar("mediawiki", "ready_s", "start to first page", 3.0, False, "s"),
    Bar("spark", "cluster_start_s", "start of the cluster", 8.0, False, "s"),
    Bar("mediawiki", "load_cpu_share_ratio", "load's share of the CPU time", 0.05, False, "%"),
    Bar("django", "load_cpu_share_ratio", "load's share of the CPU time", 0.05, False, "%"),
)


def shown(value: float, unit: str) -> float:
    """Return a value in its unit: ratios as percentages."""
    return value * 100 if unit == "%" else value


def row(name: str, value: float | None, unit: str, bar: str | None, *, met: bool | None, note: str) -> None:
    """Print one row."""
    line = {"name": name, "ours": value, "theirs": None, "unit": unit, "ratio": None}
    print(json.dumps({**line, "bar": bar, "met": met, "note": note}), flush=True)


# CPU time of others


def machine_cpu_s() -> float:
    """Return the CPU time that the machine has spent on anything, what was stolen from it included, s."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def children_cpu_s() -> float:
    """Return the CPU time of all children that have ended, s."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Done:
    """How a command ended."""

    code: int
    output: str
    errors: str
    wall_s: float
    foreign_ratio: float
    """Share of the machine's CPU time that others used meanwhile."""

    @property
    def complaint(self) -> str:
        """Return the last line of standard error."""
        lines = [line for line in self.errors.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


def steelyard(stacks: Path, *arguments: str) -> Done:
    """Run a command of Steelyard with ``stacks`` as its folder of installations."""
    environment = {**os.environ, "STEELYARD_STACKS": str(stacks)}
    begin_s, machine_s, own_s = time.monotonic(), machine_cpu_s(), children_cpu_s()
    done = subprocess.run(
        [str(STEELYARD), *arguments, "--json"], env=environment, capture_output=True, text=True, check=False
    )
    wall_s = time.monotonic() - begin_s
    foreign_s = machine_cpu_s() - machine_s - (children_cpu_s() - own_s)
    foreign_ratio = max(0.0, foreign_s / (wall_s * (os.cpu_count() or 1)))
    return Done(done.returncode, done.stdout, done.stderr, wall_s, foreign_ratio)


# Installing


def fill_cache(name: str, cache: Path, scratch: Path) -> str | None:
    """Install once, untimed, so that the cache is warm; return why that failed, None where it did not."""
    done = steelyard(scratch, "install", name, "--no-smoke", "--cache", str(cache))
    if done.code == 0:
        done = steelyard(scratch, "uninstall", name, "--packages")
    shutil.rmtree(scratch, ignore_errors=True)
    return None if done.code == 0 else done.complaint


def install(name: str, cache: Path, stacks: Path) -> str | None:
    """Install ``name`` from a warm cache and print its row; return why it failed, None where it did not."""
    bound = SPARK_INSTALL_S if payload_of(name) == "spark" else INSTALL_S
    title, bar = f"stacks: install {name}, warm cache", f"<= {bound:g} s"
    marker = cache / name / ".warm"
    failure = None if marker.is_file() else fill_cache(name, cache, stacks)
    if failure is None:
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        done = steelyard(stacks, "install", name, "--no-smoke", "--offline", "--cache", str(cache))
        failure = None if done.code == 0 else done.complaint
    if failure is not None:
        marker.unlink(missing_ok=True)
        row(title, None, "s", bar, met=False, note=failure)
        return failure
    [record] = json.loads(done.output)["installed"]
    value, met = record["install_s"], record["install_s"] <= bound
    added, asked = len(record["packages_added"]), len(record["packages"])
    note = f"{added} packages installed" if added else f"packages ({asked}) were here: not in the time"
    note += f"; others used {done.foreign_ratio:.0%} of the CPU time"
    is_disturbed = done.foreign_ratio > FOREIGN_RATIO_MAX
    row(title, value, "s", bar, met=None if is_disturbed and not met else met, note=note)
    return None


def payload_of(name: str) -> str:
    """Return the payload of a benchmark, empty where it has none."""
    recipe = declaration.find(name).recipe
    return recipe.payload if recipe is not None else ""


# Running


def judged(run: Run) -> tuple[str, bool]:
    """Return a run's verdict in words, and whether others disturbed it."""
    if run.verdict is None:
        return "no verdict", False
    odd = [check for check in run.verdict.checks if check.level is not Level.VALID]
    words = f"verdict {run.verdict.level}"
    if odd:
        words += f" ({', '.join(check.id for check in odd)})"
    near = [check for check in run.verdict.checks if check.id in NEIGHBOURS]
    figures = [f"{check.id} {check.value:.1%}" for check in near if check.value is not None]
    return "; ".join([words, *figures]), any(check.level is not Level.VALID for check in near)


def smoke(name: str, stacks: Path) -> tuple[float, bool] | None:
    """Run ``name`` in its smallest tier and print its rows.

    Returns how long that took, s, and whether others disturbed it; None where it failed.
    """
    done = steelyard(stacks, "run", name, "--tier", "smoke", "--out", str(stacks / "runs"))
    title = f"stacks: smoke run of {name}"
    found: list[dict[str, Any]] = json.loads(done.output)["runs"] if done.output else []
    if done.code not in (0, 1) or not found:
        row(title, None, "s", None, met=False, note=done.complaint)
        return None
    run = read(Run, Path(found[0]["directory"]) / "run.json")
    verdict, is_disturbed = judged(run)
    row(title, done.wall_s, "s", None, met=None, note=verdict)
    for bar in BARS:
        if bar.benchmark != name:
            continue
        metric = run.metrics[bar.metric]
        value, note = metric.value, verdict
        if value is None:
            note, met = f"{metric.missing}; {verdict}", False
        else:
            met = bar.is_kept(value)
        settled = None if is_disturbed and not met else met
        number = None if value is None else shown(value, bar.unit)
        row(f"stacks: {name}, {bar.words}", number, bar.unit, bar.text, met=settled, note=note)
    return done.wall_s, is_disturbed


def stacks_named(words: list[str]) -> Iterator[str]:
    """Yield the benchmarks that need an installation, only those of ``words`` where there are any."""
    known = [declared.name for declared in declaration.working() if declared.recipe is not None]
    unknown = sorted(set(words) - set(known))
    if unknown:
        sys.exit(f"bench_stacks: {', '.join(unknown)}: not one of {', '.join(known)}")
    yield from (name for name in known if not words or name in words)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stacks", nargs="*", metavar="BENCHMARK")
    chosen = parser.parse_args().stacks or os.environ.get("STEELYARD_BENCH_STACKS", "").split()
    names = list(stacks_named(chosen))
    took: dict[str, tuple[float, bool]] = {}
    for name in names:
        # A folder for each: what two benchmarks share would else be installed for the first alone.
        stacks = FOLDER / "stacks" / name
        shutil.rmtree(stacks, ignore_errors=True)
        print(f"{name}: installation", file=sys.stderr)
        if install(name, FOLDER / "cache", stacks) is None:
            print(f"{name}: smoke run", file=sys.stderr)
            ended = smoke(name, stacks)
            if ended is not None:
                took[name] = ended
        shutil.rmtree(stacks, ignore_errors=True)
    total_s, disturbed = sum(wall_s for wall_s, _ in took.values()), [name for name in took if took[name][1]]
    is_whole = names == list(stacks_named([])) and len(took) == len(names)
    note = f"{len(took)} of {len(list(stacks_named([])))} benchmarks"
    note += f"; others disturbed {len(disturbed)} of them" if disturbed else ""
    met = total_s <= SMOKE_S
    settled = met if is_whole and (met or not disturbed) else None
    row("stacks: smoke runs together", total_s, "s", f"<= {SMOKE_S:g} s", met=settled, note=note)


if __name__ == "__main__":
    main()
