"""Scores against a baseline that has noise of its own, their mean over a suite, and suites compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from steelyard._base import schemas_dir
from steelyard.analyze.colocation import measured
from steelyard.analyze.colocation_history import spreads
from steelyard.analyze.suite_comparison import MemberComparison
from steelyard.records import Colocation, Level, read
from steelyard.stats.intervals import RatioInterval, mean_ratio_interval, ratio_interval
from tests.analyze.test_suite_comparison import suites_compared

from ...situation import Claim, Outcome, Random, Situation, Statistic

TRUTH = 1.1


def _noise(random: Random, shape: str, sd: float, count: int) -> np.ndarray:
    """Return factors about a median of 1."""
    match shape:
        case "normal":
            deviations = random.standard_normal(count)
        case "heavy":
            deviations = random.standard_t(3, count) / 3**0.5
        case "skewed":
            deviations = math.log(2) - random.exponential(1, count)
        case "two levels":
            deviations = random.choice([-1.0, 1.0], count) + 0.2 * random.standard_normal(count)
        case _:
            deviations = random.standard_normal(count)
            deviations[0] -= 8  # A run in which something else used the machine.
    return np.maximum(1 + sd * deviations, 0.05)


def _score(
    random: Random,
    runs: int,
    baseline: int,
    shape: str = "normal",
    sd: float = 0.03,
    reference: str = "normal",
) -> Outcome:
    ours = TRUTH * 700 * _noise(random, shape, sd, runs)
    theirs = 700 * _noise(random, shape if reference == "same" else reference, 0.03, baseline)
    return _holds(ratio_interval(list(ours), list(theirs)))


def _holds(found: RatioInterval) -> Outcome:
    if found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(found.low <= TRUTH <= found.high, width=math.log(found.high / found.low))


def _distinguished(random: Random, ratio: float, runs: int, baseline: int, members: int = 1) -> Outcome:
    """Whether `compare` calls any member of two suites better or worse."""
    values = [
        (list(_noise(random, "normal", 0.03, baseline)), list(ratio * _noise(random, "normal", 0.03, runs)))
        for _ in range(members)
    ]
    return Outcome(any(one.better is not None for one in suites_compared(values).members))


def _days(
    random: Random, runs: int, day: float, sessions: int, ratio: float = 1.0, noise: float = 0.03
) -> tuple[float, MemberComparison]:
    """Return the truth and what `compare` says of suites of two days (sd ``day``; ``noise`` of a run)."""

    def session(factor: float = 1.0) -> list[float]:
        made = factor * math.exp(day * random.standard_normal())
        return list(made * np.exp(noise * random.standard_normal(runs)))

    a, b = session(), session(ratio)
    (found,) = suites_compared([(a, b)], earlier=[[session()] for _ in range(sessions)]).members
    return ratio, found


COLOCATION = read(Colocation, schemas_dir() / "golden" / "colocation.json")


def _slowdown(random: Random, runs: int, day: float, sessions: int, noise: float = 0.01) -> Outcome:
    """A pair whose slow-down of 1.5 differs from day to day, by an sd of ``day``."""

    def session(number: int, before: Sequence[Colocation] = ()) -> Colocation:
        slowdown = 1.5 * math.exp(day * random.standard_normal())
        values = [list(np.exp(noise * random.standard_normal(runs)) / factor) for factor in (1.0, slowdown)]
        first, second = COLOCATION.workloads
        mine = first.model_copy(update={"alone": values[0], "together": values[1]})
        record = COLOCATION.model_copy(
            update={"workloads": [mine, second], "colocation_id": f"c{number}", "level": Level.VALID}
        )
        found = measured(mine, spreads(record, before)[0])
        return record.model_copy(update={"workloads": [found, second]})

    found = session(-1, [session(number) for number in range(sessions)]).workloads[0]
    if found.slowdown_low is None or found.slowdown_high is None:
        return Outcome(None)
    width = math.log(found.slowdown_high / found.slowdown_low)
    return Outcome(found.slowdown_low <= 1.5 <= found.slowdown_high, width=width)


def _days_hold(random: Random, **options: float) -> Outcome:
    truth, found = _days(random, **options)  # type: ignore[arg-type]
    if found.ratio_low is None or found.ratio_high is None:
        return Outcome(None)
    return Outcome(
        found.ratio_low <= truth <= found.ratio_high, width=math.log(found.ratio_high / found.ratio_low)
    )


def _days_distinguished(random: Random, **options: float) -> Outcome:
    return Outcome(_days(random, **options)[1].better is not None)  # type: ignore[arg-type]


def _alike(random: Random) -> Outcome:
    """Rates that the metric's grain makes all the same."""
    theirs = np.round(700 * _noise(random, "normal", 0.0001, 5))
    return Outcome(ratio_interval([770.0] * 3, list(theirs)).low is None)


def _few(random: Random, runs: int, baseline: int) -> Outcome:
    ours, theirs = _noise(random, "normal", 0.03, runs), _noise(random, "normal", 0.03, baseline)
    return Outcome(ratio_interval(list(ours), list(theirs)).low is None)


