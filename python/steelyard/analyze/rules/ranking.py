"""Orders findings by how much of the headline's time they explain, and joins those of one cause.

In: findings with the rules that made them, and the conditions. Out: the same findings, ranked. The headline's
time is what the first figure of a run is made of: a request's time where a load drives a server, a program's
elapsed time where one was watched, else the machine's.

A rule says which part of that time its first evidence is a share of: ``time`` itself, or ``cpu``, the part of
it in which its CPUs worked. A rule that says neither makes notes: findings that explain no part of the
headline and are listed last. A finding may also state its own share.

Not here: what rules conclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.own_cpu import own_cpus, server_used_ratio

if TYPE_CHECKING:
    from steelyard.analyze.rules.findings import Finding, Rule


def headline_time(conditions: Conditions) -> str:
    """Return what the headline's time is called."""
    if conditions.has_load:
        return "a request's time"
    return "the program's time" if conditions.target is not None else "the machine's time"


def cpu_ratio(conditions: Conditions) -> float | None:
    """Return the share of the headline's time in which its CPUs worked; None where that is not known."""
    stages = conditions.stages
    if stages is not None and stages.root is not None:
        return stages.root.cpu_ratio
    if conditions.target is not None:
        cpus = conditions.target.cpus.value
        return None if cpus is None else min(1.0, cpus)
    if conditions.has_load:
        return server_used_ratio(conditions)
    own, count = own_cpus(conditions), len(conditions.all_cpus.cpus)
    if own is not None and count:
        return min(1.0, own / count)
    use = conditions.all_cpus.use
    return None if use is None else min(1.0, use.own_ratio)


def work_ratio(conditions: Conditions) -> float | None:
    """Return the share of the headline's time in which its CPUs worked, or a program waited for one.

    Who has less work waits less for a CPU, too.
    """
    ran, target = cpu_ratio(conditions), conditions.target
    if target is None or ran is None:
        return ran
    return min(1.0, ran + (target.cpu_wait.value or 0.0))


def explained_ratio(finding: Finding, rule: Rule, conditions: Conditions) -> float | None:
    """Return the share of the headline's time that a finding explains, None where it explains none of it."""
    if finding.explained_ratio is not None:
        return min(1.0, max(0.0, finding.explained_ratio))
    if not rule.explains or not finding.evidence:
        return None
    first = finding.evidence[0]
    whole = work_ratio(conditions) if rule.explains == "cpu" else 1.0
    if whole is None or first.unit not in ("ratio", "1"):
        return None
    return whole * min(1.0, max(0.0, first.value))


def ranked(findings: Sequence[tuple[Finding, Rule]], conditions: Conditions) -> list[Finding]:
    """Return the findings of rules: what explains most of the headline's time first, notes last.

    Findings of one cause become one: the first says the claim, the others follow in ``also``.
    """
    pairs = [
        (replace(finding, explained_ratio=explained_ratio(finding, rule, conditions)), rule)
        for finding, rule in findings
    ]
    pairs.sort(key=lambda pair: _place(pair[0]))
    kept: list[Finding] = []
    by_cause: dict[str, int] = {}
    for finding, rule in pairs:
        at = by_cause.get(rule.cause) if rule.cause else None
        if at is None:
            if rule.cause:
                by_cause[rule.cause] = len(kept)
            kept.append(finding)
        else:
            kept[at] = _joined(kept[at], finding)
    return kept


def _place(finding: Finding) -> tuple[bool, float, float, str]:
    ratio = finding.explained_ratio
    return ratio is None, -(ratio or 0.0), -finding.weight, finding.id


def _joined(first: Finding, other: Finding) -> Finding:
    known = {item.metric for item in first.evidence}
    return replace(
        first,
        also=(*first.also, other.claim),
        merged=(*first.merged, other.id),
        evidence=(*first.evidence, *(item for item in other.evidence if item.metric not in known)),
        part=first.part or other.part,
        sure=first.sure or (other.sure and first.part == other.part),
    )
