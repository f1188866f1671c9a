"""``steelyard numa map|score`` in a terminal.

In: a `NumaMap`, a `NumaScore` record. Out: renderables. Names of processes and groups come from anybody:
each is a `Text`, never markup. Not here: measuring (``numa``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.numa import NumaMap
from steelyard.records import NumaScore, NumaSubject
from steelyard.report import format as fmt
from steelyard.report.terminal import safe

_NODES_SHOWN = 4
"""Nodes of which a row tells; those with most of it."""
_NODES_IN_TABLE = 16
"""Nodes up to which distances are a table; more would not fit any terminal."""
_NAMES_OF_A_REASON = 4


def _table(*columns: tuple[str, bool]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    return table


def render_map(numa_map: NumaMap) -> RenderableType:
    """Return nodes, distances, and what was measured or why it was not."""
    nodes = _table(
        ("node", True), ("CPUs", False), ("memory", True), ("HMAT read latency", True), ("latency", True)
    )
    for node in numa_map.nodes:
        latency_ns = None if node.access is None else node.access.read_latency_ns
        measured = numa_map.latency_ns.get(node.id)
        nodes.add_row(
            str(node.id),
            safe(node.cpus or "none: memory only"),
            _size(node.memory_bytes),
            fmt.MISSING if latency_ns is None else fmt.duration(latency_ns),
            fmt.MISSING if measured is None else fmt.duration(measured),
        )
    parts: list[RenderableType] = [nodes, Text()]
    if numa_map.distances is not None:
        parts += [Text("Distances from CPUs (row) to memory (column)", style="bold"), *_distances(numa_map)]
    if numa_map.read_bytes_per_s:
        parts += [Text("Measured read bandwidth", style="bold"), *_bandwidth(numa_map)]
    span = numa_map.score_span()
    if len(numa_map.nodes) == 1:
        parts.append(Text("One NUMA node: all memory is local, and every score is 1."))
    elif span is not None:
        parts.append(Text(f"Scores can be from {span[0]:.3f} to {span[1]:.3f} here."))
    parts += [safe(f"No {name}: {reason}") for name, reason in numa_map.missing.items()]
    return Group(*parts)


def _distances(numa_map: NumaMap) -> list[RenderableType]:
    assert numa_map.distances is not None
    ids = numa_map.ids
    if len(ids) > _NODES_IN_TABLE:
        values, counts = _histogram(numa_map)
        pairs = ", ".join(f"{value:g} ({count} pairs)" for value, count in zip(values, counts, strict=True))
        return [Text(f"{len(ids)} nodes; distances: {pairs}; --json lists all"), Text()]
    table = _table(("from", True), *((str(id_), True) for id_ in ids))
    for id_, row in zip(ids, numa_map.distances, strict=True):
        table.add_row(str(id_), *(f"{value:g}" for value in row))
    return [table, Text()]


def _histogram(numa_map: NumaMap) -> tuple[list[float], list[int]]:
    assert numa_map.distances is not None
    ordered = sorted(value for row in numa_map.distances for value in row)
    groups = [(value, len(list(members))) for value, members in groupby(ordered)]
    return [value for value, _ in groups], [count for _, count in groups]


def _bandwidth(numa_map: NumaMap) -> list[RenderableType]:
    memory = sorted({pair[1] for pair in numa_map.read_bytes_per_s})
    table = _table(("from", True), *((str(id_), True) for id_ in memory))
    for cpus in sorted({pair[0] for pair in numa_map.read_bytes_per_s}):
        rates = (numa_map.read_bytes_per_s.get((cpus, id_)) for id_ in memory)
        table.add_row(str(cpus), *(fmt.plain(fmt.quantity(rate, "bytes/s")) for rate in rates))
    return [table, Text()]


def _size(value: float | None) -> str:
    return fmt.MISSING if value is None else fmt.plain(fmt.quantity(value, "bytes"))


def render_score(record: NumaScore, *, limit: int) -> RenderableType:
    """Return scores, the lowest first, at most ``limit``, and how many have none for which reason."""
    parts: list[RenderableType] = []
    if len(record.nodes) == 1:
        parts.append(Text("This machine has one NUMA node: every score is 1.", style="bold"))
    scored = [row for row in record.subjects if row.score is not None]
    scored.sort(key=lambda row: (row.score, -sum(row.cpu_seconds_per_node or [])))
    if scored:
        parts.append(_scores(record, scored[:limit]))
    if len(scored) > limit:
        parts.append(Text(f"{len(scored) - limit} more with higher scores; --limit shows them", style="dim"))
    if any(row.cpu_basis == "lifetime" for row in scored[:limit]):
        parts.append(
            Text(
                "* did not run in the window: scored by the last placement of its threads and their CPU time",
                style="dim",
            )
        )
    parts += _reasons(record.subjects)
    return Group(*parts)


def _scores(record: NumaScore, rows: Sequence[NumaSubject]) -> Table:
    ids = [node.id for node in record.nodes]
    table = _table(
        ("score", True), ("CPU time", True), ("on nodes", False), ("memory", True), ("on nodes", False)
    )
    table.add_column("shared at most", justify="right", no_wrap=True)
    table.add_column("subject", overflow="fold", ratio=1)
    for row in rows:
        cpu, memory = row.cpu_seconds_per_node, row.memory_bytes_per_node
        mark = "*" if row.cpu_basis == "lifetime" else ""
        pid = "" if row.pid is None else f"{row.pid} "
        shared = row.shared_bytes_per_node
        table.add_row(
            f"{row.score:.3f}{mark}",
            fmt.MISSING if cpu is None else fmt.plain(fmt.quantity(sum(cpu), "s")),
            _where(cpu, ids),
            _size(None if memory is None else sum(memory)),
            _where(memory, ids),
            _size(None if shared is None else sum(shared)),
            safe(f"{pid}{row.name}"),
        )
    return table


def _where(amounts: Sequence[float] | None, ids: Sequence[int]) -> str:
    """Return the shares by node, largest first."""
    whole = sum(amounts or [])
    if amounts is None or whole <= 0:
        return fmt.MISSING
    ranked = sorted(
        ((amount, id_) for amount, id_ in zip(amounts, ids, strict=True) if amount > 0), reverse=True
    )
    shares = [f"{id_}: {100 * amount / whole:.0f} %" for amount, id_ in ranked[:_NODES_SHOWN]]
    return ", ".join(shares) + (", …" if len(ranked) > _NODES_SHOWN else "")


def _reasons(subjects: Sequence[NumaSubject]) -> list[RenderableType]:
    without = sorted((row for row in subjects if row.score is None), key=lambda row: row.missing or "")
    lines: list[RenderableType] = []
    for reason, members in groupby(without, key=lambda row: row.missing or ""):
        listed = list(members)
        names = [row.name or str(row.pid) for row in listed[:_NAMES_OF_A_REASON]]
        more = ", …" if len(listed) > _NAMES_OF_A_REASON else ""
        lines.append(safe(f"{len(listed)} without a score ({', '.join(names)}{more}): {reason}"))
    return lines
