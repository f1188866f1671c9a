"""What is counted beside the commands of a sweep, on a processor whose events are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard import machine as machines
from steelyard.experiment.counting import METRICS, CommandCounts
from steelyard.experiment.response import is_beside
from tests.analyze.counters.test_choice import machine
from tests.analyze.counters.test_sides import MACHINE, counted, recording

EVENTS = {
    "CPU_CLK_UNHALTED.THREAD": 3_000_000_000,
    "INST_RETIRED.ANY": 2_000_000_000,
    "LONGEST_LAT_CACHE.MISS": 4_000_000,
}


def counts(folder: Path, events: dict[str, int], *, has_metrics: bool = True) -> CommandCounts:
    found = [row for event, per_s in events.items() for row in counted(event, per_s, "", scope="process")]
    recording(folder / "counters", found)
    return CommandCounts(folder, ("probe", "--"), {}, MACHINE if has_metrics else None)


def test_cpi_and_misses_of_the_last_cache_stand_beside_a_curve(tmp_path: Path) -> None:
    readings, missing = counts(tmp_path, EVENTS).read()
    assert readings["cpi"] == pytest.approx(1.5)
    assert readings["llc_mpki"] == pytest.approx(2.0)
    assert readings["instructions"] / readings["cycles"] == pytest.approx(2 / 3)
    # Of code and data apart nothing was counted, and it says so.
    assert missing.keys() == {"llc_data_mpki", "llc_code_mpki"}
    assert all(missing.values())
    assert all(is_beside(name) for name in METRICS)


def test_misses_that_were_not_counted_are_missing_and_not_0(tmp_path: Path) -> None:
    events = {name: per_s for name, per_s in EVENTS.items() if "CACHE" not in name}
    readings, missing = counts(tmp_path, events).read()
    assert "llc_mpki" not in readings
    assert "llc_mpki" in missing


def test_without_a_sweep_no_metrics_are_worked_out(tmp_path: Path) -> None:
    readings, missing = counts(tmp_path, EVENTS, has_metrics=False).read()
    assert readings.keys() == {"instructions", "cycles"}
    assert not missing


@pytest.mark.parametrize("has_metrics", [False, True])
def test_only_what_is_asked_for_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_metrics: bool
) -> None:
    monkeypatch.setattr(machines, "snapshot", lambda: MACHINE)
    prepared = CommandCounts.prepare(tmp_path, has_metrics=has_metrics)
    assert not prepared.missing
    plan = (tmp_path / "counters-plan.json").read_text().casefold()
    assert "inst_retired.any" in plan
    assert ("longest_lat_cache.miss" in plan) is has_metrics
    assert prepared.wrapped(["program", "1"])[-2:] == ["program", "1"]


def test_a_machine_without_counters_says_so_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "snapshot", lambda: machine("GenuineIntel-6-6A-6", ["software"]))
    prepared = CommandCounts.prepare(tmp_path, has_metrics=True)
    assert prepared.wrapped(["true"]) == ["true"]
    readings, missing = prepared.read()
    assert readings == {}
    assert missing.keys() == {"instructions", "cycles", *METRICS}
