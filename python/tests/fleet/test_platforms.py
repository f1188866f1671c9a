"""Machine types of a fleet: operations per CPU second against closed forms, bounds, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.cli.decide.fleet_table import is_store, table_of_store
from steelyard.fleet import platforms as module
from steelyard.fleet.platforms import DAYS, MACHINES, Platform, platforms
from tests.fleet.arrow_tables import Fleet
from tests.fleet.half_empty import Shape, make
from tests.fleet.simulated import simulated_store


def ask(tasks: list[dict[str, Any]], machines: list[dict[str, Any]] | None = None) -> dict[str, Platform]:
    fleet = Fleet().put("task_samples", tasks).put("machines", machines or [])
    return {one.name: one for one in platforms(fleet.table("machines"), fleet.table("task_samples"))}


def test_a_figure_is_a_machines_sum_of_operations_over_that_of_cpu_time() -> None:
    tasks = [
        {"machine": "m1", "cpu_s": 10.0, "operations": 100.0},
        {"machine": "m1", "cpu_s": 30.0, "operations": 500.0},
        {"machine": "m2", "cpu_s": 10.0, "operations": 200.0},
        {"machine": "m2", "cpu_s": 10.0, "operations": 100.0, "date": "2026-01-02"},
        {"machine": "m3", "cpu_s": 10.0, "operations": 100.0, "platform": "rome"},
    ]
    found = ask(tasks)
    assert list(found) == ["rome", "skylake"]
    assert found["skylake"].jobs["search"].by_day == ((15.0, 20.0), (10.0,))
    assert found["skylake"].jobs["search"].machines == 2
    assert found["rome"].jobs["search"].by_day == ((10.0,),)


def test_samples_that_lack_either_count_for_nothing_and_half_of_them_are_too_many() -> None:
    whole = {"machine": "m1", "cpu_s": 10.0, "operations": 100.0}
    without: list[dict[str, Any]] = [
        {"operations": None}, {"operations": float("nan")}, {"operations": float("inf")},
        {"operations": -1.0}, {"cpu_s": 0.0}, {"cpu_s": 1e308},
    ]  # fmt: skip
    for spoilt in without:
        assert ask([whole, {**whole, **spoilt}])["skylake"].jobs["search"].by_day == ((10.0,),), spoilt
    few = ask([whole, *({**whole, "operations": None} for _ in range(2))])["skylake"].jobs["search"]
    assert (few.by_day, few.missing) == ((), "operations and CPU time in 1 of 3 samples")
    none = ask([{**whole, "operations": None}])["skylake"].jobs["search"]
    assert none.missing == "its samples have no operations"
    idle = ask([{**whole, "operations": 0.0}])["skylake"].jobs["search"]
    assert idle.missing == "it completed no operations"


def test_attributes_are_those_that_the_machines_agree_on() -> None:
    row = {"threads": 8, "cores": 4, "sockets": 1, "memory_bytes": 64 << 30, "cpu_model": "X", "vendor": "V"}
    machines = [
        {"machine": "m1", **row, "nominal_frequency_hz": 2.0e9},
        {"machine": "m2", **row, "nominal_frequency_hz": 2.01e9, "sockets": 2, "cpu_model": "Y"},
    ]
    found = ask([{"machine": "m1", "operations": 1.0}], machines)["skylake"]
    assert found.attributes == {
        "vendor": "V",
        "cpus": 8.0,
        "cores": 4.0,
        "memory_bytes": float(64 << 30),
        "clock_hz": 2.01e9,
        "threads_per_core": 2.0,
    }
    assert found.missing == {
        "processor": "its machines differ: X and Y",
        "sockets": "its machines differ: 1 to 2",
        "numa_nodes": "not in the inventory",
        "turbo_hz": "not in the inventory",
    }
    assert set(ask([{"operations": 1.0}])["skylake"].missing.values()) == {"no inventory of its machines"}


def test_machines_and_days_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [
        {"machine": f"m{at}", "operations": 1.0, "date": f"2026-01-{day:02}"}
        for at in range(6)
        for day in range(1, 5)
    ]
    assert len(ask(tasks)["skylake"].jobs["search"].by_day) == 4
    monkeypatch.setattr(module, "MACHINES", 4)
    monkeypatch.setattr(module, "DAYS", 2)
    found = ask(tasks)["skylake"].jobs["search"]
    assert (found.machines, [len(day) for day in found.by_day]) == (4, [4, 4])
    assert (MACHINES, DAYS) == (200, 14)


def test_a_store_is_a_table_of_its_platforms() -> None:
    store = str(simulated_store())
    table = table_of_store(store)
    assert len(table.machines) == 4
    assert all(column.unit == "1/s" for column in table.results)
    assert all(machine.number("cpus") for machine in table.machines)
    # Two days: each machine's figure is a repeat, of one session.
    assert {len(one.sessions) for machine in table.machines for one in machine.results.values()} == {1}
    assert is_store(store)
    assert not is_store("nothing")


def test_from_three_days_on_a_day_is_a_session(tmp_path: Any) -> None:
    store = make(tmp_path / "store", Shape(machines=4, platforms=2))
    assert {len(one.sessions) for m in table_of_store(store).machines for one in m.results.values()} == {1}
    of_days = [
        {"machine": f"m{at}", "operations": float(at + 1), "date": f"2026-01-0{day}"}
        for at in range(3)
        for day in (1, 2, 3)
    ]
    from steelyard.cli.decide.fleet_table import _machine

    measured = _machine(ask(of_days)["skylake"], ["search", "other"])
    assert [len(session) for session in measured.results["search_ops_per_cpu_s"].sessions] == [3, 3, 3]
    assert measured.why_missing("other_ops_per_cpu_s") == "it did not run there"
