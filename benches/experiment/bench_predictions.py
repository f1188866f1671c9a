#!/usr/bin/env python3
"""What `steelyard scale --predict` predicts of real machines, beside a line that is capped at the cores.

    bench_predictions.py [CURVES.csv] [--machines MACHINES.csv] [--every N]

CURVES.csv has a line for each reading: machine, cpus_of_machine, threads_per_core, threads, ops_per_s;
MACHINES.csv beside it has the processor of each machine. Readings up to the cores predict the whole machine,
with siblings worth what the curve of another machine with this processor tells, drawn by a fixed seed; the
first half of the steps predicts the whole machine as well, and half of the steps of the cores the last core.
Whole curves say how often a peak is claimed that readings do not have. The line is the last reading times
the cores, and the same worth of siblings. Prints one JSON object a line, as benches/run.py asks; nothing
without the file.
"""

import argparse
import csv
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from steelyard._base import UsageError
from steelyard.analyze.scaling.curve import Observation, steps_of
from steelyard.analyze.scaling.machine import topology_of, worth_of
from steelyard.analyze.scaling.measured import parse_curve
from steelyard.analyze.scaling.scaling import Scaling, analyse
from steelyard.stats.scaling.prediction import SiblingWorth

CURVES = Path(__file__).resolve().parents[3] / "shared" / "data" / "servers" / "curves.csv"
NAMES = ("threads", "ops_per_s", "cpus_of_machine", "threads_per_core")
FALL = 0.95
"""A last reading below this share of the best one is a fall."""


@dataclass
class Curve:
    """One machine's readings."""

    machine: str
    rows: list[dict[str, str]]
    observations: list[Observation] = field(default_factory=list)

    @property
    def cpus(self) -> int:
        """CPUs of the machine."""
        return int(self.rows[0]["cpus_of_machine"])

    @property
    def per_core(self) -> int:
        """Threads of each core."""
        return int(self.rows[0]["threads_per_core"])

    @property
    def cores(self) -> int:
        """Cores of the machine."""
        return self.cpus // self.per_core

    def read(self) -> "Curve":
        """Read the rows as `steelyard scale --from` does."""
        lines = [",".join(row[name] for name in NAMES) for row in self.rows]
        self.observations = parse_curve("\n".join([",".join(NAMES), *lines]), name=self.machine)
        self.observations.sort(key=lambda one: one.cpus)
        return self

    def at(self, threads: int) -> float | None:
        """Return the reading with so many threads."""
        return next((one.ops_per_s for one in self.observations if one.cpus == threads), None)


@dataclass
class Tally:
    """Results of one kind of prediction."""

    ours: list[float] = field(default_factory=list)
    line: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    refused: int = 0


