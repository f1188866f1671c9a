"""Several load processes as one load.

In: load results of the same phase. Out: one load result. Counts add up; percentiles are those of all requests
together, read from the processes' percentile curves, each a step function that is never below the truth.
"""

from collections.abc import Callable, Sequence

from steelyard.records import (
    IntervalRow,
    LatencySummary,
    LoadCpu,
    LoadLatency,
    LoadOperations,
    LoadRequests,
    LoadResult,
    QuantileValue,
    Verdict,
)


def merged(loads: Sequence[LoadResult]) -> LoadResult:
    """Return ``loads`` as one; they must have measured at the same time."""
    first = loads[0]
    by_class = [load.requests.answers_by_class for load in loads]
    requests = LoadRequests(
        **{
            name: sum(getattr(load.requests, name) for load in loads)
            for name in ("intended", "sent", "completed", "errors", "outstanding_at_end", "unsent")
        },
        errors_by_kind=_added([load.requests.errors_by_kind for load in loads]),
        answers_by_class=_added([classes for classes in by_class if classes is not None])
        if None not in by_class
        else None,
        **{
            name: _known_sum([getattr(load.requests, name) for load in loads])
            for name in ("completed_after", "completed_from_before", "errors_after", "errors_from_before")
        },
    )
    offered = [load.offered_per_s for load in loads]
    known_offered = [rate for rate in offered if rate is not None]
    throughput = sum(load.throughput_per_s for load in loads)
    total_offered = sum(known_offered) if known_offered and len(known_offered) == len(loads) else None
    user_s, system_s = sum(load.cpu.user_s for load in loads), sum(load.cpu.system_s for load in loads)
    threads = [thread for load in loads for thread in load.threads]
    return first.model_copy(
        update={
            "settings": first.settings.model_copy(
                update={
                    "target": ",".join(load.settings.target for load in loads),
                    "threads": sum(load.settings.threads for load in loads),
                    "connections": sum(load.settings.connections for load in loads),
                    "keys": sum(load.settings.keys for load in loads),
                    "rate_per_s": total_offered,
                }
            ),
            "begin_ns": max(load.begin_ns for load in loads),
            "end_ns": min(load.end_ns for load in loads),
            "interrupted": any(load.interrupted for load in loads),
            "requests": requests,
            "operations": _operations(loads),
            "throughput_per_s": throughput,
            "offered_per_s": total_offered,
            "achieved_ratio": throughput / total_offered if total_offered else None,
            "sent_bytes": sum(load.sent_bytes for load in loads),
            "received_bytes": sum(load.received_bytes for load in loads),
            "latency": LoadLatency(
                response=summary([load.latency.response for load in loads]),
                service=summary([load.latency.service for load in loads]),
                lag=summary([load.latency.lag for load in loads]),
                queued=_joined([load.latency.queued for load in loads]),
            ),
            "series": _series(loads),
            "threads": [t.model_copy(update={"index": index}) for index, t in enumerate(threads)],
            "cpu": LoadCpu(
                user_s=user_s,
                system_s=system_s,
                requests_per_cpu_s=sum(load.completed_in_phase for load in loads) / (user_s + system_s)
                if user_s + system_s > 0
                else None,
            ),
            "verdict": Verdict.of(check for load in loads for check in load.verdict.checks),
        }
    )


def _added(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    names = sorted({name for count in counts for name in count})
    return {name: sum(count.get(name, 0) for count in counts) for name in names}


def _known_sum(counts: Sequence[int | None]) -> int | None:
    """Return the sum, None where a part is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _operations(loads: Sequence[LoadResult]) -> dict[str, LoadOperations]:
    names = sorted({name for load in loads for name in load.operations})
    operations = {}
    for name in names:
        parts = [load.operations[name] for load in loads if name in load.operations]
        hits, misses = [part.hits for part in parts], [part.misses for part in parts]
        operations[name] = LoadOperations(
            completed=sum(part.completed for part in parts),
            hits=sum(h for h in hits if h is not None) if None not in hits else None,
            misses=sum(m for m in misses if m is not None) if None not in misses else None,
            response=_joined([part.response for part in parts]),
        )
    return operations


def _joined(parts: Sequence[LatencySummary | None]) -> LatencySummary | None:
    """Return the distribution of all parts together, None where one of them is not known."""
    known = [part for part in parts if part is not None]
    return summary(known) if known and len(known) == len(parts) else None


def quantile(summaries: Sequence[LatencySummary], target: float) -> int | None:
    """Return the value at a quantile of all values together: the least that covers ``target`` of them."""
    steps = sorted(
        (point.value_ns, index, point.quantile)
        for index, latency in enumerate(summaries)
        for point in latency.curve
        if latency.count
    )
    total = sum(latency.count for latency in summaries)
    covered = [0.0] * len(summaries)
    for value_ns, index, reached in steps:
        covered[index] = max(covered[index], reached)
        share = sum(latency.count * part for latency, part in zip(summaries, covered, strict=True)) / total
        # A hair is taken off, since sums of products of shares do not reach a bound exactly.
        if share >= target - 1e-12:
            return value_ns
    return steps[-1][0] if steps else None


def summary(summaries: Sequence[LatencySummary]) -> LatencySummary:
    """Return the distribution of all values together."""
    present = [latency for latency in summaries if latency.count]
    count = sum(latency.count for latency in present)
    if not present:
        return summaries[0]
    if len(present) == 1:
        return present[0]
    mean = sum(latency.count * (latency.mean_ns or 0.0) for latency in present) / count
    # Law of total variance.
    variance = (
        sum(
            latency.count * ((latency.stdev_ns or 0.0) ** 2 + ((latency.mean_ns or 0.0) - mean) ** 2)
            for latency in present
        )
        / count
    )
    points = sorted({point.quantile for latency in present for point in latency.curve})
    at = {level: quantile(present, level) for level in [*points, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999]}
    return LatencySummary(
        count=count,
        min_ns=_extreme(min, [latency.min_ns for latency in present]),
        max_ns=_extreme(max, [latency.max_ns for latency in present]),
        mean_ns=mean,
        stdev_ns=variance**0.5,
        p50_ns=at[0.5],
        p90_ns=at[0.9],
        p95_ns=at[0.95],
        p99_ns=at[0.99],
        p999_ns=at[0.999],
        p9999_ns=at[0.9999],
        curve=[QuantileValue(quantile=q, value_ns=at[q] or 0) for q in points],
    )


def _extreme(choose: Callable[[list[int]], int], values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _series(loads: Sequence[LoadResult]) -> list[IntervalRow]:
    """Return counts per second over all loads. Percentiles of a second are the worst of the processes'."""
    rows = []
    for together in zip(
        *([row for row in load.series if row.phase == "measure"] for load in loads), strict=False
    ):
        first = together[0]
        counts = {
            name: sum(getattr(row, name) for row in together)
            for name in ("completed", "errors", "hits", "misses", "sent_bytes", "received_bytes")
        }
        worst = {
            name: _extreme(max, [getattr(row, name) for row in together])
            for name in (
                "response_p50_ns",
                "response_p99_ns",
                "response_p999_ns",
                "service_p50_ns",
                "service_p99_ns",
                "lag_p99_ns",
                "lag_p999_ns",
            )
        }
        rows.append(first.model_copy(update={**counts, **worst}))
    others = [row for row in loads[0].series if row.phase != "measure"]
    return sorted([*others, *rows], key=lambda row: row.begin_ns)
