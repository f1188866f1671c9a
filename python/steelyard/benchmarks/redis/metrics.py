"""What the steps of Redis showed.

In: steps with the results of their loads. Out: an `Outcome`.

Not here: telemetry of the machine, and judgement of the whole.
"""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard.analyze import checks
from steelyard.bench.benchmark import Outcome
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.load.merge import merged
from steelyard.bench.load.metrics import per_second, value
from steelyard.benchmarks.redis.steps import Step, artifacts, own_cpu_s
from steelyard.records import Check, Metric
from steelyard.stats import steady

if TYPE_CHECKING:
    from steelyard.bench.session import Session

_NO_ANSWER = "no request was answered"


def outcome(session: "Session", steps: Sequence[Step], peak_bytes: int) -> Outcome:
    """Return what the run showed; ``peak_bytes`` is the most memory that all servers had together."""
    metrics: dict[str, Metric] = {}
    rates = [step.completed / step.seconds for step in steps]
    mean = statistics.geometric_mean(rates) if all(rates) else None
    metrics["requests_per_s"] = value(mean, "1/s", "higher", "a command had no answer")
    for step, rate in zip(steps, rates, strict=True):
        metrics |= _of_step(step, rate)
    seconds = sum(step.seconds for step in steps)
    loads = [load for step in steps for load in step.loads]
    server_s = sum(step.servers.total_s for step in steps)
    load_s = sum(load.cpu.user_s + load.cpu.system_s for load in loads)
    hosts = LoadHosts.of(session.settings)
    # The instances of a step load at the same time, those of a host each with their own threads.
    far_cpus = sum(hosts.load_cpus(load, 1) for load in steps[0].loads)
    cpus, load_cpus = len(session.placement.server), max(1, len(session.placement.load))
    moved = sum(load.sent_bytes + load.received_bytes for load in loads)
    metrics |= {
        "errors": Metric(value=sum(load.requests.errors for load in loads), unit="count", better="lower"),
        "server_cpu_ratio": Metric(value=server_s / seconds / cpus, unit="ratio"),
        "server_cpu_user_ratio": Metric(
            value=sum(step.servers.user_s for step in steps) / seconds / cpus, unit="ratio"
        ),
        "server_cpu_system_ratio": Metric(
            value=sum(step.servers.system_s for step in steps) / seconds / cpus, unit="ratio"
        ),
        "load_cpu_ratio": Metric(
            value=load_s / seconds / (far_cpus if hosts.hosts else load_cpus), unit="ratio"
        ),
        "requests_per_server_cpu_s": value(
            sum(step.completed for step in steps) / server_s if server_s else None,
            "1/s",
            "higher",
            "the servers used no CPU time",
        ),
        "network_bytes_per_s": Metric(value=moved / seconds, unit="bytes/s"),
        "memory_peak_bytes": Metric(value=peak_bytes, unit="bytes"),
    }
    return Outcome(
        metrics=metrics,
        loads=loads,
        measure=steady.check(_levels(steps)),
        memory_needed_bytes=peak_bytes,
        own_cpu_s=own_cpu_s(steps, hosts),
        checks=[check for step in steps if step.command == "lpop" for check in (_lists_lasted(step),)],
        artifacts=artifacts(session.directory, steps),
        own_commands=("redis-server",),
    )


def _of_step(step: Step, rate: float) -> dict[str, Metric]:
    whole = step.loads[0] if len(step.loads) == 1 else merged(step.loads)
    response = whole.latency.response
    name = step.command
    return {
        f"{name}_per_s": value(rate or None, "1/s", "higher", _NO_ANSWER),
        f"{name}_p50_ns": value(response.p50_ns, "ns", "lower", _NO_ANSWER),
        f"{name}_p99_ns": value(response.p99_ns, "ns", "lower", "too few requests"),
        f"{name}_network_bytes_per_s": Metric(
            value=(whole.sent_bytes + whole.received_bytes) / step.seconds, unit="bytes/s"
        ),
    }


def _levels(steps: Sequence[Step]) -> list[float]:
    """Return throughput of each interval over its step's median: the steps' own levels differ."""
    levels: list[float] = []
    for step in steps:
        rates = per_second(step.loads)
        median = statistics.median(rates) if rates else 0.0
        levels += [rate / median for rate in rates] if median else []
    return levels


def _lists_lasted(step: Step) -> Check:
    """Return whether lists held values to the end: popping an empty list is another, cheaper operation."""
    operations = [load.operations["lpop"] for load in step.loads if "lpop" in load.operations]
    hits = sum(operation.hits or 0 for operation in operations)
    total = sum(operation.completed for operation in operations)
    ratio = 1 - hits / total if total else 1.0
    return checks.measured("empty-lists", ratio, f"{ratio:.1%} of lpop found an empty list")
