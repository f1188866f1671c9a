"""The guide on NUMA placement: its commands work as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment.numa.verdict import Matters
from tests.calling import call
from tests.cli.test_documents import hold
from tests.machine.trees import recorded
from tests.shared_folder import made_once

GUIDE = Path(__file__).resolve().parents[4] / "docs" / "guides" / "numa.md"
TEXT = GUIDE.read_text()
COMMANDS = [shlex.split(line) for line in TEXT.splitlines() if line.startswith("    steelyard ")]


def run(folder: Path, words: list[str]) -> tuple[int, Any]:
    done = call(*words, folder=folder)
    assert done.returncode in (0, 1, 3), done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def store(folder: Path) -> None:
    """Make the fleet of the guide."""
    words = ["fleet", "simulate", "--machines", "16", "--days", "1", "--step-s", "300", "--episodes", "0"]
    words += ["--seed", "7", "--store", str(folder)]
    assert call(*words).returncode == 0


def of(option: str) -> list[str]:
    (found,) = [words for words in COMMANDS if option in words]
    return found[1:]


def figures(folder: Path) -> None:
    (block,) = re.findall(r"```csv\n(.*?)```", TEXT, re.DOTALL)
    (folder / "figures.csv").write_text(block)


def test_every_command_of_the_guide_is_tried_here() -> None:
    assert len(COMMANDS) == 6


def test_map_and_score(tmp_path: Path) -> None:
    for words in COMMANDS[:2]:
        code, document = run(tmp_path, [*words[1:], "--json"])
        assert code == 0
        assert document["nodes"]


def test_the_plan(tmp_path: Path) -> None:
    root = recorded("32intel64-2p8co2t+8ve")
    words = [str(root) if word == "TREE" else word for word in of("--plan")]
    code, document = run(tmp_path, [*words[:2], "--json", *words[2:]])
    assert code == 0
    hold(document)
    assert len(document["scenarios"]) == 6


def test_measuring_needs_a_machine_with_two_nodes(tmp_path: Path) -> None:
    (words,) = [each[1:] for each in COMMANDS if "app" in each and "--plan" not in each]
    if len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1:
        pytest.skip("this machine has several nodes, and no program named app")
    assert run(tmp_path, words)[0] == 3


def test_figures_of_a_file(tmp_path: Path) -> None:
    figures(tmp_path)
    words = next(each[1:] for each in COMMANDS if "--from" in each)
    code, document = run(tmp_path, [*words, "--json"])
    assert code == 0
    hold(document)
    said = [(each["matters"], each["best"]["scenario"]) for each in document["clusters"]]
    assert said == [("locality", 1), ("cache sharing", 5)]
    assert "numa.html" in document["report"]
    assert (tmp_path / "numa.html").stat().st_size > 10_000


def test_production_beside_laboratory(tmp_path: Path) -> None:
    figures(tmp_path)
    place = str(made_once("numa-guide-store", store))
    words = [place if word == "STORE" else word for word in of("--from-fleet")]
    code, document = run(tmp_path, [*words, "--json"])
    hold(document)
    assert document["production"]["metric"] == "cpi"
    agreements = document["production"]["agreements"]
    assert [each["scenario"] for each in agreements] == [2, 3]
    assert [each["score"] for each in agreements] == [0.75, 0.5]
    # The simulated job has 15 % more CPI at a score of 0.5 or so, the load test 13.7 % less performance.
    assert agreements[1]["agrees"] == "agree"
    assert agreements[1]["production"]["low"] > 1
    assert code in (0, 1)
    absent = call(*[word if word != "row-store" else "nobody" for word in words], folder=tmp_path)
    assert absent.returncode == 1
    assert "job nobody: no sample has a NUMA score" in absent.stderr


def test_verdicts_of_the_guide_are_those_of_the_code() -> None:
    table = TEXT.partition("## What it says")[2].partition("\n\nScenario")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)[1:] == [str(each) for each in Matters]
