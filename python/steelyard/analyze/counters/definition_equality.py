"""Whether two definitions of one processor's metrics say the same: formulas evaluated on the same random
counts.

In: our definition, another one (perf's, a vendor's). Out: which of our metrics that name a counterpart
(`Counterpart`) agree to `RELATIVE`, which do not, and which differ on purpose.

Counts are drawn for events of our definition; the other's formulas get them by name or alias. What only the
other's formulas name is drawn, too.

Not here: reading others' files (``checkouts``).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from steelyard.analyze.counters.choice import MachineFacts
from steelyard.analyze.counters.definitions import Definition, Metric
from steelyard.analyze.counters.formulas import names_in
from steelyard.analyze.counters.metrics import metrics_of
from steelyard.telemetry.counters import Gain, Gains, key_of

RELATIVE = 1e-9
ROUNDS = 20
_FACTS = MachineFacts(
    scope="system", smt_on=True, cores=32, packages=2, cpus=128, tsc_hz=2.1e9, slots=5, identifier=None
)


@dataclass(frozen=True)
class Comparison:
    """Our metrics by how they compare."""

    equal: tuple[str, ...]
    differing: tuple[str, ...]
    """Lines that say which, and what both came to."""
    on_purpose: tuple[str, ...]
    """Those that differ and say why."""
    agreeing_now: tuple[str, ...]
    """Those that say why they differ, and do not."""


def counterpart_in(metric: Metric, theirs: Mapping[str, object]) -> str | None:
    """Return the name under which others have a metric, None where they do not."""
    if metric.counterpart is None:
        return None
    return next((name for name in metric.counterpart.names if name in theirs), None)


def compare_metrics(ours: Definition, theirs: Definition, chance: random.Random) -> Comparison:
    """Return how our metrics compare with their counterparts, over rounds of random counts."""
    pairs = {
        name: counterpart
        for name, metric in ours.metrics.items()
        if (counterpart := counterpart_in(metric, theirs.metrics)) is not None
    }
    differences: dict[str, str] = {}
    for round_number in range(ROUNDS):
        facts = replace(_FACTS, smt_on=bool(round_number % 2), slots=ours.slots)
        gains, other_gains = _counts(ours, theirs, list(pairs.values()), chance)
        own = metrics_of(ours, gains, facts, only=list(pairs))
        others = metrics_of(theirs, other_gains, facts, only=list(pairs.values()))
        for name, other_name in pairs.items():
            theirs_value = others[other_name].value
            if theirs_value is not None:
                # Formulas are compared, not what perf makes of them for the eye (100 %).
                theirs_value /= theirs.metrics[other_name].scale
            line = _difference(ours.metrics[name], own[name].value, theirs_value)
            if line is not None:
                why = own[name].missing or others[other_name].missing
                reason = f" ({why})" if why else ""
                differences.setdefault(name, f"{name} and {other_name}: {line}{reason}")
    purpose = {name for name in pairs if (part := ours.metrics[name].counterpart) and part.differs}
    return Comparison(
        tuple(name for name in pairs if name not in differences and name not in purpose),
        tuple(line for name, line in differences.items() if name not in purpose),
        tuple(name for name in pairs if name in purpose and name in differences),
        tuple(name for name in pairs if name in purpose and name not in differences),
    )


def _difference(metric: Metric, own: float | None, other: float | None) -> str | None:
    part = metric.counterpart
    if own is None or other is None or part is None:
        return f"ours came to {own}, theirs to {other}"
    expected = part.factor / other if part.inverse else part.factor * other
    if abs(own - expected) <= RELATIVE * max(abs(own), abs(expected)):
        return None
    return f"ours came to {own:.12g}, theirs to {expected:.12g}"


def _counts(
    ours: Definition, theirs: Definition, names: list[str], chance: random.Random
) -> tuple[Gains, Gains]:
    """Return the same random counts under our names and under theirs.

    Counts lie between 1e3 and 1e12, evenly in their logarithm; durations are not 1 s, so that a formula
    that forgets the duration shows.
    """
    duration_s = chance.uniform(2, 100)
    own = {name: Gain(10 ** chance.uniform(3, 12)) for name in ours.events}
    for defined in ours.events.values():
        own |= {part: Gain(10 ** chance.uniform(3, 12)) for part in defined.sum_of}
        if defined.sum_of:
            own[defined.name] = Gain(sum(own[part].value or 0.0 for part in defined.sum_of))
    parts = {key_of(name): gain for name, gain in own.items()}
    other: dict[str, Gain] = {}
    for metric in names:
        for name in _events_below(theirs, metric):
            event = ours.event(name)
            if event is not None:
                other[name] = own[event.name]
            elif key_of(name) in parts:
                other[name] = parts[key_of(name)]
            else:
                other.setdefault(name, Gain(10 ** chance.uniform(3, 12)))
    return (
        Gains("system", "", duration_s, own),
        Gains("system", "", duration_s, {key_of(name): gain for name, gain in other.items()}),
    )


def _events_below(definition: Definition, metric: str) -> set[str]:
    events: set[str] = set()
    waiting, seen = [metric], {metric}
    while waiting:
        for formula in definition.metrics[waiting.pop()].formulas:
            for name in names_in(formula.node):
                if name not in definition.metrics:
                    events.add(name)
                elif name not in seen:
                    seen.add(name)
                    waiting.append(name)
    return events
