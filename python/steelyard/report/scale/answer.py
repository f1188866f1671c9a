"""The answer of ``steelyard scale``: throughput with its model and predictions, steps, the loss, functions.

In: a `Scaling`. Out: an `Answer`. Not here: its sentences (``words``, ``model``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steelyard._base import command_text
from steelyard.analyze.scaling.curve import ERRORS, LATENCY, LATENCY_P50, LATENCY_P99, READINGS, Step
from steelyard.analyze.scaling.loss import FREQUENCY, RUN, USE, LossTerm
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.analyze.values import declared_unit
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Section,
    Series,
    Table,
    table,
    written,
)
from steelyard.report.scale.model import law_title, number, of_noun, parameter_meanings
from steelyard.report.scale.words import exact, notes, sentences, share, times
from steelyard.stats.scaling.law import Parameter
from steelyard.stats.scaling.prediction import Prediction

FUNCTIONS = 20
_POINTS = 120


def answer(scaling: Scaling, *, source: str, experiment: Experiment | None = None) -> Answer:
    """Return the answer; ``source`` says where the curve is from that no experiment measured."""
    first, *others = sentences(scaling)
    limits = [limit for limit in scaling.limits if limit.id in ("idle", "errors")]
    sections = [
        Section("throughput", "Throughput", (_throughput(scaling), _steps(scaling))),
        Section("predictions", "Predicted throughput of a trial", tuple(_predictions(scaling))),
        Section("steps", "Step by step", tuple(_by_step(scaling)), grid=True, on_terminal=False),
        Section("loss", "Scaling loss", tuple(_loss(scaling))),
        Section("functions", "Functions", tuple(_functions(scaling))),
        Section("law", law_title(scaling), tuple(_law(scaling))),
    ]
    return Answer(
        "Scaling",
        first,
        [section for section in sections if section.blocks],
        lines=others,
        cautions=notes(scaling),
        says_no=bool(limits) or scaling.speedup is None,
        level="invalid" if limits else None,
        verdict="the workload cannot use the machine" if limits else "",
        eyebrow=(experiment.benchmark or "command") if experiment is not None else "measured elsewhere",
        command=command_text(experiment.command) if experiment is not None else "",
        command_title="Measured by",
        source="experiment.json" if experiment is not None else source,
    )


def _throughput(scaling: Scaling) -> Chart:
    known = [step for step in scaling.steps if step.ops_per_s is not None]
    series = [
        Series(
            "measured",
            [step.cpus for step in known for _ in step.by_block],
            [value for step in known for value in step.by_block.values()],
            kind="points",
            size=7,
        )
    ]
    curve = scaling.model
    if known:
        first = known[0]
        ends = [first.cpus, known[-1].cpus]
        per_cpu = (first.ops_per_s or 0.0) / first.cpus
        series.append(Series("linear", ends, [per_cpu * end for end in ends], role="ink", dash="dot"))
    if known and curve is not None and curve.throughput(known[-1].cpus) is not None:
        last = known[-1].cpus
        grid = sorted({max(1, round(last * point / _POINTS)) for point in range(1, _POINTS + 1)})
        series.append(Series("model", grid, [curve.throughput(cpus) for cpus in grid], role="orange"))
    # Points over lines: readings that lie on the model would else be hidden by it.
    series = [*series[1:], series[0]]
    predicted = [one for one in scaling.predictions if one.ops_per_s is not None]
    if predicted:
        counts = [one.cpus for one in predicted]
        means, lows, highs = zip(*((one.ops_per_s, one.low, one.high) for one in predicted), strict=True)
        series += [
            Series("predicted", counts, means, kind="points", size=7, role="red"),
            Series("predicted, from", counts, lows, kind="points", size=4, role="red"),
            Series("predicted, to", counts, highs, kind="points", size=4, role="red"),
        ]
    return Chart(
        "throughput",
        f"Throughput by {scaling.noun}s",
        tuple(series),
        x_title=f"{scaling.noun}s",
        y_title="operations per second",
        y_unit="1/s",
        from_zero=True,
        missing="" if known else "no step has a throughput",
    )


@dataclass(frozen=True)
class _StepColumn:
    """A column of the steps' table: its figure at a step, and why there is none."""

    name: str
    unit: str
    of: Callable[[Step], float | None]
    why: Callable[[Step], str | None] = lambda _: None
    is_exact: bool = False
    """Whether it is a ratio of counts, which is written with six decimals."""

    def cell(self, step: Step) -> Cell | Figure:
        """Return the figure of a step."""
        value = self.of(step)
        if value is None:
            return Figure(missing=self.why(step) or "")
        return written(exact(value), value) if self.is_exact else Figure(value)


