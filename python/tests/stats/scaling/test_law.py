"""The Universal Scalability Law: against an optimiser, recorded curves and closed forms."""

from __future__ import annotations

import csv
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from steelyard.stats.scaling.law import fit_law

RECORDED = Path(__file__).resolve().parents[5] / "shared" / "data" / "usl"


def law(cpus: int, rate: float, contention: float, coherency: float) -> float:
    return rate * cpus / (1 + contention * (cpus - 1) + coherency * cpus * (cpus - 1))


def optimum(curve: dict[int, float]) -> tuple[np.ndarray, float]:
    """Return the parameters and the cost that a general optimiser finds from several starts."""
    cpus = np.array(list(curve), dtype=float)
    logs = np.log(list(curve.values()))

    def distance(parameters: np.ndarray) -> np.ndarray:
        rate, contention, coherency = parameters
        bend = np.log1p(contention * (cpus - 1) + coherency * cpus * (cpus - 1))
        return np.asarray(rate + np.log(cpus) - bend - logs)

    bounds = ([-np.inf, 0, 0], np.inf)
    tries = [
        least_squares(distance, (logs[0], *start), bounds=bounds, xtol=1e-14, ftol=1e-14, gtol=1e-14)
        for start in ((0.01, 1e-4), (0.5, 1e-2), (1e-4, 1e-6))
    ]
    best = min(tries, key=lambda one: one.cost)
    return np.array([math.exp(best.x[0]), *best.x[1:]]), float(best.cost)


@given(
    rate=st.floats(1e-3, 1e9),
    contention=st.sampled_from([0.0, 1e-3, 0.05, 0.4, 3.0]),
    coherency=st.sampled_from([0.0, 1e-6, 1e-4, 0.02]),
)
@settings(deadline=None, max_examples=15)
def test_a_curve_without_noise_gives_its_parameters_back(
    rate: float, contention: float, coherency: float
) -> None:
    fit = fit_law({cpus: [law(cpus, rate, contention, coherency)] for cpus in (1, 2, 4, 8, 16, 32, 64, 128)})
    assert fit.rate.value == pytest.approx(rate, rel=1e-6)
    assert fit.contention.value == pytest.approx(contention, rel=1e-4, abs=1e-7)
    assert fit.coherency.value == pytest.approx(coherency, rel=1e-4, abs=1e-9)
    assert fit.throughput(100) == pytest.approx(law(100, rate, contention, coherency), rel=1e-4)


@given(seed=st.integers(0, 10_000), contention=st.floats(0, 0.5), coherency=st.floats(0, 0.01))
@settings(deadline=None, max_examples=10)
def test_the_fit_is_the_least_squares_of_a_general_optimiser(
    seed: int, contention: float, coherency: float
) -> None:
    random = np.random.default_rng(seed)
    steps = (1, 2, 3, 5, 9, 17, 40)
    noise = np.exp(0.1 * random.standard_normal(len(steps)))
    curve = {n: law(n, 500, contention, coherency) * f for n, f in zip(steps, noise, strict=True)}
    fit = fit_law({cpus: [value] for cpus, value in curve.items()})
    _, cost = optimum(curve)
    ours = sum(math.log((fit.throughput(n) or 0.0) / value) ** 2 for n, value in curve.items()) / 2
    assert ours <= cost * (1 + 1e-5) + 1e-12


@pytest.mark.parametrize("name", ["specsdm91", "raytracer"])
def test_recorded_curves_fit_as_an_optimiser_fits_them(name: str) -> None:
    path = RECORDED / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"no recorded curves in {RECORDED}")
    with path.open() as file:
        rows = list(csv.reader(file))[1:]
    curve = {int(float(cpus)): float(rate) for cpus, rate in rows}
    fit = fit_law({cpus: [rate] for cpus, rate in curve.items()})
    (rate, contention, coherency), _ = optimum(curve)
    assert fit.rate.value == pytest.approx(rate, rel=1e-3)
    assert fit.contention.value == pytest.approx(contention, rel=1e-2)
    assert fit.coherency.value == pytest.approx(coherency, rel=1e-2)
    if name == "specsdm91":
        # Throughput was highest at 72 users, and lower from 108 on.
        assert fit.peak.is_identified
        assert fit.peak.low is not None
        assert fit.peak.high is not None
        assert fit.peak.high >= 72
        assert fit.peak.low <= 108
    else:
        # It rose up to the last step.
        assert not fit.peak.is_identified
        assert "show no peak" in (fit.peak.reason or "")


