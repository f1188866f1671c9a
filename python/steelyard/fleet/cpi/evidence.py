"""Which suspect is the antagonist of one victim, with the chance of a wrong name held down.

In: a victim's CPI and its neighbours' usage in the same windows. Out: `Evidence` of each suspect, and who is
named. The agent's guard states the same rule in Rust (``crates/agent/src/guard/detection/evidence.rs``);
``schemas/golden/cpi2_vectors.json`` holds both together. The paper's rule (``rule``) blames whoever works
only while the victim suffers: among many bursty tasks there always is one.

A suspect is named where all of this holds:

- Both were seen both ways: 3 windows above the threshold and 3 below; 3 windows on and 3 off (usage above and
  below the middle of its range). A task that always or hardly ever works is like the background.
- Its usage is higher by 0.25 CPU-s/s while the victim is above its threshold than otherwise.
- Its usage explains half of what the victim's CPI has more then: the slope of a least-squares line of CPI on
  usage, times that difference of usage.
- That is at least 0.4 of the victim's CPI below the threshold: every task slows down others a little. Or its
  usage adds 0.6 of it while it is on, and the victim suffers in 4 of 5 of these windows: of a burst of four
  minutes half of the windows above the threshold are others, by chance.
- Where its last-level cache misses are known, they rise as well.
- Its fit is better now than chance gives. The fit is the correlation of usage and CPI, times the square root
  of the standard deviation of the usage: of two that fit alike, the larger user is likelier. The victim's
  windows are turned against those of all suspects by every possible number of windows, which leaves bursts
  and trends as they are and only breaks their coincidence. The share of turns in which any suspect fits as
  well as this one does now, this one counted, is the p value; it is corrected for the number of suspects by
  construction (Westfall and Young, "Resampling-Based Multiple Testing", 1993: the maximum statistic).
- So is the fit of its *changes* over 5 windows to those of the victim's CPI, by the same test. What grows by
  itself fits whatever else does, and at no turn as well: slow growth has hardly any changes.

The agent's guard looks while an episode lasts; the last anomalous sample of one too short for that is looked
at by the queries alone, since nothing is left to cap.

With n windows the smallest p value is 1/n: `Bar.false_name_ratio` of 0.01 takes 100 windows. With fewer,
nobody is named, and the reason says so. An episode is looked at rarely (`is_look`), because every look is
another chance to err.

Invariants: nothing is named from fewer windows than the bar needs; missing misses refuse nobody.

Not here: confirmation by a cap (``caps``, and the agent), and where the windows come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = Sequence[float | None] | Floats
"""One value for each window."""
_HITS = 0.8
"""Share of a suspect's windows on in which the victim suffers: from here on, being on is what adds."""
_GROWING = "its changes do not meet the victim's: both may grow by themselves"
_TIE = 1e-9
"""Fits that differ by less are the same: engines and languages add up in different orders."""


@dataclass(frozen=True)
class Bar:
    """What it takes to be named."""

    evidence_s: int = 7200
    """How far back windows are compared."""
    false_name_ratio: float = 0.01
    """Largest p value of a look."""
    least_swing: float = 0.25
    """CPU-seconds per second that usage is higher while the victim suffers."""
    least_explained_ratio: float = 0.5
    """Share of the victim's excess that its usage must explain."""
    least_effect_ratio: float = 0.4
    """What its usage adds to the victim's CPI, relative to the CPI below the threshold. Every task slows down
    others a little, by the machine's load; the paper's floor asks for more than this."""
    least_working_ratio: float = 0.6
    """The same of what it adds while it is on, which is enough where the victim suffers in most of these
    windows: the difference above is small where most windows above the threshold are so by chance."""
    least_windows: int = 3
    """Windows above and below the threshold, and on and off."""
    change_windows: int = 5
    """Windows over which changes of usage and CPI are compared: what takes longer may be a trend."""
    look_factor: int = 3
    """An episode is looked at at its 3rd, 9th, 27th ... anomalous sample."""

    def __post_init__(self) -> None:
        if not 0 < self.false_name_ratio < 1:
            raise ValueError("the chance of a wrong name must be between 0 and 1")
        if self.evidence_s < 1 or self.least_windows < 1 or self.look_factor < 2:
            raise ValueError(
                "counts and spans of time must be at least 1, and the factor of looks at least 2"
            )
        if self.change_windows < 1:
            raise ValueError("changes are over at least 1 window")
        if self.least_swing <= 0 or self.least_effect_ratio < 0 or not 0 <= self.least_explained_ratio <= 1:
            raise ValueError("a swing of usage is above 0, an effect not below, a share between 0 and 1")

    @property
    def fewest_windows(self) -> int:
        """Windows that a name takes at least."""
        return math.ceil(1 / self.false_name_ratio - 1e-9)


