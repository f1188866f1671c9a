"""How often the steadiness rules err: seeded simulations of what they are for, and their invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from steelyard.stats import steady

Series = NDArray[np.float64]


def noise(random: np.random.Generator, count: int, correlation: float, deviation: float) -> Series:
    """First-order autocorrelated noise, already in its stationary state."""
    shocks = random.normal(size=count + 50) * np.sqrt(1 - correlation**2)
    values = np.zeros(count + 50)
    for index in range(1, count + 50):
        values[index] = correlation * values[index - 1] + shocks[index]
    return values[50:] * deviation


def warm_up(
    values: Series, tolerance_ratio: float = 0.02, windows: int = 10
) -> tuple[int, steady.Settled] | None:
    """The moment at which a warm-up that asks every third second would end."""
    for count in range(windows, len(values) + 1, 3):
        found = steady.settled(values[:count].tolist(), tolerance_ratio=tolerance_ratio, windows=windows)
        if found is not None:
            return count, found
    return None


@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize(("time_constant", "latest"), [(5, 60), (20, 160)])
def test_an_approach_is_settled_once_it_has_arrived(
    correlation: float, time_constant: int, latest: int
) -> None:
    """A hit ratio that climbs from 0.3 to 0.9: never early by 1.5 tolerances, and soon after."""
    random = np.random.default_rng(1)
    ends = []
    for _ in range(40):
        time = np.arange(200)
        signal = 0.9 - 0.6 * np.exp(-time / time_constant)
        ended = warm_up(signal + noise(random, 200, correlation, 0.004))
        assert ended is not None
        ends.append(ended[0])
        left = (0.9 - signal[ended[0] - 1]) / 0.9
        assert left < 0.03
        assert ended[1].level == pytest.approx(0.9, rel=0.03)
    assert np.median(ends) <= latest


@pytest.mark.parametrize("deviation", [0.001, 0.005, 0.02])
@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_a_slow_approach_is_hardly_ever_called_settled(deviation: float, correlation: float) -> None:
    """Time constant 200 s, 120 s seen: half of the way is left, though 10 s show little of it."""
    random = np.random.default_rng(2)
    wrong = 0
    for _ in range(40):
        signal = 0.9 - 0.6 * np.exp(-np.arange(120) / 200)
        wrong += warm_up(signal + noise(random, 120, correlation, deviation)) is not None
    assert wrong <= 2


@pytest.mark.parametrize(
    ("growth_ratio", "deviation", "at_most"),
    # The middle one is near the limit of detection: ten values of it drift by 3 % and scatter by 1 %.
    [(0.2, 0.5, 1), (0.2, 1.0, 5), (1.0, 1.0, 1)],
)
def test_a_steady_climb_is_not_settled(growth_ratio: float, deviation: float, at_most: int) -> None:
    random = np.random.default_rng(3)
    climb = 100 * (1 + growth_ratio * np.linspace(0, 1, 60))
    ends = [warm_up(climb + noise(random, 60, 0.3, deviation)) for _ in range(40)]
    assert sum(ended is not None for ended in ends) <= at_most


@pytest.mark.parametrize(("deviation_ratio", "correlation", "latest"), [(0.002, 0.0, 12), (0.01, 0.5, 40)])
def test_a_plateau_is_seen_without_delay(deviation_ratio: float, correlation: float, latest: int) -> None:
    random = np.random.default_rng(4)
    ends = [warm_up(1 + noise(random, 120, correlation, deviation_ratio)) for _ in range(40)]
    found = [ended[0] for ended in ends if ended is not None]
    assert len(found) >= 39
    assert np.median(found) <= latest


def test_a_step_in_mid_stretch_is_not_a_plateau_and_is_one_later() -> None:
    before = [0.5] * 30
    assert steady.settled(before + [0.9] * 5) is None
    found = steady.settled(before + [0.9] * 40)
    assert found is not None
    assert found.index >= 30
    assert found.level == pytest.approx(0.9)


def test_noise_above_the_tolerance_never_settles() -> None:
    random = np.random.default_rng(5)
    assert all(warm_up(1 + noise(random, 100, 0.0, 0.3)) is None for _ in range(40))


def test_a_constant_settles_at_once_even_at_zero() -> None:
    for level in (0.0, 0.25, -3.0):
        found = steady.settled([level] * 10)
        assert found is not None
        assert (found.index, found.level, found.drift_ratio) == (0, level, 0.0)
    assert steady.settled([0.5] * 9) is None
    assert steady.settled([1.0, -1.0] * 10) is None


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="windows"):
        steady.settled([1.0] * 20, windows=3)
    with pytest.raises(ValueError, match="tolerance"):
        steady.settled([1.0] * 20, tolerance_ratio=0)
    with pytest.raises(ValueError, match="finite"):
        steady.check([1.0, float("nan")] * 10)


def rate(count: int, correlation: float, change: Series, trials: int = 400) -> float:
    """Share of series of level 100 and standard deviation 5 that are called unsteady."""
    random = np.random.default_rng(count)
    series = (100 + change + noise(random, count, correlation, 5.0) for _ in range(trials))
    return sum(steady.check(values.tolist()).steady is False for values in series) / trials


def passed(count: int, correlation: float, change: Series, trials: int = 400) -> float:
    """Share of such series that are called steady."""
    random = np.random.default_rng(count)
    series = (100 + change + noise(random, count, correlation, 5.0) for _ in range(trials))
    return sum(steady.check(values.tolist()).steady is True for values in series) / trials


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("count", [8, 10, 20, 60, 180])
def test_stationary_noise_is_seldom_called_unsteady(count: int, correlation: float) -> None:
    # The table of docs/journal/0170 has at most 0.05; two standard errors of 400 trials are allowed on top.
    assert rate(count, correlation, np.zeros(count)) <= 0.07


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
@pytest.mark.parametrize(("count", "deviation"), [(8, 2.0), (10, 3.0), (20, 3.0), (60, 5.0), (180, 5.0)])
def test_a_mean_that_is_known_is_not_objected_to(count: int, deviation: float, correlation: float) -> None:
    """Where the mean is known to 5 %, nothing is left open: a drift that may be chance is none."""
    random = np.random.default_rng(count)
    series = [100 + noise(random, count, correlation, deviation) for _ in range(400)]
    open_ones = sum(steady.check(values.tolist()).steady is None for values in series)
    assert open_ones / 400 <= 0.05
    assert 2 * np.std([values.mean() for values in series]) <= 5.0


@pytest.mark.parametrize(("count", "correlation"), [(8, 0.0), (10, 0.3), (20, 0.3), (40, 0.6)])
def test_a_mean_that_nobody_knows_is_not_called_steady(count: int, correlation: float) -> None:
    random = np.random.default_rng(count)
    series = [100 + noise(random, count, correlation, 30.0) for _ in range(400)]
    assert 2 * np.std([values.mean() for values in series]) >= 10.0
    assert sum(steady.check(values.tolist()).steady is True for values in series) / 400 <= 0.06


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
@pytest.mark.parametrize(("count", "deviation"), [(10, 2.0), (20, 3.0), (60, 3.0)])
def test_a_change_that_moves_the_mean_by_a_tenth_is_found(
    count: int, deviation: float, correlation: float
) -> None:
    half = np.where(np.arange(count) < count // 2, 0.0, -20.0)
    third = np.where(np.arange(count) < count // 3, 0.0, -20.0)
    for change in (half, third, np.linspace(0, -25, count)):
        random = np.random.default_rng(count)
        series = [100 + change + noise(random, count, correlation, deviation) for _ in range(200)]
        # 5 %, and two standard errors of 200 trials on top.
        assert sum(steady.check(values.tolist()).steady is True for values in series) / 200 <= 0.08


@pytest.mark.parametrize(
    ("count", "correlation", "at_most"), [(20, 0.0, 0.45), (60, 0.3, 0.03), (180, 0.6, 0.03)]
)
def test_a_change_of_three_deviations_is_objected_to(count: int, correlation: float, at_most: float) -> None:
    step = np.where(np.arange(count) < count // 3, 0.0, -15.0)
    assert passed(count, correlation, step) <= at_most
    assert passed(count, correlation, np.linspace(0, 20, count)) <= at_most


def test_a_change_below_the_tolerance_is_no_matter_however_certain() -> None:
    values = [100.0 + (index % 2) * 0.1 for index in range(20)] + [
        102.0 + (index % 2) * 0.1 for index in range(20)
    ]
    assert steady.check(values).steady is True
    result = steady.check(values, tolerance_ratio=0.01)
    assert (result.steady, result.changepoint_index) == (False, 20)
    assert result.shift_ratio == pytest.approx(0.02, rel=0.05)


def test_a_line_is_called_a_drift_and_a_step_a_shift() -> None:
    random = np.random.default_rng(6)
    line = steady.check((np.linspace(90, 110, 60) + noise(random, 60, 0.0, 1.0)).tolist())
    assert (line.steady, line.changepoint_index) == (False, None)
    assert line.drift_ratio == pytest.approx(0.2, abs=0.02)
    assert "drifts" in line.reason
    step = steady.check((np.repeat([90.0, 110.0], [40, 20]) + noise(random, 60, 0.0, 1.0)).tolist())
    assert (step.steady, step.changepoint_index) == (False, 40)
    assert "shifts" in step.reason


def test_a_dip_and_a_cycle_have_their_names() -> None:
    random = np.random.default_rng(9)
    values = 100 + noise(random, 60, 0.0, 2.0)
    dip = steady.check((values - 20 * ((np.arange(60) >= 30) & (np.arange(60) < 36))).tolist())
    assert (dip.steady, dip.dip_indices) == (False, (30, 36))
    assert dip.dip_ratio == pytest.approx(-0.2, abs=0.03)
    assert "dips by -" in dip.reason
    cycle = steady.check((values + 20 * np.sin(2 * np.pi * np.arange(60) / 15)).tolist())
    assert (cycle.steady, cycle.dip_ratio) == (False, None)
    assert cycle.cycle_ratio == pytest.approx(0.2, abs=0.03)
    assert cycle.cycle_period == pytest.approx(15, abs=1)


def test_too_few_values_are_neither_steady_nor_unsteady() -> None:
    result = steady.check([1.0, 2.0, 3.0])
    assert result.steady is None
    assert result.reason == "3 intervals are too few; at least 8 are needed"
    assert steady.has_trend([1.0, 2.0, 3.0]) is None
    assert steady.check([0.0, 0.0, 1.0] * 4).steady is None
    assert steady.check([0.0] * 12).steady is True


def test_a_drift_that_may_be_chance_is_reported_and_does_not_object() -> None:
    random = np.random.default_rng(8)
    answers = [steady.check((100 + noise(random, 8, 0.0, 4.0)).tolist()) for _ in range(200)]
    drifting = [one for one in answers if one.steady is True and abs(one.drift_ratio or 0) > 0.05]
    assert len(drifting) > 20
    assert all("may be chance" in one.reason for one in drifting)
    noisy = steady.check((100 + noise(random, 8, 0.0, 40.0)).tolist())
    assert noisy.steady is None
    assert "vary too much" in noisy.reason


@settings(max_examples=60)
@given(
    st.lists(st.floats(min_value=1, max_value=1e6), min_size=8, max_size=60),
    st.sampled_from([0.001, 0.5, 4.0, 1024.0]),
)
def test_the_unit_of_the_series_does_not_matter(values: list[float], scale: float) -> None:
    plain, scaled = steady.check(values), steady.check([value * scale for value in values])
    assert plain.steady == scaled.steady
    assert plain.changepoint_index == scaled.changepoint_index
    assert plain.drift_ratio == pytest.approx(scaled.drift_ratio, rel=1e-6, abs=1e-9)


@settings(max_examples=60)
@given(st.lists(st.floats(min_value=1, max_value=1e6), min_size=8, max_size=60))
def test_a_plateau_lies_in_the_series_and_within_its_bounds(values: list[float]) -> None:
    found = steady.settled(values, tolerance_ratio=0.5)
    if found is not None:
        stretch = values[found.index :]
        assert len(stretch) >= 10
        assert min(stretch) * (1 - 1e-9) <= found.level <= max(stretch) * (1 + 1e-9)
        assert abs(found.drift_ratio) <= found.drift_bound_ratio <= 0.5
