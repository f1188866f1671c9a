"""Metrics that every benchmark with a load generator has.

In: a load result. Out: metrics, every one with its unit; what is not known is None with the reason.

Not here: what only one benchmark has (``tao.metrics``, ``feed.metrics``).
"""

from collections.abc import Mapping, Sequence

from steelyard.analyze.verdict import lag_ratio
from steelyard.records import LatencySummary, LoadResult, Metric

PERCENTILES = ("p50", "p90", "p95", "p99", "p999", "p9999")


def value(number: float | None, unit: str, better: str | None, missing: str) -> Metric:
    """Return a metric, which says why when there is no number."""
    return Metric(value=number, unit=unit, better=better, missing=missing if number is None else None)


def load_metrics(load: LoadResult, cpus: int) -> dict[str, Metric]:
    """Return throughput, errors, latency and the generator's own CPU use on its ``cpus``."""
    seconds = (load.end_ns - load.begin_ns) / 1e9
    metrics = {
        "requests_per_s": Metric(value=load.throughput_per_s, unit="1/s", better="higher"),
        "errors": Metric(value=load.requests.errors, unit="count", better="lower"),
        "load_cpu_user_ratio": Metric(value=load.cpu.user_s / (seconds * cpus), unit="ratio"),
        "load_cpu_system_ratio": Metric(value=load.cpu.system_s / (seconds * cpus), unit="ratio"),
    }
    kinds: Mapping[str, LatencySummary] = {
        "response": load.latency.response,
        "service": load.latency.service,
    }
    for kind, summary in kinds.items():
        for percentile in PERCENTILES:
            number = getattr(summary, f"{percentile}_ns")
            missing = "too few requests" if summary.count else "no request was answered"
            metrics[f"{kind}_{percentile}_ns"] = value(number, "ns", "lower", missing)
        metrics[f"{kind}_mean_ns"] = value(summary.mean_ns, "ns", "lower", "no request was answered")
    metrics["generator_lag_ratio"] = value(lag_ratio(load), "ratio", "lower", "no request was answered")
    return metrics


def operation_metrics(load: LoadResult) -> dict[str, Metric]:
    """Return throughput and latency of each operation of a mix."""
    seconds = (load.end_ns - load.begin_ns) / 1e9
    metrics: dict[str, Metric] = {}
    for operation, counts in load.operations.items():
        name = operation.replace("-", "_")
        metrics[f"{name}_per_s"] = Metric(value=counts.completed / seconds, unit="1/s", better="higher")
        for percentile in ("p50", "p95", "p99"):
            number = None if counts.response is None else getattr(counts.response, f"{percentile}_ns")
            missing = "too few requests" if counts.completed else "no request was answered"
            metrics[f"{name}_{percentile}_ns"] = value(number, "ns", "lower", missing)
    return metrics


def per_second(loads: Sequence[LoadResult]) -> list[float]:
    """Return requests per second over all loads for every whole interval of the measure phase."""
    rates = [
        [
            row.completed / ((row.end_ns - row.begin_ns) / 1e9)
            for row in load.series
            if row.phase == "measure" and row.end_ns > row.begin_ns
        ]
        for load in loads
    ]
    return [sum(values) for values in zip(*rates, strict=False)]
