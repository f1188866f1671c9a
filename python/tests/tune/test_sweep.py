"""``steelyard tune sweep``: a service over the ways of its cache, with the knee that it was given."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from steelyard.cli.main import invoke
from tests.cli.test_documents import hold
from tests.tune.machines import everything, make_machine
from tests.tune.test_tune import NOISE, run

WAYS = "sys/fs/resctrl/schemata"
SERVICE = f"""{NOISE}
import math
line = next(line for line in (root / "{WAYS}").read_text().splitlines() if "L3:" in line)
ways = int(line.partition("=")[2], 16).bit_count()
print("rate", 1000 * (1 - math.exp(-min(ways, 5))) * min(ways, 5) * (1 + noise))
"""
"""A program that grows with the ways of the cache, as far as five."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = make_machine(tmp_path / "machine")
    (root / WAYS).write_text("MB:0=100\nL3:0=7ff\n")
    info = root / "sys/fs/resctrl/info"
    (info / "L3CODE").rename(info / "L3")
    return root


def test_a_sweep_finds_the_knee_and_puts_the_ways_back(tmp_path: Path, machine: Path) -> None:
    before = everything(machine)
    words = ["sweep", "cache_ways=1,2,3,5,7,9,11", "--root", str(machine), "--blocks", "8", "--seed", "1"]
    command = ["--", sys.executable, "-c", SERVICE, str(machine)]
    done = run(tmp_path, *words, "--metric", r"rate=rate (\S+)", "--json", *command)
    assert done.returncode == 1, done.stderr  # Fewer ways are worse than those found.
    document = json.loads(done.stdout)
    hold(document)
    assert document["factor"] == "cache_ways"
    assert document["base"] == "11", "what was found"
    knee = document["response"]["knee"]
    assert 3 <= knee["at"] <= 6
    assert everything(machine) == before
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads((folder / "experiment.json").read_text())
    assert record["arms"][0]["knobs"] == {"cache_ways": "11"}
    assert {trial["arm"] for trial in record["trials"]} == {"1", "2", "3", "5", "7", "9", "11"}
    # Of a command it counts instructions, or says why it cannot.
    (trial, *_) = record["trials"]
    assert trial["readings"].keys() | trial["missing"].keys() >= {
        *("instructions", "cycles", "cpu_s", "cpi", "llc_mpki")
    }


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["boot_mitigations", "--", "true"], 2, "boot_mitigations: needs a reboot"),
        (["cache_ways=0,4", "--", "true"], 2, "cache_ways=0: allowed is"),
        (["cache_ways=4", "--", "true"], 2, "a sweep needs two levels"),
        (["cache_way", "--", "true"], 2, "did you mean cache_ways"),
        (["cache_ways"], 2, "needs one workload"),
        (["cache_ways", "--benchmark", "tao", "--", "true"], 2, "needs one workload"),
        (["cache_ways", "--blocks", "2", "--", "true"], 2, "at least 4 are needed"),
        (["cache_ways", "--metric", "nope", "--", "true"], 2, "a command has elapsed_s"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_one_line(
    tmp_path: Path,
    machine: Path,
    words: list[str],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = everything(machine)
    assert invoke(["tune", "sweep", "--root", str(machine), *words]) == code
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert everything(machine) == before
    assert not os.path.exists("runs")
