"""Projections of made-up fleets: nothing leaks, order and units do not matter, odd machines are flagged."""

import json
from collections.abc import Callable
from dataclasses import asdict, astuple, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.decide.projection.features import features_of
from steelyard.decide.projection.learn import fit, forward_folds
from steelyard.decide.projection.plan import groups_needed, next_machines
from steelyard.decide.projection.problem import Question, matches
from steelyard.decide.projection.project import project
from steelyard.decide.projection.result import LearningPoint, Projection
from steelyard.decide.projection.siblings import siblings_of
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, Measurement, ResultColumn
from tests.decide.projection.fleets import World, features, fleet, hidden

WEB = Question(targets=("web",), compares_suites=False)
SMALL = World(processors=7, machines=3)
few = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_unknown(seed: int = 3, world: World = SMALL) -> MachineTable:
    """Return a fleet in which one machine of every second processor is not measured."""
    table = fleet(np.random.default_rng(seed), world)
    return hidden(
        table, {one.name for at, one in enumerate(table.machines) if at % (2 * world.machines) == 1}
    )


def changed(table: MachineTable, change: Callable[[MeasuredMachine], MeasuredMachine]) -> MachineTable:
    return replace(table, machines=tuple(change(one) for one in table.machines))


def times(one: MeasuredMachine, name: str, factor: float) -> MeasuredMachine:
    """Return a machine one of whose results is ``factor`` times as large."""
    if name not in one.results:
        return one
    return replace(one, results={**one.results, name: Measurement(((one.results[name].value * factor,),))})


def figures(found: Projection) -> dict[str, list[float | None]]:
    return {one.name: [one.projected, one.low, one.high] for one in found.machines}


def same(one: Projection, other: Projection, factor: float = 1.0) -> None:
    """Assert that both say the same of each machine, within rounding; the other ``factor`` times as much."""
    before, after = figures(one), figures(other)
    assert set(before) == set(after)
    for name, values in before.items():
        for value, new in zip(values, after[name], strict=True):
            assert (value is None) == (new is None)
            if value is not None:
                assert new == pytest.approx(value * factor, rel=1e-5)


BEFORE = project(with_unknown(), WEB)


def test_the_same_table_gives_the_same_document() -> None:
    assert json.dumps(asdict(project(with_unknown(), WEB))) == json.dumps(asdict(BEFORE))


def test_order_of_machines_changes_nothing() -> None:
    table = with_unknown()
    order = np.random.default_rng(1).permutation(len(table.machines))
    other = replace(table, machines=tuple(table.machines[at] for at in order))
    question = replace(WEB, explain=True, learning=True)
    before, after = project(table, question), project(other, question)
    same(before, after)
    for one, again in ((before.worths, after.worths), (before.learning, after.learning)):
        assert one
        assert len(one) == len(again)
        for mine, yours in zip(one, again, strict=True):
            for value, new in zip(astuple(mine), astuple(yours), strict=True):
                assert new == (pytest.approx(value, rel=1e-5) if isinstance(value, float) else value)


@given(st.sampled_from(["integer", "integer_rate", "stream", "compress"]), st.floats(1e-9, 1e9))
@few
def test_the_unit_of_a_result_changes_nothing(name: str, factor: float) -> None:
    same(BEFORE, project(changed(with_unknown(), lambda one: times(one, name, factor)), WEB))


@given(st.floats(1e-9, 1e9))
@few
def test_projections_scale_with_the_target(factor: float) -> None:
    found = project(changed(with_unknown(), lambda one: times(one, "web", factor)), WEB)
    same(BEFORE, found, factor)
    assert found.error is not None
    assert BEFORE.error is not None
    assert found.error.p90_error_ratio == pytest.approx(BEFORE.error.p90_error_ratio, rel=1e-5)


@given(st.permutations(range(21)))
@few
def test_names_of_machines_change_nothing(order: list[int]) -> None:
    table = with_unknown()
    names = {one.name: f"host-{at}" for one, at in zip(table.machines, order, strict=True)}
    found = project(changed(table, lambda one: replace(one, name=names[one.name])), WEB)
    assert list(figures(found).values()) == list(figures(BEFORE).values())


