"""Builds run directories as `steelyard run tao` leaves them, with figures that look like a small server's."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.records import (
    Cache,
    CacheStats,
    CacheThread,
    Check,
    Cpu,
    Cpus,
    Disk,
    Interface,
    IntervalRow,
    Kernel,
    LatencySummary,
    Level,
    LoadCpu,
    LoadLatency,
    LoadOperations,
    LoadRequests,
    LoadResult,
    LoadSettings,
    LoadThread,
    Machine,
    Memory,
    Metric,
    NumaNode,
    Orchestrator,
    Parameter,
    Phase,
    Process,
    QuantileValue,
    Run,
    RunStatus,
    Series,
    Tool,
    Verdict,
    write,
)
from tests.telemetry.recordings import CLOCK, SECOND, table_of, write_recording

BEGIN = 1010 * SECOND
WARMUP_S, MEASURE_S, DRAIN_S = 12, 40, 1


def _times(seconds: float, interval_s: float) -> list[int]:
    return [BEGIN + int(i * interval_s * SECOND) for i in range(int(seconds / interval_s) + 1)]


def telemetry_tables(cpus: int, interval_s: float, comm: str, seed: int = 7) -> dict[str, Any]:
    """Return the tables of a recording: even CPUs serve, odd ones load."""
    random = np.random.default_rng(seed)
    times = _times(WARMUP_S + MEASURE_S + DRAIN_S, interval_s)
    step = int(interval_s * SECOND)
    count = len(times)
    cpu_rows = []
    for cpu in range(cpus):
        system = np.clip(
            0.47 + 0.06 * np.sin(np.arange(count) / 9 + cpu) + random.normal(0, 0.02, count), 0, 1
        )
        softirq = np.clip(0.11 + random.normal(0, 0.01, count), 0, 1)
        user = np.clip(0.33 + random.normal(0, 0.02, count), 0, 1 - system - softirq)
        idle = 1 - system - softirq - user
        totals = {
            name: np.cumsum(share * step).astype(np.int64)
            for name, share in (
                ("user_ns", user),
                ("system_ns", system),
                ("softirq_ns", softirq),
                ("idle_ns", idle),
            )
        }
        for i, time in enumerate(times):
            row = {
                "time_ns": time,
                "cpu": cpu,
                "nice_ns": 0,
                "iowait_ns": 0,
                "irq_ns": 0,
                "steal_ns": i * step // 300,
            }
            cpu_rows.append(row | {name: int(values[i]) for name, values in totals.items()})
    cpu_rows.sort(key=lambda row: (row["time_ns"], row["cpu"]))
    seconds = [(time - BEGIN) / SECOND for time in times]
    moved = [int(61e6 * s + 3e6 * np.sin(s)) for s in seconds]
    gib = 1 << 30
    return {
        "cpu": table_of("cpu", cpu_rows),
        "scheduler": table_of(
            "scheduler",
            [
                {
                    "time_ns": t,
                    "context_switches": int(92_000 * s),
                    "forks": i,
                    "runnable": 2 + i % 3,
                    "blocked": 0,
                    "load_1min": 2.0,
                    "load_5min": 1.5,
                    "load_15min": 1.0,
                }
                for i, (t, s) in enumerate(zip(times, seconds, strict=True))
            ],
        ),
        "memory": table_of(
            "memory",
            [
                {
                    "time_ns": t,
                    "total_bytes": 24 * gib,
                    "available_bytes": 21 * gib - int(min(s, 9) * 2e8),
                    "cached_bytes": gib,
                    "anonymous_bytes": gib,
                    "swap_total_bytes": 0,
                    "swap_free_bytes": 0,
                }
                for t, s in zip(times, seconds, strict=True)
            ],
        ),
        "network": table_of(
            "network",
            [
                {
                    "time_ns": t,
                    "interface": name,
                    "received_bytes": m if name == "lo" else 90 * i,
                    "sent_bytes": m if name == "lo" else 60 * i,
                    "received_packets": m // 300,
                    "sent_packets": m // 300,
                    "received_errors": 0,
                    "received_drops": 0,
                    "sent_errors": 0,
                    "sent_drops": 0,
                }
                for i, (t, m) in enumerate(zip(times, moved, strict=True))
                for name in ("lo", "eth0")
            ],
        ),
        "pressure": table_of(
            "pressure",
            [
                {"time_ns": t, "resource": resource, "some_ns": int(s * share * 1e9), "full_ns": 0}
                for t, s in zip(times, seconds, strict=True)
                for resource, share in (("cpu", 0.41), ("memory", 0.0), ("io", 0.013))
            ],
        ),
        "process": table_of(
            "process",
            [
                {
                    "time_ns": t,
                    "pid": pid,
                    "start_ticks": 11,
                    "command": name,
                    "user_ns": int(s * user * 1e9),
                    "system_ns": int(s * system * 1e9),
                    "rss_bytes": rss,
                    "threads": 4,
                }
                for t, s in zip(times, seconds, strict=True)
                for pid, name, user, system, rss in (
                    (501, "steelyard-cache", 0.31, 0.55, gib),
                    (502, comm, 0.3, 0.5, 40 << 20),
                    (9, "kswapd0", 0, 0.0001, 0),
                )
            ],
        ),
    }


def load_result(scale: float = 1.0, seed: int = 7) -> LoadResult:
    random = np.random.default_rng(seed)
    series = []
    for second in range(WARMUP_S + MEASURE_S + DRAIN_S):
        phase = "warmup" if second < WARMUP_S else "measure" if second < WARMUP_S + MEASURE_S else "drain"
        warm = min(1.0, 0.35 + second / 14)
        completed = int(scale * 118_000 * warm * (1 + random.normal(0, 0.012))) if phase != "drain" else 300
        misses = int(completed * (0.1 + 0.5 * max(0, 1 - second / 10)))
        stall = 6.0 if second == 31 else 1.0
        series.append(
            IntervalRow(
                begin_ns=BEGIN + second * SECOND,
                end_ns=BEGIN + (second + 1) * SECOND,
                phase=phase,
                completed=completed,
                errors=0,
                hits=completed - misses,
                misses=misses,
                sent_bytes=completed * 60,
                received_bytes=completed * 380,
                response_p50_ns=int(231_000 / warm * (1 + random.normal(0, 0.02))),
                response_p99_ns=int(1_480_000 / warm * stall * (1 + random.normal(0, 0.05))),
                response_p999_ns=int(2_900_000 / warm * stall * (1 + random.normal(0, 0.08))),
                service_p50_ns=int(225_000 / warm),
                service_p99_ns=int(1_430_000 / warm * (1 + random.normal(0, 0.05))),
                lag_p99_ns=11_000,
            )
        )
    measured = [row for row in series if row.phase == "measure"]
    count = sum(row.completed for row in measured)
    hits = sum(row.hits for row in measured)

    def summary(factor: float) -> LatencySummary:
        quantiles = [0.0, *[1 - 10 ** (-k / 20) for k in range(1, 130)], 1.0]
        values = [
            int(factor * (150_000 + 70_000 * (-np.log10(max(1 - q, 10**-6.6))) ** 2.1)) for q in quantiles
        ]
        points = [QuantileValue(quantile=q, value_ns=v) for q, v in zip(quantiles, values, strict=True)]
        at = {
            name: int(np.interp(q, quantiles, values))
            for name, q in (
                ("p50_ns", 0.5),
                ("p90_ns", 0.9),
                ("p95_ns", 0.95),
                ("p99_ns", 0.99),
                ("p999_ns", 0.999),
                ("p9999_ns", 0.9999),
            )
        }
        return LatencySummary(
            count=count,
            min_ns=values[0],
            max_ns=values[-1],
            mean_ns=240_000.0 * factor,
            stdev_ns=110_000.0 * factor,
            curve=points,
            **at,
        )

    return LoadResult(
        kind="load_result",
        tool=Tool(name="steelyard-load", version="0.1.0"),
        command=["steelyard-load", "--protocol", "memcached"],
        clock=CLOCK,
        settings=LoadSettings(
            protocol="memcached",
            target="127.0.0.1:41211",
            io="uring",
            threads=1,
            connections=32,
            depth=1,
            loop="closed",
            warmup_s=WARMUP_S,
            duration_s=MEASURE_S,
            seed=1,
            keys=2_400_000,
            key_distribution="zipf:0.9",
            key_sizes="tao-keys.json",
            value_sizes="tao-values.json",
            set_ratio=0.0,
        ),
        begin_ns=BEGIN + WARMUP_S * SECOND,
        end_ns=BEGIN + (WARMUP_S + MEASURE_S) * SECOND,
        interrupted=False,
        requests=LoadRequests(
            intended=count,
            sent=count,
            completed=count,
            errors=0,
            errors_by_kind={},
            outstanding_at_end=0,
            unsent=0,
        ),
        operations={"get": LoadOperations(completed=count, hits=hits, misses=count - hits)},
        throughput_per_s=count / MEASURE_S,
        sent_bytes=60 * count,
        received_bytes=380 * count,
        latency=LoadLatency(response=summary(1.03), service=summary(1.0), lag=summary(0.02)),
        series=series,
        threads=[LoadThread(index=0, completed=count, cpu_user_s=9.0, cpu_system_s=25.0, busy_ratio=0.85)],
        cpu=LoadCpu(user_s=9.0, system_s=25.0, requests_per_cpu_s=count / 34.0),
        verdict=Verdict.of([Check(id="errors", level=Level.VALID, claim="no errors")]),
    )


def cache_lines(load: LoadResult) -> list[CacheStats]:
    lines, fast, slow = [], 0, 0
    for index, row in enumerate(load.series):
        fast, slow = fast + row.hits, slow + row.misses
        lines.append(
            CacheStats(
                kind="cache_stats",
                monotonic_ns=row.end_ns,
                requests=fast + slow,
                fast_requests=fast,
                slow_requests=slow,
                get_hits=fast,
                get_misses=slow,
                sets=slow,
                evictions=max(0, slow - 50_000),
                items=900_000,
                stored_bytes=int(0.99 * 2**30),
                memory_limit_bytes=2**30,
                connections=32,
                bytes_read=60 * fast,
                bytes_written=380 * fast,
                errors=0,
                slow_queue_depth=3 + index % 5,
                slow_queue_depth_max=31,
                slow_wait_ns_total=310_000 * slow,
                slow_wait_ns_max=9_000_000,
                slow_service_ns_total=95_000 * slow,
                threads=[
                    CacheThread(
                        name="fast-0",
                        kind="fast",
                        requests=fast,
                        cpu_user_ns=index * 300_000_000,
                        cpu_system_ns=index * 480_000_000,
                    ),
                    CacheThread(
                        name="slow-0",
                        kind="slow",
                        requests=slow,
                        cpu_user_ns=index * 90_000_000,
                        cpu_system_ns=index * 20_000_000,
                    ),
                ],
                cpu_user_ns=index * 390_000_000,
                cpu_system_ns=index * 500_000_000,
                rss_bytes=int(min(1.05, 0.1 + index / 10) * 2**30),
            )
        )
    return lines


def machine_record(cpus: int) -> Machine:
    return Machine(
        kind="machine",
        clock=CLOCK,
        hostname="bench-01",
        cpu=Cpu(
            model="AMD EPYC 9B45",
            vendor="AuthenticAMD",
            architecture="x86_64",
            sockets=1,
            cores=max(1, cpus // 2),
            logical_cpus=cpus,
            usable_cpus=cpus,
            threads_per_core=2,
            caches=[
                Cache(level=1, type="data", size_bytes=48 << 10, instances=cpus // 2 or 1),
                Cache(level=2, type="unified", size_bytes=1 << 20, instances=cpus // 2 or 1),
                Cache(level=3, type="unified", size_bytes=32 << 20, instances=1),
            ],
            mitigations={"spectre_v2": "Mitigation: Enhanced / Automatic IBRS", "mds": "Not affected"},
        ),
        memory=Memory(total_bytes=24 << 30, swap_bytes=0, transparent_huge_pages="madvise", huge_pages=0),
        numa_nodes=[NumaNode(id=0, cpus=f"0-{cpus - 1}", memory_bytes=24 << 30, distances=[10])],
        disks=[Disk(name="vda", size_bytes=200 << 30, rotational=False, scheduler="none")],
        interfaces=[
            Interface(name="lo", mtu_bytes=65536),
            Interface(name="eth0", mtu_bytes=1500, driver="virtio_net"),
        ],
        kernel=Kernel(
            release="6.18.0",
            clocksource="tsc",
            command_line="console=ttyS0 quiet",
            sysctl={"vm.swappiness": "60"},
        ),
        distribution="Debian GNU/Linux 12",
        hypervisor="KVM",
        missing={"cpu.frequency_max_hz": "this guest has no cpufreq"},
    )


def run_record(
    load: LoadResult, folder: Path, *, index: int = 1, count: int = 1, cpus: int = 2, **changes: Any
) -> Run:
    marks = [BEGIN - 2 * SECOND, BEGIN, load.begin_ns, load.end_ns, load.end_ns + DRAIN_S * SECOND]
    names = ["start", "warmup", "measure", "drain"]
    response = load.latency.response
    suspect = Check(
        id="shared-cpus",
        level=Level.SUSPECT,
        value=float(cpus),
        suspect=4.0,
        unit="1",
        claim="The server and the load generator run on sibling threads of one core.",
    )
    fields: dict[str, Any] = {
        "run_id": folder.name,
        "benchmark": "tao",
        "suite": "quick",
        "tier": "quick",
        "series": Series(id="s-1", index=index, count=count),
        "status": RunStatus.COMPLETE,
        "steelyard_version": "0.1.0",
        "command": ["steelyard", "run", "tao", "--tier", "quick", "--set", "depth=1", "--out", "runs"],
        "clock": CLOCK,
        "orchestrator": Orchestrator(pid=2**22 - 1, start_ticks=1),
        "parameters": {
            "memory": Parameter(value=2**30, unit="bytes", source="machine"),
            "fast_threads": Parameter(value=1, source="machine"),
            "keys": Parameter(value=2_400_000, source="machine"),
            "depth": Parameter(value=1, source="set"),
            "key_distribution": Parameter(value="zipf:0.9", source="default"),
        },
        "cpus": Cpus(
            server=",".join(map(str, range(0, cpus, 2))), load=",".join(map(str, range(1, cpus, 2)))
        ),
        "phases": [
            Phase(name=name, begin_ns=begin, end_ns=end)
            for name, begin, end in zip(names, *zip(*itertools.pairwise(marks), strict=True), strict=True)
        ],
        "processes": [
            Process(
                name="server",
                command=["steelyard-cache", "--listen", "127.0.0.1:0"],
                pid=501,
                exit_code=0,
                log="logs/server.log",
            ),
            Process(name="load", command=["steelyard-load"], pid=502, exit_code=0, log="logs/load.log"),
            Process(
                name="probe",
                command=["steelyard-probe", "record"],
                pid=503,
                exit_code=0,
                log="logs/probe.log",
            ),
        ],
        "metrics": {
            "requests_per_s": Metric(value=load.throughput_per_s, unit="1/s", better="higher"),
            "hit_ratio": Metric(value=0.9003, unit="ratio", better="higher"),
            "response_p50_ns": Metric(value=float(response.p50_ns or 0), unit="ns", better="lower"),
            "response_p99_ns": Metric(value=float(response.p99_ns or 0), unit="ns", better="lower"),
            "response_p999_ns": Metric(value=float(response.p999_ns or 0), unit="ns", better="lower"),
            "server_cpu_user_ratio": Metric(value=0.331, unit="ratio"),
            "server_cpu_system_ratio": Metric(value=0.58, unit="ratio"),
            "network_bytes_per_s": Metric(value=61.2e6, unit="bytes/s"),
            "power_w": Metric(value=None, unit="w", missing="no power source on this machine"),
        },
        "verdict": Verdict.of(
            [
                Check(
                    id="errors",
                    level=Level.VALID,
                    claim="No request failed.",
                    value=0.0,
                    suspect=0.00001,
                    invalid=0.001,
                    unit="ratio",
                ),
                suspect,
                Check(
                    id="generator-bound",
                    level=Level.VALID,
                    claim="The busiest generator thread has time to spare.",
                    value=0.85,
                    suspect=0.9,
                    unit="ratio",
                ),
            ]
        ),
        "hooks": {"probe": {"sources": 6, "cost": {"cpu_per_tick_ns": 712_000.0}}},
        "artifacts": {"load": "load.json", "cache_stats": "cache-stats.jsonl", "machine": "machine.json"},
    }
    return Run(kind="run", **(fields | changes))


def write_run(
    folder: Path,
    *,
    cpus: int = 2,
    interval_s: float = 0.5,
    comm: str = "steelyard-load",
    scale: float = 1.0,
    index: int = 1,
    count: int = 1,
    without: tuple[str, ...] = (),
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """Write a whole run; ``without`` leaves parts out: telemetry, load, cache_stats, machine."""
    folder.mkdir(parents=True)
    load = load_result(scale, seed=index)
    write(
        run_record(load, folder, index=index, count=count, cpus=cpus, **(changes or {})), folder / "run.json"
    )
    if "load" not in without:
        write(load, folder / "load.json")
    if "machine" not in without:
        write(machine_record(cpus), folder / "machine.json")
    if "cache_stats" not in without:
        lines = [json.dumps(json.loads(line.model_dump_json())) for line in cache_lines(load)]
        (folder / "cache-stats.jsonl").write_text("\n".join(lines) + "\n")
    if "telemetry" not in without:
        write_recording(
            folder / "telemetry",
            telemetry_tables(cpus, interval_s, comm),
            absent={
                "power": "no /sys/class/powercap here: a guest sees no RAPL",
                "cpufreq": "no /sys/devices/system/cpu/cpu0/cpufreq",
            },
            interval_ns=int(interval_s * SECOND),
        )
    return folder
