"""The benchmark that repeats a command."""

import re
import sys
from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.analyze.pressure.panels import panels_of
from steelyard.bench.command.benchmark import words
from steelyard.records import RunStatus


def test_iterations_are_counted_whole(runner) -> None:
    live = runner.start(benchmark="command", settings=("command=sleep 0.1", "measure=1"))
    code, _, stderr = live.finish()
    assert code in (0, 1), stderr
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    rows = [
        tuple(map(int, line.split())) for line in (live.directory / "iterations.txt").read_text().splitlines()
    ]
    measure = next(phase for phase in run.phases if phase.name == "measure")
    counted = [row for row in rows if row[0] >= measure.begin_ns and row[1] <= measure.end_ns]
    assert len(counted) == run.metrics["iterations"].value
    assert counted[0][0] == measure.begin_ns
    assert counted[-1][1] == measure.end_ns
    assert measure.end_ns - measure.begin_ns >= 1e9
    assert 1 < run.metrics["iterations_per_s"].value < 10
    assert run.metrics["iteration_p50_ns"].value > 1e8
    assert live.left() == {}
    found = panels_of(live.directory, run, None)
    assert [(panel.resource, panel.missing) for panel in found.panels] == [
        (name, None) for name in ("cpu", "dram", "disk", "network")
    ]


def test_a_command_that_fails_makes_the_run_incomplete(runner) -> None:
    live = runner.start(benchmark="command", settings=("command=sh -c 'sleep 0.2; exit 3'",))
    code, _, _ = live.finish()
    assert code == 4
    assert live.run().status is RunStatus.INCOMPLETE
    assert "sh ended with exit code 3" in live.complaint()


def test_a_command_that_is_longer_than_the_phase_is_refused_after_once(runner) -> None:
    live = runner.start(benchmark="command", settings=("command=sleep 0.5", "measure=0.2"))
    code, _, stderr = live.finish()
    assert code == 4
    assert live.run().status is RunStatus.INCOMPLETE
    assert "not one iteration fits" in live.complaint()
    assert re.search(r"--duration \d+s", stderr)


def test_a_command_is_read_without_a_shell() -> None:
    assert words(f"{sys.executable} -c 'a; b' \"$HOME\"") == [sys.executable, "-c", "a; b", "$HOME"]
    for text, message in (
        ("", "empty"),
        ("no-such-program x", "there is no such command"),
        ("a 'b", "quotation"),
    ):
        with pytest.raises(UsageError, match=message):
            words(text)
    assert Path(words("sleep 1")[0]).name == "sleep"
