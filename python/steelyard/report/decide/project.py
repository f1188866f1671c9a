"""The answer of ``steelyard project``: projections, their error, suites, and what to measure next.

In: a `Projection`. Out: an `Answer`. The charts have the shape of DCPerf's Figures 2 and 3: performance over
the calibration machine, and the error where the truth is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.decide.projection.result import ProjectedMachine, Projection, plural, singular
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Notes,
    Section,
    Series,
    Table,
    table,
    written,
)
from steelyard.report.decide.project_words import factor, heading, notes, sentences

_BARS_AT_MOST = 24
"""Machines that a bar chart has room for; more are points."""
_GROUPS_AT_MOST = 40


def answer(found: Projection, command: str, source: str) -> Answer:
    """Return the answer."""
    sections = [
        Section("projections", "Projections", tuple(_projections(found))),
        Section("error", "Error", tuple(_errors(found)), grid=True),
        Section(
            "siblings",
            "With machines of the same " + singular(found.group_attribute),
            tuple(_siblings(found)),
        ),
        Section("suites", "Suites", tuple(_suites(found))),
        Section("results", "Results", tuple(_worths(found))),
        Section("learning", "How many to measure", tuple(_learning(found))),
        Section("next", "Measure next", tuple(_next(found))),
        Section("contradictions", "Contradictions", tuple(_contradictions(found))),
        Section("data", "Data", tuple(_data(found))),
    ]
    return Answer(
        "Projection",
        heading(found),
        [section for section in sections if section.blocks],
        lines=sentences(found),
        cautions=notes(found),
        eyebrow="projection",
        command=command,
        source=source,
    )


def _projections(found: Projection) -> list[Block]:
    fresh = [machine for machine in found.machines if machine.is_new]
    shown = fresh or list(found.machines)
    return [_over_calibration(found, shown), _machines(found, shown, is_new=bool(fresh))]


def _over_calibration(found: Projection, shown: Sequence[ProjectedMachine]) -> Chart:
    """Return Figure 2: performance over the calibration machine, or projected against measured."""
    base = next(machine for machine in found.machines if machine.name == found.calibration)
    scale = base.actual
    known = [machine for machine in shown if machine.projected is not None]
    if scale is None or not known:
        return Chart("performance", "Performance", (), missing="no machine is projected")
    if len(found.machines) <= _BARS_AT_MOST:
        every = [machine for machine in found.machines if machine.projected is not None]
        names = [machine.name for machine in every]
        has_spans = any(machine.low is not None for machine in every)
        series = [
            Series(
                "projected",
                names,
                [_over(machine.projected, scale) for machine in every],
                kind="bar",
                role="orange",
                low=[_over(machine.low, scale) for machine in every] if has_spans else None,
                high=[_over(machine.high, scale) for machine in every] if has_spans else None,
            ),
            Series(
                "measured",
                names,
                [_over(machine.actual, scale) for machine in every],
                kind="bar",
                role="blue",
            ),
        ]
        title = f"{found.target} over {found.calibration}"
        return Chart("performance", title, tuple(series), x_kind="name", from_zero=True, wide=True)
    truths = [machine for machine in found.machines if machine.actual and machine.projected]
    values = [machine.actual for machine in truths if machine.actual is not None]
    if not values:
        return Chart("performance", "Performance", (), missing="the target is known on no machine")
    ends = [min(values), max(values)]
    series = [
        Series("equal", ends, ends, role="ink", dash="dot"),
        Series(
            "machines",
            values,
            [machine.projected for machine in truths],
            kind="points",
            size=5,
            labels=[machine.name for machine in truths],
        ),
    ]
    return Chart(
        "performance",
        "Projected against measured, each without its own " + singular(found.group_attribute),
        tuple(series),
        x_title="measured",
        y_title="projected",
        x_unit=found.unit,
        y_unit=found.unit,
        x_log=True,
        y_log=True,
        wide=True,
        height=420,
    )


def _over(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _machines(found: Projection, shown: Sequence[ProjectedMachine], *, is_new: bool) -> Table:
    ordered = sorted(shown, key=lambda one: -(one.projected or 0.0)) if is_new else sorted(
        shown, key=lambda one: -abs(one.error_ratio or 0.0)
    )  # fmt: skip
    has_groups = found.group_attribute != "machine"
    columns = [
        Column("machine", is_text=True, is_whole=True),
        *([Column(found.group_attribute, is_text=True, rank=3)] if has_groups else []),
        Column("projected", found.unit, is_answer=True),
    ]
    if not is_new:
        columns += [Column("measured", found.unit), Column("error", "ratio")]
    columns += [Column(f"over {found.calibration}", rank=2)]
    if is_new:
        columns += [Column("known siblings", "count", rank=1)] if has_groups else []
        columns += [Column("remark", is_text=True, rank=4)]
    rows = []
    for one in ordered:
        cells: list[object] = [
            one.name,
            *([one.group] if has_groups else []),
            Figure(one.projected, one.low, one.high, missing=one.missing or ""),
        ]
        if not is_new:
            cells += [one.actual, signed(one.error_ratio)]
        cells += [one.over_calibration]
        if is_new:
            cells += [one.siblings] if has_groups else []
            cells += ["; ".join(_remarks(one))]
        rows.append(cells)
    title = "" if is_new else "Machines whose target is known, largest error first"
    percent = f"{found.confidence * 100:g} %"
    has_spans = any(one.low is not None for one in shown)
    caption = f"In brackets the interval of {percent}." if has_spans else ""
    return table(columns, rows, title=title, caption=caption)


def _remarks(machine: ProjectedMachine) -> list[str]:
    """Return why a machine has no projection, or what stands against it."""
    twin = [] if machine.same_as is None else [f"exactly the results of {machine.same_as}"]
    return [*([] if machine.missing is None else [machine.missing]), *machine.flags, *twin]


def signed(ratio: float | None) -> Cell | None:
    """Return an error with its sign; several times too much as a factor."""
    if ratio is None:
        return None
    text = factor(ratio + 1) if ratio > 1 else f"{ratio * 100:+.1f}\u202f%"
    return written(text, ratio)


def _errors(found: Projection) -> list[Block]:
    if not found.groups:
        return []
    shown = found.groups[:_GROUPS_AT_MOST]
    is_forward = found.is_forward
    names = [one.name for one in shown]
    chart = Chart(
        "error",
        "Median error by " + ("year" if is_forward else found.group_attribute),
        (
            Series(
                "median error",
                names,
                [one.median_error_ratio for one in shown],
                kind="bar",
                role="orange",
            ),
        ),
        y_unit="ratio",
        x_kind="name",
        horizontal=True,
        height=max(260, 22 * len(shown) + 80),
        from_zero=True,
    )
    columns = [
        Column(found.group_attribute if not is_forward else "year", is_text=True),
        Column("machines", "count"),
        Column("median error", "ratio", is_answer=True),
        Column("bias", "ratio"),
    ]
    rows = [(one.name, one.machines, one.median_error_ratio, signed(one.bias_ratio)) for one in found.groups]
    others = "earlier ones" if is_forward else "the others"
    return [chart, table(columns, rows, caption=f"Each projected from {others} alone.")]


def _siblings(found: Projection) -> list[Block]:
    if not found.siblings:
        return []
    columns = [
        Column("machines measured", "count"),
        Column("median error", "ratio", is_answer=True),
        Column("90th percentile", "ratio"),
    ]
    rows = [(one.siblings, one.median_error_ratio, one.p90_error_ratio) for one in found.siblings]
    caption = (
        f"Error on the other machines of a {singular(found.group_attribute)}, some of which are measured."
    )
    return [table(columns, rows, caption=caption)]


def _suites(found: Projection) -> list[Block]:
    if not found.suites:
        return []
    columns = [
        Column("suite", is_text=True),
        Column("results", "count"),
        Column("scaled, median error", "ratio"),
        Column("90th percentile", "ratio", rank=1),
    ]
    has_model = any(one.model_median_error_ratio is not None for one in found.suites)
    if has_model:
        columns += [
            Column("model, median error", "ratio", is_answer=True),
            Column("90th percentile of it", "ratio"),
        ]
    rows = []
    for one in found.suites:
        cells: list[object] = [
            one.name,
            len(one.results),
            one.scaled_median_error_ratio,
            one.scaled_p90_error_ratio,
        ]
        of_model = [one.model_median_error_ratio, one.model_p90_error_ratio] if has_model else []
        rows.append([*cells, *of_model])
    model = " The model has the suite and the machine's attributes." if has_model else ""
    caption = f"Scaled: the suite's geometric mean, in proportion to the target.{model}"
    names = [one.name for one in found.suites]
    series = [Series("scaled", names, [one.scaled_median_error_ratio for one in found.suites], kind="bar")]
    if has_model:
        errors = [one.model_median_error_ratio for one in found.suites]
        series.append(Series("model", names, errors, kind="bar", role="orange"))
    chart = Chart(
        "suites",
        "Median error by suite",
        tuple(series),
        y_unit="ratio",
        x_kind="name",
        horizontal=True,
        height=max(260, 44 * len(names) + 80),
        from_zero=True,
    )
    return [chart, table(columns, rows, caption=caption)]


def _worths(found: Projection) -> list[Block]:
    if not found.worths:
        return []
    columns = [
        Column("result", is_text=True),
        Column("error grows when shuffled", "ratio", is_answer=True),
        Column("alone, median error", "ratio"),
        Column("90th percentile", "ratio", rank=1),
        Column("misleads most on", is_text=True, rank=2),
        Column("by", is_text=True, rank=2),
    ]
    rows = [
        (
            one.name,
            None if one.loss_ratio is None else signed(one.loss_ratio),
            one.scaled_median_error_ratio,
            one.scaled_p90_error_ratio,
            one.most_misled or "",
            "" if one.misled_ratio is None else times(one.misled_ratio),
        )
        for one in found.worths
    ]
    return [table(columns, rows)]


def times(ratio: float) -> str:
    """Return how many times too high or too low.

    >>> times(2.0), times(0.25)
    ('2.0x too high', '4.0x too low')
    """
    return f"{factor(ratio)} too high" if ratio >= 1 else f"{factor(1 / ratio)} too low"


def _learning(found: Projection) -> list[Block]:
    if not found.learning:
        return []
    groups = [one.groups for one in found.learning]
    chart = Chart(
        "learning",
        f"Error by {plural(found.group_attribute)} measured",
        (
            Series("median", groups, [one.median_error_ratio for one in found.learning], role="orange"),
            Series("90th percentile", groups, [one.p90_error_ratio for one in found.learning], role="blue"),
        ),
        x_title=f"{plural(found.group_attribute)} measured",
        y_unit="ratio",
        y_log=True,
    )
    columns = [
        Column(plural(found.group_attribute), "count"),
        Column("machines", "count"),
        Column("median error", "ratio", is_answer=True),
        Column("90th percentile", "ratio"),
    ]
    rows = [(one.groups, one.machines, one.median_error_ratio, one.p90_error_ratio) for one in found.learning]
    caption = "Mean of three random choices, by a smaller model than that of the projections."
    return [chart, table(columns, rows, caption=caption)]


def _next(found: Projection) -> list[Block]:
    if not found.next:
        return []
    columns = [
        Column("machine", is_text=True, is_whole=True),
        Column(found.group_attribute, is_text=True, rank=1),
        Column("intervals narrowed", "count"),
        Column("half-width now", "ratio"),
        Column("then", "ratio", is_answer=True),
    ]
    rows = [
        (one.name, one.group, one.narrowed, one.half_width_before_ratio, one.half_width_after_ratio)
        for one in found.next
    ]
    return [table(columns, rows)]


def _contradictions(found: Projection) -> list[Block]:
    if not found.contradictions:
        return []
    columns = [
        Column(found.group_attribute, is_text=True),
        Column("CPUs", "count"),
        Column("machines", "count"),
        Column("target, highest over lowest", is_answer=True),
        Column("results, highest over lowest", rank=1),
        Column("lowest", is_text=True, is_whole=True, rank=2),
        Column("highest", is_text=True, is_whole=True, rank=2),
    ]
    rows = [
        (one.group, one.cpus, one.machines, one.target_ratio, one.results_ratio, one.lowest, one.highest)
        for one in found.contradictions
    ]
    caption = "Alike by most results and not by the target: a projection can hardly distinguish them."
    return [table(columns, rows, caption=caption)]


def _data(found: Projection) -> list[Block]:
    items = [*found.notes]
    if found.left_out_results:
        items.append(
            f"Not used, since measured together with the target: {fmt.listed(found.left_out_results, 6)}."
            " --use takes them."
        )
    items.append(f"Projected from {fmt.listed(found.results, 20)}.")
    return [Notes(tuple(items))]
