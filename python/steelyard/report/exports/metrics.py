"""The metrics of runs in OpenMetrics, as Prometheus and its like read them.

In: runs. Out: text, a family a metric. Labels are the benchmark, the tier, the host, the verdict and the run;
when measuring began is ``steelyard_run_begin_seconds``. A metric without a value has no sample: its reason is
a label of ``steelyard_missing_metric``.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.report.exports.open_metrics import Family, Sample, open_metrics
from steelyard.report.exports.runs import ExportedRun
from steelyard.report.metrics import metric_name


def metrics_text(runs: Sequence[ExportedRun]) -> str:
    """Return the metrics of ``runs``."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    missing: list[Sample] = []
    begins: list[Sample] = []
    for one in runs:
        labels = _labels(one)
        begins.append(Sample(labels, one.begin_ns / 1e9))
        for name, metric in one.metrics.items():
            if metric.value is None:
                reason = metric.missing or "no reason was given"
                missing.append(Sample({**labels, "metric": name, "reason": reason}, 1))
            else:
                samples.setdefault((name, metric.unit), []).append(Sample(labels, metric.value))
    families = [
        Family(
            f"steelyard_{name}", f"Metric of a run: {metric_name(name)} ({name} in run.json).", found, unit
        )
        for (name, unit), found in samples.items()
    ]
    about = "When what the run measured began, since 1970."
    return open_metrics(
        [
            *families,
            Family("steelyard_missing_metric", "Metrics without a value, and why.", missing),
            Family("steelyard_run_begin", about, begins, "s"),
        ]
    )


def _labels(one: ExportedRun) -> dict[str, str]:
    return {
        "benchmark": one.run.benchmark,
        "tier": one.run.tier,
        "host": one.host,
        "verdict": one.verdict,
        "run": one.run.run_id,
    }
