"""Whether CPI stands for throughput, job by job: only then does a rise in CPI mean that users wait.

In: ``task_samples`` with operations. Out: `Following`s, one for each job and platform.

Method: sums over all tasks in spans of 10 minutes, as in Zhang et al. (EuroSys 2013, section 2 and figure
2), where operations/s and instructions/s of a batch job correlate at 0.97. Load moves both rates together,
whatever CPI does, so the verdict looks past it, at what one operation costs: by the iron law

    log(cycles per operation) = log(instructions per operation) + log(CPI)

and the slope of the left side over log(CPI), the elasticity, is 1 where a rise in CPI passes into the cost
of operations whole, and 0 where the same operations get done all the same: a job that waits by spinning,
say, retires fewer instructions for each. Next to it stands `cpi_share`, how much of all changes in cost goes
through CPI; the rest goes through path length, as with operations of changing size. Intervals take into
account that neighbouring spans resemble each other.

Invariant: a job without operations or instructions, or with too few spans, has no figures but the reason.

Not here: latency against CPI of one task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.operations.series_correlation import AtLag, at_lag, autocorrelations
from steelyard.fleet.cpi.samples import COUNTED, KEYS, Guards, judged

SPAN_S = 600
PUBLISHED_R = 0.97
FEWEST_WORTH = 4.0
"""Independent spans below which an interval covers nearly everything."""
FLOOR = 0.5
"""From this elasticity on, CPI is said to follow throughput."""

_SUMS = ("operations", "instructions", "cycles", "seconds")


@dataclass(frozen=True)
class Slope:
    """A slope with its interval of 95 %, which has no ends where the spans are worth too little."""

    value: float
    """The slope."""
    low: float | None
    """Lower end of the interval."""
    high: float | None
    """Upper end of it."""


@dataclass(frozen=True)
class Following:
    """What CPI of one job on one platform has to do with its throughput."""

    job: str
    """Which job."""
    platform: str
    """Which platform."""
    spans: int
    """Spans of time that are compared."""
    rates: AtLag
    """Operations/s and instructions/s, each a mean per task."""
    cost: AtLag
    """Logarithms of cycles per operation and of CPI."""
    elasticity: Slope | None
    """By how many percent the cycles of an operation grow with one percent of CPI; None with ``missing``."""
    missing: str | None
    """Why there is no elasticity."""
    cpi_share: float | None
    """Share of all changes of cost that goes with CPI."""
    verdict: str
    """``follows``, ``does not follow``, ``cannot tell``."""


def expression(samples: Any, guards: Guards | None = None, span_s: int = SPAN_S) -> Any:
    """Return sums of each job and platform in each span, over samples that count and export operations."""
    rows = judged(samples, guards or Guards())
    known = rows.operations.notnull() & rows.reference_cycles.notnull() & rows.instructions.notnull()
    rows = rows.filter((rows.state == 0) & known & (rows.cpi_source == COUNTED))
    start = rows.window_start_unix_s
    rows = rows.mutate(span=start - start % span_s)
    return rows.group_by(*KEYS, "span").aggregate(
        operations=rows.operations.sum(),
        instructions=rows.instructions.cast("float64").sum(),
        cycles=rows.reference_cycles.cast("float64").sum(),
        seconds=rows.window_s.sum(),
        samples=rows.count(),
    )


def find_following(
    samples: Any, guards: Guards | None = None, *, span_s: int = SPAN_S, floor: float = FLOOR
) -> list[Following]:
    """Return the figures of every job and platform that exports operations, in the order of their names."""
    from steelyard.telemetry.engine import fetch

    table = fetch(expression(samples, guards, span_s)).sort_by(
        [("job", "ascending"), ("platform", "ascending"), ("span", "ascending")]
    )
    columns = table.to_pydict()
    groups: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(columns["job"], columns["platform"], strict=True)):
        groups.setdefault(key, []).append(row)
    values = {name: np.asarray(columns[name], dtype=np.float64) for name in (*_SUMS, "span")}
    return [
        following_of_sums(*key, {name: series[rows] for name, series in values.items()}, span_s, floor)
        for key, rows in groups.items()
    ]


def following_of_sums(
    job: str,
    platform: str,
    sums: dict[str, NDArray[np.float64]],
    span_s: int = SPAN_S,
    floor: float = FLOOR,
) -> Following:
    """Return the figures of one job from its sums.

    Those are ``operations``, ``instructions``, ``cycles`` and ``seconds``, one value for every span that has
    samples, and ``span``, when it began, s, ascending.
    """
    place = ((sums["span"] - sums["span"][0]) / span_s).astype(int)
    operations, instructions, cycles, seconds = (_grid(sums[name], place) for name in _SUMS)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = at_lag(operations / seconds, instructions / seconds, 0)
        cost = np.where(operations > 0, np.log(cycles / operations), np.nan)
        cpi = np.where(instructions > 0, np.log(cycles / instructions), np.nan)
    at = at_lag(cost, cpi, 0)
    slope, share = _slope(cost, cpi, at), None
    both = np.isfinite(cost) & np.isfinite(cpi)
    if slope is not None:
        share = float(slope.value * np.var(cpi[both]) / np.var(cost[both]))
    return Following(
        job,
        platform,
        spans=len(place),
        rates=rates,
        cost=at,
        elasticity=slope,
        missing=at.missing if slope is None else None,
        cpi_share=share,
        verdict=_verdict(slope, floor),
    )


def _slope(cost: NDArray[np.float64], cpi: NDArray[np.float64], at: AtLag) -> Slope | None:
    """Return the slope of ``cost`` over ``cpi``, by least squares, with an interval for correlated spans.

    The products of CPI's deviations and the residuals make the slope's error. What n of them are worth in
    independent ones is the lesser of two (Bartlett 1935): n (1 - p) / (1 + p), with p the product of the
    correlations of both from one span to the next, which is right where both are autoregressive, and the sum
    with CPI's own correlations at all lags, which sees hours of the day. The interval is Student's with two
    fewer degrees of freedom.
    """
    if at.r is None:
        return None
    from scipy.special import stdtrit

    both = np.isfinite(cost) & np.isfinite(cpi)
    x, y = (np.where(both, series - series[both].mean(), np.nan) for series in (cpi, cost))
    value = float(np.nansum(x * y) / np.nansum(x * x))
    residuals = y - value * x
    spans, rho = int(both.sum()), _neighbours(residuals, cautious=True)
    memory = max(0.0, _neighbours(x) * rho)
    lags = np.arange(1, spans // 3)
    # Where spans are missing, the sums of products are, too.
    seen = autocorrelations(np.where(both, 1.0, np.nan), len(lags))[1:]
    known = autocorrelations(x, len(lags))[1:] / np.maximum(seen, 0.1)
    far = 1 + 2 * float(np.sum(seen * known * max(0.0, rho) ** lags))
    worth = min(spans * (1 - memory) / (1 + memory), spans / max(1.0, far))
    if worth < FEWEST_WORTH:
        return Slope(value, None, None)
    error = math.sqrt(float(np.nanvar(residuals) / np.nanvar(x)) / (worth - 2))
    half = float(stdtrit(worth - 2, 0.975)) * error
    return Slope(value, value - half, value + half)


def _neighbours(deviations: NDArray[np.float64], cautious: bool = False) -> float:
    """Return the correlation from one span to the next, without the bias that few spans give it.

    It comes out too small by (1 + 3 rho) / n (Kendall, Biometrika 41, 1954).
    """
    products = deviations[1:] * deviations[:-1]
    pairs = int(np.isfinite(products).sum())
    if pairs < 3 or not np.nanvar(deviations):
        return 0.0
    rho = float(np.nanmean(products) / np.nanvar(deviations))
    known = int(np.isfinite(deviations).sum())
    rho = min(0.99, max(-0.99, (known * rho + 1) / max(1, known - 3)))
    # It is uncertain itself, and the interval's width grows faster with it than it shrinks.
    return min(0.99, rho + math.sqrt((1 - rho**2) / known)) if cautious else rho


def _grid(values: NDArray[np.float64], place: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return values at equal distances in time, NaN where a span has none."""
    grid = np.full(int(place[-1]) + 1, np.nan)
    grid[place] = values
    return grid


def _verdict(slope: Slope | None, floor: float) -> str:
    if slope is None or slope.low is None or slope.high is None:
        return "cannot tell"
    if slope.low >= floor:
        return "follows"
    return "does not follow" if slope.high < floor else "cannot tell"


def warnings(results: Sequence[Following]) -> list[str]:
    """Return a sentence for each job whose CPI must not be read as throughput."""
    warnings = []
    for result in results:
        if result.verdict != "does not follow" or result.elasticity is None:
            continue
        warnings.append(
            f"{result.job} on {result.platform}: CPI does not follow throughput (1 % more CPI comes with"
            f" {result.elasticity.value:.2f} % more cycles an operation); a high CPI there need not mean that"
            " users wait"
        )
    return warnings
