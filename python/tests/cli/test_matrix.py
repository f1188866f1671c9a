"""``characterize --suite`` runs a suite: what it tells before, of members that fail, and how it goes on."""

import json
import os
import signal

import pytest

from steelyard.cli.main import invoke
from tests.bench import sample_benchmarks


@pytest.fixture(autouse=True)
def three(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


def matrix(tmp_path, *more):
    return invoke(["characterize", "--suite", "sample", "--out", str(tmp_path / "runs"), *more])


def test_it_tells_what_the_suite_will_take_and_shows_every_member(tmp_path, capsys):
    assert matrix(tmp_path, "--json") == 0
    said = capsys.readouterr()
    assert said.err.index("sample quick: 3 of 3 members will run") < said.err.index("spin: run 1 of 3")
    rows = {row["benchmark"]: row for row in json.loads(said.out)["rows"]}
    assert list(rows) == ["spin", "scripted", "nap"]
    assert rows["spin"]["objections"] == []


def test_an_invalid_member_is_an_answer_of_no(tmp_path, capsys):
    assert matrix(tmp_path, "--set", "scripted.behaviour=invalid") == 1
    assert "scripted: invalid: as it was asked to be" in capsys.readouterr().out
    [suite] = (tmp_path / "runs").glob("*/suite.json")
    assert invoke(["characterize", "--suite", str(suite.parent)]) == 1
    assert invoke(["characterize", "--suite", str(suite.parent), "--set", "takes=0"]) == 2
    assert "--set is for a suite that is run" in capsys.readouterr().err


@pytest.mark.parametrize(("behaviour", "code"), [("fail", 4), ("refuse", 3)])
def test_a_member_without_a_result_leaves_the_others(tmp_path, capsys, behaviour, code):
    assert matrix(tmp_path, "--set", f"scripted.behaviour={behaviour}", "--json") == code
    said = capsys.readouterr()
    assert {row["benchmark"] for row in json.loads(said.out)["rows"]} == {"spin", "nap"}
    assert len([line for line in said.err.splitlines() if line.startswith("steelyard: ")]) == 1


def test_an_interrupted_suite_says_how_it_goes_on(tmp_path, capsys, monkeypatch):
    begun = sample_benchmarks.Nap.measure

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGINT)
        return begun(self)

    monkeypatch.setattr(sample_benchmarks.Nap, "measure", interrupted)
    assert matrix(tmp_path) == 4
    [suite] = (tmp_path / "runs").glob("*/suite.json")
    assert f"steelyard run --resume {suite.parent} goes on with what is left" in capsys.readouterr().err
