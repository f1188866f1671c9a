"""Situations, and the results of trying them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.stats import beta

Random = np.random.Generator


class Claim(StrEnum):
    """What is counted over the trials of a situation, and the bar that it must meet."""

    HOLDS = "holds"
    """An interval of 95 % that was stated holds the truth: in 93 to 99 % of the trials that state one."""
    FALSE = "false"
    """A change, a name or a fault is reported where there is none: in at most 5 %."""
    FOUND = "found"
    """What is there is found: the power, with a bar only where ``Situation.bar`` sets one."""
    SILENT = "silent"
    """Nothing is stated, because the data cannot bear it: in at least 95 %."""
    BIAS = "bias"
    """The mean of ``Outcome.error`` is within ``Situation.bar`` of zero."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one trial gave."""

    answer: bool | None
    """Held, false, found or silent, as the claim says; ``None`` where the product stated nothing."""
    error: float | None = None
    """Estimate minus truth, in the unit of the situation; for the claim ``BIAS``, and shown beside others."""
    width: float | None = None
    """Width of the interval over the truth (or in the unit of the situation): what the interval is worth."""


@dataclass(frozen=True, slots=True)
class Situation:
    """One row of ``docs/truth.md``: give ``trial``, or ``batch`` where many trials at once are cheaper."""

    name: str
    """What is drawn, with its figures, in the field's words."""
    claim: Claim
    trial: Callable[[Random], Outcome] | None = None
    """Draw data, ask the product, and judge its answer. A function of a module."""
    batch: Callable[[int, int], Sequence[Outcome]] | None = None
    """The same for ``(seed, trials)``."""
    trials: int = 400
    """How many for ``docs/truth.md``."""
    quick: int = 0
    """How many for ``make test``; 0 where even a few take too long."""
    before: str = ""
    """The result before the statistic was repaired, as it stands in the document."""
    bar: float | None = None
    """In place of the claim's own bar: a largest share (``FALSE``), a smallest share (``FOUND``, ``SILENT``,
    ``HOLDS`` without its upper bound), or a size of the mean error (``BIAS``)."""
    note: str = ""
    """What the reader must know of this row."""
    is_limit: bool = False
    """Whether nothing in the data can tell: the row shows what that costs, and no bar judges it."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic with its situations."""

    name: str
    covers: tuple[str, ...]
    """Dotted names of the dataclasses that carry its intervals, p values or verdicts, as in
    ``steelyard.stats.intervals.MedianInterval``."""
    situations: tuple[Situation, ...]
    about: str = ""
    """One or two sentences below the title: what is stated, and what it rests on."""


@dataclass(frozen=True, slots=True)
class Found:
    """Results of the trials of one situation."""

    trials: int
    stated: int
    """Trials in which the product stated something."""
    share: float | None
    """Of those, the ones that the claim counts; ``None`` where nothing was stated."""
    low: float | None
    """Lower end of the exact 95 % interval of ``share`` (Clopper and Pearson 1934)."""
    high: float | None
    """Upper end of it."""
    mean_error: float | None
    error_of_mean: float | None
    """Standard error of ``mean_error``."""
    width: float | None
    """Median width of the intervals."""
    seconds: float
    """Wall-clock time of the trials."""

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], seconds: float) -> Found:
        """Summarize the outcomes of one situation."""
        answers = [one.answer for one in outcomes if one.answer is not None]
        errors = [one.error for one in outcomes if one.error is not None]
        widths = [one.width for one in outcomes if one.width is not None]
        count, hits = len(answers), sum(answers)
        return cls(
            trials=len(outcomes),
            stated=count,
            share=hits / count if count else None,
            low=(float(beta.ppf(0.025, hits, count - hits + 1)) if hits else 0.0) if count else None,
            high=(float(beta.ppf(0.975, hits + 1, count - hits)) if hits < count else 1.0) if count else None,
            mean_error=float(np.mean(errors)) if errors else None,
            error_of_mean=float(np.std(errors, ddof=1) / len(errors) ** 0.5) if len(errors) > 1 else None,
            width=float(np.median(widths)) if widths else None,
            seconds=seconds,
        )


HOLDS_LOW, HOLDS_HIGH, FALSE_HIGH, SILENT_LOW = 0.93, 0.99, 0.05, 0.95


def bar_text(situation: Situation) -> str:
    """Return the bar of a situation as the document prints it."""
    bar = situation.bar
    match situation.claim:
        case Claim.HOLDS:
            return f"{HOLDS_LOW:.0%} to {HOLDS_HIGH:.0%}" if bar is None else f"at least {bar:.0%}"
        case Claim.FALSE:
            return f"at most {FALSE_HIGH if bar is None else bar:.0%}"
        case Claim.FOUND:
            return "-" if bar is None else f"at least {bar:.0%}"
        case Claim.SILENT:
            return f"at least {SILENT_LOW if bar is None else bar:.0%}"
        case Claim.BIAS:
            return f"within {bar:g}"


def bar_of(situation: Situation) -> tuple[float, float]:
    """Return between which shares a situation's bar is met; not for the claim ``BIAS``."""
    bar = situation.bar
    match situation.claim:
        case Claim.HOLDS:
            return (HOLDS_LOW, HOLDS_HIGH) if bar is None else (bar, math.inf)
        case Claim.FALSE:
            return -math.inf, FALSE_HIGH if bar is None else bar
        case Claim.SILENT:
            return SILENT_LOW if bar is None else bar, math.inf
        case _:
            return -math.inf if bar is None else bar, math.inf


def is_met(situation: Situation, found: Found) -> bool | None:
    """Return whether the bar is met as far as the trials can tell, ``None`` without a bar or an answer.

    A bar is missed when the whole interval of the share (or the mean error by more than two standard errors)
    lies beyond it. A bar of ``HOLDS`` is also met where nothing is stated in any trial.
    """
    if situation.is_limit:
        return None
    bar = situation.bar
    if situation.claim is Claim.BIAS:
        if found.mean_error is None or bar is None:
            return None
        return abs(found.mean_error) - 2 * (found.error_of_mean or 0.0) <= bar
    if found.low is None or found.high is None:
        return None
    match situation.claim:
        case Claim.HOLDS:
            if bar is not None:
                return found.high >= bar
            return found.high >= HOLDS_LOW and found.low <= HOLDS_HIGH
        case Claim.FALSE:
            return found.low <= (FALSE_HIGH if bar is None else bar)
        case Claim.SILENT:
            return found.high >= (SILENT_LOW if bar is None else bar)
        case _:
            return None if bar is None else found.high >= bar


def is_within(situation: Situation, found: Found) -> bool:
    """Return whether the figure itself, and not only its interval, is within the bar."""
    if situation.claim is Claim.BIAS:
        return found.mean_error is None or situation.bar is None or abs(found.mean_error) <= situation.bar
    low, high = bar_of(situation)
    return found.share is None or low <= found.share <= high


def seed_of(statistic: str, situation: str, seed: int) -> int:
    """Return the seed of a situation: the same whichever others run, and in whatever order."""
    return zlib.crc32(f"{seed}/{statistic}/{situation}".encode())


def generators(seed: int, trials: int) -> list[Random]:
    """Return an independent generator for each trial."""
    return [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(trials)]
