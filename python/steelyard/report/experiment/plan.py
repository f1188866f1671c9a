"""What an experiment would take, on a terminal.

In: the record without trials, and its forecast. Out: renderables for a `rich` console. Not here: the counts
(``experiment.power``).
"""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.experiment.answers import answers
from steelyard.experiment.power import Forecast
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.experiment.words import notes, ratio_text
from steelyard.report.terminal import safe


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


def plan_summary(experiment: Experiment, found: Forecast, out: Path) -> RenderableType:
    """Return what is known before the first trial."""
    arms = ", ".join(arm.name for arm in experiment.arms)
    metric = experiment.metric
    parts: list[RenderableType] = [
        safe(f"{experiment.factor}: {arms}; {metric.name}, at most {experiment.plan.blocks} blocks"),
        safe(need_sentence(experiment, found)),
    ]
    if not found.needs:
        parts.append(
            safe(
                f"looked for earlier experiments in {out}; --pilot 8 measures it, and an experiment says it"
                " after its first 6 blocks"
            )
        )
        return Group(*parts)
    return Group(*parts, Text(), _table(found), safe(_known(experiment, found)))


def pilot_summary(pilot: Experiment, target: Experiment, found: Forecast) -> RenderableType:
    """Return what a pilot says of the experiment that it is for."""
    arms = ", ".join(arm.name for arm in target.arms)
    parts: list[RenderableType] = [
        safe(f"pilot of {target.factor}: {arms}; {target.arms[0].name} beside itself, {target.metric.name}"),
        safe(need_sentence(target, found)),
    ]
    if found.needs:
        parts += [Text(), _table(found), safe(_known(target, found))]
    (answer,) = answers(pilot, is_over=True)
    if answer.low is not None and answer.high is not None and not answer.low <= 1 <= answer.high:
        parts.append(
            safe(
                f"!  {answer.arm} differs from itself by {ratio_text(answer)}: one pilot in 20 shows that by"
                " chance; else what was tried second had another machine"
            )
        )
    parts += [safe(f"!  {note}") for note in notes(pilot, [])]
    return Group(*parts)


def _table(found: Forecast) -> Table:
    table = Table("effect", "blocks", "time", box=box.SIMPLE_HEAD, pad_edge=False)
    for need in found.needs:
        time = fmt.MISSING if need.seconds is None else fmt.plain(fmt.duration(need.seconds * 1e9))
        table.add_row(f"{100 * need.effect_ratio:.3g} %", str(need.blocks), time)
    return table


def _known(experiment: Experiment, found: Forecast) -> str:
    look = "with looks before the end" if experiment.plan.stop_early else "looking once, at the end"
    return f"from {found.blocks} blocks of {', '.join(found.earlier)}; {look}"
