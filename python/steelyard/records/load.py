"""What a load generator offered and what came back. The same shape as ``crates/record/src/load.rs``."""

import math
from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Clock, Count, Level, Value, Verdict


class Tool(Value):
    """A program."""

    name: str = Field(description="Its name")
    version: str = Field(description="Its version")


class LoadSettings(Value):
    """What was asked of the generator."""

    protocol: str = Field(description="Codec, such as `memcached`")
    target: str = Field(description="Address and port")
    tls: bool = Field(default=False, description="Whether the protocol is wrapped in TLS; absent before 1.2")
    io: str = Field(
        description="I/O method: `uring` or `epoll`; `unknown` when a host was lost before it reported"
    )
    threads: Count = Field(description="Generator threads")
    connections: Count = Field(description="Connections over all threads")
    depth: Count = Field(description="Requests in flight per connection at most")
    loop: str = Field(description="`closed` or `open`")
    arrival: str | None = Field(
        default=None,
        description="`constant`, `poisson`, `ramp:FROM-TO`, `step:R1,R2,...` or `recorded:FILE`, "
        "null in a closed loop",
    )
    rate_per_s: float | None = Field(
        default=None,
        description="Offered rate, its mean where the arrival brings its own, null in a closed loop",
    )
    warmup_s: float = Field(description="Length of the warm-up, s; with `hold` its minimum")
    duration_s: float = Field(description="Length of the measure phase, s")
    seed: Count = Field(description="Seed of every random choice")
    keys: Count = Field(description="Number of keys")
    mix: str | None = Field(
        default=None,
        description="The mix file, or the shipped mix, that defines the requests; null where flags do; "
        "absent before 1.2",
    )
    trace: str | None = Field(
        default=None,
        description="The trace of requests; null without one; absent before 1.2",
    )
    key_distribution: str = Field(description="The law, such as `uniform` or `zipf:EXPONENT`")
    key_sizes: str = Field(description="Key sizes: a number of bytes or a file's name")
    value_sizes: str = Field(description="Value sizes: a number of bytes or a file's name")
    set_ratio: float = Field(description="Share of requests that store")


class LoadRequests(Value):
    """Requests of the measure phase.

    ``intended`` is ``sent`` plus ``unsent``; ``sent`` is ``completed`` plus ``errors`` plus
    ``outstanding_at_end``.
    """

    intended: Count = Field(description="Whose intended time fell in the phase")
    sent: Count = Field(description="Put on the wire; once, however often sent again")
    completed: Count = Field(description="Answered without an error")
    errors: Count = Field(description="Answered with an error, or lost with their connection")
    errors_by_kind: dict[str, Count] = Field(description="Errors by kind")
    answers_by_class: dict[str, Count] | None = Field(
        default=None,
        description="Answers, those with an error among them, by the class that the protocol puts them in, "
        "such as `2xx` for HTTP; null for protocols without classes; absent before 1.2",
    )
    outstanding_at_end: Count = Field(
        description="Sent and not yet answered when the phase and its drain had ended"
    )
    unsent: Count = Field(
        description="Intended but never sent, because too many were outstanding or no connection had room"
    )
    completed_after: Count | None = Field(
        default=None,
        description="Of `completed`, those that were answered after the phase; absent before 1.5",
    )
    completed_from_before: Count | None = Field(
        default=None,
        description="Not among the others: answered without an error in the phase, due before it. "
        "`throughput_per_s` times the length of the phase is `completed` - `completed_after` + "
        "`completed_from_before`; absent before 1.5",
    )
    errors_after: Count | None = Field(
        default=None, description="Of `errors`, those that came after the phase; absent before 1.5"
    )
    errors_from_before: Count | None = Field(
        default=None,
        description="Not among the others: failed in the phase, due before it; absent before 1.5",
    )


class QuantileValue(Value):
    """A point of a percentile curve."""

    quantile: float = Field(description="Quantile, 0 to 1")
    value_ns: Count = Field(description="Value at it, ns")


