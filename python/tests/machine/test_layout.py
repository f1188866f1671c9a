"""Layouts of recorded and of written trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard._base import format_cpu_list
from steelyard.machine.layout import describe_limits, read_layout
from steelyard.machine.snapshot import snapshot
from steelyard.machine.topology import numa_nodes
from steelyard.machine.tree import Tree

from .trees import recorded, write_tree

_CPU, _NODE = "sys/devices/system/cpu", "sys/devices/system/node"


def tree_of(tmp_path: Path, **more: str) -> Tree:
    """Write two packages of two cores of two threads, each package a node, with the files of ``more``."""
    files = {f"{_CPU}/online": "0-7", f"{_CPU}/present": "0-7"}
    for cpu in range(8):
        core = cpu % 4
        files |= {
            f"{_CPU}/cpu{cpu}/topology/core_cpus_list": f"{core},{core + 4}",
            f"{_CPU}/cpu{cpu}/topology/physical_package_id": str(core // 2),
            f"{_CPU}/cpu{cpu}/cache/index3/level": "3",
            f"{_CPU}/cpu{cpu}/cache/index3/type": "Unified",
            f"{_CPU}/cpu{cpu}/cache/index3/shared_cpu_list": "0-1,4-5" if core < 2 else "2-3,6-7",
        }
    for node in range(2):
        files[f"{_NODE}/node{node}/cpulist"] = ("0-1,4-5", "2-3,6-7")[node]
        files[f"{_NODE}/node{node}/meminfo"] = f"Node {node} MemTotal: 1048576 kB"
        files[f"{_NODE}/node{node}/distance"] = ("10 21", "21 10")[node]
    return Tree(write_tree(tmp_path, files | {name.replace("__", "/"): text for name, text in more.items()}))


def test_cores_caches_packages_and_nodes_are_read(tmp_path: Path) -> None:
    layout = read_layout(tree_of(tmp_path))
    assert [core.cpus for core in layout.cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert [(core.node, core.package) for core in layout.cores] == [(0, 0), (0, 0), (1, 1), (1, 1)]
    assert len({core.cache for core in layout.cores}) == 2
    assert layout.memory_nodes == (0, 1)
    assert layout.distance(0, 1) == 21
    assert describe_limits(layout) == []


def test_the_only_node_has_the_memory_of_the_machine(tmp_path: Path) -> None:
    # As seen in a guest of 126 GiB whose memory was plugged in after its start.
    files = {
        f"{_NODE}/online": "0",
        f"{_NODE}/node0/cpulist": "0-15",
        f"{_NODE}/node0/meminfo": "Node 0 MemTotal: 4812272 kB",
        "proc/meminfo": "MemTotal: 131981020 kB\n",
    }
    (node,) = numa_nodes(Tree(write_tree(tmp_path, files)))
    assert node.memory_bytes == 131981020 << 10


def test_the_affinity_limits_and_is_said(tmp_path: Path) -> None:
    layout = read_layout(tree_of(tmp_path), affinity=[0, 1, 2, 7, 99])
    assert [core.cpus for core in layout.cores] == [(0,), (1,), (2,), (7,)]
    assert describe_limits(layout) == ["CPUs 3-6 may not be used here (affinity, cpuset or isolation)"]
    recorded_one = tree_of(tmp_path, proc__self__status="Cpus_allowed_list: 0-3\nMems_allowed_list: 1\n")
    assert read_layout(recorded_one).cpus == (0, 1, 2, 3)
    assert read_layout(recorded_one).memory_nodes == (1,)


def test_isolated_cpus_are_not_for_new_processes(tmp_path: Path) -> None:
    assert read_layout(tree_of(tmp_path, **{f"{_CPU}/isolated".replace("/", "__"): "3,7"})).cpus == (
        *(0, 1, 2),
        *(4, 5, 6),
    )


def test_cpusets_of_both_versions_limit(tmp_path: Path) -> None:
    two = {
        "proc__self__cgroup": "0::/a/b\n",
        "proc__self__mountinfo": "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n",
        "sys__fs__cgroup__a__b__cpuset.cpus.effective": "0-1,4-5",
        "sys__fs__cgroup__a__b__cpuset.mems.effective": "0",
        "sys__fs__cgroup__a__cpu.max": "300000 100000",
    }
    layout = read_layout(tree_of(tmp_path / "two", **two))
    assert (layout.cpus, layout.memory_nodes, layout.quota_cpus) == ((0, 1, 4, 5), (0,), 3.0)
    one = {
        "proc__self__cgroup": "4:cpuset:/a\n2:cpu,cpuacct:/a\n",
        "proc__self__mountinfo": (
            "1 1 0:1 / /cg/cpuset rw - cgroup none rw,cpuset\n"
            "1 1 0:2 / /cg/cpu rw - cgroup none rw,cpu,cpuacct\n"
        ),
        "cg__cpuset__a__cpuset.cpus": "2-3",
        "cg__cpuset__a__cpuset.mems": "1",
        "cg__cpu__a__cpu.cfs_quota_us": "50000",
        "cg__cpu__a__cpu.cfs_period_us": "100000",
    }
    layout = read_layout(tree_of(tmp_path / "one", **one))
    assert (layout.cpus, layout.memory_nodes, layout.quota_cpus) == ((2, 3), (1,), 0.5)
    # What says nothing of this process is not believed: a container may see another's groups.
    assert read_layout(tree_of(tmp_path / "one"), affinity=[0, 1]).cpus == (0, 1)


def test_a_recorded_cpuset_without_prefix_limits_cpus_and_memory() -> None:
    layout = read_layout(Tree(recorded("16amd64-4n4c-cgroup-distance-merge")))
    assert layout.cpus == (0, 1, 2, 3)
    assert layout.memory_nodes == (2, 3)


def test_a_node_that_is_offline_has_its_cpus_and_no_memory() -> None:
    layout = read_layout(Tree(recorded("offline-cpu0-node0")))
    assert {core.node for core in layout.cores} == {0, 1}
    assert layout.memory_nodes == (1,)
    assert format_cpu_list(list(layout.offline)) == "0-3,21-23"
    assert layout.distance(1, 0) == 21


def test_nodes_with_gaps_in_their_numbers_keep_their_distances() -> None:
    layout = read_layout(Tree(recorded("48amd64-4pa2n6c-sparse")))
    assert [node.id for node in layout.nodes] == [0, 1, 2, 33, 34, 45, 72, 73]
    assert layout.distance(0, 33) == 22


def test_kinds_of_cores_are_distinguished() -> None:
    layout = read_layout(Tree(recorded("20em64t-hybrid-1p6c2t+2ca4co1t")))
    speeds = {core.cpus: core.speed for core in layout.cores}
    assert speeds[(0, 1)] > speeds[(19,)]
    assert len(set(speeds.values())) == 2


def test_nothing_recorded_is_a_layout_without_cores(tmp_path: Path) -> None:
    assert read_layout(Tree(tmp_path)).cores == ()
    assert read_layout(Tree(tmp_path), affinity=[0, 1]).cpus == (0, 1)


@pytest.mark.parametrize(
    "files",
    [
        # The file system before control groups, at its usual place.
        {
            "proc/mounts": "none /dev/cpuset cpuset rw 0 0\n",
            "proc/self/cpuset": "/job\n",
            "dev/cpuset/job/cpus": "0-1",
        },
        # Version 1, mounted without prefixes.
        {
            "proc/mounts": "none /dev/cpuset cgroup rw,cpuset,noprefix,release_agent=/x 0 0\n",
            "proc/self/cgroup": "3:cpuset:/job\n",
            "dev/cpuset/job/cpus": "0-1",
        },
        # Version 2 at another place, and beside a mount that was not recorded.
        {
            "proc/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ncgroup2 /mnt/groups cgroup2 rw 0 0\n",
            "proc/self/cgroup": "0::/job\n",
            "mnt/groups/job/cpuset.cpus.effective": "0-1",
        },
        # The process's group by its own file only.
        {
            "proc/mounts": "cgroup2 /mnt/groups cgroup2 rw 0 0\n",
            "proc/self/cpuset": "/job\n",
            "mnt/groups/job/cpuset.cpus.effective": "0-1",
        },
    ],
    ids=["cpuset", "noprefix", "cgroup2 elsewhere", "own file"],
)
def test_a_cpuset_is_found_wherever_it_is_mounted(tmp_path: Path, files: dict[str, str]) -> None:
    tree = tree_of(tmp_path, **files)
    assert read_layout(tree).cpus == (0, 1)
    # The inventory says the same.
    machine = snapshot(tmp_path)
    assert machine.cpu.usable_cpus == 2
    assert "cpu.usable_cpus" not in machine.missing
