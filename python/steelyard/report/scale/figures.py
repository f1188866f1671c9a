"""A scaling curve as one table of raw figures, for CSV: a line for each figure, in base units.

In: a `Scaling`. Out: a `Plain` table. What has no value has an empty field, and its reason in the note.

Not here: what a terminal shows (``table``), writing (``report.delimited``).
"""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.analyze.scaling.curve import ERRORS, LATENCY, LATENCY_P50, LATENCY_P99, Step
from steelyard.analyze.scaling.scaling import Scaling
from steelyard.report.delimited import Plain, of_figures
from steelyard.report.scale.model import of_noun, parameter_meanings
from steelyard.report.scale.table import FUNCTIONS, asked_readings, unit_of, where

COLUMNS = ("about", "{noun}s", "figure", "value", "low", "high", "unit", "note")
Row = tuple[str, int | None, str, float | None, float | None, float | None, str, str]


def figures(scaling: Scaling) -> Plain:
    """Return all figures of the curve: of steps, predictions, the law, the loss, limits and functions."""
    columns = tuple(name.format(noun=scaling.noun) for name in COLUMNS)
    made = [*_steps(scaling), *_predictions(scaling), *_law(scaling), *_loss(scaling)]
    made += [
        ("limit", limit.from_cpus, limit.id, None, None, None, "", limit.claim) for limit in scaling.limits
    ]
    made += _functions(scaling)
    return of_figures("Scaling", columns, made)


def _steps(scaling: Scaling) -> Iterator[Row]:
    for step in scaling.steps:
        model = None if scaling.curve is None else scaling.curve.throughput(step.cpus)
        known: list[tuple[str, float | None, str, str | None]] = [
            ("throughput", step.ops_per_s, "1/s", step.lost[0] if step.lost else None),
            ("of linear", scaling.efficiency_of(step), "ratio", None),
            ("model", model, "1/s", None),
            ("CPU use", step.busy_ratio, "ratio", None),
            ("others", step.others_ratio, "ratio", None),
            ("path length", step.law.path_length.value, "1", step.law.path_length.missing),
            ("CPI", step.law.cpi.value, "1", step.law.cpi.missing),
            ("frequency", step.law.frequency_hz.value, "Hz", step.law.frequency_hz.missing),
            *_readings(step),
            *((name, step.readings.get(name), unit_of(name), None) for name in asked_readings(scaling)),
        ]
        for name, value, unit, missing in known:
            if value is not None or name == "throughput":
                note = (missing or "") if value is None else where(step) if name == "throughput" else ""
                yield "step", step.cpus, name, value, None, None, unit, note


def _readings(step: Step) -> Iterator[tuple[str, float | None, str, str | None]]:
    for name, label, unit in (
        (LATENCY, "latency", "ns"),
        (LATENCY_P50, "p50", "ns"),
        (LATENCY_P99, "p99", "ns"),
        (ERRORS, "errors", "ratio"),
    ):
        yield label, step.readings.get(name), unit, step.missing.get(name)


def _predictions(scaling: Scaling) -> Iterator[Row]:
    for one in scaling.predictions:
        note = one.reason or one.basis
        yield "prediction", one.cpus, "throughput", one.value, one.low, one.high, "1/s", note


def _law(scaling: Scaling) -> Iterator[Row]:
    fit = scaling.fit
    if fit is None:
        return
    meanings = parameter_meanings(fit, scaling.noun)
    for name, unit in (
        ("rate", "1/s"),
        ("contention", "1"),
        ("coherency", "1"),
        ("peak", scaling.noun),
        ("peak_throughput", "1/s"),
    ):
        one = getattr(fit, name)
        note = meanings.get(name, "") if one.is_identified else of_noun(one.reason, scaling.noun)
        yield "law", None, name.replace("_", " "), one.value, one.low, one.high, unit, note


def _loss(scaling: Scaling) -> Iterator[Row]:
    loss = scaling.loss
    if loss is None:
        return
    name = f"loss of each {loss.noun}"
    yield "loss", loss.high_cpus, name, loss.factor.value, None, None, "1", loss.cause
    for term in loss.terms:
        yield "loss", loss.low_cpus, term.name, term.low.value, None, None, term.low.unit, ""
        yield "loss", loss.high_cpus, term.name, term.high.value, None, None, term.high.unit, ""
        yield "loss", loss.high_cpus, f"{term.name}, loss", term.factor.value, None, None, "1", ""


def _functions(scaling: Scaling) -> Iterator[Row]:
    found, loss = scaling.functions, scaling.loss
    if found is None or scaling.grown is None:
        return
    ends = (None, None) if loss is None else (loss.low_cpus, loss.high_cpus)
    for one in found.functions[: 4 * FUNCTIONS]:
        for cpus, shares in zip(ends, (one.before, one.after), strict=True):
            note = f"share of {found.event}"
            yield "function", cpus, one.function, shares.get(found.event), None, None, "ratio", note
