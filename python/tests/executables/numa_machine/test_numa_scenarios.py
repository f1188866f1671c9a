"""The scenarios of a NUMA experiment inside an emulated machine with two nodes: where threads and pages are.

The machine has no cost of distance, so that nothing is timed there. The read-back of ``steelyard numa
experiment`` is held to what a real kernel says, scenario by scenario.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from steelyard._base import parse_cpu_list
from steelyard.experiment.numa.read_back import Watch
from steelyard.experiment.numa.scenarios import scenarios_of
from steelyard.machine.layout import read_layout
from steelyard.machine.tree import Tree
from tests.bench.placement.layouts import layout_of
from tests.machine.trees import write_tree

from .boot import file_system, needs, run, two_nodes

INIT = Path(__file__).parent / "scenarios.c"
LEAST_BYTES = 2 * (8 << 20)
"""What both threads of a program have written."""


@pytest.mark.slow
def test_threads_and_pages_are_where_the_scenarios_say(tmp_path: Path) -> None:
    reason = needs()
    if reason is not None:
        pytest.skip(reason)
    made = scenarios_of(layout_of(packages=2, cores=2))
    rows = ", ".join(
        f'{{"{each.cpus}", "{each.memory_node}", "{each.co_runner_cpus or ""}"}}' for each in made.scenarios
    )
    header = tmp_path / "scenarios.h"
    header.write_text(f"#define SCENARIOS {{{rows}}}\n")
    image = file_system(tmp_path, INIT, "steelyard-exec", ["-include", str(header), "-pthread"])
    lines = run(two_nodes(), image)
    # That machine has the scenarios that were planned for it.
    files = dict(text.partition(" ")[::2] for name, text in lines if name == "file")
    root = write_tree(tmp_path / "tree", {path.lstrip("/"): text for path, text in files.items()})
    planned = scenarios_of(read_layout(Tree(root)))
    placed = [(each.scenario, each.cpus, each.memory_node, each.co_runner_cpus) for each in made.scenarios]
    assert placed == [
        (each.scenario, each.cpus, each.memory_node, each.co_runner_cpus) for each in planned.scenarios
    ]
    assert planned.distance == 21
    seen: dict[int, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for name, text in lines:
        if match := re.fullmatch(r"see\.(\d)", name):
            role, path, line = text.split(" ", 2)
            known = seen[int(match[1])][role]
            known[path.lstrip("/")] = known.get(path.lstrip("/"), "") + line + "\n"
    for each in made.scenarios:
        here = seen[each.scenario]
        assert set(here) == ({"x", "y"} if each.co_runner_cpus else {"x"})
        cpus = listed(each.cpus)
        x = watched(tmp_path / f"{each.scenario}-x", here["x"], Watch(cpus, [each.memory_node]))
        assert x.objection() is None
        assert x.threads == 2
        assert x.bytes_per_node[each.memory_node] >= LEAST_BYTES
        assert x.bytes_per_node.total() - x.bytes_per_node[each.memory_node] < LEAST_BYTES // 100
        # Had it been another scenario, the read-back would have said so.
        wrong = watched(tmp_path / f"{each.scenario}-w", here["x"], Watch(cpus, [1 - each.memory_node]))
        assert "of its pages are on other nodes than" in (wrong.objection() or "")
        if each.co_runner_cpus:
            y = watched(tmp_path / f"{each.scenario}-y", here["y"], Watch(listed(each.co_runner_cpus)))
            assert y.objection() is None
            assert y.threads == 2
            elsewhere = watched(tmp_path / f"{each.scenario}-z", here["y"], Watch(cpus))
            assert "may run on CPUs" in (elsewhere.objection() or "")


def listed(cpus: str) -> list[int]:
    return parse_cpu_list(cpus) or []


def watched(folder: Path, files: dict[str, str], watch: Watch) -> Watch:
    """Look at the processes whose files these are."""
    root = write_tree(folder, files)
    pids = {int(path.split("/")[1]) for path in files}
    assert len(pids) == 1
    watch.look(Tree(root), pids)
    return watch
