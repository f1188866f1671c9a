"""``steelyard fleet cpi``: what CPI is normal, which tasks lie above it, and who made them.

In: flags. Out: tables, one JSON document or a page. Not here: finding it (``fleet.cpi``), drawing it
(``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.fleet.query import Writes, query
from steelyard.cli.options import Report

if TYPE_CHECKING:
    from steelyard.fleet.cpi.evidence import Bar
    from steelyard.fleet.cpi.rule import Rule
    from steelyard.fleet.cpi.specs import Spec, SpecSettings
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

_STORED, _COMPUTED = "stored", "computed"

Sigmas = Annotated[float, typer.Option(help="Threshold in standard deviations above the mean.")]
Threshold = Annotated[
    str,
    typer.Option(
        metavar="sigma|gev",
        help="Threshold: mean + sigmas, or a quantile of the GEV (of the samples where none fits).",
    ),
]
Quantile = Annotated[
    float, typer.Option(help="Quantile of the fitted tail, or of the samples, to use as the threshold.")
]
MinTasks = Annotated[int, typer.Option(help="Minimum tasks for a spec.")]
MinSamples = Annotated[int, typer.Option(help="Minimum samples of each task.")]
LookBack = Annotated[int, typer.Option(metavar="SECONDS", help="Length of the window for suspects.")]
MinUsage = Annotated[float, typer.Option(help="Minimum CPU usage of a sample, in CPU-s/s.")]
DayWeight = Annotated[float, typer.Option(help="Weight of a day relative to the next day.")]
Specs = Annotated[
    str | None,
    typer.Option(
        metavar="stored|computed",
        help="Source of thresholds: stored specs, or computed from the same samples; by default stored, if"
        " any.",
    ),
]
Outliers = Annotated[int, typer.Option(help="Number of outliers that make a task anomalous.")]
Within = Annotated[int, typer.Option(metavar="SECONDS", help="Time in which the outliers must occur.")]
Job = Annotated[str | None, typer.Option(help="Use only this job.")]
Platform = Annotated[str | None, typer.Option(help="Use only this platform.")]


@query(
    "cpi specs",
    group="Show normal CPI, outliers, and the tasks that cause them (CPI2).",
    result="steelyard.fleet.cpi.results:SpecsResult",
    expressions="steelyard.fleet.cpi.expressions:SPECS",
    examples=("", "--threshold gev --job search", "--write"),
)
def specs(
    store: Store,
    sigmas: Sigmas = 2.0,
    threshold: Threshold = "sigma",
    quantile: Quantile = 0.96,
    min_tasks: MinTasks = 5,
    min_samples: MinSamples = 100,
    min_usage: MinUsage = 0.25,
    day_weight: DayWeight = 0.9,
    gev: Annotated[bool, typer.Option(help="Fit the tail, in a second pass over the samples.")] = True,
    write: Annotated[
        bool, typer.Option("--write", help="Write the specs to the store, for agents."), Writes()
    ] = False,
    job: Job = None,
    platform: Platform = None,
) -> Answer:
    """Show the normal CPI of each job and platform, and the threshold of outliers."""
    from steelyard.fleet.cpi import distribution as cpi_distribution
    from steelyard.report.fleet.cpi import specs_answer

    _check_threshold(threshold)
    by_tail = threshold == "gev"
    settings = _settings(sigmas, min_tasks, min_samples, min_usage, day_weight)
    samples = _samples(store, job, platform)
    specs, distributions = _build(samples, settings, quantile if gev or by_tail else None)
    if by_tail:
        specs = [cpi_distribution.by_tail(spec) for spec in specs]
    path = _write(store, specs) if write else None
    return specs_answer(specs, distributions, settings, quantile=quantile, written=path)


@query(
    "cpi outliers",
    result="steelyard.fleet.cpi.results:OutliersResult",
    expressions="steelyard.fleet.cpi.expressions:OUTLIERS",
    examples=("", "--specs computed --job search"),
)
def outliers(
    store: Store,
    sigmas: Sigmas = 2.0,
    specs: Specs = None,
    outliers: Outliers = 3,
    within: Within = 300,
    min_usage: MinUsage = 0.25,
    min_tasks: MinTasks = 5,
    min_samples: MinSamples = 100,
    job: Job = None,
    platform: Platform = None,
) -> Answer:
    """Count samples above the threshold, and list anomalous tasks."""
    from steelyard.fleet.cpi import anomalies as cpi_anomalies
    from steelyard.fleet.cpi import outliers as cpi_outliers
    from steelyard.report.fleet.cpi import outliers_answer

    rule = _rule(min_usage, outliers, within)
    settings = _settings(sigmas, min_tasks, min_samples, min_usage, 0.9)
    samples = _samples(store, job, platform)
    thresholds, source = _thresholds(store, samples, settings, specs)
    rows = cpi_outliers.expression(samples, thresholds, rule)
    anomalies = cpi_anomalies.find_anomalies(rows, cpi_outliers.counts(samples, thresholds, rule))
    return outliers_answer(anomalies, rule, source)


@query(
    "cpi incidents",
    result="steelyard.fleet.cpi.results:IncidentsResult",
    expressions="steelyard.fleet.cpi.expressions:INCIDENTS",
    examples=("", "--all --rule paper", "--job search --report incidents.html"),
)
def incidents(
    store: Store,
    sigmas: Sigmas = 2.0,
    specs: Specs = None,
    outliers: Outliers = 3,
    within: Within = 300,
    window: LookBack = 600,
    floor: Annotated[float, typer.Option(help="Minimum correlation of an antagonist (rule paper).")] = 0.35,
    align: Annotated[int, typer.Option(metavar="SECONDS", help="Span in which samples are paired.")] = 60,
    rule: Annotated[
        str,
        typer.Option(
            "--rule",
            metavar="tested|paper",
            help="Rule to name antagonists: tested, or the paper's correlation, which is mostly wrong for"
            " bursty tasks.",
        ),
    ] = "tested",
    evidence_window: Annotated[
        int, typer.Option(metavar="SECONDS", help="Length of the window for rule tested.")
    ] = 7200,
    false_names: Annotated[
        float, typer.Option(help="Maximum p value of an antagonist; needs at least 1 / this windows.")
    ] = 0.01,
    min_usage: MinUsage = 0.25,
    min_tasks: MinTasks = 5,
    min_samples: MinSamples = 100,
    job: Annotated[str | None, typer.Option(help="Show only victims of this job.")] = None,
    each: Annotated[
        bool, typer.Option("--all", help="List every incident instead of one row per pair of jobs.")
    ] = False,
    report: Report = None,
) -> Answer:
    """Rank the suspects for each anomalous task, with recorded incidents and effects of capping.

    Incidents are grouped by the jobs of victim and antagonist.
    """
    from steelyard.fleet.cpi import incidents as cpi_incidents
    from steelyard.fleet.cpi import outliers as cpi_outliers
    from steelyard.fleet.cpi import truth as cpi_truth
    from steelyard.fleet.cpi.timeline import find_timelines
    from steelyard.report.fleet.cpi_incidents import incidents_answer

    paper = _rule(min_usage, outliers, within, window=window, floor=floor, align=align)
    bar = _bar(rule, evidence_window, false_names, paper)
    settings = _settings(sigmas, min_tasks, min_samples, min_usage, 0.9)
    samples = store.table("task_samples")
    thresholds, source = _thresholds(store, samples, settings, specs)
    rows, recorded = cpi_outliers.expression(samples, thresholds, paper), store.table("incidents")
    if job is not None:
        rows, recorded = rows.filter(rows.job == job), recorded.filter(recorded.victim_job == job)
    incidents = cpi_incidents.find_incidents(samples, rows, recorded, paper, bar=bar)
    truth = cpi_truth.read_truth(store)
    curve = cpi_truth.find_curve(samples, rows, truth, paper, job=job) if truth is not None else None
    right = cpi_truth.measured_point(incidents, truth, paper) if truth is not None and job is None else None
    lines = find_timelines(samples, incidents) if report is not None else []
    return incidents_answer(
        incidents, paper, source, bar=bar, curve=curve, right=right, timelines=lines, each=each
    )


@query(
    "cpi distribution",
    result="steelyard.fleet.cpi.results:DistributionResult",
    expressions="steelyard.fleet.cpi.expressions:DISTRIBUTION",
    examples=("--job search", "--platform rome --report cpi.html"),
)
def distribution(
    store: Store,
    job: Job = None,
    platform: Platform = None,
    sigmas: Sigmas = 2.0,
    quantile: Quantile = 0.96,
    min_usage: MinUsage = 0.25,
    min_tasks: MinTasks = 5,
    min_samples: MinSamples = 100,
    day_weight: DayWeight = 0.9,
) -> Answer:
    """Show the distribution of CPI, the best fit, and its correlation with throughput."""
    from steelyard.fleet.cpi import throughput as cpi_throughput
    from steelyard.report.fleet.cpi import distributions_answer

    settings = _settings(sigmas, min_tasks, min_samples, min_usage, day_weight)
    samples = _samples(store, job, platform)
    specs, distributions = _build(samples, settings, quantile, errors=True)
    following = cpi_throughput.find_following(samples, settings.guards)
    return distributions_answer(specs, distributions, following, quantile=quantile)


def _check_threshold(threshold: str) -> None:
    from steelyard._base import UsageError

    if threshold not in ("sigma", "gev"):
        raise UsageError(f"unknown threshold {threshold!r}", hint="sigma or gev")


def _settings(
    sigmas: float, min_tasks: int, min_samples: int, min_usage: float, day_weight: float
) -> SpecSettings:
    from steelyard._base import UsageError
    from steelyard.fleet.cpi.samples import Guards
    from steelyard.fleet.cpi.specs import SpecSettings

    try:
        return SpecSettings(
            guards=Guards(minimum_usage=min_usage),
            day_weight=day_weight,
            fewest_tasks=min_tasks,
            fewest_samples=min_samples,
            threshold_sigmas=sigmas,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _rule(
    min_usage: float,
    outliers: int,
    within: int,
    *,
    window: int = 600,
    floor: float = 0.35,
    align: int = 60,
) -> Rule:
    from steelyard._base import UsageError
    from steelyard.fleet.cpi.rule import Rule

    try:
        return Rule(min_usage, outliers, within, window, floor, align)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _bar(name: str, evidence_s: int, false_name_ratio: float, rule: Rule) -> Bar | None:
    """Return what a name takes, ``None`` for the paper's rule."""
    from steelyard._base import UsageError
    from steelyard.fleet.cpi.evidence import Bar

    if name not in ("tested", "paper"):
        raise UsageError(f"unknown rule {name!r}", hint="tested or paper")
    if name == "paper":
        return None
    try:
        bar = Bar(evidence_s=evidence_s, false_name_ratio=false_name_ratio)
    except ValueError as error:
        raise UsageError(str(error)) from error
    windows = evidence_s // rule.align_s
    if windows < bar.fewest_windows:
        raise UsageError(
            f"{windows} windows of {rule.align_s} s are too few for a p value of {false_name_ratio:g}",
            hint=f"--evidence-window {bar.fewest_windows * rule.align_s} or more",
        )
    return bar


