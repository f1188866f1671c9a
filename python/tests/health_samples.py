"""Health checks made of recorded matrices and invented figures, to test what is drawn and compared."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard._base import schemas_dir
from steelyard.records import (
    BandwidthRow,
    CoreToCore,
    Estimate,
    HealthConditions,
    HealthCpu,
    HealthNode,
    HealthResult,
    LatencyPoint,
    read,
)

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "core2core"


def golden() -> HealthResult:
    """Return the golden record."""
    return read(HealthResult, schemas_dir() / "golden" / "health_result.json")


def estimate(value: float, spread: float = 0.01) -> Estimate:
    """Return an estimate whose interval is ``value`` times 1 ± ``spread``."""
    samples = [value * (1 + spread * step / 3) for step in (-3, -2, -1, 0, 1, 2, 3)]
    return Estimate(median=value, low=samples[0], high=samples[-1], coverage=0.984375, samples=samples)


def recorded_matrix(name: str) -> list[list[float | None]]:
    """Return a recorded core-to-core matrix, mirrored; skip the test where there is none."""
    path = RECORDED / f"{name}.csv"
    if not path.is_file():
        pytest.skip(f"no recorded core-to-core matrices in {RECORDED}")
    rows = [[float(cell) if cell.strip() else None for cell in row] for row in csv.reader(path.open())]
    count = len(rows)
    found: list[list[float | None]] = [[None] * count for _ in range(count)]
    for row in range(count):
        for column in range(row):
            found[row][column] = found[column][row] = rows[row][column]
    return found


def matrix(count: int, time_ns: Callable[[int, int], float]) -> list[list[float | None]]:
    """Return a matrix of ``count`` CPUs whose times are a function of the two."""
    return [
        [None if row == column else time_ns(row, column) for column in range(count)] for row in range(count)
    ]


def with_matrix(
    result: HealthResult, times: list[list[float | None]], place: Callable[[int], HealthCpu] | None = None
) -> HealthResult:
    """Return ``result`` with another core-to-core matrix, of CPUs where ``place`` says."""
    part = CoreToCore(
        cpus=list(range(len(times))),
        repeats=15,
        round_trips=2000,
        median_ns=times,
        low_ns=times,
        high_ns=times,
    )
    cpus = [place(cpu) if place else HealthCpu(id=cpu) for cpu in range(len(times))]
    machine = result.machine.model_copy(update={"cpus": cpus, "usable_cpus": f"0-{len(times) - 1}"})
    return result.model_copy(update={"core_to_core": part, "machine": machine})


def with_nodes(result: HealthResult, nodes: int, *, slow: int | None = None) -> HealthResult:
    """Return ``result`` on a machine of some nodes; the memory of ``slow`` lost a third of its rate."""
    rows = []
    for kernel, best in (
        ("read", 95e9),
        ("write", 52e9),
        ("write_nontemporal", 81e9),
        ("copy", 78e9),
        ("triad", 84e9),
    ):
        for cpus in range(nodes):
            for memory in range(nodes):
                rate = best * (1 if cpus == memory else 0.62 if cpus // 2 == memory // 2 else 0.41)
                rate *= 0.66 if memory == slow else 1
                rows.append(
                    BandwidthRow(
                        cpu_node=cpus,
                        memory_node=memory,
                        kernel=kernel,
                        threads=16,
                        array_bytes=1 << 30,
                        rate_bytes_per_s=estimate(rate),
                    )
                )
    part = result.memory_bandwidth
    assert part is not None
    machine = result.machine.model_copy(
        update={
            "nodes": [
                HealthNode(id=node, cpus=f"{node * 16}-{node * 16 + 15}", memory_bytes=64 << 30, distances=[])
                for node in range(nodes)
            ]
        }
    )
    bandwidth = part.model_copy(update={"binding": "mbind", "rows": rows})
    return result.model_copy(update={"memory_bandwidth": bandwidth, "machine": machine})


def with_curve(result: HealthResult) -> HealthResult:
    """Return ``result`` with a latency curve of a machine left alone."""
    points = []
    for pages, far in (("base", 118.0), ("huge", 92.0)):
        for power in range(12, 28):
            size = 1 << power
            time = (
                1.3 if size <= 32 << 10 else 3.8 if size <= 512 << 10 else 14.0 if size <= 16 << 20 else far
            )
            points.append(LatencyPoint(pages=pages, working_set_bytes=size, latency_ns=estimate(time)))
    part = result.memory_latency
    assert part is not None
    return result.model_copy(update={"memory_latency": part.model_copy(update={"points": points})})


def quiet(result: HealthResult) -> HealthResult:
    """Return ``result`` as measured on a machine that did nothing else."""
    conditions = {
        name: HealthConditions(
            begin_ns=one.begin_ns, end_ns=one.end_ns, foreign_busy_ratio=0.004, steal_ratio=0.0
        )
        for name, one in result.conditions.items()
    }
    return result.model_copy(update={"conditions": conditions})


def shaken(result: HealthResult, seed: int, *, spread: float, latency: float = 1.0) -> HealthResult:
    """Return ``result`` as another check of the same machine would give it.

    Every figure is off by a log-normal factor of deviation ``spread``; latencies beyond the caches are
    ``latency`` times as long.
    """
    draw = random.Random(seed)

    def off(one: Estimate | None, factor: float = 1.0) -> Estimate | None:
        return None if one is None else estimate(one.median * factor * draw.lognormvariate(0.0, spread))

    found = result.model_dump()
    last = max(cache.size_bytes for cache in result.machine.caches)
    for point in found["memory_latency"]["points"]:
        factor = latency if point["working_set_bytes"] > last else 1.0
        point["latency_ns"] = off(Estimate(**point["latency_ns"]), factor)
    for row in found["memory_bandwidth"]["rows"]:
        row["rate_bytes_per_s"] = row["rate_bytes_per_s"] and off(Estimate(**row["rate_bytes_per_s"]))
    for row in found["disk"]["rows"]:
        for name in ("rate_bytes_per_s", "operations_per_s", "latency_p50_ns"):
            row[name] = row[name] and off(Estimate(**row[name]))
    for name in ("rate_bytes_per_s", "round_trip_p50_ns"):
        found["loopback"][name] = off(Estimate(**found["loopback"][name]))
    return HealthResult.model_validate(found)
