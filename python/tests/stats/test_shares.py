"""Shares by clusters against closed forms, and where nothing is stated."""

import numpy as np
import pytest

from steelyard.stats.entropy import bits_of, entropy_of
from steelyard.stats.shares import LEAST_HOLDERS, Clusters, Parts, Shares, shares_of, without_skew


def shares(y: np.ndarray, x: np.ndarray) -> Shares:
    products = (y, y * y, y * x, y**3, y * y * x, y * x * x)
    parts = Parts(*(np.array([product.sum()]) for product in products))
    return shares_of(parts, Clusters(len(x), float(x.sum()), float((x**2).sum()), float((x**3).sum())))


def test_clusters_of_equal_weight_have_the_variance_of_a_mean() -> None:
    y = np.random.default_rng(1).uniform(0.1, 0.4, 12)
    found = shares(y, np.ones(12))
    assert found.ratio[0] == pytest.approx(y.mean())
    assert found.error[0] == pytest.approx(y.std(ddof=1) / 12**0.5)
    assert found.low[0] < y.mean() < found.high[0]


@pytest.mark.parametrize("weight", [1e-9, 1.0, 1e22])
def test_the_unit_of_weights_does_not_matter(weight: float) -> None:
    random = np.random.default_rng(2)
    x = random.gamma(4.0, 1.0, 30)
    y = x * random.beta(1.0, 6.0, 30)
    one, other = shares(y, x), shares(y * weight, x * weight)
    assert (other.low[0], other.high[0]) == pytest.approx((one.low[0], one.high[0]))


def test_what_few_clusters_have_is_not_stated() -> None:
    y = np.zeros(40)
    y[:3] = 0.5
    found = shares(y, np.ones(40))
    assert found.holders[0] == pytest.approx(3)
    assert np.isnan(found.low[0])
    y[3] = 0.5
    assert shares(y, np.ones(40)).holders[0] == pytest.approx(LEAST_HOLDERS)
    assert 0 < shares(y, np.ones(40)).low[0] < 0.05 < shares(y, np.ones(40)).high[0]
    # All but three clusters have it alone: whether others do is as little known.
    assert np.isnan(shares(1 - np.where(np.arange(40) < 3, 0.5, 0.0), np.ones(40)).low[0])


def test_shares_of_all_and_of_equal_clusters_have_an_interval() -> None:
    whole = shares(np.ones(10), np.ones(10))
    assert whole.high[0] == 1.0
    assert 0.5 < whole.low[0] < 1.0
    same = shares(np.full(10, 0.3), np.ones(10))
    assert same.low[0] < 0.3 < same.high[0]


def test_one_cluster_says_nothing_of_others() -> None:
    found = shares(np.array([1.0]), np.array([4.0]))
    assert found.ratio[0] == 0.25
    assert np.isnan([found.low[0], found.high[0], found.error[0]]).all()


def test_a_right_tail_moves_the_interval_up() -> None:
    z = 2.0
    assert without_skew(-z, np.array([0.5]))[0] < -z
    assert without_skew(z, np.array([0.5]))[0] < z


def test_entropy_of_groups_that_are_all_alike_has_no_bias() -> None:
    weights = np.outer([1.0, 1.0, 2.0], np.ones(10))
    found = entropy_of(weights, 0.0)
    assert found.value == pytest.approx(1.5)
    assert found.low == pytest.approx(1.5)
    assert found.high == pytest.approx(1.5)


def test_entropy_says_why_it_has_no_interval() -> None:
    weights = np.eye(4)
    assert "one machine only" in str(entropy_of(np.ones((3, 1)), 0.0).missing)
    assert "4 machines" in str(entropy_of(weights, 1.0).missing)
    assert "30% of the weight" in str(entropy_of(np.ones((3, 9)), 0.3).missing)
    assert entropy_of(weights, 1.0).value >= bits_of(weights.sum(axis=1))
