"""What ``steelyard fleet rue`` says: sections for its page and its terminal.

In: `RueResult`. Out: heading, cautions and `Section`s. Not here: figures (``fleet.rue.compare``).
"""

from __future__ import annotations

from dataclasses import replace

from steelyard.fleet.rue.clusters import Alike
from steelyard.fleet.rue.result import Comparison, Group, RueResult, SampleRatio, Speedup
from steelyard.fleet.rue.usage import NAME_PREFIX
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Chart,
    Column,
    Figure,
    Mark,
    Notes,
    Paragraph,
    Section,
    Series,
    Table,
    table,
    written,
)
from steelyard.stats.power import Need

GROUPS_AT_MOST = 60
"""Groups that are drawn; the table has all of them."""
_LOOKS = {
    "any": "is valid at every look",
    "once": "holds for one look at a time that was fixed before",
}


def rue(result: RueResult) -> Answer:
    """Return everything that ``fleet rue`` says; no where a total misleads."""
    several = any(comparison.by_first for comparison in result.comparisons)
    mix = ", of several groups at one mix of work" if several else ""
    subline = (
        f"RUE = usage / {result.work}, smaller is better; speedup = RUE 1 / RUE 2{mix}, bigger is better."
        f" {result.samples:,} task samples with the label {result.label!r}; the replicate is the"
        f" {result.replicate}; intervals of {result.confidence * 100:g} %."
    )
    compared = [section for comparison in result.comparisons for section in _comparison(comparison, result)]
    return Answer(
        f"RUE by {result.label}",
        result.comparisons[0].recommendation,
        [*compared, _assignment(result), _leaves_out(result)],
        result,
        (subline,),
        _cautions(result),
        says_no=result.total_refused,
    )


def _cautions(result: RueResult) -> list[str]:
    """Return the warnings of the page."""
    cautions = []
    for comparison in result.comparisons:
        if comparison.total is not None and comparison.total.refused:
            cautions.append(
                f"The total of {_name(comparison)} is refused: {'; '.join(comparison.total.refused)}."
            )
    cautions += [
        f"Sample-ratio mismatch (p {_p_value(ratio.p_value or 0.0)}): {ratio.question} No."
        for ratio in result.sample_ratios
        if ratio.mismatch and ratio.expected_shares is not None
    ]
    return cautions


def _comparison(comparison: Comparison, result: RueResult) -> list[Section]:
    anchor = f"{comparison.resource}-{result.comparisons.index(comparison)}"
    if comparison.missing is not None:
        return [Section(anchor, _name(comparison), (Paragraph(comparison.recommendation, "suspect"),))]
    level = {"adopt": "valid", "do not adopt": "invalid"}.get(comparison.decision.value)
    chart, groups = _forest(comparison, anchor, result), _groups(comparison, result)
    return [
        Section(
            anchor,
            _name(comparison),
            (
                Paragraph(comparison.recommendation, level),
                groups[0],
                chart,
                *_why(comparison, result),
                *groups[1:],
            ),
            intro=f"Usage in {comparison.unit}. Configuration 1 is {comparison.configurations[0]}, 2 is"
            f" {comparison.configurations[1]}.",
        ),
        Section(
            f"{anchor}-strata",
            f"Groups by {_factors(comparison)}: why",
            (_strata(comparison), _left_out(comparison)),
        ),
    ]


def _name(comparison: Comparison) -> str:
    return f"{comparison.resource}: {comparison.configurations[1]} against {comparison.configurations[0]}"


def _factors(comparison: Comparison) -> str:
    return ", ".join(comparison.choice.factors) or "nothing"


def _groups(comparison: Comparison, result: RueResult) -> list[Table]:
    total, fair = comparison.total, comparison.reweighted
    head, tail = [], []
    if total is not None:
        name = "total: refused" if total.refused else "total"
        first, second = (_share(share) for share in total.shares)
        head.append(
            [
                Cell(name, "; ".join(total.refused), is_text=True),
                _speedup(total.speedup, result.looks),
                _rue(total.rue[0]),
                _rue(total.rue[1]),
                first,
                second,
            ]
        )
    if fair is not None:
        covered = f"over {_share(fair.covered[0]).text} of what configuration 1 uses"
        tail.append(
            [
                Cell("at mix of 1", covered, is_text=True),
                _speedup(fair.speedup, result.looks),
                _rue(fair.rue[0]),
                _rue(fair.rue[1]),
                Figure(missing="all groups at one mix"),
                Figure(missing="all groups at one mix"),
            ]
        )
    # A group that holds others has its speedup at one mix, and its RUE at each configuration's own.
    own = ", own mix" if comparison.by_first else ""
    # What a narrow terminal has no room for is dropped from the right.
    columns: list[Column | str] = [
        "group",
        Column("speedup (interval)"),
        Column(f"RUE 1{own}"),
        Column(f"RUE 2{own}"),
        Column("share 1"),
        Column("share 2"),
    ]
    caption = (
        f"Shares are of samples; at mix of 1 is at configuration 1's mix of work. The interval"
        f" {_LOOKS[result.looks]}; the other one is in the title."
    )
    every = [_group(group, result.looks) for group in comparison.groups]
    if not comparison.by_first:
        return [table(columns, [*head, *every, *tail], caption=caption)]
    coarse = [_group(group, result.looks) for group in comparison.by_first]
    first_factor, factors = comparison.choice.factors[0], _factors(comparison)
    return [
        table(
            columns,
            [*head, *coarse, *tail],
            caption=f"{caption} Speedups by {first_factor} are at one mix of"
            f" {', '.join(comparison.choice.factors[1:])}; RUE 1 and 2 are at each configuration's own mix,"
            " so that their quotient may be another.",
        ),
        table(
            [
                name if isinstance(name, str) else replace(name, name=name.name.removesuffix(own))
                for name in columns
            ],
            every,
            title=f"By {factors}",
        ),
    ]


