"""The threshold of ``fleet cpi specs --threshold gev`` where CPI is a GEV, and where no GEV describes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from scipy.stats import genextreme

from steelyard.fleet.cpi.distribution import by_tail, find_distributions, with_tails
from steelyard.fleet.cpi.samples import COUNTED
from steelyard.fleet.cpi.specs import Spec, find_specs
from steelyard.telemetry.deferred import ibis

from ..situation import Claim, Outcome, Random, Situation, Statistic

TASKS, EACH, QUANTILE = 10, 200, 0.96
MANY = 200_000
World = Callable[[Random], Callable[[int], np.ndarray]]  # type: ignore[type-arg]


def _gev(random: Random) -> Callable[[int], np.ndarray]:  # type: ignore[type-arg]
    """The published web-search job, or one with a heavier tail."""
    shape = random.choice([0.0534, -0.2])
    return lambda count: genextreme.rvs(shape, 1.73, 0.133, size=count, random_state=random)


def _few_values(random: Random) -> Callable[[int], np.ndarray]:  # type: ignore[type-arg]
    """6 to 40 values, the lower ones the more frequent, or weights at random."""
    values = np.sort(random.uniform(0.6, 2, random.integers(6, 41)))
    weights = random.exponential(1, values.size) ** 3
    if random.random() < 0.5:
        weights = np.sort(weights)[::-1]
    weights = weights / weights.sum()
    return lambda count: random.choice(values, count, p=weights)


def _spec(cpi: np.ndarray) -> Spec:  # type: ignore[type-arg]
    """Return what the command shows for one job of ``TASKS`` tasks."""
    count = cpi.size
    rows = {"job": "web", "platform": "p", "cpi_source": COUNTED, "date": "2026-01-01"}
    columns = {name: pa.repeat(value, count) for name, value in rows.items()}
    columns |= {name: pa.repeat(value, count) for name, value in (("cpu_s", 60.0), ("window_s", 60.0))}
    columns |= {"instructions": pa.repeat(10**12, count), "reference_cycles": pa.repeat(10**12, count)}
    columns |= {"cpi": pa.array(cpi), "task": pa.array([f"web/{n % TASKS}" for n in range(count)])}
    samples = ibis.memtable(pa.table(columns))
    specs = find_specs(samples)
    (spec,) = with_tails(specs, find_distributions(samples, specs, errors=False), QUANTILE)
    return by_tail(spec)


def _beyond(random: Random, *, world: World, kinds: tuple[str, ...]) -> tuple[float, float] | None:
    """Return the true shares above, and at or above (less 2 % of it), a stated threshold of these kinds."""
    draw = world(random)
    spec = _spec(draw(TASKS * EACH))
    if spec.threshold_cpi is None or spec.threshold_from not in kinds:
        return None
    many = draw(MANY)
    near = 0.02 * spec.threshold_cpi
    return float((many > spec.threshold_cpi).mean()), float((many > spec.threshold_cpi - near).mean())


def wrong_tail(random: Random, *, world: World) -> Outcome:
    """A curve's threshold that fewer than a third, or more than three times, of what it says lie above."""
    beyond = _beyond(random, world=world, kinds=("gev",))
    return Outcome(beyond is not None and not (1 - QUANTILE) / 3 < beyond[0] < 3 * (1 - QUANTILE))


def has_curve(random: Random, *, world: World) -> Outcome:
    """The curve's threshold is the one that counts, and a third to three times its share lie above."""
    beyond = _beyond(random, world=world, kinds=("gev",))
    return Outcome(beyond is not None and (1 - QUANTILE) / 3 < beyond[0] < 3 * (1 - QUANTILE))


def has_quantile(random: Random, *, world: World) -> Outcome:
    """A threshold is given, by whichever, and is a quantile: the share lies above it, or at it."""
    beyond = _beyond(random, world=world, kinds=("gev", "quantile"))
    share = 1 - QUANTILE
    return Outcome(beyond is not None and beyond[0] < 2 * share and beyond[1] > share / 2)


STATISTICS = (
    Statistic(
        name="Threshold from the tail of CPI",
        covers=(),
        about="`fleet cpi specs --threshold gev`, quantile 0.96, 10 tasks of 200 samples. False: another"
        " share of the samples lies above the curve's threshold, below 1.3 % or above 12 % instead of 4 %.",
        situations=(
            Situation(
                "6 to 40 distinct values: a wrong threshold of a GEV",
                Claim.FALSE,
                partial(wrong_tail, world=_few_values),
                before="72 %",
                trials=80,
                quick=10,
            ),
            Situation(
                "a GEV: its own threshold",
                Claim.FOUND,
                partial(has_curve, world=_gev),
                trials=80,
                quick=10,
                bar=0.95,
            ),
            Situation(
                "6 to 40 distinct values: some threshold, with 0 to 8 % above and 2 % or more at or above",
                Claim.FOUND,
                partial(has_quantile, world=_few_values),
                trials=80,
                bar=0.95,
            ),
        ),
    ),
)
