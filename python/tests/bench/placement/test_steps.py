"""The CPUs of a scaling curve's steps, on machines that are not here."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from steelyard._base import UsageError
from steelyard.bench.placement.steps import cpu_steps, topology_of_layout
from steelyard.machine.layout import read_layout
from steelyard.machine.tree import Tree
from steelyard.stats.scaling.choice import Topology
from tests.bench.placement.layouts import layout_of
from tests.machine.trees import ARCHIVES, recorded


def test_400_cpus_of_two_sockets_fill_cores_node_by_node_and_then_siblings() -> None:
    machine = layout_of(packages=2, caches=10, cores=10, threads=2)
    steps, notes = cpu_steps(machine)
    assert not notes
    assert [len(step.cpus) for step in steps] == [1, 2, 4, 8, 16, 32, 64, 100, 128, 200, 256, 400]
    by_count = {len(step.cpus): step for step in steps}
    # A first node's cores, then the other's, then the siblings of the first's.
    assert by_count[100].cpus == tuple(range(100))
    assert by_count[128].cpus == tuple(range(128))
    assert by_count[256].cpus == tuple(range(256))
    assert [step.nodes for step in steps] == [1] * 8 + [2] * 4
    assert [step.shares_cores for step in steps] == [False] * 10 + [True] * 2
    assert topology_of_layout(machine) == Topology(400, 200, 2, (100,))


def test_a_quota_bounds_the_steps_and_is_said() -> None:
    machine = replace(layout_of(packages=2, cores=32, threads=2), quota_cpus=6.5)
    steps, notes = cpu_steps(machine)
    assert [len(step.cpus) for step in steps] == [1, 2, 3, 4, 6]
    assert steps[-1].nodes == 1
    assert any("a quota of 6.5 CPUs" in note for note in notes)
    with pytest.raises(UsageError, match="1 to 6 CPUs are usable here"):
        cpu_steps(machine, [1, 8])


@pytest.mark.parametrize("asked", [[0], [-1, 2], [5]])
def test_numbers_of_cpus_that_are_not_there_are_refused(asked: list[int]) -> None:
    with pytest.raises(UsageError, match="--steps"):
        cpu_steps(layout_of(cores=4), asked)


def test_a_machine_of_one_cpu_has_one_step() -> None:
    steps, _ = cpu_steps(layout_of(cores=1))
    assert [step.cpus for step in steps] == [(0,)]


def test_offline_cpus_have_no_place() -> None:
    machine = read_layout(Tree(recorded("offline-cpu0-node0")))
    steps, notes = cpu_steps(machine)
    assert not set(steps[-1].cpus) & set(machine.offline)
    assert any("are offline" in note for note in notes)


@pytest.mark.parametrize("name", ARCHIVES)
def test_steps_of_recorded_machines_hold_those_before_them(name: str) -> None:
    machine = read_layout(Tree(recorded(name)))
    steps, _ = cpu_steps(machine)
    assert steps[-1].cpus == machine.cpus
    for few, many in itertools.pairwise(steps):
        assert set(few.cpus) < set(many.cpus)
    # No core has two of its threads before every core has one.
    for step in steps:
        used = [core for core in machine.cores if set(core.cpus) & set(step.cpus)]
        assert not step.shares_cores or len(used) == len(machine.cores)
