"""What the measure phase of memcached showed.

In: results of the clients, the server's counters before and after, its CPU time. Out: an `Outcome`.

Not here: telemetry of the machine, and judgement.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.merge import merged
from steelyard.bench.load.metrics import load_metrics, per_second, value
from steelyard.bench.stack.processor import CpuTime
from steelyard.records import LoadResult, Metric, read, write
from steelyard.stats import steady

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.session import Session

_NO_LOOKUPS = "there were no lookups"


def outcome(
    session: "Session",
    span: tuple[int, int],
    warmup: "WarmUp | None",
    cpu: CpuTime,
    stats: Sequence[Mapping[str, str]],
) -> Outcome:
    """Return what the run showed over ``span``; ``stats`` are the counters at its beginning and its end."""
    folder = session.directory
    paths = sorted(folder.glob("load-*.json")) or [folder / "load.json"]
    loads = [read(LoadResult, path) for path in paths]
    whole = loads[0] if len(loads) == 1 else merged(loads)
    if len(loads) > 1:
        write(whole, folder / "load.json")
    seconds = (span[1] - span[0]) / 1e9
    cpus = len(session.placement.server)
    before, after = stats[0], stats[-1]

    def gained(name: str) -> float | None:
        return float(after[name]) - float(before[name]) if name in before and name in after else None

    hits, lookups = gained("get_hits"), gained("cmd_get")
    hosts = LoadHosts.of(session.settings)
    metrics = {
        **load_metrics(whole, hosts.load_cpus(whole, len(session.placement.load))),
        "hit_ratio": value(
            hits / lookups if hits is not None and lookups else None, "ratio", None, _NO_LOOKUPS
        ),
        "evictions_per_s": value(_per(gained("evictions"), seconds), "1/s", "lower", "not reported"),
        "stored_bytes": value(_number(after, "bytes"), "bytes", None, "not reported"),
        "network_bytes_per_s": Metric(
            value=(whole.sent_bytes + whole.received_bytes) / seconds, unit="bytes/s"
        ),
        "server_cpu_ratio": Metric(value=cpu.total_s / seconds / cpus, unit="ratio"),
        "server_cpu_user_ratio": Metric(value=cpu.user_s / seconds / cpus, unit="ratio"),
        "server_cpu_system_ratio": Metric(value=cpu.system_s / seconds / cpus, unit="ratio"),
        "requests_per_server_cpu_s": value(
            whole.completed_in_phase / cpu.total_s if cpu.total_s else None,
            "1/s",
            "higher",
            "the server used no CPU time",
        ),
        "warmup_s": value(warmup.duration_s if warmup else None, "s", None, "there was no warm-up"),
    }
    artifacts = {path.stem.replace("-", "_"): path.name for path in sorted(folder.glob("load*.json"))}
    artifacts |= {path.stem.replace("-", "_"): path.name for path in sorted(folder.glob("latency*.hlog"))}
    return Outcome(
        metrics=metrics,
        loads=loads,
        warmup=warmup,
        measure=steady.check(per_second(loads)),
        memory_needed_bytes=session.settings.count("memory"),
        own_cpu_s=cpu.total_s + hosts.own_cpu_s(whole),
        artifacts=artifacts,
    )


def _number(stats: Mapping[str, str], name: str) -> float | None:
    return float(stats[name]) if name in stats else None


def _per(total: float | None, seconds: float) -> float | None:
    return None if total is None else total / seconds
