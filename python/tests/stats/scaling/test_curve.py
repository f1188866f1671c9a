"""Models of scaling curves: worlds with a known answer, predictions, curves that no model describes."""

from __future__ import annotations

import csv
import math
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from steelyard.stats.scaling.choice import Kind, Topology
from steelyard.stats.scaling.curve import CurveFit, fit_curve
from steelyard.stats.scaling.models import Form, fit
from steelyard.stats.scaling.prediction import SiblingWorth

RECORDED = Path(__file__).resolve().parents[5] / "shared" / "data" / "servers" / "curves.csv"
UP_TO_64 = (1, 2, 4, 8, 16, 32, 64)
SMT = Topology(cpus=64, cores=32, threads_per_core=2)
NODES = Topology(cpus=64, cores=64, threads_per_core=1, node_ends=(32,))


def siblings(cpus: int, cores: int = 32, worth: float = 0.3) -> float:
    return 100.0 * (min(cpus, cores) + worth * max(0, cpus - cores))


def curve(rates: dict[int, float], blocks: int = 1, sd: float = 0.0, seed: int = 1) -> dict[int, list[float]]:
    random = np.random.default_rng(seed)
    return {cpus: list(rate * np.exp(sd * random.standard_normal(blocks))) for cpus, rate in rates.items()}


def fitted(rates: dict[int, float], topology: Topology | None = None, **noise: float) -> CurveFit:
    return fit_curve(curve(rates, **noise), topology)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "rates"),
    [
        (Form(("contention", "coherency")), {n: n / (1 + 0.05 * (n - 1)) for n in UP_TO_64}),
        (Form(("contention",), at=32.0), {n: siblings(n) / (1 + 0.01 * n) for n in (*UP_TO_64, 48)}),
        (Form((), span=(2.0, 64.0), worth=0.0), {n: min(n, 11.0) for n in UP_TO_64}),
    ],
)
def test_a_form_is_the_least_squares_of_a_general_optimiser(form: Form, rates: dict[int, float]) -> None:
    random = np.random.default_rng(3)
    cpus = np.array(sorted(rates), dtype=float)
    means = np.log([rates[int(n)] for n in cpus]) + 0.02 * random.standard_normal(len(cpus))
    ours = fit(form, cpus, means[np.newaxis, :])

    def distance(parameters: np.ndarray) -> np.ndarray:
        found = dict(zip(form.names, parameters[1:], strict=True))
        at = found.get("at", form.at or math.inf)
        count = np.minimum(cpus, at)
        worth = found.get("worth", form.worth or 0.0)
        gain = np.log1p(worth * (cpus - count) / at) if math.isfinite(at) else 0.0
        bend = 1 + found.get("contention", 0) * (count - 1) + found.get("coherency", 0) * count * (count - 1)
        return np.asarray(parameters[0] + np.log(count) + gain - np.log(bend) - means)

    start = {"contention": 0.01, "coherency": 1e-4, "at": 10.0, "worth": 0.4}
    lows = [-np.inf, *(1.0 if name == "at" else 0.0 for name in form.names)]
    found = least_squares(
        distance, [means[0], *(start[name] for name in form.names)], bounds=(lows, np.inf), xtol=1e-14
    )
    assert float(ours.squares[0]) <= 2 * found.cost * (1 + 1e-3) + 1e-12


def test_siblings_are_distinguished_from_the_law_and_have_no_peak() -> None:
    found = fitted({n: siblings(n) for n in UP_TO_64}, SMT, blocks=5, sd=0.02)
    assert found.kind is Kind.SIBLINGS
    assert found.chosen is not None
    assert found.chosen.worth is not None
    assert found.chosen.worth.low is not None
    assert found.chosen.worth.high is not None
    assert found.chosen.worth.low < 0.3 < found.chosen.worth.high
    assert not found.law.peak.is_identified
    # The law's parameters are those of the cores.
    assert found.law.contention.value == pytest.approx(0.0, abs=2e-3)
    assert found.law.rate.value == pytest.approx(100, rel=0.03)


