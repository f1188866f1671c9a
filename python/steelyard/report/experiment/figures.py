"""An experiment as one table of raw figures, for CSV: a line for each arm and metric, in base units.

In: the record and its answers. Out: a `Plain` table. Changes are shares: 0.05 is 5 % more than the base.

Not here: what a terminal shows (``table``), writing (``report.delimited``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from steelyard._base import command_text
from steelyard.experiment.answers import Answer
from steelyard.experiment.response import Response
from steelyard.records.experiment import Experiment
from steelyard.report.delimited import Plain, of_figures
from steelyard.report.experiment.table import base_mean, beside_means

COLUMNS = (
    "setting",
    "about",
    "metric",
    "mean",
    "unit",
    "against",
    "change [ratio]",
    "change [ratio] low",
    "change [ratio] high",
    "allowed change [ratio]",
    "blocks",
    "outcome",
    "note",
)
Cell = str | float | None


def figures(
    experiment: Experiment,
    answers: Sequence[Answer],
    curve: Response | None = None,
    by_factor: Mapping[str, Sequence[Answer]] | None = None,
) -> Plain:
    """Return all figures: of the metric, guardrails and factors; of a sweep its knee and other metrics."""
    rows = [_base(experiment, answers)]
    rows += [_arm(experiment, answer, at) for at, answer in enumerate(answers, start=1)]
    rows += _guards(answers)
    rows += _factors(experiment, by_factor or {})
    rows += _response(experiment, curve)
    return of_figures("Experiment", (experiment.factor, *COLUMNS), rows)


def _base(experiment: Experiment, answers: Sequence[Answer]) -> list[Cell]:
    metric, base = experiment.metric, answers[0].base
    mean = base_mean(experiment, answers)
    return [base, _setting(experiment, 0), "metric", metric.name, mean, metric.unit, *[""] * 8]


def _arm(experiment: Experiment, answer: Answer, at: int) -> list[Cell]:
    metric = experiment.metric
    return [
        answer.arm,
        _setting(experiment, at),
        "metric",
        metric.name,
        answer.mean,
        metric.unit,
        answer.base,
        *_changes(answer.ratio, answer.low, answer.high),
        "",
        answer.blocks,
        str(answer.outcome),
        "; ".join(filter(None, (answer.reason, answer.caution, beside_means(answer, experiment)))),
    ]


def _guards(answers: Sequence[Answer]) -> Iterator[list[Cell]]:
    for answer in answers:
        for guard in answer.guards:
            yield [
                answer.arm,
                "",
                "guardrail",
                guard.name,
                guard.mean,
                "",
                answer.base,
                *_changes(guard.ratio, guard.low, guard.high, guard.bound),
                guard.blocks,
                str(guard.outcome),
                guard.reason or "",
            ]


def _factors(experiment: Experiment, by_factor: Mapping[str, Sequence[Answer]]) -> Iterator[list[Cell]]:
    for factor, answers in by_factor.items():
        for answer in answers:
            yield [
                answer.arm,
                "",
                f"factor {factor}",
                experiment.metric.name,
                answer.mean,
                experiment.metric.unit,
                answer.base,
                *_changes(answer.ratio, answer.low, answer.high),
                "",
                answer.blocks,
                str(answer.outcome),
                answer.reason or "",
            ]


def _response(experiment: Experiment, curve: Response | None) -> Iterator[list[Cell]]:
    if curve is None:
        return
    for level in curve.levels:
        for name, mean in level.beside.items():
            if name != experiment.metric.name:
                unit = "ns" if name.endswith("_ns") else ""
                yield [level.arm, "", "beside", name, mean, unit, *[""] * 8]
    knee = curve.knee
    for name, value in (("knee", knee.at), ("knee low", knee.low), ("knee high", knee.high)):
        yield ["", "", "knee", name, value, curve.unit, *[""] * 7, knee.reason or ""]


def _changes(*ratios: float | None) -> list[Cell]:
    return [None if ratio is None else round(ratio - 1, 12) for ratio in ratios]


def _setting(experiment: Experiment, at: int) -> str:
    arm = experiment.arms[at]
    return command_text(arm.command) or ", ".join(f"{name}={value}" for name, value in arm.settings.items())
