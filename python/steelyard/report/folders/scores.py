"""Scores of runs and suites that are shown again: against which baseline, and what they are.

In: benchmarks or a suite's folder. Out: the baseline, the suite with its scores. Not here: how a score comes
about (``decide``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard.bench import declaration
from steelyard.bench.suites import suite as suite_files
from steelyard.decide import Baseline, Refusal, Score, find_baseline, weigh
from steelyard.decide.baseline import users_baselines
from steelyard.records import Run, Suite


def baseline_for(name: str | None, benchmarks: Sequence[str]) -> Baseline | None:
    """Return the baseline called ``name``, else the one to score ``benchmarks`` against.

    Beside those of Steelyard there are those that the benchmarks bring, and those of the user.
    """
    folders = [declaration.of_run(benchmark).baselines for benchmark in benchmarks]
    brought = [folder for folder in folders if folder is not None]
    # What a user made counts where it is named: a score must not change by a file that lies somewhere.
    own = [] if name is None else [users_baselines()]
    return find_baseline(name, benchmarks=benchmarks, brought=[*brought, *own])


def weighed(
    directory: Path, baseline: Baseline | None
) -> tuple[Suite, dict[str, Score | Refusal], list[tuple[Path, Run]]]:
    """Return the suite in ``directory`` with its scores, and its members' runs."""
    suite, member_runs = suite_files.load(directory)
    earlier = suite_files.beside([directory])
    suite, scores = weigh(suite, by_benchmark([run for _, run in member_runs]), baseline, earlier)
    return suite, scores, member_runs


def by_benchmark(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return runs by benchmark, each in the order of its repeats."""
    grouped: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.series.index, run.run_id)):
        grouped.setdefault(run.benchmark, []).append(run)
    return grouped
