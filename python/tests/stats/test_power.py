"""How many replicates a decision needs, and intervals for any time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from steelyard.stats.power import replicates_needed, variance_needed
from steelyard.stats.sequential import mixture_radius


def test_the_textbook_count() -> None:
    # Two means, deviation 1, difference 0.5, 5 % and 80 %: 63 a side (Cohen, 1988, 2.3).
    wanted = variance_needed(0.5)
    found = replicates_needed((1 / 10, 1 / 10), (10, 10), wanted)
    assert found.replicates == (63, 63)
    assert found.more == (53, 53)
    assert replicates_needed((1 / 63, 1 / 63), (63, 63), wanted).enough


def test_with_that_many_the_effect_is_found_as_often_as_wanted() -> None:
    rng = np.random.default_rng(6)
    need = replicates_needed((0.0001, 0.01), (1000, 10), variance_needed(0.05, power=0.9)).replicates
    deviations = (math.sqrt(0.0001 * 1000), math.sqrt(0.01 * 10))
    error = math.hypot(deviations[0] / math.sqrt(need[0]), deviations[1] / math.sqrt(need[1]))
    found = rng.normal(0.05, error, 20_000)
    assert float((np.abs(found) > norm.ppf(0.975) * error).mean()) == pytest.approx(0.9, abs=0.01)


def test_only_the_arm_that_is_tried_grows_where_that_suffices() -> None:
    found = replicates_needed((1e-6, 1e-3), (1000, 10), 1e-4)
    assert found.more[0] == 0
    assert found.replicates[1] == math.ceil(10 * 1e-3 / (1e-4 - 1e-6))
    # Where the other's own variance is too large, both must grow.
    assert min(replicates_needed((1e-3, 1e-3), (10, 10), 1e-4).more) > 0


def test_an_interval_for_any_time_is_wider_and_needs_more() -> None:
    for deviation in (0.001, 0.01, 0.1):
        assert mixture_radius(deviation**2) > 1.96 * deviation
    assert variance_needed(0.01, always_valid_for=0.05) < variance_needed(0.01)
    variance = variance_needed(0.01, always_valid_for=0.05)
    assert mixture_radius(variance) + norm.ppf(0.8) * math.sqrt(variance) == pytest.approx(0.01)
    assert mixture_radius(1e-4, degrees=5) > mixture_radius(1e-4)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="positive effect"):
        variance_needed(0.0)
    with pytest.raises(ValueError, match="variance"):
        mixture_radius(-1.0)
