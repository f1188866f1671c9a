"""Intervals and siblings: against closed forms, and against leaving each machine out by hand."""

import numpy as np
import pytest

from steelyard.decide.projection.intervals import quantile, scores_for, sibling_scores
from steelyard.decide.projection.kriging import Covariance, fit_covariance
from steelyard.decide.projection.learn import weights_of
from steelyard.decide.projection.siblings import _left_out_error, siblings_of
from tests.decide.projection.fleets import features

MODEL = Covariance(0.04, 0.02, 0.8, 0.01)


@pytest.mark.parametrize("count", [4, 9, 19, 40])
def test_of_machines_of_their_own_the_quantile_is_that_of_split_conformal(count: int) -> None:
    scores = np.random.default_rng(count).permutation(count) + 1.0
    groups = np.array([f"g{at}" for at in range(count)])
    assert quantile(scores, groups, 0.8) == np.ceil(0.8 * (count + 1))


def test_too_few_groups_have_no_quantile() -> None:
    groups = np.repeat(["a", "b", "c"], 50)
    assert quantile(np.arange(150.0), groups, 0.8) is None
    assert quantile(np.arange(150.0), groups, 0.75) == 149
    assert quantile(np.zeros(0), np.zeros(0, str), 0.8) is None


def test_a_group_weighs_by_the_square_root_of_its_machines() -> None:
    groups = np.array(["a"] * 9 + ["b", "c", "d"])
    assert list(weights_of(groups)) == pytest.approx([1 / 3] * 9 + [1, 1, 1])
    # a weighs 3 of 6; with one more group counted, 4 of 5 of the weight are at most 0.8.
    scores = np.array([*np.linspace(0.1, 0.9, 9), 2.0, 3.0, 4.0])
    assert quantile(scores, groups, 0.4) == pytest.approx(0.9)
    assert quantile(scores, groups, 0.41) == 2.0
    assert quantile(scores, groups, 0.8) == 4.0


def test_quantile_holds_the_stated_share_of_new_groups() -> None:
    random = np.random.default_rng(8)
    held = []
    for _ in range(1500):
        level = np.exp(random.normal(size=8))
        scores = np.abs(np.repeat(level, 3) * random.normal(size=24))
        found = quantile(scores, np.repeat([f"g{at}" for at in range(8)], 3), 0.8)
        assert found is not None
        held.append(abs(np.exp(random.normal()) * random.normal()) <= found)
    assert 0.78 <= np.mean(held) <= 0.92


def test_one_sibling_gives_the_closed_form_of_kriging() -> None:
    mean, variance = MODEL.predict(np.log([8.0]), np.log([4.0]), np.array([0.3]))
    shared = 0.04 + 0.02 * np.exp(-0.5 * (np.log(2) / 0.8) ** 2)
    assert mean[0] == pytest.approx(shared / 0.07 * 0.3)
    assert variance[0] == pytest.approx(0.07 - shared**2 / 0.07)


def test_without_siblings_nothing_is_known() -> None:
    mean, variance = MODEL.predict(np.log([8.0, 16.0]), np.zeros(0), np.zeros(0))
    assert list(mean) == [0, 0]
    assert list(variance) == pytest.approx([0.07, 0.07])


def test_kriging_is_the_mean_of_the_normal_distribution_given_siblings() -> None:
    random = np.random.default_rng(2)
    sizes, residuals = random.uniform(0, 4, 6), random.normal(size=6) * 0.2
    whole = MODEL.between(sizes, sizes) + MODEL.noise * np.eye(6)
    mean, variance = MODEL.predict(sizes[:1], sizes[1:], residuals[1:])
    # The conditional normal distribution from the inverse of the whole matrix.
    precision = np.linalg.inv(whole)
    assert variance[0] == pytest.approx(1 / precision[0, 0])
    assert mean[0] == pytest.approx(-precision[0, 1:] @ residuals[1:] / precision[0, 0])


def test_left_out_errors_are_those_of_brute_force() -> None:
    random = np.random.default_rng(3)
    groups = np.array(["a"] * 5 + ["b"] * 3 + ["alone"])
    sizes, residuals = random.uniform(0, 4, 9), random.normal(size=9) * 0.2
    errors, weights = [], []
    for at in range(8):
        others = (groups == groups[at]) & (np.arange(9) != at)
        mean, _ = MODEL.predict(sizes[at : at + 1], sizes[others], residuals[others])
        errors.append(abs(residuals[at] - mean[0]))
        weights.append(float((groups == groups[at]).sum()) ** -0.5)
    found = _left_out_error(MODEL, residuals, groups, sizes)
    assert found == pytest.approx(float(np.average(errors, weights=weights)))


def test_the_covariance_of_made_up_residuals_is_found() -> None:
    random = np.random.default_rng(4)
    groups = np.repeat([f"g{at}" for at in range(60)], 8)
    sizes = random.uniform(0, 4, len(groups))
    residuals = np.zeros(len(groups))
    for group in np.unique(groups):
        at = groups == group
        matrix = MODEL.between(sizes[at], sizes[at]) + MODEL.noise * np.eye(8)
        residuals[at] = random.multivariate_normal(np.zeros(8), matrix)
    found = fit_covariance(residuals, groups, sizes)
    assert found is not None
    assert found.level == pytest.approx(MODEL.level, rel=0.4)
    assert found.noise == pytest.approx(MODEL.noise, rel=0.4)
    assert found.level + found.shape + found.noise == pytest.approx(0.07, rel=0.3)


def test_groups_of_one_machine_have_no_covariance() -> None:
    assert fit_covariance(np.ones(5), np.array(list("abcde")), np.zeros(5)) is None


def test_residuals_shared_by_a_group_vanish_with_one_sibling() -> None:
    random = np.random.default_rng(5)
    groups = np.repeat([f"g{at}" for at in range(30)], 4)
    shared = np.repeat(random.normal(size=30) * 0.5, 4)
    sizes = np.tile(np.log([2.0, 4, 8, 16]), 30)
    covariance = fit_covariance(shared + 1e-3 * random.normal(size=120), groups, sizes)
    assert covariance is not None
    scores = sibling_scores(covariance, shared, np.full(120, 0.4), groups, sizes)
    assert [one.count for one in scores] == [1, 2, 3]
    assert np.median(np.abs(scores[0].errors)) < 0.01
    assert scores_for(scores, 0) is None
    assert scores_for(scores, 99) is scores[2]


def test_the_base_is_a_law_where_it_follows_better_than_the_model() -> None:
    random = np.random.default_rng(6)
    groups = np.repeat([f"g{at}" for at in range(8)], 5)
    sizes = np.tile(np.log([1.0, 2, 4, 8, 16]), 8)
    level = np.repeat(random.normal(size=8), 5)
    target = 0.9 * sizes + level + 0.01 * random.normal(size=40)
    poor = target + random.normal(size=40)
    found = siblings_of(features(sizes), target, poor, np.full(40, 0.8), groups, sizes, 0.8)
    assert found is not None
    assert found.base == "cpus"
    assert found.law is not None
    assert np.polyfit(sizes, found.law, 1)[0] == pytest.approx(0.9, abs=0.02)
    good = target - level + 0.001 * random.normal(size=40)
    kept = siblings_of(features(sizes), target, good, np.full(40, 0.8), groups, sizes, 0.8)
    assert kept is not None
    assert kept.law is None
