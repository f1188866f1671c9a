"""What the measure phase of Cassandra showed: operations, CPU, disk, garbage collection.

In: the files of a run, and what the benchmark saw. Out: an `Outcome`, every metric with its unit; what is not
known is None with the reason.

Not here: judgement, which ``analyze.verdict`` does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.metrics import load_metrics, operation_metrics, per_second, value
from steelyard.bench.stack.devices import disk_metrics, iowait_metric
from steelyard.benchmarks.cassandra.stack.garbage import gc_metrics
from steelyard.benchmarks.cassandra.stack.node import GC_LOG
from steelyard.records import LoadResult, Metric, read
from steelyard.stats import steady

if TYPE_CHECKING:
    from steelyard.analyze.verdict import WarmUp
    from steelyard.bench.session import Session
    from steelyard.bench.stack.processor import CpuTime
    from steelyard.benchmarks.cassandra.place import Place
    from steelyard.benchmarks.cassandra.stack.node import OpenFiles

SAMPLES = (1_000, 200)
"""Requests of the measure phase: ten lie beyond p99 from 1,000 on, and beyond p95 from 200 on. A scan takes
milliseconds of CPU time, so that short tiers see no more."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the benchmark saw while it ran."""

    span: tuple[int, int]
    warmup: "WarmUp | None"
    used: "CpuTime"
    """CPU time of the node in the measure phase."""
    ready_s: float | None
    stop_s: float | None
    open_files: "OpenFiles | None"
    fill_s: float
    place: "Place"
    """Where data and commit log were."""


def outcome(session: "Session", facts: Facts) -> Outcome:
    """Return what the run in ``session.directory`` showed."""
    folder = session.directory
    load = read(LoadResult, folder / "load.json")
    seconds = (facts.span[1] - facts.span[0]) / 1e9
    cpus, hosts = len(session.placement.server), LoadHosts.of(session.settings)
    metrics = {
        **load_metrics(load, hosts.load_cpus(load, len(session.placement.load))),
        **operation_metrics(load),
        "server_cpu_ratio": Metric(value=facts.used.total_s / seconds / cpus, unit="ratio"),
        "server_cpu_user_ratio": Metric(value=facts.used.user_s / seconds / cpus, unit="ratio"),
        "server_cpu_system_ratio": Metric(value=facts.used.system_s / seconds / cpus, unit="ratio"),
        "server_cpu_iowait_ratio": iowait_metric(folder, facts.span, session.placement.server),
        "requests_per_server_cpu_s": value(
            load.completed_in_phase / facts.used.total_s if facts.used.total_s else None,
            "1/s",
            "higher",
            "the node used no CPU time",
        ),
        "network_bytes_per_s": Metric(
            value=(load.sent_bytes + load.received_bytes) / seconds, unit="bytes/s"
        ),
        **disk_metrics(folder, facts.span, facts.place.folders(folder)),
        **gc_metrics(folder / GC_LOG, facts.span),
        "ready_s": value(facts.ready_s, "s", "lower", "the node did not answer"),
        "stop_s": value(facts.stop_s, "s", "lower", "the node was not stopped"),
        "fill_records_per_s": Metric(
            value=session.settings.count("records") / facts.fill_s, unit="1/s", better="higher"
        ),
        "warmup_s": value(facts.warmup.duration_s if facts.warmup else None, "s", None, "no warm-up"),
    }
    return Outcome(
        metrics=metrics,
        loads=[load],
        samples=SAMPLES,
        warmup=facts.warmup,
        measure=steady.check(per_second([load])),
        memory_needed_bytes=session.settings.count("heap"),
        own_cpu_s=facts.used.total_s + hosts.own_cpu_s(load),
        checks=[
            *([facts.open_files.check()] if facts.open_files is not None else []),
            facts.place.check(folder),
        ],
        artifacts={"load": "load.json", "latency": "latency.hlog", "gc_log": GC_LOG},
        own_commands=("java",),
    )