def _mean(
    random: Random, runs: int, baseline: int, shared: float, members: int = 5, lost: int = 0
) -> Outcome:
    """A suite whose members have a part of their noise in common, pass by pass."""
    pairs = []
    common = [random.standard_normal(count) for count in (runs, baseline)]
    for index in range(members):
        sides = []
        for count, one in zip((runs, baseline), common, strict=True):
            own = random.standard_normal(count)
            sd = 0.02 + 0.01 * index
            sides.append(np.exp(sd * (shared**0.5 * one + (1 - shared) ** 0.5 * own)))
        # Half of the members are twice, the others half as fast: the mean is what counts.
        factor = TRUTH * 2.0 ** (index - members // 2)
        ours = factor * sides[0]
        pairs.append((list(ours[1:] if index < lost else ours), list(sides[1])))
    return _holds(mean_ratio_interval(pairs))


def _situation(name: str, before: str, **options: object) -> Situation:
    bar = 0.93 if options.pop("wide", False) else None
    return Situation(
        name,
        Claim.HOLDS,
        partial(_score, **options),  # type: ignore[arg-type]
        trials=2000,
        quick=300,
        before=before,
        bar=bar,
        note="conservative" if bar else "",
    )


SCORES = (
    _situation(
        "3 runs, baseline of 3, run sd 3 %", "78-83 %, without the baseline's noise", runs=3, baseline=3
    ),
    _situation("5 runs, baseline of 3", "refused below 6 or 7 runs", runs=5, baseline=3),
    _situation("3 runs, baseline of 5", "85-88 %, without the baseline's noise", runs=3, baseline=5),
    _situation("3 runs, baseline of 10", "92 %, without the baseline's noise", runs=3, baseline=10),
    _situation("8 runs, baseline of 8", "100 %, width 0.17", runs=8, baseline=8),
    _situation("3 runs 4 times as noisy, baseline of 5", "refused", runs=3, baseline=5, sd=0.12),
    _situation("8 runs 4 times as noisy, baseline of 10", "100 %, width 0.40", runs=8, baseline=10, sd=0.12),
    _situation("3 runs with a quarter of the noise, baseline of 3", "refused", runs=3, baseline=3, sd=0.0075),
    _situation(
        "5 runs and 5, heavy tails (t of 3)", "refused", runs=5, baseline=5, shape="heavy", reference="same"
    ),
    _situation(
        "3 runs and 10, skewed to slow", "refused", runs=3, baseline=10, shape="skewed", reference="same"
    ),
    _situation("8 runs skewed to slow, baseline of 3 not", "refused", runs=8, baseline=3, shape="skewed"),
    _situation(
        "3 runs and 8, two levels 6 % apart",
        "refused",
        runs=3,
        baseline=8,
        shape="two levels",
        reference="same",
    ),
    _situation(
        "5 runs, one of them 24 % slow, baseline of 5",
        "refused",
        runs=5,
        baseline=5,
        shape="outlier",
        wide=True,
    ),
    _situation(
        "8 runs, one of them 24 % slow, baseline of 8",
        "100 %, width 0.40",
        runs=8,
        baseline=8,
        shape="outlier",
        wide=True,
    ),
    Situation(
        "2 runs, baseline of 10", Claim.SILENT, partial(_few, runs=2, baseline=10), trials=200, quick=20
    ),
    Situation(
        "10 runs, baseline of 2", Claim.SILENT, partial(_few, runs=10, baseline=2), trials=200, quick=20
    ),
    Situation("no two runs differ, by the grain of the metric", Claim.SILENT, _alike, trials=200, quick=20),
)

COMPARED = (
    *(
        Situation(
            f"days differ by {words} of what runs do, {runs} run{'s' if runs > 1 else ''} a day,"
            f" {sessions} earlier days: the interval",
            Claim.HOLDS,
            partial(_days_hold, runs=runs, day=day, sessions=sessions),
            trials=1000,
            quick=60,
            before=before,
        )
        for words, day, runs, sessions, before in (
            ("half", 0.015, 3, 6, "92 %"),
            ("half", 0.015, 10, 6, "71 %"),
            ("all", 0.03, 10, 6, "48 %"),
            ("all", 0.03, 5, 3, "63 %"),
            ("twice", 0.06, 1, 8, "no interval"),
        )
    ),
    Situation(
        "days do not differ, 3 runs a day, 6 earlier days: the interval",
        Claim.HOLDS,
        partial(_days_hold, runs=3, day=0.0, sessions=6),
        trials=1000,
        quick=60,
        before="95 %",
        bar=0.93,
        note="conservative: the wider of the runs' interval and the sessions'",
    ),
    Situation(
        "days differ by all of what runs do, 5 runs a day, 6 earlier days, 20 % more",
        Claim.FOUND,
        partial(_days_distinguished, runs=5, day=0.03, sessions=6, ratio=1.2),
        trials=1000,
        before="",
    ),
    Situation(
        "days differ by all of what runs do, 5 runs a day, no earlier day, called better or worse",
        Claim.FALSE,
        partial(_days_distinguished, runs=5, day=0.03, sessions=0),
        trials=1000,
        before="37 %",
        is_limit=True,
        note="said beside it: one session each, and how much sessions differ is not known",
    ),
    Situation(
        "no difference, 3 runs each, called better or worse",
        Claim.FALSE,
        partial(_distinguished, ratio=1.0, runs=3, baseline=3),
        trials=2000,
        quick=300,
        before="always, by the medians alone",
    ),
    Situation(
        "no difference, 12 members of 3 runs each, one of them called better or worse",
        Claim.FALSE,
        partial(_distinguished, ratio=1.0, runs=3, baseline=3, members=12),
        trials=600,
        quick=50,
        before="34 %",
    ),
    Situation(
        "no difference, 2 runs each, called better or worse",
        Claim.FALSE,
        partial(_distinguished, ratio=1.0, runs=2, baseline=2),
        trials=200,
        quick=20,
        before="100 %",
    ),
    Situation(
        "10 % more, 3 runs and a baseline of 3",
        Claim.FOUND,
        partial(_distinguished, ratio=1.1, runs=3, baseline=3),
        trials=1000,
        before="refused below 7",
    ),
    Situation(
        "10 % more, 3 runs and a baseline of 10",
        Claim.FOUND,
        partial(_distinguished, ratio=1.1, runs=3, baseline=10),
        trials=1000,
        before="refused below 7",
    ),
    Situation(
        "5 % more, 8 runs each",
        Claim.FOUND,
        partial(_distinguished, ratio=1.05, runs=8, baseline=8),
        trials=1000,
        before="7 %",
    ),
)

SLOWDOWNS = (
    Situation(
        "days do not differ, 3 runs alone and together",
        Claim.HOLDS,
        partial(_slowdown, runs=3, day=0.0, sessions=0),
        trials=1000,
        quick=60,
        before="95 %",
    ),
    *(
        Situation(
            f"days differ by 2 %, runs by 1 %, {sessions} earlier days",
            Claim.HOLDS,
            partial(_slowdown, runs=5, day=0.02, sessions=sessions),
            trials=1000,
            quick=60,
            before="64 %",
        )
        for sessions in (3, 8)
    ),
    Situation(
        "days differ by 2 %, runs by 1 %, no earlier day",
        Claim.HOLDS,
        partial(_slowdown, runs=5, day=0.02, sessions=0),
        trials=1000,
        before="64 %",
        is_limit=True,
        note="said beside it: within one session",
    ),
)

MEANS = (
    Situation(
        "5 members, 3 runs, baseline of 3, noise of each its own",
        Claim.HOLDS,
        partial(_mean, runs=3, baseline=3, shared=0.0),
        trials=2000,
        quick=200,
        before="no interval below 8 runs of both",
    ),
    Situation(
        "half of the noise common to a pass",
        Claim.HOLDS,
        partial(_mean, runs=3, baseline=5, shared=0.5),
        trials=2000,
        quick=200,
        before="no interval",
    ),
    Situation(
        "all of the noise common to a pass",
        Claim.HOLDS,
        partial(_mean, runs=5, baseline=5, shared=1.0),
        trials=2000,
        quick=200,
        before="no interval",
    ),
    Situation(
        "a run of one member lost, half of the noise common",
        Claim.HOLDS,
        partial(_mean, runs=5, baseline=5, shared=0.5, lost=1),
        trials=2000,
        quick=200,
        before="no interval",
        bar=0.93,
        note="conservative: the noise of the members is taken to be one",
    ),
)

STATISTICS = (
    Statistic(
        name="Score against a baseline",
        covers=("steelyard.stats.intervals.RatioInterval", "steelyard.decide.score.Score"),
        about=(
            "Student's t on logarithms, with the noise of the runs and of the baseline: the wider of one with"
            " a variance a side (Welch) and one with a variance for both. The baseline has runs of sd 3 %."
        ),
        situations=SCORES,
    ),
    Statistic(
        name="Overall score of a suite",
        covers=("steelyard.decide.score.Overall",),
        about="The same for the geometric mean: a pass over all members is the replicate.",
        situations=MEANS,
    ),
    Statistic(
        name="Member of two suites compared",
        covers=("steelyard.analyze.suite_comparison.MemberComparison",),
        about="Better or worse if the interval of the ratio of the medians excludes 1; those of all members"
        " hold together. With fewer than 3 runs of either nothing is called so.",
        situations=COMPARED,
    ),
    Statistic(
        name="Slow-down of a co-location",
        covers=("steelyard.records.colocation.ColocationWorkload",),
        about="Student's t on logarithms, alone and together; with the spread of at least 3 earlier sessions"
        " of the same pair, where there are so many.",
        situations=SLOWDOWNS,
    ),
)
