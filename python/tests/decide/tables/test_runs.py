"""Tables of runs: repeats, what gives no value, and what must not stand under one name."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard import records
from steelyard._base import UsageError, schemas_dir
from steelyard.decide.tables.model import MachineTable
from steelyard.decide.tables.reading import together
from steelyard.decide.tables.runs import MachineRun, table_of_runs
from steelyard.records import Check, Level, Machine, Metric, Parameter, Run, RunStatus, Verdict

GOLDEN = schemas_dir() / "golden"
MACHINE = records.read(Machine, GOLDEN / "machine.json")
METRICS = {"tao": "requests_per_s"}
OTHER = MACHINE.model_copy(update={"cpu": MACHINE.cpu.model_copy(update={"model": "another"})})


def one(
    name: str, value: float | None = 100.0, *, at: int = 0, machine: Machine = MACHINE, **changes: Any
) -> MachineRun:
    base = records.read(Run, GOLDEN / "run.json")
    level = changes.pop("level", Level.VALID)
    missing = None if value else "nothing was answered"
    fields = {
        "run_id": f"run-{at}",
        "benchmark": "tao",
        "status": RunStatus.COMPLETE,
        "metrics": {"requests_per_s": Metric(value=value, unit="1/s", better="higher", missing=missing)},
        "verdict": Verdict.of([Check(id="steady", level=level, claim="it drifts.")]),
        **changes,
    }
    return MachineRun(base.model_copy(update=fields), machine, name)


def table(*runs: MachineRun) -> MachineTable:
    return table_of_runs(runs, METRICS)


def test_runs_of_a_machine_are_its_repeats_by_series() -> None:
    again = records.read(Run, GOLDEN / "run.json").series.model_copy(update={"id": "another"})
    found = table(one("a", 1, at=1), one("a", 2, at=2), one("a", 3, at=3, series=again), one("b", 4, at=4))
    assert found.machine("a").results["tao"].sessions == ((1.0, 2.0), (3.0,))
    assert found.machine("a").text("processor") == MACHINE.cpu.model
    assert found.column("tao").conditions.startswith("tier ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"status": RunStatus.INCOMPLETE, "status_reason": "killed"}, "the run is incomplete: killed"),
        ({"level": Level.INVALID}, "the result is invalid: it drifts."),
        ({"verdict": None}, "it has no verdict"),
        ({"value": None}, "requests_per_s: nothing was answered"),
    ],
)
def test_what_gives_no_value_has_its_reason(changes: dict[str, Any], reason: str) -> None:
    found = table(one("a", at=1), one("b", at=2, **changes))
    assert reason in found.machine("b").why_missing("tao")
    assert reason in found.notes[0]


def test_a_suspect_run_has_a_reservation() -> None:
    found = table(one("a", at=1), one("a", at=2, level=Level.SUSPECT))
    assert found.machine("a").results["tao"].reservation == "suspect: it drifts"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tier": "full"}, "one name, two workloads"),
        ({"steelyard_version": "99.1.0"}, "one name, two workloads"),
        ({"parameters": {"depth": Parameter(value=9, unit=None, source="set")}}, "differ: "),
    ],
)
def test_one_name_is_one_workload(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        table(one("a", at=1), one("b", at=2, **changes))
    assert caught.value.hint


def test_a_run_counts_once_and_has_one_machine() -> None:
    found = table(one("a", at=1), one("a", at=1))
    assert found.machine("a").results["tao"].values == (100.0,)
    assert found.notes == ("run-1 is given twice, and counts once.",)
    with pytest.raises(UsageError, match="given as a and as b: one machine, two names"):
        table(one("a", at=1), one("b", at=1))


def test_two_machines_under_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two machines are called a: ") as caught:
        table(one("a", at=1), one("a", at=2, machine=OTHER))
    assert "NAME=PATH" in (caught.value.hint or "")
    assert table(one("a", at=1), one("b", at=2, machine=OTHER)).names == ("a", "b")


def test_runs_and_a_table_of_another_kind_are_not_one_result() -> None:
    from steelyard.decide.tables.columns import Declarations
    from steelyard.decide.tables.delimited import parse_delimited

    with pytest.raises(UsageError, match=r"tao is in 1 .* in one source and in 1/s"):
        together([parse_delimited("machine,tao\na,3\n", "t.csv", Declarations()), table(one("a", at=1))])
    priced = parse_delimited("machine,price_usd\na,3\nb,4\n", "t.csv", Declarations())
    both = together([table(one("a", at=1)), priced])
    assert both.machine("a").number("price") == 3
    assert both.machine("b").why_missing("tao") == "not measured"


def test_machines_with_the_same_results_are_noted() -> None:
    from steelyard.decide.tables.columns import Declarations
    from steelyard.decide.tables.delimited import parse_delimited

    text = "machine,x,y,z\na,1,2,3\nb,1,2,3\nc,1,2,4\n"
    found = together([parse_delimited(text, "t.csv", Declarations())])
    assert found.notes == ("a and b have the same results to the last digit: one machine under two names?",)
    many = "machine,x,y,z\n" + "".join(f"m{at},1,2,3\n" for at in range(100))
    assert len(together([parse_delimited(many, "t.csv", Declarations())]).notes) == 6
