"""Everything that one run's folder says about what the workload did and what held it back.

In: a run's directory and records. Out: `Conditions` with all that was recorded, main figures by name, and the
`PressurePoint`s: measured intensities of the machine's resources, and parts that findings name.

Not here: the findings themselves (``rules``), the intensities (``pressure.intensities``).
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard._base import SteelyardError
from steelyard.analyze.conditions import Conditions, observe
from steelyard.analyze.counters.figures import dram_bytes_per_s
from steelyard.analyze.counters.sides import uses_by_side
from steelyard.analyze.counters.use import CounterUse, counter_use
from steelyard.analyze.operations.efficiency import efficiency_of
from steelyard.analyze.operations.operations import FOLDER as OPERATIONS
from steelyard.analyze.operations.operations import operations_of_run
from steelyard.analyze.operations.stalls import Stalls, stalls_of
from steelyard.analyze.operations.telemetry_correlation import correlates_of, cpu_use
from steelyard.analyze.pressure.intensities import Pressure, intensities
from steelyard.analyze.pressure.thread_readings import FOLDER, Looks, read_looks
from steelyard.analyze.pressure.threads import RUSAGE, TargetUse
from steelyard.analyze.pressure.traffic_shaping import Shaper, read_shapers
from steelyard.analyze.profiles.figures import ReadProfile
from steelyard.analyze.rules.findings import Finding
from steelyard.analyze.run_files import HEALTH
from steelyard.analyze.stages import Stages, observe_stages
from steelyard.analyze.values import Quantity
from steelyard.records import (
    CacheStats,
    HealthResult,
    LoadResult,
    Machine,
    Metric,
    RankStats,
    Run,
    read,
    read_lines,
)

if TYPE_CHECKING:
    from steelyard.telemetry import Recording

SHAPING = "shaping.json"
BETTER = {
    "operations_per_s": "higher",
    "operations_per_machine_cpu_s": "higher",
    "operations_per_program_cpu_s": "higher",
    "operations_per_joule": "higher",
    "network_bytes_per_operation": "lower",
    "disk_bytes_per_operation": "lower",
}
"""Which of the figures are better higher or lower; the others describe."""
_READINGS_LEAST = 5


@dataclass(frozen=True)
class PressurePoint:
    """A part that holds the workload back.

    ``ratio`` is its use over its limit where both are measured. ``sure`` is False where it was concluded from
    signs. ``finding`` is the id of the finding that says so, None for a measured intensity of the machine
    alone, which may be somebody else's doing.
    """

    part: str
    ratio: float | None
    why: str
    sure: bool = True
    finding: str | None = None


def observe_folder(
    folder: Path,
    run: Run,
    recording: "Recording | None",
    *,
    machine: Machine | None = None,
    load: LoadResult | None = None,
    cache_stats: Sequence[CacheStats] = (),
    profile: ReadProfile | None = None,
    whole: bool = True,
) -> Conditions:
    """Return what the measure phase of the run in ``folder`` was like; ``whole``: see `observe`."""
    measure = next((phase for phase in run.phases if phase.name == "measure"), None)
    begin_ns = measure.begin_ns if measure else run.clock.monotonic_ns
    end_ns = measure.end_ns if measure and measure.end_ns else begin_ns + 1
    limits: list[Shaper] = []
    if (folder / SHAPING).is_file():
        limits, _ = read_shapers(folder / SHAPING)
    conditions = observe(
        recording,
        begin_ns,
        end_ns,
        run=run,
        machine=machine,
        load=load,
        cache_stats=cache_stats,
        looks=_looks(folder, begin_ns, end_ns),
        shapers=limits,
        profile=profile.use if profile is not None else None,
        whole=whole,
    )
    conditions = replace(conditions, health=read_health(folder), stages=_stages(folder, begin_ns, end_ns))
    conditions = replace(conditions, target=with_exact_use(conditions.target, run.metrics))
    conditions = _with_operations(conditions, folder, run, recording, whole=whole)
    done = conditions.operations or operations_of_run(folder, run)
    sides = uses_by_side(folder, run, conditions, machine=machine, operations=done.count)
    counters = sides.get("server") or counter_use(
        folder, run, conditions, recording=recording, machine=machine, operations=done.count
    )
    return replace(conditions, counters=counters, load_counters=sides.get("load"))


def with_exact_use(target: TargetUse | None, metrics: Mapping[str, Metric]) -> TargetUse | None:
    """Take what a command used from what the kernel counted of all its processes (getrusage).

    Looks miss what a process did before the first and after the last look at it, and processes that were not
    there at any look; with the command's own end, none is missed.
    """
    spent, elapsed = (metrics.get(name) for name in ("cpu_time_s", "elapsed_s"))
    if target is None or spent is None or elapsed is None or spent.value is None or not elapsed.value:
        return target
    cpus = spent.value / elapsed.value
    seen = (target.running_ratio or 0.0) * target.threads
    exact = replace(target, cpus=Quantity(cpus, "1"), cpus_source=RUSAGE, unseen_cpus=max(0.0, cpus - seen))
    if exact.mostly_unseen:
        missing = "most of its CPU time is that of processes which ended before a second look"
        exact = replace(exact, busiest_wanted_ratio=Quantity(None, "ratio", missing), busiest_thread=None)
    if "minor_faults" not in metrics:
        return exact
    counted: dict[str, Any] = {
        f"{name}_per_s": Quantity((metrics[name].value or 0.0) / elapsed.value, "1/s")
        for name in ("minor_faults", "major_faults")
    }
    for name in ("read_bytes", "written_bytes"):
        # Without an account of its disk traffic the kernel counts 0; then the looks have no figure either.
        if name in metrics and getattr(target, f"{name}_per_s").value is not None:
            rate = (metrics[name].value or 0.0) / elapsed.value
            counted[f"{name}_per_s"] = Quantity(rate, "bytes/s")
    if (kernel := metrics.get("kernel_ratio")) is not None and kernel.value is not None:
        counted["kernel_ratio"] = Quantity(kernel.value, "ratio")
    return replace(exact, **counted, is_counted=True)


def _stages(folder: Path, begin_ns: int, end_ns: int) -> Stages | None:
    """Return where requests spent their time, of a server that times its stages."""

    def lines(role: str) -> list[list[RankStats]]:
        series = []
        for path in sorted(folder.glob(f"{role}-stats*.jsonl")):
            with contextlib.suppress(SteelyardError):
                series.append(list(read_lines(RankStats, path)))
        return series

    return observe_stages(lines("root"), lines("leaf"), begin_ns, end_ns)


def read_health(folder: Path) -> HealthResult | None:
    """Return the health check that a run keeps of its machine, None where it has none that can be read."""
    if not (folder / HEALTH).is_file():
        return None
    try:
        return read(HealthResult, folder / HEALTH)
    except SteelyardError:
        return None


def _looks(folder: Path, begin_ns: int, end_ns: int) -> Looks | None:
    if not (folder / FOLDER).is_dir():
        return None
    return _read_looks(folder.absolute(), _stamp_of(folder / FOLDER), begin_ns, end_ns)


def _stamp_of(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what distinguishes one state of a folder's files from another."""
    states = []
    for each in sorted(folder.iterdir()):
        # What cannot be looked at, such as a link to itself, cannot be read either, which the reading says.
        with contextlib.suppress(OSError):
            state = each.stat()
            states.append((each.name, state.st_size, state.st_mtime_ns))
    return tuple(states)