class LatencySummary(Value):
    """A distribution in figures; all null when it is empty."""

    count: Count = Field(description="Values counted")
    min_ns: Count | None = Field(default=None, description="Smallest, ns")
    max_ns: Count | None = Field(default=None, description="Largest, ns")
    mean_ns: float | None = Field(default=None, description="Arithmetic mean, ns")
    stdev_ns: float | None = Field(default=None, description="Standard deviation, ns")
    p50_ns: Count | None = Field(default=None, description="Median, ns")
    p90_ns: Count | None = Field(default=None, description="90th percentile, ns")
    p95_ns: Count | None = Field(default=None, description="95th percentile, ns")
    p99_ns: Count | None = Field(default=None, description="99th percentile, ns")
    p999_ns: Count | None = Field(default=None, description="99.9th percentile, ns")
    p9999_ns: Count | None = Field(default=None, description="99.99th percentile, ns")
    curve: list[QuantileValue] = Field(description="The whole curve, for drawing")


class LoadOperations(Value):
    """Counts of one operation."""

    completed: Count = Field(description="Answered without an error")
    hits: Count | None = Field(default=None, description="Keys found, null for operations that find nothing")
    misses: Count | None = Field(
        default=None, description="Keys not found, null for operations that find nothing"
    )
    response: LatencySummary | None = Field(
        default=None,
        description="Response time of the answers without an error, from the intended time; "
        "absent before 1.1",
    )


class LoadLatency(Value):
    """Distributions of the measure phase, ns."""

    response: LatencySummary = Field(description="From the intended time to the answer")
    service: LatencySummary = Field(description="From the send to the answer")
    lag: LatencySummary = Field(
        description="From the intended time to the send, without `queued`: what the generator itself took to "
        "notice that the request was due, and to send it once a connection had room"
    )
    queued: LatencySummary | None = Field(
        default=None,
        description="How long requests that had been noticed to be due waited for a connection with room, "
        "0 for those that did not have to; absent before 1.1",
    )


class IntervalRow(Value):
    """One second of load, by the time of each event."""

    begin_ns: Count = Field(description="Start of the interval")
    end_ns: Count = Field(description="End of the interval")
    phase: str = Field(description="`warmup`, `measure` or `drain`")
    completed: Count = Field(description="Answers without an error")
    errors: Count = Field(description="Errors")
    hits: Count = Field(description="Keys found")
    misses: Count = Field(description="Keys not found")
    sent_bytes: Count = Field(description="Bytes written to the server")
    received_bytes: Count = Field(description="Bytes read from the server")
    response_p50_ns: Count | None = Field(
        default=None, description="Median response time, null without answers"
    )
    response_p99_ns: Count | None = Field(
        default=None, description="99th percentile of response time, null without answers"
    )
    response_p999_ns: Count | None = Field(
        default=None, description="99.9th percentile of response time, null without answers"
    )
    service_p50_ns: Count | None = Field(
        default=None, description="Median service time, null without answers"
    )
    service_p99_ns: Count | None = Field(
        default=None, description="99th percentile of service time, null without answers"
    )
    lag_p99_ns: Count | None = Field(
        default=None, description="99th percentile of schedule lag, null without sends"
    )
    lag_p999_ns: Count | None = Field(
        default=None,
        description="99.9th percentile of schedule lag, null without sends; absent before 1.1",
    )


class LoadThread(Value):
    """What one generator thread did in the measure phase."""

    index: Count = Field(description="Number, from 0")
    completed: Count = Field(description="Requests it completed in the phase, whenever due")
    cpu_user_s: float = Field(description="User CPU time, s")
    cpu_system_s: float = Field(description="System CPU time, s")
    busy_ratio: float = Field(description="CPU time over wall time, 0 to 1")


class LoadCpu(Value):
    """CPU used by the generator in the measure phase."""

    user_s: float = Field(description="User CPU time, s")
    system_s: float = Field(description="System CPU time, s")
    requests_per_cpu_s: float | None = Field(
        default=None,
        description="Completed requests per second of the generator's CPU time, null without CPU time",
    )


