"""A tuning on a terminal: the outcome, the knobs of the soft SKU, what else was tried, what was not.

In: the record. Out: renderables for a `rich` console.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from steelyard.records import RunStatus
from steelyard.records.tuning import Tuning, TuningEvidence, TuningKnob, TuningLack, TuningPlan
from steelyard.report import format as fmt
from steelyard.report.experiment.table import change
from steelyard.report.terminal import safe
from steelyard.stats.contrasts import FEWEST_BLOCKS, chance_found
from steelyard.tune.tuning import NONE, UNDECIDED, most_gain, open_knobs

PURPOSES = (
    ("confirm", "confirmation: the whole beside the machine as found"),
    ("ablate", "ablation: what each knob brings to the whole"),
    ("search", "search: each level beside the base of its race"),
)


def gain_text(one: TuningEvidence) -> str:
    """Return a gain with its interval, a plus being better."""
    if one.gain_ratio is None:
        return fmt.MISSING
    if one.low is None or one.high is None:
        return change(one.gain_ratio)
    return f"{change(one.gain_ratio)} ({change(one.low)} to {change(one.high)})"


def heading(tuning: Tuning) -> str:
    """Return the outcome in one sentence."""
    confirmed = next((one for one in tuning.evidence if one.purpose == "confirm"), None)
    if tuning.outcome == "better" and confirmed is not None:
        levels = ", ".join(f"{name}={level}" for name, level in tuning.chosen.items())
        return f"Soft SKU: {levels}: {gain_text(confirmed)} of {tuning.metric.name}"
    most = most_gain(tuning)
    if tuning.outcome == NONE and most is None:
        return "No knob helps: every level that was tried was dropped"
    if tuning.outcome == NONE and most is not None:
        lost = "" if confirmed is None else f"; what won alone was not confirmed ({gain_text(confirmed)})"
        return f"No knob helps by more than {_percent(most)}{lost}"
    if tuning.outcome == UNDECIDED:
        if confirmed is not None:
            return f"Not decided: what won alone was not confirmed ({gain_text(confirmed)})"
        count, tried = len(open_knobs(tuning)), sum(one.reason is None for one in tuning.knobs)
        bound = "" if most is None else f", and none helps by more than {_percent(most)}"
        return (
            f"Undecided: no level is shown to be better than what was found{bound};"
            f" {_undecided(count, tried)}"
        )
    return f"Not known: {tuning.status_reason or tuning.status}"


def _percent(ratio: float) -> str:
    """Return how much a gain is, rounded up so that it stays a bound.

    >>> _percent(1.00412), _percent(1.0)
    ('0.5 %', '0.1 %')
    """
    return f"{max(math.ceil((ratio - 1) * 1000 - 1e-9), 1) / 10:g} %"


def _undecided(count: int, tried: int) -> str:
    """Return for how many knobs more trials are needed.

    >>> _undecided(2, 2), _undecided(1, 3)
    ('more trials are needed for both knobs', 'more trials are needed for 1 of 3 knobs')
    """
    if tried == 1:
        return "more trials are needed"
    which = "both" if count == tried == 2 else f"all {count}" if count == tried else f"{count} of {tried}"
    return f"more trials are needed for {which} knobs"


def summary(tuning: Tuning) -> RenderableType:
    """Return the tuning: outcome, evidence, knobs that were not tried."""
    parts: list[RenderableType] = [safe(heading(tuning))]
    for purpose, title in PURPOSES:
        rows = [one for one in tuning.evidence if one.purpose == purpose]
        if rows:
            parts += [Text(), Text(title, style="bold"), _evidence(rows)]
    parts += [safe(f"!  {note}") for note in notes(tuning)]
    parts.append(Text(fine_print(tuning), style="dim"))
    return Group(*parts)


def notes(tuning: Tuning) -> list[str]:
    """Return what a reader must know: dropped levels, knobs that were not tried."""
    found = [
        f"{one.knob or 'combination'}{'' if one.level is None else '=' + one.level} was dropped: {one.reason}"
        for one in tuning.evidence
        if one.outcome == "dropped"
    ]
    untried = {one.knob or "" for one in tuning.evidence if one.outcome == "not-tried"}
    if undecided := set(open_knobs(tuning)) - untried:
        names = ", ".join(sorted(name or "combinations" for name in undecided))
        found.append(f"undecided within time or blocks: {names}; more --budget or --blocks would tell")
    # Levels of one race mostly have the same reason.
    found += dict.fromkeys(
        f"{one.purpose} of {one.knob or one.level}: no interval: {one.reason}"
        for one in tuning.evidence
        if one.outcome not in ("dropped", "not-tried") and one.reason is not None
    )
    late = [one for one in tuning.evidence if one.outcome == "not-tried"]
    if late:
        names = ", ".join(one.knob or "" for one in late)
        found.append(f"not tried: {names}: {late[0].reason}; more --budget would try them")
    found += [f"{one.name} was not tried: {one.reason}" for one in tuning.knobs if one.reason is not None]
    if tuning.status is not RunStatus.COMPLETE and tuning.status_reason is not None:
        found.append(f"ended after {tuning.trials} trials: {tuning.status_reason}")
    return found


def fine_print(tuning: Tuning) -> str:
    """Return what the intervals hold for."""
    plan = tuning.plan
    return (
        f"{tuning.trials} trials, {plan.strategy}; + is better; intervals of {plan.confidence:.0%} for all"
        " comparisons of the search together, and again for those of the ablation and for the confirmation,"
        " on new values; a level goes on to the confirmation by its own interval, which is narrower"
    )


def _evidence(rows: Sequence[TuningEvidence]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    _add_whole(table, "knob", [one.knob or "" for one in rows])
    _add_whole(table, "level", [one.level or "" for one in rows])
    for name in ("gain", "blocks", ""):
        table.add_column(name, overflow="fold")
    for one in rows:
        table.add_row(
            safe(one.knob or ""), safe(one.level or ""), gain_text(one), str(one.blocks), one.outcome
        )
    return table


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
