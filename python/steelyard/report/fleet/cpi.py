"""CPI specs, outliers and distributions as tables, charts and words.

In: results of ``fleet.cpi``. Out: `Answer`: sections for the terminal and the page, and the document for
``--json``. Incidents have a module of their own (``cpi_incidents``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from steelyard.fleet.cpi.anomalies import ORDINARY_RATIO, Anomalies
from steelyard.fleet.cpi.distribution import Distribution
from steelyard.fleet.cpi.results import DistributionResult, OutlierSettings, OutliersResult, SpecsResult
from steelyard.fleet.cpi.rule import Rule
from steelyard.fleet.cpi.samples import COUNTED
from steelyard.fleet.cpi.specs import Spec, SpecSettings
from steelyard.fleet.cpi.throughput import PUBLISHED_R, Following, warnings
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Block,
    Cell,
    Chart,
    Column,
    Figure,
    Mark,
    Paragraph,
    Section,
    Series,
    table,
    utc,
)
from steelyard.stats.gev import GevFit, tail

MOST_CHARTS = 24


def specs_answer(
    specs: Sequence[Spec],
    distributions: Sequence[Distribution],
    settings: SpecSettings,
    *,
    quantile: float,
    written: str | None,
) -> Answer:
    """Return the specs, those without a threshold apart with the reason."""
    usable = [spec for spec in specs if spec.is_usable]
    lacking = [spec for spec in specs if not spec.is_usable]
    heading = f"{len(usable)} of {fmt.several(len(specs), 'pair')} of job and platform have a spec"
    subline = (
        f"threshold {_threshold_words(specs, settings, quantile)};"
        f" a day weighs {settings.day_weight:g} of the next;"
        f" {settings.fewest_tasks} tasks of {settings.fewest_samples} samples"
        f" at {settings.guards.minimum_usage:g} CPU-s/s or more"
    )
    blocks: list[Block] = [_spec_table(usable, quantile)]
    plain = [spec for spec in usable if spec.threshold_from == "quantile"]
    if plain:
        blocks.append(Paragraph(_without_curve(plain, quantile)))
    if written:
        blocks.append(Paragraph(f"Stored for agents: {written}"))
    sections = [Section("specs", "Specs", tuple(blocks))]
    if distributions:
        sections.append(_distribution_section(distributions, "Distributions"))
    if lacking:
        rows = [
            (spec.job, spec.platform, spec.cpi_source, spec.missing or "", spec.samples) for spec in lacking
        ]
        columns = (
            "job",
            "platform",
            Column("source", is_text=True, rank=2),
            Column("why", is_text=True),
            Column("samples", rank=1),
        )
        sections.append(Section("without", "Without a spec", (table(columns, rows),)))
    if any(spec.excluded for spec in specs):
        sections.append(Section("excluded", "Samples left out", (_excluded_table(specs),)))
    result = SpecsResult(settings, quantile if distributions else None, specs, written)
    return Answer("CPI specs", heading, tuple(sections), result, (subline,), says_no=not usable)


def _threshold_words(specs: Sequence[Spec], settings: SpecSettings, quantile: float) -> str:
    if any(spec.threshold_from != "sigma" for spec in specs):
        return f"{quantile:g} quantile of a GEV, or of the samples where none fits"
    return f"mean + {settings.threshold_sigmas:g} sd"


def _without_curve(specs: Sequence[Spec], quantile: float) -> str:
    """Return how many jobs' threshold is a quantile of the samples, and the first one's reason."""
    first = specs[0]
    words = f"Threshold from the samples' {quantile:g} quantile: {fmt.several(len(specs), 'job')}."
    return f"{words} {first.job} on {first.platform}: {first.gev_missing}."


def _spec_table(specs: Sequence[Spec], quantile: float) -> Any:
    columns = (
        Column("job", is_text=True),
        Column("platform", is_text=True),
        Column("samples", rank=1),
        Column("tasks", rank=2),
        Column("usage, CPU-s/s", rank=3),
        Column("CPI mean"),
        Column("sd"),
        Column("threshold"),
        Column(f"GEV {quantile:g}", rank=1),
    )
    rows = [
        (
            spec.job if spec.cpi_source == COUNTED else f"{spec.job} ({spec.cpi_source})",
            spec.platform,
            spec.samples,
            spec.full_tasks,
            spec.cpu_usage_mean,
            spec.cpi_mean,
            spec.cpi_sd,
            spec.threshold_cpi,
            spec.gev_threshold_cpi
            if spec.gev_threshold_cpi is not None
            else Figure(missing=spec.gev_missing or ""),
        )
        for spec in specs
    ]
    return table(columns, rows)


def _excluded_table(specs: Sequence[Spec]) -> Any:
    reasons = sorted({reason for spec in specs for reason in spec.excluded})
    columns = (Column("job", is_text=True), Column("platform", is_text=True), *(Column(r) for r in reasons))
    rows = [
        (spec.job, spec.platform, *(spec.excluded.get(reason, 0) for reason in reasons))
        for spec in specs
        if spec.excluded
    ]
    return table(columns, rows, caption="Each sample counts once, under the first reason that applies.")


def distributions_answer(
    specs: Sequence[Spec],
    distributions: Sequence[Distribution],
    following: Sequence[Following],
    *,
    quantile: float,
) -> Answer:
    """Return the distributions with their fits, and whether CPI follows throughput."""
    heading = f"CPI of {fmt.several(len(distributions), 'pair')} of job and platform"
    sections = [_distribution_section(distributions, "Distributions"), _fit_section(distributions, quantile)]
    sections.append(_following_section(following))
    if len(distributions) == 1:
        only = distributions[0]
        heading = f"CPI of {only.spec.job} on {only.spec.platform}"
    elif not distributions:
        heading = "No job has a CPI spec"
        why = sorted({f"{spec.job} on {spec.platform}: {spec.missing}" for spec in specs})
        sections.insert(0, Section("why", "Why", (Paragraph("; ".join(why[:20]) or "no task samples"),)))
    known = warnings(following)
    return Answer(
        "CPI distributions",
        heading,
        tuple(sections),
        DistributionResult(distributions, quantile, following, known),
        cautions=tuple(known),
        says_no=not distributions,
    )


def _distribution_section(distributions: Sequence[Distribution], title: str) -> Section:
    shown = sorted(distributions, key=lambda distribution: -distribution.spec.samples)[:MOST_CHARTS]
    charts = tuple(_distribution_chart(number, distribution) for number, distribution in enumerate(shown))
    left = len(distributions) - len(shown)
    intro = "Share of samples in each bin, and the generalized extreme value curve that fits best."
    if left:
        intro += f" The {len(shown)} with most samples; --json has all {len(distributions)}."
    return Section("distributions", title, charts, intro, grid=len(charts) > 1)


def _distribution_chart(number: int, distribution: Distribution) -> Chart:
    bins, spec = distribution.histogram, distribution.spec
    if not len(bins.count):
        return Chart(
            f"cpi-{number}",
            f"{spec.job} on {spec.platform}",
            (),
            missing=distribution.missing or "no samples",
        )
    middle = (bins.low + bins.high) / 2
    width = bins.high - bins.low
    density = bins.count / bins.total / width
    low, high = _span(distribution)
    inside = bins.low < high
    series = [Series("samples", middle[inside].tolist(), density[inside].tolist(), "bar", "sky")]
    if distribution.gev is not None:
        x = np.linspace(low, high, 200)
        series.append(Series("GEV", x.tolist(), distribution.gev.gev.density(x).tolist(), "line", "red"))
    marks = [Mark("x", spec.cpi_mean, "mean")] if spec.cpi_mean is not None else []
    if spec.threshold_cpi is not None:
        marks.append(Mark("x", spec.threshold_cpi, "threshold", "red"))
    return Chart(
        f"cpi-{number}",
        f"{spec.job} on {spec.platform}",
        tuple(series),
        x_title=_unit(spec),
        y_title="density",
        x_range=(low, high),
        from_zero=True,
        marks=tuple(marks),
        note=_words(distribution),
    )


def _span(distribution: Distribution) -> tuple[float, float]:
    """Return from where to where the chart goes: 99 in a hundred samples, and beyond the threshold."""
    bins = distribution.histogram
    reached = np.cumsum(bins.count) / bins.total
    low, last = (
        float(ends[min(int(np.searchsorted(reached, share)), len(reached) - 1)])
        for ends, share in ((bins.low, 0.0005), (bins.high, 0.99))
    )
    return low, max(last, (distribution.spec.threshold_cpi or 0.0) + (distribution.spec.cpi_sd or 0.0) / 2)


def _unit(spec: Spec) -> str:
    return "CPI" if spec.cpi_source == COUNTED else str(spec.cpi_source)


def _words(distribution: Distribution) -> str:
    spec = distribution.spec
    words = f"{spec.samples:,} samples, mean {fmt.significant(spec.cpi_mean or 0.0)}"
    words += f", sd {fmt.significant(spec.cpi_sd or 0.0)}"
    beyond, _ = distribution.above(_span(distribution)[1])
    if beyond:
        words += f", {fmt.plain(fmt.quantity(beyond, 'ratio'))} further right"
    if distribution.gev is None:
        return f"{words}. No curve: {distribution.missing}."
    gev = distribution.gev.gev
    # The paper writes the shape with the other sign.
    return f"{words}. GEV({gev.location:.3g}, {gev.scale:.3g}, {-gev.shape:.3g})."


def _fit_section(distributions: Sequence[Distribution], quantile: float) -> Section:
    columns = (
        Column("job", is_text=True),
        Column("platform", is_text=True),
        Column("mean", rank=2),
        Column("sd", rank=3),
        Column("GEV"),
        Column(f"GEV {quantile:g}", rank=2),
        Column("above threshold", "ratio", rank=1),
        Column("GEV above it", "ratio", rank=1),
        Column("distance"),
        Column("next best"),
    )
    rows = []
    for distribution in distributions:
        spec, fit = distribution.spec, distribution.gev
        seen, expected = (
            distribution.above(spec.threshold_cpi) if spec.threshold_cpi is not None else (None, None)
        )
        other = min(distribution.others, key=lambda each: each.distance, default=None)
        none = Figure(missing=distribution.missing or "")
        threshold, why = tail(distribution.histogram, fit, quantile) if fit else (None, distribution.missing)
        rows.append(
            (
                spec.job,
                spec.platform,
                spec.cpi_mean,
                spec.cpi_sd,
                _gev(fit) if fit else none,
                threshold if threshold is not None else Figure(missing=why or ""),
                seen,
                expected,
                fit.distance if fit else none,
                _next_best(other) if other else None,
            )
        )
    caption = (
        "GEV: location, scale, shape as the paper writes it (xi); --json has intervals, with tasks as draws."
        " Distance: the"
        " largest between the two distribution functions; next best: that of the nearest of the normal,"
        " log-normal and gamma curves of the same mean and sd."
    )
    return Section("fits", "Fits", (table(columns, rows, caption=caption),))


def _next_best(other: Any) -> Cell:
    text = f"{other.name} {other.distance!r}"
    return Cell(fmt.significant(other.distance), text, figure=Figure(other.distance))


def _gev(fit: GevFit) -> Cell:
    gev = fit.gev
    figures = ", ".join(fmt.significant(parameter) for parameter in (gev.location, gev.scale, -gev.shape))
    if fit.location_interval is None or fit.scale_interval is None or fit.shape_interval is None:
        return Cell(figures, f"{gev!r}, no intervals: {fit.errors_missing}")
    # The paper writes the shape with the other sign.
    xi = (-fit.shape_interval[1], -fit.shape_interval[0])
    spans = ", ".join(
        f"{low:.4g} to {high:.4g}" for low, high in (fit.location_interval, fit.scale_interval, xi)
    )
    return Cell(figures, f"{gev!r}, intervals (95 %, {fit.tasks or 0:.0f} tasks in effect) {spans}")


def _following_section(following: Sequence[Following]) -> Section:
    columns = (
        Column("job", is_text=True),
        Column("platform", is_text=True),
        Column("spans", rank=3),
        Column("rates correlate", rank=2),
        Column("elasticity", rank=1),
        Column("through CPI", "ratio", rank=1),
        Column("verdict", is_text=True),
    )
    rows = [
        (
            row.job,
            row.platform,
            row.spans,
            _interval(row.rates),
            Figure(row.elasticity.value, row.elasticity.low, row.elasticity.high)
            if row.elasticity
            else Figure(missing=row.missing or ""),
            row.cpi_share,
            f"CPI {row.verdict}" if row.verdict != "cannot tell" else "cannot tell",
        )
        for row in following
    ]
    intro = (
        "Over spans of 10 minutes, with intervals of 95 %. Rates: operations/s and instructions/s, which the"
        f" paper found to correlate at {PUBLISHED_R}; load moves both. Elasticity: how many percent more"
        " cycles an operation takes with 1 % more CPI. Through CPI: the share of all changes in cycles per"
        " operation; the rest goes through path length."
    )
    if not rows:
        return Section("throughput", "Throughput", (Paragraph("No job exports operations."),))
    return Section("throughput", "Does CPI follow throughput?", (table(columns, rows),), intro)


def _interval(at: Any) -> Figure:
    return Figure(missing=at.missing or "") if at.r is None else Figure(at.r, at.low, at.high)


def outliers_answer(anomalies: Anomalies, rule: Rule, source: str) -> Answer:
    """Return outliers by job, and the tasks that were anomalous."""
    count = anomalies.anomalous_tasks
    heading = f"{fmt.several(count, 'task')} {'was' if count == 1 else 'were'} anomalous"
    subline = (
        f"{rule.outliers} outliers in {rule.within_s} s, above {source};"
        f" samples below {rule.minimum_usage:g} CPU-s/s do not count"
    )
    columns = (
        Column("job", is_text=True),
        Column("platform", is_text=True),
        Column("threshold", rank=1),
        Column("samples", rank=2),
        Column("outliers", rank=1),
        Column("share", "ratio"),
        Column("tasks with outliers", rank=1),
        Column("anomalous tasks"),
        Column("task-days with an anomaly", "ratio", rank=1),
    )
    rows = [
        (
            row.job,
            row.platform,
            row.threshold_cpi if row.threshold_cpi is not None else Figure(missing="no spec"),
            row.samples,
            row.outliers if row.threshold_cpi is not None else Figure(missing="no spec"),
            row.outlier_ratio if row.threshold_cpi is not None else Figure(missing="no spec"),
            row.tasks_with_outliers if row.threshold_cpi is not None else Figure(missing="no spec"),
            row.anomalous_tasks if row.threshold_cpi is not None else Figure(missing="no spec"),
            row.anomalous_task_day_ratio if row.threshold_cpi is not None else Figure(missing="no spec"),
        )
        for row in anomalies.jobs
    ]
    judged = [row for row in anomalies.jobs if row.outlier_ratio is not None][:40]
    chart = Chart(
        "outlier-share",
        "Share of samples above the threshold",
        (
            Series(
                "share",
                [f"{row.job} on {row.platform}" for row in judged],
                [row.outlier_ratio for row in judged],
                "bar",
            ),
        ),
        x_kind="name",
        y_unit="ratio",
        horizontal=True,
        from_zero=True,
        height=max(240, 90 + 24 * len(judged)),
    )
    ordinary = sorted({row.job for row in anomalies.jobs if row.is_ordinary})
    intro = ""
    if ordinary:
        intro = (
            f"An anomaly of {fmt.listed(ordinary)} means little: more than"
            f" {ORDINARY_RATIO:.0%} of the task-days have one. Raise --sigmas or --outliers."
        )
    jobs = Section("jobs", "By job", (table(columns, rows), chart), intro)
    result = OutliersResult(OutlierSettings(rule, source), anomalies)
    return Answer("CPI outliers", heading, (jobs, _task_section(anomalies)), result, (subline,))


def _task_section(anomalies: Anomalies) -> Section:
    columns = (
        Column("task", is_text=True),
        Column("machine", is_text=True),
        Column("platform", is_text=True, rank=2),
        Column("outliers", rank=1),
        Column("anomalous"),
        Column("highest CPI"),
        Column("threshold"),
        Column("first", is_text=True, rank=1),
        Column("last", is_text=True, rank=1),
    )
    rows = [
        (
            row.task,
            row.machine,
            row.platform,
            row.outliers,
            row.anomalous_samples,
            row.highest_cpi,
            row.threshold_cpi,
            utc(row.first_anomalous_unix_s)[:16],
            utc(row.last_anomalous_unix_s)[:16],
        )
        for row in anomalies.tasks
    ]
    caption = "Anomalous: number of anomalous samples of the task. Times are UTC."
    if anomalies.anomalous_tasks > len(rows):
        caption += f" The {len(rows):,} most anomalous of {anomalies.anomalous_tasks:,}."
    return Section("tasks", "Anomalous tasks", (table(columns, rows, caption=caption),))