TESTED = Bar()


@dataclass(frozen=True)
class Evidence:
    """What speaks for one suspect. Usage in CPU-seconds per second."""

    fit: float | None
    """Correlation of usage and CPI, weighed by usage; None where usage or CPI does not change."""
    p_value: float | None
    """Chance of such a fit of any suspect if none has to do with it; None for who is not compared."""
    swing: float | None
    """Usage while the victim is above its threshold, less that otherwise."""
    explained_ratio: float | None
    """Share of the victim's excess CPI that its usage explains."""
    effect_ratio: float | None
    """What its usage adds to the victim's CPI, relative to the CPI below the threshold."""
    windows: int
    """Windows in which both are known."""
    misses_rise: bool | None
    """Whether its cache misses rise with the victim's CPI; None where they are not counted."""
    refusal: str | None
    """Why it is not named; None for an antagonist."""


def is_look(anomalous_samples: int, bar: Bar = TESTED) -> bool:
    """Whether an episode is looked at when it has so many anomalous samples.

    >>> [count for count in range(1, 100) if is_look(count)]
    [3, 9, 27, 81]
    """
    look = bar.look_factor
    while look < anomalous_samples:
        look *= bar.look_factor
    return look == anomalous_samples


def weigh(
    victim_cpi: Values,
    usages: Sequence[Values],
    threshold_cpi: float,
    misses: Sequence[Values | None] | None = None,
    bar: Bar = TESTED,
) -> list[Evidence]:
    """Return the evidence for each suspect, in the order of ``usages``.

    All sequences have one value for each window, in order of time, the newest last. Before its first and
    after its last known window a suspect is not there, and uses nothing; between them None is missing, as NaN
    is in arrays. ``misses`` are cache misses per second, None where they are not counted.

    Raises ValueError for sequences of different lengths.
    """
    cpi = _array(victim_cpi)
    known = np.isfinite(cpi)
    usage = _present(_rows(usages, len(cpi)))
    above = known & (np.nan_to_num(cpi) > threshold_cpi)
    below = known & ~above
    compared = _ranges(usage) >= bar.least_swing
    fits = np.full((len(cpi), len(usages)), -np.inf)
    if compared.any() and above.any() and below.any():
        fits[:, compared] = _fits(cpi, usage[compared])
    highest = fits.max(axis=1) if len(usages) else np.empty(0)
    p_values = [
        float((highest >= fit - _TIE).sum()) / len(cpi) if np.isfinite(fit) else None for fit in fits[0]
    ]
    shape = _shape(cpi, above, below, usage)
    rises = [None] * len(usages) if misses is None else _rises(misses, above, below)
    results = []
    for number, p_value in enumerate(p_values):
        rise = rises[number]
        figures = _Shape(*(column[number] for column in shape))
        refusal = _refusal(figures, int(above.sum()), int(below.sum()), rise, p_value, bar)
        results.append(
            Evidence(
                fit=None if p_value is None else float(fits[0, number]),
                p_value=p_value,
                swing=float(figures.swing) if np.isfinite(figures.swing) else None,
                explained_ratio=float(figures.explained) if np.isfinite(figures.explained) else None,
                effect_ratio=float(figures.effect) if np.isfinite(figures.effect) else None,
                windows=int(figures.windows),
                misses_rise=rise,
                refusal=refusal,
            )
        )
    if all(one.refusal is not None for one in results):
        return results
    changes = _change_chances(cpi, usage, compared, bar)
    return [
        replace(one, refusal=_GROWING) if one.refusal is None and not chance <= bar.false_name_ratio else one
        for one, chance in zip(results, changes, strict=True)
    ]


