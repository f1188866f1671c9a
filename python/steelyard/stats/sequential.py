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
    if math.isfinite(degrees):
        from scipy.special import log_ndtr

        # The lower tail: its complement would be rounded to 1.
        reach = -student_quantile(math.exp(float(log_ndtr(-reach))), degrees)
    return math.sqrt(variance) * reach
