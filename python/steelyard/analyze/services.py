"""What the server and the load generator count about themselves, over one phase.

In: the lines of ``cache-stats.jsonl`` and ``load.json``. Out: `CacheUse`, `GeneratorUse`. Not here: the
machine's own telemetry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from steelyard.analyze.values import Quantity
from steelyard.records import CacheStats, LoadResult


@dataclass(frozen=True)
class CacheUse:
    """A cache server over the phase; differences between its first and last line within it.

    ``slow_wait_ns`` and ``slow_service_ns`` are means per miss. ``thread_busy_ratio`` is the mean share of
    time that threads of a kind spent on a CPU, ``thread_busy_max_ratio`` that of the busiest one.
    """

    covered_ns: int
    fast_per_s: Quantity
    slow_per_s: Quantity
    hit_ratio: Quantity
    evictions_per_s: Quantity
    slow_queue_depth: Quantity
    slow_queue_depth_high: Quantity
    slow_wait_ns: Quantity
    slow_service_ns: Quantity
    stored_ratio: Quantity
    thread_busy_ratio: dict[str, Quantity]
    thread_busy_max_ratio: dict[str, Quantity]


@dataclass(frozen=True)
class GeneratorUse:
    """The load generator over the measure phase."""

    busy_max_ratio: Quantity
    throughput_per_s: float
    response_p50_ns: Quantity
    response_p99_ns: Quantity
    lag_p99_ns: Quantity
    loop: str
    depth: int
    connections: int
    response_mean_ns: Quantity = field(default_factory=lambda: Quantity(None, "ns", "no answers"))
    lag_mean_ns: Quantity = field(default_factory=lambda: Quantity(None, "ns", "no answers"))
    """Of the response time, what passed in the generator."""


def observe_cache(lines: Sequence[CacheStats], begin_ns: int, end_ns: int) -> CacheUse | None:
    """Return what the server did between two times, None without two readings in that interval."""
    inside = [line for line in lines if begin_ns <= line.monotonic_ns <= end_ns]
    if len(inside) < 2 or inside[-1].monotonic_ns <= inside[0].monotonic_ns:
        return None
    first, last = inside[0], inside[-1]
    span_ns = last.monotonic_ns - first.monotonic_ns

    def gain(name: str) -> int | None:
        change = int(getattr(last, name)) - int(getattr(first, name))
        # A fall means that the server was restarted in between: the difference means nothing.
        return change if change >= 0 else None

    def rate(name: str) -> Quantity:
        change = gain(name)
        return Quantity.of(None if change is None else change * 1e9 / span_ns, "1/s", "the counter was reset")

    slow, hits, misses = gain("slow_requests"), gain("get_hits"), gain("get_misses")
    fast = gain("fast_requests")
    answered = None if fast is None or slow is None else fast + slow
    looked_up = None if hits is None or misses is None else hits + misses
    depths = [line.slow_queue_depth for line in inside]
    limit = last.memory_limit_bytes
    return CacheUse(
        covered_ns=span_ns,
        fast_per_s=rate("fast_requests"),
        slow_per_s=rate("slow_requests"),
        hit_ratio=_over(hits if answered in (None, 0) else fast, answered or looked_up, "ratio", "no gets"),
        evictions_per_s=rate("evictions"),
        slow_queue_depth=Quantity(sum(depths) / len(depths), "1"),
        slow_queue_depth_high=Quantity(float(max(depths)), "1"),
        slow_wait_ns=_over(gain("slow_wait_ns_total"), slow, "ns", "no misses"),
        slow_service_ns=_over(gain("slow_service_ns_total"), slow, "ns", "no misses"),
        stored_ratio=_over(last.stored_bytes, limit, "ratio", "no limit"),
        thread_busy_ratio=_threads(first, last, span_ns, lambda shares: sum(shares) / len(shares)),
        thread_busy_max_ratio=_threads(first, last, span_ns, max),
    )


def _over(part: int | None, whole: int | None, unit: str, missing: str) -> Quantity:
    return Quantity.of(part / whole if part is not None and whole else None, unit, missing)


def _threads(
    first: CacheStats, last: CacheStats, span_ns: int, combine: Callable[[list[float]], float]
) -> dict[str, Quantity]:
    before = {thread.name: thread for thread in first.threads}
    shares: dict[str, list[float]] = {}
    for thread in last.threads:
        then = before.get(thread.name)
        times = [
            value
            for reading in (thread, then)
            if reading is not None
            for value in (reading.cpu_user_ns, reading.cpu_system_ns)
        ]
        if then is None or None in times:
            continue
        spent = sum(int(value or 0) for value in times[:2]) - sum(int(value or 0) for value in times[2:])
        if spent >= 0:
            shares.setdefault(thread.kind, []).append(spent / span_ns)
    kinds = {thread.kind for thread in last.threads}
    return {
        kind: Quantity.of(
            combine(shares[kind]) if kind in shares else None, "ratio", "threads' CPU time could not be read"
        )
        for kind in sorted(kinds)
    }


def observe_generator(load: LoadResult | None) -> GeneratorUse | None:
    """Return what the generator says of itself, None without its record."""
    if load is None:
        return None

    def latency(value: int | None) -> Quantity:
        return Quantity.of(None if value is None else float(value), "ns", "no answers")

    busiest = max((thread.busy_ratio for thread in load.threads), default=None)
    return GeneratorUse(
        busy_max_ratio=Quantity.of(busiest, "ratio", "no threads"),
        throughput_per_s=load.throughput_per_s,
        response_p50_ns=latency(load.latency.response.p50_ns),
        response_p99_ns=latency(load.latency.response.p99_ns),
        lag_p99_ns=latency(load.latency.lag.p99_ns),
        loop=load.settings.loop,
        depth=load.settings.depth,
        connections=load.settings.connections,
        response_mean_ns=Quantity.of(load.latency.response.mean_ns, "ns", "no answers"),
        lag_mean_ns=Quantity.of(load.latency.lag.mean_ns, "ns", "no answers"),
    )