@pytest.mark.parametrize("processor", ["p 0", "p 3"])
def test_a_left_out_processor_does_not_learn_of_itself(processor: str) -> None:
    """Its own targets change: its projections must not."""
    random = np.random.default_rng(2)

    def other(one: MeasuredMachine) -> MeasuredMachine:
        mine = str(one.attributes["processor"]).lower() == processor
        return times(one, "web", float(np.exp(2 * random.normal()))) if mine else one

    found = project(changed(with_unknown(), other), WEB)
    before = {one.name: one.projected for one in BEFORE.machines if one.group == processor and not one.is_new}
    assert before
    assert before == {
        one.name: one.projected for one in found.machines if one.group == processor and not one.is_new
    }


@pytest.mark.parametrize("result", ["integer_rate", "stream"])
def test_missing_results_let_nothing_leak(result: str) -> None:
    """What stands for a missing figure must not depend on the target of the machine."""
    table = with_unknown()
    gone = {one.name for one in table.machines[::4]}

    def without(one: MeasuredMachine) -> MeasuredMachine:
        kept = {name: value for name, value in one.results.items() if name != result}
        return replace(one, results=kept) if one.name in gone else one

    table = changed(table, without)
    first = str(table.machines[0].attributes["processor"])
    more = changed(table, lambda one: times(one, "web", 50) if one.attributes["processor"] == first else one)
    pairs = zip(project(table, WEB).machines, project(more, WEB).machines, strict=True)
    own = [
        (one.projected, other.projected)
        for one, other in pairs
        if one.group == first.lower() and not one.is_new
    ]
    assert len(own) == 2
    for one, other in own:
        assert one == other


def test_no_machine_is_projected_from_a_later_one() -> None:
    groups = np.array(["a", "a", "b", "b", "c", "d", "e", "e"])
    years = np.array([2015.0, 2019.5, 2016.2, np.nan, 2016.9, 2018.0, np.nan, np.nan])
    known = np.array([True] * 7 + [False])
    folds = forward_folds(groups, years, known, 12)
    assert [fold.name for fold in folds] == ["2018"]
    spans = forward_folds(
        np.array([f"g{at}" for at in range(30)]), 2000 + np.arange(30) / 2, np.ones(30, bool), 4
    )
    assert len(spans) == 3
    for fold in (*folds, *spans):
        assert not (fold.known & fold.projected).any()
    for fold in spans:
        at = 2000 + np.arange(30) / 2
        assert np.floor(at[fold.known].max()) < np.floor(at[fold.projected].min())
    # `a` appeared in 2015, with its machine of 2019; whatever has no year is not known.
    assert list(folds[0].known) == [True, False, True, False, True, False, False, False]


def test_forward_projections_do_not_depend_on_later_machines() -> None:
    table = fleet(np.random.default_rng(6), World(processors=9, machines=3))

    def dated(one: MeasuredMachine) -> MeasuredMachine:
        return replace(one, attributes={**one.attributes, "year": 2012.0 + int(one.name[1])})

    table = changed(table, dated)
    question = replace(WEB, forward=True)
    more = changed(table, lambda one: times(one, "web", 9) if int(one.name[1]) >= 6 else one)
    before, after = project(table, question), project(more, question)
    assert before.is_forward
    assert [one.name for one in before.groups] == [str(year) for year in range(2013, 2021)]
    for one, other in zip(before.machines, after.machines, strict=True):
        if int(one.name[1]) <= 6:
            assert one.projected == other.projected
        if one.name.startswith("p0"):
            assert one.missing == "of the earliest years: there is nothing earlier to project it from"
    undated = changed(table, lambda one: replace(one, attributes={**one.attributes, "year": "?"})
                      if one.name.startswith("p4") else one)  # fmt: skip
    missing = {one.name: one.missing for one in project(undated, question).machines}
    assert missing["p4-0"] == "no year is known"


def beside(table: MachineTable, machine: MeasuredMachine) -> MachineTable:
    return replace(table, machines=(*table.machines, machine))


