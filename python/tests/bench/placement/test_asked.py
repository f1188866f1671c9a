"""Placements of particular machines, and what was asked for."""

from dataclasses import replace

import pytest

from steelyard._base import UsageError, format_cpu_list
from steelyard.bench.placement import Needs, place, without_binding
from steelyard.machine.layout import Core, Layout, read_layout
from steelyard.machine.tree import Tree
from tests.machine.trees import recorded

from .layouts import GIB, layout_of

TAO, FEED = Needs(0.5, 72), Needs(0.02, 100)
TWO_SOCKETS = layout_of(packages=2, cores=44, threads=2)


def lists(placement):
    return [(format_cpu_list(one.server), format_cpu_list(one.load)) for one in placement.instances]


def test_two_sockets_of_44_cores_get_a_server_each_with_whole_cores():
    placement = place(TWO_SOCKETS, TAO)
    assert lists(placement) == [("0-21,88-109", "22-43,110-131"), ("44-65,132-153", "66-87,154-175")]
    assert [one.memory_nodes for one in placement.instances] == [(0,), (1,)]
    assert placement.memory_bytes_min == 64 * GIB


def test_a_service_that_costs_the_load_little_leaves_it_a_core_of_each_node():
    assert lists(place(TWO_SOCKETS, FEED)) == [("0-42,88-130", "43,131"), ("44-86,132-174", "87,175")]


def test_a_large_node_is_split_between_last_level_caches():
    placement = place(layout_of(caches=12, cores=8, threads=2), TAO)
    assert lists(placement) == [
        ("0-7,16-23,32-39,96-103,112-119,128-135", "48-55,64-71,80-87,144-151,160-167,176-183"),
        ("8-15,24-31,40-47,104-111,120-127,136-143", "56-63,72-79,88-95,152-159,168-175,184-191"),
    ]


def test_two_cpus_are_one_for_each_side_and_one_is_shared():
    assert lists(place(layout_of(cores=2), TAO)) == [("0", "1")]
    assert lists(place(layout_of(cores=1, threads=2), TAO)) == [("0", "1")]
    alone = place(layout_of(cores=1), TAO)
    assert alone.shared
    assert "servers and load share every CPU" in alone.notes


def test_a_quota_leaves_cpus_idle_and_says_so():
    placement = place(replace(TWO_SOCKETS, quota_cpus=4.0), TAO)
    assert lists(placement) == [("0,88", "1,89")]
    assert placement.notes == (
        "a quota of 4 CPUs holds for this control group: placed on 4 of 176 usable CPUs",
    )
    # Both sides need a CPU; with less than one there is one to share.
    assert len(place(replace(layout_of(cores=8), quota_cpus=1.5), TAO).server) == 1
    assert not place(replace(layout_of(cores=8), quota_cpus=1.5), TAO).shared
    assert place(replace(layout_of(cores=8), quota_cpus=0.5), TAO).shared


def test_slower_cores_go_to_the_load_first():
    placement = place(read_layout(Tree(recorded("20em64t-hybrid-1p6c2t+2ca4co1t"))), TAO)
    # Six fast cores of two threads, eight slow ones: a fast one makes up the half.
    assert lists(placement) == [("0-9", "10-19")]
    assert any("slower ones first" in note for note in placement.notes)


def test_nodes_without_memory_take_it_from_the_nearest():
    machine = replace(layout_of(packages=2, nodes=2, cores=8), memory_nodes=(0, 2, 3))
    placement = place(machine, TAO)
    assert [one.memory_nodes for one in placement.instances] == [(0,), (0,), (2,), (3,)]
    assert placement.instances[0].memory_bytes == 32 * GIB
    assert any("node 1 has CPUs and no memory" in note for note in placement.notes)


def test_fewer_instances_than_nodes_span_near_ones():
    placement = place(layout_of(packages=2, nodes=2, cores=8), replace(TAO, instances=2))
    assert [one.nodes for one in placement.instances] == [(0, 1), (2, 3)]
    assert [one.memory_nodes for one in placement.instances] == [(0, 1), (2, 3)]


def test_memory_is_not_bound_where_that_was_asked_or_refused():
    asked = place(TWO_SOCKETS, replace(TAO, binds_memory=False))
    assert {one.memory_nodes for one in asked.instances} == {()}
    assert "memory is not bound to nodes: memory_binding=none" in asked.notes
    refused = without_binding(place(TWO_SOCKETS, TAO), "Operation not permitted")
    assert refused.memory_bytes_min is None
    assert refused.notes == ("memory is not bound to nodes: Operation not permitted",)


# Sides that were asked for


def test_a_side_that_was_asked_for_leaves_the_other_cores_to_the_other():
    three = layout_of(cores=3)
    assert place(three, TAO, server=[2]).load == (0, 1)
    assert place(three, TAO, load=[0]).server == (1, 2)
    assert place(layout_of(cores=2), TAO, server=[0, 1]).shared
    # The other thread of the load's core stays idle.
    assert place(layout_of(cores=3, threads=2), TAO, load=[0]).server == (1, 2, 4, 5)
    assert place(layout_of(cores=1, threads=2), TAO, load=[0]).server == (1,)


def test_asked_cpus_are_dealt_to_instances_by_node():
    placement = place(TWO_SOCKETS, TAO, load=[*range(40, 44), *range(84, 88)])
    # 80 CPUs are left in each node: two servers of 40.
    assert lists(placement) == [
        ("0-19,88-107", "40-41"),
        ("20-39,108-127", "42-43"),
        ("44-63,132-151", "84-85"),
        ("64-83,152-171", "86-87"),
    ]
    assert placement.load == (*range(40, 44), *range(84, 88))
    # A load in another node than the servers serves all of them.
    apart = place(TWO_SOCKETS, TAO, server=range(44), load=range(44, 88))
    assert {one.nodes for one in apart.instances} == {(0,)}
    assert sorted(cpu for one in apart.instances for cpu in one.load) == list(range(44, 88))


def test_cores_that_asked_cpus_share_are_said():
    placement = place(TWO_SOCKETS, TAO, server=[0, 1], load=[88])
    assert "servers and load share the cores of CPUs 0,88" in placement.notes


def test_cpus_that_are_not_there_are_refused():
    with pytest.raises(UsageError, match="CPU 7 is not usable"):
        place(layout_of(cores=2), TAO, server=[7])


def test_without_a_load_the_servers_have_every_cpu_or_those_that_were_asked_for():
    machine = layout_of(cores=2, threads=2)
    assert place(machine, Needs(0.0)).server == (0, 1, 2, 3)
    assert place(machine, Needs(0.0), server=[3, 1], load=[0]).server == (1, 3)
    assert place(machine, Needs(0.0)).load == ()


def test_cpus_without_topology_are_cores_of_one_place():
    machine = Layout(cores=tuple(Core((cpu,)) for cpu in range(8)))
    placement = place(machine, TAO)
    assert lists(placement) == [("0-3", "4-7")]
    assert placement.instances[0].memory_nodes == ()
