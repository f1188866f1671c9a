"""Sample-ratio mismatch: closed forms, rates by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from steelyard.stats import assignment
from steelyard.stats.assignment import (
    share_mismatch,
    split_mismatch,
    uneven_shares,
    uneven_split,
    uneven_units,
)


def test_the_split_test_is_pearsons() -> None:
    found = split_mismatch([821, 700], [50, 50])
    reference = chisquare([821, 700])
    assert (found.statistic, found.p_value) == pytest.approx((reference.statistic, reference.pvalue))
    assert found.method == "chi-square"
    assert split_mismatch([990, 10], [99, 1]).p_value == pytest.approx(1.0)
    assert split_mismatch([9_800, 200], [99, 1]).p_value < 1e-20


def test_few_units_are_permuted() -> None:
    found = split_mismatch([6, 0], [1, 1])
    assert found.method == "permutation"
    # Both extremes of six fair coins: 2 / 64.
    assert found.p_value == pytest.approx(2 / 64, abs=0.015)


def test_the_test_of_groups_is_pearsons() -> None:
    counts = np.array([[501, 315, 174], [30, 40, 30]])
    found = uneven_split(counts)
    statistic, p_value, degrees, _ = chi2_contingency(counts, correction=False)
    assert (found.statistic, found.p_value, found.degrees) == pytest.approx((statistic, p_value, degrees))


def test_rare_assignments_are_found_by_permutation() -> None:
    found = uneven_split(np.array([[501, 315, 174], [3, 4, 3]]))
    assert found.method == "permutation"
    assert 0.2 < found.p_value < 0.7
    assert uneven_split(np.array([[900, 20], [1, 9]])).p_value < 0.002


@pytest.mark.parametrize("permuted", [False, True])
def test_an_even_split_is_seldom_called_uneven(permuted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "PERMUTATIONS", 199)
    rng = np.random.default_rng(4)
    trials, wrong = 100 if permuted else 2000, 0
    for _ in range(trials):
        group = rng.choice(3, size=200, p=(0.5, 0.3, 0.2))
        arm = (rng.random(200) < 0.3).astype(np.int64)
        if permuted:
            # Each unit is in two groups: counts of groups depend on each other.
            unit = np.tile(np.arange(200), 2)
            found = uneven_units(np.tile(arm, 2), unit, np.concatenate([group, 3 + group]))
        else:
            counts = np.zeros((2, 3), dtype=np.int64)
            np.add.at(counts, (arm, group), 1)
            found = uneven_split(counts)
        wrong += found.p_value < 0.05
    assert wrong / trials == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / trials))


def test_units_of_several_groups_are_permuted_as_wholes() -> None:
    arm = np.array([0] * 50 + [1] * 50)
    unit = np.arange(100)
    everywhere = uneven_units(np.tile(arm, 2), np.tile(unit, 2), np.repeat([0, 1], 100))
    assert everywhere.p_value > 0.9
    apart = uneven_units(arm, unit, arm)
    assert apart.p_value < 0.001
    with pytest.raises(ValueError, match="two arms"):
        uneven_units(np.array([0, 1]), np.array([5, 5]), np.array([0, 1]))


def test_what_cannot_be_tested_is_refused() -> None:
    for counts, shares in (([1], [1]), ([1, 2], [1, 0]), ([0, 0], [1, 1]), ([1, 2], [1, 2, 3])):
        with pytest.raises(ValueError, match="positive share"):
            split_mismatch(counts, shares)
    with pytest.raises(ValueError, match="two groups"):
        uneven_split(np.array([[1], [2]]))


def served(
    rng: np.random.Generator, replicates: int = 30, lost: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return work for both arms by replicate and group: replicates differ in their share, groups do not."""
    share = rng.beta(20, 20, (replicates, 1))
    every = rng.lognormal(0, 0.5, (replicates, 4)) * np.array([1.0, 2.0, 5.0, 0.5])
    kept = 1 - lost * np.array([0.0, 0.0, 1.0, 0.0])
    second = every * share * rng.lognormal(0, 0.02, every.shape) * kept
    return every - second, second


def test_shares_of_work_are_tested_by_replicate() -> None:
    rng = np.random.default_rng(9)
    trials = 1500
    wrong = {"share": 0, "shares": 0}
    for _ in range(trials):
        first, second = served(rng)
        wrong["share"] += share_mismatch(first.sum(axis=1), second.sum(axis=1), 0.5).p_value < 0.05
        wrong["shares"] += uneven_shares(first, second).p_value < 0.05
    for name, count in wrong.items():
        assert count / trials == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / trials) + 0.01), name
    first, second = served(rng, lost=0.3)
    assert uneven_shares(first, second).p_value < 1e-4
    assert share_mismatch(first.sum(axis=1), second.sum(axis=1), 0.8).p_value < 1e-6


def test_exact_shares_are_no_mismatch() -> None:
    even = np.full((5, 2), 3.0)
    assert uneven_shares(even, even).p_value == 1.0
    assert share_mismatch(even[:, 0], even[:, 0], 0.5).p_value == 1.0
    assert share_mismatch(even[:, 0], even[:, 0], 0.4).p_value == 0.0
    with pytest.raises(ValueError, match="three replicates"):
        share_mismatch(np.ones(2), np.ones(2), 0.5)
    with pytest.raises(ValueError, match="more replicates"):
        uneven_shares(np.ones((2, 3)), np.ones((2, 3)))
