"""Scores: a result over that of a baseline machine, and their geometric mean over benchmarks.

In: complete runs (repeats of one benchmark) and a baseline. Out: ``Score``, or ``Refusal`` with the reason
why there can be none. As in DCPerf, a score of 2 means twice the baseline machine; unlike there, what is
not alike is not compared, and the mean is not taken over the benchmarks that happened to work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steelyard.decide.baseline import Baseline, BaselineResult, difference, medians
from steelyard.records import Level, Run, RunStatus, SuiteOverall
from steelyard.stats.intervals import (
    RATIO_COUNT,
    RatioInterval,
    geometric_mean,
    mean_ratio_interval,
    median_interval,
    ratio_interval,
)
from steelyard.stats.sessions import SessionSpread

CONFIDENCE = 0.95
"""Of every interval for a score."""


@dataclass(frozen=True, slots=True)
class ScorePart:
    """A part of a score: a category of a benchmark, or a member of a suite."""

    name: str
    """Its metric, or the benchmark."""
    ratio: float
    """Its score against the baseline."""


@dataclass(frozen=True, slots=True)
class Score:
    """A result over that of a baseline machine. A ratio above 1 is better than the baseline."""

    benchmark: str
    """Which benchmark."""
    tier: str
    """How long its runs are."""
    metric: str
    """The metric that it is scored by."""
    unit: str
    """Unit of the metric."""
    value: float
    """Median over the runs, in ``unit``."""
    baseline_value: float
    """The baseline's median, in ``unit``."""
    ratio: float
    """Result over baseline; where less is better, baseline over result."""
    ratio_low: float | None
    """Lower end of the 95 % interval for ``ratio``, which has the noise of the runs and of the baseline's;
    ``None`` with too few of either."""
    ratio_high: float | None
    """Upper end of it."""
    runs: int
    """Repeats that went in."""
    baseline: str
    """Title of the baseline machine."""
    provenance: str
    """Where the baseline's figure comes from."""
    reservations: tuple[str, ...]
    """Why the score is to be taken with care; empty where nothing objects."""
    suspect: bool = False
    """Whether one of the runs is suspect."""
    parts: dict[str, float] = field(default_factory=dict)
    """Ratio of each metric that is a part of the result, such as a category's rate; above 1 is better."""
    no_interval: str | None = None
    """Why there is no interval, ``None`` where there is one."""
    spread_ratio: float | None = None
    """Largest minus smallest of the runs, over their median; ``None`` with one run."""
    run_ratios: tuple[float, ...] = ()
    """The score of each run by itself."""
    baseline_ratios: tuple[float, ...] = ()
    """The score of each of the baseline's own runs: how far from 1 chance alone may bring one."""
    baseline_suspect_runs: int = 0
    """How many of the baseline's runs are suspect."""
    baseline_date: str | None = None
    """When the baseline was measured, as in 2026-11-21."""
    sessions: int | None = None
    """Earlier sessions whose spread the interval has, ``None`` where it is of this one alone."""

    baseline_runs: int = 0
    """How many runs the baseline's figure is the median of."""
    baseline_spread_ratio: float | None = None
    """Largest minus smallest of the baseline's runs, over their median; ``None`` with one run."""
    worst_part: ScorePart | None = None
    """The part with the smallest ratio, ``None`` where the result has no parts."""
    best_part: ScorePart | None = None
    """The part with the largest ratio."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no score."""

    reason: str
    """Why."""


@dataclass(frozen=True, slots=True)
class RunScore:
    """The score of a run: `steelyard score RUN --json`."""

    KIND: ClassVar[str] = "run_score"

    run_id: str
    """The run."""
    score: Score | Refusal
    """The score, or the reason why there is none."""


@dataclass(frozen=True, slots=True)
class SuiteScore:
    """The scores of a suite: `steelyard score SUITE --json`."""

    KIND: ClassVar[str] = "suite_score"

    suite_id: str
    """The suite."""
    overall: SuiteOverall | None
    """The overall score, None where there is none yet."""
    scores: dict[str, Score | Refusal]
    """Each member's score, or why it has none."""


