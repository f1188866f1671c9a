"""The difference of two runs' counters, as blocks of an answer and as JSON.

In: `CounterComparison`. Out: tables and notes, and plain values.

Not here: working it out (``analyze.counters.comparison``).
"""

from __future__ import annotations

from typing import Any

from steelyard.analyze.counters.comparison import CounterComparison
from steelyard.analyze.counters.iron_law import LawDifference
from steelyard.analyze.values import Quantity
from steelyard.report import format as fmt
from steelyard.report.answer import Block, Cell, Column, Figure, Notes, table, written
from steelyard.report.counters.words import cpu_word, figure, metric_text, node_words


def counter_blocks(counters: CounterComparison, *, has_own_cost: bool = False) -> tuple[Block, ...]:
    """Return the law with each term's share, slots, work for its price, metrics and events.

    Where the runs have the cost of a request by the servers' own CPU time (``has_own_cost``), that by the
    time of whole CPUs is left out: others' work is in it.
    """
    blocks: list[Block] = []
    notes: list[str] = []
    if counters.iron_law is not None:
        blocks += _law(counters.iron_law, per_core=counters.is_per_core, whole=counters.is_of_cpus)
        reasons = dict.fromkeys(
            term.factor.missing for term in counters.iron_law.terms if term.factor.missing
        )
        notes += [f"missing: {reason}" for reason in reasons] if blocks else []
    elif counters.iron_law_missing is not None and (
        counters.slots or counters.events or "SMT" in counters.iron_law_missing
    ):
        notes.append(f"iron law not compared: {counters.iron_law_missing}")
    rows = _work(counters, has_own_cost=has_own_cost)
    rows += [
        (
            f"top-down {node_words(slot.name)}",
            "of slots",
            written(_share(slot.a_ratio), slot.a_ratio, unit="ratio"),
            written(_share(slot.b_ratio), slot.b_ratio, unit="ratio"),
            None,
        )
        for slot in counters.slots
    ]
    for event in counters.events:
        sides = (written(fmt.significant(side), side, unit=event.unit or "1") for side in (event.a, event.b))
        rows.append((event.name, event.unit, *sides, event.ratio))
    for one in counters.metrics:
        left, right = (written(metric_text(side, one.unit), side, unit=one.unit) for side in (one.a, one.b))
        unit = one.unit if one.same_formula else f"{one.unit}, by different formulas"
        rows.append((one.name, unit, left, right, one.ratio))
    if rows:
        columns = (
            Column("counted", is_text=True),
            Column("unit", is_text=True, rank=1),
            Column("A"),
            Column("B"),
            Column("B over A", is_answer=True),
        )
        blocks.append(table(columns, rows))
    if counters.iron_law is not None or rows:
        notes += [f"CPU time: {line}" for line in counters.apart]
        notes += counters.cautions
    return (*blocks, Notes(tuple(notes))) if notes else tuple(blocks)


def _work(counters: CounterComparison, *, has_own_cost: bool) -> list[tuple[Any, ...]]:
    per_cpu = cpu_word("operations per CPU-second", whole=counters.is_of_cpus)
    rows: list[tuple[Any, ...]] = []
    for name, pair in (
        (per_cpu, counters.work_per_cpu_second),
        ("operations per joule", counters.work_per_joule),
    ):
        if pair is None or (name == per_cpu and counters.is_of_cpus and has_own_cost):
            continue
        left, right = (each.value for each in pair)
        if left is not None and right is not None:
            texts = (written(figure(Quantity(side, "1")), side, unit="1") for side in (left, right))
            rows.append((name, "", *texts, right / left if left else None))
    return rows


def _law(law: LawDifference, *, per_core: bool, whole: bool) -> list[Block]:
    """Return the terms as a table; nothing if no term is known for both runs."""
    if all(term.factor.value is None for term in law.terms) and law.ratio.value is None:
        return []
    columns = (
        Column("iron law, by core" if per_core else "iron law", is_text=True),
        Column("A"),
        Column("B"),
        Column("does to ops/s", is_answer=True),
        Column("share", "ratio"),
    )
    rows: list[tuple[Any, ...]] = [
        ("operations", _of(law.before.ops_per_s), _of(law.after.ops_per_s), _factor(law.ratio), None)
    ]
    rows += [
        (
            _word(term.name, whole=whole),
            _of(term.before),
            _of(term.after),
            _factor(term.factor),
            Figure(term.share.value, missing=term.share.missing or ""),
        )
        for term in law.terms
    ]
    return [table(columns, rows)]


def _word(name: str, *, whole: bool) -> str:
    # The results have CPUs used by getrusage.
    return "CPUs used, by the counters" if name == "CPUs used" and not whole else cpu_word(name, whole=whole)


def _of(quantity: Quantity) -> Cell:
    return Cell(
        figure(quantity), figure=Figure(quantity.value, missing=quantity.missing or "", unit=quantity.unit)
    )


def _factor(quantity: Quantity) -> Cell | Figure:
    if quantity.value is None:
        return Figure(missing=quantity.missing or "")
    return written(f"{fmt.significant(quantity.value)} x", quantity.value, unit="ratio")


def _share(ratio: float) -> str:
    return fmt.plain(fmt.quantity(ratio, "ratio"))
