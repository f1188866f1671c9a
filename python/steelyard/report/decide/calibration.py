"""The answer of ``steelyard fidelity --calibrate``: settings found, and each metric before and after.

In: a `Calibration`. Out: an `Answer`. Not here: the search (``tune.calibration``).
"""

from __future__ import annotations

from collections.abc import Iterator

from steelyard._base import command_text
from steelyard.decide.fidelity.comparison import Overall
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
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
from steelyard.report.decide.fidelity import interval
from steelyard.tune.calibration.results import Calibration, CalibrationTrial


def answer(made: Calibration, *, command: str = "") -> Answer:
    """Return the answer."""
    settings = [word for each in made.parameters for word in ("--set", f"{each.name}={each.after}")]
    return Answer(
        "Calibration",
        _heading(made),
        [
            Section("parameters", "Parameters", (_parameters(made),)),
            Section("metrics", "Metrics, farthest before first", (_metrics(made), _chart(made))),
            Section("trials", "Trials", (_progress(made), _trials(made)), on_terminal=False),
        ],
        lines=list(_lines(made, settings)),
        cautions=made.cautions,
        rows=60,
        eyebrow=made.benchmark,
        command=command,
        source=str(made.directory),
    )


def _heading(made: Calibration) -> str:
    before, after = made.searched.before, made.searched.after
    if before is None or after is None:
        return f"{made.benchmark} and {made.target} cannot be compared"
    verb = "nearer to" if after.distance < before.distance else "no nearer to"
    said = f"{made.benchmark} came {verb} {made.target}: distance {_of(before)} before, {_of(after)} after"
    held = made.held_out
    if held.before is not None and held.after is not None:
        said += f"; of metrics held out {_of(held.before)} and {_of(held.after)}"
    return said


def _of(one: Overall) -> str:
    return interval(one.distance, one.low, one.high)


def _lines(made: Calibration, settings: list[str]) -> Iterator[str]:
    yield f"Run it: {command_text(['steelyard', 'run', made.benchmark, *settings])}"
    held = [each.title for each in made.metrics if each.is_held_out]
    if held:
        yield f"Held out of the search: {fmt.listed(held, 10)}."
    yield (
        f"Distances are of {fmt.several(made.repeats, 'fresh run')} before and after, not of the"
        f" {fmt.several(len(made.trials), 'trial')} of the search."
    )
    gain = made.held_out.gain
    if gain is not None and gain <= 0 < (made.searched.gain or 0.0):
        yield "What was held out came no nearer: the settings fit the metrics searched, and not the workload."


def _parameters(made: Calibration) -> Table:
    columns = (
        Column("parameter", is_text=True, is_whole=True),
        Column("before"),
        Column("after", is_answer=True),
        Column("searched", is_text=True),
    )
    rows = [[each.name, Cell(each.before), Cell(each.after), each.range] for each in made.parameters]
    return table(columns, rows)


def _metrics(made: Calibration) -> Table:
    columns = (
        Column("metric", is_text=True),
        Column("target"),
        Column("before"),
        Column("after"),
        Column("distance before"),
        Column("distance after", is_answer=True),
        Column("held out", is_text=True, rank=1),
    )
    rows = []
    for each in made.metrics:
        shown = [
            fmt.MISSING if value is None else Figure(value, unit=each.unit)
            for value in (each.target, each.before, each.after)
        ]
        rows.append(
            [
                each.title,
                *shown,
                _distance(each.distance_before, None, None),
                _distance(each.distance_after, each.low_after, each.high_after),
                "held out" if each.is_held_out else "",
            ]
        )
    return table(columns, rows)


def _distance(value: float | None, low: float | None, high: float | None) -> Cell | None:
    return None if value is None else written(interval(value, low, high), value, low, high)


def _chart(made: Calibration) -> Chart:
    shown = made.metrics
    titles = [f"{each.title} (held out)" if each.is_held_out else each.title for each in shown]
    return Chart(
        "before-after",
        "Distance to the target",
        (
            Series("before", titles, [each.distance_before for each in shown], kind="bar", role="orange"),
            Series("after", titles, [each.distance_after for each in shown], kind="bar", role="blue"),
        ),
        x_kind="name",
        horizontal=True,
        from_zero=True,
        y_title="distance (0.05 is 5 % or 5 points)",
        height=120 + 34 * len(shown),
        wide=True,
    )


def _progress(made: Calibration) -> Chart:
    known = [trial for trial in made.trials if trial.distance is not None]
    best: list[float] = []
    for trial in known:
        assert trial.distance is not None
        best.append(min([trial.distance, *best[-1:]]))
    numbers = [trial.number for trial in known]
    return Chart(
        "trials",
        "Distance by trial",
        (
            Series("best so far", numbers, best, kind="step", role="blue"),
            Series("trial", numbers, [trial.distance for trial in known], kind="points", role="ink", size=7),
        ),
        x_title="trial",
        y_title="distance",
        from_zero=True,
        missing="" if known else "no trial has a distance",
    )


def _trials(made: Calibration) -> Table:
    columns = (
        Column("trial"),
        Column("settings", is_text=True),
        Column("distance"),
        Column("run", is_text=True),
    )
    rows = [
        [
            trial.number,
            _settings(trial),
            Figure(trial.distance, missing=trial.missing or ""),
            trial.run_id or "",
        ]
        for trial in made.trials
    ]
    return table(columns, rows)


def _settings(trial: CalibrationTrial) -> str:
    return " ".join(f"{name}={value}" for name, value in trial.settings.items())