@dataclass(frozen=True, slots=True)
class Overall:
    """Geometric mean of the scores of a suite, ``None`` with the reason when one is missing."""

    value: float | None
    reason: str | None
    suspect: tuple[str, ...] = ()
    """Members whose score rests on a suspect result, and so does the mean."""
    low: float | None = None
    """Lower end of the 95 % interval, which needs three runs of every member; ``None`` with fewer."""
    high: float | None = None
    """Upper end of it."""
    no_interval: str | None = None
    """Why there is no interval, ``None`` where there is one or no mean."""
    sessions: int | None = None
    """Earlier sessions whose spread the interval has, ``None`` where it is of this one alone."""
    worst: ScorePart | None = None
    """The member with the smallest score, and that score."""
    best: ScorePart | None = None
    """The member with the largest score, and that score."""


def score(
    runs: Sequence[Run], baseline: Baseline | None, between: SessionSpread | None = None
) -> Score | Refusal:
    """Return the score of ``runs``, repeats of one benchmark, against ``baseline``.

    ``between`` is how earlier sessions of the machine differ, where that is known.

    Raises:
        ValueError: if there are no runs, or they are of different benchmarks or tiers.
    """
    if len({(run.benchmark, run.tier) for run in runs}) != 1:
        raise ValueError("score takes repeats of one benchmark in one tier")
    if baseline is None:
        return Refusal("no baseline: none is shipped in data/baselines, and none was named")
    # What no baseline could help comes first, as in a suite.
    unfit = next(((run, reason) for run in runs if (reason := _unfit(run)) is not None), None)
    if unfit is not None:
        return Refusal(f"{unfit[0].run_id}: {unfit[1]}")
    benchmark, tier = runs[0].benchmark, runs[0].tier
    reference = baseline.result(benchmark, tier)
    if reference is None:
        tiers = [result.tier for result in baseline.results if result.benchmark == benchmark]
        has = f"in tier {', '.join(tiers)} only, not in {tier}" if tiers else "in no tier"
        return Refusal(f"baseline {baseline.name} has {benchmark} {has}")
    for run in runs:
        reason = _unlike(run, baseline, reference)
        if reason:
            return Refusal(f"{run.run_id}: {reason}")
    values = [run.metrics[reference.metric].value for run in runs]
    return _score(runs, [value for value in values if value is not None], baseline, reference, between)


def overall(scores: Mapping[str, Score | Refusal], between: SessionSpread | None = None) -> Overall:
    """Return the geometric mean of a suite's scores by member; withheld when one of them has none.

    ``between`` is how that mean differs between earlier sessions of the machine, where that is known.
    """
    ratios = [member.ratio if isinstance(member, Score) else None for member in scores.values()]
    suspect = tuple(name for name, member in scores.items() if isinstance(member, Score) and member.suspect)
    lacking = [f"{name} ({member.reason})" for name, member in scores.items() if isinstance(member, Refusal)]
    if not scores:
        return Overall(None, "withheld: there are no scores")
    if lacking:
        return Overall(None, f"withheld: no score for {'; '.join(lacking)}", suspect)
    known = {name: member for name, member in scores.items() if isinstance(member, Score)}
    worst, best = ends_of({name: member.ratio for name, member in known.items()})
    # The repeats of a suite go through all members in turn, and so do those of a baseline.
    interval = mean_ratio_interval(
        [(member.run_ratios, member.baseline_ratios) for member in known.values()], CONFIDENCE, between
    )
    return Overall(
        geometric_mean(ratios),
        None,
        suspect,
        interval.low,
        interval.high,
        _no_interval(interval),
        interval.sessions,
        worst,
        best,
    )


def _no_interval(interval: RatioInterval) -> str | None:
    """Return why there is no interval and how many runs give one, ``None`` where there is one."""
    if interval.low is not None:
        return None
    runs, reference = interval.counts
    count = f"{'one run' if runs == 1 else f'{runs} runs'}, no error bars"
    needs = [f"add --repeat {RATIO_COUNT}"] if runs < RATIO_COUNT else []
    if reference < RATIO_COUNT:
        needs.append(f"the baseline has {reference} of {RATIO_COUNT} runs")
    return f"{count}: {interval.reason or '; '.join(needs)}"


def ends_of(ratios: Mapping[str, float]) -> tuple[ScorePart | None, ScorePart | None]:
    """Return the part with the smallest and that with the largest ratio."""
    parts = sorted((ScorePart(name, ratio) for name, ratio in ratios.items()), key=lambda part: part.ratio)
    return (parts[0], parts[-1]) if parts else (None, None)


def spread(values: Sequence[float]) -> float | None:
    """Return the largest minus the smallest of ``values`` over their median, ``None`` below two."""
    if len(values) < 2:
        return None
    return (max(values) - min(values)) / median_interval(values).median


