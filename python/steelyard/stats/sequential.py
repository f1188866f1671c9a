"""Intervals that hold at several looks.

A 95 % interval is right at one time that was fixed beforehand. Who looks every day and stops when it
excludes "no effect" is wrong far more often than once in 20 times. Two remedies: the mixture interval holds
at all times at once, whatever the number of looks; looks that are planned, a few of them, cost less.

In: a variance and its degrees of freedom, or numbers of blocks. Out: half the width of an interval, or the
confidence of the interval at a look.
"""

from __future__ import annotations

import functools
import math
from typing import Any


def student_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of Student's distribution; of the normal one for infinite ``degrees``.

    >>> round(student_quantile(0.975, 10), 3), round(student_quantile(0.975, math.inf), 3)
    (2.228, 1.96)
    """
    # Loading it takes longer than a whole report; few who load this module ask for an interval.
    from scipy.special import ndtri, stdtrit

    if math.isinf(degrees):
        return float(ndtri(probability))
    return float(stdtrit(degrees, probability))


def mixture_radius(
    variance: float,
    *,
    degrees: float = math.inf,
    confidence: float = 0.95,
    expected_effect: float = 0.05,
) -> float:
    """Return half the width of an interval that is valid at all times, around an estimate of that variance.

    The mixture sequential probability ratio test's: with effects drawn from a normal distribution of standard
    deviation t = ``expected_effect``, the likelihood ratio against any one value is a martingale, which
    exceeds 1 / alpha with probability alpha at most (H. Robbins, "Statistical Methods Related to the Law of
    the Iterated Logarithm", 1970; R. Johari et al., "Peeking at A/B Tests", KDD 2017). With q = t^2 /
    variance the interval is +- sqrt(variance * (1 + q) / q * log((1 + q) / alpha^2)). ``expected_effect``
    must be fixed before the data are seen: it decides when the interval is tightest, not whether it holds.
    For a variance that is itself estimated, the quantile of the normal distribution that this is becomes
    Student's of the same probability. That is not exact; docs/truth.md has how often it errs. (Student's own
    likelihood ratio, Lai 1976, is, but bounds nothing where the deviation exceeds the expected effect.)

    >>> round(mixture_radius(0.01**2), 4), round(mixture_radius(0.0), 4)
    (0.031, 0.0)

    Raises ValueError for a negative variance or arguments outside their range.
    """
    if variance < 0 or not 0 < confidence < 1 or expected_effect <= 0:
        raise ValueError("needs a variance, a confidence between 0 and 1, and a positive expected effect")
    if variance == 0:
        return 0.0
    alpha = 1 - confidence
    prior = expected_effect**2 / variance
    reach = math.sqrt((1 + prior) / prior * math.log((1 + prior) / alpha**2))
    return math.sqrt(variance) * _student(reach, degrees)


FIRST_LOOK = 5
"""Blocks before the first look: before, Student's quantiles are so large that hardly an effect is seen."""
_EARLY_LOOKS = (FIRST_LOOK, 9, 16)
_GROWTH, _LATER_LOOKS = 1.5, 4
"""How many times as many blocks the next look has, at least; and how many looks come after these, at most:
each takes its part of the chance to err."""
EARLY_WIDTH = 1.5
"""Of an interval before the last look, beside one for a single look at as many blocks."""
_APART = 1.25
"""The last look has so many times the blocks of the one before, at least: another one would add nothing."""
_GRID = 401


def early_looks(planned: int, made: int) -> tuple[int, ...]:
    """Return after how many blocks an experiment of ``planned`` ones is looked at, of those before ``made``.

    >>> early_looks(40, 40), early_looks(200, 40)
    ((5, 9, 16, 24), (5, 9, 16, 28))
    """
    growth = max(_GROWTH, (planned / _EARLY_LOOKS[-1]) ** (1 / (_LATER_LOOKS + 1)))
    found = list(_EARLY_LOOKS)
    while found[-1] < made:
        # Whole pairs of blocks.
        found.append(2 * math.ceil(growth * found[-1] / 2))
    return tuple(look for look in found if look < made and look * _APART <= planned)


