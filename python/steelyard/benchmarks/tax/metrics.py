"""What the microbenchmarks showed: metrics from their record.

In: a ``TaxResult``. Out: an `Outcome`; what was not measured is None with the reason.

A score is the ratio of two geometric means, which is the geometric mean of the ratios as long as both are
over the same benchmarks; the parameter ``benchmarks`` sees to that.
"""

from collections.abc import Mapping, Sequence

from steelyard.bench.benchmark import Outcome
from steelyard.records import Metric, TaxBenchmark, TaxResult, TaxScore
from steelyard.stats.intervals import geometric_mean


def outcome(result: TaxResult, artifacts: Mapping[str, str]) -> Outcome:
    """Return what ``result`` shows. What was not asked for (one core, all cores) has no metric at all."""
    metrics: dict[str, Metric] = {}
    for score, infix in ((result.score_all, ""), (result.score_one, "_one")):
        if score is not None:
            metrics |= _score_metrics(score, infix)
    lacking = [row for row in result.benchmarks if row.all is None]
    if result.score_all is not None and lacking:
        # A mean over the rest is a mean over other benchmarks than elsewhere: on one CPU nobody contends.
        metrics["operations_per_s"] = Metric(
            unit="1/s", better="higher", missing=f"{lacking[0].name}: {lacking[0].missing or 'not measured'}"
        )
    scaling = scaling_ratio(result.benchmarks)
    if scaling is not None:
        metrics["scaling_ratio"] = Metric(value=scaling, unit="ratio", better="higher")
    measures = [measure for row in result.benchmarks for measure in (row.one, row.all) if measure is not None]
    if measures:
        wide = sum(measure.wide for measure in measures) / len(measures)
        metrics["score_interval_ratio"] = _interval(result.score_all or result.score_one)
        metrics["wide_ratio"] = Metric(value=wide, unit="ratio", better="lower")
        metrics["disturbed_ratio"] = _disturbed(result)
    metrics["rounds"] = Metric(value=result.rounds, unit="count", better="higher")
    return Outcome(
        metrics=metrics,
        loads=None,
        own_cpu_s=result.cpu_user_s + result.cpu_system_s,
        checks=result.verdict.checks,
        artifacts=dict(artifacts),
    )


def scaling_ratio(rows: Sequence[TaxBenchmark]) -> float | None:
    """Return what all cores do over one core times their number, as the scores are made: the geometric mean
    over categories of that over their benchmarks.

    Only benchmarks that ran on one core too are in it; a score of all cores has others as well.
    """
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row.scaling_ratio is not None:
            ratios.setdefault(row.category, []).append(row.scaling_ratio)
    return geometric_mean(geometric_mean(part) for part in ratios.values()) if ratios else None


def _disturbed(result: TaxResult) -> Metric:
    """Return the share of batches that others interrupted, of those whose work does not wait itself."""
    rows = [row for row in result.benchmarks if not row.waits]
    measures = [measure for row in rows for measure in (row.one, row.all) if measure is not None]
    if not measures:
        return Metric(unit="ratio", better="lower", missing="every benchmark waits itself")
    batches = sum(measure.batches for measure in measures)
    return Metric(value=sum(each.disturbed for each in measures) / batches, unit="ratio", better="lower")


def _interval(score: TaxScore | None) -> Metric:
    """Return half of the width of a score's interval, over the score."""
    if score is None or score.interval_low_per_s is None or score.interval_high_per_s is None:
        return Metric(unit="ratio", better="lower", missing="too few rounds for an interval")
    half = (score.interval_high_per_s - score.interval_low_per_s) / 2
    return Metric(value=half / score.rate_per_s, unit="ratio", better="lower")


def _score_metrics(score: TaxScore, infix: str) -> dict[str, Metric]:
    metrics = {f"operations{infix}_per_s": Metric(value=score.rate_per_s, unit="1/s", better="higher")}
    for category, part in score.categories.items():
        metrics[f"{category}{infix}_per_s"] = Metric(value=part.rate_per_s, unit="1/s", better="higher")
    return metrics
