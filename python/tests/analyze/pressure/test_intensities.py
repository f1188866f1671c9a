"""Pressure points: the published table, row by row from its evidence, and what is missing."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard.analyze.conditions import Conditions
from steelyard.analyze.facts.cpus import Cpus, CpuSetUse, CpuUse
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.facts.scheduler import Scheduler
from steelyard.analyze.facts.span import Span
from steelyard.analyze.pressure.intensities import (
    THRESHOLDS,
    Intensities,
    intensities,
    network_peaks,
    over_phases,
    pressure_points,
)
from steelyard.analyze.pressure.limits import Limits
from steelyard.analyze.values import Quantity
from steelyard.records import Disk, Interface, Machine
from tests.health_samples import golden, with_nodes
from tests.report.runs import BEGIN, machine_record
from tests.telemetry.recordings import SECOND, table_of, write_recording

GB = 1e9
TEN_GBE = 1.25 * GB
PEAK_DRAM = Limits(dram_bytes_per_s=102.4 * GB, source="8 channels of DDR3-1600")
LOGICAL_CPUS = 32


def q(value: float | None, unit: str = "ratio", missing: str | None = None) -> Quantity:
    return Quantity.of(value, unit, missing)


def server(memory_gb: float = 128) -> Machine:
    """The paper's node: two E5-2690 with SMT, three SATA disks, 10 GbE."""
    machine = machine_record(LOGICAL_CPUS)
    return machine.model_copy(
        update={
            "memory": machine.memory.model_copy(update={"total_bytes": int(memory_gb * GB)}),
            "disks": [Disk(name=name, rotational=True) for name in ("sda", "sdb", "sdc")],
            "interfaces": [Interface(name="eth0", speed_bits_per_s=10_000_000_000)],
        }
    )


def conditions(
    *,
    user: float = 0.0,
    system: float = 0.0,
    wait: float = 0.0,
    used_gb: float = 10.0,
    memory_gb: float = 128.0,
    disk_bytes_per_s: tuple[float, float] = (0.0, 0.0),
    disk_busy: float = 0.0,
    network_bytes_per_s: float = 0.0,
) -> Conditions:
    idle = 1 - user - system - wait
    use = CpuUse({"user": user, "system": system, "iowait": wait, "idle": idle})
    cpus = CpuSetUse("all", tuple(range(LOGICAL_CPUS)), use)
    quiet = q(0.0, "1/s")
    link = NetworkUse(
        "eth0",
        q(network_bytes_per_s, "bytes/s"),
        q(network_bytes_per_s / 50, "bytes/s"),
        quiet,
        quiet,
        quiet,
        q(TEN_GBE, "bytes/s"),
        q(network_bytes_per_s / TEN_GBE),
    )
    disk = DiskUse(
        "sda",
        q(disk_bytes_per_s[0], "bytes/s"),
        q(disk_bytes_per_s[1], "bytes/s"),
        q(disk_busy),
        q(9e6, "ns"),
    )
    memory = MemoryUse(
        q(memory_gb * GB, "bytes"),
        q((memory_gb - used_gb) * GB, "bytes"),
        q(used_gb * GB, "bytes"),
        q(0.0, "bytes"),
    )
    return Conditions(
        Span(0, 1),
        cpus=Cpus(all=cpus, server=cpus),
        memory=memory,
        network=[link],
        disks=[disk],
        scheduler=Scheduler(runnable=q(4.0, "1")),
    )


def of(found: Conditions, dram_ratio: float, memory_gb: float = 128) -> Intensities:
    return intensities(
        found,
        server(memory_gb),
        limits=PEAK_DRAM,
        dram_bytes_per_s=q(dram_ratio * 102.4 * GB, "bytes/s"),
    )


def resources(found: Intensities) -> set[str]:
    """The four resources of the table, of which DRAM and disk have two parts each."""
    return {part.partition("_")[0] for part in pressure_points(found)}