def _group(group: Group, looks: str) -> list[object]:
    name = " · ".join(group.levels) or "all"
    sizes = f"{group.replicates[0]:,} and {group.replicates[1]:,} replicates"
    speedup: object = Figure(missing=group.missing or "not compared")
    if group.speedup is not None:
        speedup = _speedup(group.speedup, looks)
    return [
        Cell(name, sizes, is_text=True),
        speedup,
        _rue(group.rue[0]),
        _rue(group.rue[1]),
        _share(group.shares[0]),
        _share(group.shares[1]),
    ]


def _share(value: float) -> Cell:
    return written(f"{value * 100:.2f} %", value)


def _rue(value: float | None) -> Cell | Figure:
    if value is None:
        return Figure(missing="operations of several jobs are not added")
    # Published figures are whole numbers of up to four digits.
    return written(fmt.significant(value, 4 if value >= 1 else 3), value)


def _speedup(speedup: Speedup, looks: str) -> Cell:
    span, other = (speedup.any_time, speedup.once) if looks == "any" else (speedup.once, speedup.any_time)
    if span is None or other is None:
        raw = f"{speedup.value!r}: {speedup.missing}"
        return Cell(f"{speedup.value:.2f}", raw, figure=Figure(speedup.value))
    qualifier = "for one look" if looks == "any" else "for any time"
    return Cell(
        f"{speedup.value:.2f} ({span[0]:.3f} to {span[1]:.3f})",
        f"{speedup.value!r}, {span[0]!r} to {span[1]!r}; {qualifier} {other[0]!r} to {other[1]!r}",
        figure=Figure(speedup.value, *span),
    )


def _forest(comparison: Comparison, anchor: str, result: RueResult) -> Chart:
    compared = [group for group in comparison.by_first or comparison.groups if group.speedup is not None][
        :GROUPS_AT_MOST
    ]
    names = [" · ".join(group.levels) or "all" for group in compared]
    series = [_points("groups", names, [g.speedup for g in compared if g.speedup], "blue", result.looks)]
    if comparison.reweighted is not None:
        series.append(
            _points(
                "at configuration 1's mix",
                ["at one mix"],
                [comparison.reweighted.speedup],
                "green",
                result.looks,
            )
        )
    if comparison.total is not None:
        word = "total, refused" if comparison.total.refused else "total"
        role = "red" if comparison.total.refused else "ink"
        series.append(_points(word, ["total"], [comparison.total.speedup], role, result.looks))
    more = len([g for g in comparison.by_first or comparison.groups if g.speedup is not None]) - len(compared)
    note = f"Intervals {_LOOKS[result.looks].replace('holds', 'hold').replace('is valid', 'are valid')}."
    return Chart(
        f"speedup-{anchor}",
        "Speedup by group",
        tuple(series),
        x_kind="name",
        y_title="RUE 1 / RUE 2",
        horizontal=True,
        marks=(Mark("y", 1.0, "no difference"),),
        note=note + (f" {more} more groups are in the table." if more else ""),
        height=150 + 26 * (len(compared) + 2),
    )


def _points(name: str, x: list[str], speedups: list[Speedup], role: str, looks: str) -> Series:
    spans = [speedup.interval(looks) for speedup in speedups]
    return Series(
        name,
        x,
        [speedup.value for speedup in speedups],
        kind="points",
        role=role,
        low=[None if span is None else span[0] for span in spans],
        high=[None if span is None else span[1] for span in spans],
        size=10,
    )