def test_a_bend_that_only_the_last_step_is_beyond_is_not_named() -> None:
    assert fitted({n: siblings(n) for n in UP_TO_64}, blocks=5, sd=0.02).kind is Kind.BEND


def test_a_ceiling_has_its_place_and_is_kept_beyond_the_steps() -> None:
    found = fitted({n: 100.0 * min(n, 11) for n in UP_TO_64}, blocks=3, sd=0.01)
    assert found.kind is Kind.CEILING
    assert found.chosen is not None
    assert found.chosen.at is not None
    assert found.chosen.at.value == pytest.approx(11, rel=0.03)
    beyond = found.predict(128)
    assert beyond.ops_per_s == pytest.approx(1100, rel=0.03)
    assert not found.law.peak.is_identified


def test_a_second_node_and_siblings_are_distinguished() -> None:
    rates = {}
    for n in (*UP_TO_64, 128):
        cores, near = min(n, 64), min(n, 32)
        rates[n] = 100.0 * near * (1 + 0.8 * (cores - near) / 32) * (1 + 0.3 * (n - cores) / 64)
    found = fitted(rates, Topology(128, 64, 2, (32,)), blocks=5, sd=0.02)
    assert found.kind is Kind.SIBLINGS
    assert found.chosen is not None
    assert found.chosen.node_worth is not None
    assert found.chosen.worth is not None
    assert found.chosen.node_worth.value == pytest.approx(0.8, abs=0.1)
    assert found.chosen.worth.value == pytest.approx(0.3, abs=0.1)
    # The law's parameters are those of the first node.
    assert found.law.contention.value == pytest.approx(0.0, abs=3e-3)


def test_a_node_that_slows_all_is_a_node() -> None:
    rates = {n: 100.0 * n * (0.7 if n > 16 else 1.0) for n in (*UP_TO_64, 24, 48)}
    found = fitted(rates, Topology(64, 64, 1, (16,)), blocks=3, sd=0.01)
    assert (found.kind, found.chosen.is_level if found.chosen else None) == (Kind.NODE, True)
    assert not found.law.peak.is_identified


def test_a_peak_is_stated_where_readings_fall() -> None:
    rates = {n: 1000.0 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1)) for n in UP_TO_64}
    peak = fitted(rates, blocks=5, sd=0.02).law.peak
    assert peak.is_identified
    assert peak.low is not None
    assert peak.high is not None
    assert peak.low < 31 < peak.high
    # Falls that no law describes have the steps beside the best one for an interval.
    odd = fitted({1: 10, 2: 20, 4: 40, 8: 80, 16: 50, 32: 30}, blocks=5, sd=0.01).law
    assert (odd.peak.value, odd.peak.low, odd.peak.high) == (8, 4, 16)


def test_a_misfit_takes_the_parameters_away() -> None:
    rates = {n: 100.0 * n * (0.65 if n == 8 else 1.0) for n in UP_TO_64}
    for blocks in (1, 5):
        found = fitted(rates, blocks=blocks, sd=0.01)
        assert not found.holds
        assert found.law.contention.value is None
        assert "no model fits: readings are up to" in (found.law.contention.reason or "")
        assert found.throughput(8) is None
        assert found.predict(128).ops_per_s is None
        # Between readings it is between them.
        inside = found.predict(12)
        assert inside.ops_per_s is not None
        assert 520 < inside.ops_per_s < 1600