def _change_chances(cpi: Floats, usage: Floats, compared: NDArray[np.bool_], bar: Bar) -> list[float]:
    """Return for each suspect the chance of as good a fit of changes; 1 where there are none.

    Changes are over ``bar.change_windows``: what grows slowly has none to speak of, whatever its course.
    """
    chances = np.ones(len(usage))
    lag = bar.change_windows
    if not compared.any() or len(cpi) <= 2 * lag:
        return chances.tolist()
    slow = cpi - np.concatenate([np.full(lag, np.nan), cpi[:-lag]])
    uses = np.full_like(usage, np.nan)
    uses[:, lag:] = usage[:, lag:] - usage[:, :-lag]
    if not np.isfinite(slow).any():
        return chances.tolist()
    fits = _fits(slow, uses[compared])
    highest = fits.max(axis=1)
    chances[compared] = [
        float((highest >= fit - _TIE).sum()) / len(cpi) if np.isfinite(fit) else 1.0 for fit in fits[0]
    ]
    return chances.tolist()


class _Shape(NamedTuple):
    """Columns by suspect, NaN where unknown; usage in CPU-seconds per second."""

    windows: Any
    swing: Any
    explained: Any
    effect: Any
    working: Any
    """What its usage adds to the victim's CPI while it is on, relative to the CPI below the threshold."""
    on: Any
    """Windows in which its usage lies above the middle of its range."""


