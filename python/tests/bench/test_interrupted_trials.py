"""An interrupt in any phase of commands that try, change or install: their processes and changes are gone."""

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from steelyard.bench import undo
from steelyard.bench.stack import install as installing
from steelyard.bench.stack import installation
from steelyard.bench.stack.recipe import MARK as INSTALLED
from steelyard.bench.stack.recipe import Recipe, missing, payload_dir
from steelyard.cli.main import invoke
from steelyard.experiment import engine
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.record import record_of
from steelyard.machine import snapshot
from steelyard.records import RunStatus, write
from steelyard.records.experiment import ExperimentArm, ExperimentPlacement
from tests.bench import sample_benchmarks
from tests.bench.conftest import MARK, marked, until
from tests.interrupting import invoke_interrupted, moments_of, spread
from tests.tune.machines import everything, make_machine

MOMENTS = 5
"""Of each command: its first function, its last, and others between them."""
SOON_S = 20.0
"""What waits for the end of what it started would wait for minutes."""
CPU = min(os.sched_getaffinity(0))
CURVE = ["--no-profile", "--metric", r"rate=(\d+)"]


@dataclass(frozen=True)
class Place:
    """Where a command is interrupted."""

    folder: Path
    machine: Path
    """A made-up one, whose knobs may be changed."""
    mark: str
    before: dict[str, bytes]

    def check(self, code: int, err: str, moment: str) -> None:
        """Assert that a command that was interrupted there has left nothing."""
        until(lambda: not marked(self.mark))
        assert "Traceback" not in err, err
        complaints = [line for line in err.splitlines() if line.startswith("steelyard: ")]
        assert len(complaints) == (code == 4), (moment, err)
        assert code in (0, 1, 4), (moment, err)
        assert [path for path in self.folder.rglob("*") if "partial" in path.name] == [], moment
        after = everything(self.machine)
        # The list of choices of a made-up file becomes the choice.
        assert {name for name in after if after[name].strip() != self.before[name].strip()} == set(), moment
        assert list(undo.journal_dir().glob("*.json")) == [], moment
        for path in self.folder.rglob("*.json"):
            json.loads(path.read_text())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    machine = make_machine(tmp_path / "machine")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Place(tmp_path / "work", machine, mark, everything(machine))


def tuning(place: Place, seconds: str) -> list[str]:
    words = ["tune", "run", "--root", str(place.machine), "--knob", "dirty_ratio=40", "--seed", "1"]
    return [*words, "--blocks", "4", "--confirm-blocks", "4", "--", "sleep", seconds]


def curve(_place: Place, seconds: str) -> list[str]:
    return ["scale", "--steps", "1", "--blocks", "2", *CURVE, "--", "sh", "-c", f"sleep {seconds}; echo 5"]


def experiment(_place: Place, seconds: str) -> list[str]:
    return ["experiment", "--a", "sleep 0", "--b", f"sleep {seconds}", "--blocks", "4", "--seed", "1"]


def scenarios(place: Place, seconds: str) -> list[str]:
    """Go on with an experiment whose two placements are both on this machine's first node."""
    work = f"import time;x=bytearray(20<<20);time.sleep({seconds} + 0.1)"
    arms = [
        ExperimentArm(
            name=str(number),
            settings={},
            command=[sys.executable, "-c", work],
            placement=ExperimentPlacement(
                scenario=number, cpus=str(CPU), memory_nodes="0", local_ratio=1.0, co_runner=None
            ),
        )
        for number in (1, 2)
    ]
    record = record_of(ExperimentRequest(blocks=4, seed=1), None, "scenario", arms, [("1", "2")])
    folder = place.folder / f"numa-{uuid.uuid4().hex}"
    folder.mkdir()
    cut = {"experiment_id": folder.name, "status": RunStatus.INCOMPLETE, "status_reason": "stopped"}
    write(record.model_copy(update=cut), folder / engine.MANIFEST)
    write(snapshot(), folder / engine.MACHINE)
    return ["numa", "experiment", "--resume", str(folder)]


def pair(_place: Place, seconds: str) -> list[str]:
    return [
        "colocate",
        f"sleep {seconds}",
        "sleep 0.05",
        "--repeats",
        "1",
        "--duration",
        "0.2s",
        "--seed",
        "1",
    ]


def look(_place: Place, seconds: str) -> list[str]:
    return [
        "characterize",
        "--no-counters",
        "--hz",
        "0",
        "--interval",
        "50ms",
        "--duration",
        "0",
        "--",
        "sleep",
        seconds,
    ]


