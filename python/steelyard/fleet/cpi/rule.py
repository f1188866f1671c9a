"""CPI2's rules for one victim on one machine: what is an outlier, who is the antagonist, who may be capped.

In: time-aligned samples of a few tasks. Out: truths, correlations and a choice. These are the formulas of
Zhang et al., "CPI2: CPU performance isolation for shared compute clusters" (EuroSys 2013, sections 4 and 5).
The fleet's queries state the same rules for all machines at once (``outliers``, ``suspects``), and
the agent's guard in Rust; ``schemas/golden/cpi2_vectors.json`` holds all three together.

Invariants: a correlation lies in [-1, 1]; where nothing can be said it is None with the reason, never 0. A
sample that is missing, or does not count, is None.

Not here: where thresholds come from (``specs``), and acting on the answer (the agent).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.fleet.cpi.evidence import TESTED, Bar, Evidence, Values, listed, weigh

LATENCY_SENSITIVE, BATCH, BEST_EFFORT = "latency-sensitive", "batch", "best-effort"
CAP_CPU_RATIO = {BATCH: 0.1, BEST_EFFORT: 0.01}
"""What a capped task is left with, in CPU-seconds per second (section 5), by class; others are not capped."""
CAP_S = 300
"""For how long a cap is held, in seconds."""


@dataclass(frozen=True)
class Rule:
    """The paper's settings. Times in seconds, usages in CPU-seconds per second."""

    minimum_usage: float = 0.25
    """Samples below it do not count: a task that hardly runs has a high CPI by itself."""
    outliers: int = 3
    """So many outliers within ``within_s`` make a task anomalous."""
    within_s: int = 300
    """Time in which the outliers must occur."""
    correlation_s: int = 600
    """How far back suspects are looked at."""
    correlation_floor: float = 0.35
    """From this correlation on a suspect is the antagonist."""
    align_s: int = 60
    """Samples of one machine whose windows begin in the same span of this length are simultaneous."""

    def __post_init__(self) -> None:
        if self.outliers < 1 or min(self.within_s, self.correlation_s, self.align_s) < 1:
            raise ValueError("counts and spans of time are at least 1")
        if self.minimum_usage < 0 or not -1 <= self.correlation_floor <= 1:
            raise ValueError("a usage is not negative, a correlation between -1 and 1")
        if self.correlation_s % self.align_s:
            raise ValueError("the window of the correlation is a whole number of alignment spans")


PAPER = Rule()


@dataclass(frozen=True)
class Correlation:
    """What a suspect's usage has to do with a victim's CPI."""

    value: float | None
    """Between -1 (works when the victim is well) and 1 (works when it suffers); None with ``missing``."""
    pairs: int
    """Time-aligned pairs that it stands on."""
    missing: str | None = None


@dataclass(frozen=True)
class Suspect:
    """A task that shared the machine; ``usage`` is aligned with the victim's samples."""

    job: str
    task: str
    job_class: str
    usage: Values
    misses: Values | None = None
    """Last-level cache misses per second, where they are counted."""


@dataclass(frozen=True)
class Ranked:
    """A suspect with what speaks against it."""

    suspect: Suspect
    correlation: Correlation
    may_be_capped: bool
    evidence: Evidence | None = None
    """None by the paper's rule."""


@dataclass(frozen=True)
class Judgement:
    """The suspects in order, the antagonist if there is one, and whom to cap if anybody."""

    order: tuple[Ranked, ...]
    antagonist: Ranked | None
    cap: Ranked | None
    cap_cpu_ratio: float | None
    reason: str | None
    """Why nobody is to be capped, None where somebody is."""


def is_outlier(cpi: float | None, usage: float, threshold_cpi: float, rule: Rule = PAPER) -> bool:
    """Whether a sample counts and lies above the threshold.

    >>> is_outlier(2.5, 1.0, 2.0), is_outlier(2.0, 1.0, 2.0), is_outlier(2.5, 0.2, 2.0)
    (True, False, False)
    """
    return cpi is not None and usage >= rule.minimum_usage and cpi > threshold_cpi


def anomalies(start_unix_s: Sequence[int], outlier: Sequence[bool], rule: Rule = PAPER) -> list[bool]:
    """Return at which samples of a task, in order of time, it is anomalous.

    It is at an outlier that ends ``rule.outliers`` of them within (now - ``rule.within_s``, now].

    >>> anomalies([0, 60, 120, 180], [True, True, False, True])
    [False, False, False, True]
    """
    seen: list[int] = []
    anomalous = []
    for now, is_one in zip(start_unix_s, outlier, strict=True):
        if is_one:
            seen = [then for then in seen if now - then < rule.within_s] + [now]
        anomalous.append(is_one and len(seen) >= rule.outliers)
    return anomalous


def correlate(
    victim_cpi: Sequence[float | None], suspect_usage: Sequence[float | None], threshold_cpi: float
) -> Correlation:
    """Return the antagonist correlation (section 4.2) over pairs of simultaneous samples.

    The usage is scaled to a sum of 1 over the pairs of which both are known; where the victim's CPI c is
    above the threshold t the pair adds u (1 - t/c), below it u (c/t - 1).

    Raises ValueError for a threshold, CPI or usage that cannot be.

    >>> correlate([1.0, 4.0], [0.0, 3.0], 2.0).value, correlate([1.0, 4.0], [0.0, 0.0], 2.0).missing
    (0.5, 'idle')
    """
    if not (math.isfinite(threshold_cpi) and threshold_cpi > 0):
        raise ValueError(f"a threshold of {threshold_cpi} is no CPI")
    pairs = [
        (cpi, usage)
        for cpi, usage in zip(victim_cpi, suspect_usage, strict=True)
        if cpi is not None and usage is not None
    ]
    if not all(math.isfinite(cpi) and cpi > 0 and math.isfinite(use) and use >= 0 for cpi, use in pairs):
        raise ValueError("a CPI is above 0, and a usage not below")
    if not pairs:
        return Correlation(None, 0, "no time-aligned samples")
    largest = max(usage for _, usage in pairs)
    if largest == 0:
        return Correlation(None, len(pairs), "idle")
    # Divided by the largest first, so that the sum of very large usages is finite.
    scaled = [usage / largest for _, usage in pairs]
    terms = [share * strain(cpi, threshold_cpi) for (cpi, _), share in zip(pairs, scaled, strict=True)]
    value = math.fsum(terms) / math.fsum(scaled)
    return Correlation(max(-1.0, min(1.0, value)), len(pairs))


