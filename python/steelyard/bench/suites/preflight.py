"""What a suite will take, before anything starts: time, memory, disk of each member, and what will not fit.

In: the plans of a request, earlier runs below the folder of runs. Out: a `Preflight`.

The time is that of the last runs with the same settings on this machine, where there are some, else the sum
of the phases whose lengths the settings give: a lower bound where a member also fills, imports or generates.

Not here: what a run takes by its settings (``footprint``), drawing (``report.bench.preflight``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

from steelyard._base import SteelyardError
from steelyard._base.documents import printed
from steelyard.bench import runs as run_files
from steelyard.bench.footprint import free_bytes
from steelyard.bench.launch import SEED, Plan
from steelyard.bench.limits.memory import available_memory_bytes
from steelyard.bench.manifest import MANIFEST
from steelyard.bench.parameters import Settings
from steelyard.bench.stack.recipe import missing
from steelyard.machine.compare import other_machine
from steelyard.records import Machine, Run, RunStatus, read

PAST_RUNS = 5
"""How many earlier runs give the time: the newest."""
_PORTS = ("port",)
"""Settings beside the seed that change no run's length."""


@dataclass(frozen=True, slots=True)
class MemberPreflight:
    """What one run of a member will take."""

    benchmark: str
    """Which benchmark."""
    time_least_s: float | None
    """Time at the least, None where nothing says how long it takes."""
    time_most_s: float | None
    """Time at the most, None where it is not known."""
    past_runs: int
    """Earlier runs with the same settings on this machine whose median time this is; 0: by the settings."""
    untimed: str
    """What comes on top of the time by the settings; empty for little, or with earlier runs."""
    memory_bytes: int | None
    """Memory, None where the benchmark does not state it."""
    disk_bytes: int | None
    """Disk space, None where the benchmark does not state it."""
    stays_bytes: int
    """Disk space of what is kept for later runs, part of ``disk_bytes``."""
    not_installed: list[str]
    """Software that is not here."""
    misfit: str | None
    """Why it will not be run, None where it will."""
    hint: str | None
    """What to do about that, None for nothing."""
    advice: str
    """What this machine has that the settings leave unused; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """What a suite or benchmark will take: `steelyard run --preflight --json`."""

    KIND: ClassVar[str] = "preflight"

    name: str
    """Suite or benchmark."""
    tier: str
    """How long its runs are."""
    repeats: int
    """Runs of each member."""
    memory_bytes: int
    """Memory that this machine, or its cgroup, has."""
    memory_is_limited: bool
    """Whether that is a cgroup's limit."""
    free_disk_bytes: int
    """Free disk space for runs."""
    folder: str
    """Where it is free: the folder of runs."""
    members: list[MemberPreflight]
    """Members in the order in which they run."""

    @property
    def ready(self) -> list[MemberPreflight]:
        """Return the members that will be run."""
        return [member for member in self.members if member.misfit is None]

    @property
    @printed
    def time_least_s(self) -> float | None:
        """Return the time of all runs at the least, None where it is not known of any."""
        known = [member.time_least_s for member in self.ready if member.time_least_s is not None]
        return self.repeats * sum(known) if known else None

    @property
    @printed
    def time_most_s(self) -> float | None:
        """Return the time at the most, None where a member has no such bound."""
        times = [member.time_most_s for member in self.ready]
        if not times or any(time is None for time in times) or any(each.untimed for each in self.ready):
            return None
        return self.repeats * sum(time for time in times if time is not None)

    @property
    @printed
    def stays_bytes(self) -> int:
        """Return the disk space of what all members keep for later runs."""
        return sum(member.stays_bytes for member in self.ready)

    @property
    @printed
    def disk_most_bytes(self) -> int:
        """Return the disk space that is taken at once at most: by a member, and what those before keep."""
        kept = most = 0
        for member in self.ready:
            most = max(most, kept + (member.disk_bytes or 0))
            kept += member.stays_bytes
        return most


def look(name: str, repeats: int, plans: Sequence[Plan], machine: Machine, out: Path) -> Preflight:
    """Return what ``plans`` will take on ``machine``, with runs below ``out``."""
    return Preflight(
        name=name,
        tier=plans[0].tier,
        repeats=repeats,
        memory_bytes=available_memory_bytes(machine),
        memory_is_limited=available_memory_bytes(machine) < machine.memory.total_bytes,
        free_disk_bytes=free_bytes(out),
        folder=str(out),
        members=[_member(each, machine, out) for each in plans],
    )


def _member(plan: Plan, machine: Machine, out: Path) -> MemberPreflight:
    past = past_times_s(plan.declared.name, plan.tier, plan.settings, machine, out)
    measured_s = median(past) if past else None
    recipe = plan.declared.recipe
    return MemberPreflight(
        benchmark=plan.declared.name,
        time_least_s=plan.footprint.least_s if measured_s is None else measured_s,
        time_most_s=plan.footprint.most_s if measured_s is None else measured_s,
        past_runs=len(past),
        untimed="" if past else plan.footprint.untimed,
        memory_bytes=plan.footprint.memory_bytes,
        disk_bytes=plan.footprint.disk_bytes,
        stays_bytes=sum(disk.size_bytes for disk in plan.footprint.stays),
        not_installed=[] if recipe is None else missing(recipe),
        misfit=None if plan.lacks is None else plan.lacks.message.removeprefix(f"{plan.declared.name}: "),
        hint=None if plan.lacks is None else plan.lacks.hint,
        advice=plan.footprint.advice,
    )


def past_times_s(benchmark: str, tier: str, settings: Settings, machine: Machine, out: Path) -> list[float]:
    """Return how long the last runs of this kind took on ``machine``, the newest first."""
    label = f"-{benchmark}-{tier}-"
    folders = [
        path.parent
        for pattern in (f"*{label}*/{MANIFEST}", f"*/*{label}*/{MANIFEST}")
        for path in out.glob(pattern)
    ]
    times: list[float] = []
    for folder in sorted(folders, key=lambda path: path.name, reverse=True):
        if len(times) == PAST_RUNS:
            break
        try:
            run = run_files.load(folder)
            is_alike = run.status is RunStatus.COMPLETE and _is_alike(run, benchmark, settings)
            if is_alike and other_machine(read(Machine, folder / "machine.json"), machine) is None:
                times.append(time_s(run))
        except SteelyardError:
            # What cannot be read says nothing about times.
            continue
    return times


def _is_alike(run: Run, benchmark: str, settings: Mapping[str, object]) -> bool:
    return run.benchmark == benchmark and all(
        name in run.parameters and run.parameters[name].value == value
        for name, value in settings.items()
        if name != SEED and name not in _PORTS
    )


def time_s(run: Run) -> float:
    """Return how long a run took, from its first phase to the end of its last, s."""
    ends = [phase.end_ns for phase in run.phases if phase.end_ns is not None]
    return (max(ends) - run.phases[0].begin_ns) / 1e9 if ends else 0.0
