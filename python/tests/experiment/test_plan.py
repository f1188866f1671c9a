"""How many blocks an experiment calls for: from earlier ones, without a trial, and once some are made."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment.alike import is_alike
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.record import record_of
from steelyard.records.experiment import Experiment, ExperimentArm
from steelyard.stats.contrasts import blocks_needed
from tests.calling import call
from tests.cli.test_documents import hold
from tests.experiment.test_experiment import COUNT, start, trials, until


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return call("experiment", *words)


def sweep(folder: Path) -> list[str]:
    program = f"{COUNT};print(random.Random(k).gauss(100,2))"
    metric = ["--metric", r"x=(\S+)", "--seed", "1", "--out", str(folder / "runs")]
    return [*metric, "--sweep", "n=1,2", "--", sys.executable, "-c", program, str(folder / "count"), "{n}"]


def planned(*words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("--plan", "--json", *words).stdout)
    hold(document)
    return document


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of an experiment of 16 blocks, and what it said while it ran."""
    folder = tmp_path_factory.mktemp("earlier")
    return folder, run("--blocks", "16", "--to-the-end", *sweep(folder)).stderr


def test_a_plan_without_an_earlier_experiment_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    plan = planned(*sweep(tmp_path))
    assert plan["needs"] == []
    assert plan["reason"] == "no earlier experiment like this one, made on this machine, has 4 whole blocks"
    assert list(tmp_path.iterdir()) == []


def test_a_plan_rests_on_earlier_experiments_and_runs_nothing(earlier: tuple[Path, str]) -> None:
    base, said = earlier
    # The experiment itself says so once it has some blocks.
    assert "after 6 blocks: to see 1 % in 4 of 5 experiments, about" in said
    (folder,) = (base / "runs").iterdir()
    count = (base / "count").read_text()
    after = planned("--to-the-end", *sweep(base))
    assert (after["earlier"], after["blocks"]) == ([folder.name], 16)
    assert 0.015 < after["deviation"] < 0.06
    needs = {one["effect_ratio"]: one for one in after["needs"]}
    assert sorted(needs) == [0.005, 0.01, 0.02, 0.05]
    assert needs[0.01]["blocks"] == blocks_needed(after["deviation"], math.log1p(0.01), degrees=15)
    assert needs[0.005]["blocks"] > 3 * needs[0.01]["blocks"]
    assert needs[0.01]["seconds"] == pytest.approx(2 * needs[0.01]["blocks"] * after["trial_s"])
    assert planned(*sweep(base))["needs"][1]["blocks"] > needs[0.01]["blocks"]
    assert "to see 1 %" in run("--plan", *sweep(base)).stdout
    assert (base / "count").read_text() == count
    assert list((base / "runs").iterdir()) == [folder]


@pytest.mark.parametrize(
    ("old", "new", "tells"),
    [("x=(\\S+)", "y=(\\S+)", False), ("COUNT", "/dev/null", False), ("{n}", "{n}0", True)],
    ids=["another-metric", "another-command", "the-level-in-another-word"],
)
def test_which_earlier_experiment_tells_the_noise(
    earlier: tuple[Path, str], old: str, new: str, tells: bool
) -> None:
    base, _ = earlier
    replaced = str(base / "count") if old == "COUNT" else old
    words = [new if word == replaced else word for word in sweep(base)]
    assert words != sweep(base)
    assert (planned(*words)["needs"] != []) == tells


def test_other_levels_are_alike_and_guardrails_ask_for_more_blocks(
    earlier: tuple[Path, str],
) -> None:
    base, _ = earlier
    (folder,) = (base / "runs").iterdir()
    words = ["n=3,4,5" if word == "n=1,2" else word for word in sweep(base)]
    more = planned("--to-the-end", *words)
    assert more["earlier"] == [folder.name]
    # Two arms beside the base, and a guardrail of each: four intervals that hold together.
    guarded = planned("--to-the-end", "--guard", "cpu_s=5%", *words)
    for found, intervals in ((more, 2), (guarded, 4)):
        assert found["needs"][1]["blocks"] == blocks_needed(
            found["deviation"], math.log1p(0.01), degrees=15, confidence=1 - 0.05 / intervals
        )


def test_an_experiment_of_another_machine_tells_no_noise_here(tmp_path: Path) -> None:
    run("--blocks", "4", "--to-the-end", *sweep(tmp_path))
    (folder,) = (tmp_path / "runs").iterdir()
    assert planned(*sweep(tmp_path))["earlier"] == [folder.name]
    machine = json.loads((folder / "machine.json").read_text())
    (folder / "machine.json").write_text(json.dumps({**machine, "hostname": "elsewhere", "container": None}))
    assert planned(*sweep(tmp_path))["earlier"] == []


def recorded(name: str, *arms: ExperimentArm, **more: object) -> Experiment:
    """Return an experiment without trials."""
    request = ExperimentRequest(tier="smoke", **more)  # type: ignore[arg-type]
    return record_of(request, name or None, "factor", list(arms))


