"""Who runs where, as a picture in a terminal.

In: the layout of a machine, a benchmark's placement. Out: a renderable: a box for each NUMA node, in it a
letter for each core, in runs that share a last-level cache.

Not here: the choice (``bench.placement``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from steelyard._base import format_cpu_list
from steelyard.bench.placement import Placement
from steelyard.machine.layout import Core, Layout
from steelyard.report import format as fmt

IDLE, BOTH = ".", "*"
_BOXES_MAX = 12
"""Nodes that have a box each; more have a row."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def letters(layout: Layout, placement: Placement) -> dict[tuple[int, ...], str]:
    """Return a letter for each core, by its CPUs: A for servers of instance 1, a for its load, and so on.

    After 26 instances the letters come again. A core of both sides is ``*``, an idle one ``.``.
    """
    server: dict[int, str] = {}
    load: dict[int, str] = {}
    for instance in placement.instances:
        letter = _LETTERS[(instance.number - 1) % len(_LETTERS)]
        server |= dict.fromkeys(instance.server, letter)
        load |= dict.fromkeys(instance.load, letter.lower())
    if not placement.instances:
        server, load = dict.fromkeys(placement.server, "A"), dict.fromkeys(placement.load, "a")
    by_core = {}
    for core in layout.cores:
        sides = [{side[cpu] for cpu in core.cpus if cpu in side} for side in (server, load)]
        if all(sides):
            by_core[core.cpus] = BOTH
        else:
            by_core[core.cpus] = min(sides[0] | sides[1], default=IDLE)
    return by_core


def render_placement(title: str, layout: Layout, placement: Placement) -> RenderableType:
    """Return the picture of one benchmark's placement."""
    letter = letters(layout, placement)
    parts: list[RenderableType] = [Text(_summary(title, layout, placement), style="bold")]
    parts += _nodes(layout, letter)
    parts.append(_instances(placement))
    parts += [Text(f"Note: {note}", overflow="fold") for note in placement.notes]
    return Group(*parts)


def _nodes(layout: Layout, letter: Mapping[tuple[int, ...], str]) -> list[RenderableType]:
    """Return a box for each node, or a row where there are many."""
    nodes: dict[int | None, list[Core]] = {}
    for core in layout.cores:
        nodes.setdefault(core.node, []).append(core)
    rows = Table(box=None, pad_edge=False, show_header=False)
    boxes: list[RenderableType] = []
    for node, cores in sorted(nodes.items(), key=lambda item: (item[0] is None, item[0] or 0)):
        caches: dict[int, list[str]] = {}
        for core in cores:
            caches.setdefault(core.cache, []).append(letter[core.cpus])
        runs = " ".join("".join(run) for run in caches.values())
        cpus = [cpu for core in cores for cpu in core.cpus]
        title = _node_title(layout, node, cpus)
        rows.add_row(title, runs)
        boxes.append(Panel(Text(runs), title=title, title_align="left", box=box.SQUARE))
    return boxes if len(boxes) <= _BOXES_MAX else [rows]


def _summary(title: str, layout: Layout, placement: Placement) -> str:
    servers = len(placement.instances) or 1
    threads = {len(core.cpus) for core in layout.cores}
    words = [f"{title}: {fmt.several(servers, 'instance')} on {fmt.several(len(placement.server), 'CPU')}"]
    if placement.load:
        words.append(f"load on {fmt.several(len(placement.load), 'CPU')}")
    if threads != {1}:
        each = max(threads)
        words.append(f"one letter is a core of {'up to ' if len(threads) > 1 else ''}{each} CPUs")
    return "; ".join(words)


def _node_title(layout: Layout, node: int | None, cpus: Sequence[int]) -> str:
    memory = next((candidate.memory_bytes for candidate in layout.nodes if candidate.id == node), None)
    words = ["no NUMA node" if node is None else f"node {node}", fmt.several(len(cpus), "CPU")]
    if memory is not None:
        words.append("no memory" if not memory else fmt.plain(fmt.quantity(memory, "bytes")))
    return ", ".join(words)


def _instances(placement: Placement) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("", "side", "CPUs"):
        table.add_column(name, justify="right" if name == "CPUs" else "left", no_wrap=True)
    table.add_column("list", overflow="fold")
    table.add_column("memory", overflow="fold")
    if not placement.instances:
        table.add_row("A", "all", str(len(placement.server)), format_cpu_list(placement.server), "any node")
    for instance in placement.instances:
        letter = _LETTERS[(instance.number - 1) % len(_LETTERS)]
        memory = f"node {format_cpu_list(instance.memory_nodes)}" if instance.memory_nodes else "any node"
        rows = [(letter, f"servers {instance.number}", instance.server, memory)]
        rows.append((letter.lower(), f"load {instance.number}", instance.load, ""))
        for mark, side, cpus, where in rows:
            table.add_row(mark, side, str(len(cpus)), _wrapped(format_cpu_list(cpus)), where)
    return table


def _wrapped(listed: str) -> str:
    """Return a list that may be broken after its commas."""
    return listed.replace(",", ", ")