def test_a_peak_that_was_not_seen_is_not_said_to_be_within_the_steps() -> None:
    # Counted on 16 CPUs, as Mops/s: threads that write beside what all read are far from any law.
    one, two, four = [326.4, 326.1, 249.2, 233.1], [189.5, 213.1, 240.1, 221.4], [335.2, 415.3, 370.9, 397.0]
    eight, all_cpus = [553.4, 543.3, 586.6, 472.2], [1062.4, 1091.4, 1175.9, 1041.8]
    fit = fit_law({1: one, 2: two, 4: four, 8: eight, 16: all_cpus})
    assert fit.peak.low == 1
    assert fit.peak.reason == "the steps up to 16 CPUs show no peak"


def test_two_steps_determine_nothing_and_say_so() -> None:
    fit = fit_law({1: [100.0, 101.0, 99.0], 2: [150.0, 149.0, 151.0]})
    assert fit.contention.value is None
    assert fit.peak.reason == "2 steps cannot determine three parameters: measure 3"
    assert fit.throughput(2) is None


def test_few_steps_of_one_block_have_a_curve_and_no_interval() -> None:
    fit = fit_law({n: [law(n, 10, 0.1, 0.01)] for n in (1, 2, 4, 8)})
    assert fit.contention.value == pytest.approx(0.1)
    assert fit.contention.low is None
    assert not fit.contention.is_identified
    assert "do not tell the noise" in (fit.contention.reason or "")


def test_steps_close_together_do_not_tell_contention_from_coherency() -> None:
    random = np.random.default_rng(5)
    fit = fit_law(
        {n: list(law(n, 10, 0.02, 0.002) * np.exp(0.01 * random.standard_normal(4))) for n in (1, 2, 3)}
    )
    assert not fit.contention.is_identified
    assert not fit.coherency.is_identified
    assert fit.peak.reason is not None


def test_a_kink_is_no_curve_of_the_law() -> None:
    random = np.random.default_rng(1)
    worth = {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 32, 64: 40}
    fit = fit_law(
        {n: list(100 * value * np.exp(0.01 * random.standard_normal(5))) for n, value in worth.items()}
    )
    assert fit.misfit_p_value is not None
    assert fit.misfit_p_value < 0.01
    assert fit.misfit_ratio is not None
    assert fit.misfit_ratio > 0.03


def test_the_answer_is_a_function_of_the_data() -> None:
    data = {n: [law(n, 10, 0.1, 0.001) * f for f in (0.99, 1.0, 1.02)] for n in (1, 2, 4, 8, 16)}
    assert fit_law(data) == fit_law(dict(reversed(data.items())))


@given(
    st.integers(1, 4).flatmap(
        lambda blocks: st.dictionaries(
            st.sampled_from([1, 2, 4, 8, 16, 64, 400, 1 << 20]),
            st.lists(st.floats(-100, 100).map(lambda power: 10**power), min_size=blocks, max_size=blocks),
            min_size=1,
        )
    )
)
@settings(deadline=None, max_examples=20)
def test_values_that_no_law_describes_have_figures_still(values: dict[int, list[float]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fit_law(values)
    for figure in (fit.rate, fit.contention, fit.coherency, fit.peak, fit.peak_throughput):
        known = [number for number in (figure.value, figure.low, figure.high) if number is not None]
        assert not any(map(math.isnan, known))


@pytest.mark.parametrize(
    "values",
    [{}, {1: []}, {1: [1.0], 2: [1.0, 2.0]}, {1: [0.0]}, {1: [math.nan]}, {1: [math.inf]}, {0: [1.0]}],
)
def test_what_is_no_throughput_is_refused(values: dict[int, list[float]]) -> None:
    with pytest.raises(ValueError, match=r"every step|finite"):
        fit_law(values)


def test_throughput_that_never_changes_is_contention_of_one() -> None:
    fit = fit_law({n: [50.0, 50.0, 50.0] for n in (1, 2, 4, 8)})
    assert fit.contention.value == pytest.approx(1.0)
    assert fit.coherency.value == pytest.approx(0.0, abs=1e-9)
