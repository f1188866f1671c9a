"""What counters say, in words and figures that the page and the terminal share.

In: `CounterUse`. Out: rows of text. A value that is missing is a dash with its reason.

Not here: HTML (``sections``), consoles (``characterize.table``).
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.analyze.counters.figures import kernel_ratio
from steelyard.analyze.counters.iron_law import work_per_cpu_second, work_per_joule
from steelyard.analyze.counters.smt import Bounds
from steelyard.analyze.counters.topdown import Node, TopDown
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.values import Quantity
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, measured

NODE_WORDS = {"smt_contention": "SMT contention"}


@dataclass(frozen=True)
class Line:
    """One figure: its name, text, raw value, and what it means or why it is missing."""

    name: str
    text: str
    raw: str
    note: str
    is_missing: bool = False
    value: float | None = None
    unit: str = "1"
    low: float | None = None
    high: float | None = None
    """Ends of what is known of it, where its value is not."""

    @property
    def cell(self) -> Cell:
        """Return it as a cell of a table of figures with different units."""
        return measured(self.value, self.unit, text=self.text, raw=self.raw, low=self.low, high=self.high)


def node_words(name: str) -> str:
    """Return a node's name as people write it.

    >>> node_words("frontend_bound"), node_words("smt_contention")
    ('frontend bound', 'SMT contention')
    """
    return NODE_WORDS.get(name, name.replace("_", " "))


def figure(quantity: Quantity, unit: str | None = None) -> str:
    """Return a quantity's text; plain numbers get three digits rather than a count's rounding."""
    unit = unit or quantity.unit
    if quantity.value is None:
        return fmt.MISSING
    if unit == "1":
        return fmt.count(quantity.value) if quantity.value >= 10_000 else fmt.significant(quantity.value)
    return fmt.quantity(quantity.value, unit)


def _line(name: str, quantity: Quantity, note: str, unit: str | None = None) -> Line:
    lacking = quantity.value is None
    return Line(
        name,
        figure(quantity, unit),
        fmt.raw(quantity.value, quantity.unit),
        (quantity.missing or note) if lacking else note,
        lacking,
        quantity.value,
        unit or quantity.unit,
    )


def bounds_text(bounds: Bounds) -> str:
    """Return a value between two bounds, or the value where they meet."""
    tight = bounds.quantity
    if tight.value is not None:
        return figure(tight)
    if bounds.low is None or bounds.high is None:
        return fmt.MISSING
    low, high = (figure(Quantity(value, bounds.unit)) for value in (bounds.low, bounds.high))
    return f"{low} to {high}"


def _bounds_line(name: str, bounds: Bounds, note: str) -> Line:
    known = bounds.low is not None
    raw = f"{bounds.low!r} to {bounds.high!r}" if known else "not measured"
    return Line(
        name,
        bounds_text(bounds),
        raw,
        note if known else bounds.missing or "not known",
        not known,
        bounds.quantity.value,
        bounds.unit,
        bounds.low,
        bounds.high,
    )


_OF_WHOLE_CPUS = {"CPUs used": "CPUs busy", "operations per CPU-second": "operations per busy CPU-second"}


def cpu_word(name: str, *, whole: bool) -> str:
    """Return the name of a figure of CPU time, which is another where whole CPUs were counted (``whole``).

    >>> cpu_word("CPUs used", whole=True), cpu_word("CPUs used", whole=False), cpu_word("IPC", whole=True)
    ('CPUs busy', 'CPUs used', 'IPC')
    """
    return _OF_WHOLE_CPUS.get(name, name) if whole else name


def law_lines(use: CounterUse, power_w: Quantity) -> list[Line]:
    """Return the terms of the iron law."""
    law = use.law
    whole = use.is_of_cpus
    used, used_note, per_note = (
        ("CPUs busy", "time in which anything ran on its CPUs, other processes included", "of that time")
        if whole
        else (
            "CPUs used, by the counters",
            "task clock per second: with interrupts meanwhile, without the switches between threads",
            "1 over CPU time per operation",
        )
    )
    mode = f" ({law.smt.label})" if law.smt is not None else ""
    return [
        _line("operations", law.ops_per_s, "operations completed per second"),
        _line("clocks", law.cycles_per_s, "not halted, all hardware threads together"),
        _line(used, law.used_cpus, used_note),
        _line("frequency", law.frequency_hz, "cycles per second of CPU time (not halted)"),
        _line("IPC per thread", law.ipc, f"instructions per cycle of a hardware thread{mode}"),
        _line("CPI per thread", law.cpi, "clocks per instruction"),
        _bounds_line(
            "IPC per core", law.core_ipc, "all threads of a core together; comparable across SMT modes"
        ),
        _line("path length", law.path_length, "instructions per operation: depends on software only"),
        _line("clocks per operation", law.cycles_per_op, "path length × CPI"),
        _line("kernel's part", kernel_ratio(use), "of the instructions", "ratio"),
        _line(cpu_word("operations per CPU-second", whole=whole), work_per_cpu_second(law), per_note, "1"),
        _line("operations per joule", work_per_joule(law, power_w), "at the measured power", "1"),
    ]


def metric_text(value: float | None, unit: str) -> str:
    """Return a metric's value.

    >>> metric_text(12.34, "1/1000"), fmt.plain(metric_text(0.25, "ratio")), metric_text(None, "1")
    ('12.3 per 1000 instructions', '25.0 %', '–')
    """
    if value is None:
        return fmt.MISSING
    if unit == "1/1000":
        return f"{fmt.significant(value)} per 1000 instructions"
    return figure(Quantity(value, unit))


def node_text(node: Node) -> str:
    """Return a node's share, or the bounds that its siblings leave it."""
    if node.ratio is not None:
        return fmt.quantity(node.ratio, "ratio")
    if node.low == 0 and node.high == 1:
        return fmt.MISSING
    low, high = fmt.quantity(node.low, "ratio"), fmt.quantity(node.high, "ratio")
    return low if low == high else f"{low} to {high}"


def is_empty(tree: TopDown) -> bool:
    """Return whether nothing of a tree is known."""
    return all(node.ratio is None for node in tree.level_1)


def law_sentence(use: CounterUse) -> str:
    """Return the law in one line, for a terminal."""
    law = use.law
    parts = [
        f"operations {fmt.plain(figure(law.ops_per_s))}" if law.ops_per_s.value is not None else "",
        f"clocks {fmt.plain(figure(law.cycles_per_s))}" if law.cycles_per_s.value is not None else "",
        f"IPC {figure(law.ipc)}" if law.ipc.value is not None else "",
        f"{fmt.plain(figure(law.path_length))} instructions per operation"
        if law.path_length.value is not None
        else "",
    ]
    return ", ".join(part for part in parts if part)


def tree_sentence(tree: TopDown) -> str:
    """Return level 1 in one line, the largest share first, each with the largest of its parts."""
    parts = []
    for node in sorted(tree.level_1, key=lambda each: -(each.ratio or 0.0)):
        if node.ratio is None:
            continue
        known = [child for child in node.children if child.ratio]
        child = max(known, key=lambda each: each.ratio or 0.0, default=None)
        part = "" if child is None else f" ({node_words(child.name)} {fmt.plain(node_text(child))})"
        parts.append(f"{node_words(node.name)} {fmt.plain(node_text(node))}{part}")
    return ", ".join(parts)
