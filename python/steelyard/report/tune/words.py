"""What a tuning says, in sentences: the outcome, and what to know before believing it.

In: the record. Out: text. Not here: tables and charts (``answer``), plans and knobs (``knobs``).
"""

from __future__ import annotations

import math

from steelyard.records import RunStatus
from steelyard.records.tuning import Tuning, TuningEvidence
from steelyard.report import format as fmt
from steelyard.report.experiment.words import change
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
