"""What a machine can do at most, as far as it was measured or is stated.

In: a health check of the machine, and what somebody states (`Limits`), such as the rate of a link that is
limited on the way. Out: `Limit`s with their source. What is stated wins over what was measured, and that over
what the hardware says of itself.

Not here: how near a run came to them (``intensities``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.network import NetworkUse
from steelyard.records import HealthResult, Machine, Run


@dataclass(frozen=True, slots=True)
class Limit:
    """The most there is of something: None with the reason in ``missing``."""

    value: float | None
    source: str | None
    missing: str | None = None


@dataclass(frozen=True)
class Limits:
    """Limits that somebody states, and who says so."""

    dram_bytes_per_s: float | None = None
    """Memory bandwidth of the machine, reads and writes together."""
    network_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    """Interface -> rate in one direction."""
    disk_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    """Device -> rate, reads and writes together."""
    source: str = "stated"
    sources: Mapping[str, str] = field(default_factory=dict)
    """Interface -> who says so, where that is another one."""

    def source_of(self, interface: str) -> str:
        """Return who states the limit of an interface."""
        return self.sources.get(interface, self.source)


def with_set(stated: Limits | None, run: Run) -> Limits:
    """Return the limits of a run: the one that a hook set on an interface held whatever is stated of it.

    Limits on disks hold for the run's processes alone: ``disk_limits`` has them.
    """
    stated = stated or Limits()
    limit = run.hooks.get("network-limit")
    link, rate = (
        (limit.get("interface"), limit.get("rate_bytes_per_s")) if isinstance(limit, dict) else (None, None)
    )
    if not (isinstance(link, str) and isinstance(rate, int | float) and rate > 0):
        return stated
    return replace(
        stated,
        network_bytes_per_s={**stated.network_bytes_per_s, link: float(rate)},
        sources={**stated.sources, link: "set for the run by tc"},
    )


def source_text(health: HealthResult) -> str:
    """Return whose figures those of a health check are."""
    day = datetime.fromtimestamp(health.clock.realtime_ns / 1e9, tz=UTC).date()
    return f"measured by steelyard health on {day}"


def dram_bandwidth(stated: Limits, health: HealthResult | None) -> Limit:
    """Return the machine's memory bandwidth: each node's CPUs with their nearest memory, all nodes together.

    The best kernel of the health check counts. It asks for bytes as STREAM does, so that what plain stores
    read first is not in it, while a memory controller's counters have it.
    """
    if stated.dram_bytes_per_s is not None:
        return Limit(stated.dram_bytes_per_s, stated.source)
    if health is None or health.memory_bandwidth is None:
        return Limit(None, None, "no measured memory bandwidth: run `steelyard health`")
    best: dict[int, float] = {}
    for row in health.memory_bandwidth.rows:
        if row.rate_bytes_per_s is not None:
            best[row.cpu_node] = max(best.get(row.cpu_node, 0.0), row.rate_bytes_per_s.median)
    if not best:
        return Limit(None, None, "the health check has no memory bandwidth")
    return Limit(sum(best.values()), source_text(health))


def disk_bandwidth(disk: DiskUse, stated: Limits, health: HealthResult | None) -> tuple[Limit, Limit]:
    """Return the rates at which a disk reads and writes sequentially."""
    if disk.device in stated.disk_bytes_per_s:
        limit = Limit(stated.disk_bytes_per_s[disk.device], stated.source)
        return limit, limit
    if health is None or health.disk is None:
        missing = Limit(None, None, "no measured disk bandwidth: run `steelyard health`")
        return missing, missing
    measured = (health.disk.device or "").rsplit("/", 1)[-1]
    # The check names a partition or its device, and telemetry has both.
    if not measured or not (disk.device.startswith(measured) or measured.startswith(disk.device)):
        missing = Limit(None, None, f"the health check measured {measured or 'another device'}")
        return missing, missing
    rates = {row.pattern: row.rate_bytes_per_s for row in health.disk.rows}
    limits = []
    for pattern in ("sequential_read", "sequential_write"):
        rate = rates.get(pattern)
        limits.append(
            Limit(rate.median, source_text(health))
            if rate is not None and rate.median > 0
            else Limit(None, None, f"the health check has no {pattern.replace('_', ' ')}")
        )
    return limits[0], limits[1]


def measured_disk_latency_ns(device: str, health: HealthResult | None) -> float | None:
    """Return the median time of one random read with nothing else under way, None where not measured."""
    if health is None or health.disk is None:
        return None
    measured = (health.disk.device or "").rsplit("/", 1)[-1]
    if not measured or not (device.startswith(measured) or measured.startswith(device)):
        return None
    times = [
        row.latency_p50_ns for row in health.disk.rows if row.pattern == "random_read" and row.depth == 1
    ]
    return times[0].median if times and times[0] is not None else None


def network(link: NetworkUse, stated: Limits, health: HealthResult | None) -> Limit:
    """Return the rate of an interface in one direction."""
    if link.interface in stated.network_bytes_per_s:
        return Limit(stated.network_bytes_per_s[link.interface], stated.source_of(link.interface))
    if link.interface == "lo" and health is not None and health.loopback is not None:
        # One connection was measured; several on more CPUs can carry more.
        return Limit(health.loopback.rate_bytes_per_s.median, f"one connection, {source_text(health)}")
    if link.line_bytes_per_s.value:
        return Limit(link.line_bytes_per_s.value, "line rate")
    return Limit(None, None, link.line_bytes_per_s.missing or "the driver reports no line rate")


def cpus(machine: Machine | None, read: int) -> Limit:
    """Return how many CPUs' time there is: those that were read, or what the cgroup's quota allows of
    them."""
    quota = machine.cpu.quota_cpus if machine is not None else None
    if quota is not None and quota < read:
        return Limit(quota, f"the cgroup's quota of {quota:g} CPUs")
    return Limit(float(read), f"{read} logical CPUs" if read != 1 else "1 logical CPU")
