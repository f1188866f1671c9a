"""``steelyard tune`` with real commands on a made-up machine: outcomes, faults, kills, deployment."""

from __future__ import annotations

import configparser
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from steelyard._base import schemas_dir
from steelyard.cli.main import invoke
from tests.calling import call
from tests.cli.test_documents import hold
from tests.tune.machines import everything, make_machine

STEELYARD = Path(sys.executable).with_name("steelyard")
THP = "sys/kernel/mm/transparent_hugepage/enabled"
RATIO = "proc/sys/vm/dirty_ratio"
NOISE = """
import pathlib, random, sys
root = pathlib.Path(sys.argv[1])
trials = root.with_name("trials")
trial = len(trials.read_bytes()) if trials.exists() else 0
trials.write_bytes(b"." * (trial + 1))
noise = random.Random(trial).gauss(0, 0.004)
"""
"""A program's beginning that numbers its trials: blocks with this noise never look correlated by chance."""
SERVICE = f"""{NOISE}
words = (root / "{THP}").read_text().split()
thp = next((word.strip("[]") for word in words if word[0] == "["), words[0])
ratio = int((root / "{RATIO}").read_text())
rate = 1000 * (1.2 if thp == "always" else 1.0) * (1.1 if ratio == 40 else 1.0) * (1 + noise)
print("rate", rate)
"""
"""A program whose rate depends on two files of the made-up machine."""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return make_machine(tmp_path / "machine")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return call("tune", *words, folder=folder, COLUMNS="300", XDG_STATE_HOME=str(folder / "state"))


def workload(machine: Path, *knobs: str, program: str = SERVICE, blocks: int = 12) -> list[str]:
    words = [
        "run",
        "--root",
        str(machine),
        "--out",
        "runs",
        "--metric",
        r"rate=rate (\\S+)".replace("\\\\", "\\"),
    ]
    words += ["--blocks", str(blocks), "--confirm-blocks", "8", "--least-effect", "5%", "--seed", "1"]
    for knob in knobs:
        words += ["--knob", knob]
    return [*words, "--", sys.executable, "-c", program, str(machine)]