def test_alike_are_the_same_settings_but_for_those_that_differ() -> None:
    def tao(*levels: str, **fixed: str) -> Experiment:
        arms = [
            ExperimentArm(name=f"{at}: {level}", settings={**fixed, "memory": level}, command=[])
            for at, level in enumerate(levels)
        ]
        return recorded("tao", *arms)

    mine = tao("1MiB", "2MiB", measure="1")
    assert is_alike(tao("8MiB", "16MiB", measure="1"), mine)
    assert not is_alike(tao("1MiB", "2MiB", measure="30"), mine)
    assert not is_alike(tao("1MiB", "2MiB"), mine)
    # A pilot of the same first arm is; of another it is not.
    assert is_alike(tao("1MiB", "1MiB", measure="1"), mine)
    assert not is_alike(tao("2MiB", "2MiB", measure="1"), mine)
    other = [ExperimentArm(name=one, settings={"measure": "1", "hit": one}, command=[]) for one in "ab"]
    assert not is_alike(recorded("tao", *other), mine)


def test_commands_are_alike_in_all_words_but_those_that_differ() -> None:
    def commands(*texts: str) -> Experiment:
        arms = [ExperimentArm(name=text, settings={}, command=text.split()) for text in texts]
        return recorded("", *arms)

    mine = commands("gzip -1 file", "gzip -9 file")
    assert is_alike(commands("gzip -3 file", "gzip -6 file"), mine)
    assert not is_alike(commands("gzip -1 other", "gzip -9 other"), mine)
    assert not is_alike(commands("gzip -1 file", "gzip -1 other"), mine)
    assert not is_alike(commands("zstd -1 file", "zstd -9 file"), mine)
    assert not is_alike(commands("gzip -1 file", "zstd -1 file"), mine)
    assert is_alike(commands("gzip -1 file", "zstd -1 file"), commands("zstd -1 file", "gzip -1 file"))


def test_a_plan_is_for_what_has_not_begun(tmp_path: Path) -> None:
    done = run("--plan", "--resume", str(tmp_path))
    assert done.returncode == 2
    assert "--plan is for an experiment that has not begun" in done.stderr


def test_a_pilot_tells_what_the_experiment_needs(tmp_path: Path) -> None:
    words = sweep(tmp_path)
    done = run("--pilot", "8", "--guard", "cpu_s=5%", *words)
    assert done.returncode == 0, done.stderr
    assert "to see 1 % in 4 of 5 experiments, about" in " ".join(done.stdout.split())
    (folder,) = (tmp_path / "runs").iterdir()
    record = json.loads((folder / "experiment.json").read_text())
    assert [arm["name"] for arm in record["arms"]] == ["1", "1 again"]
    # Both are the first arm, and the guardrail is not its question.
    assert {arm["command"][-1] for arm in record["arms"]} == {"1"}
    assert len(record["trials"]) == 16
    shown = run(str(folder), "--json")
    document = json.loads(shown.stdout)
    hold(document)
    assert (document["earlier"], document["arms"]) == ([folder.name], ["1", "2"])
    assert document["directory"] == str(folder)
    assert document["needs"][1]["blocks"] == blocks_needed(
        document["deviation"], math.log1p(0.01), degrees=7, confidence=0.975, has_looks=True
    )
    # The plan of an experiment that begins with this arm rests on it.
    assert planned(*words)["earlier"] == [folder.name]
    assert planned(*["n=2,1" if word == "n=1,2" else word for word in words])["earlier"] == []


def test_a_pilot_that_is_interrupted_says_how_far_it_is(tmp_path: Path) -> None:
    program = f"{COUNT};import time;k==5 and time.sleep(60);print(random.Random(k).gauss(100,2))"
    arms = ["--sweep", "n=1,2", "--", sys.executable, "-c", program, str(tmp_path / "count"), "{n}"]
    words = ["--pilot", "6", "--metric", r"x=(\S+)", *arms]
    process = start(tmp_path / "runs", *words)
    until(lambda: trials(tmp_path / "runs") == 5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 4
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"experiment stopped by SIGINT (steelyard experiment --resume {folder} goes on)" in stderr
    shown = run(str(folder))
    assert shown.returncode == 1
    assert "blocks needed are not known: the pilot has 2 whole blocks, 4 are needed" in shown.stdout
    (tmp_path / "count").write_text("6")
    done = run("--resume", str(folder))
    assert done.returncode == 0, done.stderr
    assert "to see 1 % in 4 of 5 experiments, about" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pilot", "3", "--a", "true", "--b", "false"], "--pilot 3: at least 4 blocks tell a noise"),
        (
            ["--pilot", "8", "--plan", "--a", "true", "--b", "false"],
            "--pilot is for an experiment that has not",
        ),
        (["--pilot", "8", "--resume", "x"], "--pilot is for an experiment that has not begun"),
    ],
)
def test_pilots_that_cannot_be_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    done = run("--out", str(tmp_path / "runs"), *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()
