"""``steelyard-exec --memory-nodes`` inside an emulated machine with two NUMA nodes, under a real kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steelyard.bench.placement import Needs, place
from steelyard.machine.layout import read_layout
from steelyard.machine.tree import Tree
from tests.machine.trees import write_tree

from .boot import file_system, needs, run, two_nodes

INIT = Path(__file__).parent / "binding.c"
BIND = 2
"""MPOL_BIND (set_mempolicy(2))."""
PAGES = (16 << 20) // 4096


@pytest.mark.slow
def test_memory_comes_from_the_nodes_that_a_placement_names(tmp_path: Path) -> None:
    reason = needs()
    if reason is not None:
        pytest.skip(reason)
    lines = run(two_nodes(), file_system(tmp_path, INIT, "steelyard-exec"))
    said = {name: list(map(int, re.findall(r"\d+", text))) for name, text in lines if name != "file"}
    # Mode, mask of nodes, CPUs, pages on either node: on CPUs of one node, with memory of the other.
    assert said["bound"] == [BIND, 1 << 1, 2, 0, PAGES]
    assert said["inherited"] == [BIND, 1 << 0, 2, PAGES, 0]
    assert said["free"][:3] == [0, 0, 2]
    assert [said[f"exit.{name}"] for name in ("bound", "inherited", "free")] == [[0], [0], [0]]
    assert said["exit.absent"] == [125]
    assert "absent" not in said
    # What that kernel says of itself gives an instance a node, bound to it.
    files = dict(text.partition(" ")[::2] for name, text in lines if name == "file")
    root = write_tree(tmp_path / "tree", {path.lstrip("/"): text for path, text in files.items()})
    placement = place(read_layout(Tree(root)), Needs(0.5, 72))
    assert [(one.server, one.load, one.memory_nodes) for one in placement.instances] == [
        ((0,), (1,), (0,)),
        ((2,), (3,), (1,)),
    ]
