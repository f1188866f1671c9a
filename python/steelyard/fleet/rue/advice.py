"""One sentence of advice from a comparison by RUE: adopt, do not, no difference that matters, or what to
collect.

In: what ``compare`` found. Out: a decision and its sentence.

Invariants: the total plays no part; a decision is made by the interval of the re-weighted speedup, by default
the one that valid at every look. A declared split that was not kept makes every decision
undecided: units that went missing may be what the difference is made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.fleet.rue.clusters import Alike
from steelyard.fleet.rue.result import Comparison, Decision, Group, Reweighted, SampleRatio, Speedup, Total
from steelyard.fleet.rue.strata import StrataChoice
from steelyard.fleet.rue.usage import NAME_PREFIX, RueSettings
from steelyard.stats.power import Need

LEAST_COVERED_RATIO = 0.5
"""Where groups that both configurations have hold less of configuration 1's usage, the advice says so."""
NOUNS = {"cpu": "CPU time", "memory": "memory", "storage": "storage traffic", "network": "network traffic"}


def recommend(
    resource: str,
    names: tuple[str, str],
    total: Total,
    fair: Reweighted | None,
    groups: Sequence[Group],
    choice: StrataChoice,
    need: Need | None,
    settings: RueSettings,
    alike: Alike | None = None,
) -> tuple[Decision, str]:
    """Return what to do about configuration 2 as far as this resource goes, in one sentence."""
    noun, units = NOUNS[resource], units_of(settings, alike)
    if choice.inseparable:
        factors = ", ".join(choice.inseparable)
        return Decision.UNDECIDED, (
            f"Undecided about {noun}: {names[1]!r} and {names[0]!r} never meet on the same {factors};"
            " run both there."
        )
    if fair is None:
        return Decision.UNDECIDED, (
            f"Undecided about {noun}: no group has both configurations;"
            f" run {names[1]!r} where {names[0]!r} runs."
        )
    span = fair.speedup.interval(settings.looks)
    if span is None:
        return Decision.UNDECIDED, (
            f"Undecided about {noun}: {fair.speedup.missing}; run {names[1]!r} on more {units}."
        )
    where = _where(fair, names)
    decision = _decide(span, settings.least_effect_ratio)
    if decision is Decision.ADOPT:
        return decision, (
            f"Adopt {names[1]!r}: it needs {_less(fair.speedup.value, span)} {noun} for the same work"
            f"{where}{_but(groups, better=True)}."
        )
    if decision is Decision.DO_NOT:
        return decision, (
            f"Do not adopt {names[1]!r}: it needs {_more(fair.speedup.value, span)} {noun} for the same work"
            f"{where}{_but(groups, better=False)}."
        )
    if decision is Decision.NO_DIFFERENCE:
        return decision, (
            f"{names[1]!r} and {names[0]!r} need the same {noun} within"
            f" {settings.least_effect_ratio * 100:g} %{where}: decide by other criteria."
        )
    return (
        decision,
        f"Undecided about {noun}: {_collect(fair.speedup, span, names, need, settings, units)}{where}.",
    )


def units_of(settings: RueSettings, alike: Alike | None) -> str:
    """Return what counts as one draw, in the plural."""
    if alike is None:
        return f"{settings.replicate}s"
    return "groups of machines" if alike.name == NAME_PREFIX else f"groups by {alike.name}"


def with_mismatch(comparison: Comparison, ratios: Sequence[SampleRatio]) -> Comparison:
    """Return the comparison with its decision taken back where a declared split was not kept."""
    broken = [ratio for ratio in ratios if ratio.mismatch and ratio.expected_shares is not None]
    if not broken or comparison.missing is not None:
        return comparison
    ratio = broken[0]
    share = ratio.counts[1] / max(1e-300, sum(ratio.counts))
    declared = ratio.expected_shares or (0.0, 0.0)
    noun, unit, name = NOUNS[comparison.resource], ratio.unit.removesuffix("s"), comparison.configurations[1]
    return replace(
        comparison,
        decision=Decision.UNDECIDED,
        recommendation=(
            f"Undecided about {noun}: {share * 100:.2f} % of {unit}s are of {name!r} where"
            f" {declared[1] * 100:.2f} % were declared; find the cause of the missing ones first."
        ),
    )


def _decide(span: tuple[float, float], least: float) -> Decision:
    if span[0] > 1 and span[1] >= 1 + least:
        return Decision.ADOPT
    if span[1] < 1 and span[0] <= 1 / (1 + least):
        return Decision.DO_NOT
    if span[0] > 1 / (1 + least) and span[1] < 1 + least:
        return Decision.NO_DIFFERENCE
    return Decision.UNDECIDED


def _less(speedup: float, span: tuple[float, float]) -> str:
    """Return how much less is used, with the interval.

    >>> _less(1.25, (1.1, 1.4))
    '20.0 % less (9.1 to 28.6 %)'
    """
    low, high = (1 - 1 / span[0]) * 100, (1 - 1 / span[1]) * 100
    return f"{(1 - 1 / speedup) * 100:.1f} % less ({low:.1f} to {high:.1f} %)"


def _more(speedup: float, span: tuple[float, float]) -> str:
    low, high = (1 / span[1] - 1) * 100, (1 / span[0] - 1) * 100
    return f"{(1 / speedup - 1) * 100:.1f} % more ({low:.1f} to {high:.1f} %)"


def _where(fair: Reweighted, names: tuple[str, str]) -> str:
    if fair.covered[0] >= LEAST_COVERED_RATIO:
        return ""
    return f", known only where both run, {fair.covered[0] * 100:.0f} % of what {names[0]!r} uses"


def _but(groups: Sequence[Group], *, better: bool) -> str:
    """Return the groups with a significant difference in the other direction."""
    names = []
    for group in groups:
        if group.speedup is not None and group.speedup.side == (-1 if better else 1):
            names.append(" ".join(group.levels))
    if not names:
        return ""
    more = f" and {len(names) - 3} more groups" if len(names) > 3 else ""
    return f", but {'more' if better else 'less'} in {', '.join(names[:3])}{more}"


def _collect(
    speedup: Speedup,
    span: tuple[float, float],
    names: tuple[str, str],
    need: Need | None,
    settings: RueSettings,
    units: str,
) -> str:
    known = (
        f"the speedup is between {span[0]:.3f} and {span[1]:.3f}, and a difference of"
        f" {settings.least_effect_ratio * 100:g} % matters"
    )
    if need is None:
        return f"{known}; run {names[1]!r} on more {units}"
    if need.enough:
        return f"{known}; it is close to a bound, so collect more data"
    amounts = [
        f"{count:,} more {units} with {name!r}"
        for count, name in zip(need.more, names, strict=True)
        if count > 0
    ]
    return f"{known}; collect about {' and '.join(amounts)}"