def _reading(name: str, label: str, unit: str) -> _StepColumn:
    return _StepColumn(label, unit, lambda step: step.readings.get(name), lambda step: step.missing.get(name))


def _step_columns(scaling: Scaling) -> list[_StepColumn]:
    """Return the columns for which any step has a value."""
    curve = scaling.model
    asked = sorted({name for step in scaling.steps for name in step.readings} - READINGS.keys())
    every = [
        _StepColumn(
            "throughput", "1/s", lambda step: step.ops_per_s, lambda step: next(iter(step.lost), None)
        ),
        _StepColumn("of linear", "ratio", lambda step: step.efficiency_ratio),
        _StepColumn("model", "1/s", lambda step: None if curve is None else curve.throughput(step.cpus)),
        _StepColumn("CPU use", "ratio", lambda step: step.busy_ratio),
        _StepColumn("others", "ratio", lambda step: step.others_ratio),
        _StepColumn(
            "path length",
            "count",
            lambda step: step.law.path_length.value,
            lambda step: step.law.path_length.missing,
            is_exact=True,
        ),
        _StepColumn(
            "CPI", "ratio", lambda step: step.law.cpi.value, lambda step: step.law.cpi.missing, is_exact=True
        ),
        _StepColumn("frequency", "hz", lambda step: step.law.frequency_hz.value),
        _reading(LATENCY, "latency", "ns"),
        _reading(LATENCY_P50, "p50", "ns"),
        _reading(LATENCY_P99, "p99", "ns"),
        _reading(ERRORS, "errors", "ratio"),
        # What a user took from the output has the unit that its name declares.
        *(_reading(name, name, declared_unit(name) or "1") for name in asked),
    ]
    return [one for one in every if any(one.of(step) is not None for step in scaling.steps)]


def _where(step: Step) -> str:
    """Return which CPUs a step has."""
    if step.listed is None:
        return ""
    shared = ", sharing cores" if step.shares_cores else ""
    nodes = f", {step.nodes} nodes" if step.nodes is not None and step.nodes > 1 else ""
    return f"{step.listed}{shared}{nodes}"


def _steps(scaling: Scaling) -> Table:
    columns = _step_columns(scaling)
    has_lists = any(step.listed for step in scaling.steps)
    heads = [Column(f"{scaling.noun}s"), *(Column(one.name, one.unit) for one in columns)]
    heads += [Column("which", is_text=True)] if has_lists else []
    rows = [
        [step.cpus, *(one.cell(step) for one in columns), *([_where(step)] if has_lists else [])]
        for step in scaling.steps
    ]
    return table(heads, rows)


def _predictions(scaling: Scaling) -> list[Block]:
    if not scaling.predictions:
        return []
    names = [
        Column(f"{scaling.noun}s"),
        *(Column(name, "1/s") for name in ("throughput", "from", "to")),
        Column("basis", is_text=True),
    ]
    rows = [
        [one.cpus, _predicted(one), one.low, one.high, one.reason or one.basis or ""]
        for one in scaling.predictions
    ]
    return [table(names, rows)]


def _predicted(one: Prediction) -> Cell:
    figure = Figure(one.ops_per_s, one.low, one.high, one.reason or "")
    return Cell(fmt.quantity(one.ops_per_s, "1/s"), fmt.raw(one.ops_per_s, "1/s"), figure=figure)


def _by_step(scaling: Scaling) -> list[Block]:
    def chart(
        name: str, title: str, unit: str, lines: Sequence[tuple[str, Callable[[Step], float | None], str]]
    ) -> Chart:
        series = tuple(
            Series(
                label,
                [step.cpus for step in scaling.steps],
                [of(step) for step in scaling.steps],
                role=role,
            )
            for label, of, role in lines
        )
        return Chart(name, title, series, x_title=f"{scaling.noun}s", y_unit=unit, from_zero=True)

    def latency(name: str) -> Callable[[Step], float | None]:
        return lambda step: step.readings.get(name)

    quantiles = [
        ("mean", latency(LATENCY), "blue"),
        ("median", latency(LATENCY_P50), "green"),
        ("99th percentile", latency(LATENCY_P99), "red"),
    ]
    charts = [
        chart(
            "latency",
            "Latency",
            "ns",
            [line for line in quantiles if any(line[1](step) is not None for step in scaling.steps)],
        ),
        chart("cpi", "Clocks per instruction", "1", [("CPI", lambda step: step.law.cpi.value, "blue")]),
        chart(
            "path",
            "Path length, instructions per operation",
            "1",
            [("path length", lambda step: step.law.path_length.value, "blue")],
        ),
        chart("frequency", "Frequency", "hz", [("Hz", lambda step: step.law.frequency_hz.value, "blue")]),
        chart("use", "CPU use", "ratio", [("CPU use", lambda step: step.busy_ratio, "blue")]),
    ]
    charts += [
        _by_use("throughput-by-use", "Throughput by CPU use", "1/s", scaling, lambda step: step.ops_per_s),
        _by_use(
            "errors-by-use",
            "Failed operations by CPU use",
            "ratio",
            scaling,
            lambda step: step.readings.get(ERRORS),
        ),
    ]
    return [one for one in charts if one.is_drawable]


