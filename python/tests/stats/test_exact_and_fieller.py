"""Failures by an exact test, and ratios of means that may be 0, against other implementations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact, ttest_1samp

from steelyard.stats.exact import fails_more_p_value
from steelyard.stats.fieller import means_ratio

VALUES = st.lists(st.floats(0, 1e3).map(lambda value: round(value, 3)), min_size=3, max_size=12)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 9), st.integers(0, 9))
def test_failures_are_compared_as_by_fisher(made: int, base: int, failed: int, base_failed: int) -> None:
    failed, base_failed = min(failed, made), min(base_failed, base)
    table = [[failed, made - failed], [base_failed, base - base_failed]]
    whole = fisher_exact(table, alternative="greater").pvalue
    assert fails_more_p_value(failed, made, base_failed, base) == pytest.approx(whole)


def test_more_failures_than_trials_are_an_error() -> None:
    with pytest.raises(ValueError, match="as many failures as trials"):
        fails_more_p_value(3, 2, 0, 2)


@given(VALUES, VALUES)
def test_the_interval_holds_the_ratios_that_student_does_not_refuse(
    first: list[float], second: list[float]
) -> None:
    size = min(len(first), len(second))
    ours, theirs = np.array(first[:size]), np.array(second[:size])
    found = means_ratio(ours, theirs)
    if found.low is None or found.high is None or not ours.any():
        return
    for ratio in (0.3, 0.9, 1.0, 1.7, 40.0):
        rest = theirs - ratio * ours
        if np.ptp(rest) < 1e-9 * max(float(np.abs(rest).max()), 1e-9):
            continue
        if ttest_1samp(rest, 0.0).pvalue > 0.051:
            # What is not refused lies inside; outside may be more, where the base may be 0.
            assert found.low <= ratio <= found.high


def test_what_bounds_nothing_says_so() -> None:
    seldom = means_ratio([0, 0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1])
    assert (seldom.low, seldom.high) == (0.0, math.inf)
    never = means_ratio([0.0] * 8, [30, 31, 29, 30, 33, 30, 28, 30])
    assert (never.ratio, never.low, never.high) == (math.inf, math.inf, math.inf)
    assert means_ratio([0.0] * 7, [0.0] * 7).reason == "0 in all 7 blocks of both arms, below 8"
    with pytest.raises(ValueError, match="must not be negative"):
        means_ratio([1.0, -1.0], [1.0, 2.0])
