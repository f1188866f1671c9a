"""The metrics by which workloads are compared, declared once: group, unit, kind of distance, what moves each.

In: a metric's name. Out: a `Metric`; a name that is not listed is a metric of its own whose unit says how it
is compared. The groups are those of Figures 4 to 12 of the DCPerf paper (top-down, IPC, memory bandwidth,
L1I misses, CPU use, power, frequency, functions), and what software alone can count.

Not here: the formulas (``distance``), values (``workload``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Kind(StrEnum):
    """How two values are compared."""

    MAGNITUDE = "magnitude"
    """By the logarithm of their ratio."""
    SHARE = "share"
    """By their difference: both are shares of a whole, 0 to 1."""
    MIX = "mix"
    """Shares by name that make up a whole: by their total variation distance."""


@dataclass(frozen=True)
class Metric:
    """A metric of a workload."""

    name: str
    group: str
    unit: str
    title: str
    moved_by: str
    """What of a workload moves it, in words."""
    kind: Kind = Kind.MAGNITUDE
    floor: float = 0.0
    """What is added to both values before their ratio is taken: a magnitude so small that nobody cares."""


THROUGHPUT, TOP_DOWN, IPC, MISSES = "throughput", "top-down", "IPC", "misses"
MEMORY, CPU, FREQUENCY, POWER = "memory", "CPU time", "frequency", "power"
SCHEDULING, CODE, LATENCY, REQUESTS, IO = "scheduling", "code", "latency", "requests", "I/O"
OTHER = "other"
GROUPS = (
    THROUGHPUT, TOP_DOWN, IPC, MISSES, MEMORY, CPU, FREQUENCY, POWER, SCHEDULING, CODE, LATENCY, REQUESTS,
    IO, OTHER,
)  # fmt: skip
"""In the order in which they are shown."""
WHOLES = frozenset({TOP_DOWN, CPU})
"""Groups whose shares make up a whole: compared by total variation, like a mix."""

FUNCTIONS, TAX = "functions", "tax_categories"
REST = "all others"
"""Part of a mix that is not listed by name."""

_RATIO, _PER_KILO = "ratio", "1/1000"


def _shares(group: str, moved_by: str, **titles: str) -> tuple[Metric, ...]:
    return tuple(Metric(name, group, _RATIO, title, moved_by, Kind.SHARE) for name, title in titles.items())


def _misses(moved_by: str, **titles: str) -> tuple[Metric, ...]:
    return tuple(
        Metric(name, MISSES, _PER_KILO, title, moved_by, floor=0.01) for name, title in titles.items()
    )


def _magnitudes(
    group: str, unit: str, moved_by: str, floor: float = 0.0, **titles: str
) -> tuple[Metric, ...]:
    return tuple(Metric(name, group, unit, title, moved_by, floor=floor) for name, title in titles.items())


_METRICS = (
    *_magnitudes(THROUGHPUT, "1/s", "offered rate, connections, threads", throughput_per_s="throughput"),
    *_magnitudes(
        THROUGHPUT,
        "count",
        "work per request: value size, misses, fan-out",
        instructions_per_request="instructions per request",
    ),
    *_magnitudes(
        THROUGHPUT,
        "ns",
        "work per request: value size, misses, fan-out",
        cpu_per_request_ns="CPU time per request",
    ),
    *_shares(
        TOP_DOWN,
        "mix of code and data: size of code, size of data, branches",
        retiring_ratio="retiring",
        bad_speculation_ratio="bad speculation",
        frontend_ratio="frontend bound",
        backend_ratio="backend bound",
    ),
    *_magnitudes(
        IPC, "1", "size of data and code, threads per core", ipc="IPC per thread", core_ipc="IPC per core"
    ),
    *_misses("size of code: kinds of requests, features, fan-out", l1i_mpki="L1I MPKI"),
    *_misses(
        "working set: memory, hit ratio, popularity of keys",
        l1d_mpki="L1D MPKI",
        l2_mpki="L2 MPKI",
        llc_mpki="LLC MPKI",
    ),
    *_misses("pages touched: memory, huge pages", itlb_mpki="ITLB MPKI", dtlb_mpki="DTLB MPKI"),
    *_misses("kinds of requests", branch_mpki="branch MPKI"),
    *_magnitudes(
        MEMORY,
        "bytes/s",
        "working set, value size, throughput",
        floor=1e6,
        memory_bytes_per_s="memory bandwidth",
    ),
    *_magnitudes(MEMORY, "bytes", "memory, number of keys", resident_bytes="resident memory"),
    *_shares(
        CPU,
        "requests per system call: connections, depth; work per request",
        cpu_user_ratio="user",
        cpu_kernel_ratio="kernel",
    ),
    *_shares(CPU, "disk: memory, data set", cpu_iowait_ratio="waiting for I/O"),
    *_shares(CPU, "neighbours on the host, not the workload", cpu_steal_ratio="stolen"),
    *_shares(CPU, "offered rate, threads", cpu_idle_ratio="idle"),
    *_magnitudes(FREQUENCY, "hz", "CPU use, vector instructions, power limit", frequency_hz="core frequency"),
    *_magnitudes(
        POWER,
        "w",
        "CPU use, memory bandwidth",
        package_power_w="package power",
        dram_power_w="memory power",
    ),
    *_shares(POWER, "CPU use", power_of_design_ratio="power of design"),
    *_magnitudes(
        SCHEDULING,
        "1/s",
        "threads, connections, requests in flight",
        floor=1.0,
        context_switches_per_s="context switches",
        page_faults_per_s="page faults",
    ),
    *_magnitudes(
        SCHEDULING,
        "count",
        "threads, connections, requests in flight",
        floor=0.001,
        context_switches_per_request="context switches per request",
    ),
    *_magnitudes(SCHEDULING, "count", "threads", threads_per_core="threads per core"),
    Metric(FUNCTIONS, CODE, _RATIO, "hot functions", "kinds of requests, value size, codecs", Kind.MIX),
    Metric(TAX, CODE, _RATIO, "datacenter tax", "value size, codecs, requests per system call", Kind.MIX),
    *_magnitudes(
        LATENCY,
        "ns",
        "offered rate, connections, depth, delay of misses",
        latency_p50_ns="latency p50",
        latency_p95_ns="latency p95",
        latency_p99_ns="latency p99",
        latency_p999_ns="latency p99.9",
    ),
    *_magnitudes(REQUESTS, "count", "connections, depth", requests_in_flight="requests in flight"),
    *_magnitudes(REQUESTS, "bytes", "size of keys", request_bytes="request size"),
    *_magnitudes(REQUESTS, "bytes", "size of values", response_bytes="response size"),
    *_shares(REQUESTS, "hit ratio, memory, popularity of keys", hit_ratio="hit ratio"),
    *_magnitudes(
        IO,
        "bytes/s",
        "throughput, size of values",
        floor=1e4,
        network_received_bytes_per_s="network received",
        network_sent_bytes_per_s="network sent",
    ),
    *_magnitudes(
        IO,
        "bytes/s",
        "memory, data set, logging",
        floor=1e5,
        disk_read_bytes_per_s="disk read",
        disk_written_bytes_per_s="disk written",
    ),
)

CATALOGUE: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _METRICS})


def metric_of(name: str, unit: str | None = None) -> Metric:
    """Return the metric ``name``; one that is not listed is of the group `OTHER`, and its unit says its kind.

    >>> metric_of("llc_mpki").group, metric_of("compaction_ratio", "ratio").kind.value
    ('misses', 'share')
    """
    known = CATALOGUE.get(name)
    if known is not None:
        return known
    kind = Kind.SHARE if unit == _RATIO else Kind.MAGNITUDE
    return Metric(name, OTHER, unit or "1", name.replace("_", " "), "not known", kind)
