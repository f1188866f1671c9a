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
from steelyard.report.counters.words import figure, metric_text, node_words
from steelyard.report.terminal import safe

_ROWS_AT_MOST = 12


def counter_lines(found: CounterComparison) -> list[RenderableType]:
    """Return the law with each term's share, slots, work for its price, and events."""
    parts: list[RenderableType] = []
    if found.law is not None:
        parts += _law(found.law, per_core=found.is_per_core)
    elif found.law_missing is not None and (found.slots or found.events or "SMT" in found.law_missing):
        parts.append(safe(f"iron law not compared: {found.law_missing}"))
    for name, pair in (
        ("operations per CPU-second", found.work_per_cpu_second),
        ("operations per joule", found.work_per_joule),
    ):
        if pair is not None and all(each.value is not None for each in pair):
            left, right = (fmt.plain(figure(Quantity(each.value, "1"))) for each in pair)
            parts.append(safe(f"{name}: {left} -> {right}{_change(*pair)}"))
    parts += [
        safe(f"top-down {node_words(one.name)}: {_share(one.a_ratio)} -> {_share(one.b_ratio)} of the slots")
        for one in found.slots[:_ROWS_AT_MOST]
    ]
    parts += [
        safe(
            f"event {one.name}: {fmt.significant(one.a)} -> {fmt.significant(one.b)} {one.unit}"
            + ("" if one.ratio is None else f" ({fmt.significant(one.ratio)} x)")
        )
        for one in found.events[:_ROWS_AT_MOST]
    ]
    parts += [
        safe(
            f"metric {one.name}: {fmt.plain(metric_text(one.a, one.unit))} ->"
            f" {fmt.plain(metric_text(one.b, one.unit))}"
            + ("" if one.ratio is None else f" ({fmt.significant(one.ratio)} x)")
            + ("" if one.same_formula else ", by different formulas")
        )
        for one in found.metrics[:_ROWS_AT_MOST]
    ]
    if found.law is not None or found.slots or found.events or found.metrics:
        parts += [safe(f"CPU time: {line}") for line in found.apart]
        parts += [safe(f"!  {caution}") for caution in found.cautions]
    return parts


def _law(law: Difference, *, per_core: bool) -> list[RenderableType]:
    """Return the terms as a table, none where not a single one is known of both runs."""
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
            term.name,
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


def comparison_document(found: CounterComparison | None) -> dict[str, Any] | None:
    """Return the comparison as ``--json`` shows it."""
    if found is None:
        return None
    law = found.law
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
            "is_per_core": found.is_per_core,
        },
        "iron_law_missing": found.law_missing,
        "slots": [{**asdict(one), "difference_ratio": one.difference_ratio} for one in found.slots],
        "slots_missing": found.slots_missing,
        "metrics": [asdict(one) for one in found.metrics],
        "events": [asdict(one) for one in found.events],
        "work_per_cpu_second": _pair(found.work_per_cpu_second),
        "work_per_joule": _pair(found.work_per_joule),
        "apart": list(found.apart),
        "cautions": list(found.cautions),
    }


def _pair(pair: tuple[Quantity, Quantity] | None) -> list[dict[str, Any]] | None:
    return None if pair is None else [asdict(each) for each in pair]
