"""Folders of runs that were damaged or made to harm: every command ends in order, and the other runs stay."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.cli.main import invoke
from tests.cli.hostile import BREAKAGES, changed, fifo, text_of
from tests.cli.suites import write_suite
from tests.report.runs import write_run

COMMANDS = (
    ["list", "runs"],
    ["list", "--json"],
    ["score", "bad"],
    ["report", "bad"],
    ["report", "bad", "--json"],
    ["compare", "bad", "good"],
    ["compare", "good", "bad", "--json"],
    ["machine", "check", "bad"],
)


def make(folder: Path, *, without: tuple[str, ...] = ("telemetry", "cache_stats")) -> Path:
    """Two repeats of one run, so that the good one reads the bad one as its sibling."""
    write_run(folder / "good", index=1, count=2, without=without)
    write_run(folder / "bad", index=2, count=2, without=without)
    return folder


def said(
    arguments: list[str], runs: Path, capsys: pytest.CaptureFixture[str], flag: str | None = "--runs"
) -> tuple[int, str, str]:
    """Run a command, with ``runs`` as its ``flag``; fail if it ends otherwise than a command may."""
    code = invoke([*arguments, *([flag, str(runs)] if flag is not None else [])])
    out, err = capsys.readouterr()
    assert code in (0, 1, 2, 3), err
    assert "internal error" not in err, err
    assert "Traceback" not in err
    assert "\x1b" not in out + err
    if "--json" in arguments and out:
        json.loads(out)
    return code, out, err


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_run_is_named_with_its_reason_and_harms_no_other(
    breakage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make(tmp_path)
    BREAKAGES[breakage](runs / "bad" / "run.json")
    # One of the commands for each breakage: all of them read a run by the same reader.
    asking = [command for command in COMMANDS if command[0] not in ("list", "machine")]
    arguments = asking[list(BREAKAGES).index(breakage) % len(asking)]
    code, _, err = said(arguments, runs, capsys)
    assert code == 2
    assert "bad/run.json: " in err
    assert err.count("\n") == 1
    _, out, _ = said(["list", "--json"], runs, capsys)
    listed = {one["run_id"]: one for one in json.loads(out)["runs"]}
    assert listed["good"]["status"] == "complete"
    if breakage != "link to itself":
        assert listed["bad"]["status"] == "unreadable"
        assert "run.json: " in listed["bad"]["status_reason"]
    _, out, _ = said(["report", "good", "--json"], runs, capsys)
    assert json.loads(out)["run_id"] == "good"


@pytest.mark.parametrize(
    "name", ["machine.json", "load.json", "cache-stats.jsonl", "telemetry/telemetry.json", "profile.folded"]
)
@pytest.mark.parametrize("breakage", ["named pipe", "folder", "endless device", "brackets without end"])
def test_a_broken_file_of_a_run_costs_what_it_says(
    name: str, breakage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make(tmp_path, without=() if "telemetry" in name else ("telemetry",))
    path = runs / "bad" / name
    BREAKAGES[breakage](path)
    code, out, err = said(["report", "bad", "--json"], runs, capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["metrics"]["requests_per_s"]["value"]


def test_a_named_pipe_anywhere_in_a_run_blocks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make(tmp_path, without=())
    files = [path for path in (runs / "bad").rglob("*") if path.is_file() and path.name != "run.json"]
    assert len(files) > 5
    for path in files:
        fifo(path)
    (runs / "bad" / "logs").mkdir()
    os.mkfifo(runs / "bad" / "logs" / "server.log")
    for arguments in COMMANDS:
        said(arguments, runs, capsys)


def test_a_link_to_itself_beside_what_was_seen_of_a_program_harms_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make(tmp_path)
    (runs / "bad" / "target").mkdir()
    (runs / "bad" / "target" / "target_process.parquet").symlink_to("target_process.parquet")
    code, out, err = said(["report", "bad", "--json"], runs, capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["metrics"]["requests_per_s"]["value"]


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_suite_is_named_with_its_reason_and_harms_no_other(
    breakage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_suite(tmp_path / "good")
    write_suite(tmp_path / "bad")
    BREAKAGES[breakage](tmp_path / "bad" / "suite.json")
    code, _, err = said(["score", "bad"], tmp_path, capsys)
    assert code == 2
    assert "bad/suite.json: " in err
    _, out, _ = said(["list", "--json"], tmp_path, capsys)
    listed = {one["suite_id"]: one["status"] for one in json.loads(out)["suite_runs"]}
    assert listed["good"] == "complete"


@pytest.mark.parametrize("breakage", ["named pipe", "brackets without end"])
def test_a_broken_member_of_a_suite_is_named_with_its_reason(
    breakage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_suite(tmp_path / "suite", ("tao", "feed"))
    BREAKAGES[breakage](tmp_path / "suite" / "feed-1" / "run.json")
    code, out, _ = said(["report", "suite", "--json"], tmp_path, capsys)
    assert code == 1
    members = {one["benchmark"]: one["runs"][0] for one in json.loads(out)["members"]}
    assert members["tao"]["status"] == "complete"
    assert members["feed"]["status"] == "incomplete"
    assert "feed-1/run.json: " in members["feed"]["status_reason"]


FIELDS = {
    "hooks.probe": r'"half \ud800"',
    "parameters.depth.value": "NaN",
    "clock.realtime_ns": "1" + "0" * 30,
    "clock.monotonic_ns": "9" * 5000,
    "status_reason": r'"a\u0000b"',
    "artifacts.load": r'"\u0000"',
    "metrics.hit_ratio.value": "1e999",
    "series.index": '"one"',
}


@pytest.mark.parametrize("place", FIELDS)
def test_an_odd_value_is_refused_with_its_field(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make(tmp_path)
    path = runs / "bad" / "run.json"
    record = json.loads(path.read_text())
    *outer, last = place.split(".")
    inner = record
    for name in outer:
        inner = inner[name]
    inner[last] = "MARK"
    path.write_text(json.dumps(record).replace('"MARK"', FIELDS[place]))
    code, _, err = said(["report", "bad"], runs, capsys)
    assert code == 2
    assert f"run.json: {place}: " in err.replace("no record of kind 'run': ", "")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_records_end_every_command_in_order(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = make(tmp_path_factory.mktemp("runs"))
    name = data.draw(st.sampled_from(["run.json", "run.json", "machine.json", "load.json"]))
    path = runs / "bad" / name
    path.write_bytes(text_of(data.draw(changed(json.loads(path.read_text())))))
    command = data.draw(st.sampled_from(COMMANDS))
    said(command, runs, capsys)
    _, out, _ = said(["list", "--json"], runs, capsys)
    assert "good" in {one["run_id"] for one in json.loads(out)["runs"]}
