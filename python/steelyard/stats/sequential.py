"""Intervals that hold however often somebody looks.

A 95 % interval is right at one time that was fixed beforehand. Who looks every day and stops when it excludes
"no effect" is wrong far more often than once in 20 times. The mixture interval here holds at all times at
once: with probability ``confidence`` the truth is never outside of it.

In: a variance and its degrees of freedom. Out: half the width of an interval.
"""

from __future__ import annotations

import math


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


AIMED = 0.8
"""Share of the mixture that `aimed_radius` puts on the effect that matters; the rest keeps the interval from
stopping short of it."""
BROAD = 5.0
"""Standard deviation of that rest, in effects that matter."""


def aimed_radius(
    variance: float, *, least_effect: float, degrees: float = math.inf, confidence: float = 0.95
) -> float:
    """Return half the width of an interval that is valid at all times, tightest for an effect of that size.

    A mixture as in `mixture_radius`, but of the two effects +- ``least_effect``, with the weight `AIMED`, and
    of a normal distribution that is `BROAD` times as wide: the likelihood ratio of two points is the quickest
    test there is of an effect of that size (A. Wald, "Sequential Tests of Statistical Hypotheses", 1945), and
    alone its interval would never become narrower than half of it. With v = variance, d = least_effect and
    t = BROAD d, the interval ends where

        AIMED exp(-d^2 / 2v) cosh(d x / v) + (1 - AIMED) sqrt(v / (v + t^2)) exp(x^2 t^2 / (2 v (v + t^2)))

    is 1 / alpha. A variance that is itself estimated is allowed for as in `mixture_radius`.

    >>> round(aimed_radius(0.003**2, least_effect=0.01), 4), aimed_radius(0.0, least_effect=0.01)
    (0.0085, 0.0)

    Raises ValueError for a negative variance or arguments outside their range.
    """
    if variance < 0 or not 0 < confidence < 1 or least_effect <= 0:
        raise ValueError("needs a variance, a confidence between 0 and 1, and a positive least effect")
    if variance == 0:
        return 0.0
    from scipy.optimize import brentq

    deviation = math.sqrt(variance)
    # In standard deviations, so that no quotient leaves the range of numbers.
    near, broad = least_effect / deviation, BROAD * least_effect / deviation
    wanted = -math.log(1 - confidence)
    narrowing = broad**2 / (1 + broad**2) / 2

    def beyond(reach: float) -> float:
        exponent = near * reach
        log_cosh = exponent + math.log1p(math.exp(-2 * exponent)) - math.log(2)
        first = math.log(AIMED) - near**2 / 2 + log_cosh
        second = math.log(1 - AIMED) - math.log1p(broad**2) / 2 + narrowing * reach**2
        return max(first, second) + math.log1p(math.exp(-abs(first - second))) - wanted

    most = 1.0
    while beyond(most) < 0:
        most *= 2
    reach = float(brentq(beyond, 0.0, most))
    return deviation * _student(reach, degrees)


def _student(reach: float, degrees: float) -> float:
    """Return the quantile of Student's distribution with the probability of a normal one's ``reach``."""
    if not math.isfinite(degrees):
        return reach
    from scipy.special import log_ndtr

    # The lower tail: its complement would be rounded to 1.
    found = -student_quantile(math.exp(float(log_ndtr(-reach))), degrees)
    # Where the probability is next to nothing, what computes the quantile may end with the wrong sign.
    return found if reach <= found else math.inf
