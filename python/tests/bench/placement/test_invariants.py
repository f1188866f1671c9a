"""What holds of every placement, on every recorded machine and on generated ones."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bench.placement import Needs, Placement, place, within_quota
from steelyard.machine.layout import Core, Layout, read_layout
from steelyard.machine.tree import Tree
from tests.machine.trees import ARCHIVES, recorded

from .layouts import GIB, layout_of, renumbered, without

TAO, FEED, TAX = Needs(0.5, 72), Needs(0.02, 100), Needs(0.0)
NEEDS = {"tao": TAO, "feed": FEED, "tax": TAX}

MACHINES = {
    "2x44xSMT2": layout_of(packages=2, cores=44, threads=2),
    "2x96 NPS4": layout_of(packages=2, nodes=4, caches=3, cores=8, threads=2),
    "2x32 SNC2": layout_of(packages=2, nodes=2, cores=16, threads=2),
    "384 CPUs": layout_of(packages=2, caches=12, cores=8, threads=2),
    "a CPU a node": layout_of(packages=4, cores=1),
    "odd": layout_of(packages=2, cores=17, threads=2),
    "five caches": layout_of(caches=5, cores=30, threads=2),
    "two CPUs": layout_of(cores=2),
    "one core": layout_of(cores=1, threads=2),
    "one CPU": layout_of(cores=1),
    "node 1 offline": without(
        layout_of(packages=3, cores=8, threads=2), set(range(8, 16)) | set(range(32, 40))
    ),
}


@functools.cache
def layout(name: str) -> Layout:
    return read_layout(Tree(recorded(name))) if name in ARCHIVES else MACHINES[name]


def check(machine: Layout, needs: Needs, placement: Placement) -> None:
    """Assert everything that a placement on ``machine`` must have when nothing was asked for."""
    cores, _ = within_quota(machine)
    usable = sorted(cpu for core in cores for cpu in core.cpus)
    server, load = set(placement.server), set(placement.load)
    assert sorted(server | load) == usable
    assert server
    assert load or not needs.load_ratio
    if len(usable) > 1:
        assert not placement.shared
    if len(cores) > 1:
        assert not [core for core in cores if set(core.cpus) & server and set(core.cpus) & load]
    if needs.cpus_per_instance is None:
        assert not placement.instances
        return
    for side, whole in (("server", placement.server), ("load", placement.load)):
        parts = [cpu for one in placement.instances for cpu in getattr(one, side)]
        # With the number left to choose, no two instances share a CPU.
        assert sorted(parts) == list(whole)
    check_nodes(machine, cores, needs, placement)
    check_caches(cores, placement)


def check_nodes(machine: Layout, cores: list[Core], needs: Needs, placement: Placement) -> None:
    node_of = {cpu: core.node for core in cores for cpu in core.cpus}
    cores_in = Counter(core.node for core in cores)
    widest = max(len(core.cpus) for core in cores)
    for one in placement.instances:
        assert len(one.server) <= (needs.cpus_per_instance or 0) + widest
        if min(cores_in.values()) > 1:
            assert len({node_of[cpu] for cpu in (*one.server, *one.load)}) == 1
        nodes = {node_of[cpu] for cpu in one.server} - {None}
        if (
            nodes <= set(machine.memory_nodes)
            and len(machine.memory_nodes) > 1
            and min(cores_in.values()) > 1
        ):
            assert set(one.memory_nodes) == nodes
        assert set(one.memory_nodes) <= set(machine.memory_nodes)
    size, loaded = Counter(node_of.values()), Counter(node_of[cpu] for cpu in placement.load)
    homes = Counter(node_of[one.server[0]] for one in placement.instances)
    if min(cores_in.values()) > 1:
        for node, cpus in size.items():
            # Each instance rounds its own part to whole cores, and has one at least.
            assert abs(loaded[node] - cpus * needs.load_ratio) <= homes[node] * widest, node


def check_caches(cores: list[Core], placement: Placement) -> None:
    if len({core.speed for core in cores}) > 1:
        return
    owner_of = {cpu: one.number for one in placement.instances for cpu in (*one.server, *one.load)}
    owners: dict[tuple[int | None, int], set[int]] = {}
    for core in cores:
        owners.setdefault((core.node, core.cache), set()).update(owner_of[cpu] for cpu in core.cpus)
    caches_in = Counter(node for node, _ in owners)
    node_of = {cpu: core.node for core in cores for cpu in core.cpus}
    homes = Counter(node_of[one.server[0]] for one in placement.instances)
    for (node, _), numbers in owners.items():
        # Where a node has a cache for each instance, no two instances share one.
        if caches_in[node] >= homes[node]:
            assert len(numbers) == 1


def shape(machine: Layout, placement: Placement) -> Counter[tuple[object, ...]]:
    """Return what does not depend on the numbers of CPUs: nodes and kinds of cores by instance."""
    core_of = {cpu: core for core in machine.cores for cpu in core.cpus}

    def kinds(cpus: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        return tuple(sorted((len(core_of[cpu].cpus), core_of[cpu].speed) for cpu in cpus))

    sides = [(one.nodes, kinds(one.server), kinds(one.load), one.memory_nodes) for one in placement.instances]
    return Counter([*sides, (kinds(placement.server), kinds(placement.load))])


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("name", [*ARCHIVES, *MACHINES])
def test_invariants_of_known_machines(name: str, needs: Needs) -> None:
    machine = layout(name)
    check(machine, needs, place(machine, needs))


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS)
@pytest.mark.parametrize("name", [*ARCHIVES, *MACHINES])
def test_shape_is_stable_when_cpus_are_renumbered(name: str, needs: Needs) -> None:
    machine = layout(name)
    wanted = shape(machine, place(machine, needs))
    for seed in range(3):
        other = renumbered(machine, seed)
        check(other, needs, place(other, needs))
        assert shape(other, place(other, needs)) == wanted


machines = st.builds(
    layout_of,
    packages=st.integers(1, 4),
    nodes=st.integers(1, 3),
    caches=st.integers(1, 4),
    cores=st.integers(1, 9),
    threads=st.sampled_from([1, 2, 4]),
    memory_bytes=st.sampled_from([None, 0, GIB]),
)


@settings(max_examples=60, deadline=None)
@given(machines, st.sampled_from([TAO, FEED, TAX]), st.data())
def test_invariants_of_generated_machines(machine: Layout, needs: Needs, data: st.DataObject) -> None:
    cpus = list(machine.cpus)
    gone = data.draw(st.sets(st.sampled_from(cpus), max_size=len(cpus) - 1))
    quota = data.draw(st.none() | st.floats(0.1, 100))
    machine = replace(without(machine, gone), quota_cpus=quota)
    placement = place(machine, needs)
    check(machine, needs, placement)
    other = renumbered(machine, data.draw(st.integers(0, 99)))
    check(other, needs, place(other, needs))


@settings(max_examples=40, deadline=None)
@given(machines, st.integers(1, 20))
def test_instances_that_were_asked_for_are_made(machine: Layout, count: int) -> None:
    placement = place(machine, replace(TAO, instances=count))
    assert [one.number for one in placement.instances] == list(range(1, count + 1))
    assert all(one.server and one.load for one in placement.instances)
    used = [cpu for one in placement.instances for cpu in one.server]
    assert set(used) == set(placement.server)
    core_of = {cpu: number for number, core in enumerate(machine.cores) for cpu in core.cpus}
    if len(machine.cores) >= 2 * count * len(machine.nodes):
        # Room enough: no two instances share a core.
        owners = [{core_of[cpu] for cpu in (*one.server, *one.load)} for one in placement.instances]
        assert sum(map(len, owners)) == len(set().union(*owners))


def test_memory_is_not_bound_to_a_node_that_has_little_of_it() -> None:
    machine = layout_of(packages=2)
    sizes = (2 * GIB, 14 * GIB)
    nodes = tuple(replace(node, memory_bytes=sizes[node.id]) for node in machine.nodes)
    placed = place(replace(machine, nodes=nodes), Needs(0.25, cpus_per_instance=4))
    poor = [one for one in placed.instances if one.nodes == (0,)]
    assert poor
    # All nodes together are no binding.
    assert {one.memory_nodes for one in poor} == {()}
    assert any("node 0 has little of the machine's memory" in note for note in placed.notes)
    rich = [one.memory_nodes for one in placed.instances if one.nodes == (1,)]
    assert set(rich) == {(1,)}
    even = place(machine, Needs(0.25, cpus_per_instance=4))
    assert {one.memory_nodes for one in even.instances} == {(0,), (1,)}
