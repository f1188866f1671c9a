"""Trials with a placement, on this machine: what is proven, what is refused, co-runners that come and go.

Nodes are this machine's: where it has one, its CPUs differ and its memory does not. Two nodes are emulated in
``executables/numa_machine/test_numa_scenarios.py``.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.bench.clock import SystemClock
from steelyard.bench.progress import Silence
from steelyard.bench.signals import Interrupts
from steelyard.experiment.engine import Engine
from steelyard.experiment.numa.design import pairs_of
from steelyard.experiment.numa.read_back import Watch, own_bytes
from steelyard.experiment.numa.workload import ScenarioTrials
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.record import record_of
from steelyard.experiment.workload import Measured
from steelyard.machine.tree import Tree
from steelyard.records.experiment import ExperimentArm, ExperimentPlacement
from tests.calling import call
from tests.cli.test_documents import hold
from tests.machine.trees import write_tree

CPUS = sorted(os.sched_getaffinity(0))
MIB = 1 << 20
WORK = "import time;x=bytearray(20<<20);t=time.process_time()\nwhile time.process_time()-t<0.1:pass"

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/numa_maps").exists(), reason="this kernel tells no nodes of pages"
)


def arm(
    scenario: int, *command: str, cpu: int = CPUS[0], nodes: str = "0", co_runner: str | None = None
) -> ExperimentArm:
    place = ExperimentPlacement(
        scenario=scenario,
        cpus=str(cpu),
        memory_nodes=nodes,
        local_ratio=1.0,
        co_runner=co_runner,
        co_runner_cpus=None if co_runner is None else str(CPUS[-1]),
    )
    return ExperimentArm(name=str(scenario), settings={}, command=list(command), placement=place)


def trial(folder: Path, one: ExperimentArm, **more: object) -> Measured:
    asked = replace(ExperimentRequest(), **more)  # type: ignore[arg-type]
    record = record_of(asked, None, "scenario", [one])
    return ScenarioTrials(record, folder, SystemClock(), Interrupts()).measure(one, 0)


def test_threads_and_pages_of_a_command_are_read_back(tmp_path: Path) -> None:
    # It stays, so that a busy machine looks at it once all of its pages are there.
    measured = trial(tmp_path, arm(1, sys.executable, "-c", f"{WORK}\ntime.sleep(2)"))
    assert measured.reason is None
    assert measured.value is not None
    assert measured.read_back is not None
    assert measured.read_back.cpus == str(CPUS[0])
    assert measured.read_back.bytes_per_node["0"] >= 20 * MIB
    assert measured.co_runner_read_back is None


def test_a_co_runner_is_there_all_the_time_and_gone_afterwards(tmp_path: Path) -> None:
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    # It ends after a moment, and is begun again.
    marker = f"0.0{os.getpid()}"
    measured = trial(tmp_path, arm(4, sys.executable, "-c", WORK, co_runner=f"sleep {marker}"))
    assert measured.reason is None
    assert measured.co_runner_read_back is not None
    assert measured.co_runner_read_back.cpus == str(CPUS[-1])
    (iterations,) = tmp_path.glob("co-runs/*/iterations.txt")
    assert len(iterations.read_text().splitlines()) > 5
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [line for line in lines if marker.encode() in line]


def test_a_command_that_fails_says_so(tmp_path: Path) -> None:
    measured = trial(tmp_path, arm(1, "sh", "-c", "sleep 0.1; echo no licence >&2; exit 3"))
    assert (measured.value, measured.reason) == (None, "sh exited with code 3: no licence")


def test_without_proof_there_is_no_value(tmp_path: Path) -> None:
    # A machine whose /proc is empty: nothing can be read back, however long the command lasts.
    one = arm(1, "sleep", "0.1")
    record = record_of(ExperimentRequest(), None, "scenario", [one])
    blind = ScenarioTrials(record, tmp_path, SystemClock(), Interrupts(), Tree(write_tree(tmp_path, {})))
    measured = blind.measure(one, 0)
    reason = "it ended, or hid its numa_maps, before its threads and pages could be read back"
    assert (measured.value, measured.read_back, measured.reason) == (None, None, reason)


def test_a_program_that_moves_its_threads_elsewhere_is_found_out(tmp_path: Path) -> None:
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    move = f"import os,time;os.sched_setaffinity(0,{CPUS[:2]});time.sleep(0.3)"
    measured = trial(tmp_path, arm(1, sys.executable, "-c", move))
    assert measured.value is None
    assert "may run on CPUs" in (measured.reason or "")
    assert f"not on {CPUS[0]} alone" in (measured.reason or "")


def test_a_co_runner_that_fails_leaves_no_value(tmp_path: Path) -> None:
    measured = trial(tmp_path, arm(4, "sleep", "0.2", co_runner="false"))
    assert measured.value is None
    assert "co-runner false exited with code 1" in (measured.reason or "")


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    measured = trial(tmp_path, arm(1, "sleep", "60"), timeout="300ms")
    assert (measured.value, measured.reason) == (None, "took longer than 0.3 s")


@pytest.mark.timeout(400)
def test_a_benchmark_runs_in_its_place_beside_a_benchmark(tmp_path: Path) -> None:
    if len(CPUS) < 2:
        pytest.skip("needs two CPUs")
    settings = {"measure": "1", "warmup_min": "0.5", "warmup_max": "0.5", "connections": "2"}
    settings |= {"memory": "16MiB", "rate": "1000"}
    co_runner = "tao:" + ",".join(f"{name}={value}" for name, value in settings.items())
    one = arm(4, co_runner=co_runner).model_copy(update={"settings": settings})
    record = record_of(ExperimentRequest(tier="smoke"), "tao", "scenario", [one])
    measured = ScenarioTrials(record, tmp_path, SystemClock(), Interrupts()).measure(one, 0)
    run = json.loads((tmp_path / "runs" / str(measured.run_id) / "run.json").read_text())
    assert (run["cpus"]["server"], run["cpus"]["load"]) == (str(CPUS[0]), str(CPUS[0]))
    assert run["parameters"]["memory_binding"]["value"] == "none"
    # Servers, load and probe: whatever the run is worth on one CPU, all of them were in their place.
    assert measured.read_back is not None
    assert measured.read_back.cpus == str(CPUS[0])
    assert measured.read_back.threads > 5
    assert measured.co_runner_read_back is not None
    assert measured.co_runner_read_back.cpus == str(CPUS[-1])
    assert measured.co_runner_read_back.threads > 5


def test_an_experiment_is_shown_by_both_commands(tmp_path: Path) -> None:
    # Scenarios of this machine's CPUs: the second one works for longer.
    longer = WORK.replace("0.1", "0.4")
    arms = [
        arm(number, sys.executable, "-c", longer if number == 2 else WORK, cpu=CPUS[0])
        for number in (1, 2, 3)
    ]
    asked = ExperimentRequest(metric="cpu_s", blocks=5, least_effect="30%", to_the_end=True)
    record = record_of(asked, None, "scenario", arms, pairs_of(arms))
    trials = ScenarioTrials(record, tmp_path, SystemClock(), Interrupts())
    engine = Engine(
        tmp_path, record, trials, clock=SystemClock(), progress=Silence(), interrupts=Interrupts()
    )
    made = engine.run()
    assert len(made.trials) == 15
    assert all(one.read_back is not None for one in made.trials)
    for words in (["numa", "experiment"], ["experiment"]):
        done = call(*words, str(tmp_path), "--json")
        document = json.loads(done.stdout)
        hold(document)
        assert document["kind"] == "numa_experiment"
        (cluster,) = document["clusters"]
        (first,) = [pair for pair in cluster["pairs"] if (pair["base"], pair["arm"]) == ("1", "2")]
        assert first["outcome"] == "worse"
        assert first["high"] < 1
    best = cluster["best"]
    if best is not None:
        assert best["command"].startswith(f"steelyard-exec --cpus {CPUS[0]} --memory-nodes 0 -- ")
    shown = call("numa", "experiment", str(tmp_path))
    assert "1 threads, pages 100% on node 0" in " ".join(shown.stdout.split())


def test_pages_on_another_node_are_found_out(tmp_path: Path) -> None:
    status = "Cpus_allowed_list:\t0\n"
    stat = "7 (a (b) c) R " + " ".join(["0"] * 35) + " 0 0 0\n"
    pages = (
        "7f00 bind:0 anon=90 dirty=90 N0=80 N1=10 kernelpagesize_kB=4\n"
        "7f01 default file=/lib/libc.so.6 mapped=900 N1=900 kernelpagesize_kB=4\n"
        "7f02 bind:0 file=/memfd:x dirty=5 N0=5 kernelpagesize_kB=2048\n"
    )
    files = {"proc/7/numa_maps": pages, "proc/7/task/7/status": status, "proc/7/task/7/stat": stat}
    tree = Tree(write_tree(tmp_path, files))
    assert own_bytes(pages) == {0: 80 * 4096 + 5 * 2 * MIB, 1: 10 * 4096}
    watch = Watch([0], [0])
    watch.look(tree, [7, 8])
    assert (watch.looks, watch.threads, watch.objection()) == (1, 1, None)
    other = Watch([0], [1])
    other.look(tree, [7])
    assert other.objection() == "100% of its pages are on other nodes than 1"
    moved = Watch([1], [0])
    moved.look(tree, [7])
    assert moved.objection() == "thread 7 (ended) may run on CPUs 0, not on 1 alone"
