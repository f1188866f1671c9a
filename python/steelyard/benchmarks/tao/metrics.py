"""What TaoBench's measure phase showed: metrics from load results and servers' counters.

In: the files of a run and the measure phase. Out: an `Outcome`, every metric with its unit; what the files
do not say is None with the reason.

Not here: telemetry of the machine, and judgement.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard.bench import server_counters as counters
from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.merge import merged
from steelyard.bench.load.metrics import load_metrics, per_second, value
from steelyard.records import CacheStats, LoadResult, Metric, read, read_lines, write
from steelyard.stats import steady

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.session import Session

_NO_STATS = "the server does not report it"
_NOT_COVERED = "the server's counters do not cover the measure phase"


def outcome(
    session: "Session",
    span: tuple[int, int],
    warmup: "WarmUp | None",
    *,
    suffixes: Sequence[str],
    foreign: bool,
) -> Outcome:
    """Return what the run in ``session.directory`` showed over ``span``.

    ``suffixes`` tell the files of one instance from another's; ``foreign`` servers write no counters.
    """
    folder = session.directory
    loads = [read(LoadResult, folder / f"load{suffix}.json") for suffix in suffixes]
    whole = loads[0] if len(loads) == 1 else merged(loads)
    if len(loads) > 1:
        write(whole, folder / "load.json")
    servers: list[list[CacheStats]] = []
    if not foreign:
        servers = [list(read_lines(CacheStats, folder / f"cache-stats{suffix}.jsonl")) for suffix in suffixes]
    metrics = {
        **load_metrics(whole, len(session.placement.load)),
        **_server_metrics(
            servers, span, len(session.placement.server), _NO_STATS if foreign else _NOT_COVERED
        ),
        "warmup_s": value(warmup.duration_s if warmup else None, "s", None, "there was no warm-up"),
    }
    throughput = metrics["requests_per_s"].value
    cpu_s = _cpu_s(servers, span)
    seconds = (span[1] - span[0]) / 1e9
    per_cpu_s = throughput * seconds / cpu_s if throughput is not None and cpu_s else None
    metrics["requests_per_server_cpu_s"] = value(
        per_cpu_s, "1/s", "higher", _NO_STATS if foreign else _NOT_COVERED
    )
    load_cpu_s = whole.cpu.user_s + whole.cpu.system_s
    return Outcome(
        metrics=metrics,
        loads=loads,
        warmup=warmup,
        measure=steady.check(per_second(loads)),
        memory_needed_bytes=session.settings.count("memory"),
        own_cpu_s=None if cpu_s is None else cpu_s + load_cpu_s,
        artifacts=_artifacts(folder, suffixes),
    )


def _artifacts(folder: Path, suffixes: Sequence[str]) -> dict[str, str]:
    artifacts = {"load": "load.json"}
    for suffix in suffixes:
        role = suffix.replace("-", "_")
        for name, file in (
            (f"load{role}", f"load{suffix}.json"),
            (f"latency{role}", f"latency{suffix}.hlog"),
            (f"cache_stats{role}", f"cache-stats{suffix}.jsonl"),
        ):
            if (folder / file).exists():
                artifacts[name] = file
    return artifacts


def _cpu_s(servers: Sequence[Sequence[CacheStats]], span: tuple[int, int]) -> float | None:
    user = counters.total_gain(servers, "cpu_user_ns", *span)
    system = counters.total_gain(servers, "cpu_system_ns", *span)
    return None if user is None or system is None else (user + system) / 1e9


def _server_metrics(
    servers: Sequence[Sequence[CacheStats]], span: tuple[int, int], cpus: int, missing: str
) -> dict[str, Metric]:
    seconds = (span[1] - span[0]) / 1e9

    def per_s(counter: str, scale: float = 1.0) -> float | None:
        gained = counters.total_gain(servers, counter, *span)
        return None if gained is None else gained * scale / seconds

    fast, slow = per_s("fast_requests"), per_s("slow_requests")
    waited, served = per_s("slow_wait_ns_total"), per_s("slow_service_ns_total")
    ratio = fast / (fast + slow) if fast is not None and slow is not None and fast + slow > 0 else None
    ends = [stats[-1] for stats in servers if stats]
    resident = [stats.rss_bytes for stats in ends if stats.rss_bytes is not None]
    share = 1e-9 / cpus

    def per_miss(total: float | None) -> float | None:
        return total / slow if total is not None and slow else None

    return {
        "fast_requests_per_s": value(fast, "1/s", "higher", missing),
        "slow_requests_per_s": value(slow, "1/s", "higher", missing),
        "hit_ratio": value(ratio, "ratio", None, missing),
        "server_cpu_user_ratio": value(per_s("cpu_user_ns", share), "ratio", None, missing),
        "server_cpu_system_ratio": value(per_s("cpu_system_ns", share), "ratio", None, missing),
        "network_received_bytes_per_s": value(per_s("bytes_read"), "bytes/s", None, missing),
        "network_sent_bytes_per_s": value(per_s("bytes_written"), "bytes/s", None, missing),
        "evictions_per_s": value(per_s("evictions"), "1/s", None, missing),
        "slow_queue_depth_mean": value(_mean_depth(servers, span), "1", "lower", missing),
        "slow_queue_depth_max": value(
            max((stats.slow_queue_depth_max for stats in ends), default=None), "1", "lower", missing
        ),
        "slow_wait_mean_ns": value(per_miss(waited), "ns", "lower", missing),
        "slow_wait_max_ns": value(
            max((stats.slow_wait_ns_max for stats in ends), default=None), "ns", "lower", missing
        ),
        "slow_service_mean_ns": value(per_miss(served), "ns", "lower", missing),
        "stored_bytes": value(
            sum(stats.stored_bytes for stats in ends) if ends else None, "bytes", None, missing
        ),
        "rss_bytes": value(
            sum(resident) if ends and len(resident) == len(ends) else None, "bytes", "lower", missing
        ),
    }


def _mean_depth(servers: Sequence[Sequence[CacheStats]], span: tuple[int, int]) -> float | None:
    """Return the mean of the queue depths that were seen in the phase, summed over servers."""
    means = []
    for stats in servers:
        seen = [row.slow_queue_depth for row in stats if span[0] <= row.monotonic_ns <= span[1]]
        if not seen:
            return None
        means.append(sum(seen) / len(seen))
    return sum(means) if means else None
