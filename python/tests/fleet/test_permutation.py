"""The permutation test of an effect against all permutations, and what stretches and states do to it."""

import itertools

import numpy as np
import pytest

from steelyard.fleet.permutation import permuted


def _sums(cpi, beside, samples=3.0):
    """Return the sums of machines that had the other job all the time, or never."""
    cpi, beside = np.asarray(cpi, dtype=float), np.asarray(beside, dtype=float)
    n = np.full(len(cpi), samples)
    return {
        "n": n,
        "x": n * beside,
        "y": n * cpi,
        "xy": n * cpi * beside,
        "yy": n * cpi**2,
        "starts": beside,
    }


def _asked(cpi, beside, value):
    places = np.arange(len(cpi))
    return permuted(np.zeros_like(places), places, np.zeros_like(places), _sums(cpi, beside), value)


def test_p_is_the_share_of_all_permutations() -> None:
    random = np.random.default_rng(4)
    cpi = random.normal(1.5, 0.1, 12)
    cpi[8:] += 0.08
    beside = np.arange(12) >= 8
    means = [cpi[list(chosen)].mean() for chosen in itertools.combinations(range(12), 4)]
    exact = np.mean([mean >= cpi[beside].mean() - 1e-12 for mean in means])
    assert _asked(cpi, beside, 0.05).p_value == pytest.approx(2 * exact, abs=0.02)


def test_machines_in_one_state_by_chance_have_the_spread_of_all() -> None:
    cpi = np.r_[np.tile([2.4, 2.4, 2.4, 2.4, 1.5], 24), np.full(9, 2.4)]
    beside = np.arange(len(cpi)) >= 120
    found = _asked(cpi, beside, 0.08)
    assert found.p_value is not None
    assert found.p_value > 0.1
    # The standard deviation of all is 16 % of their mean, and nine are beside.
    assert found.standard_error == pytest.approx(0.16 / 3, rel=0.15)


def test_no_p_is_below_one_in_the_number_of_arrangements() -> None:
    cpi = np.r_[np.full(4, 1.0), np.full(3, 5.0)] + np.linspace(0, 0.01, 7)
    found = _asked(cpi, np.arange(7) >= 4, 4.0)
    assert found.p_value is not None
    assert found.p_value >= 1 / 35


def test_a_stretch_counts_for_one_draw() -> None:
    machines = np.arange(12)
    n, x = np.full(12, 300.0), np.full(12, 3.0)
    # All of the few samples with the other job happen to be in the upper of two states.
    sums = {"n": n, "x": x, "y": n * 2.2, "xy": x * 2.4, "yy": n * (0.8 * 2.4**2 + 0.2 * 1.5**2)}
    zero = np.zeros_like(machines)
    once, often = (
        permuted(zero, machines, zero, {**sums, "starts": np.full(12, starts)}, 0.09) for starts in (1.0, 3.0)
    )
    assert once.p_value is not None
    assert once.p_value > 0.05
    assert once.standard_error > 1.5 * often.standard_error