@lru_cache(maxsize=2)
def _read_looks(
    folder: Path, stamp: tuple[tuple[str, int, int], ...], begin_ns: int, end_ns: int
) -> Looks | None:
    """Return the looks at a program; ``stamp`` makes another answer of other files."""
    from steelyard import telemetry

    # A recording that is damaged costs what it says; the report tells that there is no target.
    with contextlib.suppress(SteelyardError), telemetry.open(folder / FOLDER) as recording:
        return read_looks(recording, begin_ns, end_ns)
    return None


def _with_operations(
    conditions: Conditions, folder: Path, run: Run, recording: "Recording | None", *, whole: bool
) -> Conditions:
    """Add what the application finished, where sources were given; with ``whole`` what goes with it, too."""
    if not (folder / OPERATIONS).is_dir():
        return conditions
    operations = operations_of_run(folder, run)
    conditions = replace(conditions, operations=operations)
    main = operations.main
    if not whole or main is None or main.total is None:
        return conditions
    begin_ns, end_ns = operations.begin_ns, operations.end_ns
    stalls = stalls_of(main.total, begin_ns, end_ns)
    return replace(
        conditions,
        correlates=correlates_of(operations.timeline, recording, begin_ns, end_ns),
        stalls=stalls,
        stall_cpus=_stall_cpus(recording, stalls, begin_ns, end_ns),
    )


def _stall_cpus(
    recording: "Recording | None", stalls: Stalls | None, begin_ns: int, end_ns: int
) -> tuple[float, float] | None:
    if recording is None or stalls is None:
        return None
    use = cpu_use(recording, begin_ns, end_ns)
    if use is None:
        return None
    inside = stalls.contains(use.time_ns)
    known = np.isfinite(use.value)
    if min(int((inside & known).sum()), int((~inside & known).sum())) < _READINGS_LEAST:
        return None
    return float(use.value[inside & known].mean()), float(use.value[~inside & known].mean())


