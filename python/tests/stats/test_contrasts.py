"""Contrasts of arms: closed forms, symmetry, what is withheld. docs/truth.md: how often intervals hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, ttest_rel

from steelyard.experiment.design import orders
from steelyard.stats.contrasts import Order, blocks_needed, contrast
from steelyard.stats.sequential import early_confidence, early_looks, last_confidence

VALUES = st.lists(st.floats(0.01, 1e6), min_size=4, max_size=14)


def test_the_interval_for_one_look_is_students_where_blocks_are_few() -> None:
    random = np.random.default_rng(3)
    first, second = random.lognormal(0, 0.05, (2, 8))
    found = contrast(first, second)
    whole = ttest_rel(np.log(second), np.log(first)).confidence_interval(0.95)
    assert found.low == pytest.approx(math.exp(whole.low))
    assert found.high == pytest.approx(math.exp(whole.high))


def test_a_contrast_is_stated_at_the_confidence_that_is_asked_for() -> None:
    random = np.random.default_rng(4)
    first, second = random.lognormal(0, 0.05, (2, 8))
    found = contrast(first, second, confidence=0.99)
    assert found.confidence == 0.99
    whole = ttest_rel(np.log(second), np.log(first)).confidence_interval(0.99)
    assert found.low == pytest.approx(math.exp(whole.low))


@given(VALUES, st.randoms(use_true_random=False), st.floats(0.1, 10))
def test_swapped_arms_give_the_inverse_and_units_do_not_matter(
    values: list[float], random: object, scale: float
) -> None:
    others = values[::-1]
    one = contrast(values, others)
    swapped = contrast(others, values)
    scaled = contrast([value * scale for value in values], [value * scale for value in others])
    assert one.ratio * swapped.ratio == pytest.approx(1)
    assert one.ratio == pytest.approx(scaled.ratio)
    if one.low is not None and one.high is not None:
        assert one.low <= one.ratio <= one.high
    if one.high is not None and len(values) < 10:
        assert swapped.low == pytest.approx(1 / one.high)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "fewer than 4 blocks"),
        ([1.0] * 7, [3.0] * 7, "the ratio is the same in all 7 blocks: its noise is not known"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0], "the ratio is the same in all 5 blocks"),
    ],
)
def test_what_cannot_be_known_is_withheld(first: list[float], second: list[float], reason: str) -> None:
    found = contrast(first, second)
    assert (found.low, found.high) == (None, None)
    assert found.reason is not None
    assert reason in found.reason
    assert math.isfinite(found.ratio)


@pytest.mark.parametrize("blocks", [8, 40])
def test_what_never_varies_is_decided_to_its_last_digit(blocks: int) -> None:
    found = contrast([1_000_000.0] * blocks, [900_000.0] * blocks)
    assert found.low == pytest.approx(0.9, rel=2e-6)
    assert found.high == pytest.approx(0.9, rel=2e-6)
    assert f"the same in all {blocks} blocks" in (found.caution or "")
    # 0.3 and 0.4 s may have been 0.34 and 0.36.
    coarse = contrast([0.3] * blocks, [0.4] * blocks)
    assert coarse.low is not None
    assert coarse.high is not None
    assert coarse.low < 1.03
    assert coarse.high > 1.8
    same = contrast([303.0] * blocks, [303.0] * blocks)
    assert same.low is not None
    assert 0.99 < same.low <= 1.0


@pytest.mark.parametrize("bad", [[1.0, 2.0], [1.0, 2.0, 0.0], [1.0, math.nan, 2.0], [1.0, -1.0, 2.0]])
def test_what_has_no_ratio_is_an_error(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"needs as many|must be positive"):
        contrast([1.0, 2.0, 3.0], bad)


def made(
    blocks: int, seed: int, *, effect: float = 0.0, first: float = 0.0, after_second: float = 0.0
) -> tuple[np.ndarray, np.ndarray, Order]:
    """Return values of two arms in the order that experiments have, with effects of that order."""
    random = np.random.default_rng(seed)
    order = orders(["a", "b"], blocks, seed)
    logs = {"a": np.zeros(blocks), "b": np.zeros(blocks)}
    before: list[int | None] = []
    last: int | None = None
    for block, arms in enumerate(order):
        before.append(last)
        for place, arm in enumerate(arms):
            level = effect * (arm == "b") + first * (place == 0) + after_second * (last == 1)
            logs[arm][block] = level + 0.01 * random.standard_normal()
            last = int(arm == "b")
    lags = [1 if arms[0] == "a" else -1 for arms in order]
    return np.exp(logs["a"]), np.exp(logs["b"]), Order(lags, before)


def test_what_the_order_does_is_reported_and_taken_out() -> None:
    first, second, order = made(40, 3, effect=0.03, first=-0.05, after_second=-0.08)
    found, blind = contrast(first, second, order=order), contrast(first, second)
    assert found.position is not None
    assert found.carry_over is not None
    # The second of a block lacks the loss of the first.
    assert found.position.low < math.exp(0.05) < found.position.high
    assert found.carry_over.low < math.exp(-0.08) < found.carry_over.high
    assert found.position.is_there
    assert found.carry_over.is_there
    for one, holds in ((found, True), (blind, False)):
        assert one.low is not None
        assert one.high is not None
        assert (one.low <= math.exp(0.03) <= one.high) == holds


def test_without_effects_of_the_order_none_is_reported() -> None:
    found = contrast(*made(40, 4)[:2], order=made(40, 4)[2])
    assert found.position is not None
    assert not found.position.is_there
    assert found.carry_over is not None
    assert not found.carry_over.is_there
    # Eight blocks are needed to tell a carry-over.
    first, second, order = made(6, 4, after_second=-0.08)
    assert contrast(first, second, order=order).carry_over is None


@pytest.mark.parametrize("lags", [[1] * 12, [1, -1] * 6])
def test_orders_that_tell_no_effect_leave_it_out(lags: list[int]) -> None:
    first, second, _ = made(12, 5)
    before = [None, *(0 if lag < 0 else 1 for lag in lags[:-1])]
    found = contrast(first, second, order=Order(lags, before))
    assert found.low is not None
    assert (found.position is None) == (len(set(lags)) == 1)


def test_what_alternates_with_the_order_alone_is_no_noise() -> None:
    lags = [1, -1, -1, 1, 1, -1, -1, 1]
    found = contrast([100.0] * 8, [103.0 * 1.1**lag for lag in lags], order=Order(lags))
    assert found.ratio == pytest.approx(1.03)
    assert "the same in all 8 blocks" in (found.caution or "")


def test_blocks_of_a_pair_that_are_alike_count_once() -> None:
    random = np.random.default_rng(6)
    shared = np.repeat(0.05 * random.standard_normal(10), 2)
    second = np.exp(shared + 0.001 * random.standard_normal(20))
    found = contrast(np.ones(20), second)
    whole = ttest_rel(shared.reshape(10, 2)[:, 0], np.zeros(10)).confidence_interval(0.95)
    assert found.low is not None
    assert found.high is not None
    assert math.log(found.high / found.low) >= 0.99 * (whole.high - whole.low)
    # In no order there are no pairs.
    blind = contrast(np.ones(20), second, in_order=False)
    assert blind.low is not None
    assert blind.low > found.low


@given(st.integers(5, 3000))
def test_looks_are_few_and_what_they_leave_is_the_last_ones(planned: int) -> None:
    looks = early_looks(planned, planned)
    assert list(looks) == sorted(set(looks))
    assert len(looks) <= 7
    assert all(look * 1.25 <= planned for look in looks)
    assert all(0.95 < early_confidence(look, 0.95) < 1 for look in looks)
    assert 0.95 <= last_confidence(planned, planned, 0.95) < 0.99


def test_the_chance_to_err_at_all_looks_together_is_what_was_asked_for() -> None:
    # Of normal values with a known deviation, which the integral is exact for.
    random = np.random.default_rng(7)
    sums = random.standard_normal((100_000, 40)).cumsum(axis=1)
    looks = [*early_looks(40, 40), 40]
    levels = [early_confidence(look, 0.95) for look in looks[:-1]] + [last_confidence(40, 40, 0.95)]
    outside = np.zeros(len(sums), dtype=bool)
    for look, level in zip(looks, levels, strict=True):
        outside |= np.abs(sums[:, look - 1]) > norm.ppf((1 + level) / 2) * math.sqrt(look)
    assert outside.mean() == pytest.approx(0.05, abs=0.003)


def test_more_comparisons_smaller_effects_and_more_looks_need_more_blocks() -> None:
    assert blocks_needed(0.03, 0.005) > 3 * blocks_needed(0.03, 0.01)
    assert blocks_needed(0.03, 0.01, confidence=0.99) > blocks_needed(0.03, 0.01)
    assert blocks_needed(0.03, 0.01, has_looks=True) > blocks_needed(0.03, 0.01)
    with pytest.raises(ValueError, match="positive deviation"):
        blocks_needed(0.0, 0.01)


def test_the_bootstrap_draws_from_blocks_and_from_intervals_within_them() -> None:
    random = np.random.default_rng(5)
    inside = random.lognormal(0, 0.1, (2, 20, 30)) * random.lognormal(0, 0.3, (2, 20, 1))
    first, second = inside.tolist()
    values = inside.mean(axis=2)
    alone = contrast(*values)
    both = contrast(*values, within=(first, second))
    assert both != alone
    assert both == contrast(*values, within=(first, second))
    assert both.ratio == alone.ratio
    # The second level adds a tenth of the first's noise to what is drawn, and as much to its own error.
    assert alone.low is not None
    assert both.low == pytest.approx(alone.low, rel=0.03)
    # Intervals that do not vary leave the blocks alone.
    flat = tuple([[value] * 30 for value in arm.tolist()] for arm in values)
    level = contrast(*values, within=(flat[0], flat[1]))
    assert level.low == pytest.approx(alone.low)
    assert level.high == pytest.approx(alone.high)
