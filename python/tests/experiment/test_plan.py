"""How many blocks an experiment calls for: from earlier ones, without a trial, and once some are made."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.stats.contrasts import blocks_needed
from tests.cli.test_documents import hold
from tests.experiment.test_experiment import COUNT, STEELYARD


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(STEELYARD), "experiment", *words], capture_output=True, text=True, timeout=100)


def sweep(folder: Path) -> list[str]:
    program = f"{COUNT};print(random.Random(k).gauss(100,2))"
    metric = ["--metric", r"x=(\S+)", "--seed", "1", "--out", str(folder / "runs")]
    return [*metric, "--sweep", "n=1,2", "--", sys.executable, "-c", program, str(folder / "count"), "{n}"]


def planned(*words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("--plan", "--json", *words).stdout)
    hold(document)
    return document


def test_a_plan_rests_on_earlier_experiments_and_runs_nothing(tmp_path: Path) -> None:
    before = planned(*sweep(tmp_path))
    assert before["needs"] == []
    assert before["reason"] == "no earlier experiment like this one has 4 whole blocks"
    assert list(tmp_path.iterdir()) == []
    made = run("--blocks", "16", "--to-the-end", *sweep(tmp_path))
    # The experiment itself says so once it has some blocks.
    assert "after 6 blocks: to see 1 % in 4 of 5 experiments, about" in made.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    count = (tmp_path / "count").read_text()
    after = planned("--to-the-end", *sweep(tmp_path))
    assert (after["earlier"], after["blocks"]) == ([folder.name], 16)
    assert 0.015 < after["deviation"] < 0.045
    needs = {one["effect_ratio"]: one for one in after["needs"]}
    assert sorted(needs) == [0.005, 0.01, 0.02, 0.05]
    assert needs[0.01]["blocks"] == blocks_needed(after["deviation"], math.log1p(0.01), degrees=15)
    assert needs[0.005]["blocks"] > 3 * needs[0.01]["blocks"]
    assert needs[0.01]["seconds"] == pytest.approx(2 * needs[0.01]["blocks"] * after["trial_s"])
    assert planned(*sweep(tmp_path))["needs"][1]["blocks"] > needs[0.01]["blocks"]
    assert "to see 1 %" in run("--plan", *sweep(tmp_path)).stdout
    assert (tmp_path / "count").read_text() == count
    assert list((tmp_path / "runs").iterdir()) == [folder]
    # Another metric says nothing of this one's noise.
    assert planned(*["y=(\\S+)" if word == "x=(\\S+)" else word for word in sweep(tmp_path)])["needs"] == []


def test_a_plan_is_for_what_has_not_begun(tmp_path: Path) -> None:
    done = run("--plan", "--resume", str(tmp_path))
    assert done.returncode == 2
    assert "--plan is for an experiment that has not begun" in done.stderr