def observe_run(folder: Path, run: Run, machine: Machine | None) -> Conditions:
    """Return what `figures` need of a run whose telemetry is complete, without it where there is none."""
    from steelyard import telemetry

    try:
        with telemetry.open(folder) as recording:
            return observe_folder(folder, run, recording, machine=machine, whole=False)
    except SteelyardError:
        return observe_folder(folder, run, None, machine=machine)


def figures(conditions: Conditions) -> dict[str, Quantity]:
    """Return the main figures of a characterization by the names that metrics of a run have.

    Where a program was watched, figures are the program's, and those of the machine have ``machine_`` before
    their names.
    """
    use, target = conditions.all_cpus.use, conditions.target
    missing = conditions.all_cpus.missing
    machine = "machine_" if target is not None else ""

    def cpu(value: float | None, unit: str = "ratio") -> Quantity:
        return Quantity.of(value, unit, missing or "the CPUs were idle")

    used = None if use is None else use.own_ratio * len(conditions.all_cpus.cpus)
    values = {
        f"{machine}cpus_used": cpu(used, "1"),
        f"{machine}cpu_busy_ratio": cpu(use.busy_ratio if use else None),
        f"{machine}cpu_kernel_ratio": cpu(use.kernel_ratio if use else None),
        f"{machine}cpu_iowait_ratio": cpu(use.modes.get("iowait") if use else None),
        f"{machine}cpu_stolen_ratio": cpu(use.modes.get("steal") if use else None),
        f"{machine}context_switches_per_s": conditions.context_switches_per_s,
        f"{machine}tasks_waiting_per_cpu": conditions.waiting_per_cpu,
    }
    if target is not None:
        values |= {
            "cpus_used": target.cpus,
            "kernel_ratio": target.kernel_ratio,
            "times_on_cpu_per_s": target.switches_per_s,
            "threads": Quantity(target.threads, "1"),
            "resident_bytes": target.rss_high_bytes,
            "tasks_waiting": target.cpu_wait,
            "lock_wait_ratio": Quantity(target.wait("lock"), "ratio"),
            "disk_wait_ratio": Quantity(target.wait("disk"), "ratio"),
            "network_wait_ratio": Quantity(target.wait("network"), "ratio"),
            "disk_read_bytes_per_s": target.read_bytes_per_s,
            "disk_written_bytes_per_s": target.written_bytes_per_s,
        }
    return {**_operations(conditions), **values}


def _operations(conditions: Conditions) -> dict[str, Quantity]:
    cost = efficiency_of(conditions)
    if conditions.operations is None or cost is None:
        return {}
    return {
        "operations_per_s": conditions.operations.per_s,
        "operations_per_machine_cpu_s": cost.per_cpu_s,
        "operations_per_program_cpu_s": cost.per_program_cpu_s,
        "operations_per_joule": cost.per_joule,
        "network_bytes_per_operation": cost.network_bytes,
        "disk_bytes_per_operation": cost.disk_bytes,
    }


def pressure_points(conditions: Conditions, findings: Sequence[Finding]) -> list[PressurePoint]:
    """Return what holds the workload back by its own doing: first the parts that findings name."""
    points: dict[str, PressurePoint] = {}
    measured = measured_intensities(conditions)
    for finding in findings:
        if finding.part is None or finding.part in points or finding.blame != "own":
            continue
        known = measured.get(finding.part)
        ratio = known.ratio if known else None
        if known is not None and not known.is_pressure_point:
            # Of all CPUs, or of all memory: not of the one CPU, node or limit that the finding is about.
            ratio = None
        points[finding.part] = PressurePoint(finding.part, ratio, finding.claim, finding.sure, finding.id)
    for part, known in measured.items():
        if known.is_pressure_point and part not in points:
            points[part] = PressurePoint(part, known.ratio, known.evidence)
    return list(points.values())


def _memory_traffic(use: CounterUse) -> Quantity:
    """Return bytes a second of the memory controllers, by formulas or as perf scaled them."""
    metric = use.metrics.get("memory_bytes_per_s")
    if metric is not None and metric.value is not None:
        return Quantity(metric.value, "bytes/s")
    return dram_bytes_per_s(use)


def measured_intensities(conditions: Conditions) -> dict[str, Pressure]:
    """Return how hard the machine's resources were pressed, by part."""
    use = conditions.counters
    pressures = intensities(
        conditions,
        conditions.machine,
        health=conditions.health,
        dram_bytes_per_s=None if use is None or use.source is None else _memory_traffic(use),
    )
    return {each.part: each for each in pressures.parts()}
