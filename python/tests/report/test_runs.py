"""The terminal table: a snapshot, narrow terminals, pipes, and names that would like to be obeyed."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from syrupy.assertion import SnapshotAssertion

from steelyard.analyze import Evidence, Finding
from steelyard.decide.score import Refusal
from steelyard.records import Check, Level, Verdict
from steelyard.report import runs as of_runs
from steelyard.report.answer.terminal import terminal
from steelyard.report.format import quantity
from steelyard.report.terminal import safe
from tests.report.conftest import SCORE
from tests.report.runs import load_result, run_record

FINDING = Finding(
    "61 % of the busy time on the server's CPUs is kernel time.",
    (Evidence("kernel share of busy time", 0.61, "ratio", 0.4),),
    "More requests in flight per connection share one system call.",
    0.5,
    id="kernel-heavy",
)


def text(renderable: RenderableType, width: int = 80, **options: object) -> str:
    file = StringIO()
    Console(file=file, width=width, **options).print(renderable, crop=False)  # type: ignore[arg-type]
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def summary(**changes: object) -> RenderableType:
    run = run_record(load_result(), Path("20261121-tao"), **changes)
    return terminal(of_runs.answer(run, score=SCORE, findings=[FINDING]))


def test_figures_keep_their_space_and_names_are_not_obeyed() -> None:
    assert (
        safe(f"feed ({quantity(0.331, 'ratio')} of its CPUs)\x1b[2J").plain
        == "feed (33.1 % of its CPUs)\ufffd[2J"
    )


@pytest.mark.parametrize("width", [100, 40])
def test_one_run(snapshot: SnapshotAssertion, width: int) -> None:
    assert text(summary(), width) == snapshot


def test_several_repeats(snapshot: SnapshotAssertion) -> None:
    runs = [
        run_record(load_result(1 + index / 50), Path(f"run-{index}"), index=index, count=3)
        for index in (1, 2, 3)
    ]
    runs[2] = runs[2].model_copy(
        update={"status": "incomplete", "status_reason": "interrupted", "metrics": {}, "verdict": None}
    )
    assert text(terminal(of_runs.repeats_answer(runs, score=SCORE))) == snapshot


def test_an_incomplete_run_says_why(snapshot: SnapshotAssertion) -> None:
    changes = {"status": "incomplete", "status_reason": "the port is taken", "metrics": {}, "verdict": None}
    assert text(summary(**changes)) == snapshot


@pytest.mark.parametrize("width", [30, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, text(summary(), width).splitlines())) <= width


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in text(summary())
    assert "\x1b" in text(summary(), force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in text(summary(), force_terminal=True)


def test_names_are_neither_markup_nor_terminal_codes() -> None:
    hostile = "[bold red]\x1b]0;owned\x07\x1b[2J[/]"
    check = Check(id=hostile, level=Level.INVALID, claim=hostile)
    shown = text(summary(benchmark=hostile, verdict=Verdict.of([check])), 100, force_terminal=True)
    assert "[bold red]" in shown
    assert "\x1b]0" not in shown
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown


def test_a_refused_score_says_why() -> None:
    run = run_record(load_result(), Path("r"))
    assert "no score: no baseline" in text(
        terminal(of_runs.answer(run, score=Refusal("no baseline is shipped")))
    )