TRIALS: dict[str, Callable[[Place, str], list[str]]] = {
    "tune run": tuning,
    "scale": curve,
    "experiment": experiment,
    "numa experiment": scenarios,
    "characterize": look,
}


@pytest.mark.parametrize("name", TRIALS)
def test_interrupted_trials_leave_nothing_behind(
    name: str, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    make = TRIALS[name]
    assert invoke(make(place, "0.01")) in (0, 1), capfd.readouterr().err
    _, moments = moments_of(make(place, "0.01"))
    reached = 0
    for moment in spread(moments, MOMENTS):
        capfd.readouterr()
        words = make(place, "0.01")
        code, is_reached = invoke_interrupted(moment, words)
        reached += is_reached
        place.check(code, capfd.readouterr().err, moment)
        assert code == 4 or not is_reached or code in (0, 1)
    assert reached >= MOMENTS // 2


WAITING = {
    "tune run": ("steelyard.experiment.workload:select", 4),
    "scale": ("steelyard.experiment.workload:select", 2),
    "experiment": ("steelyard.experiment.workload:select", 6),
    "numa experiment": ("steelyard.experiment.workload:select", 4),
    "colocate": ("steelyard.bench.colocation.blocks:sleep", 4),
    "characterize": ("steelyard.bench.session:sleep", 4),
}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", WAITING)
def test_a_trial_is_not_waited_for(
    name: str, sent: signal.Signals, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    words = (TRIALS | {"colocate": pair})[name](place, "300")
    moment, call = WAITING[name]
    begin_s = time.monotonic()
    code, is_reached = invoke_interrupted(moment, words, call=call, sent=sent)
    assert is_reached
    assert time.monotonic() - begin_s < SOON_S
    err = capfd.readouterr().err
    place.check(code, err, moment)
    assert code == 4
    assert f"stopped by {sent.name}" in err


SOFTSKU = """
[[knob]]
name = "dirty_ratio"
level = "40"
[[knob]]
name = "cache_size"
level = "2g"
"""
KNOBS = """
[[knob]]
name = "cache_size"
file = "FILE"
template = "cache = {value}"
levels = ["1g", "2g"]
"""


@pytest.mark.parametrize("verb", ["apply", "restore"])
def test_an_interrupted_change_of_knobs_is_made_whole_or_taken_back(
    verb: str, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the kernel and of a file: what is written down of them stands in two places."""
    softsku, knobs = place.folder / "softsku.toml", place.folder / "knobs.toml"
    ratio, file = place.machine / "proc/sys/vm/dirty_ratio", place.machine / "service.conf"
    file.write_text("cache = 1g")
    place.before[file.name] = file.read_bytes()
    softsku.write_text(SOFTSKU)
    knobs.write_text(KNOBS.replace("FILE", str(file)))
    apply = ["tune", "apply", str(softsku), "--root", str(place.machine), "--knobs", str(knobs)]
    words = apply if verb == "apply" else ["tune", "restore"]
    before = [] if verb == "apply" else apply
    for prepared in (before, words, ["tune", "restore"], before):
        assert not prepared or invoke(prepared) == 0, capfd.readouterr().err
    _, moments = moments_of(words)
    assert invoke(["tune", "restore"]) == 0
    own = [one for one in moments if one.startswith(("steelyard.tune.changes:", "steelyard.bench.undo:"))]
    assert len(own) > 5
    for moment, call in [(one, call) for one in own for call in (1, 2)]:
        assert not before or invoke(before) == 0
        capfd.readouterr()
        code, is_reached = invoke_interrupted(moment, words, call=call)
        assert "Traceback" not in capfd.readouterr().err
        assert code == (4 if is_reached else 0), moment
        found = (ratio.read_text().strip(), file.read_text().strip())
        kept = list(undo.kept_dir().glob("*.json"))
        if verb == "apply":
            assert found in {("20", "cache = 1g"), ("40", "cache = 2g")}, (moment, call)
            # What was there is known, and no next run takes it for what a killed one left behind.
            assert len(kept) == (2 if found[0] == "40" else 0), (moment, call)
        assert list(undo.journal_dir().glob("*")) == [], (moment, call)
        assert invoke(["tune", "restore"]) == 0
        place.check(0, "", moment)


HELPED = """
[ "$(cat "$0")" = 40 ] && more=30000 || more=0
echo >>"$1"
count=$(wc -l <"$1")
echo rate $((100000 + more + count * count * 7919 % 1009))
"""
"""A program whose rate one knob raises by nearly a third, with the same noise each time that it is tuned."""


@pytest.mark.parametrize("call", [1, 5])
def test_a_tuning_that_found_a_soft_sku_has_it_whole(
    call: int, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", "run", "--root", str(place.machine), "--knob", "dirty_ratio=40", "--seed", "1"]
    words += [
        "--least-effect",
        "5%",
        "--blocks",
        "8",
        "--confirm-blocks",
        "8",
        "--metric",
        r"rate=rate (\d+)",
    ]
    words += ["--", "sh", "-c", HELPED, str(place.machine / "proc/sys/vm/dirty_ratio"), "count"]
    code, is_reached = invoke_interrupted("steelyard.tune.deploy:write_text", words, call=call)
    assert is_reached, capfd.readouterr().err
    place.check(code, capfd.readouterr().err, "deploy")
    (record,) = place.folder.glob("runs/*/tuning.json")
    assert json.loads(record.read_text())["status"] == "complete"
    # It is not resumed, so nothing would write what is missing.
    assert len(list(record.parent.glob("softsku*"))) == 5


@pytest.fixture
def wheel(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a benchmark need files whose installation begins a process that would go on for minutes."""
    sample_benchmarks.add(place.folder / "site", monkeypatch.syspath_prepend)
    source = place.folder / "workloads" / "wheel"
    source.mkdir(parents=True)
    (source / "install").write_text(
        f'#!/bin/sh\nset -eu\nmkdir -p "$1"\n'
        f'[ -e "{place.folder}/go" ] || sh -c "sleep 300 & echo begun >&2; wait"\n'
        f'echo done >"$1/{INSTALLED}"\n'
    )
    (source / "install").chmod(0o755)
    monkeypatch.setattr(installing, "payload_source", lambda name: place.folder / "workloads" / name)
    for name in ("SPIN", "NAP"):
        needing = replace(getattr(sample_benchmarks, name), recipe=Recipe(payload="wheel"))
        monkeypatch.setattr(sample_benchmarks, name, needing)
    return place.folder / "go"


def test_an_interrupted_installation_ends_what_it_began(
    wheel: Path, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    begin_s = time.monotonic()
    # It waits for the end of the installation.
    code, is_reached = invoke_interrupted("subprocess:wait", ["install", "spin"])
    assert is_reached
    assert time.monotonic() - begin_s < SOON_S
    assert code == 4
    place.check(code, capfd.readouterr().err, "payload")
    assert installation.load("spin") is None


def test_an_interrupted_smoke_run_begins_no_further_installation(
    wheel: Path, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel.touch()
    code, is_reached = invoke_interrupted("tests.bench.sample_benchmarks:measure", ["install", "spin", "nap"])
    assert is_reached
    assert code == 4
    place.check(code, capfd.readouterr().err, "smoke run")
    assert installation.load_all() == []


def test_an_interrupted_removal_leaves_no_installation_that_looks_whole(
    wheel: Path, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    wheel.touch()
    assert invoke(["install", "spin", "--no-smoke"]) == 0
    for number in range(20):
        (payload_dir("wheel") / f"spoke-{number}").write_text("wood")
    # The first file is gone, and the others are not.
    code, is_reached = invoke_interrupted("shutil:unlink", ["uninstall", "spin"], call=2)
    assert is_reached
    place.check(code, capfd.readouterr().err, "removal")
    assert code == 4
    assert list(payload_dir("wheel").glob("spoke-*"))
    assert missing(Recipe(payload="wheel")) == ["the files of wheel"]
    assert invoke(["uninstall", "spin"]) == 0
    assert not payload_dir("wheel").exists()


def test_an_interrupt_while_stacks_are_sampled_keeps_the_curve(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    # Two trials, and a third time under the profiler, which is not waited for. The process is looked at every
    # 0.2 s: twenty looks are more than two trials take, whoever else runs here.
    script = "echo >>count; [ $(wc -l <count) -gt 2 ] && sleep 300; echo 5"
    words = ["scale", "--steps", "1", "--blocks", "2", "--metric", r"rate=(\d+)", "--", "sh", "-c", script]
    begin_s = time.monotonic()
    code, is_reached = invoke_interrupted("steelyard.experiment.workload:select", words, call=20)
    assert is_reached
    assert time.monotonic() - begin_s < SOON_S
    said = capfd.readouterr()
    place.check(code, said.err, "profile")
    assert "stopped by SIGINT" in said.out
    (record,) = place.folder.glob("runs/*/experiment.json")
    assert json.loads(record.read_text())["status"] == "complete"
