"""Interval, spread, worst and best part stand beside a score in every place that shows one."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from steelyard._base import schemas_dir
from steelyard.cli import reports
from steelyard.records import Suite, SuiteBaseline, SuiteMember, SuiteOverall, SuitePart, read
from steelyard.report.answer.page import render
from steelyard.report.answer.terminal import terminal
from steelyard.report.format import plain
from steelyard.report.score_text import member_text, overall_text, score_text, short_interval
from steelyard.report.suite.answer import answer
from tests.report.conftest import SCORE

NOTES = [
    "one run, no error bars: add --repeat 3",
    "worst part memory 0.742×, best rpc 2.08×",
    "baseline: 6 runs of 2026-11-21, 2 suspect, from 0.953× to 1.08× (spread 12.3 %)",
]


def member(**changes: Any) -> SuiteMember:
    fields: dict[str, Any] = {
        "benchmark": "tax",
        "runs": [],
        "metric": "operations_per_s",
        "value": 2.77e6,
        "unit": "1/s",
        "score": 0.994,
        "no_interval": "one run, no error bars: add --repeat 3",
        "worst_part": SuitePart(name="memory_per_s", score=0.742),
        "best_part": SuitePart(name="rpc_per_s", score=2.08),
        "baseline": SuiteBaseline(date="2026-11-21", runs=6, suspect_runs=2, lowest=0.953, highest=1.076),
    }
    return SuiteMember(**(fields | changes))


def suite() -> Suite:
    other = member(benchmark="tao", score=1.03, score_low=0.95, score_high=1.1, no_interval=None)
    overall = SuiteOverall(
        score=1.01,
        suspect=[],
        baseline_title="a small guest",
        no_interval="one run, no error bars: add --repeat 3",
        worst=SuitePart(name="tax", score=0.994),
        best=SuitePart(name="tao", score=1.03),
    )
    golden = read(Suite, schemas_dir() / "golden" / "suite.json")
    return golden.model_copy(update={"members": [member(), other], "overall": overall})


def test_the_words_of_a_member() -> None:
    words = member_text(member())
    assert words is not None
    assert (words.ratio, [plain(note) for note in words.notes]) == ("0.994×", NOTES)
    assert short_interval(member()) == "none from one run"
    several = member(no_interval=None, score_low=0.95, score_high=1.04, spread_ratio=0.042)
    words = member_text(several)
    assert words is not None
    assert (
        plain(words.interval) == "95 % interval 0.950× to 1.04× within one session; spread of the runs 4.20 %"
    )
    assert short_interval(several) == "0.950× to 1.04×"
    assert member_text(member(score=None)) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"runs": 1, "suspect_runs": 0, "lowest": 1.0, "highest": 1.0},
            "1 run of 2026-11-21, its spread is not",
        ),
        ({"suspect_runs": 6}, "6 runs of 2026-11-21, all suspect, from"),
        ({"suspect_runs": 0}, "6 runs of 2026-11-21, from"),
    ],
)
def test_the_words_of_a_baseline(changes: dict[str, Any], said: str) -> None:
    baseline = member().baseline
    assert baseline is not None
    words = member_text(member(baseline=baseline.model_copy(update=changes)))
    assert words is not None
    assert said in words.baseline


def test_a_suite_shows_them_in_the_terminal_and_on_its_page() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(terminal(answer(suite(), {}, {}, None)), markup=False)
    printed = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    page = plain(render(answer(suite(), {}, {}, None)))
    overall = ["one run, no error bars: add --repeat 3", "from tax 0.994× to tao 1.03×"]
    for said in (*NOTES, *overall, "none from one run", "0.950× to 1.10×"):
        assert said in printed, said
        assert said in page, said
    assert all(len(line) <= 80 for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    withheld = SuiteOverall(withheld="no score for feed", suspect=[])
    assert overall_text(withheld) is None


def test_the_command_score_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    reports.print_score("tao-1", SCORE)
    printed = capsys.readouterr().out
    for note in score_text(SCORE).notes:
        assert plain(note) in printed
    assert "one run only" in printed


@pytest.mark.parametrize("width", [50, 60, 80, 120])
def test_a_narrow_terminal_keeps_results_and_verdicts_whole(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal(answer(suite(), {}, {}, None)), markup=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("member"))
    assert "result" in head
    assert "verdict" in head
    rows = lines[lines.index(head) + 2 :]
    for member in suite().members:
        assert any(row.startswith(member.benchmark) for row in rows)
    # An ellipsis is the mark of what was not run, never a cut figure.
    assert not re.search(r"\w…", "".join(rows))
    # A column with figures that had no room is named.
    columns = ("score", "95 % interval", "CPU reached", "CPU expected", "objecting checks")
    gone = {name for name in columns if " ".join(name.split()) not in " ".join(head.split())}
    said = re.search(r"no room here for: (.*?) CPU reached is what", " ".join(text.split()))
    named = set(said.group(1).split("; ")) if said else set()
    assert named <= gone
    assert gone - named <= {"CPU reached", "CPU expected", "objecting checks"}
