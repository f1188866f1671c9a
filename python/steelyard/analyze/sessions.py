"""What earlier sessions of a machine say of how its days differ.

In: a suite, and the suites beside it. Out: for each member the spread of comparable sessions.

A suite is a session: its runs are made in one go. Comparable is what measured the same: benchmark, tier,
settings, CPUs, host and version of Steelyard; the boot may be another.

Not here: finding suites (``bench.suites``).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from steelyard.records import Level, Run, RunStatus
from steelyard.stats.sessions import SessionSpread, session_spread

NOT_COMPARED = ("port", "seed")
"""Parameters that move no result: repeats of one measurement may differ in them."""

Sessions = Sequence[Sequence[Run]]
"""The runs of each session."""


def settings_of(run: Run) -> tuple[object, ...]:
    """Return all of a run that is the same in every measurement of the same thing on the same machine."""
    settings = {
        name: parameter.value for name, parameter in run.parameters.items() if name not in NOT_COMPARED
    }
    version = run.steelyard_version.split(".")[:2]
    return (run.benchmark, run.tier, version, settings, run.cpus, run.orchestrator.hostname)


def member_spreads(
    runs: Sequence[Run], earlier: Sessions, metrics: Mapping[str, str]
) -> dict[str, SessionSpread]:
    """Return the spread of earlier sessions for each benchmark of ``runs`` of which enough are comparable.

    ``metrics`` is the metric of each benchmark.
    """
    found = {}
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        spread = _spread(benchmark, metrics.get(benchmark, ""), runs, earlier)
        if spread is not None:
            found[benchmark] = spread
    return found


def mean_spread(runs: Sequence[Run], earlier: Sessions, metrics: Mapping[str, str]) -> SessionSpread | None:
    """Return the spread of the mean over all benchmarks of ``metrics``, of sessions that have them all."""
    means = []
    for session in earlier:
        values = [_comparable(name, metric, runs, session) for name, metric in metrics.items()]
        if values and all(values):
            means.append([math.exp(fmean(fmean(map(math.log, each)) for each in values))])
    spread = session_spread(means)
    if spread is None:
        return None
    most = max(len(_comparable(name, metrics[name], runs, one)) for name in metrics for one in earlier)
    return replace(spread, runs=most)


def _spread(benchmark: str, metric: str, runs: Sequence[Run], earlier: Sessions) -> SessionSpread | None:
    return session_spread([_comparable(benchmark, metric, runs, session) for session in earlier])


def _comparable(benchmark: str, metric: str, runs: Sequence[Run], session: Sequence[Run]) -> list[float]:
    """Return the results of a session that measured what one of ``runs`` did."""
    wanted = [settings_of(run) for run in runs if run.benchmark == benchmark]
    return [
        value
        for run in session
        if run.benchmark == benchmark and settings_of(run) in wanted
        if (value := result_of(run, metric)) is not None and value > 0
    ]


def result_of(run: Run, metric: str) -> float | None:
    """Return a run's metric; None unless it is a result, complete and not invalid."""
    if run.status is not RunStatus.COMPLETE or run.verdict is None or run.verdict.level is Level.INVALID:
        return None
    return run.metrics[metric].value if metric in run.metrics else None