def _by_use(name: str, title: str, unit: str, scaling: Scaling, of: Callable[[Step], float | None]) -> Chart:
    """Return a figure against CPU use, in the order of the steps: whether CPUs that are added are used."""
    known = [step for step in scaling.steps if step.busy_ratio is not None and of(step) is not None]
    series = Series(
        title.partition(" by ")[0],
        [step.busy_ratio for step in known],
        [of(step) for step in known],
        labels=[fmt.several(step.cpus, scaling.noun) for step in known],
    )
    points = Series("steps", series.x, series.y, kind="points", size=7, labels=series.labels)
    return Chart(
        name,
        title,
        (series, points),
        x_title="CPU use",
        x_unit="ratio",
        y_unit=unit,
        x_range=(0.0, 1.03),
        from_zero=True,
    )


def _loss(scaling: Scaling) -> list[Block]:
    loss = scaling.loss
    if loss is None or not loss.terms:
        return []
    columns = (
        Column(f"loss per {loss.noun}", is_text=True),
        Column(fmt.several(loss.low_cpus, scaling.noun)),
        Column(fmt.several(loss.high_cpus, scaling.noun)),
        Column("factor"),
        Column("share", "ratio"),
    )
    rows = [
        [
            term.name,
            _of_term(term, term.low.value),
            _of_term(term, term.high.value),
            Figure() if term.factor.value is None else written(times(term.factor.value), term.factor.value),
            Figure(term.share.value, missing=term.share.missing or ""),
        ]
        for term in loss.terms
    ]
    return [table(columns, rows)]


def _of_term(term: LossTerm, value: float | None) -> Cell | None:
    """Return a figure of a term of the loss, which has a unit of its own."""
    if value is None:
        return None
    if term.name in (USE, RUN):
        return written(fmt.quantity(value, "ratio"), value)
    if term.name == FREQUENCY or term.low.unit == "1/s":
        return written(fmt.quantity(value, "hz"), value)
    return written(fmt.quantity(value, "s") if term.low.unit == "s" else exact(value), value)


def _functions(scaling: Scaling) -> list[Block]:
    found = scaling.functions
    if scaling.grown is None:
        return []
    heads = [Column("function", is_text=True)]
    for event in found[0].after:
        heads += [Column(f"{event}, first step", "ratio"), Column(f"{event}, last step", "ratio")]
    rows = [
        [one.function, *(_share(side.get(event)) for event in one.after for side in (one.before, one.after))]
        for one in found[:FUNCTIONS]
    ]
    return [table(heads, rows)]


def _share(ratio: float | None) -> Cell:
    return (
        Cell(share(None), figure=Figure(missing="not listed"))
        if ratio is None
        else written(share(ratio), ratio)
    )


def _law(scaling: Scaling) -> list[Block]:
    fit = scaling.law
    if fit is None or fit.contention.value is None:
        return []
    columns = (Column("parameter", is_text=True), Column("value"), Column("meaning", is_text=True))
    rows = []
    for name, meaning in parameter_meanings(fit, scaling.noun).items():
        one: Parameter = getattr(fit, name)
        figure = Figure(one.value, one.low, one.high, one.reason or "")
        text = number(one, "1/s" if name == "rate" else "1")
        words = meaning if one.is_identified else of_noun(one.reason, scaling.noun) or meaning
        rows.append((name, Cell(text, figure=figure), words))
    for name, unit in (("peak", "1"), ("peak_throughput", "1/s")):
        one = getattr(fit, name)
        figure = (
            Figure(one.value, one.low, one.high) if one.is_identified else Figure(missing=one.reason or "")
        )
        words = f"{scaling.noun}s" if name == "peak" else ""
        words = words if one.is_identified else of_noun(one.reason, scaling.noun)
        text = number(one, unit) if one.is_identified else fmt.MISSING
        rows.append((name.replace("_", " "), Cell(text, figure=figure), words))
    return [table(columns, rows)]