def _unfit(run: Run) -> str | None:
    """Return why the run's result cannot be scored, whatever the baseline."""
    if run.status is not RunStatus.COMPLETE:
        return f"the run is {run.status}: {run.status_reason or 'no reason given'}"
    if run.verdict is None:
        return "the run has no verdict"
    if run.verdict.level is Level.INVALID:
        reasons = [check.claim for check in run.verdict.reasons if check.level is Level.INVALID]
        return f"the result is invalid: {'; '.join(reasons) or 'no check has a reason'}"
    return None


def _unlike(run: Run, baseline: Baseline, reference: BaselineResult) -> str | None:
    """Return in what the run differs from the baseline's so that the two must not be compared."""
    ours, theirs = series_of(run.steelyard_version), series_of(baseline.steelyard_version)
    if ours != theirs:
        return f"made by Steelyard {run.steelyard_version}, the baseline by {baseline.steelyard_version}"
    different = difference(run.parameters, reference.parameters)
    if different:
        return f"run and baseline differ: {different}"
    metric = run.metrics.get(reference.metric)
    if metric is None or metric.value is None or metric.value <= 0:
        missing = metric.missing if metric and metric.missing else "it has no positive value"
        return f"{reference.metric}: {missing}"
    if metric.unit != reference.unit:
        return f"{reference.metric} is in {metric.unit}, the baseline's in {reference.unit}"
    return None


def series_of(version: str) -> tuple[str, ...]:
    """Return what of a version must agree: major and minor, within which results are comparable."""
    return tuple(version.split(".")[:2])


def _score(
    runs: Sequence[Run],
    values: Sequence[float],
    baseline: Baseline,
    reference: BaselineResult,
    between: SessionSpread | None,
) -> Score:
    higher = reference.better == "higher"

    def ratio(value: float) -> float:
        return value / reference.value if higher else reference.value / value

    middle = median_interval(values).median
    ratios = tuple(ratio(value) for value in values)
    references = tuple(ratio(value) for value in reference.values)
    interval = ratio_interval(ratios, references, CONFIDENCE, between)
    parts = _parts(runs, reference)
    worst, best = ends_of(parts)
    return Score(
        benchmark=reference.benchmark,
        tier=reference.tier,
        metric=reference.metric,
        unit=reference.unit,
        value=middle,
        baseline_value=reference.value,
        ratio=ratio(middle),
        ratio_low=interval.low,
        ratio_high=interval.high,
        runs=len(runs),
        baseline=baseline.title,
        provenance=_provenance(baseline, reference),
        reservations=tuple(_reservations(runs, reference)),
        suspect=any(run.verdict is not None and run.verdict.level is Level.SUSPECT for run in runs),
        parts=parts,
        no_interval=_no_interval(interval),
        spread_ratio=spread(values),
        run_ratios=ratios,
        baseline_ratios=references,
        baseline_suspect_runs=sum(level is Level.SUSPECT for level in reference.verdicts),
        baseline_date=(reference.date or baseline.date).isoformat(),
        sessions=interval.sessions,
        baseline_runs=len(references),
        baseline_spread_ratio=spread(references),
        worst_part=worst,
        best_part=best,
    )


def _parts(runs: Sequence[Run], reference: BaselineResult) -> dict[str, float]:
    ratios = {}
    for name, value in medians(runs, reference.parts).items():
        ratio = value / reference.parts[name]
        ratios[name] = 1 / ratio if runs[0].metrics[name].better == "lower" else ratio
    return ratios


def _provenance(baseline: Baseline, reference: BaselineResult) -> str:
    repeats = len(reference.values)
    scatter = f", spread {reference.spread_ratio * 100:.1f} %" if repeats > 1 else ""
    return (
        f"{reference.provenance or baseline.provenance}; median of {repeats} run"
        f"{'' if repeats == 1 else 's'}{scatter}, {(reference.date or baseline.date).isoformat()}, "
        f"Steelyard {baseline.steelyard_version}"
    )


def _reservations(runs: Sequence[Run], reference: BaselineResult) -> list[str]:
    reservations = []
    for run in runs:
        if run.verdict is not None and run.verdict.level is Level.SUSPECT:
            claims = "; ".join(check.claim.rstrip(".") for check in run.verdict.reasons)
            reservations.append(f"{run.run_id} is suspect: {claims}")
    suspect = sum(level is Level.SUSPECT for level in reference.verdicts)
    if suspect:
        reservations.append(f"{suspect} of the baseline's {len(reference.verdicts)} runs are suspect")
    return reservations
