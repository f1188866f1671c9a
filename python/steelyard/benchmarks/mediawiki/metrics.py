"""What the wiki's measure phase showed: metrics from the load's result and the servers' counters.

In: the files of a run, samples of the servers, the measure phase. Out: an `Outcome`, every metric with its
unit; what is not known is None with the reason.

Not here: reading the counters (``counters``), and judgement of what every load has (``analyze.verdict``).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from steelyard._base import replacing
from steelyard.analyze import checks
from steelyard.bench import server_counters
from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.metrics import load_metrics, operation_metrics, per_second, value
from steelyard.benchmarks.mediawiki.counters import Counter, Sample
from steelyard.records import Check, LoadResult, Metric, read
from steelyard.stats import steady

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.session import Session

NOT_COVERED = "the servers' counters do not cover the measure phase"
SAMPLES = (2_000, 200)
"""Requests below which the result is suspect, and below which it is invalid: for a p99 with 20 beyond it, and
for a rate that is known to about 7 %."""
SERVERS = ("nginx", "php-fpm", "mariadb", "memcached")


def outcome(
    session: "Session",
    span: tuple[int, int],
    warmup: "WarmUp | None",
    *,
    samples: Sequence[Sample],
    facts: Mapping[str, object],
    ready_s: float,
    memory_bytes: int,
) -> Outcome:
    """Return what the run in ``session.directory`` showed over ``span``."""
    load = read(LoadResult, session.directory / "load.json")
    cpus = len(session.placement.server)
    hosts = LoadHosts.of(session.settings)
    metrics = {
        **load_metrics(load, hosts.load_cpus(load, len(session.placement.load))),
        **operation_metrics(load),
        **server_metrics(samples, span, cpus=cpus, requests=_answered(load)),
        "warmup_s": value(warmup.duration_s if warmup else None, "s", None, "there was no warm-up"),
        "ready_s": Metric(value=ready_s, unit="s", better="lower"),
    }
    with replacing(session.directory / "wiki.json") as path:
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    used = metrics["server_cpu_ratio"].value
    servers_s = None if used is None else used * cpus * (span[1] - span[0]) / 1e9
    metrics["load_cpu_share_ratio"] = hosts.share(load, servers_s, NOT_COVERED)
    return Outcome(
        metrics=metrics,
        loads=[load],
        samples=SAMPLES,
        warmup=warmup,
        measure=steady.check(per_second([load])),
        memory_needed_bytes=memory_bytes,
        own_cpu_s=None if servers_s is None else servers_s + hosts.own_cpu_s(load),
        checks=list(checks_of(load, metrics, hosts)),
        artifacts={
            "load": "load.json",
            "latency": "latency.hlog",
            "mix": "mix.toml",
            "wiki": "wiki.json",
            "config": "config",
        },
    )


def _answered(load: LoadResult) -> int:
    """Return how many requests the servers worked on: answers with an error as well."""
    classes = load.requests.answers_by_class
    return load.requests.completed if classes is None else sum(classes.values())


def _gain(
    samples: Sequence[Sample], span: tuple[int, int], counter: Callable[[Sample], float]
) -> float | None:
    readings = [Counter(sample.monotonic_ns, counter(sample)) for sample in samples]
    return server_counters.gain(readings, "value", *span)


def server_metrics(
    samples: Sequence[Sample],
    span: tuple[int, int],
    *,
    cpus: int,
    requests: int,
) -> dict[str, Metric]:
    """Return CPU time, cache and queries of the servers over ``span``."""
    seconds = (span[1] - span[0]) / 1e9
    user_s = {name: _gain(samples, span, lambda each, n=name: each.cpu[n].user_s) for name in SERVERS}  # type: ignore[misc]
    system_s = {name: _gain(samples, span, lambda each, n=name: each.cpu[n].system_s) for name in SERVERS}  # type: ignore[misc]
    hits = _gain(samples, span, lambda each: each.hits)
    misses = _gain(samples, span, lambda each: each.misses)
    queries = _gain(samples, span, lambda each: each.queries)
    user, system = _sum(user_s.values()), _sum(system_s.values())
    total = None if user is None or system is None else user + system
    looked_up = None if hits is None or misses is None else hits + misses

    def share(used_s: float | None) -> Metric:
        return value(None if used_s is None else used_s / seconds / cpus, "ratio", None, NOT_COVERED)

    def per_request(gained: float | None, unit: str = "1", scale: float = 1.0) -> Metric:
        missing = NOT_COVERED if gained is None else "no request was answered"
        each = gained * scale / requests if gained is not None and requests else None
        return value(each, unit, "lower", missing)

    by_server = {
        f"{name.replace('-', '_')}_cpu_ratio": share(_sum((user_s[name], system_s[name]))) for name in SERVERS
    }
    hit_ratio = hits / looked_up if hits is not None and looked_up else None
    return {
        "server_cpu_ratio": share(total),
        "server_cpu_user_ratio": share(user),
        "server_cpu_system_ratio": share(system),
        **by_server,
        "cpu_per_request_ns": per_request(total, "ns", 1e9),
        "memcached_hit_ratio": value(
            hit_ratio, "ratio", "higher", NOT_COVERED if looked_up is None else "nothing was looked up"
        ),
        "memcached_gets_per_request": per_request(looked_up),
        "queries_per_request": per_request(queries),
    }


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum, None where one of the values is not known."""
    total = 0.0
    for each in values:
        if each is None:
            return None
        total += each
    return total


def checks_of(load: LoadResult, metrics: Mapping[str, Metric], hosts: LoadHosts) -> Iterator[Check]:
    """Say what is odd about answers, and whether the load took little CPU time."""
    classes = load.requests.answers_by_class or {}
    other = sum(count for name, count in classes.items() if name in ("1xx", "3xx"))
    claim = f"{classes.get('2xx', 0)} answers were pages"
    if other:
        claim = f"{other} answers were redirects, which are no pages"
    yield checks.measured("answers", other, claim)
    yield from hosts.share_checks(metrics["load_cpu_share_ratio"])
