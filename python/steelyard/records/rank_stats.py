"""Cumulative counters of a process of the ranking service at one moment.

The same shape as ``crates/record/src/rank_stats.rs``.
"""

from typing import Annotated, ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Count, Value


class RankStage(Value):
    """Time that requests spent in one stage."""

    name: str = Field(description="Name, such as `features`")
    wall_ns_total: Count = Field(description="By the clock, summed over requests")
    cpu_ns_total: Count = Field(
        description="CPU time of the thread that worked on the request, summed over requests"
    )


class RankThread(Value):
    """What one thread of the service did."""

    name: str = Field(description="Name, such as `worker-0`")
    kind: str = Field(description="`io`, `worker`, `fan-out` or `backend`")
    requests: Count | None = Field(
        default=None, description="Requests it worked on; null for threads that pass them on"
    )
    cpu_user_ns: Count | None = Field(
        default=None, description="Its user CPU time, null when it could not be read"
    )
    cpu_system_ns: Count | None = Field(
        default=None, description="Its system CPU time, null when it could not be read"
    )


class RankStats(Record):
    """Cumulative counters of a process of the ranking service: one line of ``rank-stats.jsonl``."""

    KIND: ClassVar[str] = "rank_stats"

    monotonic_ns: Count = Field(description="When the counters were read")
    role: str = Field(description="`root` or `leaf`")
    instance: Count = Field(description="Which of several processes of this role it is, from 0")
    instances: Count = Field(description="How many there are")
    work: dict[str, str] = Field(
        description="Work of a request: the settings that the checksum depends on, by flag"
    )
    feature_code_bytes: Count | None = Field(
        default=None,
        description="Machine code of the hot feature extractors; null for a leaf, which has none",
    )
    requests: Count = Field(description="Requests answered with a result")
    refused_by_kind: dict[str, Count] = Field(description="Requests answered with an exception, by its kind")
    checksum_sum: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] = Field(
        description="Sum of the checksums of all results, modulo 2^64, in 16 hexadecimal digits"
    )
    service_ns_total: Count = Field(
        description="Time from a request's arrival until its answer was handed to the I/O thread, summed"
    )
    stages: list[RankStage] = Field(
        description="Time in each stage of the requests answered with a result, in the order of the stages"
    )
    queue_depth: Count = Field(description="Requests waiting for a worker now")
    queue_depth_max: Count = Field(description="The most that ever waited")
    backend_depth: Count | None = Field(
        default=None, description="Requests in the simulated backend now; null where there is none"
    )
    connections: Count = Field(description="Open connections now")
    connections_total: Count = Field(description="Connections ever accepted")
    closed_malformed: Count = Field(description="Connections closed because they sent no valid call")
    closed_stalled: Count = Field(description="Connections closed because they stalled within a message")
    bytes_read: Count = Field(description="Bytes received from clients")
    bytes_written: Count = Field(description="Bytes sent to clients")
    threads: list[RankThread] = Field(description="One row a thread")
    cpu_user_ns: Count = Field(description="User CPU time of the process")
    cpu_system_ns: Count = Field(description="System CPU time of the process")
    rss_bytes: Count | None = Field(
        default=None, description="Resident set size, null when it could not be read"
    )
