"""What a tuning would try, and knobs.

In: the record. Out: `Answer`s. Not here: what a tuning found (``answer``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from steelyard.records.tuning import Tuning, TuningKnob, TuningLack, TuningPlan
from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Column, Section, Table, table, written
from steelyard.stats.contrasts import FEWEST_BLOCKS, chance_found


def plan_answer(tuning: Tuning) -> Answer:
    """Return what a tuning would try."""
    tried = [one for one in tuning.knobs if one.reason is None]
    count = sum(len(one.levels) for one in tried)
    plan = tuning.plan
    most = plan.blocks * (count + len(tried)) + 2 * plan.confirm_blocks
    tries = f"{fmt.several(count, 'level')} of {fmt.several(len(tried), 'knob')}"
    heading = (
        f"Would try {tries}, {plan.strategy}, in at most {most} trials and those of the ablation."
        " Nothing was changed."
    )
    return Answer(
        "Tuning, planned",
        heading,
        [*_knobs(tuning.knobs, tuning.lacking), *chances_answer(plan).sections],
        rows=max(len(tuning.knobs), len(tuning.lacking)),
        eyebrow="tuning",
    )


def knobs_answer(knobs: Sequence[TuningKnob], lacking: Sequence[TuningLack]) -> Answer:
    """Return knobs with their values and levels, and what is not there."""
    heading = f"{fmt.several(len(knobs), 'knob')}, {len(lacking)} not here"
    return Answer(
        "Knobs", heading, _knobs(knobs, lacking), rows=max(len(knobs), len(lacking)), eyebrow="tuning"
    )


_NOISES = _EFFECTS = (0.01, 0.02, 0.05)


def chances_answer(plan: TuningPlan) -> Answer:
    """Return how likely a knob is found that helps, by how noisy trials are: what the blocks are good for."""
    columns = (Column("noise of a trial"), *(Column(f"{effect:.0%} better", "ratio") for effect in _EFFECTS))
    rows = []
    for noise in _NOISES:
        found = [_found(plan, noise, effect) for effect in _EFFECTS]
        rows.append((written(f"{noise:.0%}", noise), *(written(_chance_text(one), one) for one in found)))
    title = "Chance to find a knob that helps, by the standard deviation of a trial"
    return Answer("Chances", "", [Section("chances", title, (table(columns, rows),))], eyebrow="tuning")


def _chance_text(chance: float) -> str:
    return "over 90%" if chance > 0.9 else "under 5%" if chance < 0.05 else f"{chance:.0%}"


def _found(plan: TuningPlan, noise: float, effect: float) -> float:
    """Return about the chance: it has to win its race, and to be confirmed on new values."""
    if min(plan.blocks, plan.confirm_blocks) < FEWEST_BLOCKS:
        return 0.0
    deviation, gain = noise * 2**0.5, math.log1p(effect)
    race = chance_found(deviation, gain, plan.blocks, confidence=plan.confidence, has_looks=True)
    return race * chance_found(deviation, gain, plan.confirm_blocks, confidence=plan.confidence)


def _knobs(knobs: Sequence[TuningKnob], lacking: Sequence[TuningLack]) -> list[Section]:
    columns = (
        Column("knob", is_text=True, is_whole=True),
        Column("levels", is_text=True, is_whole=True, is_answer=True),
        Column("risk", is_text=True, is_whole=True),
        Column("now", is_text=True, rank=1),
        Column("sets", is_text=True, rank=2),
    )
    rows = [
        (
            one.name,
            " ".join(_quoted(level) for level in one.levels),
            str(one.risk),
            one.found,
            f"{one.about}; {one.reason}" if one.reason else one.about,
        )
        for one in knobs
    ]
    sections = [Section("knobs", "Knobs", (table(columns, rows),))]
    if lacking:
        sections.append(Section("absent", "Not here", (_absent(lacking),)))
    return sections


def _absent(lacking: Sequence[TuningLack]) -> Table:
    columns = (
        Column("knob", is_text=True, is_whole=True),
        Column("because", is_text=True, is_answer=True),
    )
    return table(columns, [(one.name, one.reason) for one in lacking])


def _quoted(level: str) -> str:
    return level if level and " " not in level else repr(level)
