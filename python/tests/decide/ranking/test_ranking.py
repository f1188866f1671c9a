"""Ranking machines: scores against closed forms, what is withheld, and how sure an order is."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import records
from steelyard._base import UsageError, schemas_dir
from steelyard.decide.baseline import Baseline, build
from steelyard.decide.ranking.ranking import PAIRS, Ranking, rank
from steelyard.decide.ranking.request import ScoreRequest
from steelyard.decide.score import series_of
from steelyard.decide.tables.columns import Declarations
from steelyard.decide.tables.delimited import parse_delimited
from steelyard.decide.tables.model import MachineTable
from steelyard.decide.tables.reading import together
from steelyard.decide.tables.runs import MachineRun, table_of_runs
from steelyard.records import Check, Level, Machine, Metric, Parameter, Run, RunStatus, Verdict
from steelyard.report.decide.score import heading

GOLDEN = schemas_dir() / "golden"
MACHINE = records.read(Machine, GOLDEN / "machine.json")


def table(text: str) -> MachineTable:
    return together([parse_delimited(text, "t.csv", Declarations())])


def ranked(text: str, **asked: object) -> Ranking:
    return rank(table(text), ScoreRequest(**asked))  # type: ignore[arg-type]


def scores(found: Ranking) -> dict[str, float | None]:
    return {machine.name: machine.ratio for machine in found.machines}


def repeats(values: dict[str, list[float]], name: str = "web_per_s") -> str:
    return f"machine,{name}\n" + "".join(f"{m},{v!r}\n" for m, vs in values.items() for v in vs)


PLAIN = "machine,web_per_s,p99_ms\nA,100,10\nB,200,10\nC,100,40\n"


def test_a_score_is_the_geometric_mean_over_the_baseline() -> None:
    found = ranked(PLAIN)
    assert (found.baseline, [m.name for m in found.machines]) == ("A", ["B", "A", "C"])
    assert scores(found) == pytest.approx({"B": math.sqrt(2), "A": 1, "C": 0.5})
    assert [m.rank for m in found.machines] == [1, 2, 3]
    assert scores(ranked(PLAIN, baseline="C")) == pytest.approx({"B": 2 * math.sqrt(2), "A": 2, "C": 1})


def test_weights_count_and_are_shown() -> None:
    found = ranked(PLAIN, weight={"web_per_s": "3"})
    assert found.weights == {"web_per_s": 0.75, "p99_ms": 0.25}
    assert scores(found) == pytest.approx({"B": 2**0.75, "A": 1, "C": 4**-0.25})
    none = ranked(PLAIN, weight={"web_per_s": "0"})
    assert scores(none) == pytest.approx({"A": 1, "B": 1, "C": 0.25})
    assert [member.name for member in none.machines[0].members] == ["web_per_s", "p99_ms"]
    chosen = ranked(PLAIN, result=("web_per_s", "web_per_s"))
    assert chosen.weights == {"web_per_s": 1.0}
    assert scores(chosen)["B"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"weight": {"web_per_s": "-1"}}, "not a number from 0"),
        ({"weight": {"web_per_s": "nan"}}, "not a number from 0"),
        ({"weight": {"web_per_s": "0", "p99_ms": "0"}}, "all weights are 0"),
        ({"weight": {"nothing": "1"}}, "unknown result 'nothing'"),
        ({"result": ("web_per_s",), "weight": {"p99_ms": "1"}}, "it does not count"),
        ({"result": ("web",)}, "unknown result 'web'"),
        ({"baseline": "D"}, "unknown machine 'D'"),
        ({"noise": "-2%"}, "--noise"),
        ({"noise": "much"}, "--noise"),
    ],
)
def test_wrong_requests_are_refused_with_a_hint(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        ranked(PLAIN, **asked)
    assert caught.value.hint


def test_one_machine_and_no_result_are_refused() -> None:
    with pytest.raises(UsageError, match="one machine only"):
        ranked("machine,x\nA,1\n")
    with pytest.raises(UsageError, match="no machine has a result"):
        ranked("machine,cpu\nA,P\nB,Q\n")
    with pytest.raises(UsageError, match="the baseline A has no result: x: the cell is empty"):
        ranked("machine,x\nA,\nB,1\nC,2\n", baseline="A")


def test_a_machine_that_lacks_a_result_has_no_score_and_the_reason() -> None:
    text = "machine,x,y,z\nA,1,2,3\nB,1,0,\nC,2,2,2\nD,9,9,9\nE,8,8,8\n"
    found = ranked(text)
    last = found.machines[-1]
    assert (last.name, last.rank, last.ratio) == ("B", None, None)
    assert last.withheld == "y and 1 more: 0 is no result"
    assert [member.missing for member in last.members] == [None, "0 is no result", "the cell is empty"]
    # What has no weight need not be there.
    assert scores(ranked(text, weight={"y": "0", "z": "0"}))["B"] == 1


def test_without_a_named_baseline_it_is_the_first_machine_with_all_results() -> None:
    found = ranked("machine,x,y\nA,1,\nB,2,2\nC,4,4\n")
    assert found.baseline == "B"
    assert scores(found) == {"C": pytest.approx(2), "B": 1, "A": None}
    assert ranked("machine,x,y\nA,1,\nB,,2\n").baseline == "A"


def test_equal_machines_are_about_as_often_ahead_as_behind() -> None:
    rng = random.Random(1)
    found = [
        ranked(repeats({m: [rng.gauss(100, 2) for _ in range(5)] for m in "AB"})).orders[0].probability
        for _ in range(200)
    ]
    known = [one for one in found if one is not None]
    # Of the order that was found: above one half, and as often near 1 as near one half.
    assert len(known) == 200
    assert 0.7 < float(np.mean(known)) < 0.8
    close = ranked(repeats({"A": [99, 100, 101, 102, 98], "B": [99, 100.1, 101, 102, 98]})).orders[0]
    assert close.probability == pytest.approx(0.5, abs=0.06)


def test_separated_machines_are_in_order_almost_surely() -> None:
    found = ranked(repeats({"A": [99, 100, 101], "B": [119, 120, 121], "C": [139, 140, 141]}))
    assert [m.name for m in found.machines] == ["C", "B", "A"]
    assert all(m.better_than_next is not None and m.better_than_next > 0.999 for m in found.machines[:2])
    first = found.machines[0]
    assert first.low is not None
    assert first.high is not None
    assert first.low < 1.4 < first.high
    assert found.machines[-1].no_interval == "it is the baseline"
    assert heading(found) == "C is first: 1.4x A (1.37 to 1.43)"


def test_one_run_gives_no_probability_and_says_why() -> None:
    order = ranked(PLAIN, result=("web_per_s",), weight={}).orders[0]
    assert order.probability is None
    assert order.no_interval == "B has one run of web_per_s, 3 are needed: repeat it, or state --noise"
    stated = ranked(PLAIN, result=("web_per_s",), noise="2%").orders[0]
    assert stated.probability == pytest.approx(1)
    assert ranked(PLAIN, noise="0").orders[0].probability is None


def test_a_stated_noise_has_the_closed_form_of_the_normal_distribution() -> None:
    found = ranked("machine,x\nA,100\nB,102\n", noise="2%").orders[0]
    expected = 0.5 * (1 + math.erf(math.log(1.02) / (0.02 * math.sqrt(2)) / math.sqrt(2)))
    assert found.probability == pytest.approx(expected)


def test_a_machine_under_two_names_is_never_in_order() -> None:
    same = "".join(f"{m},{v},{v},{v}\n" for m in "ABC" for v in (1, 2, 3))
    found = ranked(f"machine,x,y,z\n{same}")
    assert [order.probability for order in found.orders] == [None, None]
    assert all("one machine under two names?" in (order.no_interval or "") for order in found.orders)
    assert any("A and B have the same results" in note for note in found.notes)


def test_repeats_that_are_all_the_same_show_no_noise() -> None:
    found = ranked(repeats({"A": [5, 5, 5], "B": [6, 6, 6]}))
    assert found.orders[0].no_interval == "repeats of both are all the same: they show no noise"


def test_the_order_of_many_machines_is_judged_to_a_bound() -> None:
    found = ranked("machine,x\n" + "".join(f"m{at},{at + 1}\n" for at in range(500)))
    assert len(found.machines) == 500
    assert len(found.orders) == PAIRS


def test_extreme_figures_stay_finite() -> None:
    found = ranked("machine,x,y\nA,1e-99,1\nB,1e99,1\n", noise="2%")
    assert all(m.ratio is not None and 0 < m.ratio < math.inf for m in found.machines)


CELLS = st.lists(st.floats(min_value=1, max_value=1e6), min_size=6, max_size=6)


@given(CELLS, st.permutations(range(6)), st.floats(min_value=1e-3, max_value=1e3))
def test_order_and_scores_depend_on_neither_rows_nor_units(
    cells: list[float], places: list[int], factor: float
) -> None:
    rows = [f"m{at},{cells[at]!r},{cells[-1 - at]!r}" for at in range(6)]
    plain = ranked("\n".join(["machine,x_per_s,y_ms", *rows]), baseline="m0")
    mixed = ranked("\n".join(["machine,x_per_s,y_ms", *(rows[at] for at in places)]), baseline="m0")
    scaled = [f"m{at},{cells[at] * factor!r},{cells[-1 - at] * 1000!r}" for at in range(6)]
    other = ranked("\n".join(["machine,x_per_s,y_us", *scaled]), baseline="m0")
    assert scores(mixed) == pytest.approx(scores(plain))
    assert scores(other) == pytest.approx(scores(plain))


def run(value: float, at: int = 0, **changes: Any) -> Run:
    fields = {
        "run_id": f"run-{at}",
        "benchmark": "tao",
        "tier": "quick",
        "status": RunStatus.COMPLETE,
        "metrics": {"requests_per_s": Metric(value=value, unit="1/s", better="higher")},
        "verdict": Verdict.of([Check(id="steady", level=Level.VALID, claim="steady")]),
        **changes,
    }
    return records.read(Run, GOLDEN / "run.json").model_copy(update=fields)


def baseline(*values: float, **changes: Any) -> Baseline:
    return build(
        [(run(value, **changes), MACHINE) for value in values],
        name="lab",
        title="lab machine",
        provenance="made in a test",
        metrics={"tao": "requests_per_s"},
    )


def of_runs(*values: float, **changes: Any) -> MachineTable:
    found = [MachineRun(run(value, at, **changes), MACHINE, "a") for at, value in enumerate(values)]
    return table_of_runs(found, {"tao": "requests_per_s"})


def test_a_baseline_of_steelyard_is_a_machine_of_the_ranking() -> None:
    found = rank(of_runs(198, 200, 202), ScoreRequest(), baseline(99, 100, 101))
    assert found.baseline == "lab"
    assert scores(found) == {"a": pytest.approx(2), "lab": 1}
    assert found.machines[0].low is not None
    assert found.machines[0].better_than_next == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tier": "full"}, "the baseline has it in tier full, Steelyard"),
        ({"steelyard_version": "99.0.0"}, "the baseline has it in tier quick, Steelyard 99.0"),
        ({"parameters": {"depth": Parameter(value=9, unit=None, source="set")}}, "its parameters differ: "),
        ({"benchmark": "feed"}, "not in the baseline"),
    ],
)
def test_a_baseline_of_another_workload_is_refused(changes: dict[str, Any], words: str) -> None:
    reference = build(
        [(run(100, **changes), MACHINE)],
        name="lab",
        title="lab machine",
        provenance="made in a test",
        metrics={"tao": "requests_per_s", "feed": "requests_per_s"},
    )
    with pytest.raises(UsageError, match=words):
        rank(of_runs(200), ScoreRequest(), reference)


def test_a_baseline_in_another_unit_or_of_a_machines_name_is_refused() -> None:
    metric = {"requests_per_s": Metric(value=1.0, unit="1/h", better="higher")}
    with pytest.raises(UsageError, match="tao is in 1/s, the baseline's in 1/h"):
        rank(of_runs(200), ScoreRequest(), baseline(100, metrics=metric))
    other = replace(of_runs(200), machines=tuple(replace(m, name="lab") for m in of_runs(200).machines))
    with pytest.raises(UsageError, match="a machine is called 'lab'"):
        rank(other, ScoreRequest(), baseline(100))
    assert series_of(run(1).steelyard_version)
