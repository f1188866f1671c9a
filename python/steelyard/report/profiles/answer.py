"""The answers of ``steelyard profile show`` and ``diff``: tax map, flame graph, tables of functions.

In: profiles and what was counted in them. Out: an `Answer`. Names from outside are escaped by the template,
and by the flame graph's own script.

Not here: counting (``analyze``), sentences (``words``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.profiles.diff import OWN, RUNS, Change, ProfileDiff
from steelyard.analyze.profiles.diff import Table as DiffTable
from steelyard.analyze.profiles.names import short_function
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.profiles.tax_map import TaxMap
from steelyard.analyze.profiles.tax_rules import Rules
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Column,
    Figure,
    Fragment,
    Section,
    Table,
    table,
    written,
)
from steelyard.report.assets import Assets
from steelyard.report.profiles.flame import diff_flame_html, flame_html
from steelyard.report.profiles.tax_chart import command_chart, tax_chart
from steelyard.report.profiles.time_chart import time_chart
from steelyard.report.profiles.words import (
    FunctionRow,
    cautions_of,
    count_of,
    facts_of,
    heading_of,
    heading_of_profile,
    points,
    sides_of,
    tax_sentence,
    top_functions,
    word_of,
)

_FUNCTIONS = 40
_NAME, _MODULE = 120, 40
"""Characters of a function's and a module's name that a table shows."""
_PLACED = (
    "Every busy sample is placed by its leaf function, or, where that serves whoever called it, by the first"
    " caller outwards that settles it. --rules FILE adds rules."
)


def profile_answer(
    profile: Profile,
    tax: TaxMap,
    *,
    title: str,
    command: str,
    rules: Rules | None = None,
    times_ns: NDArray[np.int64] | None = None,
    rows: int = _FUNCTIONS,
) -> Answer:
    """Return the answer of one profile, with when its samples were taken where ``times_ns`` are known (ns
    since the first). A terminal shows ``rows`` functions.
    """
    sections = []
    if tax.samples:
        by_tax = tax_chart([(title, tax)], rules, measured=profile.measured)
        charts = (replace(by_tax, note=f"{by_tax.note} {_PLACED}"), command_chart(tax, rules))
        sections.append(
            Section("tax", f"Tax map: {profile.measured} by category", (*charts, _categories(tax, profile)))
        )
    flame: list[Block] = [] if times_ns is None else [_with_hint(times_ns)]
    flame.append(Fragment(lambda assets: flame_html(profile, "Flame graph", assets=assets, rules=rules)))
    sections.append(Section("graph", "Flame graph", tuple(flame), on_terminal=False))
    busy = profile.busy()
    functions = top_functions(busy, max(rows, _FUNCTIONS))
    if functions and tax.samples:
        sections.append(Section("functions", "Functions", (_functions(functions, busy),)))
    return Answer(
        title,
        heading_of_profile(tax),
        sections,
        lines=(tax_sentence(tax), " · ".join(f"{name} {value}" for name, value in facts_of(profile, tax))),
        cautions=cautions_of(profile),
        rows=rows,
        eyebrow="profile",
        command=command,
        source="folded stacks",
    )


def _with_hint(times_ns: NDArray[np.int64]) -> Block:
    chart = time_chart(times_ns)
    hint = "--between 2,3 shows the samples from second 2 to 3 alone."
    return replace(chart, note=f"{chart.note} {hint}", wide=True)


def _categories(tax: TaxMap, profile: Profile) -> Table:
    columns = (
        Column("category", is_text=True),
        Column("share", "ratio", is_answer=True),
        Column(profile.unit, rank=2),
        Column("", rank=1),
        Column("largest functions, of all", is_text=True, rank=1),
    )
    most = max(category.share_ratio for category in tax.categories)
    rows = []
    for category in tax.categories:
        count = profile.in_unit(category.samples)
        functions = ", ".join(
            f"{short_function(one.function)[:_NAME]} {fmt.plain(fmt.quantity(one.share_ratio, 'ratio'))}"
            for one in category.functions[:2]
        )
        bar = Cell("", bar=category.share_ratio / most if most else 0.0)
        rows.append((category.title, category.share_ratio, written(f"{count:,}", count), bar, functions))
    return table(columns, rows)


def _functions(functions: list[FunctionRow], busy: Profile) -> Table:
    columns = (
        Column("function", is_text=True),
        Column("own", "ratio"),
        Column("total", "ratio"),
        Column("module", is_text=True, rank=1),
    )
    rows = [
        (
            _named(row.function),
            _counted(row.own, busy),
            _counted(row.total, busy),
            row.module[:_MODULE],
        )
        for row in functions
    ]
    caption = "By the samples of their own; total counts those of what they called too."
    return table(columns, rows, caption=caption)


def _named(function: str) -> Cell:
    """Return a function by its short name; whoever points at it sees the whole."""
    return Cell(short_function(function)[:_NAME], function[:300], is_text=True)


def _counted(count: int, busy: Profile) -> Cell:
    share = count / busy.total
    return Cell(fmt.quantity(share, "ratio"), f"{busy.in_unit(count):,} {busy.unit}", figure=Figure(share))


def diff_answer(
    profiles: tuple[Profile, Profile],
    names: tuple[str, str],
    maps: tuple[TaxMap, TaxMap],
    result: ProfileDiff,
    *,
    command: str,
    rules: Rules | None = None,
    rows: int = 20,
) -> Answer:
    """Return the answer of two profiles: the change that matters most, then tables by what was compared."""
    functions = {row.name for one in result.tables if one.by == "function" for row in one.standing_out}

    def flame(assets: Assets) -> str:
        return diff_flame_html(
            *profiles,
            "Differential flame graph",
            names=names,
            assets=assets,
            rules=rules,
            functions=functions,
            is_judged=result.reason is None,
        )

    chart = tax_chart(list(zip(names, maps, strict=True)), rules, measured=profiles[0].measured)
    return Answer(
        f"{names[0]} and {names[1]}",
        heading_of(result),
        [
            Section("tax", "Tax map", (replace(chart, note=f"{chart.note} {_PLACED}"),), on_terminal=False),
            Section("graph", "Flame graph", (Fragment(flame),), on_terminal=False),
            *(_differences(one, names, result) for one in sorted(result.tables, key=_place)),
        ],
        lines=(f"{sides_of(result, names)}. Differences are of shares.", _test_of(result)),
        cautions=[f"{caution[:1].upper()}{caution[1:]}." for caution in result.cautions],
        rows=rows,
        eyebrow="two profiles",
        command=command,
        source="folded stacks",
    )


_ORDER = {"function": 0, "category": 1, "module": 2}
_TITLES = {"function": "Functions", "category": "Tax map", "module": "Modules"}


def _place(one: DiffTable) -> tuple[bool, int]:
    return one.measure != OWN, _ORDER.get(one.by, len(_ORDER))


def _test_of(result: ProfileDiff) -> str:
    """Return how rows are judged."""
    if result.basis == RUNS:
        return (
            f"A row is a change when Student's test over {result.runs[0]} and {result.runs[1]} runs, "
            f"corrected by Holm over its table, finds it: sides that are the same show any change in at most"
            f" {result.alpha:.0%} of comparisons. Intervals ({result.confidence:.0%}) are of each row alone."
        )
    return "By Holm over its table, a row that stands out differs by more than the noise within the runs."


def _differences(one: DiffTable, names: tuple[str, str], result: ProfileDiff) -> Section:
    title = _TITLES.get(one.by, one.by.capitalize())
    if one.by != "category":
        title += ", own samples" if one.measure == OWN else ", with what they call"
    judged = "" if result.reason else f"{count_of(one, result)} in {fmt.several(len(one.rows), 'row')}."
    has_modules = one.by == "function"
    columns = (
        Column(one.by, is_text=True),
        Column("answer", is_text=True, is_answer=True),
        Column(names[0], "ratio"),
        Column(names[1], "ratio"),
        Column("difference, points", "ratio", exported="difference of shares"),
        *(
            (Column("interval", "ratio", exported="interval of the difference of shares"),)
            if result.basis == RUNS
            else ()
        ),
        *((Column("module", is_text=True, rank=1),) if has_modules else ()),
    )
    rows = []
    for row in one.rows[: max(20, min(60, len(one.standing_out)))]:
        cells: list[object] = [
            _named(row.name) if one.by == "function" else row.name[:300],
            word_of(row),
            Cell(
                fmt.quantity(row.a_ratio, "ratio"),
                result.counted(0, row.a_samples),
                figure=Figure(row.a_ratio),
            ),
            Cell(
                fmt.quantity(row.b_ratio, "ratio"),
                result.counted(1, row.b_samples),
                figure=Figure(row.b_ratio),
            ),
            written(points(row.difference_ratio), row.difference_ratio),
        ]
        if result.basis == RUNS:
            cells.append(_interval(row))
        rows.append([*cells, (row.module or "")[:_MODULE]] if has_modules else cells)
    caption = "" if len(rows) == len(one.rows) else f"{len(rows)} of {len(one.rows):,} rows"
    anchor = f"{one.by}-{one.measure}"
    shown = table(columns, rows, caption=caption)
    return Section(anchor, title, (shown,), judged, on_terminal=one.measure == OWN)


def _interval(row: Change) -> Cell | str:
    if row.low_ratio is None or row.high_ratio is None:
        return ""
    text = f"{points(row.low_ratio)} to {points(row.high_ratio)}"
    return Cell(text, figure=Figure(None, row.low_ratio, row.high_ratio))
