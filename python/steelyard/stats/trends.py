"""Since when a result is another one: change points of a series of results.

In: results of the same measurement in their order, and which of them were made in one session. Out: the level
of each session, and the changes with their ratio, interval and p value.

A session is one draw: its results share what the day brought, and their median stands for it. Sessions are
cut into segments of one level each by least squares over their normal scores, which no outlier dominates;
the optimal cut into any number of segments is that of ``ruptures`` (Truong, Oudre, Vayatis: Selective review
of offline change point detection methods, Signal Processing 167, 2020). One change more, or
two, are believed when they explain more than in 99 % of series that have the changes so far and the same
residuals with random signs, so that noise may grow or shrink (after Bai and Perron's test of l against l + 1
breaks, Econometrica 66, 1998, and Wu's wild bootstrap, Annals of Statistics 14, 1986). Neighbouring sessions
that resemble each other count for less: statistic and interval are scaled by (1 - r) / (1 + r), with r the
correlation of neighbours.

Not here: which results belong to one series (``web.pages.trends``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

FEWEST = 8
"""From so many sessions on a change is looked for."""
MOST = 300
"""Of more sessions, the latest."""
_SHORTEST = 3
"""Sessions that a level lasts at least: fewer may be outliers."""
_MOST_CHANGES = 12
_SERIES = 199
_P_VALUE = 0.02
_CONFIDENCE = 0.95
_MOST_CORRELATION = 0.9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of level."""

    at: int
    """The first session after it."""
    ratio: float
    """Level after over level before."""
    low: float
    high: float
    """Ends of the interval of 95 %."""
    p_value: float
    """Share of series without this change in which one would explain as much."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The levels of a series, and where they change."""

    members: tuple[tuple[int, ...], ...]
    """Positions of the results of each session, of the latest 300."""
    levels: tuple[float, ...]
    """Level of each session: the geometric mean of the medians of its segment's sessions."""
    changes: tuple[Change, ...]
    reason: str = ""
    """Why no change was looked for, empty where it was."""


def trend_of(values: Sequence[float], sessions: Sequence[Hashable] | None = None, *, seed: int = 1) -> Trend:
    """Return the levels and changes of ``values``, which are in their order.

    Neighbours of one session in ``sessions`` count as one; without it each value is a session.

    >>> found = trend_of([100, 101, 99, 100, 102, 98, 100, 101, 90, 91, 89, 90, 92, 88, 90, 91])
    >>> [(change.at, round(change.ratio, 2)) for change in found.changes]
    [(8, 0.9)]
    >>> trend_of([100.0, 101.0, 99.0]).reason
    'fewer than 8 sessions: no change is looked for'

    Raises ValueError for a value that is not a positive finite number.
    """
    if any(not math.isfinite(value) or value <= 0 for value in values):
        raise ValueError("a trend takes positive finite numbers only")
    labels = range(len(values)) if sessions is None else sessions
    runs = groupby(range(len(values)), key=lambda at: labels[at])
    members = tuple(tuple(group) for _, group in runs)[-MOST:]
    logs = np.array([np.median(np.log([values[at] for at in group])) for group in members])
    if len(members) < FEWEST:
        level = float(np.exp(logs.mean())) if len(logs) else math.nan
        reason = f"fewer than {FEWEST} sessions: no change is looked for"
        return Trend(members, (level,) * len(members), (), reason)
    cuts = _cuts(logs, seed)
    ends = [0, *(at for at, _ in cuts), len(logs)]
    levels = [float(np.exp(logs[begin:end].mean())) for begin, end in pairwise(ends)]
    of_sessions = [
        level for level, (begin, end) in zip(levels, pairwise(ends), strict=True) for _ in range(begin, end)
    ]
    changes = _changes(logs, ends, [p_value for _, p_value in cuts])
    return Trend(members, tuple(of_sessions), tuple(changes))


def _cuts(logs: Floats, seed: int) -> list[tuple[int, float]]:
    """Return the first session of each level but the first, with the p value of the change."""
    scores = _normal_scores(logs)
    random = np.random.default_rng(seed)
    if not np.ptp(scores) > 0:
        return []
    ends: list[int] = [len(scores)]
    p_values: dict[int, float] = {}
    while (found := _more(scores, ends, random)) is not None:
        more, p_value = found
        # A cut may move a little where another is added: it keeps the p value by which it came.
        p_values = {end: _known(p_values, end, p_value) for end in more[:-1]}
        ends = more
    return [(end, p_values[end]) for end in ends[:-1]]


