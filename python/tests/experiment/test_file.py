"""Experiments in TOML files: several factors, listed arms, and files that are no experiment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.calling import call
from tests.experiment.test_experiment import COUNT, record, steelyard

PROGRAM = (
    f"{COUNT};x,y=float(sys.argv[2]),float(sys.argv[3]);u=random.Random(k).uniform;"
    "print('rate', (100+20*x+50*y)*u(.995,1.005));print('p99', 10*u(.99,1.01))"
)


def test_every_combination_of_factors_is_an_arm(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        f"command = [{sys.executable!r}, '-c', {PROGRAM!r}, {str(tmp_path / 'count')!r}, '{{x}}', '{{y}}']\n"
        r"""
        metric = 'rate=rate (\S+)'
        guards = ['p99=p99 (\S+)=+20%']
        least_effect = "5%"
        blocks = 6
        to_the_end = true
        seed = 1
        [factors]
        x = [0, 1]
        y = [0, 1]
        """
    )
    page = tmp_path / "page.html"
    document = steelyard(tmp_path / "runs", str(file), "--report", str(page))
    assert document["factor"] == "x, y"
    assert [arm["name"] for arm in record(document)["arms"]] == ["0,0", "0,1", "1,0", "1,1"]
    assert record(document)["arms"][1]["levels"] == {"x": "0", "y": "1"}
    assert {answer["arm"]: round(answer["ratio"], 1) for answer in document["answers"]} == {
        "0,1": 1.5,
        "1,0": 1.2,
        "1,1": 1.7,
    }
    assert {answer["guards"][0]["outcome"] for answer in document["answers"]} == {"kept"}
    (x,), (y,) = document["by_factor"]["x"], document["by_factor"]["y"]
    # Over both levels of the other factor: sqrt(120/100 * 170/150), sqrt(150/100 * 170/120).
    assert x["ratio"] == pytest.approx(1.166, rel=0.01)
    assert y["ratio"] == pytest.approx(1.458, rel=0.01)
    assert (x["outcome"], y["outcome"]) == ("better", "better")
    # Three arms with a metric and a guardrail each, and two factors: all hold together.
    each = [answer["confidence"] for answer in [*document["answers"], x, y]]
    assert each == [pytest.approx(1 - 0.05 / 8)] * 5
    assert x["high"] - x["low"] < 0.05
    assert "over all others" in page.read_text()


def test_listed_arms_may_be_commands(tmp_path: Path) -> None:
    file = tmp_path / "arms.toml"
    file.write_text(
        "blocks = 4\nto_the_end = true\n[arms.short]\ncommand = 'true'\n"
        "[arms.long]\ncommand = ['sleep', 0.2]\n"
    )
    document = steelyard(tmp_path / "runs", str(file), code=None)
    assert document["base"] == "short"
    (answer,) = document["answers"]
    assert (answer["arm"], answer["blocks"]) == ("long", 4)
    assert answer["ratio"] > 1.5
    assert document["by_factor"] == {}
    assert "to see 1 %" in call("experiment", str(file), "--plan", "--out", str(tmp_path / "runs")).stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark = ", "Invalid value"),
        ("colour = 1", "unknown key 'colour'"),
        ("benchmark = 'tao'", "needs either [factors] or [arms.NAME]"),
        ("[factors]\nx = [1, 2]", "needs a benchmark, a command, or a command in each arm"),
        ("command = 'true {x}'\n[factors]\nx = [1, 1]", "factors.x: not two or more different values"),
        ("command = 'true {x}'\n[factors]\nx = 1", "factors.x: not a list"),
        ("command = 'true'\n[factors]\nx = [1, 2]", "the command has no place {x}"),
        ("command = 'true {x} {y}'\n[factors]\nx = [1, 2]", "arm 1: nothing for the place {y}"),
        ("blocks = 'all'\ncommand = 'true {x}'\n[factors]\nx = [1, 2]", "blocks: 'all' is no count"),
        ("metric = []\ncommand = 'true {x}'\n[factors]\nx = [1, 2]", "metric: [] is no text or number"),
        ("benchmark = 'tao'\n[factors]\nmemorie = ['1MiB', '2MiB']", "tao has no parameter 'memorie'"),
        ("benchmark = 'no'\n[factors]\nx = [1, 2]", "no is no benchmark"),
        ("[arms.a]\ncommand = 'true'\n[arms.b]\ncommand = 'true'", "arms a and b are the same"),
        ("[arms.a]\ncommand = 'true'\n[arms.b]\nx = 1", "arm b: no command"),
        ("[arms.a]\ncommand = 'true'", "arm a: an experiment needs two arms"),
        (f"command = 'true {{x}}'\n[factors]\nx = {list(range(65))}", "65 combinations, at most 64 arms"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    done = call("experiment", str(file), "--out", str(tmp_path / "runs"))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_flags_beside_a_file_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.toml"
    file.write_text("command = 'true {x}'\n[factors]\nx = [1, 2]")
    done = call("experiment", str(file), "--blocks", "5")
    assert done.returncode == 2
    assert "only --out, --plan, --pilot, --report and --json go with it" in done.stderr
