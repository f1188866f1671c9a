"""What a tuning would try, and knobs, on a terminal.

In: the record. Out: renderables for a `rich` console. Not here: what a tuning found (``answer``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from steelyard.records.tuning import Tuning, TuningKnob, TuningLack, TuningPlan
from steelyard.report import format as fmt
from steelyard.report.terminal import safe
from steelyard.stats.contrasts import FEWEST_BLOCKS, chance_found


def plan_summary(tuning: Tuning) -> RenderableType:
    """Return what a tuning would try."""
    tried = [one for one in tuning.knobs if one.reason is None]
    count = sum(len(one.levels) for one in tried)
    plan = tuning.plan
    most = plan.blocks * (count + len(tried)) + 2 * plan.confirm_blocks
    tries = f"{fmt.several(count, 'level')} of {fmt.several(len(tried), 'knob')}"
    return Group(
        safe(
            f"Would try {tries}, {plan.strategy}, in at most {most} trials and those of the ablation."
            " Nothing was changed."
        ),
        chances(plan),
        Text(),
        knob_table(tuning.knobs, tuning.lacking),
    )


_NOISES = _EFFECTS = (0.01, 0.02, 0.05)


def chances(plan: TuningPlan) -> RenderableType:
    """Return how likely a knob is found that helps, by how noisy trials are: what the blocks are good for."""
    table = Table("noise of a trial", box=box.SIMPLE_HEAD, pad_edge=False)
    for effect in _EFFECTS:
        table.add_column(f"{effect:.0%} better", justify="right")
    for noise in _NOISES:
        found = [_found(plan, noise, effect) for effect in _EFFECTS]
        table.add_row(f"{noise:.0%}", *map(_chance_text, found))
    return Group(
        Text(), safe("Chance to find a knob that helps, by the standard deviation of a trial:"), table
    )


def _chance_text(chance: float) -> str:
    return "over 90%" if chance > 0.9 else "under 5%" if chance < 0.05 else f"{chance:.0%}"


def _found(plan: TuningPlan, noise: float, effect: float) -> float:
    """Return about the chance: it has to win its race, and to be confirmed on new values."""
    if min(plan.blocks, plan.confirm_blocks) < FEWEST_BLOCKS:
        return 0.0
    deviation, gain = noise * 2**0.5, math.log1p(effect)
    race = chance_found(deviation, gain, plan.blocks, confidence=plan.confidence, has_looks=True)
    return race * chance_found(deviation, gain, plan.confirm_blocks, confidence=plan.confidence)


def knob_table(knobs: Sequence[TuningKnob], lacking: Sequence[TuningLack]) -> RenderableType:
    """Return knobs with their values and levels, and what is not there."""
    parts: list[RenderableType] = [_Knobs(knobs)]
    if lacking:
        absent = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        _add_whole(absent, "not here", [missing.name for missing in lacking])
        absent.add_column("because", overflow="fold")
        for missing in lacking:
            absent.add_row(safe(missing.name), safe(missing.reason))
        parts.append(absent)
    return Group(*parts)


class _Knobs:
    """The table of knobs: names, levels and risks stay whole, what a knob sets is folded, or stands below."""

    def __init__(self, knobs: Sequence[TuningKnob]) -> None:
        self.knobs = knobs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, and what each knob sets where there is no room beside it."""
        levels = [" ".join(_quoted(level) for level in one.levels) for one in self.knobs]
        sets = [f"{one.about}; {one.reason}" if one.reason else one.about for one in self.knobs]
        names = _longest_word("knob", [one.name for one in self.knobs])
        level = _longest_word("levels", levels)
        risk = _longest_word("risk", [one.risk for one in self.knobs])
        now = min(max(map(len, ("now", *(one.found for one in self.knobs)))), _NOW_AT_MOST)
        spare = options.max_width - _TABLE_EDGES - 3 * _GAP - names - level - risk - now
        is_beside = spare >= _GAP + _SETS_AT_LEAST
        if is_beside:
            spare -= _GAP + min(max(map(len, ("sets", *sets))), _SETS_AT_MOST)
        now += min(spare, 0) if not is_beside else 0
        more = max(0, min(max(map(len, ("levels", *levels))) - level, spare))
        widths = {"knob": names, "levels": level + more, "risk": risk, "now": max(now, len("now"))}
        if is_beside:
            widths["sets"] = options.max_width - _TABLE_EDGES - 4 * _GAP - sum(widths.values())
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name, width in widths.items():
            table.add_column(name, overflow="fold", width=width)
        for one, each, text in zip(self.knobs, levels, sets, strict=True):
            cells = (one.name, each, one.risk, one.found, *([text] if is_beside else []))
            table.add_row(*map(safe, cells))
        yield table
        if not is_beside:
            yield from (safe(f"{one.name}: {text}") for one, text in zip(self.knobs, sets, strict=True))


_TABLE_EDGES, _GAP = 2, 3
_NOW_AT_MOST, _SETS_AT_LEAST, _SETS_AT_MOST = 12, 16, 40


def _longest_word(name: str, texts: Sequence[str]) -> int:
    return max(len(word) for text in (name, *texts) for word in text.split())


def _add_whole(table: Table, name: str, texts: Sequence[str]) -> None:
    """Add a column whose words stay whole, as they must be typed: the other columns give way."""
    table.add_column(name, overflow="fold", min_width=_longest_word(name, texts))


def _quoted(level: str) -> str:
    return level if level and " " not in level else repr(level)
