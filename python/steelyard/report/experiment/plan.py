"""What an experiment would take.

In: the record without trials, and its forecast. Out: `Answer`s. Not here: the counts (``experiment.power``).
"""

from __future__ import annotations

from pathlib import Path

from steelyard.experiment.answers import answers
from steelyard.experiment.power import Forecast
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Column, Figure, Section, table, written
from steelyard.report.experiment.words import notes, ratio_text


def need_sentence(experiment: Experiment, found: Forecast) -> str:
    """Return in one line how many blocks the smallest effect that matters needs."""
    least = experiment.plan.least_effect_ratio
    need = next((one for one in found.needs if one.effect_ratio == least), None)
    if need is None or found.deviation is None:
        return f"blocks needed are not known: {found.reason}"
    time = "" if need.seconds is None else f" ({fmt.plain(fmt.duration(need.seconds * 1e9))})"
    return (
        f"to see {100 * least:.3g} % in 4 of 5 experiments, about {need.blocks} blocks{time} are needed,"
        f" of at most {experiment.plan.blocks}; a block's ratio varies by {100 * found.deviation:.2g} %"
    )


def plan_answer(experiment: Experiment, found: Forecast, out: Path) -> Answer:
    """Return what is known before the first trial."""
    arms = ", ".join(arm.name for arm in experiment.arms)
    lines = [
        f"{experiment.factor}: {arms}; {experiment.metric.name}, at most {experiment.plan.blocks} blocks"
    ]
    if not found.needs:
        lines.append(
            f"looked for earlier experiments in {out}; --pilot 8 measures it, and an experiment says it"
            " after its first 6 blocks"
        )
    return Answer(
        "Experiment, planned",
        need_sentence(experiment, found),
        _needs(experiment, found),
        lines=lines,
        eyebrow="experiment",
    )


def pilot_answer(pilot: Experiment, target: Experiment, found: Forecast) -> Answer:
    """Return what a pilot says of the experiment that it is for."""
    arms = ", ".join(arm.name for arm in target.arms)
    line = f"pilot of {target.factor}: {arms}; {target.arms[0].name} beside itself, {target.metric.name}"
    cautions = []
    (answer,) = answers(pilot, is_over=True)
    if answer.low is not None and answer.high is not None and not answer.low <= 1 <= answer.high:
        cautions.append(
            f"{answer.arm} differs from itself by {ratio_text(answer)}: one pilot in 20 shows that by"
            " chance; else what was tried second had another machine"
        )
    return Answer(
        "Pilot",
        need_sentence(target, found),
        _needs(target, found),
        lines=[line],
        cautions=[*cautions, *notes(pilot, [])],
        says_no=not found.needs,
        eyebrow="experiment",
    )


def _needs(experiment: Experiment, found: Forecast) -> list[Section]:
    """Return the blocks by effect, none where the noise is not known."""
    if not found.needs:
        return []
    rows = [
        (written(f"{100 * need.effect_ratio:.3g} %", need.effect_ratio), need.blocks, Figure(need.seconds))
        for need in found.needs
    ]
    look = "with looks before the end" if experiment.plan.stop_early else "looking once, at the end"
    known = f"From {found.blocks} blocks of {', '.join(found.earlier)}; {look}."
    columns = (Column("effect"), Column("blocks", "1"), Column("time", "s"))
    return [Section("needs", "Blocks needed", (table(columns, rows),), known)]