def test_facts_memcache_presses_on_dram_capacity_and_network() -> None:
    # 60 GB of cache in more than 90 % of the memory, 9.3 % of its bandwidth, line rate, no disk.
    found = of(
        conditions(user=0.1, system=0.3, used_gb=60, memory_gb=64, network_bytes_per_s=TEN_GBE), 0.093, 64
    )
    assert resources(found) == {"dram", "network"}
    assert pressure_points(found) == ["network", "dram_capacity"]
    assert found.dram_bandwidth.ratio == pytest.approx(0.093)
    assert not found.dram_bandwidth.is_pressure_point


def test_facts_cassandra_presses_on_the_disk() -> None:
    # Half of the CPU time waits, the rest is split evenly; 50 MB/s of reads; the page cache has most memory.
    found = of(
        conditions(
            user=0.15,
            system=0.15,
            wait=0.5,
            used_gb=20,
            disk_bytes_per_s=(50e6, 0),
            disk_busy=0.98,
            network_bytes_per_s=0.01 * TEN_GBE,
        ),
        0.05,
    )
    assert resources(found) == {"disk"}
    assert "50 MB/s read" in found.disk_bandwidth.evidence
    assert "9 ms an operation" in found.disk_latency.evidence


def test_facts_redis_presses_on_the_network_in_all_five_stages() -> None:
    # lpush keeps 32 GB, lpop takes them out again; four processes of one thread each on 32 CPUs.
    stages = {
        stage: of(conditions(user=0.06, system=0.06, used_gb=used, network_bytes_per_s=0.99 * TEN_GBE), 0.09)
        for stage, used in (("lpush", 36), ("lpop", 10), ("zadd", 8), ("zrange", 8), ("sadd", 20))
    }
    assert all(resources(found) == {"network"} for found in stages.values())
    assert resources(over_phases(stages)) == {"network"}


def test_facts_nutch_indexing_presses_on_cpu_and_disk_over_its_phases() -> None:
    reading = of(
        conditions(user=0.2, system=0.05, wait=0.55, disk_bytes_per_s=(120e6, 0), disk_busy=0.95), 0.1
    )
    reducing = of(
        conditions(user=0.72, system=0.08, wait=0.05, disk_bytes_per_s=(0, 250e6), disk_busy=0.9), 0.15
    )
    found = over_phases({"map": reading, "reduce": reducing})
    assert resources(found) == {"cpu", "disk"}
    assert found.cpu.evidence.startswith("in reduce: 80 % busy")
    assert found.disk_latency.evidence.startswith("in map: ")


def test_facts_data_analytics_presses_on_the_cpu() -> None:
    found = of(
        conditions(user=0.93, system=0.04, used_gb=40, disk_bytes_per_s=(5e6, 5e6), disk_busy=0.1), 0.19
    )
    assert resources(found) == {"cpu"}
    assert "97 % busy" in found.cpu.evidence


def test_without_anything_recorded_every_part_has_its_reason() -> None:
    found = intensities(Conditions(Span(0, 1)), None)
    assert pressure_points(found) == []
    assert {part.part for part in found.parts()} == set(THRESHOLDS)
    assert all(part.ratio is None and part.reason for part in found.parts())


def test_limits_stated_win_over_measured_and_these_over_the_line_rate() -> None:
    seen = conditions(network_bytes_per_s=0.1 * GB, disk_bytes_per_s=(40e6, 0))
    assert intensities(seen, server()).network.ratio == pytest.approx(0.08)
    shaped = intensities(seen, server(), limits=Limits(network_bytes_per_s={"eth0": 0.11 * GB}))
    assert shaped.network.ratio == pytest.approx(1 / 1.1)
    assert shaped.network.limit == "stated, 110 MB/s"
    assert shaped.network.is_pressure_point
    slow = intensities(seen, server(), limits=Limits(disk_bytes_per_s={"sda": 50e6}))
    assert slow.disk_bandwidth.ratio == pytest.approx(0.8)


def golden_day() -> str:
    return datetime.fromtimestamp(golden().clock.realtime_ns / 1e9, tz=UTC).strftime("%Y-%m-%d")


