"""Warm-up: intervals of a trial from where they have settled, and first blocks that differ."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from tests.experiment.test_curves import experiment
from tests.experiment.test_experiment import COUNT, record, steelyard

STEPS = (
    f"{COUNT};g=random.Random(k).gauss;n=int(sys.argv[3]);"
    "[print('rate', float(sys.argv[2])*(1-0.6*0.7**i)*g(1,.01)) for i in range(n)]"
)
"""Intervals that approach their level over the first ten."""


def words(folder: Path, intervals: int) -> list[str]:
    flags = ["--metric", r"rate=rate (\S+)", "--intervals", "--blocks", "6", "--to-the-end", "--seed", "1"]
    program = [sys.executable, "-c", STEPS, str(folder / "count"), "{level}", str(intervals)]
    return [*flags, "--sweep", "level=100,120", "--least-effect", "5%", "--", *program]


def test_a_trial_is_judged_from_where_it_has_settled(tmp_path: Path) -> None:
    document = steelyard(tmp_path / "runs", *words(tmp_path, 40))
    assert document["metric"]["is_series"]
    (answer,) = document["answers"]
    # Of all intervals together the mean would be about 5 % less.
    assert answer["base_mean"] == pytest.approx(100, rel=0.01)
    assert answer["mean"] == pytest.approx(120, rel=0.01)
    assert answer["outcome"] == "better"


def test_a_trial_that_does_not_settle_has_no_value(tmp_path: Path) -> None:
    document = steelyard(tmp_path / "runs", *words(tmp_path, 8), code=4)
    reasons = {trial["reason"] for trial in record(document)["trials"]}
    assert reasons == {"its 8 intervals did not settle within 5 %, 10 are needed"}


def test_first_blocks_that_differ_are_noted(tmp_path: Path) -> None:
    generator = random.Random(7)
    for name, first in (("cold", 0.7), ("warm", 1.0)):
        rows = ["arm,block,rate"]
        for block in range(20):
            level = 100 * (first if block < 5 else 1.0)
            rows += [
                f"{arm},{block},{level * factor * generator.gauss(1, 0.01)}"
                for arm, factor in (("a", 1), ("b", 1.1))
            ]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows))
    cold = experiment("--from", str(tmp_path / "cold.csv")).stdout
    assert re.search(r"the first 5 blocks are -(29|30)\.\d % beside the others", " ".join(cold.split()))
    assert "b is better than a" in cold
    assert "the first" not in experiment("--from", str(tmp_path / "warm.csv")).stdout


def test_intervals_are_of_an_output(tmp_path: Path) -> None:
    done = experiment("--a", "true", "--b", "false", "--intervals", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--intervals is for a number in a command's output" in done.stderr
