"""Distances of two values: a metric in the mathematical sense, whatever the values."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.decide.fidelity.catalogue import CATALOGUE, FUNCTIONS, GROUPS, Kind
from steelyard.decide.fidelity.distance import common_parts, shares_of, signed_distance, total_variation
from steelyard.decide.fidelity.noise import Spread, effective_count, folded
from steelyard.decide.fidelity.workload import Replicate

POSITIVE = st.floats(1e-6, 1e15)
SHARES = st.floats(0, 1)
MAGNITUDES = st.sampled_from([each for each in CATALOGUE.values() if each.kind is Kind.MAGNITUDE])
MIXES = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=2), st.floats(0.001, 1), min_size=1).map(
    lambda parts: {name: share / sum(parts.values()) for name, share in parts.items()}
)


@given(MAGNITUDES, POSITIVE, POSITIVE, POSITIVE)
def test_magnitudes_are_symmetric_zero_for_the_same_and_monotone(metric, a, b, c) -> None:
    ab, ba = signed_distance(metric, a, b), signed_distance(metric, b, a)
    assert ab is not None
    assert ba is not None
    assert ab == pytest.approx(-ba, abs=1e-12)
    assert signed_distance(metric, a, a) == 0
    low, middle, high = sorted((a, b, c))
    near, far = signed_distance(metric, middle, low), signed_distance(metric, high, low)
    assert near is not None
    assert far is not None
    assert near <= far + 1e-12


@given(POSITIVE, POSITIVE, POSITIVE)
def test_a_detour_is_never_shorter(a, b, c) -> None:
    metric = CATALOGUE["throughput_per_s"]
    direct, first, second = (abs(signed_distance(metric, *pair) or 0.0) for pair in ((a, c), (a, b), (b, c)))
    assert direct <= first + second + 1e-9


@given(MIXES, MIXES)
def test_total_variation_is_symmetric_bounded_and_zero_for_the_same(
    a: Mapping[str, float], b: Mapping[str, float]
) -> None:
    assert total_variation(a, b) == pytest.approx(total_variation(b, a), abs=1e-12)
    assert 0 <= total_variation(a, b) <= 1 + 1e-9
    assert total_variation(a, a) == pytest.approx(0, abs=1e-12)


@given(MIXES, MIXES)
def test_the_shares_that_are_compared_are_the_whole(a: Mapping[str, float], b: Mapping[str, float]) -> None:
    names = common_parts(a, b)
    assert sum(shares_of(a, names)) == pytest.approx(1)
    assert sum(shares_of(b, names)) == pytest.approx(1)


@given(SHARES, SHARES)
def test_shares_differ_by_points(a: float, b: float) -> None:
    assert signed_distance(CATALOGUE["cpu_user_ratio"], a, b) == a - b


def test_zero_has_no_ratio_but_one_with_a_floor() -> None:
    assert signed_distance(CATALOGUE["ipc"], 0.0, 1.0) is None
    found = signed_distance(CATALOGUE["context_switches_per_s"], 0.0, 1.0)
    assert found == pytest.approx(-math.log(2))


def test_mixes_without_a_common_name_are_a_whole_apart() -> None:
    assert total_variation({"a": 1.0}, {"b": 1.0}) == 1.0


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=40), st.floats(-3, 3))
def test_an_interval_holds_its_distance(values: list[float], delta: float) -> None:
    series = np.array(values) - np.mean(values)
    spread = Spread(series, Replicate.WINDOW)
    found = folded(delta, spread, spread)
    if found.low is not None:
        assert found.high is not None
        assert 0 <= found.low <= found.distance + 1e-12
        assert found.distance <= found.high + 1e-12


def test_windows_that_resemble_each_other_are_worth_fewer() -> None:
    alike = np.repeat([1.0, -1.0, 1.0, -1.0], 10)
    assert effective_count(alike) < 10
    assert effective_count(np.tile([1.0, -1.0], 20)) == 40


def test_every_metric_of_the_catalogue_has_a_group_and_words() -> None:
    for name, metric in CATALOGUE.items():
        assert metric.group in GROUPS, name
        assert metric.title, name
        assert metric.moved_by, name
    assert CATALOGUE[FUNCTIONS].kind is Kind.MIX
