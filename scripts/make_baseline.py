#!/usr/bin/env python3
"""Makes a baseline file from complete runs on one machine, so that no figure in it is typed by hand.

In: directories of runs, or of suites, which stand for all their runs. Out: a file for data/baselines/, with a
result for each benchmark. Refuses runs that are incomplete, invalid, or unlike.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from steelyard import records
from steelyard._base import SteelyardError, data_dir
from steelyard.bench import declaration
from steelyard.bench.suites import suite as suites
from steelyard.decide.baseline import Baseline, build
from steelyard.records import Level, Machine, Run, RunStatus
from steelyard.stats.intervals import RATIO_COUNT


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="directory of a run or a suite")
    parser.add_argument("--name", default="default", help="how users name the baseline")
    parser.add_argument("--title", required=True, help="how a report names the machine")
    parser.add_argument("--provenance", required=True, help="how the figures were made, one sentence")
    parser.add_argument("--allow-suspect", action="store_true", help="take suspect runs; the file says so")
    parser.add_argument(
        "--allow-few",
        action="store_true",
        help=f"take fewer than {RATIO_COUNT} runs of a benchmark: scores against it have no interval",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the file's results of other benchmarks, of the same machine"
    )
    parser.add_argument("--out", type=Path, help="file to write; data/baselines/NAME.json unless given")
    return parser.parse_args()


def check_counts(baseline: Baseline) -> None:
    """Raise SteelyardError when a result rests on too few runs for any score to have an interval."""
    for one in baseline.results:
        if len(one.values) < RATIO_COUNT:
            raise SteelyardError(
                f"{one.benchmark} {one.tier} has {len(one.values)} runs: {RATIO_COUNT} give an interval",
                hint=f"run it with --repeat {RATIO_COUNT}, or allow it with --allow-few",
            )


def summary(baseline: Baseline) -> list[str]:
    """Return a line for each result: median, runs, spread, suspect runs."""
    return [
        f"{one.benchmark} {one.tier}: {one.metric} {one.value:.6g} {one.unit}, {len(one.values)} runs,"
        f" spread {one.spread_ratio:.1%}, {sum(level is Level.SUSPECT for level in one.verdicts)} suspect"
        for one in baseline.results
    ]


def folders(given: Path) -> list[Path]:
    """Return the directories of the runs that a directory stands for.

    Raises SteelyardError for a suite that is not complete: a member would be missing from the baseline.
    """
    if not suites.is_suite(given):
        return [given]
    suite, found = suites.load(given)
    if suite.status is not RunStatus.COMPLETE:
        raise SteelyardError(f"{suite.suite_id}: the suite is {suite.status}: {suite.status_reason}")
    return [folder for folder, _ in found]


def with_others(new: Baseline, old: Baseline) -> Baseline:
    """Return ``new`` with the results of ``old`` that it has not; they keep when and how they were made.

    Raises SteelyardError when the two are not of one machine and one version of Steelyard.
    """
    # A kernel sets aside a little more or less at each boot.
    boot = {"memory_bytes": old.machine.memory_bytes}
    same_memory = abs(new.machine.memory_bytes / old.machine.memory_bytes - 1) < 0.01
    same = new.machine.model_copy(update=boot) == old.machine and same_memory
    if not same or new.steelyard_version != old.steelyard_version:
        raise SteelyardError(f"{old.name} is of another machine or by another version of Steelyard")
    made = {(one.benchmark, one.tier) for one in new.results}
    kept = [
        one.model_copy(update={"date": one.date or old.date, "provenance": one.provenance or old.provenance})
        for one in old.results
        if (one.benchmark, one.tier) not in made
    ]
    return new.model_copy(update={"results": [*kept, *new.results]})


def main() -> int:
    """Write the baseline; an expected error takes one line."""
    asked = arguments()
    try:
        runs = [
            (records.read(Run, folder / "run.json"), records.read(Machine, folder / "machine.json"))
            for given in asked.runs
            for folder in folders(given)
        ]
        baseline = build(
            runs,
            name=asked.name,
            title=asked.title,
            provenance=asked.provenance,
            metrics={run.benchmark: declaration.find(run.benchmark).headline[0] for run, _ in runs},
            parts={run.benchmark: declaration.find(run.benchmark).parts for run, _ in runs},
            allow_suspect=asked.allow_suspect,
        )
        if not asked.allow_few:
            check_counts(baseline)
        path = asked.out or data_dir() / "baselines" / f"{asked.name}.json"
        if asked.keep:
            baseline = with_others(baseline, records.read(Baseline, path))
        records.write(baseline, path)
    except SteelyardError as error:
        print(f"make_baseline: {error.message}" + (f": {error.hint}" if error.hint else ""), file=sys.stderr)
        return int(error.exit_code)
    print("\n".join([*summary(baseline), str(path)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
