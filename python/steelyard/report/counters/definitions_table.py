"""What can be counted on a machine, and why the rest cannot.

In: a `Choice`. Out: an `Answer`. Not here: choosing (``analyze.counters.choice``).
"""

from __future__ import annotations

from steelyard.analyze.counters.choice import Choice, Wanted
from steelyard.report.answer import Answer, Notes, Remark, Remarks, Section


def answer(choice: Choice) -> Answer:
    """Return the definition, the metrics that can be had with their formulas, and why others cannot."""
    definition = choice.definition
    there = [each for each in choice.metrics if each.missing is None]
    counts = (
        f"{len(there)} of {len(choice.metrics)} metrics, {len(choice.plan.events)} events, {choice.scope}"
    )
    reasons: dict[str, list[str]] = {}
    for name, reason in choice.missing.items():
        reasons.setdefault(reason, []).append(name)
    absent = tuple(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    metrics = Remarks(tuple(map(_metric, there)), columns=("metric", "meaning"))
    return Answer(
        "Counters",
        f"{definition.name} ({definition.id}): {choice.reason}",
        [
            Section("metrics", "Metrics", (metrics,)),
            Section("absent", "Not here, and why", (Notes(absent),)),
            Section("sources", "From", (Notes(tuple(definition.sources)),)),
        ],
        lines=[counts],
        eyebrow="machine",
    )


def _metric(metric: Wanted) -> Remark:
    unit = "" if metric.unit in ("", "1", "ratio") else f" ({metric.unit})"
    formula = (("formula", metric.formula.replace("\\", "")),) if metric.formula else ()
    return Remark(f"{metric.meaning or metric.name}{unit}", metric.name, details=formula)
