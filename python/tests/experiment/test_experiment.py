"""Experiments with real commands and a real benchmark: answers, faults, interrupts, going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.bench import scratch
from steelyard.bench.launch import repeat_seed
from steelyard.experiment.design import orders
from tests.calling import call
from tests.cli.test_documents import hold

STEELYARD = Path(sys.executable).with_name("steelyard")
WORK = "import sys,time;t=time.process_time();exec('while time.process_time()-t<float(sys.argv[1]):pass')"
"""A program that uses as much CPU time as its argument says."""

COUNT = (
    "import pathlib,random,sys;c=pathlib.Path(sys.argv[1]);"
    "k=int(c.read_text()) if c.exists() else 0;c.write_text(str(k+1))"
)
"""A program's beginning that numbers its trials: noise of this seed never looks correlated by chance."""


def steelyard(folder: Path, *words: str, code: int | None = 0) -> dict[str, Any]:
    """Run ``steelyard experiment`` with ``--json``; return its document."""
    command = ["experiment", *words]
    at = words.index("--") + 1 if "--" in words else len(command)
    command[at:at] = ["--json", "--out", str(folder)]
    done = call(*command)
    assert code in (None, done.returncode), done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    hold(document)
    return document


def work(seconds: float) -> str:
    return f'{sys.executable} -c "{WORK}" {seconds}'


def record(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(document["directory"]) / "experiment.json").read_text())
    return found


def test_a_command_that_takes_three_times_as_long_is_worse(tmp_path: Path) -> None:
    # Five blocks show it, as a rule; a host that holds this guest up charges the time to whatever runs.
    document = steelyard(
        tmp_path, "--a", work(0.05), "--b", work(0.15), "--metric", "cpu_s", "--blocks", "40", code=1
    )
    (answer,) = document["answers"]
    assert answer["outcome"] == "worse"
    assert answer["low"] > 1
    assert document["metric"] == {
        "name": "cpu_s",
        "unit": "s",
        "better": "lower",
        "pattern": None,
        "is_series": False,
    }
    # It stopped as soon as it knew, after whole blocks.
    assert document["status_reason"] == "decided"
    trials = record(document)["trials"]
    assert 2 * answer["blocks"] == len(trials) < 80


def test_a_sweep_reads_a_number_from_the_output(tmp_path: Path) -> None:
    program = (
        f"{COUNT};print('noise', 7);print('rate', float(sys.argv[2])*random.Random(k).uniform(.99,1.01))"
    )
    words = [
        "--seed",
        "1",
        "--sweep",
        "size=100,101,200",
        "--metric",
        r"rate=rate (\S+)",
        "--blocks",
        "12",
        "--to-the-end",
    ]
    words += ["--least-effect", "5%", "--", sys.executable, "-c", program, str(tmp_path / "count"), "{size}"]
    document = steelyard(tmp_path / "runs", *words)
    outcomes = {answer["arm"]: answer["outcome"] for answer in document["answers"]}
    assert outcomes == {"101": "equivalent", "200": "better"}
    assert not document["answers"][0]["holds_at_every_look"]
    assert len(record(document)["trials"]) == 36


def test_two_arms_that_are_alike_are_never_better_or_worse(tmp_path: Path) -> None:
    program = f"{COUNT};print(random.Random(k).gauss(100,2))"
    words = [
        "--seed",
        "1",
        "--sweep",
        "n=1,2",
        "--metric",
        r"x=(\S+)",
        "--blocks",
        "16",
        "--to-the-end",
        "--",
        sys.executable,
    ]
    document = steelyard(tmp_path / "runs", *words, "-c", program, str(tmp_path / "count"), "{n}", code=1)
    (answer,) = document["answers"]
    assert answer["outcome"] == "undecided"
    assert answer["low"] < 1 < answer["high"]
    # Noise of 2 % a value and an effect of 1 %: about 68 blocks for one look (docs/truth.md).
    assert 15 < answer["blocks_needed"] < 250


