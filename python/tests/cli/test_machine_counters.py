"""``steelyard machine counters`` as a user runs it: live, on records, with a plan and a checkout, and on
nonsense."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard import records, telemetry
from steelyard._base import executable, schemas_dir
from steelyard.analyze.counters.choice import definition_of, facts_of
from steelyard.analyze.counters.metrics import metrics_of
from steelyard.cli.main import invoke
from steelyard.machine.snapshot import snapshot
from steelyard.records import CounterPlan, Machine
from steelyard.telemetry.counters import counter_series, gains

GOLDEN = schemas_dir() / "golden" / "machine.json"


def test_counters_of_this_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert invoke(["machine", "counters"]) == 0
    output = capsys.readouterr().out
    assert "context_switches_per_s" in output
    assert all(len(line) <= 80 for line in output.splitlines())


def test_counters_of_a_recorded_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["machine", "counters", str(GOLDEN), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["definition"]["id"] == "amd-zen5"
    metrics = {each["name"]: each for each in document["metrics"]}
    assert metrics["ipc"]["formula"] == "ex_ret_instr / ls_not_halted_cyc"
    assert metrics["llc_code_mpki"]["missing"] == "L3 does not tell code from data"
    names = {event["name"] for event in document["plan"]["events"]}
    assert names == {name for each in document["metrics"] for name in each["events"]}


def test_a_plan_is_written_for_the_probe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counter-plan.json"
    command = [
        "machine",
        "counters",
        str(GOLDEN),
        "--scope",
        "cgroup",
        "--metric",
        "ipc",
        "--plan",
        str(path),
    ]
    assert invoke(command) == 0
    captured = capsys.readouterr()
    assert "ipc" in captured.out
    assert str(path) in captured.err
    plan = records.read(CounterPlan, path)
    assert [event.name for event in plan.events] == ["ex_ret_instr", "ls_not_halted_cyc"]


def test_a_plan_without_an_event_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counter-plan.json"
    assert invoke(["machine", "counters", str(GOLDEN), "--metric", "core_ipc", "--plan", str(path)]) == 3
    assert "no event can be counted here" in capsys.readouterr().err
    assert not path.exists()


def test_what_is_absent_is_reported_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["machine", "counters", "--scope", "socket"],
        ["machine", "counters", "--metric", "no_such_metric"],
        ["machine", "counters", "--definitions", str(tmp_path)],
        ["machine", "counters", str(tmp_path / "absent")],
    ):
        assert invoke(command) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_names_from_a_checkout_cannot_draw_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "GenuineIntel-6-55,v1,/x/events/x_core.json,core\n"
    (tmp_path / "x" / "events").mkdir(parents=True)
    (tmp_path / "mapfile.csv").write_text(row)
    items = [
        {"EventName": "a\x1b[31m[bold]", "EventCode": "0x1"},
        {"MetricName": "m\x1b[31m[bold]", "MetricExpr": "cycles / instructions"},
    ]
    (tmp_path / "x" / "events" / "x_core.json").write_text(json.dumps(items))
    machine = records.read(Machine, GOLDEN)
    cpu = machine.cpu.model_copy(update={"identifier": "GenuineIntel-6-55-1"})
    path = tmp_path / "machine.json"
    records.write(machine.model_copy(update={"cpu": cpu}), path)
    assert invoke(["machine", "counters", str(path), "--definitions", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "[bold]" in output


SPINNING = """
import time
end = time.monotonic() + 0.6
while time.monotonic() < end:
    sum(range(1000))
print(time.process_time())
"""
"""A program that tells how much CPU time it has used."""


def test_the_probe_counts_by_the_plan_and_metrics_follow(tmp_path: Path) -> None:
    plan, out = tmp_path / "counter-plan.json", tmp_path / "telemetry"
    assert invoke(["machine", "counters", "--scope", "process", "--plan", str(plan)]) == 0
    probe = [str(executable("steelyard-probe")), "record", "--counters", str(plan)]
    command = [*probe, "--counter-scope", "process", "--interval", "100ms", "--out", str(out)]
    done = subprocess.run(
        [*command, "--", sys.executable, "-c", SPINNING], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    here = snapshot()
    definition, _ = definition_of(here)
    with telemetry.open(out) as recording:
        found = counter_series(recording, 0, 2**62)
        if not found:
            pytest.skip(f"no event can be counted here: {recording.missing('counters')}")
    [series] = found
    counted = gains(series)
    values = metrics_of(definition, counted, facts_of(here, "process", definition))
    used = values["cpus_used"].value
    assert used is not None
    assert counted.duration_s is not None
    # All that it used from its first instruction, beside the interpreter's end and what it did before main.
    assert used * counted.duration_s == pytest.approx(float(done.stdout), abs=0.1)
    assert values["context_switches_per_s"].value is not None
    # Whatever was planned was counted, or says why not.
    for event in records.read(CounterPlan, plan).events:
        gain = counted.of(event.name)
        assert (gain.value is None) == bool(gain.missing)
