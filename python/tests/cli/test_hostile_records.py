"""Hostile records of experiments, tunings, co-locations and suites: refused by name, harming no other.

Those of runs are in ``test_hostile_runs.py``.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard._base import schemas_dir
from tests.cli.hostile import BREAKAGES, changed, text_of
from tests.cli.suites import write_suite
from tests.cli.test_hostile_runs import said

GOLDEN = schemas_dir() / "golden"


@dataclass(frozen=True)
class Kind:
    """A record in a folder of its own."""

    file: str
    commands: tuple[list[str], ...]
    """What reads it; BAD stands for its folder, and GOOD for that of another."""
    fields: dict[str, str]
    """Places in it, and what nobody can use there."""
    listed: str | None = None
    """The part of `list` that shows it."""


KINDS = {
    "experiment": Kind(
        "experiment.json",
        (
            ["experiment", "BAD"],
            ["experiment", "BAD", "--json"],
            ["compare", "bad"],
            ["experiment", "--resume", "BAD"],
            ["scale", "BAD"],
            ["scale", "--resume", "BAD"],
            ["numa", "experiment", "BAD"],
            ["numa", "experiment", "--resume", "BAD"],
        ),
        {
            "arms.0.name": r'"half \ud800"',
            "metric.name": r'"a\u0000b"',
            "plan.blocks": '"many"',
            "plan.least_effect_ratio": "NaN",
            "trials.0.value": "1e999",
            "trials.0.block": "-1",
            "orchestrator.pid": "1" + "0" * 30,
            "status": '"done"',
        },
        "experiments",
    ),
    "tuning": Kind(
        "tuning.json",
        (["tune", "show", "BAD"], ["tune", "show", "BAD", "--json"], ["tune", "run", "--resume", "BAD"]),
        {
            "knobs.0.name": r'"\u0000"',
            "plan.blocks": "NaN",
            "chosen": "[]",
            "evidence.0.low": "1e999",
            "status": "7",
            "tuning_id": "9" * 5000,
        },
    ),
    "colocation": Kind(
        "colocation.json",
        (["report", "bad"], ["report", "bad", "--json"]),
        {
            "seed": "1" + "0" * 30,
            "workloads.0.name": r'"\ud800"',
            "blocks.0.runs.0.value": "-Infinity",
            "blocks.0.order": '"first"',
            "status": "null",
        },
    ),
    "suite": Kind(
        "suite.json",
        (
            ["report", "bad"],
            ["report", "bad", "--json"],
            ["score", "bad"],
            ["compare", "bad", "good"],
            ["compare", "good", "bad", "--json"],
            ["run", "--resume", "BAD"],
        ),
        {
            "members.0.benchmark": r'"\u0000"',
            "members.0.runs": "7",
            "repeats": "NaN",
            "clock.realtime_ns": "9" * 5000,
            "suite_id": r'"\ud800"',
        },
        "suite_runs",
    ),
}


def make(kind: Kind, runs: Path) -> Path:
    """Two records of a kind, one of which is to be broken; return that one's file."""
    for name in ("good", "bad"):
        if kind.file == "suite.json":
            write_suite(runs / name)
        else:
            (runs / name).mkdir(parents=True)
            shutil.copyfile(GOLDEN / kind.file, runs / name / kind.file)
    return runs / "bad" / kind.file


def words_of(command: list[str], runs: Path) -> list[str]:
    return [str(runs / word.lower()) if word in ("BAD", "GOOD") else word for word in command]


def ask(command: list[str], runs: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run a command; the ones that have a folder for runs get it."""
    flag = "--runs" if command[0] in ("report", "compare", "score", "list") else None
    return said(words_of(command, runs), runs, capsys, flag)


def check_others(
    kind: Kind, runs: Path, capsys: pytest.CaptureFixture[str], *, is_there: bool = True
) -> None:
    """Assert that the other record is read as before, and that the list has both."""
    code, _, err = ask(
        [word.replace("bad", "good").replace("BAD", "GOOD") for word in kind.commands[0]], runs, capsys
    )
    assert code in (0, 1), err
    if kind.listed is None:
        return
    _, out, _ = ask(["list", "--json"], runs, capsys)
    listed = json.loads(out)[kind.listed]
    assert len(listed) == 1 + is_there
    states = [one["status"] for one in listed]
    assert states.count("complete") >= 1
    if is_there:
        (broken,) = [one for one in listed if one["status"] == "unreadable"]
        assert f"bad/{kind.file}: " in broken["status_reason"]


@pytest.mark.parametrize("breakage", BREAKAGES)
@pytest.mark.parametrize("name", KINDS)
def test_a_broken_record_is_named_with_its_reason_and_harms_no_other(
    name: str,
    breakage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind = KINDS[name]
    BREAKAGES[breakage](make(kind, tmp_path))
    monkeypatch.chdir(tmp_path)
    # What is nowhere is the name of a benchmark, or of a program.
    is_there = breakage != "link to itself"
    for command in kind.commands if is_there else kind.commands[:1]:
        code, _, err = ask(command, tmp_path, capsys)
        assert code == 2, (command, err)
        assert f"bad/{kind.file}: " in err or not is_there, (command, err)
        assert err.count("\n") == 1, (command, err)
    check_others(kind, tmp_path, capsys, is_there=is_there)


PLACES = [(name, place) for name, kind in KINDS.items() for place in kind.fields]


@pytest.mark.parametrize(("name", "place"), PLACES, ids=[f"{name}-{place}" for name, place in PLACES])
def test_an_odd_value_is_refused_with_its_field(
    name: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = KINDS[name]
    path = make(kind, tmp_path)
    record = json.loads(path.read_text())
    *outer, last = [int(word) if word.isdigit() else word for word in place.split(".")]
    inner = record
    for word in outer:
        inner = inner[word]
    assert last in inner
    inner[last] = "MARK"
    path.write_text(json.dumps(record).replace('"MARK"', kind.fields[place]))
    for command in kind.commands:
        code, _, err = ask(command, tmp_path, capsys)
        assert code == 2, (command, err)
        assert f"bad/{kind.file}: " in err
        assert f" {place}" in err, (command, err)
        assert err.count("\n") == 1, (command, err)
    check_others(kind, tmp_path, capsys)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("name", KINDS)
def test_changed_records_end_every_command_in_order(
    name: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind, runs = KINDS[name], tmp_path_factory.mktemp("runs")
    path = make(kind, runs)
    path.write_bytes(text_of(data.draw(changed(json.loads(path.read_text())))))
    # Going on with one would run what it says.
    showing = [command for command in kind.commands if "--resume" not in command]
    ask(data.draw(st.sampled_from(showing)), runs, capsys)
    if kind.listed is not None:
        _, out, _ = ask(["list", "--json"], runs, capsys)
        assert "complete" in [one["status"] for one in json.loads(out)[kind.listed]]
