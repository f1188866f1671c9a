"""Correlation with lag, against closed forms and against what unrelated series show by chance."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import telemetry
from steelyard.analyze.operations.series_correlation import (
    Floats,
    TimeSeries,
    at_lag,
    autocorrelations,
    correlate,
    effective_pairs,
    strongest,
)
from tests.telemetry.recordings import SECOND, table_of, write_recording


def series(name: str, values: Floats, *, begin_s: float = 0, step_s: float = 1) -> TimeSeries:
    times = ((begin_s + step_s * np.arange(len(values))) * SECOND).astype(np.int64)
    return TimeSeries.of(name, "1", times, values)


def autoregressive(rng: np.random.Generator, count: int, phi: float) -> Floats:
    values = np.empty(count)
    values[0] = rng.normal() / math.sqrt(1 - phi**2)
    noise = rng.normal(size=count)
    for index in range(1, count):
        values[index] = phi * values[index - 1] + noise[index]
    return values


def test_a_shifted_copy_correlates_fully_at_its_shift() -> None:
    values = np.random.default_rng(1).normal(size=200)
    copy = 3 * np.roll(values, 4) + 100
    found = correlate(series("ops", values), series("disk", copy), most_lag_ns=10 * SECOND)
    assert found.best is not None
    assert found.best.lag_ns == 4 * SECOND
    assert found.best.r == pytest.approx(1)
    assert found.distinguishable
    assert found.claim == "ops and disk correlate at 1.00, disk follows ops by 4 s"
    back = correlate(series("disk", -copy), series("ops", values), most_lag_ns=10 * SECOND)
    assert back.best is not None
    assert (back.best.lag_ns, back.best.r) == (-4 * SECOND, pytest.approx(-1))


def test_sines_correlate_by_the_cosine_of_their_phase() -> None:
    period, count = 20, 4000
    steps = 2 * math.pi * np.arange(count) / period
    first, second = np.sin(steps), np.sin(steps - 2 * math.pi * 3 / period)
    for lag in range(-10, 11):
        found = at_lag(first, second, lag)
        assert found.r == pytest.approx(math.cos(2 * math.pi * (lag - 3) / period), abs=0.002)


def test_white_noise_has_fishers_interval() -> None:
    rng = np.random.default_rng(2)
    shared, first, second = rng.normal(size=(3, 2000))
    found = at_lag(shared + first, shared + second, 0)
    assert found.r == pytest.approx(0.5, abs=0.05)
    assert found.effective_pairs == pytest.approx(2000, rel=0.1)
    half = 1.959964 / math.sqrt((found.effective_pairs or 0) - 3)
    assert found.low == pytest.approx(math.tanh(math.atanh(found.r or 0) - half), abs=0.01)
    assert found.high == pytest.approx(math.tanh(math.atanh(found.r or 0) + half), abs=0.01)


@pytest.mark.parametrize(("one", "other"), [(0.9, 0.9), (0.8, 0.5), (0.6, -0.6), (0.0, 0.9)])
def test_effective_pairs_of_autoregressive_series_have_the_closed_form(one: float, other: float) -> None:
    # Bartlett: n (1 - a b) / (1 + a b) for coefficients a and b; more than n is taken as n.
    rng = np.random.default_rng(3)
    count = 3000
    found = [
        effective_pairs(first - first.mean(), second - second.mean())
        for first, second in (
            (autoregressive(rng, count, one), autoregressive(rng, count, other)) for _ in range(20)
        )
    ]
    expected = min(1.0, (1 - one * other) / (1 + one * other))
    assert np.mean(found) / count == pytest.approx(expected, rel=0.15)


def test_autocorrelation_of_an_autoregressive_series() -> None:
    values = autoregressive(np.random.default_rng(4), 20_000, 0.8)
    found = autocorrelations(values - values.mean(), 5)
    assert found == pytest.approx(0.8 ** np.arange(6), abs=0.03)
    direct = values - values.mean()
    assert found[3] == pytest.approx((direct[:-3] * direct[3:]).sum() / (direct**2).sum())


def test_unrelated_series_with_memory_are_rarely_called_correlated() -> None:
    rng = np.random.default_rng(5)
    trials, wrong, naive = 400, 0, 0
    for _ in range(trials):
        first, second = autoregressive(rng, 120, 0.9), autoregressive(rng, 120, 0.9)
        found = at_lag(first, second, 0)
        wrong += found.low is not None and (found.low > 0 or (found.high or 0) < 0)
        naive += abs(found.r or 0) > math.tanh(1.96 / math.sqrt(117))
    # Taking all pairs for independent would be wrong half of the time.
    assert naive / trials > 0.35
    assert wrong / trials <= 0.10


def test_looking_at_many_lags_finds_no_more_by_chance() -> None:
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(100):
        first, second = rng.normal(size=(2, 150))
        found = correlate(series("a", first), series("b", second), most_lag_ns=20 * SECOND)
        wrong += bool(found.distinguishable)
    assert wrong <= 10


def test_series_of_different_steps_and_spans_meet_in_bins_of_the_wider() -> None:
    steps = np.arange(0, 120, 0.1)
    fine = series("latency", np.sin(steps / 5), step_s=0.1)
    coarse = series("queue", np.sin((np.arange(100) + 10.5) / 5), begin_s=10)
    found = correlate(fine, coarse)
    assert found.bin_ns == SECOND
    assert found.best is not None
    assert found.best.pairs == 100
    assert found.best.r == pytest.approx(1, abs=0.01)


def test_gaps_are_left_out_of_pairs() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=100)
    holes = values.copy()
    holes[20:40] = np.nan
    found = at_lag(values, holes, 0)
    assert (found.pairs, found.r) == (80, pytest.approx(1))


def test_what_cannot_be_correlated_has_a_reason() -> None:
    moving = series("a", np.arange(20.0))
    constant = correlate(moving, series("b", np.full(20, 5e9 / 3)))
    assert constant.best is None
    assert constant.distinguishable is None
    assert constant.claim == "a and b: the second series is constant"
    short = correlate(series("a", np.arange(5.0)), series("b", np.arange(5.0)))
    assert short.missing == "5 pairs of values, fewer than 8"
    apart = correlate(moving, series("b", np.arange(20.0), begin_s=100))
    assert apart.missing == "the series do not overlap in time, or one has no two values"
    empty = correlate(moving, series("b", np.full(20, np.nan)))
    assert empty.missing == apart.missing
    with pytest.raises(ValueError, match="lag is not negative"):
        correlate(moving, moving, most_lag_ns=-1)
    with pytest.raises(ValueError, match="times for"):
        TimeSeries.of("x", "1", [1, 2], [1.0])


def test_two_trends_are_worth_few_pairs_whatever_the_number_of_readings() -> None:
    rng = np.random.default_rng(8)
    rising = correlate(
        series("a", np.arange(60.0) + rng.normal(size=60)), series("b", np.arange(60.0) + rng.normal(size=60))
    )
    assert rising.best is not None
    assert (rising.best.effective_pairs or 0) < 10


def test_telemetry_against_an_application_on_one_axis(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    load = rng.integers(1, 50, size=60)
    rows = [{"time_ns": tick * SECOND, "runnable": int(load[tick]), "blocked": 0} for tick in range(60)]
    write_recording(tmp_path, {"scheduler": table_of("scheduler", rows)})
    with telemetry.open(tmp_path) as recording:
        [entity] = recording.series("scheduler", 0, 59 * SECOND, ["runnable"]).entities
        queue = TimeSeries.of("run queue", "1", entity.time_ns, entity.bands["runnable"].mean)
    latency = series("latency", np.concatenate([[5.0, 5.0], 2.0 * load[:-2] + rng.normal(size=58)]))
    found = correlate(queue, latency, most_lag_ns=5 * SECOND)
    assert found.best is not None
    assert found.best.lag_ns == 2 * SECOND
    noise = correlate(series("noise", rng.normal(size=60)), latency, most_lag_ns=5 * SECOND)
    assert [each.first for each in strongest([noise, found])] == ["run queue"]


numbers = st.lists(st.floats(min_value=-1e6, max_value=1e6) | st.just(math.nan), min_size=1, max_size=40)


@given(numbers, numbers, st.integers(min_value=-50, max_value=50))
def test_any_series_give_a_correlation_inside_its_interval_or_a_reason(
    first: list[float], second: list[float], lag: int
) -> None:
    found = at_lag(np.array(first), np.array(second), lag)
    if found.r is None:
        assert found.missing
    else:
        assert -1 <= found.r <= 1
        assert 0 < (found.effective_pairs or 0) <= found.pairs
        if found.low is not None and found.high is not None:
            assert found.low <= found.r + 1e-9
            assert found.r - 1e-9 <= found.high


@given(st.lists(st.floats(min_value=-1e3, max_value=1e3), min_size=10, max_size=40), st.integers(-5, 5))
def test_swapping_the_series_mirrors_the_lags(values: list[float], lag: int) -> None:
    first = np.array(values)
    second = np.cos(np.arange(len(values)))
    one, other = at_lag(first, second, lag), at_lag(second, first, -lag)
    assert (one.r is None) == (other.r is None)
    if one.r is not None:
        assert one.r == pytest.approx(other.r, abs=1e-9)