def new(cpus: float, name: str = "new") -> MeasuredMachine:
    size = cpus**0.9
    values = {"integer": 200.0, "integer_rate": 200 * size, "stream": 200 * cpus**0.6, "compress": 200.0}
    results = {key: Measurement(((value,),)) for key, value in values.items()}
    return MeasuredMachine(name, {"processor": "Q 1", "cpus": cpus}, results)


def test_a_machine_larger_than_all_is_flagged_and_its_interval_wider() -> None:
    table = fleet(np.random.default_rng(7), SMALL, largest=32)
    widths, flags = [], []
    for cpus in (16.0, 64.0, 128.0):
        machine = project(beside(table, new(cpus)), WEB).machines[-1]
        assert machine.low is not None
        assert machine.high is not None
        widths.append(np.log(machine.high / machine.low))
        flags.append(machine.flags)
    assert not flags[0]
    assert all("outside of the known machines" in flag[0] for flag in flags[1:])
    assert widths[0] < widths[1] < widths[2]
    assert widths[2] > 1.5 * widths[0]


def test_a_machine_without_a_processor_is_projected_as_a_new_one() -> None:
    anonymous = replace(new(8.0), attributes={"cpus": 8.0})
    machine = project(beside(with_unknown(), anonymous), WEB).machines[-1]
    assert (machine.group, machine.siblings) == ("new alone", 0)
    assert machine.projected is not None


def test_a_machine_under_two_names_is_not_projected_from_itself() -> None:
    table = fleet(np.random.default_rng(8), SMALL)
    twin = replace(table.machines[0], name="twin", attributes={"cpus": table.machines[0].attributes["cpus"]})
    found = project(beside(table, twin), WEB).machines
    assert found[-1].same_as == found[0].name
    assert found[-1].group == found[0].group
    assert found[-1].error_ratio == pytest.approx(found[0].error_ratio, abs=0.15)
    assert all(one.same_as is None for one in found[:-1])


def test_a_target_that_contradicts_itself_is_shown() -> None:
    table = fleet(np.random.default_rng(9), SMALL)
    again = replace(times(times(table.machines[0], "web", 3.0), "stream", 1.01), name="again")
    found = project(beside(table, again), WEB)
    assert [(one.group, one.highest) for one in found.contradictions] == [("p 0", "again")]
    assert found.contradictions[0].target_ratio >= 2.99


def test_a_pattern_may_be_a_name() -> None:
    assert matches("read[4k]*", ("read[4k]*",))
    assert matches("read_4k", ("read_*",))
    assert not matches("write_4k", ("read_*", "write"))


def test_families_and_their_own_sizes_are_projected_within_a_percent() -> None:
    """A law over CPUs, with a level of each family: no benchmark, few machines."""
    columns = (ResultColumn("rate", "1/s"),)
    rows = [
        MeasuredMachine(f"{name}.{cpus}", {"family": name, "cpus": float(cpus)},
                        {} if (name, cpus) == ("f3", 8) else
                        {"rate": Measurement(((level * cpus**0.95,),))})
        for name, level in {"f0": 100.0, "f1": 130, "f2": 90, "f3": 170, "f4": 110, "f5": 150}.items()
        for cpus in (1, 2, 4, 8, 16)
    ]  # fmt: skip
    found = project(MachineTable(tuple(rows), columns), Question(("rate",)))
    machine = next(one for one in found.machines if one.is_new)
    assert machine.projected == pytest.approx(170 * 8**0.95, rel=0.01)
    assert machine.siblings == 4
    assert found.group_attribute == "family"


def test_power_at_part_load_follows_from_idle_and_full_power() -> None:
    random = np.random.default_rng(10)
    rows = []
    for at in range(20):
        full = float(random.uniform(150, 500))
        idle = full * float(random.uniform(0.15, 0.4))
        half = (0.4 * idle + 0.6 * full) * float(random.uniform(0.98, 1.02))
        attributes = {"processor": f"P {at}", "power_idle_w": idle, "power_full_w": full}
        if at % 4:
            attributes["power_50_w"] = half
        rows.append((MeasuredMachine(f"m{at}", attributes), half))
    found = project(MachineTable(tuple(one for one, _ in rows), ()), Question(("power_50_w",)))
    assert (found.unit, found.method) == ("w", "model")
    for one, (_, half) in zip(found.machines, rows, strict=True):
        if one.is_new:
            assert one.projected == pytest.approx(half, rel=0.08)