def tune(folder: Path, words: list[str], code: int) -> dict[str, Any]:
    at = words.index("--") if "--" in words else len(words)
    done = run(folder, *words[:at], "--json", *words[at:])
    assert done.returncode == code, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads((schemas_dir() / "tuning.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    return document


def changed(before: dict[str, bytes], machine: Path) -> set[str]:
    """Return the files that differ, but for the list of choices that a made-up file cannot keep."""
    after = everything(machine)
    return {path for path in before if before[path].strip() != after.get(path, b"").strip()} - {THP}


def test_knobs_that_help_become_a_soft_sku_that_is_deployed_and_taken_back(
    tmp_path: Path, machine: Path
) -> None:
    before = everything(machine)
    document = tune(tmp_path, workload(machine, "thp_enabled", "dirty_ratio=10,40", "sched_autogroup"), 0)
    assert document["chosen"] == {"thp_enabled": "always", "dirty_ratio": "40"}
    assert document["outcome"] == "better"
    (confirmed,) = (one for one in document["evidence"] if one["purpose"] == "confirm")
    assert confirmed["low"] > 1.25
    assert confirmed["high"] < 1.4
    ablated = {one["knob"]: one["outcome"] for one in document["evidence"] if one["purpose"] == "ablate"}
    assert ablated == {"thp_enabled": "better", "dirty_ratio": "better"}
    assert changed(before, machine) == set()
    (folder,) = (tmp_path / "runs").iterdir()
    softsku = tomllib.loads((folder / "softsku.toml").read_text())
    assert {one["name"]: (one["was"], one["level"]) for one in softsku["knob"]} == {
        "thp_enabled": ("madvise", "always"),
        "dirty_ratio": ("20", "40"),
    }
    assert all(
        {entry["purpose"] for entry in one["evidence"]} == {"search", "ablate"} for one in softsku["knob"]
    )
    here = [str(folder / "softsku.toml"), "--root", str(machine)]
    assert run(tmp_path, "verify", *here).returncode == 1
    assert run(tmp_path, "apply", *here).returncode == 0
    assert (machine / RATIO).read_text() == "40"
    # A start of Steelyard does not take it for what a killed run left behind.
    run(tmp_path, "run", "--root", str(machine), "--knob", "dirty_ratio=300", "--", "true")
    assert run(tmp_path, "verify", *here).returncode == 0
    restored = run(tmp_path, "restore")
    assert restored.returncode == 0, restored.stdout
    assert "'20'" in restored.stdout
    assert changed(before, machine) == set()
    assert run(tmp_path, "restore").stdout == "nothing to undo\n"
    for words in (["apply", *here], ["verify", *here], ["restore"]):
        hold(json.loads(run(tmp_path, *words, "--json").stdout))
    check_script(folder / "softsku.sh", machine, tmp_path)
    profile = configparser.ConfigParser(delimiters="=")
    profile.read(folder / "softsku-tuned.conf")
    assert profile.has_section("main")


def check_script(script: Path, machine: Path, folder: Path) -> None:
    """Apply, verify and restore with the script alone."""

    def call(*words: str) -> int:
        environment = {"PATH": os.environ["PATH"], "SOFTSKU_STATE": str(folder / "saved")}
        return subprocess.run([str(script), *words], env=environment, capture_output=True).returncode

    before = everything(machine)
    assert call("verify") == 1
    assert call("apply") == 0
    assert call("apply") == 0, "twice is as once"
    assert ((machine / THP).read_text(), (machine / RATIO).read_text()) == ("always", "40")
    assert call("verify") == 0
    assert call("restore") == 0
    assert changed(before, machine) == set()
    assert call() == 2


def test_no_winner_where_nothing_helps(tmp_path: Path, machine: Path) -> None:
    program = f"{NOISE}\nprint('rate', 1000 * (1 + noise))"
    document = tune(tmp_path, workload(machine, "thp_enabled", "sched_autogroup", program=program), 1)
    assert document["outcome"] == "none"
    assert document["chosen"] == {}
    assert not list((tmp_path / "runs").glob("*/softsku*"))


@pytest.mark.parametrize(
    ("program", "outcome", "reason"),
    [
        ("print('rate', 5)", "undecided", "the ratio is the same in all 5 blocks"),
        (SERVICE.replace("rate = ", "assert thp != 'always'; rate = "), "dropped", "exited with code 1"),
        (
            SERVICE.replace("rate = ", "rate = thp == 'always' and float('nan') or "),
            "dropped",
            "the metric is nan",
        ),
    ],
)
def test_a_metric_that_cannot_decide_is_reported(
    tmp_path: Path, machine: Path, program: str, outcome: str, reason: str
) -> None:
    document = tune(tmp_path, workload(machine, "thp_enabled=always", program=program, blocks=5), 1)
    (found,) = document["evidence"]
    assert found["outcome"] == outcome
    assert reason in found["reason"]


def test_a_workload_that_always_fails_ends_the_tuning(tmp_path: Path, machine: Path) -> None:
    before = everything(machine)
    done = run(tmp_path, *workload(machine, "thp_enabled", program="raise SystemExit(3)"))
    assert done.returncode == 4
    assert "arm as-found gave no value 3 times in a row" in done.stderr
    assert changed(before, machine) == set()


def test_a_breached_guardrail_stops_the_trial_at_once_and_drops_the_level(
    tmp_path: Path, machine: Path
) -> None:
    before = everything(machine)
    (tmp_path / "mine.toml").write_text(
        f'[[guard]]\nname = "dirt"\nfile = "{machine / RATIO}"\nat_most = 30\n'
        f'[[knob]]\nname = "mine"\nfiles = ["{machine / RATIO}"]\nlevels = ["25", "40"]\nmaximum = 50\n'
    )
    program = SERVICE + "import time; time.sleep(60 if ratio == 40 else 0)"
    words = workload(machine, "mine", program=program, blocks=5)
    begin = time.monotonic()
    document = tune(tmp_path, ["run", "--knobs", "mine.toml", *words[1:]], 1)
    assert time.monotonic() - begin < 40
    dropped = {one["level"]: one["reason"] for one in document["evidence"] if one["outcome"] == "dropped"}
    assert dropped == {"40": "guardrail dirt: 40 is above 30"}
    assert changed(before, machine) == set()


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


@pytest.mark.parametrize("way", ["restore", "resume", "next start"])
def test_a_killed_tuning_is_undone(tmp_path: Path, machine: Path, way: str) -> None:
    before = everything(machine)
    # The first trial with a changed ratio waits, until a file is there: this is where it is killed.
    wait = "import time; go = root / 'go'\nif ratio == 40 and not go.exists(): time.sleep(100)\n"
    words = workload(machine, "dirty_ratio=40,10", program=SERVICE + wait)
    process = subprocess.Popen(
        [str(STEELYARD), "tune", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )
    until(lambda: (machine / RATIO).read_text() == "40")
    busy = run(tmp_path, "restore")
    assert f"in use by process {process.pid}" in busy.stdout
    assert (machine / RATIO).read_text() == "40", "a tuning that lives is left alone"
    second = run(tmp_path, "run", "--root", str(machine), "--knob", "sched_autogroup", "--", "true")
    assert second.returncode == 3
    assert "another tuning is under way" in second.stderr
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (machine / RATIO).read_text() == "40"
    (folder,) = (tmp_path / "runs").iterdir()
    if way == "restore":
        done = run(tmp_path, "restore")
        assert done.returncode == 0
        assert "undid a change of a killed run" in done.stdout
    elif way == "next start":
        run(
            tmp_path,
            "run",
            "--root",
            str(machine),
            "--knob",
            "sched_autogroup",
            "--blocks",
            "4",
            "--",
            "false",
        )
    else:
        (machine / "go").touch()
        done = run(tmp_path, "run", "--resume", str(folder), "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["chosen"] == {"dirty_ratio": "40"}
        again = run(tmp_path, "run", "--resume", str(folder))
        assert "is complete" in again.stderr
    assert changed(before, machine) == set()


def test_a_tuning_is_not_resumed_on_a_machine_that_changed(tmp_path: Path, machine: Path) -> None:
    words = workload(machine, "dirty_ratio=40,10", program="raise SystemExit(3)")
    assert run(tmp_path, *words).returncode == 4
    (machine / RATIO).write_text("5\n")
    (folder,) = (tmp_path / "runs").iterdir()
    done = run(tmp_path, "run", "--resume", str(folder))
    assert done.returncode == 2
    assert "dirty_ratio was 20 when the tuning began, and is 5" in done.stderr


def test_advice_changes_nothing(tmp_path: Path, machine: Path) -> None:
    before = everything(machine)
    words = workload(machine)
    done = run(tmp_path, words[0], "--advice", *words[1:])
    assert done.returncode == 0, done.stderr
    assert "Nothing was changed." in done.stdout
    assert "needs a reboot" in done.stdout
    assert everything(machine) == before
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "state").exists()


def test_knobs_that_need_a_reboot_are_never_tried(tmp_path: Path, machine: Path) -> None:
    done = run(tmp_path, *workload(machine, "boot_mitigations"))
    assert done.returncode == 1
    assert "there is no knob to try" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["run"], 2, "a tuning needs one workload"),
        (["run", "--benchmark", "nope"], 2, "nope"),
        (["run", "--benchmark", "tao", "--", "true"], 2, "a tuning needs one workload"),
        (["run", "--knob", "dirty_ratio=99", "--", "true"], 2, "dirty_ratio=99: allowed is 1..90"),
        (["run", "--knob", "dirty_rato", "--", "true"], 2, "did you mean dirty_ratio"),
        (["run", "--knob", "cache_ways", "--", "true"], 2, "resctrl is mounted with cdp"),
        (["run", "--knob", "level=1,2", "--", "true"], 2, "there is no knob 'level'"),
        (["run", "--benchmark", "tao", "--knob", "memory=1MiB,8GiB"], 2, "memory=1MiB: allowed is"),
        (["run", "--risk", "none", "--", "true"], 2, "it is low, medium or high"),
        (["run", "--strategy", "luck", "--", "true"], 2, "--strategy luck"),
        (["run", "--benchmark", "tao", "--guard", "p99"], 2, "METRIC<=NUMBER"),
        (["run", "--guard", "p99<=1", "--", "true"], 2, "--guard is for a benchmark or a service"),
        (["run", "--blocks", "2", "--", "true"], 2, "at least 4 are needed"),
        (["run", "--knobs", "absent.toml", "--", "true"], 2, "absent.toml"),
        (["run", "--knobs", "bad.toml", "--", "true"], 2, "bad.toml: knob 1: level 9 is out of range"),
        (["run", "--resume", "nowhere"], 2, "nowhere holds no tuning"),
        (["apply", "bad.toml"], 2, "no soft SKU"),
        (["verify", "absent.toml"], 2, "absent.toml"),
        (["show", "nowhere"], 2, "nowhere"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_one_line(
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
    (tmp_path / "bad.toml").write_text(
        '[[knob]]\nname="a"\nfiles=["/a"]\nlevels=["1","9"]\nminimum=0\nmaximum=5\n'
    )
    root = [] if words[0] == "show" else ["--root", str(machine)]
    assert invoke(["tune", words[0], *root, *words[1:]]) == code
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_the_list_names_knobs_and_what_is_lacking(tmp_path: Path, machine: Path) -> None:
    done = run(tmp_path, "list", "--root", str(machine), "--json")
    document = json.loads(done.stdout)
    hold(document)
    assert {"thp_enabled", "prefetchers"} <= {one["name"] for one in document["knobs"]}
    assert all(one["reason"] for one in document["lacking"])
    assert "thp_enabled" in run(tmp_path, "list").stdout
