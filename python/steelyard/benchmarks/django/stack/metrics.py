"""What the measure phase of DjangoBench showed: views, CPU time of each server, cache.

In: the files of a run, and what the benchmark saw. Out: an `Outcome`, every metric with its unit; what is not
known is None with the reason.

Not here: judgement of the load, which ``analyze.verdict`` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.analyze import checks
from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.metrics import load_metrics, operation_metrics, per_second, value
from steelyard.bench.stack.processor import CpuTime
from steelyard.benchmarks.cassandra.stack.garbage import gc_metrics
from steelyard.benchmarks.cassandra.stack.node import GC_LOG
from steelyard.benchmarks.django.stack.servers import Servers, dead_workers
from steelyard.records import Check, LoadResult, Metric, read
from steelyard.stats import steady

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.session import Session

SAMPLES = (1_000, 200)
"""Requests of the measure phase: ten lie beyond p99 from 1,000 on, and beyond p95 from 200 on. A request
takes milliseconds of CPU time, so that short tiers see no more."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the benchmark saw while it ran."""

    span: tuple[int, int]
    warmup: "WarmUp | None"
    used: Mapping[str, CpuTime]
    """CPU time of each server in the measure phase."""
    stats: Sequence[Mapping[str, str]]
    """Counters of memcached at its beginning and its end."""
    servers: Servers


def outcome(session: "Session", facts: Facts) -> Outcome:
    """Return what the run in ``session.directory`` showed."""
    folder = session.directory
    load = read(LoadResult, folder / "load.json")
    seconds = (facts.span[1] - facts.span[0]) / 1e9
    cpus, hosts = len(session.placement.server), LoadHosts.of(session.settings)
    total = sum(facts.used.values(), CpuTime(0.0, 0.0))
    share = hosts.share(load, total.total_s, "nobody used CPU time")
    metrics = {
        **load_metrics(load, hosts.load_cpus(load, len(session.placement.load))),
        **operation_metrics(load),
        "server_cpu_ratio": Metric(value=total.total_s / seconds / cpus, unit="ratio"),
        "server_cpu_user_ratio": Metric(value=total.user_s / seconds / cpus, unit="ratio"),
        "server_cpu_system_ratio": Metric(value=total.system_s / seconds / cpus, unit="ratio"),
        "requests_per_server_cpu_s": value(
            load.completed_in_phase / total.total_s if total.total_s else None,
            "1/s",
            "higher",
            "the servers used no CPU time",
        ),
        "load_cpu_share_ratio": share,
        **_shares(facts.used, total.total_s),
        **cache_metrics(facts.stats, seconds),
        **gc_metrics(folder / GC_LOG, facts.span),
        "ready_s": value(facts.servers.ready_s, "s", "lower", "the application did not answer"),
        "cassandra_ready_s": value(facts.servers.node.ready_s, "s", "lower", "the node did not answer"),
        "fill_s": value(facts.servers.fill_s, "s", None, "the data were not stored"),
        "rows": value(facts.servers.rows, "count", None, "the data were not stored"),
        "warmup_s": value(facts.warmup.duration_s if facts.warmup else None, "s", None, "no warm-up"),
    }
    artifacts = {"load": "load.json", "latency": "latency.hlog", "mix": "mix.toml", "gc_log": GC_LOG}
    return Outcome(
        metrics=metrics,
        loads=[load],
        samples=SAMPLES,
        warmup=facts.warmup,
        measure=steady.check(per_second([load])),
        memory_needed_bytes=session.settings.count("heap") + session.settings.count("memory"),
        own_cpu_s=total.total_s + hosts.own_cpu_s(load),
        checks=[
            *hosts.share_checks(share),
            _workers(facts.servers),
            _answers(load),
        ],
        artifacts=artifacts,
        own_commands=("java", "memcached", "uwsgi"),
    )


def _shares(used: Mapping[str, CpuTime], total_s: float) -> dict[str, Metric]:
    return {
        f"{name}_cpu_share_ratio": value(
            time.total_s / total_s if total_s else None, "ratio", None, "the servers used no CPU time"
        )
        for name, time in used.items()
    }


def cache_metrics(stats: Sequence[Mapping[str, str]], seconds: float) -> dict[str, Metric]:
    """Return what memcached did between two readings of its counters."""
    missing = "memcached did not report it"

    def gained(name: str) -> float | None:
        known = len(stats) >= 2 and all(name in reading for reading in stats)
        return float(stats[-1][name]) - float(stats[0][name]) if known else None

    hits, misses, evictions = gained("get_hits"), gained("get_misses"), gained("evictions")
    lookups = None if hits is None or misses is None else hits + misses
    return {
        "hit_ratio": value(
            hits / lookups if hits is not None and lookups else None,
            "ratio",
            None,
            missing if lookups is None else "nothing was looked up",
        ),
        "lookups_per_s": value(None if lookups is None else lookups / seconds, "1/s", None, missing),
        "evictions_per_s": value(None if evictions is None else evictions / seconds, "1/s", "lower", missing),
    }


def _workers(servers: Servers) -> Check:
    """Return whether all workers of uWSGI lived: its master replaces those that die."""
    deaths = [] if servers.uwsgi is None else dead_workers(servers.uwsgi.log)
    claim = f"{len(deaths)} workers of uWSGI died: {', '.join(deaths[:3])}" if deaths else "no worker died"
    return checks.measured("workers", len(deaths), claim)


def _answers(load: LoadResult) -> Check:
    """Return whether every answer was one of a view: a redirect does no work."""
    classes = load.requests.answers_by_class or {}
    other = sum(count for name, count in classes.items() if name in ("1xx", "3xx"))
    claim = f"{other} answers were redirects" if other else "no answer was a redirect"
    return checks.measured("answers", other, claim)
