"""A scaling curve on a terminal: what it says, its steps, predictions, the law, the loss, the functions.

In: a `Scaling`. Out: renderables for a `rich` console. Not here: the page (``page``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.profiles.hot_functions import Diagnosis
from steelyard.analyze.scaling.curve import ERRORS, LATENCY, LATENCY_P50, LATENCY_P99, READINGS, Step
from steelyard.analyze.scaling.loss import FREQUENCY, RUN, USE, Loss, LossTerm
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.report import format as fmt
from steelyard.report.scale.model import (
    PREDICTION_COLUMNS,
    law_title,
    misfit_sentence,
    model_notes,
    model_sentence,
    parameters,
    peak_sentence,
    prediction_rows,
)
from steelyard.report.terminal import safe

FUNCTIONS = 5


def exact(value: float | None) -> str:
    """Return a ratio of counts with six decimals, as ``perf`` reports are compared by; large ones with fewer.

    >>> exact(0.3630827893), exact(None), exact(4377970203645.0), exact(12345.678)
    ('0.363083', '–', '4,377,970,203,645', '12,345.68')
    """
    if value is None:
        return fmt.MISSING
    return f"{value:,.{6 if abs(value) < 1e3 else 2 if abs(value) < 1e6 else 0}f}"


def sentences(scaling: Scaling) -> list[str]:
    """Return what the curve says, the answer first."""
    known = [step for step in scaling.steps if step.ops_per_s is not None]
    if not known:
        return ["no step has a throughput"]
    misfit = misfit_sentence(scaling.curve)
    found = [] if misfit is None else [misfit]
    if len(known) > 1 and scaling.speedup is not None:
        ratio = scaling.efficiency_of(known[-1])
        found.append(
            f"{fmt.several(known[-1].cpus, scaling.noun)} do {fmt.plain(times(scaling.speedup))} the work of"
            f" {known[0].cpus},"
            f" {fmt.plain(fmt.quantity(ratio, 'ratio'))} of linear{_range(known[0], known[-1])}"
        )
    bend = None if scaling.curve is None else model_sentence(scaling.curve, scaling.noun)
    found += [] if bend is None else [bend]
    found += [limit.claim for limit in scaling.limits]
    loss = scaling.loss
    if loss is not None and loss.is_clear:
        cause = f"the cause is {loss.cause}" if loss.cause.startswith("not known") else loss.cause
        found.append(
            f"each {loss.noun} does {times(loss.factor.value)} less at {loss.high_cpus} {scaling.noun}s than"
            f" at {loss.low_cpus}: {cause}"
        )
    if scaling.functions is not None:
        found.append(_function(scaling, scaling.functions))
    if scaling.fit is not None:
        found.append(peak_sentence(scaling.fit, scaling.noun))
    return found


def _range(first: Step, last: Step) -> str:
    """Return the least and the largest share of linear of any block, where there are several."""
    ratios = [
        value / last.cpus / (first.by_block[block] / first.cpus)
        for block, value in last.by_block.items()
        if first.by_block.get(block)
    ]
    if len(ratios) < 2:
        return ""
    low, high = (fmt.plain(fmt.quantity(ratio, "ratio")) for ratio in (min(ratios), max(ratios)))
    return f" ({low} to {high} in {len(ratios)} blocks)"


def times(factor: float | None) -> str:
    """Return a factor: 20.9x."""
    return fmt.MISSING if factor is None else f"{fmt.significant(factor)}x"


def share(ratio: float | None) -> str:
    """Return a share of samples with the two decimals that ``perf report`` prints."""
    return "not listed" if ratio is None else f"{ratio:.2%}"


def _function(scaling: Scaling, found: Diagnosis) -> str:
    grown = scaling.grown
    if grown is None:
        return "no function's share grew by more than sampling alone explains"
    moves = ", ".join(
        f"{share(grown.before[event])} to {share(grown.after[event])} of {event}" for event in grown.after
    )
    part = grown.share_of_change.value
    weight = "" if part is None else f": {part:.0%} of what each operation costs more"
    return f"function that grew most: {grown.function}, from {moves}{weight}"


def step_columns(scaling: Scaling) -> list[tuple[str, Callable[[Step], str]]]:
    """Return the columns of the steps' table for which any step has a value, and what makes their cells."""

    def reading(name: str, unit: str) -> Callable[[Step], str]:
        return lambda step: fmt.plain(fmt.quantity(step.readings.get(name), unit))

    def law(step: Step) -> str:
        value = None if scaling.curve is None else scaling.curve.throughput(step.cpus)
        return fmt.plain(fmt.quantity(value, "1/s"))

    every: list[tuple[str, Callable[[Step], str]]] = [
        ("throughput", lambda step: fmt.plain(fmt.quantity(step.ops_per_s, "1/s"))),
        ("of linear", lambda step: fmt.plain(fmt.quantity(scaling.efficiency_of(step), "ratio"))),
        ("model", law),
        ("CPU use", lambda step: fmt.plain(fmt.quantity(step.busy_ratio, "ratio"))),
        ("others", lambda step: fmt.plain(fmt.quantity(step.others_ratio, "ratio"))),
        ("path length", lambda step: exact(step.law.path_length.value)),
        ("CPI", lambda step: exact(step.law.cpi.value)),
        ("frequency", lambda step: fmt.plain(fmt.quantity(step.law.frequency_hz.value, "hz"))),
        ("latency", reading(LATENCY, "ns")),
        ("p50", reading(LATENCY_P50, "ns")),
        ("p99", reading(LATENCY_P99, "ns")),
        ("errors", reading(ERRORS, "ratio")),
    ]
    every += [(name, reading(name, unit_of(name))) for name in asked_readings(scaling)]
    return [(name, make) for name, make in every if any(make(step) != fmt.MISSING for step in scaling.steps)]


