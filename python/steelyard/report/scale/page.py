"""The page of a scaling curve: what it says, throughput with model and predictions, its steps, the loss.

In: a `Scaling`. Out: the path of the page. Not here: the terminal (``table``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from steelyard._base import command_text
from steelyard.analyze.scaling.curve import ERRORS, LATENCY, LATENCY_P50, LATENCY_P99, Step
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.fleet.content import (
    Block,
    Cell,
    Chart,
    Column,
    Section,
    Series,
    Table,
    table,
)
from steelyard.report.fleet.page import write_page
from steelyard.report.scale.model import PREDICTION_COLUMNS, law_title, parameters, prediction_rows
from steelyard.report.scale.table import (
    FUNCTIONS,
    loss_rows,
    notes,
    sentences,
    share,
    step_columns,
    where,
)

_POINTS = 120


def write_scaling(path: Path, scaling: Scaling, *, source: str, experiment: Experiment | None = None) -> Path:
    """Write the page to ``path``. Raises WorkloadFailedError when it cannot be written."""
    headlines = sentences(scaling)
    limits = [limit for limit in scaling.limits if limit.id in ("idle", "errors")]
    sections = [
        Section("throughput", "Throughput", (_throughput(scaling), _steps(scaling))),
        Section("predictions", "Predicted throughput of a trial", tuple(_predictions(scaling))),
        Section("steps", "Step by step", tuple(_by_step(scaling)), grid=True),
        Section("loss", "Scaling loss", tuple(_loss(scaling))),
        Section("functions", "Functions", tuple(_functions(scaling))),
        Section("law", law_title(scaling), tuple(_law(scaling))),
    ]
    return write_page(
        path,
        "Scaling",
        [section for section in sections if section.blocks],
        heading=headlines[0],
        subline="; ".join(headlines[1:]),
        eyebrow=(experiment.benchmark or "command") if experiment is not None else "measured elsewhere",
        level="invalid" if limits else None,
        verdict="the workload cannot use the machine" if limits else "",
        cautions=notes(scaling),
        command=command_text(experiment.command) if experiment is not None else "",
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
    curve = scaling.curve
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
    predicted = [one for one in scaling.predictions if one.value is not None]
    if predicted:
        counts = [one.cpus for one in predicted]
        lows, highs = [one.low for one in predicted], [one.high for one in predicted]
        series += [
            Series("predicted", counts, [one.value for one in predicted], kind="points", size=7, role="red"),
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


def _steps(scaling: Scaling) -> Table:
    columns = step_columns(scaling)
    has_lists = any(step.listed for step in scaling.steps)
    heads = [Column(f"{scaling.noun}s"), *(Column(name) for name, _ in columns)]
    heads += [Column("which", is_text=True)] if has_lists else []
    rows = [
        [
            Cell(str(step.cpus)),
            *(Cell(make(step)) for _, make in columns),
            *([Cell(where(step), is_text=True)] if has_lists else []),
        ]
        for step in scaling.steps
    ]
    return table(heads, rows)


def _predictions(scaling: Scaling) -> list[Block]:
    if not scaling.predictions:
        return []
    *figures, basis = PREDICTION_COLUMNS
    names = [Column(f"{scaling.noun}s"), *map(Column, figures), Column(basis, is_text=True)]
    rows = [[*map(Cell, cells), Cell(words, is_text=True)] for *cells, words in prediction_rows(scaling)]
    return [table(names, rows)]


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
        Column("factor of the loss", is_text=True),
        Column(fmt.several(loss.low_cpus, scaling.noun)),
        Column(fmt.several(loss.high_cpus, scaling.noun)),
        Column("factor"),
        Column("share"),
    )
    return [table(columns, [[Cell(cell) for cell in row] for row in loss_rows(loss)])]


def _functions(scaling: Scaling) -> list[Block]:
    found = scaling.functions
    if found is None or scaling.grown is None:
        return []
    heads = [Column("function", is_text=True)]
    for event in found.functions[0].after:
        heads += [Column(f"{event}, first step"), Column(f"{event}, last step")]
    rows = [
        [
            Cell(one.function, is_text=True),
            *(Cell(share(side[event])) for event in one.after for side in (one.before, one.after)),
        ]
        for one in found.functions[: 4 * FUNCTIONS]
    ]
    return [table(heads, rows)]


def _law(scaling: Scaling) -> list[Block]:
    if scaling.fit is None or scaling.fit.contention.value is None:
        return []
    columns = (Column("parameter", is_text=True), Column("value"), Column("", is_text=True))
    rows = [
        [Cell(name), Cell(value), Cell(words, is_text=True)]
        for name, value, words in parameters(scaling.fit, scaling.noun)
    ]
    return [table(columns, rows)]
