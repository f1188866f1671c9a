"""The six scenarios, on every recorded machine and on generated ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import EnvironmentLacksError, UsageError, parse_cpu_list
from steelyard.experiment.numa.design import arms_of, clusters, pairs_of
from steelyard.experiment.numa.scenarios import Scenarios, scenarios_of
from steelyard.machine.layout import Layout
from tests.bench.placement.layouts import layout_of, renumbered
from tests.bench.placement.test_invariants import MACHINES, layout
from tests.calling import call
from tests.cli.test_documents import hold
from tests.machine.trees import ARCHIVES, RECORDED

WITHOUT = {
    # One node with CPUs and memory, or none.
    *("five caches", "two CPUs", "one core", "one CPU", "a CPU a node"),
    *("16amd64-4n4c-cgroup-distance-merge", "20em64t-hybrid-1p6c2t+2ca4co1t", "8em64t-2s2ca2c"),
    "offline-cpu0-node0",
}


def listed(cpus: str | None) -> set[int]:
    return set(parse_cpu_list(cpus or "") or ())


def check(machine: Layout, made: Scenarios) -> None:
    """Assert everything that scenarios must have."""
    core_of = {cpu: core for core in machine.cores for cpu in core.cpus}
    assert [each.scenario for each in made.scenarios] == [1, 2, 3, 4, 5, 6]
    assert {made.first_node, made.second_node} <= set(machine.memory_nodes)
    assert made.distance > 10
    for each in made.scenarios:
        x, y = listed(each.cpus), listed(each.co_runner_cpus)
        assert x <= set(machine.cpus)
        assert y <= set(machine.cpus)
        # No core belongs to both, and every core gives one CPU.
        cores = [core_of[cpu].cpus for cpu in (*x, *y)]
        assert len(set(cores)) == len(cores)
        assert len(x) == made.cores
        assert {core_of[cpu].node for cpu in x | y} <= {made.first_node, made.second_node}
        local = [core_of[cpu].node == each.memory_node for cpu in x]
        assert sum(local) / len(local) == each.local_ratio == {1: 1.0, 2: 0.5, 3: 0.0}[each.base]
        assert bool(y) == (each.scenario > 3)
        # X is where it is in the scenario without a co-runner.
        assert each.cpus == made.numbered(each.base).cpus
    beside = [listed(each.co_runner_cpus) for each in made.scenarios[3:]]
    assert len({len(cpus) for cpus in beside}) == 1
    assert len(beside[0]) >= made.cores
    scores = [each.score for each in made.scenarios[:3]]
    if None not in scores:
        assert scores[0] == 1.0
        assert scores == sorted(scores, reverse=True)
        assert scores[1] == pytest.approx((scores[0] + scores[2]) / 2)


@pytest.mark.parametrize("name", [*MACHINES, *ARCHIVES])
def test_scenarios_of_a_machine(name: str) -> None:
    machine = layout(name)
    if name in WITHOUT:
        with pytest.raises(EnvironmentLacksError, match="a NUMA experiment needs two nodes"):
            scenarios_of(machine)
        return
    made = scenarios_of(machine)
    check(machine, made)
    check(machine, scenarios_of(machine, cores=2))
    check(machine, scenarios_of(machine, nodes=[made.second_node, made.first_node]))


@pytest.mark.parametrize("seed", range(5))
def test_numbers_of_cpus_do_not_change_what_scenarios_are(seed: int) -> None:
    machine = renumbered(layout_of(packages=2, nodes=2, caches=2, cores=4, threads=2), seed)
    made = scenarios_of(machine)
    check(machine, made)
    assert [each.caches for each in made.scenarios] == [2, 2, 2] * 2
    assert made.distance == 32
    # With the cores of one cache, spreading doubles the caches.
    fewer = scenarios_of(machine, cores=4)
    assert [each.caches for each in fewer.scenarios] == [1, 2, 1] * 2
    assert not fewer.notes


def test_every_thread_takes_whole_cores() -> None:
    machine = layout_of(packages=2, cores=4, threads=2)
    made = scenarios_of(machine, every_thread=True)
    assert made.numbered(1).cpus == "0-3,8-11"
    assert made.numbered(5).cpus == "0-1,4-5,8-9,12-13"
    assert made.numbered(5).co_runner_cpus == "2-3,6-7,10-11,14-15"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"nodes": [0]}, "--nodes takes two different nodes"),
        ({"nodes": [1, 1]}, "--nodes takes two different nodes"),
        ({"nodes": [0, 9]}, "node 9 has no memory or fewer than 2 cores"),
        ({"cores": 3}, "--cores 3: scenario 2 has X on half of them on either node: an even number, 2 to 4"),
        ({"cores": 6}, "--cores 6"),
        ({"cores": 0}, "--cores 0"),
    ],
)
def test_what_a_machine_has_not_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        scenarios_of(layout_of(packages=2, cores=4), **more)


def test_arms_are_alone_then_beside_each_co_runner() -> None:
    made = scenarios_of(layout_of(packages=2, cores=4))
    arms = arms_of(made, ["redis", "tao"], settings={}, command=["true"])
    names = ["1", "2", "3", "4 redis", "5 redis", "6 redis", "4 tao", "5 tao", "6 tao"]
    assert [arm.name for arm in arms] == names
    assert [cluster.title for cluster in clusters(arms)] == ["solo", "beside redis", "beside tao"]
    assert pairs_of(arms)[:4] == [("1", "2"), ("1", "3"), ("2", "3"), ("4 redis", "5 redis")]
    assert [arm.name for arm in arms_of(made, ["tao"], settings={}, command=[])][3:] == ["4", "5", "6"]
    with pytest.raises(UsageError, match="twice"):
        arms_of(made, ["tao", "tao"], settings={}, command=[])


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return call("numa", "experiment", *words)


@pytest.mark.skipif("32intel64-2p8co2t+8ve" not in ARCHIVES, reason=f"no recorded machines in {RECORDED}")
def test_the_plan_of_a_recorded_machine() -> None:
    root = str(RECORDED / "32intel64-2p8co2t+8ve.tar.bz2")
    done = run("--plan", "--root", root, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    hold(document)
    assert (document["first_node"], document["second_node"], document["cores"]) == (0, 1, 8)
    assert [len(parse_cpu_list(each["cpus"]) or ()) for each in document["scenarios"]] == [8] * 6
    shown = run("--plan", "--root", root, "--with", "redis", "--", "app", "--port", "1")
    assert "5 steelyard-exec --cpus 0-3,8-11 --memory-nodes 0 -- app --port 1" in shown.stdout
    assert "beside steelyard-exec --cpus 4-7,12-15 -- redis" in shown.stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--root", "/", "--", "true"], 2, "--root is for --plan"),
        (["--from-fleet", "store", "--", "true"], 2, "--from-fleet and --job belong together"),
        (["--job", "x", "--", "true"], 2, "--from-fleet and --job belong together"),
        ([], 2, "a NUMA experiment needs a benchmark or a command"),
        (["--nodes", "a", "--", "true"], 2, "--nodes 'a' is no list of nodes"),
        (["--from", "nowhere.csv"], 2, "nowhere.csv: No such file or directory"),
        (["--from", "nowhere.csv", "--", "true"], 2, "--from takes its scenarios from the file"),
        (["--resume", "nowhere"], 2, "nowhere holds no experiment"),
    ],
)
def test_what_is_no_numa_experiment_is_refused(words: list[str], code: int, message: str) -> None:
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_machine_with_one_node_says_so_in_one_line(tmp_path: Path) -> None:
    if len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1:
        pytest.skip("this machine has several nodes")
    done = run("--out", str(tmp_path / "runs"), "--", "true")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "one NUMA node of this machine has both" in done.stderr
    assert not (tmp_path / "runs").exists()
