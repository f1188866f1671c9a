"""A scaling curve on a terminal: what it says, a line for each step, the law, the loss, the functions.

In: a `Scaling`. Out: renderables for a `rich` console. Not here: the page (``page``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.analyze.profiles.hot_functions import Diagnosis
from steelyard.analyze.scaling.curve import ERRORS, LATENCY, LATENCY_P50, LATENCY_P99, Step
from steelyard.analyze.scaling.loss import FREQUENCY, NO_LOSS, RUN, USE, Loss, LossTerm
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.report import format as fmt
from steelyard.report.terminal import safe
from steelyard.stats.scalability import LawFit, Parameter

FUNCTIONS = 5
_MISFIT = 0.01


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
    found = []
    if len(known) > 1 and scaling.speedup is not None:
        ratio = scaling.efficiency_of(known[-1])
        found.append(
            f"{fmt.several(known[-1].cpus, scaling.noun)} do {fmt.plain(times(scaling.speedup))} the work of"
            f" {known[0].cpus},"
            f" {fmt.plain(fmt.quantity(ratio, 'ratio'))} of linear"
        )
    found += [limit.claim for limit in scaling.limits]
    loss = scaling.loss
    if loss is not None and (loss.factor.value or 0.0) >= NO_LOSS:
        found.append(
            f"each {loss.noun} does {times(loss.factor.value)} less at {loss.high_cpus} {scaling.noun}s than"
            f" at {loss.low_cpus}: {loss.cause}"
        )
    if scaling.functions is not None:
        found.append(_function(scaling, scaling.functions))
    if scaling.fit is not None:
        found.append(peak_sentence(scaling.fit, scaling.noun))
    return found


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


def peak_sentence(fit: LawFit, noun: str = "CPU") -> str:
    """Return what the law says of the peak."""
    peak = fit.peak
    if not peak.is_identified:
        return f"peak not known: {_of(peak.reason, noun)}"
    return f"peak predicted at {_number(peak)} {noun}s, {_number(fit.peak_throughput, '1/s')}"


def _of(reason: str | None, noun: str) -> str:
    """Return a reason of the law's with what the steps count: threads are not CPUs.

    >>> _of("the steps up to 32 CPUs show no peak", "thread")
    'the steps up to 32 threads show no peak'
    """
    return (reason or "").replace("CPUs", f"{noun}s").replace("CPU", noun)


def _number(one: Parameter, unit: str = "1") -> str:
    """Return a parameter with its interval."""

    def text(value: float | None) -> str:
        if value is None:
            return fmt.MISSING
        return "unbounded" if math.isinf(value) else fmt.plain(fmt.quantity(value, unit))

    if one.low is None or one.high is None:
        return text(one.value)
    return f"{text(one.value)} ({text(one.low)} to {text(one.high)})"


def step_columns(scaling: Scaling) -> list[tuple[str, Callable[[Step], str]]]:
    """Return the columns of the steps' table for which any step has a value, and what makes their cells."""

    def reading(name: str, unit: str) -> Callable[[Step], str]:
        return lambda step: fmt.plain(fmt.quantity(step.readings.get(name), unit))

    def law(step: Step) -> str:
        value = None if scaling.fit is None else scaling.fit.throughput(step.cpus)
        return fmt.plain(fmt.quantity(value, "1/s"))

    every: list[tuple[str, Callable[[Step], str]]] = [
        ("throughput", lambda step: fmt.plain(fmt.quantity(step.ops_per_s, "1/s"))),
        ("of linear", lambda step: fmt.plain(fmt.quantity(scaling.efficiency_of(step), "ratio"))),
        ("law", law),
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
    return [(name, make) for name, make in every if any(make(step) != fmt.MISSING for step in scaling.steps)]


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
    fit = scaling.fit
    if fit is not None and fit.misfit_p_value is not None and fit.misfit_p_value < _MISFIT:
        found.append(
            f"steps are up to {fit.misfit_ratio:.1%} from the law, more than noise explains: see where the"
            " curve bends"
        )
    if scaling.functions_missing is not None:
        found.append(f"no function is named: {scaling.functions_missing}")
    return found


def parameters(fit: LawFit, noun: str = "CPU") -> list[tuple[str, str, str]]:
    """Return name, figure and meaning of each parameter of the law."""
    rows = []
    for name, unit, meaning in (
        ("rate", "1/s", f"throughput of one {noun}"),
        ("contention", "1", f"share of the work that one {noun} can do at a time"),
        ("coherency", "1", f"what each {noun} waits for each other one"),
    ):
        one: Parameter = getattr(fit, name)
        if name == "contention" and (one.value or 0.0) > 1:
            meaning = f"above 1: a second {noun} costs more than it does, so that this is no share"
        said = meaning if one.is_identified else _of(one.reason, noun) or meaning
        rows.append((name, _number(one, unit), said))
    return rows


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
        table.add_column(name, justify="right")
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
    """Return the curve: what it says, steps, law, loss, functions, notes."""
    parts: list[RenderableType] = [safe(sentence) for sentence in sentences(scaling)]
    parts += [Text(), _steps(scaling)]
    if scaling.fit is not None and scaling.fit.contention.value is not None:
        parts.append(
            _rows(
                "Universal Scalability Law", ("parameter", "value", ""), parameters(scaling.fit, scaling.noun)
            )
        )
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