def test_a_model_goes_on_beyond_the_known_sizes() -> None:
    table = fleet(np.random.default_rng(11), World(processors=8, machines=4, family=0.0), largest=16)
    machine = project(beside(table, new(64.0)), WEB).machines[-1]
    known = project(beside(table, new(16.0)), WEB).machines[-1]
    assert machine.projected is not None
    assert known.projected is not None
    assert 2.2 <= machine.projected / known.projected <= 5.0  # 4 ** 0.9 is 3.5


def test_the_features_of_results_are_those_of_the_table_alone() -> None:
    table = with_unknown()
    made = features_of(table, ("integer_rate", "stream"), "processor")
    assert "integer_rate per CPU" in made.names
    assert "web" not in made.of
    at = np.isfinite(table.values("web"))
    groups = np.array([str(one.attributes["processor"]) for one in table.machines])
    model = fit(made, np.log(table.values("web")), groups, at)
    assert model.beyond(made, at).max() == 0


def test_groups_needed_follow_a_power_law() -> None:
    points = [LearningPoint(count, 0, 0.4 * count**-0.5, 1.0) for count in (4, 9, 16)]
    assert groups_needed(points, 0.4 * 49**-0.5, (25, 0.4 * 25**-0.5)) in (49, 50)
    assert groups_needed(points, 0.1, (25, 0.08)) == 16
    assert groups_needed(points, 0.001, (25, 0.08)) is None
    flat = [LearningPoint(count, 0, 0.2, 1.0) for count in (4, 9, 16)]
    assert groups_needed(flat, 0.1, (25, 0.2)) is None


def test_one_lucky_point_of_the_learning_curve_is_not_enough() -> None:
    points = [LearningPoint(4, 0, 0.09, 1.0), LearningPoint(9, 0, 0.2, 1.0), LearningPoint(16, 0, 0.12, 1.0)]
    assert groups_needed(points, 0.1, (25, 0.08)) == 25


def test_the_machine_to_measure_next_is_of_the_processor_with_most_to_gain() -> None:
    random = np.random.default_rng(12)
    groups = np.array([f"g{at // 4}" for at in range(40)])
    sizes = np.tile(np.log([2.0, 4, 8, 16]), 10)
    target = sizes + np.repeat(random.normal(size=10) * 0.4, 4) + 0.02 * random.normal(size=40)
    known = np.ones(40, bool)
    known[-4:] = False
    known[3] = False
    logs = np.where(known, target, np.nan)
    family = siblings_of(
        features(sizes),
        logs, np.where(known, sizes, np.nan), np.full(40, 0.3), groups, sizes, 0.8,
    )  # fmt: skip
    assert family is not None
    half = np.where(known, 0.5, np.where(groups == "g9", 0.6, 0.05))
    names = [f"m{at}" for at in range(40)]
    found = next_machines(names, groups, sizes, known, half, family)
    assert found[0].group == "g9"
    assert found[0].narrowed == 4
    assert found[0].half_width_after_ratio < found[0].half_width_before_ratio


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (Question(()), "nothing to project"),
        (Question(("wep",)), "unknown result 'wep'"),
        (Question(("processor",)), "processor is a text"),
        (Question(("web",), use=("x*",)), "no result fits --use"),
        (Question(("web",), group_by="rack"), "--group-by rack: no machine has it"),
        (Question(("web",), suites={"A": ("x*",)}), r"--suite A: no result fits x\*"),
        (Question(("web",), forward=True), "--forward needs a column `year`"),
        (Question(("web",), method="geomean", explain=True), "--explain needs --method model"),
    ],
    ids=lambda value: "" if isinstance(value, Question) else value,
)
def test_a_question_without_an_answer_is_refused_with_a_hint(question: Question, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        project(with_unknown(), question)
    assert caught.value.hint
