"""Everything that one run's folder says about what the workload did and what held it back.

In: a run's directory and records. Out: `Conditions` with all that was recorded, main figures by name, and the
`PressurePoint`s: measured intensities of the machine's resources, and parts that findings name.

Not here: the findings themselves (``rules``), the intensities (``pressure.intensities``).
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import SteelyardError
from steelyard.analyze.conditions import Conditions, observe
from steelyard.analyze.counters.figures import memory_traffic
from steelyard.analyze.operations.efficiency import efficiency_of
from steelyard.analyze.operations.progress import observe_progress
from steelyard.analyze.pressure.intensities import Pressure, intensities
from steelyard.analyze.pressure.thread_readings import FOLDER, Looks, read_looks
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
    return observe(
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
        health=read_health(folder),
        stages=_stages(folder, begin_ns, end_ns),
        progress=observe_progress(folder, run, recording, whole=whole),
        folder=folder,
        whole=whole,
    )


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
    use, target = conditions.cpus.all.use, conditions.target
    missing = conditions.cpus.all.missing
    machine = "machine_" if target is not None else ""

    def cpu(value: float | None, unit: str = "ratio") -> Quantity:
        return Quantity.of(value, unit, missing or "the CPUs were idle")

    used = None if use is None else use.own_ratio * len(conditions.cpus.all.cpus)
    values = {
        f"{machine}cpus_used": cpu(used, "1"),
        f"{machine}cpu_busy_ratio": cpu(use.busy_ratio if use else None),
        f"{machine}cpu_kernel_ratio": cpu(use.kernel_ratio if use else None),
        f"{machine}cpu_iowait_ratio": cpu(use.modes.get("iowait") if use else None),
        f"{machine}cpu_stolen_ratio": cpu(use.modes.get("steal") if use else None),
        f"{machine}context_switches_per_s": conditions.scheduler.context_switches_per_s,
        f"{machine}tasks_waiting_per_cpu": conditions.scheduler.waiting_per_cpu,
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
    if conditions.progress is None or cost is None:
        return {}
    return {
        "operations_per_s": conditions.progress.operations.per_s,
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


def measured_intensities(conditions: Conditions) -> dict[str, Pressure]:
    """Return how hard the machine's resources were pressed, by part."""
    pressures = intensities(
        conditions,
        conditions.machine,
        health=conditions.health,
        dram_bytes_per_s=memory_traffic(conditions.counters),
    )
    return {each.part: each for each in pressures.parts()}
