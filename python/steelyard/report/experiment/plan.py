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

from steelyard.experiment.power import Forecast
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
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
            safe(f"looked for earlier experiments in {out}; an experiment says it after its first 6 blocks")
        )
        return Group(*parts)
    table = Table("effect", "blocks", "time", box=box.SIMPLE_HEAD, pad_edge=False)
    for need in found.needs:
        time = fmt.MISSING if need.seconds is None else fmt.plain(fmt.duration(need.seconds * 1e9))
        table.add_row(f"{100 * need.effect_ratio:.3g} %", str(need.blocks), time)
    look = "looking at every block" if experiment.plan.stop_early else "looking once, at the end"
    known = f"from {found.blocks} blocks of {', '.join(found.earlier)}; {look}"
    return Group(*parts, Text(), table, safe(known))
