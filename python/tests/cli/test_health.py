"""``steelyard health`` from its command line: history, alerts and exit codes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import executable
from steelyard.bench.health import check as health
from steelyard.cli.main import invoke
from steelyard.records import HealthResult, read, write
from tests.cli.test_documents import hold


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = invoke(["health", "--quick", "--part", "core_to_core", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def _hasten(path: Path, factor: float) -> None:
    """Make an earlier check faster than it was, as if the machine had been."""
    result = read(HealthResult, path)
    part = result.core_to_core
    if part is None:
        pytest.skip("one CPU only")
    times: dict[str, Any] = {
        name: [[cell and cell * factor for cell in row] for row in part.median_ns]
        for name in ("median_ns", "low_ns", "high_ns")
    }
    write(result.model_copy(update={"core_to_core": part.model_copy(update=times)}), path)


def test_first_check_is_stored_and_later_ones_are_held_against_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(tmp_path))
    code, text, _ = _run(capsys, "--accept", *out)
    assert code == 0
    (first,) = (tmp_path / "health").glob("*/*")
    comparison = json.loads((first / "comparison.json").read_text())
    assert "no earlier good quick check" in comparison["against"]
    # What others' work disturbed says so instead.
    said = "nothing to compare with" if comparison["is_quiet"] else "other work had the machine"
    assert said in " ".join(text.split())
    names = {"health.json", "machine.json", "comparison.json", "report.html"}
    assert names <= {path.name for path in first.iterdir()}
    # A million times faster: whatever this machine does now is slow against it.
    _hasten(first / "health.json", 1e-6)
    code, text, _ = _run(capsys, "--json", *out)
    document = json.loads(text)
    hold(document)
    assert code == 1
    assert [alert["id"] for alert in document["alerts"]] == ["core-to-core-worse"]
    assert document["against"] == f"the check of {first.name}"
    assert Path(document["report"]).is_file()
    # A check with an alert is not held against later ones.
    earlier = health.history(tmp_path, first.parent.name, mode="quick")
    assert [check.folder for check in earlier] == [first]
    baseline = first / "health.json"
    code, text, _ = _run(capsys, "--against", str(baseline), *out)
    assert code == 1
    assert "instead of" in text
    code, _, _ = _run(capsys, "--against", "last", *out)
    assert code == 1


@pytest.mark.parametrize(
    ("against", "words"),
    [("/does/not/exist.json", "No such file"), ("last", "no earlier good check")],
)
def test_nothing_to_compare_with_is_reported_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], against: str, words: str
) -> None:
    code, out, err = _run(capsys, "--against", against, "--out", str(tmp_path))
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not (tmp_path / "health").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--part", "nosuch"], 2, "there is no part 'nosuch' (parts: memory_latency, memory_bandwidth,"),
        (["--part", "disk", "--part", "looopback"], 2, "did you mean loopback?"),
        (["--quick", "--directory", "nosuch"], 2, "--directory nosuch: does not exist"),
        (["--quick", "--directory", "file"], 2, "--directory file: is not a folder"),
        (["--quick", "--out", "file"], 3, "cannot be made: Not a directory"),
        (["--against", "empty"], 2, "empty has no health.json"),
        (["--against", "file"], 2, "file: not JSON"),
    ],
)
def test_what_cannot_be_checked_is_reported_in_one_line_and_leaves_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert invoke(["health", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert {path.name for path in tmp_path.rglob("*")} == {"empty", "file"}


def test_the_parts_are_those_of_the_program() -> None:
    command = [str(executable("steelyard-tax")), "health", "--parts", "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"is not one of {', '.join(health.PARTS)}" in done.stderr
    assert done.stderr.count("\n") == 1
