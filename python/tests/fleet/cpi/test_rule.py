"""CPI2's rules for one victim, held to the vectors that the agent's guard reads too."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import schemas_dir
from steelyard.fleet.cpi.rule import PAPER, Rule, Suspect, anomalies, correlate, is_outlier, judge

VECTORS = json.loads((schemas_dir() / "golden" / "cpi2_vectors.json").read_text())


def _named(kind: str) -> Any:
    return pytest.mark.parametrize("case", VECTORS[kind], ids=lambda case: case["name"])


@_named("correlation")
def test_correlation_is_that_of_the_vectors(case: dict[str, Any]) -> None:
    found = correlate(case["victim_cpi"], case["suspect_usage"], case["threshold_cpi"])
    assert found.pairs == case["pairs"]
    assert found.missing == case["missing"]
    assert found.value == (
        None if case["correlation"] is None else pytest.approx(case["correlation"], abs=1e-12)
    )


@_named("anomaly")
def test_anomalies_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    rule = Rule(minimum_usage=case["minimum_usage"], outliers=case["outliers"], within_s=case["window_s"])
    outlier = [is_outlier(one["cpi"], one["usage"], case["threshold_cpi"], rule) for one in case["samples"]]
    assert outlier == case["expected_outlier"]
    starts = [one["start_unix_s"] for one in case["samples"]]
    assert anomalies(starts, outlier, rule) == case["expected_anomalous"]


@_named("ranking")
def test_judgement_is_that_of_the_vectors(case: dict[str, Any]) -> None:
    rule = Rule(correlation_floor=case["correlation_floor"])
    suspects = [Suspect(**one) for one in case["suspects"]]
    found = judge(case["victim_class"], case["victim_cpi"], case["threshold_cpi"], suspects, rule)
    order = [
        {
            "task": one.suspect.task,
            "correlation": one.correlation.value and pytest.approx(one.correlation.value, abs=1e-12),
            "may_be_capped": one.may_be_capped,
        }
        for one in found.order
    ]
    assert order == case["expected_order"]
    assert (found.antagonist and found.antagonist.suspect.task) == case["expected_antagonist"]
    assert (found.cap and found.cap.suspect.task) == case["expected_cap"]
    assert found.cap_cpu_ratio == case["expected_cap_cpu_ratio"]
    assert found.reason == case["expected_reason"]


_CPI = st.none() | st.floats(1e-6, 1e6)
_USAGE = st.none() | st.floats(0, 1e308)


@given(st.lists(st.tuples(_CPI, _USAGE), max_size=30), st.floats(1e-6, 1e6))
def test_correlation_lies_between_minus_one_and_one(
    pairs: list[tuple[float | None, float | None]], threshold: float
) -> None:
    found = correlate([cpi for cpi, _ in pairs], [usage for _, usage in pairs], threshold)
    assert (found.value is None) == (found.missing is not None)
    if found.value is not None:
        assert math.isfinite(found.value)
        assert -1 <= found.value <= 1


@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.01, 8)), min_size=1, max_size=20),
    st.floats(0.1, 10),
    st.floats(1e-3, 1e3),
)
def test_correlation_knows_no_scale_and_no_order(
    pairs: list[tuple[float, float]], threshold: float, factor: float
) -> None:
    cpi, usage = [c for c, _ in pairs], [u for _, u in pairs]
    one = correlate(cpi, usage, threshold).value
    other = correlate(cpi[::-1], [factor * u for u in usage[::-1]], threshold).value
    assert one == pytest.approx(other, abs=1e-9)
    # Swapping what is above and below the threshold turns the sign.
    turned = correlate([threshold**2 / c for c in cpi], usage, threshold).value
    assert one is not None
    assert turned == pytest.approx(-one, abs=1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=20), st.floats(0.1, 10))
def test_a_suspect_of_steady_usage_has_the_mean_strain(cpi: list[float], threshold: float) -> None:
    mean = sum(1 - threshold / c if c > threshold else c / threshold - 1 for c in cpi) / len(cpi)
    assert correlate(cpi, [2.5] * len(cpi), threshold).value == pytest.approx(mean, abs=1e-9)


@given(st.lists(st.integers(1, 400), max_size=40), st.data())
def test_anomalies_are_what_counting_says(steps: list[int], data: st.DataObject) -> None:
    starts = [1_764_000_000 + sum(steps[: at + 1]) for at in range(len(steps))]
    outlier = data.draw(st.lists(st.booleans(), min_size=len(starts), max_size=len(starts)))
    expected = [
        is_one and sum(o for s, o in zip(starts, outlier, strict=True) if now - 300 < s <= now) >= 3
        for now, is_one in zip(starts, outlier, strict=True)
    ]
    assert anomalies(starts, outlier, PAPER) == expected


@pytest.mark.parametrize(("cpi", "usage", "threshold"), [(0.0, 1.0, 2.0), (1.0, -1.0, 2.0), (1.0, 1.0, 0.0)])
def test_what_cannot_be_is_refused(cpi: float, usage: float, threshold: float) -> None:
    with pytest.raises(ValueError, match="CPI"):
        correlate([cpi], [usage], threshold)


def test_rules_that_make_no_sense_are_refused() -> None:
    for wrong in ({"outliers": 0}, {"minimum_usage": -1.0}, {"correlation_floor": 2.0}, {"align_s": 7}):
        with pytest.raises(ValueError, match=r"at least 1|not negative|whole number"):
            Rule(**wrong)  # type: ignore[arg-type]
