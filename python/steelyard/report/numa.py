"""The answers of ``steelyard numa map`` and ``numa score``.

In: a `NumaMap`, a `NumaScore` record. Out: an `Answer`. Names of processes and groups come from anybody. Not
here: measuring (``numa``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from steelyard.numa import NumaMap
from steelyard.records import NumaScore, NumaSubject
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    Notes,
    Paragraph,
    Section,
    Table,
    table,
    written,
)

_NODES_SHOWN = 4
"""Nodes of which a row tells; those with most of it."""
_NODES_IN_TABLE = 16
"""Nodes up to which distances are a table; more would not fit any terminal."""
_NAMES_OF_A_REASON = 4


def map_answer(numa_map: NumaMap) -> Answer:
    """Return nodes, distances, and what was measured or why it was not."""
    count = len(numa_map.nodes)
    lowest, highest = numa_map.score_min, numa_map.score_max
    says = "all memory is local, and every score is 1" if count == 1 else ""
    if count > 1 and lowest is not None:
        says = f"scores can be from {lowest:.3f} to {highest:.3f}"
    sections = [Section("nodes", "Nodes", (_nodes(numa_map),))]
    if numa_map.distances is not None:
        about = "From CPUs (row) to memory (column)."
        sections.append(Section("distances", "Distances", _distances(numa_map), about))
    if measured := numa_map.read_bytes_per_s:
        memory = sorted({pair[1] for pair in measured})
        rows = {
            str(cpus): [measured.get((cpus, id_)) for id_ in memory]
            for cpus in sorted({pair[0] for pair in measured})
        }
        shown = _square([str(id_) for id_ in memory], rows, "bytes/s")
        sections.append(Section("bandwidth", "Measured read bandwidth", (shown,)))
    missing = Notes(tuple(f"No {name}: {reason}" for name, reason in numa_map.missing.items()))
    if missing.items:
        sections.append(Section("missing", "Not measured", (missing,)))
    return Answer(
        "NUMA map",
        f"{fmt.several(count, 'NUMA node')}{f': {says}' if says else ''}.",
        sections,
        rows=len(numa_map.nodes),
        eyebrow="machine",
        source="the kernel's description of the machine",
    )


def _nodes(numa_map: NumaMap) -> Table:
    columns = (
        Column("node", is_text=True),
        Column("CPUs", is_text=True),
        Column("memory", "bytes"),
        Column("HMAT read latency", "ns", rank=1),
        Column("latency", "ns", rank=1),
    )
    rows = [
        (
            str(node.id),
            node.cpus or "none: memory only",
            node.memory_bytes,
            None if node.access is None else node.access.read_latency_ns,
            node.latency_ns,
        )
        for node in numa_map.nodes
    ]
    return table(columns, rows)


def _distances(numa_map: NumaMap) -> tuple[Block, ...]:
    ids, distances = numa_map.ids, numa_map.distances or []
    if len(ids) > _NODES_IN_TABLE:
        ordered = sorted(value for row in distances for value in row)
        counts = [(value, len(list(members))) for value, members in groupby(ordered)]
        pairs = ", ".join(f"{value:g} ({count} pairs)" for value, count in counts)
        return (Paragraph(f"{len(ids)} nodes; distances: {pairs}; --json lists all."),)
    names = [str(id_) for id_ in ids]
    return (_square(names, dict(zip(names, distances, strict=True))),)


def _square(columns: Sequence[str], rows: Mapping[str, Sequence[float | None]], unit: str = "1") -> Table:
    """Return figures by where CPUs (rows) and memory (columns) are."""
    heads = (Column("from", is_text=True), *(Column(name, unit) for name in columns))
    return table(heads, [(name, *values) for name, values in rows.items()])


def score_answer(record: NumaScore, *, limit: int) -> Answer:
    """Return scores, the lowest first (``limit`` on a terminal), and how many have none for which reason."""
    scored = [row for row in record.subjects if row.score is not None]
    scored.sort(key=lambda row: (row.score, -sum(row.cpu_seconds_per_node or [])))
    blocks: list[Block] = [_scores(record, scored)] if scored else []
    without = Notes(tuple(_reasons(record.subjects)))
    sections = [Section("scores", "Scores", tuple(blocks))] if blocks else []
    sections += [Section("without", "Without a score", (without,))] if without.items else []
    lowest = min((row.score for row in scored if row.score is not None), default=None)
    heading = (
        f"{fmt.several(len(scored), 'score')}, the lowest {lowest:.3f}."
        if lowest is not None
        else "No score."
    )
    if len(record.nodes) == 1:
        heading = "This machine has one NUMA node: every score is 1."
    return Answer(
        "NUMA scores",
        heading,
        sections,
        rows=limit,
        eyebrow="machine",
        source="what the kernel says of processes",
    )


def _scores(record: NumaScore, rows: Sequence[NumaSubject]) -> Table:
    ids = [node.id for node in record.nodes]
    columns = (
        Column("subject", is_text=True),
        Column("score", "ratio", is_answer=True),
        Column("CPU time", "s"),
        Column("CPUs on nodes", is_text=True, rank=1),
        Column("memory", "bytes"),
        Column("memory on nodes", is_text=True, rank=1),
        Column("shared at most", "bytes", rank=2),
    )
    caption = ""
    if any(row.cpu_basis == "lifetime" for row in rows):
        caption = (
            "* did not run in the window: scored by the last placement of its threads and their CPU time."
        )
    return table(columns, [_row(row, ids) for row in rows], caption=caption)


def _row(row: NumaSubject, ids: Sequence[int]) -> tuple[object, ...]:
    cpu, memory, shared = row.cpu_seconds_per_node, row.memory_bytes_per_node, row.shared_bytes_per_node
    mark = "*" if row.cpu_basis == "lifetime" else ""
    pid = "" if row.pid is None else f"{row.pid} "
    score = Figure() if row.score is None else written(f"{row.score:.3f}{mark}", row.score)
    return (
        Cell(f"{pid}{row.name}", is_text=True),
        score,
        None if cpu is None else sum(cpu),
        _where(cpu, ids),
        None if memory is None else sum(memory),
        _where(memory, ids),
        None if shared is None else sum(shared),
    )


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


def _reasons(subjects: Sequence[NumaSubject]) -> Iterator[str]:
    without = sorted((row for row in subjects if row.score is None), key=lambda row: row.missing or "")
    for reason, members in groupby(without, key=lambda row: row.missing or ""):
        listed = list(members)
        names = [row.name or str(row.pid) for row in listed[:_NAMES_OF_A_REASON]]
        more = ", …" if len(listed) > _NAMES_OF_A_REASON else ""
        yield f"{len(listed)} ({', '.join(names)}{more}): {reason}"