def test_an_arm_that_fails_ends_it_with_its_words(tmp_path: Path) -> None:
    done = call(
        "experiment", "--out", str(tmp_path), "--a", "true", "--b", "sh -c 'echo no licence >&2; exit 3'"
    )
    assert done.returncode == 4
    assert "arm b gave no value 3 times in a row: sh exited with code 3: no licence" in done.stderr
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "experiment.json").read_text())["status"] == "incomplete"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--a", "true"], "an experiment needs two arms"),
        (["--a", "true", "--b", "true"], "--a and --b are the same command"),
        (["tao", "--a", "memory=1MiB", "--b", "memory=1MiB"], "--a and --b are the same settings"),
        (
            ["tao", "--a", "memory=8MiB", "--b", "memory=8192KiB"],
            "arms a and b are the same: memory=8MiB is memory=8192KiB",
        ),
        (
            ["tao", "--a", "", "--b", "backend_delay=none"],
            "arms a and b are the same: backend_delay=its default is backend_delay=none",
        ),
        (
            ["tao", "--tier", "smoke", "--sweep", "warmup_min=5,5s,6"],
            "arms 5 and 5s are the same: warmup_min=5 is warmup_min=5s",
        ),
        (["tao", "--a", "memorie=1MiB", "--b", ""], "tao has no parameter 'memorie'"),
        (["tao", "--a", "measure=0.1", "--b", ""], "measure=0.1: allowed is 1s"),
        (["--sweep", "n=1", "--", "true", "{n}"], "--sweep n=1: not NAME=VALUE,VALUE"),
        (["--sweep", "n=1,2", "--", "true"], "the command has no place {n}"),
        (["--a", "true", "--b", "false", "--metric", "speed"], "a command has elapsed_s and cpu_s"),
        (["--a", "true", "--b", "false", "--metric", "x=("], "--metric '('"),
        (["--a", "true", "--b", "false", "--metric", "x=1"], "has 0 groups, one is needed"),
        (["--a", "true", "--b", "false", "--least-effect", "2"], "write it as 1% or 0.01"),
        (["--a", "true", "--b", "false", "--blocks", "3"], "at least 4 are needed"),
        (["--a", "no-such-program", "--b", "true"], "no-such-program: no such program"),
        (["--resume", "nowhere"], "nowhere holds no experiment"),
        (["tao", "--resume", "nowhere"], "nowhere holds no experiment"),
        (["--a", "true", "--b", "false", "--hook", "probe"], "--set and --hook are for a benchmark"),
    ],
)
def test_what_is_no_experiment_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    done = call("experiment", "--out", str(tmp_path / "runs"), *words)
    assert done.returncode in (2, 3)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(STEELYARD), "experiment", "--out", str(folder), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


