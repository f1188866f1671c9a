"""A suite's scores: one a member, and their mean.

In: a suite as its directory shows it, the runs of its members, a baseline. Out: the suite with its scores.

Invariants: a score stands on runs that are results; a repeat that is invalid or incomplete is left out, and a
member of which nothing is left has no score, so that the mean is withheld.

Not here: reading directories, and drawing.
"""

from collections.abc import Mapping, Sequence

from steelyard.analyze.sessions import Sessions, mean_spread, member_spreads
from steelyard.decide.baseline import Baseline
from steelyard.decide.score import Refusal, Score, ScorePart, overall, score
from steelyard.records import Level, Run, Suite, SuiteBaseline, SuiteMember, SuiteOverall, SuitePart
from steelyard.stats.intervals import median_interval
from steelyard.stats.sessions import SessionSpread

BESIDE: Mapping[str, frozenset[str]] = {"dcperf": frozenset({"tax"})}
"""Suite -> members that diagnose: they have a score of their own, beside the suite's.

DCPerf's microbenchmarks of the datacenter tax pinpoint what slows the others, and are no part of its score.
"""

_OF_A_SCORE = (
    "score",
    "score_low",
    "score_high",
    "no_score",
    "no_interval",
    "sessions",
    "spread_ratio",
    "worst_part",
    "best_part",
    "baseline",
)
"""Fields of a member that its score decides; a score that is gone leaves none of them behind."""


def weigh(
    suite: Suite,
    runs: Mapping[str, Sequence[Run]],
    baseline: Baseline | None,
    earlier: Sessions = (),
) -> tuple[Suite, dict[str, Score | Refusal]]:
    """Return ``suite`` with its scores, and the scores by member; ``runs`` are those of each member.

    ``earlier`` are the runs of other sessions: how these differ widens the intervals.
    """
    every = [run for of_member in runs.values() for run in of_member]
    metrics = {member.benchmark: member.metric for member in suite.members}
    between = member_spreads(every, earlier, metrics)
    scores = {
        name: _score(member, runs.get(name, ()), baseline, between.get(name))
        for member in suite.members
        for name in (member.benchmark,)
    }
    beside = BESIDE.get(suite.suite, frozenset())
    summed = [name for name in scores if name not in beside]
    mean = overall(
        {name: scores[name] for name in summed},
        mean_spread(every, earlier, {name: metrics[name] for name in summed}),
    )
    members = [
        _with_score(member, _counted(runs.get(member.benchmark, ())), scores[member.benchmark])
        for member in suite.members
    ]
    summary = SuiteOverall(
        score=mean.value,
        score_low=mean.low,
        score_high=mean.high,
        no_interval=mean.no_interval,
        sessions=mean.sessions,
        worst=_part(mean.worst),
        best=_part(mean.best),
        withheld=mean.reason,
        suspect=_suspect([member for member in members if member.benchmark not in beside]),
        baseline=baseline.name if baseline else None,
        baseline_title=baseline.title if baseline else None,
    )
    return suite.model_copy(update={"members": members, "overall": summary}), scores


def _counted(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.verdict is not None and run.verdict.level is not Level.INVALID]


def _suspect(members: Sequence[SuiteMember]) -> list[str]:
    return [
        member.benchmark
        for member in members
        if any(run.level is Level.SUSPECT for run in member.runs) and member.value is not None
    ]


def _score(
    member: SuiteMember, runs: Sequence[Run], baseline: Baseline | None, between: SessionSpread | None
) -> Score | Refusal:
    counted = _counted(runs)
    if counted:
        result = score(counted, baseline, between)
        # The suite shows which runs a member has: their names are no part of the reason.
        return result if isinstance(result, Score) else Refusal(_without_names(result.reason, counted))
    if member.refused is not None:
        return Refusal(f"not run: {member.refused}")
    if not member.runs:
        return Refusal("not run")
    for run in runs:
        if run.verdict is not None:
            objecting = [check.id for check in run.verdict.reasons if check.level is Level.INVALID]
            return Refusal(f"invalid: {', '.join(objecting) or 'no check has a reason'}")
    return Refusal(f"no result: {member.runs[0].status_reason or 'no reason given'}")


def _without_names(reason: str, runs: Sequence[Run]) -> str:
    for run in runs:
        reason = reason.removeprefix(f"{run.run_id}: ")
    return reason


def _with_score(member: SuiteMember, counted: Sequence[Run], result: Score | Refusal) -> SuiteMember:
    metrics = [run.metrics[member.metric] for run in counted if member.metric in run.metrics]
    values = [metric.value for metric in metrics if metric.value is not None]
    changes: dict[str, object] = {
        "value": median_interval(values).median if values else None,
        "unit": metrics[0].unit if values else None,
        **dict.fromkeys(_OF_A_SCORE),
    }
    if isinstance(result, Score):
        changes |= _score_fields(result)
    else:
        changes |= {"no_score": result.reason}
    return member.model_copy(update=changes)


def _score_fields(score: Score) -> dict[str, object]:
    return {
        "score": score.ratio,
        "score_low": score.ratio_low,
        "score_high": score.ratio_high,
        "no_interval": score.no_interval,
        "sessions": score.sessions,
        "spread_ratio": score.spread_ratio,
        "worst_part": _part(score.worst_part),
        "best_part": _part(score.best_part),
        "baseline": SuiteBaseline(
            date=score.baseline_date or "",
            runs=score.baseline_runs,
            suspect_runs=score.baseline_suspect_runs,
            lowest=min(score.baseline_ratios),
            highest=max(score.baseline_ratios),
        ),
    }


def _part(part: ScorePart | None) -> SuitePart | None:
    return None if part is None else SuitePart(name=part.name, score=part.ratio)
