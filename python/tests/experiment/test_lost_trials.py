"""Trials without a value: an arm that fails more often than the base is no clean win."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.experiment.workload import make_way
from tests.calling import call
from tests.experiment.test_curves import answers, experiment
from tests.experiment.test_experiment import COUNT, steelyard


def curves(path: Path, *, lost: dict[str, int]) -> str:
    """Write 12 blocks in which b is a fifth better; the first trials of an arm are ``lost``."""
    rows = ["arm,block,rate"]
    for block in range(12):
        for arm, level in (("a", 100), ("b", 120)):
            value = level + (7 * block + level) % 5 / 10
            rows.append(f"{arm},{block},{'' if block < lost.get(arm, 0) else value}")
    path.write_text("\n".join(rows))
    return str(path)


def test_a_better_arm_that_lost_more_trials_is_unreliable(tmp_path: Path) -> None:
    file = curves(tmp_path / "c.csv", lost={"b": 5})
    (answer,) = answers("--from", file)["answers"]
    assert (answer["outcome"], answer["by_metric"], answer["lost"]) == (
        "unreliable",
        "better",
        {"a": 0, "b": 5},
    )
    shown = experiment("--from", file)
    assert shown.returncode == 1
    assert (
        "b is unreliable beside a: 5 of 12 trials of b gave no value, of a 0 of 12; the others are better"
        in (" ".join(shown.stdout.split()))
    )


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ({}, ""),
        ({"a": 2, "b": 2}, ""),
        ({"a": 3}, "0 of 12 trials of b gave no value, of a 3 of 12"),
        # Two of twelve fail by chance in 24 of 100 such experiments.
        ({"b": 2}, "2 of 12 trials of b gave no value, of a 0 of 12"),
    ],
)
def test_losses_alike_or_by_chance_or_of_the_base_leave_the_answer(
    tmp_path: Path, lost: dict[str, int], words: str
) -> None:
    file = curves(tmp_path / "c.csv", lost=lost)
    (answer,) = answers("--from", file)["answers"]
    assert (answer["outcome"], answer["by_metric"]) == ("better", None)
    shown = experiment("--from", file)
    assert shown.returncode == 0
    # Where they did not lose the same number, the sentence says so.
    said = " ".join(shown.stdout.split())
    assert words in said
    assert bool(words) == ("gave no value, of a" in said)


def test_a_time_that_steelyard_knows_is_better_when_lower(tmp_path: Path) -> None:
    file = tmp_path / "c.csv"
    rows = [
        f"{arm},{block},{level + block % 3 / 10},0"
        for block in range(9)
        for arm, level in (("a", 10), ("b", 9))
    ]
    file.write_text("arm,block,elapsed_s,errors\n" + "\n".join(rows))
    (answer,) = answers("--from", str(file))["answers"]
    assert answer["outcome"] == "better"
    said = " ".join(experiment("--from", str(file), "--metric", "errors").stdout.split())
    assert "9 of 9 trials of b gave no positive value, of a 9 of 9" in said


def test_means_of_both_arms_are_of_the_blocks_that_are_compared(tmp_path: Path) -> None:
    """The ratio that is shown is that of the means beside it."""
    file = tmp_path / "c.csv"
    rows = [
        f"{arm},{block},{level + block % 3}" for block in range(9) for arm, level in (("a", 98), ("b", 118))
    ]
    # Two blocks in which b failed, and a was ten times as fast.
    rows += [f"{arm},{block},{value}" for block in (9, 10) for arm, value in (("a", "1000"), ("b", ""))]
    file.write_text("arm,block,rate\n" + "\n".join(rows))
    (answer,) = answers("--from", str(file))["answers"]
    assert answer["mean"] / answer["base_mean"] == pytest.approx(answer["ratio"])
    shown = " ".join(experiment("--from", str(file)).stdout.split())
    assert f"a {answer['base_mean']:.1f}" in shown
    assert f"b {answer['mean']:.0f}" in shown


def test_a_command_that_crashes_often_does_not_win(tmp_path: Path) -> None:
    # The faster arm crashes in two trials of three.
    program = (
        f"{COUNT};n=sys.argv[2];f=pathlib.Path(sys.argv[1]+n);t=int(f.read_text()) if f.exists() else 0;"
        "f.write_text(str(t+1));n=='2' and t%3<2 and sys.exit(3);"
        "print('rate', float(n)*random.Random(k).uniform(.99,1.01))"
    )
    words = ["--seed", "1", "--sweep", "n=1,2", "--metric", r"rate=rate (\S+)", "--blocks", "12", "--"]
    document = steelyard(
        tmp_path / "runs", *words, sys.executable, "-c", program, str(tmp_path / "count"), "{n}", code=1
    )
    (answer,) = document["answers"]
    assert (answer["outcome"], answer["by_metric"]) == ("unreliable", "better")
    listed = call("list", "runs", "--runs", str(tmp_path / "runs"))
    assert "2 unreliable" in listed.stdout


@pytest.mark.parametrize("taken", ["logs", "logs/0001-a.log"])
def test_what_stands_in_the_way_of_a_trials_output_is_named(tmp_path: Path, taken: str) -> None:
    log = tmp_path / "logs" / "0001-a.log"
    if taken == "logs":
        (tmp_path / taken).write_text("a file")
    else:
        (tmp_path / taken).mkdir(parents=True)
    with pytest.raises(EnvironmentLacksError, match=r"0001-a\.log: a trial cannot write its output there: "):
        make_way(log)


def test_an_earlier_output_makes_way(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "0001-a.log"
    make_way(log)
    log.write_text("of a trial that was stopped")
    make_way(log)
    assert log.parent.is_dir()
    assert not log.exists()
