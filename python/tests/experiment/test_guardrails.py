"""Guardrails: metrics that must not get worse than a margin, whatever the metric that is compared does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.report.experiment.words import within
from tests.calling import call
from tests.experiment.test_curves import answers, experiment, wide
from tests.experiment.test_experiment import COUNT, record, steelyard

PROGRAM = (
    f"{COUNT};n=float(sys.argv[2]);u=random.Random(k).uniform;"
    "print('rate', (100+10*n)*u(.99,1.01));print('p99', (20+4*n)*u(.99,1.01));print('rss', 50*u(.99,1.01))"
)
"""Each step brings a tenth more throughput and costs a fifth more latency."""


def tried(folder: Path, *words: str, code: int) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    words = (
        *(
            "--sweep",
            "n=0,1",
            "--metric",
            r"rate=rate (\S+)",
            "--blocks",
            "12",
            "--least-effect",
            "5%",
            "--seed",
            "2",
        ),
        *(*words, "--", sys.executable, "-c", PROGRAM, str(folder / "count"), "{n}"),
    )
    return steelyard(folder, *words, code=code)


def test_a_breach_is_called_so_though_the_metric_is_better(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    guards = ("--guard", r"p99=p99 (\S+)=+5%", "--guard", r"rss=rss (\S+)=+5%")
    document = tried(tmp_path / "runs", *guards, "--to-the-end", "--report", str(page), code=1)
    (answer,) = document["answers"]
    assert (answer["outcome"], answer["by_metric"]) == ("breached", "better")
    breached, kept = answer["guards"]
    assert (breached["name"], breached["outcome"], breached["bound"]) == ("p99", "breached", 1.05)
    assert 1.05 < breached["low"] < 1.2 < breached["high"]
    assert (kept["name"], kept["outcome"]) == ("rss", "kept")
    # Of the metric and of two guardrails, together 95 %.
    assert breached["confidence"] == answer["confidence"] == pytest.approx(1 - 0.05 / 3)
    assert all({"p99", "rss"} <= set(trial["readings"]) for trial in record(document)["trials"])
    assert "breaches p99" in page.read_text()
    shown = call("experiment", document["directory"])
    assert "1 breaches p99 against 0, though it is better by rate" in shown.stdout
    # `compare` reads the same record.
    words = ["compare", Path(document["directory"]).name, "--runs", str(tmp_path / "runs")]
    compared = call(*words)
    assert (compared.returncode, compared.stdout.partition("record:")[0]) == (
        1,
        shown.stdout.partition("record:")[0],
    )
    refused = call(*words, "latest")
    assert refused.returncode == 2
    assert "is an experiment, which compares its arms itself" in refused.stderr


def test_a_kept_guardrail_leaves_the_answer(tmp_path: Path) -> None:
    document = tried(tmp_path, "--guard", r"p99=p99 (\S+)=+40%", "--to-the-end", code=0)
    (answer,) = document["answers"]
    assert (answer["outcome"], answer["by_metric"]) == ("better", None)
    assert answer["guards"][0]["outcome"] == "kept"


def test_it_goes_on_until_the_guardrail_is_known_too(tmp_path: Path) -> None:
    document = tried(tmp_path, "--guard", r"p99=p99 (\S+)=+19%", code=1)
    (answer,) = document["answers"]
    (guard,) = answer["guards"]
    # A fifth more, with a margin of nearly that: the metric is known after a few blocks, this is not.
    assert guard["outcome"] in ("undecided", "breached")
    assert answer["blocks"] == 12 or guard["outcome"] == "breached"


def test_guardrails_of_values_measured_elsewhere(tmp_path: Path) -> None:
    file = str(wide(tmp_path / "curves.csv"))
    found = answers("--from", file, "--metric", "p99_ms", "--lower-is-better", "--guard", "throughput=-2%")
    assert [one["guards"][0]["outcome"] for one in found["answers"]] == ["kept", "kept"]
    found = answers("--from", file, "--guard", "p99_ms=-10%")
    assert {one["outcome"] for one in found["answers"]} == {"breached"}
    assert found["answers"][0]["guards"][0]["bound"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("blocks", "errors", "outcome", "words"),
    [
        (8, {"a": [0], "b": [0]}, "kept", "+0.00 %"),
        (7, {"a": [0], "b": [0]}, "undecided", "0 in all 7 blocks of both arms, below 8"),
        # Whatever their ratio is, 30 errors are more than none.
        (8, {"a": [0], "b": [30, 29, 33, 31]}, "breached", "30.8 where a has 0"),
        (8, {"a": [0, 1, 0, 0], "b": [30, 29, 33, 31]}, "breached", "x 123"),
        # One error in eight trials of b alone may be chance.
        (8, {"a": [0], "b": [0, 0, 0, 0, 0, 0, 0, 1]}, "undecided", "0.125 where a has 0"),
        (8, {"a": [5, -1], "b": [5, 3]}, "undecided", "a value is negative"),
    ],
)
def test_a_guardrail_that_is_zero_is_judged_by_its_means(
    blocks: int, errors: dict[str, list[int]], outcome: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "zero.csv"
    rows = [
        f"{arm},{block},{100 + block % 3 + (arm == 'b') * 20 + block % 2},{seen[block % len(seen)]}"
        for block in range(blocks)
        for arm, seen in errors.items()
    ]
    file.write_text("arm,block,rate,errors\n" + "\n".join(rows))
    (answer,) = answers("--from", str(file), "--guard", "errors=+1%")["answers"]
    assert answer["outcome"] == ("breached" if outcome == "breached" else "better")
    (guard,) = answer["guards"]
    assert guard["outcome"] == outcome
    shown = experiment("--from", str(file), "--guard", "errors=+1%")
    assert words in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--guard", "cpu_s"], "--guard cpu_s: write it as NAME=5%"),
        (["--guard", "cpu_s=much"], "--guard cpu_s much: write it as"),
        (["--guard", "speed=5%"], "--guard speed: a command has elapsed_s and cpu_s"),
        (["--guard", r"x=x (\S+)=5%"], "--guard x: say which way is worse"),
        (["--guard", "x=x=+5%"], "has 0 groups, one is needed"),
        (["--guard", "elapsed_s=5%"], "--guard elapsed_s: it is the metric already"),
        (["--guard", "cpu_s=5%", "--guard", "cpu_s=6%"], "--guard cpu_s: it is the metric already, or given"),
    ],
)
def test_guardrails_that_do_not_fit_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    done = call("experiment", "--out", str(tmp_path / "runs"), "--a", "true", "--b", "false", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_metric_whose_direction_is_not_known_is_no_guardrail(tmp_path: Path) -> None:
    # It is asked of the first trial, which is short.
    names = ("measure=1", "warmup_min=0.5", "warmup_max=0.5", "connections=4")
    short = [word for name in names for word in ("--set", name)]
    words = ["tao", "--tier", "smoke", "--a", "memory=8MiB", "--b", "memory=32MiB", *short]
    words = ["experiment", "--out", str(tmp_path), *words, "--guard", "hit_ratio=5%"]
    done = call(*words)
    assert done.returncode == 2
    assert "--guard hit_ratio: tao does not say which way is worse" in done.stderr


def test_an_interval_has_one_notation() -> None:
    assert within(1.02, 0.99, 1.05) == "+2.0 % (-1.0 % to +5.0 %)"
    assert within(2.49, 0.637, 9.71) == "x 2.49 (x 0.637 to x 9.71)"
    assert within(1.2, 0.9, 2.5) == "x 1.2 (x 0.9 to x 2.5)"
