"""Intervals for the median and geometric means."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gmean, ttest_ind

from steelyard.stats.intervals import (
    count_for,
    geometric_mean,
    mean_ratio_interval,
    median_interval,
    ratio_interval,
)

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
series = st.lists(finite, min_size=1, max_size=60)


@given(series, st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_interval_holds_the_median_and_lies_inside_the_values(values: list[float], confidence: float) -> None:
    result = median_interval(values, confidence)
    assert result.median == pytest.approx(float(np.median(values)))
    assert result.lowest <= result.median <= result.highest
    assert 0 <= result.coverage < 1 or result.count > 50
    if result.low is None or result.high is None:
        assert result.reason is not None
        assert result.count < count_for(confidence)
    else:
        assert result.reason is None
        assert result.low <= result.median <= result.high
        assert {result.low, result.high} <= set(map(float, values))
        assert result.coverage >= confidence


@given(series, st.randoms(use_true_random=False))
def test_order_does_not_matter(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert median_interval(shuffled) == median_interval(values)


@given(st.lists(finite, min_size=6, max_size=40))
def test_more_confidence_is_never_narrower(values: list[float]) -> None:
    narrow, wide = median_interval(values, 0.5), median_interval(values, 0.95)
    assert narrow.low is not None
    assert narrow.high is not None
    assert wide.low is not None
    assert wide.high is not None
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@pytest.mark.parametrize(
    ("count", "ranks", "coverage"),
    # Conover, Practical Nonparametric Statistics: ranks of the two-sided interval of at least 95 %.
    [(6, (1, 6), 0.96875), (10, (2, 9), 0.97852), (15, (4, 12), 0.96484), (20, (6, 15), 0.95861)],
)
def test_ranks_of_the_textbook(count: int, ranks: tuple[int, int], coverage: float) -> None:
    result = median_interval([float(rank) for rank in range(1, count + 1)])
    assert (result.low, result.high) == tuple(map(float, ranks))
    assert result.coverage == pytest.approx(coverage, abs=5e-6)


@pytest.mark.parametrize("count", [6, 7, 10])
def test_coverage_is_what_it_says_for_a_skewed_distribution(count: int) -> None:
    random = np.random.default_rng(count)
    true_median = math.log(2)
    trials = 2000
    held = 0
    for sample in random.exponential(size=(trials, count)):
        result = median_interval(sample.tolist())
        assert result.low is not None
        assert result.high is not None
        held += result.low <= true_median <= result.high
    expected = median_interval(list(range(count))).coverage
    # Four standard errors of a proportion: the seed is fixed, so that this holds always or never.
    assert held / trials == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / trials))
    assert expected >= 0.95


def test_few_values_have_no_interval_and_say_what_they_give() -> None:
    result = median_interval([3.0, 1.0, 2.0])
    assert (result.low, result.high, result.coverage) == (None, None, 0.75)
    assert (result.lowest, result.median, result.highest) == (1.0, 2.0, 3.0)
    assert result.reason is not None
    assert "needs 6 values, 3 were given" in result.reason
    assert "has no spread" in (median_interval([1.0]).reason or "")


@pytest.mark.parametrize(
    ("values", "confidence"), [([], 0.95), ([1.0, math.nan], 0.95), ([1.0], 1.0), ([1.0], 0)]
)
def test_what_has_no_answer_is_refused(values: list[float], confidence: float) -> None:
    with pytest.raises(ValueError, match=r"no values|not finite|not between"):
        median_interval(values, confidence)


ratios = st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=1, max_size=30)


@given(ratios)
def test_geometric_mean_agrees_with_scipy(values: list[float]) -> None:
    assert geometric_mean(values) == pytest.approx(float(gmean(values)))


@given(ratios)
def test_geometric_mean_of_inverses_is_the_inverse(values: list[float]) -> None:
    mean = geometric_mean(values)
    inverse = geometric_mean([1 / value for value in values])
    assert mean is not None
    assert inverse is not None
    assert mean * inverse == pytest.approx(1)


@given(ratios, st.integers(min_value=0, max_value=30))
def test_geometric_mean_is_withheld_when_a_member_is_missing(values: list[float], place: int) -> None:
    assert geometric_mean([*values[:place], None, *values[place:]]) is None


def test_geometric_mean_of_nothing_and_of_what_is_no_ratio() -> None:
    assert geometric_mean([]) is None
    for value in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive"):
            geometric_mean([1.0, value])


positive = st.lists(st.floats(min_value=0.1, max_value=1e3), min_size=3, max_size=12)


@given(positive, positive)
def test_an_interval_for_a_ratio_is_that_of_the_inverse_turned_round(
    above: list[float], below: list[float]
) -> None:
    forth, back = ratio_interval(above, below), ratio_interval(below, above)
    if forth.low is None or forth.high is None:
        assert forth.reason is not None
        return
    assert back.high == pytest.approx(1 / forth.low)
    assert back.low == pytest.approx(1 / forth.high)
    assert forth.low <= np.median(above) / np.median(below) * (1 + 1e-9)
    assert forth.high >= np.median(above) / np.median(below) * (1 - 1e-9)


def test_an_interval_for_a_ratio_is_the_wider_of_two_by_students_t() -> None:
    random = np.random.default_rng(3)
    for count, noise in ((3, 0.01), (3, 0.1), (10, 0.1)):
        above, below = 2 * random.lognormal(0, noise, count), random.lognormal(0, 0.03, 8)
        found = ratio_interval(list(above), list(below))
        both = [
            ttest_ind(np.log(above), np.log(below), equal_var=equal).confidence_interval(0.95)
            for equal in (False, True)
        ]
        assert found.low == pytest.approx(math.exp(min(one.low for one in both)))
        assert found.high == pytest.approx(math.exp(max(one.high for one in both)))


def test_a_mean_of_ratios_takes_the_passes_as_replicates() -> None:
    random = np.random.default_rng(4)
    passes = random.normal(0, 0.05, 5), random.normal(0, 0.05, 4)
    alike = [(list(np.exp(passes[0]) * size), list(np.exp(passes[1]))) for size in (1.0, 2.0, 4.0)]
    one, mean = ratio_interval(*alike[1]), mean_ratio_interval(alike)
    # What all members share does not average out.
    assert (mean.low, mean.high) == (pytest.approx(one.low), pytest.approx(one.high))
    # A repeat of a member is missing: the members are taken to agree wholly, with the fewest of them.
    short = mean_ratio_interval([(alike[0][0][:4], alike[0][1]), *alike[1:]])
    assert short.counts == (4, 4)
    whole = mean_ratio_interval([(above[:4], below) for above, below in alike])
    assert (short.low, short.high) != (None, None)
    assert short.low != whole.low


def test_a_ratio_needs_runs_on_both_sides() -> None:
    for above, below in ((1, 6), (2, 40), (40, 2), (3, 0)):
        found = ratio_interval(
            [1.0 + index for index in range(above)], [1.0 + index for index in range(below)]
        )
        assert (found.low, found.high, found.reason) == (None, None, None)
        assert found.counts == (above, below)
    assert mean_ratio_interval([]).low is None
    assert ratio_interval([2.0] * 3, [1.0] * 3).reason == "the values of either side are all the same"
    assert ratio_interval([2.0] * 3, [1.0, 1.1, 0.9]).low is not None
    with pytest.raises(ValueError, match="positive"):
        ratio_interval([0.0] * 3, [1.0] * 3)