def _shape(cpi: Floats, above: NDArray[np.bool_], below: NDArray[np.bool_], usage: Floats) -> _Shape:
    """Return how each suspect's usage differs where the victim is above its threshold."""
    present = np.isfinite(usage)
    both = present & (above | below)
    use, value = np.where(both, usage, 0.0), np.where(both, np.nan_to_num(cpi), 0.0)
    windows, high, low = both.sum(axis=1), (both & above).sum(axis=1), (both & below).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        swing = (use * above).sum(axis=1) / high - (use * below).sum(axis=1) / low
        calm = (value * below).sum(axis=1) / low
        excess = (value * above).sum(axis=1) / high - calm
        deviation = np.where(both, use - (use.sum(axis=1) / windows)[:, None], 0.0)
        covariance = (deviation * value).sum(axis=1) / windows
        slope = covariance / ((deviation * deviation).sum(axis=1) / windows)
        explained = np.where(excess > 0, slope * swing / excess, np.nan)
        effect = np.where(calm > 0, slope * swing / calm, np.nan)
    lowest = np.where(both, usage, np.inf).min(axis=1, initial=np.inf)
    largest = np.where(both, usage, -np.inf).max(axis=1, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        middle = (lowest + largest) / 2
        is_on = both & (usage > middle[:, None])
        on, off = is_on.sum(axis=1), (both & ~is_on).sum(axis=1)
        rise = (use * is_on).sum(axis=1) / on - (use * (both & ~is_on)).sum(axis=1) / off
        hit = (is_on & above).sum(axis=1) / on
        working = np.where((calm > 0) & (hit >= _HITS), slope * rise / calm, np.nan)
    return _Shape(windows, swing, explained, effect, working, on)


def _refusal(
    figures: _Shape, above: int, below: int, rise: bool | None, p_value: float | None, bar: Bar
) -> str | None:
    """Return the first condition that does not hold; the order is that of the Rust side."""
    if figures.windows < bar.fewest_windows:
        return f"{figures.windows} windows of the {bar.fewest_windows} that a name takes"
    if min(above, below) < bar.least_windows:
        return f"the victim was not {bar.least_windows} windows above and below its threshold"
    if not figures.swing >= bar.least_swing:
        return f"its usage is not {bar.least_swing:g} CPU-s/s higher while the victim suffers"
    if min(figures.on, figures.windows - figures.on) < bar.least_windows:
        return f"it was not {bar.least_windows} windows on and off"
    if not figures.explained >= bar.least_explained_ratio:
        return f"its usage explains less than {bar.least_explained_ratio:g} of the victim's excess"
    if not (figures.effect >= bar.least_effect_ratio or figures.working >= bar.least_working_ratio):
        return f"its usage adds less than {bar.least_effect_ratio:g} of the victim's calm CPI"
    if rise is False:
        return "its cache misses do not rise"
    if p_value is None or p_value > bar.false_name_ratio:
        return "chance gives such a fit too often"
    return None


def _rises(
    misses: Sequence[Values | None], above: NDArray[np.bool_], below: NDArray[np.bool_]
) -> list[bool | None]:
    """Return for each suspect whether its misses are higher above the threshold; None where not known."""
    missing = np.full(len(above), np.nan)
    rate = _rows([missing if counted is None else counted for counted in misses], len(above))
    present = np.isfinite(rate)
    high, low = present & above, present & below
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [np.where(here, rate, 0.0).sum(axis=1) / here.sum(axis=1) for here in (high, low)]
    rises = np.where(high.any(axis=1) & low.any(axis=1), means[0] > means[1], np.nan)
    return [None if value != value else bool(value) for value in rises.tolist()]


def _fits(cpi: Floats, usage: Floats) -> Floats:
    """Return by turn and suspect the correlation, times the square root of the usage's deviation."""
    known = np.isfinite(cpi)
    # Centered first: what is added up is then as small as what is wanted.
    filled = np.where(known, cpi - cpi[known].mean(), 0.0)
    values, mask = _turned(filled), _turned(known.astype(float))
    present = np.isfinite(usage)
    uses = np.where(present, usage, 0.0)
    means = uses.sum(axis=1) / present.sum(axis=1)
    uses = np.where(present, usage - means[:, None], 0.0)
    weight = np.sqrt(np.sqrt((uses * uses).sum(axis=1) / present.sum(axis=1)))
    uses, here = uses.T, present.astype(float).T
    pairs = mask @ here
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_cpi, mean_use = values @ here / pairs, mask @ uses / pairs
        covariance = values @ uses / pairs - mean_cpi * mean_use
        cpi_variance = (values * values) @ here / pairs - mean_cpi**2
        use_variance = mask @ (uses * uses) / pairs - mean_use**2
        fits = covariance / np.sqrt(cpi_variance * use_variance) * weight
    usable = (pairs >= 3) & (cpi_variance > 1e-15) & (use_variance > 1e-15) & np.isfinite(fits)
    return np.where(usable, fits, -np.inf)


def _turned(series: Floats) -> Floats:
    """Return a series turned by 0, 1, 2 ... places, a row each."""
    twice = np.concatenate([series, series[:-1]])
    return np.ascontiguousarray(sliding_window_view(twice, len(series)))


def listed(values: Values) -> Sequence[float | None]:
    """Return the values with None for what is missing.

    >>> listed(np.array([1.5, np.nan]))
    [1.5, None]
    """
    if not isinstance(values, np.ndarray):
        return values
    # Of Python's own numbers each costs a tenth of what one of NumPy's does.
    return [None if value != value else value for value in values.tolist()]


def _array(values: Values) -> Floats:
    # NumPy reads None as not a number.
    return np.array(values, dtype=float)


def _rows(series: Sequence[Values], count: int) -> Floats:
    """Return series of ``count`` values as the rows of a matrix."""
    return np.array([_array(values) for values in series]).reshape(len(series), count)


def _ranges(usage: Floats) -> Floats:
    """Return by row the largest value less the smallest; 0 where there is none."""
    known = np.isfinite(usage)
    lowest = np.where(known, usage, np.inf).min(axis=1, initial=np.inf)
    largest = np.where(known, usage, -np.inf).max(axis=1, initial=-np.inf)
    ranges: Floats = np.maximum(largest - lowest, 0.0)
    return ranges


def _present(usage: Floats) -> Floats:
    """A task that is not there yet, or no more, uses nothing."""
    known = np.isfinite(usage)
    come = np.logical_or.accumulate(known, axis=1)
    stays = np.logical_or.accumulate(known[:, ::-1], axis=1)[:, ::-1]
    return np.where(known.any(axis=1, keepdims=True) & ~(come & stays), 0.0, usage)
