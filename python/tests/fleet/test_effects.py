"""Effects within strata: the truth within intervals as often as they say, and confounding taken out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.fleet.effects import correlation, holm, stratified_effect


def sums_of(x, y, strata, clusters):
    """Return the sums of each (stratum, cluster), as an engine makes them."""
    keys, group = np.unique(np.stack([strata, clusters]), axis=1, return_inverse=True)
    group = group.ravel()
    of = {"n": np.ones(len(x)), "x": x, "xx": x * x, "y": y, "xy": x * y, "yy": y * y}
    return keys[0], keys[1], {name: np.bincount(group, weights=values) for name, values in of.items()}


def fleet_of(random, effect, machines=60, samples=40, strata=4, shared=0.05):
    """Return x, y, strata, machines: bases of strata, quirks of machines, noise of samples."""
    clusters = np.repeat(np.arange(machines), samples)
    stratum = random.integers(0, strata, len(clusters))
    # Busy strata are slower, and have more local memory: the raw slope has the wrong sign.
    x = np.clip(random.beta(2, 2, len(clusters)) - 0.12 * stratum + 0.3, 0, 1)
    quirk = 1 + shared * random.standard_normal(machines)[clusters]
    base = np.array([1.0, 1.3, 1.7, 2.2])[stratum]
    y = base * (1 + effect * x) * quirk * (1 + 0.1 * random.standard_normal(len(clusters)))
    return x, y, stratum, clusters


def test_the_truth_is_in_the_interval_as_often_as_it_says():
    random = np.random.default_rng(11)
    held, width, naive = 0, [], 0
    for _ in range(300):
        x, y, strata, clusters = fleet_of(random, 0.3)
        one = stratified_effect(*sums_of(x, y, strata, clusters))
        held += one.low <= 0.3 <= one.high
        width.append(one.high - one.low)
        raw = stratified_effect(*sums_of(x, y, np.zeros_like(strata), clusters))
        naive += raw.low <= 0.3 <= raw.high
    assert 0.91 <= held / 300 <= 0.98, held / 300
    assert np.mean(width) < 0.1
    assert naive / 300 < 0.05, "without strata, load speaks instead"


def test_without_noise_the_effect_is_exact_whatever_the_bases():
    random = np.random.default_rng(1)
    strata = np.repeat([0, 1, 2], 20)
    x = random.random(60)
    y = np.array([1.0, 5.0, 0.2])[strata] * (1 + 0.4 * x)
    one = stratified_effect(*sums_of(x, y, strata, np.arange(60) % 12))
    assert one.value == pytest.approx(0.4)
    assert one.low == pytest.approx(0.4)
    assert one.strata == 3
    assert one.machines == 12
    assert one.at(0.5)[0] == pytest.approx(1.2)


def test_alike_samples_of_a_machine_are_not_taken_for_many():
    random = np.random.default_rng(5)
    x, y, strata, clusters = fleet_of(random, 0.0, shared=0.2)
    # A machine's x is its own: more samples of it do not separate what the machine does to y from x.
    x = random.random(60)[clusters]
    y = y / (1 + 0.0 * x)
    apart = stratified_effect(*sums_of(x, y, strata, np.arange(len(x))))
    together = stratified_effect(*sums_of(x, y, strata, clusters))
    assert together.value == pytest.approx(apart.value)
    assert together.standard_error > 3 * apart.standard_error


@given(st.floats(0.1, 10), st.floats(-0.5, 2))
def test_units_of_the_figure_do_not_matter(unit, effect):
    random = np.random.default_rng(2)
    x, y, strata, clusters = fleet_of(random, effect, machines=12, samples=5)
    rows = sums_of(x, y, strata, clusters)
    scaled = sums_of(x, y * unit, strata, clusters)
    assert stratified_effect(*scaled).value == pytest.approx(
        stratified_effect(*rows).value, rel=1e-6, abs=1e-9
    )
    assert stratified_effect(*scaled).standard_error == pytest.approx(stratified_effect(*rows).standard_error)


def test_without_enough_data_there_is_no_effect():
    nothing = np.zeros(0, dtype=np.int64)
    assert (
        stratified_effect(nothing, nothing, {name: np.zeros(0) for name in ("n", "x", "xx", "y", "xy")})
        is None
    )
    same = sums_of(np.full(10, 0.7), np.arange(10) + 1.0, np.zeros(10, dtype=int), np.arange(10))
    assert stratified_effect(*same) is None
    one = stratified_effect(
        *sums_of(np.arange(10) / 10, np.arange(10) + 5.0, np.zeros(10, int), np.zeros(10, int))
    )
    assert one.low is None
    assert one.reason == "samples of one machine only"
    few = stratified_effect(
        *sums_of(np.arange(10) / 10, np.arange(10) + 5.0, np.zeros(10, int), np.arange(10) % 2)
    )
    assert few.low is None
    assert "samples of 2 machines" in few.reason


def test_correlation_is_pearsons():
    random = np.random.default_rng(4)
    x = random.random(200)
    y = 3 + x + random.random(200)
    strata, _, sums = sums_of(x, y, np.zeros(200, int), np.arange(200) % 7)
    assert correlation(strata, sums) == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert correlation(strata[:1], {name: values[:1] * 0 for name, values in sums.items()}) is None


def test_holm_is_never_below_the_p_value_and_keeps_its_order():
    p = np.array([0.001, 0.2, 0.04, 0.04])
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert adjusted.tolist() == pytest.approx([0.004, 0.2, 0.12, 0.12])
    assert len(holm(np.zeros(0))) == 0