def _samples(fleet: Store, job: str | None, platform: str | None) -> Any:
    rows = fleet.table("task_samples")
    if job is not None:
        rows = rows.filter(rows.job == job)
    return rows if platform is None else rows.filter(rows.platform == platform)


def _build(
    samples: Any, settings: SpecSettings, quantile: float | None, *, errors: bool = False
) -> tuple[list[Spec], list[Any]]:
    """Return specs and, with ``quantile``, their distributions, with errors of the fits if ``errors``."""
    from steelyard._base import UsageError
    from steelyard.fleet.cpi.distribution import find_distributions, with_tails
    from steelyard.fleet.cpi.specs import find_specs

    if quantile is not None and not 0 < quantile < 1:
        raise UsageError(f"a quantile of {quantile} is not between 0 and 1")
    specs = find_specs(samples, settings)
    if quantile is None:
        return specs, []
    distributions = find_distributions(samples, specs, settings, errors=errors)
    return with_tails(specs, distributions, quantile), distributions


def _thresholds(fleet: Store, samples: Any, settings: SpecSettings, choice: str | None) -> tuple[Any, str]:
    """Return the table of thresholds and where it is from."""
    from steelyard._base import ResultSaysNoError, UsageError
    from steelyard.fleet.cpi.outliers import latest, spec_table
    from steelyard.fleet.cpi.samples import KEYS
    from steelyard.fleet.cpi.specs import find_specs
    from steelyard.telemetry.engine import fetch_rows

    if choice not in (None, _STORED, _COMPUTED):
        raise UsageError(f"specs are stored or computed, not {choice!r}")
    if choice != _COMPUTED:
        stored = latest(fleet.table("cpi_specs"))
        keys = {tuple(row.values()) for row in fetch_rows(stored.select(*KEYS))}
        if keys:
            groups = fetch_rows(samples.filter(samples.cpi.notnull()).select(*KEYS).distinct())
            lacking = sum(tuple(row.values()) not in keys for row in groups)
            return stored, f"the store's {len(keys)} latest specs{_lacking(lacking, len(groups))}"
        if choice == _STORED:
            raise ResultSaysNoError("the store has no specs", hint="steelyard fleet cpi specs --write")
    specs = find_specs(samples, settings)
    usable = [spec for spec in specs if spec.is_usable]
    if not usable:
        why = specs[0].missing if specs else "the store has no task samples for these days"
        raise ResultSaysNoError(f"no job has a spec: {why}", hint="see steelyard fleet cpi specs")
    known = [spec for spec in specs if spec.cpi_source is not None]
    words = f"{len(usable)} specs from the same samples, mean + {settings.threshold_sigmas:g} sd"
    return spec_table(usable), words + _lacking(len(known) - len(usable), len(known))


def _lacking(count: int, groups: int) -> str:
    """Return how many groups of samples no threshold is known of."""
    if not count:
        return ""
    return f" ({count} of {groups} groups of job and platform have no threshold and are not judged)"


def _write(fleet: Store, specs: list[Spec]) -> str | None:
    """Store the usable specs; return the file's path."""
    import time

    from steelyard.fleet.cpi.spec_store import write_specs

    return write_specs(fleet.url, specs, built_unix_s=int(time.time()))
