"""``steelyard run --plan``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from tests.machine.trees import RECORDED, recorded

# Many nodes, numbers that alternate between nodes, a cpuset, CPUs of a node that is offline.
MACHINES = [
    "256ia64-64n2s2c",
    "memorysidecaches",
    "16amd64-4n4c-cgroup-distance-merge",
    "offline-cpu0-node0",
]


@pytest.mark.parametrize("name", MACHINES)
def test_a_recorded_machine_has_a_plan_that_fits_a_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    root = str(recorded(name))
    assert invoke(["run", "quick", "--plan", "--root", root]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split(":")[0] for line in lines if line.startswith(("tao:", "feed:", "tax:"))] == [
        "tao",
        "feed",
        "tax",
    ]
    assert invoke(["run", "tao", "--plan", "--root", root, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["plans"][0]["cpus"]["instances"]


def test_a_packed_tree_and_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    archive = RECORDED / "32intel64-2p8co2t+8ve.tar.bz2"
    if not archive.is_file():
        pytest.skip(f"no recorded machines in {RECORDED}")
    asked = ["--set", "instances=1", "--load-cpus", "0-1,16-17", "--root", str(archive)]
    assert invoke(["run", "tao", "--plan", *asked]) == 0
    said = capsys.readouterr().out
    assert "aaAAAAAA" in said
    assert "AAAAAAAA" in said


def test_this_machine_has_a_plan_and_nothing_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", "smoke", "--plan", "--out", str(tmp_path / "runs")]) == 0
    assert "tao:" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "tao", "--root", "/tmp"],
        ["run", "tao", "--plan", "--root", "/nowhere"],
        ["run", "tao", "--plan", "--root", str(Path(__file__).parent)],
        ["run", "tao", "--plan", "--set", "instance=2"],
        ["run", "tao", "--plan", "--set", "memory_binding=never"],
        ["run", "tao", "--plan", "--load-cpus", "9999"],
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
