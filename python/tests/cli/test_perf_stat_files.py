"""Files of perf stat without a run: shown, compared, and refused when they are none."""

import json
import math
from pathlib import Path

import pytest

from steelyard.analyze.counters.perf_files import compare_files, counts_in
from steelyard.cli.main import invoke


def plain(path: Path, seconds: float, spread: float | None, **events: int) -> Path:
    """Write what perf stat prints, of repeats where there is a spread, %."""
    end = "" if spread is None else f"  ( +- {spread:.2f}% )"
    rows = "".join(f"{value:>20}      {name}{end}\n" for name, value in events.items())
    runs = "" if spread is None else " (5 runs)"
    path.write_text(
        f"\n Performance counter stats for './work'{runs}:\n\n{rows}\n"
        f"    {seconds:.9f} seconds time elapsed\n"
    )
    return path


def test_a_file_is_shown_and_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = plain(tmp_path / "a.txt", 2.0, None, cycles=1000, instructions=2500)
    assert invoke(["characterize", "--perf-stat", str(path)]) == 0
    said = capsys.readouterr().out
    assert "./work, 2.00 s elapsed" in said.replace("\u202f", " ")
    assert invoke(["characterize", "--perf-stat", str(path), "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["files"]
    assert {each["name"]: (each["count"], each["per_s"]) for each in found["events"]} == {
        "cycles": (1000, 500),
        "instructions": (2500, 1250),
    }
    assert found["metrics"]["ipc"]["value"] == 2.5
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_options_of_a_measurement_are_refused_where_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plain(tmp_path / "a.txt", 2.0, None, cycles=1000)
    assert invoke(["characterize", "--perf-stat", str(path), "--duration", "1s"]) == 2
    assert "--duration: --perf-stat alone measures nothing" in capsys.readouterr().err


def test_two_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = plain(tmp_path / "a.txt", 2.0, None, cycles=1000, instructions=2000, faults=5)
    b = plain(tmp_path / "b.txt", 1.0, None, cycles=800, instructions=2000)
    assert invoke(["compare", str(a), str(b), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    ratios = {each["name"]: each["ratio"] for each in document["events"]}
    assert ratios == {"cycles": 0.8, "instructions": 1.0, "faults": None}
    assert {each["name"]: each["ratio"] for each in document["rates"]}["cycles"] == 1.6
    assert {each["name"]: each["b"] for each in document["metrics"]}["ipc"] == 2.5
    assert any("no error bars" in caution for caution in document["cautions"])
    assert invoke(["compare", str(a), str(b)]) == 0
    assert "not in B" in capsys.readouterr().out
    assert invoke(["compare", str(a), str(b), "--report", str(tmp_path / "p.html")]) == 2


def test_repeats_tell_differences_from_noise(tmp_path: Path) -> None:
    """1 % of standard error on either side: 1.96 times the root of two of them is 2.77 %."""
    a = plain(tmp_path / "a.txt", 1.0, 1.0, cycles=100_000, instructions=100_000)
    b = plain(tmp_path / "b.txt", 1.0, 1.0, cycles=102_700, instructions=102_900)
    assert math.log(1.027) < 1.96 * math.hypot(0.01, 0.01) < math.log(1.029)
    found = compare_files(counts_in(a), counts_in(b))
    assert {each.name: each.beyond_noise for each in found.events} == {
        "cycles": False,
        "instructions": True,
    }


def test_files_without_an_event_in_common_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = plain(tmp_path / "a.txt", 1.0, None, cycles=1)
    b = plain(tmp_path / "b.txt", 1.0, None, faults=1)
    assert invoke(["compare", str(a), str(b)]) == 2
    assert "no event in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["characterize", "--perf-stat", "bad.txt"],
        ["characterize", "--perf-stat", "bad.txt", "--hz", "0", "--no-counters", "--", "true"],
        ["compare", "bad.txt", "bad.txt"],
    ],
    ids=" ".join,
)
def test_what_is_no_output_of_perf_is_said_before_anything_is_measured(
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_text("garbage\n")
    assert invoke(arguments) == 2
    assert "bad.txt: this is no output of perf stat" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
