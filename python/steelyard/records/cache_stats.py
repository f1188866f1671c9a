"""Cumulative counters of a cache server at one moment.

The same shape as ``crates/record/src/cache_stats.rs``.
"""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.values import Count, Value


class CacheThread(Value):
    """What one thread of the server did."""

    name: str = Field(description="Name, such as `fast-0`")
    kind: str = Field(description="`fast` or `slow`")
    requests: Count = Field(description="Requests it answered")
    cpu_user_ns: Count | None = Field(
        default=None, description="Its user CPU time, null when it could not be read"
    )
    cpu_system_ns: Count | None = Field(
        default=None, description="Its system CPU time, null when it could not be read"
    )


class CacheStats(Record):
    """Cumulative counters of a cache server at one moment: one line of ``cache-stats.jsonl``."""

    KIND: ClassVar[str] = "cache_stats"

    monotonic_ns: Count = Field(description="When the counters were read")
    requests: Count = Field(description="Commands answered")
    fast_requests: Count = Field(
        description="Keys of get commands that a fast thread answered from the cache"
    )
    slow_requests: Count = Field(description="Keys of get commands handled by a slow thread")
    get_hits: Count = Field(description="Keys found, as memcached counts them")
    get_misses: Count = Field(description="Keys not found, as memcached counts them")
    sets: Count = Field(description="Storage commands")
    evictions: Count = Field(description="Items that were removed to make room")
    items: Count = Field(description="Items stored now")
    stored_bytes: Count = Field(description="Bytes of keys, values and their bookkeeping stored now")
    memory_limit_bytes: Count = Field(description="The bound on `stored_bytes`")
    connections: Count = Field(description="Open connections now")
    bytes_read: Count = Field(description="Bytes received from clients")
    bytes_written: Count = Field(description="Bytes sent to clients")
    errors: Count = Field(description="Commands answered with an error line")
    slow_queue_depth: Count = Field(description="Misses waiting for a slow thread now")
    slow_queue_depth_max: Count = Field(description="The most that ever waited")
    slow_wait_ns_total: Count = Field(description="Time misses spent waiting for a slow thread, summed")
    slow_wait_ns_max: Count = Field(description="The longest such wait")
    slow_service_ns_total: Count = Field(description="Time slow threads spent on misses, summed")
    threads: list[CacheThread] = Field(description="One row a thread")
    cpu_user_ns: Count = Field(description="User CPU time of the process")
    cpu_system_ns: Count = Field(description="System CPU time of the process")
    rss_bytes: Count | None = Field(
        default=None, description="Resident set size, null when it could not be read"
    )
