"""``steelyard tune`` beside a service that runs anyway: knobs are set, it is looked at, all is put back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from steelyard.bench.clock import SystemClock
from steelyard.bench.signals import Interrupts
from steelyard.cli.tune import sweep
from steelyard.tune.begin import begin_sweep
from steelyard.tune.request import SweepRequest
from steelyard.tune.trials import KnobTrials
from tests.experiment.test_service import SET, Service, service
from tests.tune.machines import make_machine
from tests.tune.test_tune import STEELYARD, run

__all__ = ["service"]

SHOW = (
    "import re,sys,urllib.request;"
    "text=urllib.request.urlopen(sys.argv[1]+'/metrics').read().decode();"
    "print(re.search(r'^rate (\\d+)', text, re.M)[1])"
)


def knobs(folder: Path, made: Service, *levels: str) -> Path:
    """Write a file with a knob that asks the service for another rate; above 1800 its latency doubles."""
    apply = (
        "import sys;rate=int(sys.argv[2]);p99=10 if rate < 1800 else 20;"
        "url=sys.argv[1]+f'/set?rate={rate}&p99={p99}';" + SET.replace("sys.argv[1]", "url")
    )
    words = {
        "apply": [sys.executable, "-c", apply, made.address, "{}"],
        "read": [sys.executable, "-c", SHOW, made.address],
    }
    path = folder / "mine.toml"
    path.write_text(
        '[[knob]]\nname = "rate"\nrisk = "low"\n'
        + "".join(f"{name} = {json.dumps(value)}\n" for name, value in words.items())
        + f"levels = {json.dumps(['1000', *levels])}\n"
    )
    return path


def sources(made: Service) -> list[str]:
    return ["--ops", made.source("speed"), "--ops", made.source("latency_p99_ms")]


def machine(folder: Path) -> list[str]:
    """Return the flag of a machine of its own: one tuning at a time changes one."""
    return ["--root", str(make_machine(folder / "machine"))]


def of(folder: Path, name: str) -> list[dict[str, Any]]:
    (path,) = folder.glob(f"runs/*/{name}")
    trials: list[dict[str, Any]] = json.loads(path.read_text())["trials"]
    return trials


def test_knobs_are_tried_on_a_service_that_goes_on(service: Service, tmp_path: Path) -> None:
    mine = knobs(tmp_path, service, "1500", "2000")
    done = run(
        tmp_path,
        *(
            "run",
            *machine(tmp_path),
            *sources(service),
            "--window",
            "8s",
            "--knobs",
            str(mine),
            "--knob",
            "rate",
            "--json",
        ),
        *("--guard", "latency_p99_ms<=12", "--budget", "1s", "--blocks", "4", "--confirm-blocks", "4"),
    )
    assert done.returncode == 1, done.stderr
    tuning = json.loads(done.stdout)
    assert (tuning["metric"]["name"], tuning["live"]["window_s"], tuning["template"]) == ("speed", 8.0, [])
    found = {one["level"]: one for one in tuning["evidence"]}
    # One block decides nothing, and tells how much faster it is.
    assert found["1500"]["outcome"] == "undecided"
    assert found["1500"]["gain_ratio"] == pytest.approx(1.5, rel=0.05)
    assert found["2000"]["outcome"] == "dropped"
    assert "guardrail latency_p99_ms" in found["2000"]["reason"]
    assert "is above 12" in found["2000"]["reason"]
    # The breach ended its trial before the window was over.
    took = {
        trial["arm"]: (trial["end_ns"] - trial["begin_ns"]) / 1e9
        for trial in of(tmp_path, "001-*/experiment.json")
    }
    assert took["2000"] < took["as-found"] - 2
    # It was never started or ended, and is as it was.
    assert service.process.poll() is None
    assert service.rate() == 1000
    assert list((tmp_path / "state/steelyard/undo").iterdir()) == []


def test_a_level_of_a_sweep_is_seen_by_the_service(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    log = tmp_path / "access.log"
    asked = SweepRequest(
        sources=[service.source("speed"), f"log,name=errors:{log}: 500$"],
        window="10s",
        user_file=knobs(tmp_path, service, "1500"),
        knob="rate",
        out=tmp_path,
    )
    experiment, knob, guards = begin_sweep(asked)
    assert [(arm.name, arm.knobs, arm.command) for arm in experiment.arms] == [
        ("1000", {"rate": "1000"}, []),
        ("1500", {"rate": "1500"}, []),
    ]
    inner = sweep._workload(experiment, tmp_path, guards, Interrupts())
    trials = KnobTrials(inner, {"rate": knob}, guards, "test", 0.0, SystemClock(), Interrupts())
    measured = trials.measure(experiment.arms[1], 0)
    assert measured.value == pytest.approx(1500, rel=0.05), measured.reason
    # No line of the log fits.
    assert measured.readings.get("errors", 0) == 0
    assert service.rate() == 1000


def test_a_killed_tuning_leaves_the_service_as_it_was_at_the_next_start(
    service: Service, tmp_path: Path
) -> None:
    mine = knobs(tmp_path, service, "1500")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    words = ["run", *machine(tmp_path), *sources(service), "--window", "1h", "--knobs", str(mine)]
    # With this seed the level is tried first.
    words += ["--knob", "rate=1500", "--seed", "4"]
    process = subprocess.Popen([str(STEELYARD), "tune", *words], cwd=tmp_path, env=environment)
    try:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("runs/*/001-*/operations/*/0.jsonl")):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert service.rate() == 1500
    finally:
        process.kill()
        process.wait(10)
    run(tmp_path, "restore")
    assert service.rate() == 1000
    assert list((tmp_path / "state/steelyard/undo").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--benchmark", "tao"], "one workload"),
        (["--", "true"], "one workload"),
        (["--knob", "cpus=1"], "--knob cpus: it is given to a program when it starts"),
        (["--knob", "env:A=1"], "--knob env:A: it is given to a program when it starts"),
        (["--guard", "other<=3"], "--guard other: no source has this name"),
        (["--set", "a=1"], "--set and --hook are for a benchmark"),
        (["--window", "1s"], "--window=1s: allowed is 5s"),
        (["--metric", "other"], "--metric other: no source has this name"),
    ],
)
def test_what_no_service_has_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    log = tmp_path / "some.log"
    log.write_text("one\n")
    done = run(tmp_path, "run", *machine(tmp_path), "--ops", f"log,name=lines:{log}", *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_knobs_of_a_program_are_listed_and_not_tried(tmp_path: Path) -> None:
    log = tmp_path / "some.log"
    log.write_text("one\n")
    done = run(tmp_path, "run", "--ops", f"log,name=lines:{log}", "--advice", "--json")
    assert done.returncode == 0, done.stderr
    reasons = {one["name"]: one["reason"] for one in json.loads(done.stdout)["knobs"]}
    assert "the service runs already" in reasons.get("cpus", "the service runs already")
    assert None in reasons.values()