def _why(comparison: Comparison, result: RueResult) -> list[Paragraph | Notes]:
    blocks: list[Paragraph | Notes] = []
    if comparison.total is not None and comparison.total.refused:
        blocks.append(Paragraph(f"The total is refused: {'; '.join(comparison.total.refused)}.", "invalid"))
    notes = []
    if comparison.reweighted is not None:
        notes.append(
            "The mixes alone move the total's speedup by a factor of"
            f" {fmt.significant(comparison.reweighted.mix_ratio)}."
        )
    if comparison.alike is not None:
        notes.append(_alike(comparison.alike, result.replicate))
    notes += _needs(
        comparison.need,
        comparison,
        result.replicate if comparison.alike is None else f"group by {comparison.alike.name}",
    )
    if comparison.no_usage:
        notes.append(
            f"{comparison.no_usage:,} samples have no figure for {comparison.resource} and are left out."
        )
    blocks.append(Notes(tuple(notes)))
    return blocks


def _several(unit: str) -> str:
    """Return the plural of a unit.

    >>> _several("machine"), _several("group by rack")
    ('machines', 'groups by rack')
    """
    return unit.replace("group by", "groups by") if unit.startswith("group by") else f"{unit}s"


def _alike(alike: Alike, replicate: str) -> str:
    """Return which replicates are grouped, and why."""
    name = "the beginning of machines' names" if alike.name == NAME_PREFIX else alike.name
    why = "as declared" if alike.declared else "the variance between groups is too large for chance"
    if alike.assigned:
        why = "configurations were given to whole groups" + (", as declared" if alike.declared else "")
    groups = f"{alike.groups[0]:,} groups with configuration 1, {alike.groups[1]:,} with 2"
    effect = ""
    if alike.design_effect is not None:
        effect = f"; that multiplies the variance by {fmt.significant(alike.design_effect)}"
    return f"The draw is a group by {name}, not a {replicate}: {why} ({groups}){effect}."


def _needs(need: Need | None, comparison: Comparison, replicate: str) -> list[str]:
    if need is None:
        return []
    if need.enough:
        return [f"There are enough {_several(replicate)} to detect the smallest difference that matters."]
    parts = [
        f"{total:,} {_several(replicate)} with {name} ({more:,} more)"
        for total, more, name in zip(need.replicates, need.more, comparison.configurations, strict=True)
        if more > 0
    ]
    return [f"To detect the smallest difference that matters takes about {' and '.join(parts)}."]


def _strata(comparison: Comparison) -> Table:
    return table(
        [
            "factor",
            Column("variance explained with it", "ratio"),
            Column("of replicates held out", "ratio"),
            "",
        ],
        [
            [
                step.factor,
                step.explained_ratio,
                step.held_out_ratio,
                "taken in any case" if step.factor in comparison.choice.forced else "",
            ]
            for step in comparison.choice.steps
        ],
        caption="Variance of log RUE, weighted by usage, without the configurations' own difference.",
    )


def _left_out(comparison: Comparison) -> Notes:
    return Notes(
        tuple(f"{name}: {reason}" for name, reason in comparison.choice.left_out.items()), "Not stratified by"
    )


def _assignment(result: RueResult) -> Section:
    rows = [_ratio_row(ratio) for ratio in result.sample_ratios]
    note = Notes(
        (
            "A split that differs between groups is no error by itself: it is why totals mislead and"
            " groups are compared one by one. A declared split that was not kept is one.",
        )
    )
    columns: list[Column | str] = [
        "question",
        "answer",
        Column("p-value"),
        "method",
        Column("units 1"),
        Column("units 2"),
    ]
    blocks = (
        (table(columns, rows), note) if rows else (Paragraph("No split was declared, nor groups found."),)
    )
    return Section("assignment", "Assignment of configurations", blocks)


def _ratio_row(ratio: SampleRatio) -> list[object]:
    if ratio.p_value is None:
        answer: object = Figure(missing=ratio.missing or "not tested")
        return [ratio.question, answer, answer, ratio.missing or "", *ratio.counts]
    word = Cell(
        "no" if ratio.mismatch else "nothing speaks against it",
        level=("invalid" if ratio.expected_shares is not None else "suspect") if ratio.mismatch else "valid",
        is_text=True,
    )
    shown = _p_value(ratio.p_value).removeprefix("= ")
    return [ratio.question, word, written(shown, ratio.p_value), ratio.method, *ratio.counts]


def _p_value(value: float) -> str:
    """Return a p-value with its relation.

    >>> _p_value(0.0312), _p_value(1e-80)
    ('= 0.031', '< 0.0001')
    """
    return "< 0.0001" if value < 1e-4 else f"= {value:.2g}"


def _leaves_out(result: RueResult) -> Section:
    items = [
        "A change that costs one group and helps another has no single figure; look at the groups.",
        *result.notes,
    ]
    if result.no_work:
        items.append(f"{result.no_work:,} samples have no figure for {result.work} and are left out.")
    return Section("notes", "Skipped data", (Notes(tuple(items)),))