class LoadHost(Value):
    """One process of a load that several made."""

    name: str = Field(description="As `--host` named it")
    began_after_ns: Count = Field(
        description="How long after the first process it began to measure, by the clock of the one that"
        " commanded, ns"
    )
    connections: Count = Field(description="Its connections")
    offered_per_s: float | None = Field(
        default=None, description="Requests per second of its schedule, null in a closed loop"
    )
    throughput_per_s: float = Field(
        description="Requests per second that were completed in the phase, whenever due"
    )
    completed: Count = Field(description="Answered without an error")
    errors: Count = Field(description="Failed")
    response_p50_ns: Count | None = Field(
        default=None, description="Median response time, null without answers"
    )
    response_p99_ns: Count | None = Field(
        default=None, description="99th percentile of response time, null without answers"
    )
    busy_ratio: float = Field(description="The busiest generator thread's share of its CPU")
    verdict: Level = Field(description="Its verdict about its own part")
    lost: str | None = Field(
        default=None,
        description="Why it was lost before the end, null where it was not. When one is lost, the record"
        " holds what every host had reported until then: without operations, threads and kinds of errors;"
        " `busy_ratio` is a host's mean over its threads. Absent before 1.4.",
    )


class LoadResult(Record):
    """What a load generator offered and what came back: ``load.json``.

    Everything but ``series`` covers the measure phase only. A request belongs to the phase in which it was
    due: ``requests``, ``operations``, ``latency`` and ``offered_per_s`` are of the requests that were due in
    it, whenever they ended. ``throughput_per_s``, bytes, ``threads`` and ``cpu`` are of what happened in it,
    whenever due.
    """

    KIND: ClassVar[str] = "load_result"

    schema_version: str = Field(default="1.5", pattern=r"^\d+\.\d+$")
    tool: Tool = Field(description="The program that wrote it")
    command: list[str] = Field(description="Its command line")
    clock: Clock = Field(description="Both clocks at the start")
    settings: LoadSettings = Field(description="Settings")
    begin_ns: Count = Field(description="Start of the measure phase")
    end_ns: Count = Field(description="End of the measure phase")
    interrupted: bool = Field(description="Whether the load was stopped before its time")
    requests: LoadRequests = Field(description="Counts over the measure phase")
    operations: dict[str, LoadOperations] = Field(
        description="Counts by operation, `get` and `set` for a cache"
    )
    throughput_per_s: float = Field(
        description="Requests per second that were completed in the phase, whenever due; errors excluded"
    )
    offered_per_s: float | None = Field(
        default=None, description="Requests per second of the schedule, null in a closed loop"
    )
    achieved_ratio: float | None = Field(
        default=None,
        description="Completed in the phase over due in it, `throughput_per_s` over `offered_per_s`; "
        "null in a closed loop",
    )
    sent_bytes: Count = Field(description="Bytes written to the server in the phase, for every request")
    received_bytes: Count = Field(description="Bytes read from the server in the phase, for every request")
    latency: LoadLatency = Field(description="Distributions")
    series: list[IntervalRow] = Field(description="One row a second, warm-up and drain included")
    threads: list[LoadThread] = Field(description="One row a thread")
    cpu: LoadCpu = Field(description="CPU used by the generator")
    verdict: Verdict = Field(description="Whether the generator vouches for the result")
    hosts: list[LoadHost] | None = Field(
        default=None,
        description="One row a host, null when one process made the load; counts and latencies above are of"
        " all of them. Absent before 1.3.",
    )

    @property
    def completed_in_phase(self) -> int:
        """Return how many requests were completed in the phase, whenever due: ``throughput_per_s``."""
        counts = self.requests
        if counts.completed_after is not None and counts.completed_from_before is not None:
            return max(0, counts.completed - counts.completed_after + counts.completed_from_before)
        completed = self.throughput_per_s * (self.end_ns - self.begin_ns) / 1e9
        return round(completed) if math.isfinite(completed) else 0