def early_confidence(look: int, confidence: float) -> float:
    """Return the confidence of the interval at an early look, `EARLY_WIDTH` times as wide as at a single one.

    >>> round(early_confidence(5, 0.95), 4), round(early_confidence(24, 0.95), 4)
    (0.9859, 0.995)
    """
    wide = EARLY_WIDTH * student_quantile((1 + confidence) / 2, look - 1)
    return 1 - 2 * _tail(wide, look - 1)


def last_confidence(planned: int, made: int, confidence: float) -> float:
    """Return the confidence of the interval at the last look, after ``made`` blocks of ``planned`` ones.

    So that all looks together hold with ``confidence``: what the early ones leave of its chance to err is
    the last one's (a group-sequential test; P. O'Brien and T. Fleming, "A Multiple Testing Procedure for
    Clinical Trials", Biometrics 35, 1979). The chance that a sum of independent blocks leaves one of the
    intervals is integrated from look to look (P. Armitage, C. McPherson and B. Rowe, "Repeated Significance
    Tests on Accumulating Data", JRSS A 132, 1969), for normal values with a known deviation; Student's
    quantiles take the place of the normal ones at each look. docs/truth.md has how often that errs.

    When it ends must not depend on what was seen: all blocks are made, or the time is used up.

    >>> round(last_confidence(40, 40, 0.95), 3), last_confidence(40, 4, 0.95)
    (0.971, 0.95)
    """
    looks = early_looks(planned, made)
    return _last_confidence(looks, made, confidence) if looks else confidence


@functools.lru_cache(maxsize=256)
def _last_confidence(looks: tuple[int, ...], made: int, confidence: float) -> float:
    import numpy as np
    from scipy.optimize import brentq

    alpha = 1 - confidence
    # In standard deviations of a block: where the sum is after a look, if it left no interval so far.
    places = density = None
    before = 0
    for look in looks:
        reach = student_quantile((1 + early_confidence(look, confidence)) / 2, math.inf) * math.sqrt(look)
        here = np.linspace(-reach, reach, _GRID)
        density = _density(here, look - before, places, density)
        places, before = here, look

    def beyond(reach: float) -> float:
        here = np.linspace(-reach, reach, _GRID) * math.sqrt(made)
        inside = np.trapezoid(_density(here, made - before, places, density), here)
        return float(1 - inside) - alpha

    # At 1.5 times its width a look spends a fraction of what a single one has, so that something is left.
    low, high = student_quantile(1 - alpha / 2, math.inf), 10.0
    if beyond(low) <= 0:
        return confidence
    return 1 - 2 * _tail(float(brentq(beyond, low, high, xtol=1e-4)), math.inf)


def _density(here: Any, blocks: int, places: Any, density: Any) -> Any:
    """Return the density of the sum ``blocks`` later, at ``here``, from that at ``places``."""
    import numpy as np

    steps = here[:, None] if places is None else here[:, None] - places[None, :]
    normal = np.exp(-(steps**2) / (2 * blocks)) / math.sqrt(2 * math.pi * blocks)
    return normal[:, 0] if places is None else np.trapezoid(normal * density, places, axis=1)


def _tail(quantile: float, degrees: float) -> float:
    """Return the probability of Student's distribution above ``quantile``."""
    from scipy.special import ndtr, stdtr

    return float(ndtr(-quantile) if math.isinf(degrees) else stdtr(degrees, -quantile))


def _student(reach: float, degrees: float) -> float:
    """Return the quantile of Student's distribution with the probability of a normal one's ``reach``."""
    if not math.isfinite(degrees):
        return reach
    from scipy.special import log_ndtr

    # The lower tail: its complement would be rounded to 1.
    found = -student_quantile(math.exp(float(log_ndtr(-reach))), degrees)
    # Where the probability is next to nothing, what computes the quantile may end with the wrong sign.
    return found if reach <= found else math.inf