def asked_readings(scaling: Scaling) -> list[str]:
    """Return the names of numbers that a user took from the output and that no figure of ours has."""
    return sorted({name for step in scaling.steps for name in step.readings} - READINGS.keys())


def unit_of(name: str) -> str:
    """Return the unit of a number that a user named: ns where the name ends so, else none."""
    return "ns" if name.endswith("_ns") else "1"


def where(step: Step) -> str:
    """Return which CPUs a step has."""
    if step.listed is None:
        return ""
    shared = ", sharing cores" if step.shares_cores else ""
    nodes = f", {step.nodes} nodes" if step.nodes is not None and step.nodes > 1 else ""
    return f"{step.listed}{shared}{nodes}"


def notes(scaling: Scaling) -> list[str]:
    """Return what to know before believing the curve."""
    found = list(scaling.notes)
    for step in scaling.steps:
        if step.lost:
            lost = fmt.several(len(step.lost), "trial")
            found.append(f"{fmt.several(step.cpus, step.noun)}: {lost} without a value: {step.lost[0]}")
    loss = scaling.loss
    if loss is not None and loss.caveat is not None:
        found.append(loss.caveat)
    reasons = [step.law.cpi.missing for step in scaling.steps if step.law.cpi.missing]
    if reasons:
        found.append(f"CPI and path length are not known: {reasons[0]}")
    if scaling.curve is not None:
        found += model_notes(scaling.curve)
    if scaling.functions_missing is not None:
        found.append(f"no function is named: {scaling.functions_missing}")
    return found


def figure_of(term: LossTerm, value: float | None) -> str:
    """Return the figure of a term of the loss."""
    if value is None:
        return fmt.MISSING
    if term.name in (USE, RUN):
        return fmt.plain(fmt.quantity(value, "ratio"))
    if term.name == FREQUENCY or term.low.unit == "1/s":
        return fmt.plain(fmt.quantity(value, "hz"))
    return fmt.plain(fmt.quantity(value, "s")) if term.low.unit == "s" else exact(value)


def _steps(scaling: Scaling) -> RenderableType:
    columns = step_columns(scaling)
    has_lists = any(step.listed for step in scaling.steps)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"{scaling.noun}s", justify="right")
    for name, _ in columns:
        table.add_column(safe(name), justify="right")
    if has_lists:
        table.add_column("which")
    for step in scaling.steps:
        row = [str(step.cpus), *(make(step) for _, make in columns)]
        table.add_row(*row, *([where(step)] if has_lists else []))
    return table


def _rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(safe(cell) for cell in row))
    return table


def loss_rows(loss: Loss) -> list[tuple[str, str, str, str, str]]:
    """Return name, both figures, factor and share of each term."""
    return [
        (
            term.name,
            figure_of(term, term.low.value),
            figure_of(term, term.high.value),
            times(term.factor.value),
            fmt.plain(fmt.quantity(term.share.value, "ratio")),
        )
        for term in loss.terms
    ]


def summary(scaling: Scaling) -> RenderableType:
    """Return the curve: what it says, steps, predictions, law, loss, functions, notes."""
    parts: list[RenderableType] = [safe(sentence) for sentence in sentences(scaling)]
    parts += [Text(), _steps(scaling)]
    if scaling.predictions:
        names = (f"{scaling.noun}s", *PREDICTION_COLUMNS)
        parts.append(_rows("Predicted throughput of a trial", names, prediction_rows(scaling)))
    if scaling.fit is not None and scaling.fit.contention.value is not None:
        rows = parameters(scaling.fit, scaling.noun)
        parts.append(_rows(law_title(scaling), ("parameter", "value", ""), rows))
    loss = scaling.loss
    if loss is not None and loss.terms:
        ends = (fmt.several(loss.low_cpus, scaling.noun), fmt.several(loss.high_cpus, scaling.noun))
        names = (f"loss per {loss.noun}", *ends, "factor", "share")
        parts.append(_rows("", names, loss_rows(loss)))
    if scaling.functions is not None and scaling.grown is not None:
        event = scaling.functions.event
        rows = [
            (one.function, share(one.before[event]), share(one.after[event]))
            for one in scaling.functions.functions[:FUNCTIONS]
        ]
        parts.append(_rows("", (f"function, by {event}", "first step", "last step"), rows))
    parts += [safe(f"!  {note}") for note in notes(scaling)]
    return Group(*parts)
