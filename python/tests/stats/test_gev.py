"""The generalized extreme value distribution against scipy's, and fits that find what was drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steelyard.stats.gev import Gev, Histogram, distance, fit_gev, from_l_moments, l_moments

_SHAPES = st.floats(-0.4, 0.6).filter(lambda shape: abs(shape) > 1e-9) | st.just(0.0)


@given(_SHAPES, st.floats(-5, 5), st.floats(0.01, 10))
def test_it_is_scipys_distribution(shape: float, location: float, scale: float) -> None:
    ours, theirs = Gev(shape, location, scale), stats.genextreme(shape, location, scale)
    x = location + scale * np.linspace(-3, 8, 23)
    assert ours.cdf(x) == pytest.approx(theirs.cdf(x), abs=1e-7)
    assert ours.density(x) * scale == pytest.approx(theirs.pdf(x) * scale, abs=1e-6)
    assert ours.quantile(0.96) == pytest.approx(theirs.ppf(0.96), rel=1e-6, abs=1e-6 * scale)
    assert ours.mean == pytest.approx(theirs.mean(), rel=1e-5, abs=1e-5 * scale)
    if abs(shape) > 1e-3:
        assert ours.sd == pytest.approx(theirs.std(), rel=1e-4)


def test_moments_that_are_not_there_are_none() -> None:
    assert (Gev(-1.2, 0, 1).mean, Gev(-0.6, 0, 1).sd) == (None, None)
    assert Gev(0.0, 0, 2).sd == pytest.approx(2 * np.pi / np.sqrt(6))


def _sample(shape: float, count: int, width: float, seed: int = 5) -> Histogram:
    x = stats.genextreme(shape, 1.73, 0.133).rvs(count, random_state=np.random.default_rng(seed))
    place, counts = np.unique(np.floor(x / width), return_counts=True)
    return Histogram.of(place * width, (place + 1) * width, counts)


@pytest.mark.parametrize("shape", [-0.3, -0.05, 0.0534, 0.4])
@pytest.mark.parametrize("width", [1 / 128, 1 / 16])
def test_what_was_drawn_is_found_however_wide_the_bins(shape: float, width: float) -> None:
    fit, missing = fit_gev(_sample(shape, 100_000, width))
    assert missing is None
    assert fit is not None
    assert fit.shape_error is not None
    assert fit.location_error is not None
    assert fit.scale_error is not None
    assert abs(fit.gev.shape - shape) < 4 * fit.shape_error < 0.03
    assert abs(fit.gev.location - 1.73) < 4 * fit.location_error < 0.01
    assert abs(fit.gev.scale - 0.133) < 4 * fit.scale_error < 0.01
    assert fit.distance < 0.006


def test_standard_errors_are_those_of_repeated_draws() -> None:
    fits = [fit_gev(_sample(0.05, 2_000, 1 / 64, seed))[0] for seed in range(60)]
    shapes = [fit.gev.shape for fit in fits if fit is not None]
    errors = [fit.shape_error for fit in fits if fit is not None and fit.shape_error is not None]
    assert len(errors) == 60
    assert np.mean(errors) == pytest.approx(np.std(shapes, ddof=1), rel=0.3)


def test_l_moments_are_those_of_known_distributions() -> None:
    # Of a uniform distribution over 0 to 1: 1/2, 1/6 and no skewness; of an exponential one 1, 1/2 and 1/3.
    assert l_moments(Histogram.of([0.0, 0.5], [0.5, 1.0], [5, 5])) == pytest.approx(
        (0.5, 1 / 6, 0), abs=1e-12
    )
    edges = np.linspace(0, 40, 40_001)
    mass = np.diff(-np.exp(-edges))
    assert l_moments(Histogram.of(edges[:-1], edges[1:], mass)) == pytest.approx((1, 0.5, 1 / 3), abs=1e-6)


@given(_SHAPES, st.floats(0.5, 2), st.floats(0.01, 0.3))
def test_l_moments_lead_back_to_the_distribution(shape: float, location: float, scale: float) -> None:
    law = Gev(shape, location, scale)
    q = np.concatenate([np.linspace(0.0005, 0.9995, 4000), 1 - np.geomspace(4e-4, 1e-9, 200)])
    edges = np.array([law.quantile(float(p)) for p in q])
    found = from_l_moments(*l_moments(Histogram.of(edges[:-1], edges[1:], np.diff(q))))
    assert found is not None
    assert found.shape == pytest.approx(shape, abs=0.01)
    assert found.location == pytest.approx(location, abs=0.02 * scale)


def test_too_little_gives_no_curve_but_a_reason() -> None:
    few = Histogram.of([0.0, 1.0], [1.0, 2.0], [500, 500])
    assert fit_gev(few) == (None, "2 bins have samples, fewer than 6")
    thin = Histogram.of(np.arange(8.0), np.arange(1.0, 9.0), np.ones(8))
    assert fit_gev(thin) == (None, "8 samples, fewer than 50")
    with pytest.raises(ValueError, match="bins"):
        Histogram.of([1.0], [1.0], [2])


def test_distance_is_that_of_kolmogorov_and_smirnov() -> None:
    half = Histogram.of([0.0], [1.0], [10])
    law = Gev(0.0, 0.0, 1.0)
    assert distance(half, law) == pytest.approx(max(1 - law.cdf(1.0), law.cdf(0.0)))
