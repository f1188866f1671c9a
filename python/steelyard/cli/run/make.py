"""``steelyard run``: makes the runs, then judges the series, and shows both."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from steelyard._base import ExitCode, SteelyardError, UsageError, WorkloadFailedError, command_text
from steelyard.bench import declaration, runs, tiers
from steelyard.bench.launch import Attempt, Launched, execute, request_of
from steelyard.bench.request import RunRequest
from steelyard.bench.suites import suite as suite_files
from steelyard.cli import reports, suites
from steelyard.cli.output import complain, print_json
from steelyard.cli.progress import shown
from steelyard.cli.run.plan import show_plan
from steelyard.cli.run.preflight import announce, show_preflight
from steelyard.records import Level

if TYPE_CHECKING:
    from steelyard.decide import Baseline


def run_or_show(request: RunRequest, given: Collection[str], *, as_json: bool) -> int:
    """Run ``request``, or show what it would do; ``given`` are the fields that were typed."""
    if request.root is not None and not request.plan:
        raise UsageError("--root needs --plan: a recorded machine runs nothing")
    if request.resume is not None:
        request = request_of(request, given, runs.find(request.resume, request.out))
    if request.preflight:
        return show_preflight(request, as_json=as_json)
    if request.plan:
        return show_plan(request, as_json=as_json)
    return run_and_show(request, as_json=as_json)


def run_and_show(request: RunRequest, *, as_json: bool) -> int:
    """Make the runs of ``request`` and show them; return the exit code."""
    baseline = request.baseline
    if baseline is not None:
        # A wrong name is an error before the runs, not after them. Without a name there is nothing to check,
        # and scoring loads statistics that a run which fails need not wait for.
        _, names, _ = tiers.resolve(request.name, request.tier)
        from steelyard.report.folders.scores import baseline_for

        baseline_for(baseline, names)
    with shown() as progress:
        launched = execute(
            request, progress=progress, planned=lambda plans: announce(request, plans, progress)
        )
        attempts = launched.attempts
        progress.phase("report")
        names = list(dict.fromkeys(attempt.run.benchmark for attempt in attempts))
        is_scored = any(attempt.error is None for attempt in attempts)
        reference = None
        if is_scored:
            from steelyard.report.folders.scores import baseline_for

            reference = baseline_for(baseline, names)
        suite = None if launched.suite is None else suites.view(launched.suite, reference)
        if suite is not None:
            suite_files.save(suite.suite, suite.directory)
        views = suite.members if suite is not None else [_view(attempt, reference) for attempt in attempts]
    errors = errors_of(launched)
    for error in [*errors, *(view.error for view in views), suite.error if suite else None]:
        if error is not None:
            complain(error)
    if as_json:
        series = summarise(attempts, reference)
        whole = {} if suite is None else {"suite": suite}
        print_json({**whole, "runs": views, "series": series})
    elif suite is not None:
        suites.show(suite)
    else:
        reports.show_runs(views)
    unreported = [view.error.exit_code for view in views if view.error is not None]
    failed = [error.exit_code for error in errors]
    return int(max([exit_code(attempts), *unreported, *failed]))


def errors_of(launched: Launched) -> list[SteelyardError]:
    """Return why members were not run and runs failed; the last of them says how a suite goes on."""
    failed = [attempt.error for attempt in launched.attempts if attempt.error is not None]
    errors: list[SteelyardError] = [*launched.refused.values(), *failed]
    if launched.stopped is not None and not failed:
        # The interrupt came when a run had its result already, and none of the errors says so.
        errors.append(WorkloadFailedError(launched.stopped))
    if launched.suite is not None and launched.interrupted and errors:
        again = command_text(["steelyard", "run", "--resume", launched.suite])
        hint = f"{again} goes on with what is left"
        errors[-1] = WorkloadFailedError(errors[-1].message, hint=hint)
    return errors


def _view(attempt: Attempt, reference: "Baseline | None") -> reports.RunView:
    if attempt.error is not None:
        return reports.bare_view(attempt.directory, attempt.run)
    return reports.view(attempt.directory, attempt.run, reference)


def exit_code(attempts: list[Attempt]) -> ExitCode:
    """Return what the runs amount to: failed before invalid before done."""
    errors: list[SteelyardError] = [attempt.error for attempt in attempts if attempt.error is not None]
    if errors:
        return max(error.exit_code for error in errors)
    levels = [attempt.run.verdict.level for attempt in attempts if attempt.run.verdict is not None]
    return ExitCode.NO if Level.INVALID in levels else ExitCode.OK


def summarise(attempts: list[Attempt], baseline: "Baseline | None") -> dict[str, Any]:
    """Return, for each benchmark, the median over its runs with an interval, and the score of that.

    Invalid and incomplete runs are counted and left out.
    """
    summaries: dict[str, Any] = {}
    for name in dict.fromkeys(attempt.run.benchmark for attempt in attempts):
        headline = declaration.find(name).headline
        mine = [attempt.run for attempt in attempts if attempt.run.benchmark == name]
        counted = [run for run in mine if run.verdict is not None and run.verdict.level is not Level.INVALID]
        metrics = {}
        scored = None
        if counted:
            from steelyard.decide.score import score
            from steelyard.stats.intervals import median_interval

            scored = score(counted, baseline)
        for metric in headline if counted else ():
            values = [run.metrics[metric].value for run in counted if metric in run.metrics]
            known = [value for value in values if value is not None]
            if known:
                interval = median_interval(known, in_order=True)
                metrics[metric] = {
                    "count": interval.count,
                    "median": interval.median,
                    "low": interval.low,
                    "high": interval.high,
                    "lowest": interval.lowest,
                    "highest": interval.highest,
                    "confidence": interval.confidence,
                    "coverage": interval.coverage,
                    "reason": interval.reason,
                    "correlation": interval.correlation,
                    "correlation_p_value": interval.correlation_p_value,
                    "effective_count": interval.effective_count,
                    "unit": next(run.metrics[metric].unit for run in counted if metric in run.metrics),
                }
        summaries[name] = {
            "id": mine[0].series.id,
            "runs": len(mine),
            "counted": len(counted),
            "metrics": metrics,
            "score": scored,
        }
    return summaries
