"""Two runs: what differs, in which order, and what must be known before it is believed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import UsageError
from steelyard.analyze.comparison import Side, compare_runs
from steelyard.analyze.rules.findings import Finding
from steelyard.records import Metric, Parameter, Run
from steelyard.report.compare.answer import results_of
from tests.report.runs import load_result, machine_record, run_record


def run(name: str, **metrics: Metric) -> Run:
    return run_record(load_result(), Path(name), metrics=metrics)


def side(name: str, findings: tuple[str, ...] = (), **metrics: Metric) -> Side:
    found = [Finding("It is so.", (), "Look.", 0.5, id=each) for each in findings]
    return Side(run(name, **metrics), machine_record(2), found)


def rate(value: float | None, **changes: Any) -> Metric:
    fields: dict[str, Any] = {"value": value, "unit": "1/s", "better": "higher", "missing": None} | changes
    return Metric(**fields)


def test_half_and_double_count_alike_and_zero_first() -> None:
    a = side("a", x_per_s=rate(100.0), y_per_s=rate(100.0), z_per_s=rate(0.0), same_per_s=rate(100.0))
    b = side("b", x_per_s=rate(45.0), y_per_s=rate(200.0), z_per_s=rate(3.0), same_per_s=rate(100.4))
    found = compare_runs(a, b)
    assert [one.name for one in found.differences] == ["z_per_s", "x_per_s", "y_per_s"]
    assert [one.better for one in found.differences] == [True, False, True]
    assert found.differences[0].ratio is None
    assert found.same == ("same_per_s",)
    assert any("one run each" in caution for caution in found.cautions)


def test_the_headline_stands_first_whether_it_differs_or_not() -> None:
    others = {"x_per_s": rate(100.0)}
    for value, better in ((100.4, None), (90.0, False)):
        a = replace(side("a", turns_per_s=rate(100.0), **others), headline="turns_per_s")
        b = side("b", turns_per_s=rate(value), x_per_s=rate(300.0))
        found = compare_runs(a, b)
        assert found.headline is not None
        assert (found.headline.b, found.headline.better) == (value, better)
        assert [one.name for one in results_of(found)] == ["turns_per_s", "x_per_s"]
    lacks = compare_runs(a, side("b", **others))
    assert (lacks.headline, results_of(lacks)) == (None, [])


def test_what_only_one_run_has_is_named_and_not_compared() -> None:
    found = compare_runs(side("a", x_per_s=rate(1.0), y_per_s=rate(None)), side("b", y_per_s=rate(2.0)))
    assert found.differences == ()
    assert found.only_a == ("x_per_s",)
    assert found.only_b == ("y_per_s",)


def test_a_unit_that_changed_is_no_ratio() -> None:
    found = compare_runs(side("a", x=rate(1.0, unit="s")), side("b", x=rate(2.0, unit="ns")))
    assert found.differences == ()


def test_findings_and_parameters_that_came_and_went() -> None:
    a, b = side("a", ("hot", "cold")), side("b", ("cold", "new"))
    changed = b.run.model_copy(
        update={"parameters": {**b.run.parameters, "memory": Parameter(value=1, unit="bytes", source="set")}}
    )
    found = compare_runs(a, Side(changed, b.machine, b.findings))
    assert found.findings_gone == ("hot",)
    assert found.findings_new == ("new",)
    assert found.parameters["memory"][1] == 1


def test_runs_of_different_benchmarks_are_refused() -> None:
    other = side("b")
    changed = Side(other.run.model_copy(update={"benchmark": "feed"}), other.machine)
    with pytest.raises(UsageError, match=r"is a run of tao and .* of feed: they measure different things"):
        compare_runs(side("a"), changed)


def test_other_tiers_are_a_difference_of_conditions() -> None:
    other = side("b")
    changed = Side(other.run.model_copy(update={"tier": "full"}), other.machine)
    found = compare_runs(side("a"), changed)
    assert found.conditions == {"tier": (other.run.tier, "full")}
    assert any("tiers differ" in caution for caution in found.cautions)
    assert compare_runs(side("a"), other).conditions == {}


def test_without_an_inventory_the_machines_are_not_compared() -> None:
    found = compare_runs(side("a"), Side(run("b"), None))
    assert found.machine == ()
    assert any("not known" in caution for caution in found.cautions)
