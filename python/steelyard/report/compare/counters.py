"""The difference of two runs' counters, in the terminal and as JSON.

In: `CounterComparison`. Out: renderables for a `rich` console, and plain values.

Not here: working it out (``analyze.counters.comparison``).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.counters.comparison import CounterComparison
from steelyard.analyze.counters.iron_law import Difference
from steelyard.analyze.values import Quantity
from steelyard.report import format as fmt
from steelyard.report.counters.document import law_document
from steelyard.report.counters.words import cpu_word, figure, metric_text, node_words
from steelyard.report.terminal import safe

_ROWS_AT_MOST = 12


def counter_lines(comparison: CounterComparison, *, has_own_cost: bool = False) -> list[RenderableType]:
    """Return the law with each term's share, slots, work for its price, and events.

    Where the runs have the cost of a request by the servers' own CPU time (``has_own_cost``), that by the
    time of whole CPUs is left out: others' work is in it.
    """
    parts: list[RenderableType] = []
    if comparison.law is not None:
        parts += _law(comparison.law, per_core=comparison.is_per_core, whole=comparison.is_of_cpus)
    elif comparison.law_missing is not None and (
        comparison.slots or comparison.events or "SMT" in comparison.law_missing
    ):
        parts.append(safe(f"iron law not compared: {comparison.law_missing}"))
    per_cpu = cpu_word("operations per CPU-second", whole=comparison.is_of_cpus)
    for name, pair in (
        (per_cpu, comparison.work_per_cpu_second),
        ("operations per joule", comparison.work_per_joule),
    ):
        if name == per_cpu and comparison.is_of_cpus and has_own_cost:
            continue
        if pair is not None and all(each.value is not None for each in pair):
            left, right = (fmt.plain(figure(Quantity(each.value, "1"))) for each in pair)
            parts.append(safe(f"{name}: {left} -> {right}{_change(*pair)}"))
    parts += [
        safe(
            f"top-down {node_words(slot.name)}: {_share(slot.a_ratio)} -> {_share(slot.b_ratio)} of the slots"
        )
        for slot in comparison.slots[:_ROWS_AT_MOST]
    ]
    parts += [
        safe(
            f"event {event.name}: {fmt.significant(event.a)} -> {fmt.significant(event.b)} {event.unit}"
            + ("" if event.ratio is None else f" ({fmt.significant(event.ratio)} x)")
        )
        for event in comparison.events[:_ROWS_AT_MOST]
    ]
    parts += [
        safe(
            f"metric {metric.name}: {fmt.plain(metric_text(metric.a, metric.unit))} ->"
            f" {fmt.plain(metric_text(metric.b, metric.unit))}"
            + ("" if metric.ratio is None else f" ({fmt.significant(metric.ratio)} x)")
            + ("" if metric.same_formula else ", by different formulas")
        )
        for metric in comparison.metrics[:_ROWS_AT_MOST]
    ]
    if comparison.law is not None or comparison.slots or comparison.events or comparison.metrics:
        parts += [safe(f"CPU time: {line}") for line in comparison.apart]
        parts += [safe(f"!  {caution}") for caution in comparison.cautions]
    return parts


def _law(law: Difference, *, per_core: bool, whole: bool) -> list[RenderableType]:
    """Return the terms as a table; nothing if no term is known for both runs."""
    if all(term.factor.value is None for term in law.terms) and law.ratio.value is None:
        return []
    title = "iron law, by core" if per_core else "iron law"
    table = Table(title, "A", "B", "does to ops/s", "share", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_row(
        "operations",
        fmt.plain(figure(law.before.ops_per_s)),
        fmt.plain(figure(law.after.ops_per_s)),
        _factor(law.ratio),
        "",
    )
    for term in law.terms:
        table.add_row(
            cpu_word(term.name, whole=whole),
            fmt.plain(figure(term.before)),
            fmt.plain(figure(term.after)),
            _factor(term.factor),
            fmt.MISSING if term.share.value is None else fmt.plain(fmt.quantity(term.share.value, "ratio")),
        )
    reasons = dict.fromkeys(term.factor.missing for term in law.terms if term.factor.missing)
    return [Text(), table, *(safe(f"missing: {reason}") for reason in reasons)]


def _factor(quantity: Quantity) -> str:
    return fmt.MISSING if quantity.value is None else f"{fmt.significant(quantity.value)} x"


def _share(ratio: float) -> str:
    return fmt.plain(fmt.quantity(ratio, "ratio"))


def _change(before: Quantity, after: Quantity) -> str:
    if not before.value or after.value is None:
        return ""
    return f" ({(after.value / before.value - 1) * 100:+.1f} %)"


def comparison_document(comparison: CounterComparison | None) -> dict[str, Any] | None:
    """Return the comparison as ``--json`` shows it."""
    if comparison is None:
        return None
    law = comparison.law
    terms = []
    for term in law.terms if law is not None else ():
        terms.append({**asdict(term), "change_ratio": asdict(term.change_ratio)})
    main = law.main_term if law is not None else None
    return {
        "iron_law": None
        if law is None
        else {
            "before": law_document(law.before),
            "after": law_document(law.after),
            "ratio": asdict(law.ratio),
            "terms": terms,
            "main_term": None if main is None else main.name,
            "is_per_core": comparison.is_per_core,
        },
        "iron_law_missing": comparison.law_missing,
        "slots": [{**asdict(slot), "difference_ratio": slot.difference_ratio} for slot in comparison.slots],
        "slots_missing": comparison.slots_missing,
        "metrics": [asdict(metric) for metric in comparison.metrics],
        "events": [asdict(event) for event in comparison.events],
        "work_per_cpu_second": _pair(comparison.work_per_cpu_second),
        "work_per_joule": _pair(comparison.work_per_joule),
        "apart": list(comparison.apart),
        "cautions": list(comparison.cautions),
    }


def _pair(pair: tuple[Quantity, Quantity] | None) -> list[dict[str, Any]] | None:
    return None if pair is None else [asdict(each) for each in pair]
