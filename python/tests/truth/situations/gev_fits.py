"""Parameters of a GEV fitted to the CPI of several unlike tasks."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
from scipy.stats import genextreme

from steelyard.stats.gev import GevFit, Histogram, TaskSums, clustered, fit_gev, scores

from ..situation import Claim, Outcome, Random, Situation, Statistic

WIDTH = 1 / 32


def _samples(random: Random, tasks: int, each: int, unlike: float) -> list[np.ndarray]:  # type: ignore[type-arg]
    """Draw CPI of tasks whose mean and spread differ: gamma and log-normal factors, no GEV among them."""
    found = []
    for _ in range(tasks):
        centre = 1.73 * (1 + unlike * (random.gamma(4.0, 0.25) - 1))
        spread = 0.133 * np.exp(2 * unlike * random.standard_normal())
        found.append(genextreme.rvs(0.05, centre, spread, size=each, random_state=random))
    return found


def _fitted(parts: list[np.ndarray]) -> tuple[GevFit, Histogram] | None:  # type: ignore[type-arg]
    """Fit all tasks together, with errors by task, as ``fleet cpi distribution`` does."""
    bins = [np.floor(part / WIDTH).astype(int) for part in parts]
    places, place = np.unique(np.concatenate(bins), return_inverse=True)
    task = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    counts = np.zeros((len(parts), len(places)))
    np.add.at(counts, (task, place), 1.0)
    histogram = Histogram.of(places * WIDTH, (places + 1) * WIDTH, counts.sum(axis=0))
    fit, _ = fit_gev(histogram)
    if fit is None:
        return None
    by_task = counts @ scores(histogram, fit.gev)
    size = counts.sum(axis=1)
    sums = TaskSums(float(size.sum()), float((size**2).sum()), by_task.T @ by_task)
    return clustered(fit, histogram, sums), histogram


@cache
def _truth(unlike: float) -> tuple[float, float]:
    """Return location and scale of the fit to very many tasks."""
    found = _fitted(_samples(np.random.default_rng(3), 4000, 100, unlike))
    assert found is not None
    return found[0].gev.location, found[0].gev.scale


def fit_trial(random: Random, *, tasks: int, unlike: float, what: str = "location") -> Outcome:
    """Hold an interval of the fit against the fit to very many tasks."""
    found = _fitted(_samples(random, tasks, 200, unlike))
    if found is None:
        return Outcome(None)
    fit = found[0]
    span = fit.location_interval if what == "location" else fit.scale_interval
    if span is None:
        return Outcome(None)
    truth = _truth(unlike)[what == "scale"]
    return Outcome(span[0] <= truth <= span[1], width=(span[1] - span[0]) / truth)


def fit_refused(random: Random, *, tasks: int, unlike: float) -> Outcome:
    """Return whether no interval was stated."""
    return Outcome(fit_trial(random, tasks=tasks, unlike=unlike).answer is None)


STATISTICS = (
    Statistic(
        name="GEV of the CPI of several tasks",
        covers=("steelyard.stats.gev.GevFit",),
        about="200 samples of each task; against the fit to 4000 tasks. Width is relative to the parameter.",
        situations=(
            Situation(
                "5 tasks, means differ by 5 %",
                Claim.SILENT,
                partial(fit_refused, tasks=5, unlike=0.1),
                before="holds 25 %",
                trials=40,
                quick=5,
            ),
            Situation(
                "location, 10 tasks, means differ by 5 %",
                Claim.HOLDS,
                partial(fit_trial, tasks=10, unlike=0.1),
                before="13 %",
                trials=150,
                quick=30,
            ),
            Situation(
                "scale, 10 tasks, spreads differ by 20 %",
                Claim.HOLDS,
                partial(fit_trial, tasks=10, unlike=0.1, what="scale"),
                before="40 %",
                trials=150,
            ),
            Situation(
                "location, 30 tasks, means differ by 5 %",
                Claim.HOLDS,
                partial(fit_trial, tasks=30, unlike=0.1),
                before="30 %",
                trials=150,
            ),
            Situation(
                "location, 30 tasks, all alike",
                Claim.HOLDS,
                partial(fit_trial, tasks=30, unlike=0.0),
                before="97 %",
                trials=150,
            ),
        ),
    ),
)