def strain(cpi: float, threshold_cpi: float) -> float:
    """Return how far a CPI is above (up to 1) or below (down to -1) the threshold.

    >>> strain(4.0, 2.0), strain(2.0, 2.0), strain(1.0, 2.0)
    (0.5, 0.0, -0.5)
    """
    return 1 - threshold_cpi / cpi if cpi > threshold_cpi else cpi / threshold_cpi - 1


def judge(
    victim_class: str,
    victim_cpi: Sequence[float | None],
    threshold_cpi: float,
    suspects: Sequence[Suspect],
    rule: Rule = PAPER,
) -> Judgement:
    """Return the suspects by correlation (ties by job and task, unknown ones last), and whom to cap.

    Only latency-sensitive victims are protected, and only batch and best-effort tasks are capped: of those
    that reach the floor the one of the highest correlation, even where a latency-sensitive task stands
    before it.
    """
    protected = victim_class == LATENCY_SENSITIVE
    ranked = [
        Ranked(
            suspect,
            correlate(victim_cpi, listed(suspect.usage), threshold_cpi),
            protected and may_be_capped(suspect.job_class),
        )
        for suspect in suspects
    ]
    ranked.sort(key=_place)
    guilty = [candidate for candidate in ranked if _reaches(candidate, rule.correlation_floor)]
    cap = next((candidate for candidate in guilty if candidate.may_be_capped), None)
    reason = None
    if cap is None:
        reason = _reason(victim_class, ranked, guilty, rule)
    return Judgement(
        tuple(ranked),
        guilty[0] if guilty else None,
        cap,
        CAP_CPU_RATIO[cap.suspect.job_class] if cap is not None else None,
        reason,
    )


def judge_tested(
    victim_class: str,
    victim_cpi: Values,
    threshold_cpi: float,
    suspects: Sequence[Suspect],
    rule: Rule = PAPER,
    bar: Bar = TESTED,
) -> Judgement:
    """Return the suspects by their fit, and whom to cap of those that the evidence names (``evidence``).

    The windows are those of ``bar.evidence_s``; the paper's correlation, over the last ``rule.correlation_s``
    of them, is reported beside the evidence and decides nothing.
    """
    protected = victim_class == LATENCY_SENSITIVE
    misses = [suspect.misses for suspect in suspects]
    results = weigh(victim_cpi, [suspect.usage for suspect in suspects], threshold_cpi, misses, bar)
    recent = rule.correlation_s // rule.align_s
    recent_cpi = listed(victim_cpi[-recent:])
    ranked = [
        Ranked(
            suspect,
            correlate(recent_cpi, listed(suspect.usage[-recent:]), threshold_cpi),
            protected and may_be_capped(suspect.job_class),
            evidence,
        )
        for suspect, evidence in zip(suspects, results, strict=True)
    ]
    ranked.sort(key=_fitness)
    guilty = [
        candidate
        for candidate in ranked
        if candidate.evidence is not None and candidate.evidence.refusal is None
    ]
    cap = next((candidate for candidate in guilty if candidate.may_be_capped), None)
    reason = None
    if not ranked:
        reason = "no suspect shares the machine"
    elif not guilty:
        first = ranked[0]
        assert first.evidence is not None
        reason = f"{first.suspect.task}: {first.evidence.refusal}"
    elif cap is None:
        reason = _reason(victim_class, ranked, guilty, rule)
    cap_cpu_ratio = CAP_CPU_RATIO[cap.suspect.job_class] if cap is not None else None
    return Judgement(tuple(ranked), guilty[0] if guilty else None, cap, cap_cpu_ratio, reason)


def _fitness(candidate: Ranked) -> tuple[bool, float, str, str]:
    fit = None if candidate.evidence is None else candidate.evidence.fit
    return (fit is None, -(fit or 0.0), candidate.suspect.job, candidate.suspect.task)


def may_be_capped(job_class: str) -> bool:
    """Whether tasks of this class may be capped for the sake of others."""
    return job_class in CAP_CPU_RATIO


def _place(candidate: Ranked) -> tuple[bool, float, str, str]:
    value = candidate.correlation.value
    return (value is None, -(value or 0.0), candidate.suspect.job, candidate.suspect.task)


def _reaches(candidate: Ranked, floor: float) -> bool:
    return candidate.correlation.value is not None and candidate.correlation.value >= floor


def _reason(victim_class: str, ranked: Sequence[Ranked], guilty: Sequence[Ranked], rule: Rule) -> str:
    if not ranked:
        return "no suspect shares the machine"
    if not guilty:
        return f"no suspect reaches the correlation of {rule.correlation_floor:g}"
    if victim_class != LATENCY_SENSITIVE:
        return f"the victim is {victim_class}"
    return f"the antagonist is {guilty[0].suspect.job_class}"