def test_a_health_check_gives_limits_of_memory_disk_and_loopback() -> None:
    health = golden()
    assert health.loopback is not None
    loopback = NetworkUse(
        "lo",
        q(500e6, "bytes/s"),
        q(500e6, "bytes/s"),
        q(0.0),
        q(0.0),
        q(0.0),
        q(None, "bytes/s", "loopback has no line rate"),
        q(None),
    )
    disk = DiskUse("vda", q(373.0577320e6, "bytes/s"), q(0.0, "bytes/s"), q(1.0))
    found = intensities(
        replace(conditions(), network=[loopback], disks=[disk]),
        machine_record(2),
        health=health,
        dram_bytes_per_s=q(10e9, "bytes/s"),
    )
    assert found.network.ratio == pytest.approx(500e6 / health.loopback.rate_bytes_per_s.median)
    assert found.disk_bandwidth.ratio == pytest.approx(0.1)
    # One connection of several: how near it is says nothing about a limit.
    assert not found.network.is_pressure_point
    assert (found.dram_bandwidth.limit or "").endswith(f"/s measured by steelyard health on {golden_day()}")
    # Nodes add up, each with its best kernel and nearest memory.
    two = intensities(
        conditions(), machine_record(2), health=with_nodes(health, 2), dram_bytes_per_s=q(19e9, "bytes/s")
    )
    assert two.dram_bandwidth.ratio == pytest.approx(0.1)


def test_a_disk_without_a_limit_has_no_ratio_however_busy() -> None:
    disk = DiskUse("nvme0n1", q(1e6, "bytes/s"), q(0.0, "bytes/s"), q(1.0))
    found = intensities(replace(conditions(), disks=[disk]), server()).disk_bandwidth
    assert found.ratio is None
    assert not found.is_pressure_point
    assert "steelyard health" in (found.reason or "")
    assert "100 % of the time" in found.evidence


def test_a_quota_is_the_limit_of_the_cpu() -> None:
    machine = server()
    half = machine.model_copy(update={"cpu": machine.cpu.model_copy(update={"quota_cpus": 8.0})})
    found = intensities(conditions(user=0.24), half).cpu
    assert found.ratio == pytest.approx(0.96)
    assert found.limit == "the cgroup's quota of 8 CPUs"


def test_half_utilisation_under_smt_is_a_pressure_point_where_the_uplift_is_known() -> None:
    seen = conditions(user=0.5016)
    unsure, known = intensities(seen, server()), intensities(seen, server(), smt_uplift_ratio=0.03)
    assert not unsure.cpu.is_pressure_point
    assert "50 % to 100 % of what the cores can do" in unsure.cpu.evidence
    assert known.cpu.ratio == pytest.approx(0.97, abs=0.005)
    assert pressure_points(known) == ["cpu"]


def test_tasks_that_wait_for_memory_or_disk_are_pressure_without_cpu_waits() -> None:
    waits = {
        "memory": PressureUse(q(0.3), q(0.1)),
        "io": PressureUse(q(0.8), q(0.7)),
    }
    found = intensities(replace(conditions(), pressure=waits), server())
    assert found.disk_latency.ratio == 0.8
    assert set(pressure_points(found)) == {"dram_capacity", "disk_latency"}
    blind = intensities(replace(conditions(), pressure=waits, memory=None), server())
    assert blind.dram_capacity.ratio is None
    assert blind.dram_capacity.is_pressure_point


def test_peaks_of_a_recording_are_of_single_intervals(tmp_path: Path) -> None:
    steps = [0, 100, 900, 1000, 1100]
    rows = [
        {
            "time_ns": BEGIN + tick * SECOND,
            "interface": "eth0",
            "received_bytes": total,
            "sent_bytes": 2 * tick,
        }
        for tick, total in enumerate(steps)
    ]
    write_recording(tmp_path, {"network": table_of("network", rows)})
    with telemetry.open(tmp_path) as recording:
        peaks = network_peaks(recording, BEGIN, BEGIN + 4 * SECOND)
    assert peaks == {"eth0": pytest.approx(800)}
    found = intensities(conditions(network_bytes_per_s=275), server(), network_peak_bytes_per_s=peaks)
    assert "800 B/s in the busiest interval" in found.network.evidence


def test_no_phases_are_no_intensities() -> None:
    with pytest.raises(ValueError, match="no phases"):
        over_phases({})
