"""Contrasts of arms: closed forms, symmetry, what is withheld. docs/truth.md: how often intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from steelyard.stats.contrasts import FEW_BLOCKS, blocks_needed, contrast
from steelyard.stats.sequential import aimed_radius

VALUES = st.lists(st.floats(0.01, 1e6), min_size=4, max_size=14)


def test_the_interval_for_one_look_is_students_where_blocks_are_few() -> None:
    random = np.random.default_rng(3)
    first, second = random.lognormal(0, 0.05, (2, 8))
    found = contrast(first, second, least_effect=0.01)
    whole = ttest_rel(np.log(second), np.log(first)).confidence_interval(0.95)
    assert found.low == pytest.approx(math.exp(whole.low))
    assert found.high == pytest.approx(math.exp(whole.high))


def test_many_contrasts_are_stated_at_a_confidence_at_which_all_hold() -> None:
    random = np.random.default_rng(4)
    first, second = random.lognormal(0, 0.05, (2, 8))
    found = contrast(first, second, least_effect=0.01, comparisons=5)
    assert found.confidence == pytest.approx(0.99)
    whole = ttest_rel(np.log(second), np.log(first)).confidence_interval(0.99)
    assert found.low == pytest.approx(math.exp(whole.low))


@given(VALUES, st.randoms(use_true_random=False), st.floats(0.1, 10))
def test_swapped_arms_give_the_inverse_and_units_do_not_matter(
    values: list[float], random: object, scale: float
) -> None:
    others = values[::-1]
    one = contrast(values, others, least_effect=0.02)
    swapped = contrast(others, values, least_effect=0.02)
    scaled = contrast(
        [value * scale for value in values], [value * scale for value in others], least_effect=0.02
    )
    assert one.ratio * swapped.ratio == pytest.approx(1)
    assert one.ratio == pytest.approx(scaled.ratio)
    if one.low is not None and one.high is not None:
        assert one.low <= one.ratio <= one.high
    if one.always_high is not None:
        assert swapped.always_low == pytest.approx(1 / one.always_high)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "fewer than 4 blocks"),
        ([1.0] * 7, [3.0] * 7, "the ratio is the same in all 7 blocks: its noise is not known"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0], "the ratio is the same in all 5 blocks"),
    ],
)
def test_what_cannot_be_known_is_withheld(first: list[float], second: list[float], reason: str) -> None:
    found = contrast(first, second, least_effect=0.01)
    assert (found.low, found.high, found.always_low, found.always_high) == (None, None, None, None)
    assert found.reason is not None
    assert reason in found.reason
    assert math.isfinite(found.ratio)


@pytest.mark.parametrize("blocks", [8, 40])
def test_what_never_varies_is_decided_to_its_last_digit(blocks: int) -> None:
    found = contrast([1_000_000.0] * blocks, [900_000.0] * blocks, least_effect=0.01)
    assert found.low == found.always_low == pytest.approx(0.9, rel=2e-6)
    assert found.high == pytest.approx(0.9, rel=2e-6)
    assert f"the same in all {blocks} blocks" in (found.caution or "")
    # 0.3 and 0.4 s may have been 0.34 and 0.36.
    coarse = contrast([0.3] * blocks, [0.4] * blocks, least_effect=0.01)
    assert coarse.low is not None
    assert coarse.high is not None
    assert coarse.low < 1.03
    assert coarse.high > 1.8
    same = contrast([303.0] * blocks, [303.0] * blocks, least_effect=0.01)
    assert same.low is not None
    assert 0.99 < same.low <= 1.0
    wide = contrast([303.0] * blocks, [303.0] * blocks, least_effect=0.01, at_end=False)
    assert (wide.low, wide.always_low) == (None, same.always_low)


@pytest.mark.parametrize("bad", [[1.0, 2.0], [1.0, 2.0, 0.0], [1.0, math.nan, 2.0], [1.0, -1.0, 2.0]])
def test_what_has_no_ratio_is_an_error(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"needs as many|must be positive"):
        contrast([1.0, 2.0, 3.0], bad, least_effect=0.01)


def test_the_interval_for_every_look_is_the_wider_one_and_becomes_narrow() -> None:
    random = np.random.default_rng(5)
    first, second = random.lognormal(0, 0.02, (2, 4000))
    found = contrast(first[:40], second[:40], least_effect=0.01)
    assert found.always_low is not None
    assert found.low is not None
    assert found.always_low < found.low
    many = contrast(first, second, least_effect=0.01)
    assert many.always_high is not None
    assert many.always_low is not None
    # Narrower than half the effect that it was aimed at, where two points alone would end.
    assert many.always_high - many.always_low < 0.005


@pytest.mark.parametrize("deviation", [0.0005, 0.003, 0.01, 0.2])
def test_the_mixture_ends_where_it_reaches_one_over_alpha(deviation: float) -> None:
    effect, broad = 0.01, 0.05
    x = aimed_radius(deviation**2, least_effect=effect)
    v = deviation**2
    two = math.exp(-(effect**2) / (2 * v)) * math.cosh(effect * x / v)
    normal = math.sqrt(v / (v + broad**2)) * math.exp(x**2 * broad**2 / (2 * v * (v + broad**2)))
    assert 0.8 * two + 0.2 * normal == pytest.approx(20, rel=1e-6)


def test_more_comparisons_smaller_effects_and_more_looks_need_more_blocks() -> None:
    assert blocks_needed(0.03, 0.005) > 3 * blocks_needed(0.03, 0.01)
    assert blocks_needed(0.03, 0.01, comparisons=4) > blocks_needed(0.03, 0.01)
    assert blocks_needed(0.03, 0.01, at_every_look=True) > blocks_needed(0.03, 0.01)
    with pytest.raises(ValueError, match="positive deviation"):
        blocks_needed(0.0, 0.01)


def test_noise_beyond_measure_leaves_no_interval_for_every_look() -> None:
    # Its quantile has a probability that is next to nothing, and would be taken for minus infinity.
    first, second = [100.0, 40.0, 180.0, 90.0], [60.0, 130.0, 70.0, 220.0]
    found = contrast(first, second, least_effect=0.001)
    assert (found.always_low, found.always_high) == (None, None)
    assert found.low is not None
    assert found.low < 1 < (found.high or 0)
    assert aimed_radius(0.2**2, least_effect=0.0005, degrees=3) == math.inf


def test_few_blocks_are_allowed_the_correlation_that_they_may_have() -> None:
    values = np.random.default_rng(1).normal(1, 0.02, (2, FEW_BLOCKS))
    found = contrast(*values, least_effect=0.01)
    fewer = contrast(*values[:, :-1], least_effect=0.01)
    for one in (found, fewer):
        assert one.effective_blocks == one.blocks
        assert one.deviation is not None
        assert one.always_high is not None
    independent = [
        aimed_radius(one.deviation**2 / one.blocks, least_effect=0.01, degrees=one.blocks - 1)
        for one in (found, fewer)
        if one.deviation is not None
    ]
    widths = [math.log(one.always_high / one.ratio) for one in (found, fewer) if one.always_high is not None]
    assert widths[0] == pytest.approx(independent[0])
    assert widths[1] > 1.05 * independent[1]


def test_the_bootstrap_draws_from_blocks_and_from_intervals_within_them() -> None:
    random = np.random.default_rng(5)
    inside = random.lognormal(0, 0.1, (2, 20, 30)) * random.lognormal(0, 0.3, (2, 20, 1))
    first, second = inside.tolist()
    values = inside.mean(axis=2)
    alone = contrast(*values, least_effect=0.01)
    both = contrast(*values, least_effect=0.01, within=(first, second))
    assert both != alone
    assert both == contrast(*values, least_effect=0.01, within=(first, second))
    assert both.ratio == alone.ratio
    assert (both.always_low, both.always_high) == (alone.always_low, alone.always_high)
    # The second level adds a tenth of the first's noise to what is drawn, and as much to its own error.
    assert alone.low is not None
    assert both.low == pytest.approx(alone.low, rel=0.03)
    # Intervals that do not vary leave the blocks alone.
    flat = tuple([[value] * 30 for value in arm.tolist()] for arm in values)
    level = contrast(*values, least_effect=0.01, within=(flat[0], flat[1]))
    assert level.low == pytest.approx(alone.low)
    assert level.high == pytest.approx(alone.high)
