"""``steelyard machine`` as a user runs it: live, on records, on recorded trees, and on nonsense."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.cli.main import invoke
from steelyard.machine.checks.registry import built_in
from steelyard.records import Machine

GOLDEN = schemas_dir() / "golden" / "machine.json"
CONTROL = "evil\x1b[31m \x07[bold]name[/bold]\u202e"


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def written(path: Path, **changes: object) -> str:
    machine = records.read(Machine, GOLDEN)
    parts = {
        name: getattr(machine, name).model_copy(update=value)
        if isinstance(value, dict) and name != "missing"
        else value
        for name, value in changes.items()
    }
    records.write(machine.model_copy(update=parts), path)
    return str(path)


def fits(text: str) -> None:
    for line in text.splitlines():
        assert cell_len(line) <= 80, line


def test_show_is_the_record_and_a_table_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["machine", "show", "--root", str(GOLDEN), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(GOLDEN.read_text())
    assert invoke(["machine", "show", "--root", str(GOLDEN)]) == 0
    text = capsys.readouterr().out
    fits(text)
    for expected in (
        "AMD EPYC 9655",
        "1 × 64.0 GiB DDR5 M321R8GA0PB0 at 6000 MT/s (rated 6400)",
        "ring 1,024 of 8,192",
        "latency 110 ns",
        "x16",
        "3.12 % on CPU 12",
        "Missing values, and why",
    ):
        assert expected in re.sub(r" *\n +", " ", text), expected


def test_show_of_this_machine_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["machine", "show"]) == 0
    text = capsys.readouterr().out
    fits(text)
    assert "Processor" in text


def test_diff_answers_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = written(tmp_path / "b.json", cpu={"boost": False}, hostname="bench-2")
    assert invoke(["machine", "diff", str(GOLDEN), str(GOLDEN)]) == 0
    assert "nothing differs" in capsys.readouterr().out
    assert invoke(["machine", "diff", str(GOLDEN), other]) == 1
    text = capsys.readouterr().out
    fits(text)
    assert text.index("boost") < text.index("host name")
    assert "without it the processor stays" in text
    assert invoke(["machine", "diff", str(GOLDEN), other, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [one["key"] for one in document["differences"]] == ["cpu.boost", "hostname"]
    assert document["differences"][0]["effect"] == "large"


def test_diff_with_this_machine_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["machine", "diff", str(GOLDEN)]) == 1
    fits(capsys.readouterr().out)


def test_diff_finds_a_run_by_the_beginning_of_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "runs" / "20260101-tao"
    run.mkdir(parents=True)
    (run / "run.json").write_bytes((schemas_dir() / "golden" / "run.json").read_bytes())
    (run / "machine.json").write_bytes(GOLDEN.read_bytes())
    out = ["--runs", str(run.parent)]
    assert invoke(["machine", "diff", "2026", str(GOLDEN), *out]) == 0
    assert invoke(["machine", "check", "latest", "--json", *out]) in (0, 1)
    capsys.readouterr()


def test_check_answers_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = written(tmp_path / "slow.json", kernel={"clocksource": "hpet", "clocksources": ["hpet", "tsc"]})
    assert invoke(["machine", "check", slow]) == 1
    text = capsys.readouterr().out
    fits(text)
    assert "the clock is hpet" in text
    assert text.startswith("no: ")
    assert invoke(["machine", "check", slow, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["is_ok"] is False
    assert {one["id"] for one in document["answers"]} == {one.id for one in built_in()}
    first = document["answers"][0]
    assert (first["id"], first["severity"], first["outcome"]) == ("clocksource", "high", "objects")
    assert first["evidence"] == {"kernel.clocksource": "hpet", "kernel.clocksources": "hpet tsc"}
    medium = [
        one["id"] for one in document["answers"] if one["outcome"] == "objects" and one["severity"] != "low"
    ]
    ignore = [word for one in medium for word in ("--ignore", one)]
    assert invoke(["machine", "check", slow, *ignore]) == 0
    assert "yes: none failed" in capsys.readouterr().out
    assert invoke(["machine", "check", slow, *ignore, "--strict"]) == 1
    assert invoke(["machine", "check", slow, "--all"]) == 1
    text = capsys.readouterr().out
    fits(text)
    assert "boost is on" in text


def test_names_from_outside_are_shown_and_not_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = records.read(Machine, GOLDEN)
    evil = written(
        tmp_path / "evil.json",
        hostname=CONTROL,
        cpu={"model": CONTROL, "idle_governor": CONTROL},
        kernel={"clocksource": CONTROL, "command_line": f"nosmt {CONTROL}", "sysctl": {CONTROL: CONTROL}},
        disks=[machine.disks[0].model_copy(update={"name": CONTROL, "scheduler": CONTROL, "model": CONTROL})],
        missing={CONTROL: CONTROL},
    )
    for arguments in (["show", "--root", evil], ["diff", str(GOLDEN), evil], ["check", evil, "--all"]):
        invoke(["machine", *arguments])
        text = capsys.readouterr().out
        assert "[bold]name[/bold]" in re.sub(r"\s+", "", text) or "[bold]name" in text
        assert not set(text) & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["show", "--root", "/nowhere"], 2),
        (["show", "--root", "/dev/null"], 2),
        (["diff", "nowhere"], 2),
        (["diff", str(GOLDEN), str(GOLDEN.parent / "run.json")], 2),
        (["check", "nowhere"], 2),
        (["check", "live", "--ignore", "bost"], 2),
    ],
)
def test_nonsense_is_one_line(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["machine", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("steelyard: ")
    assert captured.err.count("\n") == 1


def test_a_check_as_csv_has_one_fact_in_a_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = written(tmp_path / "slow.json", kernel={"clocksource": "hpet", "clocksources": ["hpet", "tsc"]})
    assert invoke(["machine", "check", slow, "--format", "csv"]) == 1
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0]) == ["severity", "claim", "do", "limit", "id"]
    [clock] = [row for row in rows if row["id"] == "clocksource"]
    assert clock["severity"] == "high"
    assert all("\n" not in cell and "  " not in cell for cell in clock.values())