def main() -> None:
    """Measure every machine, or every n-th."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("curves", nargs="?", type=Path, default=CURVES)
    parser.add_argument("--machines", type=Path)
    parser.add_argument("--every", type=int, default=5)
    arguments = parser.parse_args()
    if not arguments.curves.is_file():
        print(f"{arguments.curves}: no curves to measure", file=sys.stderr)
        return
    processors = processors_of(arguments.machines or arguments.curves.with_name("machines.csv"))
    curves = [one for one in curves_of(arguments.curves) if len(one.observations) > 2]
    by_processor = defaultdict(list)
    for one in curves:
        by_processor[processors.get(one.machine)].append(one)
    chance = random.Random(1)  # noqa: S311
    tallies: dict[str, Tally] = defaultdict(Tally)
    whole = Whole()
    for one in curves[:: arguments.every]:
        others = [
            other for other in by_processor[processors.get(one.machine)] if other.machine != one.machine
        ]
        chance.shuffle(others)
        predict_all(one, worth(others) if one.per_core > 1 else None, tallies)
        whole.add(one)
    for name, tally in tallies.items():
        show(name, tally)
    whole.show()


def processors_of(path: Path) -> dict[str, str]:
    """Return the processor by machine."""
    with path.open() as file:
        return {row["machine"]: row["processor"] for row in csv.DictReader(file)}


def curves_of(path: Path) -> list[Curve]:
    """Return the curves of a file, by machine."""
    found: dict[str, Curve] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            found.setdefault(row["machine"], Curve(row["machine"], [])).rows.append(row)
    return [one.read() for one in found.values()]


def worth(others: list[Curve]) -> SiblingWorth | None:
    """Return what siblings are worth on the first of the others that shows it."""
    for other in others[:5]:
        try:
            return worth_of({other.machine: other.observations})
        except UsageError:
            continue
    return None


def scaled(curve: Curve, steps: Iterable[Observation], at: int, worth: SiblingWorth | None) -> Scaling:
    """Return what `steelyard scale --predict` says of some of the readings."""
    topology = topology_of(curve.observations)
    return analyse(steps_of(list(steps)), topology=topology, predict=[at], worth=worth)


def predict_all(curve: Curve, worth: SiblingWorth | None, tallies: dict[str, Tally]) -> None:
    """Add the predictions of one machine."""
    steps = curve.observations
    cores = [one for one in steps if one.cpus <= curve.cores]
    half = steps[: (len(steps) + 1) // 2]
    kind = f"{curve.per_core} threads a core"
    if curve.per_core > 1:
        predict(curve, cores, curve.cpus, worth, tallies["whole machine from its cores"])
        if len(cores) > 1:
            predict(curve, cores, curve.cpus, None, tallies["whole machine from its cores, worth not known"])
    predict(curve, half, curve.cpus, worth, tallies[f"whole machine from half of the steps, {kind}"])
    part = cores[: (len(cores) + 1) // 2]
    if cores and len(part) < len(cores):
        predict(curve, part, cores[-1].cpus, None, tallies[f"all cores from half of their steps, {kind}"])


def predict(
    curve: Curve, steps: list[Observation], at: int, worth: SiblingWorth | None, tally: Tally
) -> None:
    """Add one prediction; steps that hold what is to be predicted, and single ones, are none."""
    truth = curve.at(at)
    if truth is None or len(steps) < 2 or steps[-1].cpus >= at:
        return
    (found,) = scaled(curve, steps, at, worth).predictions
    last = steps[-1]
    if found.value is None or found.low is None or found.high is None:
        tally.refused += 1
        return
    line = (last.ops_per_s or 0.0) / last.cpus * min(at, curve.cores)
    if at > curve.cores and worth is not None:
        line *= 1 + worth.value * (at - curve.cores) / curve.cores
    tally.ours.append(abs(found.value / truth - 1))
    tally.line.append(abs(line / truth - 1))
    tally.held.append(found.low <= truth <= found.high)
    tally.widths.append((found.high - found.low) / truth)


def show(name: str, tally: Tally) -> None:
    """Print the rows of one kind of prediction."""
    answered = len(tally.ours)
    said = f"{answered} predictions, {tally.refused} refused"
    if "not known" in name:
        row(f"{name}: refused", tally.refused / max(1, answered + tally.refused), None, ">= 1", said)
        return
    if not answered:
        return
    error, line = statistics.median(tally.ours), statistics.median(tally.line)
    bar = 0.05 if "its cores" in name else 0.06
    width = statistics.median(tally.widths)
    row(f"{name}: median error", error, line, f"<= {bar:g}", said)
    row(f"{name}: held", statistics.mean(tally.held), None, ">= 0.9", f"{said}; {width:.1%} wide")


class Whole:
    """What is said of whole curves."""

    def __init__(self) -> None:
        self.curves = self.false = self.falls = self.found = self.rates = self.held = self.unfit = 0

    def add(self, curve: Curve) -> None:
        """Add one curve."""
        fit = scaled(curve, curve.observations, curve.cpus, None).fit
        if fit is None:
            return
        values = [one.ops_per_s or 0.0 for one in curve.observations]
        falls = values[-1] < FALL * max(values)
        self.curves += 1
        self.falls += falls
        self.found += falls and fit.peak.is_identified
        self.false += not falls and fit.peak.is_identified
        self.unfit += "no model fits" in (fit.contention.reason or "")
        one = curve.at(1)
        if one is not None and fit.rate.low is not None and fit.rate.high is not None:
            self.rates += 1
            self.held += fit.rate.low <= one <= fit.rate.high

    def show(self) -> None:
        """Print the rows."""
        said = f"{self.curves} curves; {self.found} of {self.falls} falls found, {self.unfit} fit no model"
        row("peaks where readings do not fall", self.false / max(1, self.curves), None, "<= 0.05", said)
        said = f"stated on {self.rates} of {self.curves}"
        row("rate of one CPU holds its reading", self.held / max(1, self.rates), None, ">= 0.9", said)


def row(name: str, ours: float, theirs: float | None, bar: str, note: str) -> None:
    """Print one row."""
    sign, number = bar.split()
    met = ours <= float(number) if sign == "<=" else ours >= float(number)
    ratio = ours / theirs if theirs else None
    print(
        json.dumps(
            {
                "name": f"steelyard scale --predict, {name}",
                "ours": ours,
                "theirs": theirs,
                "unit": "ratio",
                "ratio": ratio,
                "bar": bar,
                "met": met,
                "note": note,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
