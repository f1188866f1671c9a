"""Orders findings by how much of the headline's time they explain, and joins those of one cause.

In: findings with the rules that made them, and the headline. Out: the same findings, ranked.

A rule says which part of that time its first evidence is a share of: ``time`` itself, or ``cpu``, the part of
it in which its CPUs worked. A rule that says neither makes notes: findings that explain no part of the
headline and are listed last. A finding may also state its own share.

Not here: what rules conclude.
"""

from collections.abc import Sequence
from dataclasses import replace

from steelyard.analyze.headline import Headline
from steelyard.analyze.rules.findings import Finding, Rule


def explained_ratio(finding: Finding, rule: Rule, headline: Headline) -> float | None:
    """Return the share of the headline's time that a finding explains, None where it explains none of it."""
    if finding.explained_ratio is not None:
        return min(1.0, max(0.0, finding.explained_ratio))
    if not rule.explains or not finding.evidence:
        return None
    first = finding.evidence[0]
    whole = headline.work_ratio if rule.explains == "cpu" else 1.0
    if whole is None or first.unit not in ("ratio", "1"):
        return None
    return whole * min(1.0, max(0.0, first.value))


def ranked(findings: Sequence[tuple[Finding, Rule]], headline: Headline) -> list[Finding]:
    """Return the findings of rules: what explains most of the headline's time first, notes last.

    Findings of one cause become one: the first says the claim, the others follow in ``also``.
    """
    pairs = [
        (replace(finding, explained_ratio=explained_ratio(finding, rule, headline)), rule)
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