def test_nothing_is_predicted_across_what_was_not_crossed() -> None:
    half = {n: siblings(n) for n in UP_TO_64 if n <= 32}
    cores = fitted(half, SMT, blocks=3, sd=0.01)
    assert "CPUs beyond 32 are siblings" in (cores.predict(64).reason or "")
    assert cores.predict(65).reason == "the machine has 64 CPUs"
    prediction = cores.predict(64, SiblingWorth(0.3, 0.28, 0.32, "as given"))
    assert prediction.ops_per_s == pytest.approx(siblings(64), rel=0.03)
    assert prediction.low is not None
    assert prediction.high is not None
    assert prediction.low < siblings(64) < prediction.high
    node = fitted(half, NODES, blocks=3, sd=0.01)
    assert "CPUs beyond 32 are of another NUMA node" in (node.predict(64).reason or "")
    unknown = fitted(half, blocks=3, sd=0.01).predict(64)
    assert unknown.ops_per_s is None
    assert unknown.low is not None
    assert unknown.high is not None
    # From nothing gained to as much as the steps gained.
    assert unknown.low < 3200 < 6400 < unknown.high
    plain = fitted(half, Topology(threads_per_core=1), blocks=3, sd=0.01).predict(64)
    assert plain.ops_per_s == pytest.approx(6400, rel=0.03)


def test_few_steps_of_one_block_have_predictions_that_say_what_they_assume() -> None:
    found = fitted({1: 100.0, 2: 200.0}, Topology(threads_per_core=1)).predict(4)
    assert found.ops_per_s == pytest.approx(400, rel=0.02)
    assert "assumed" in found.basis
    # Three on a line tell a little.
    line = fitted({1: 100.0, 2: 200.0, 4: 399.0}, Topology(threads_per_core=1)).predict(8)
    assert line.low is not None
    assert line.high is not None
    assert 600 < line.low < 800 < line.high < 900


def test_one_step_predicts_nothing() -> None:
    assert fitted({4: 100.0}).predict(8).reason == "one step is no curve: measure two at least"


def test_what_was_read_at_one_cpu_is_in_the_interval_of_its_rate() -> None:
    rates = {n: siblings(n) for n in range(1, 65, 3)}
    rates[1] *= 1.04
    rate = fitted(rates, SMT).law.rate
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low <= 104 <= rate.high


@given(
    st.integers(1, 3).flatmap(
        lambda blocks: st.dictionaries(
            st.sampled_from([1, 2, 3, 4, 8, 16, 64, 400, 1 << 20]),
            st.lists(st.floats(-23, 23).map(lambda power: 10**power), min_size=blocks, max_size=blocks),
            min_size=1,
        )
    ),
    st.sampled_from([None, SMT, NODES, Topology(threads_per_core=1)]),
)
@settings(deadline=None, max_examples=40)
def test_values_that_no_model_describes_have_figures_still(
    values: dict[int, list[float]], topology: Topology | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_curve(values, topology)
        ends = [found.predict(cpus) for cpus in (1, 5, 64, 1 << 20)]
        figures = [(one.ops_per_s, one.low, one.high) for one in ends]
        figures += [(one.value, one.low, one.high) for one in (found.law.rate, found.law.peak)]
        assert found.noise_factor() >= 1
    for figure in figures:
        assert not any(math.isnan(number) for number in figure if number is not None)


def test_recorded_machines_with_two_threads_a_core_have_cores_and_siblings() -> None:
    if not RECORDED.is_file():
        pytest.skip(f"no recorded curves at {RECORDED}")
    curves: dict[str, dict[int, list[float]]] = defaultdict(dict)
    cores = {}
    with RECORDED.open() as file:
        for row in csv.DictReader(file):
            if row["threads_per_core"] == "2" and row["cpus_of_machine"] == "16":
                curves[row["machine"]][int(row["threads"])] = [float(row["ops_per_s"])]
                cores[row["machine"]] = int(row["cpus_of_machine"]) // 2
    chosen = sorted(curves)[::8]
    found = [fit_curve(curves[one], Topology(16, cores[one], 2)) for one in chosen]
    assert sum(one.kind is Kind.SIBLINGS for one in found) >= 0.8 * len(found)
    assert sum(one.law.peak.is_identified for one in found) <= 0.05 * len(found)


def test_two_steps_have_a_law_that_is_not_known_whatever_they_are() -> None:
    for second in (20.0, 100.0, 199.0):
        found = fitted({1: 100.0, 2: second}, blocks=4, sd=0.02)
        assert found.kind is Kind.LAW
        assert (found.law.contention.reason or "").startswith("2 steps cannot determine")