def trials(folder: Path) -> int:
    return sum(len(json.loads(path.read_text())["trials"]) for path in folder.glob("*/experiment.json"))


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_an_experiment_that_was_stopped_goes_on(tmp_path: Path, kill: signal.Signals) -> None:
    marker = f"30.0{os.getpid()}{kill.value}"
    words = ["--sweep", "n=1,2", "--blocks", "4", "--to-the-end", "--seed", "3", "--"]
    # The fourth trial waits, until a file is there: this is where it is stopped.
    program = (
        "import pathlib,sys,time;p=pathlib.Path(sys.argv[1]);n=p/'count';"
        "k=int(n.read_text()) if n.exists() else 0;n.write_text(str(k+1));"
        "k==3 and not (p/'go').exists() and time.sleep(float(sys.argv[2]))"
    )
    process = start(tmp_path / "runs", *words, sys.executable, "-c", program, str(tmp_path), marker, "{n}")
    until(lambda: (tmp_path / "count").exists() and (tmp_path / "count").read_text() == "4")
    process.send_signal(kill)
    process.communicate(timeout=30)
    # Nothing is left of the trial.
    until(lambda: not any(marker in _command(path) for path in Path("/proc").glob("[0-9]*")))
    (folder,) = (tmp_path / "runs").iterdir()
    assert trials(tmp_path / "runs") == 3
    (tmp_path / "go").touch()
    (tmp_path / "count").write_text("9")
    for words, flag in ((["--blocks", "5"], "--blocks"), (["tao"], "other benchmark or command")):
        refused = call("experiment", "--resume", str(folder), *words)
        assert refused.returncode == 2
        assert f"--resume goes on as it began: it takes no {flag}" in refused.stderr
    # What is as it began may be typed again.
    done = call("experiment", "--resume", str(folder), "--blocks", "4", "--json")
    document = json.loads(done.stdout)
    assert document["status"] == "complete"
    made = record(document)["trials"]
    assert [(one["block"], one["arm"]) for one in made] == [
        (block, arm) for block, order in enumerate(orders(["1", "2"], 4, 3)) for arm in order
    ]
    listed = call("list", "runs", "--runs", str(tmp_path / "runs"), "--json")
    hold(json.loads(listed.stdout))
    (entry,) = json.loads(listed.stdout)["experiments"]
    assert (entry["experiment_id"], entry["status"], list(entry["outcomes"])) == (
        folder.name,
        "complete",
        ["2"],
    )
    again = call("experiment", "--resume", str(folder))
    assert again.returncode == 2
    assert "is complete" in again.stderr


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "experiment.json",
            {"steelyard_version": "0.0.9"},
            "cannot be resumed: it began with version 0.0.9, and this is",
        ),
        (
            "machine.json",
            {"hostname": "elsewhere", "container": None},
            "cannot be resumed: it began on another machine: host elsewhere",
        ),
        ("machine.json", None, "cannot be resumed: it began on an unknown machine"),
    ],
)
def test_it_goes_on_only_where_it_began(
    tmp_path: Path, file: str, change: dict[str, Any] | None, message: str
) -> None:
    words = ["experiment", "--out", str(tmp_path), "--a", "true", "--b", "false"]
    assert call(*words).returncode == 4
    (folder,) = tmp_path.iterdir()
    path = folder / file
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    trials_before = trials(tmp_path)
    done = call("experiment", "--resume", str(folder))
    assert done.returncode == 2
    assert f"{folder.name} {message}" in done.stderr
    assert trials(tmp_path) == trials_before
    shown = call("list", "runs", "--runs", str(tmp_path))
    assert folder.name in shown.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["experiment", "--sweep", "n=1,2", "--blocks", "4", "--", "sh", "-c", "test ! -e {0} # {{n}}"],
        ["scale", "--blocks", "1", "--steps", "1", "--no-profile", "--", "sh", "-c", "test ! -e {0}"],
    ],
    ids=lambda words: words[0],
)
def test_what_a_killed_run_left_is_undone_first(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    journal = tmp_path / "state" / "steelyard" / "undo"
    journal.mkdir(parents=True)
    entry = {"kind": scratch.KIND, "module": scratch.__name__, "details": {"path": str(left)}}
    whose = {"pid": 1, "start_ticks": 0, "boot_id": "an earlier one"}
    (journal / "killed.json").write_text(json.dumps({**entry, **whose}))
    command = [word.format(left) for word in words]
    command[1:1] = ["--out", str(tmp_path / "runs")]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done = call(*command)
    # Each trial fails while the folder is there.
    assert done.returncode in (0, 1), done.stderr
    assert "undid a change of a killed run" in done.stderr
    assert not left.exists()
    assert list(journal.iterdir()) == []


def _command(path: Path) -> str:
    try:
        return (path / "cmdline").read_text()
    except OSError:
        return ""


def test_orders_are_balanced_in_pairs_and_repeat_with_the_seed() -> None:
    made = orders(["a", "b", "c"], 9, seed=5)
    assert made == orders(["a", "b", "c"], 9, seed=5)
    for first, second in zip(made[0:8:2], made[1:8:2], strict=True):
        assert first == second[::-1]
    starts = {tuple(order) for seed in range(40) for order in orders(["a", "b", "c"], 2, seed)}
    assert len(starts) == 6


def test_a_benchmark_is_tried_with_the_same_requests_in_both_arms_beside_its_guardrails(
    tmp_path: Path,
) -> None:
    short = ("measure=1", "warmup_min=0.5", "warmup_max=0.5", "connections=4")
    settings = [word for text in short for word in ("--set", text)]
    words = ["tao", "--tier", "smoke", "--a", "memory=8MiB", "--b", "memory=32MiB", *settings]
    page = tmp_path / "page.html"
    words += ["--guard", "hit_ratio=-5%", "--guard", "response_p99_ns=50%"]
    words += ["--blocks", "4", "--budget", "1s", "--report", str(page)]
    document = steelyard(tmp_path / "runs", *words, code=None)
    # The benchmark itself says which way is worse, where the sign does not.
    guards = record(document)["plan"]["guards"]
    assert [(guard["better"], guard["unit"]) for guard in guards] == [("higher", "ratio"), ("lower", "ns")]
    (answer,) = document["answers"]
    assert [guard["bound"] for guard in answer["guards"]] == [pytest.approx(0.95), 1.5]
    made = record(document)["trials"]
    runs = Path(document["directory"]) / "runs"
    by_block: dict[int, list[dict[str, Any]]] = {}
    for trial in made:
        by_block.setdefault(trial["block"], []).append(
            json.loads((runs / trial["run_id"] / "run.json").read_text())
        )
    whole = {block: pair for block, pair in by_block.items() if len(pair) == 2}
    assert whole
    seed = record(document)["plan"]["seed"]
    for block, pair in whole.items():
        seeds, memory = ({run["parameters"][name]["value"] for run in pair} for name in ("seed", "memory"))
        # Those of the runs of `run --repeat`, which differ.
        assert seeds == {repeat_seed(seed, block + 2)}
        assert memory == {8 << 20, 32 << 20}
    assert "memory" in page.read_text()