def _more(scores: Floats, ends: Sequence[int], random: np.random.Generator) -> tuple[list[int], float] | None:
    """Return the segments with one change more, or two, and the p value; None where neither is believed.

    A level that comes back takes two: with one alone hardly anything is explained.
    """
    fitted = _fitted(scores, ends)
    residuals = scores - fitted
    for added in (1, 2):
        count = len(ends) - 1 + added
        if count > _MOST_CHANGES or len(scores) < max((count + 1) * _SHORTEST, added * FEWEST):
            return None
        more = _segments(scores, count)
        observed = _statistic(scores, ends, more)
        as_large = 0
        for _ in range(_SERIES):
            resampled = fitted + residuals * random.choice((-1.0, 1.0), len(residuals))
            fewer = _segments(resampled, len(ends) - 1) if len(ends) > 1 else ends
            as_large += _statistic(resampled, fewer, _segments(resampled, count)) >= observed
            p_value = (as_large + 1) / (_SERIES + 1)
            if p_value > _P_VALUE / 2:
                break
        else:
            return more, p_value
    return None


def _known(p_values: Mapping[int, float], end: int, p_value: float) -> float:
    """Return the p value of the cut at ``end``: that of a known one near it, else ``p_value``."""
    near = [known for known in p_values if abs(known - end) < _SHORTEST]
    return p_values[min(near, key=lambda known: abs(known - end))] if near else p_value


def _normal_scores(values: Floats) -> Floats:
    """Return van der Waerden's scores: normal quantiles of the ranks, equal values alike."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores: Floats = ndtri(rankdata(values) / (len(values) + 1))
    return scores


def _segments(values: Floats, changes: int) -> list[int]:
    """Return the ends of the segments of the best cut into ``changes`` + 1 levels."""
    import ruptures

    found: list[int] = (
        ruptures.KernelCPD(kernel="linear", min_size=_SHORTEST)
        .fit(values.reshape(-1, 1))
        .predict(n_bkps=changes)
    )
    return found


def _fitted(values: Floats, ends: Sequence[int]) -> Floats:
    fitted = np.empty_like(values)
    for begin, end in pairwise([0, *ends]):
        fitted[begin:end] = values[begin:end].mean()
    return fitted


def _statistic(values: Floats, fewer: Sequence[int], more: Sequence[int]) -> float:
    """Return what one change more explains over what is left, less where neighbours resemble each other."""
    rest = values - _fitted(values, more)
    left = float(rest @ rest)
    before = values - _fitted(values, fewer)
    gained = float(before @ before) - left
    freedom = max(1, len(values) - 2 * len(more) + 1)
    if left <= 1e-12 * max(1.0, float(before @ before)):
        return math.inf if gained > 0 else 0.0
    r = _correlation(rest, len(more))
    return gained / (left / freedom) * (1 - r) / (1 + r)


def _correlation(residuals: Floats, segments: int) -> float:
    """Return the correlation of neighbours, corrected for the means that were taken off; at least 0."""
    total = float(residuals @ residuals)
    count = len(residuals)
    if total <= 0:
        return 0.0
    r = float(residuals[1:] @ residuals[:-1]) / total
    # Each mean takes about (1 + 3 r) / n off (Kendall 1954); a cut that is chosen, as much again.
    r += (3 * segments - 2) * (1 + 3 * r) / count
    return float(min(max(r, 0.0), _MOST_CORRELATION))


def _changes(logs: Floats, ends: Sequence[int], p_values: Sequence[float]) -> list[Change]:
    from scipy.special import stdtrit

    rest = logs - _fitted(logs, ends[1:])
    r = _correlation(rest, len(ends) - 1)
    freedom = max(1, len(logs) - (len(ends) - 1))
    found = []
    for place, p_value in enumerate(p_values, start=1):
        before, after = logs[ends[place - 1] : ends[place]], logs[ends[place] : ends[place + 1]]
        deviation = math.sqrt(
            float(rest @ rest) / freedom * (1 / len(before) + 1 / len(after)) * (1 + r) / (1 - r)
        )
        half = float(stdtrit(freedom, 0.5 + _CONFIDENCE / 2)) * deviation
        difference = float(after.mean() - before.mean())
        found.append(
            Change(
                ends[place],
                math.exp(difference),
                math.exp(difference - half),
                math.exp(difference + half),
                p_value,
            )
        )
    return found
