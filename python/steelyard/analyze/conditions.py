"""What the machine did during one phase: the facts of its telemetry and of the workload's own counters.

In: a recording (or None), the phase, and the run's other records. Out: `Conditions`, which holds the facts by
the names that rules ask for them.

Not here: the facts themselves (``facts``, and the modules of threads, operations, counters, ...).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.analyze.counters.iron_law import Meanwhile
from steelyard.analyze.counters.sides import uses_by_side
from steelyard.analyze.counters.use import CounterUse, counter_use
from steelyard.analyze.facts.cpus import Cpus, observe_cpus
from steelyard.analyze.facts.disks import DiskUse, observe_disks, observe_limited
from steelyard.analyze.facts.foreign import Foreign, observe_foreign
from steelyard.analyze.facts.memory import MemoryUse, observe_memory
from steelyard.analyze.facts.network import NetworkUse, observe_network
from steelyard.analyze.facts.power import Power, observe_power
from steelyard.analyze.facts.pressure import PressureUse, observe_pressure
from steelyard.analyze.facts.reader import Reader
from steelyard.analyze.facts.scheduler import Scheduler, observe_scheduler
from steelyard.analyze.facts.span import Span
from steelyard.analyze.headline import Headline
from steelyard.analyze.load_hosts import load_hosts
from steelyard.analyze.operations.progress import Progress, operations_of_run
from steelyard.analyze.own_cpu import OwnCpu, Usage, own_cpu
from steelyard.analyze.pressure.disk_limits import GroupLimit, LimitedDisk, disk_limits
from steelyard.analyze.pressure.kernel_activity import Activity, observe_activity
from steelyard.analyze.pressure.thread_readings import Looks
from steelyard.analyze.pressure.threads import TargetUse, observe_target, with_exact_use
from steelyard.analyze.pressure.traffic_shaping import Shaper
from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.services import CacheUse, GeneratorUse, observe_cache, observe_generator
from steelyard.analyze.stages import Stages
from steelyard.records import CacheStats, HealthResult, LoadResult, Machine, Run

if TYPE_CHECKING:
    from steelyard.telemetry import Recording


@dataclass(frozen=True)
class Conditions:
    """The facts of one phase by the names that rules ask for; of a None nothing is known."""

    span: Span
    cpus: Cpus = field(default_factory=Cpus)
    scheduler: Scheduler = field(default_factory=Scheduler)
    power: Power = field(default_factory=Power)
    memory: MemoryUse | None = None
    pressure: dict[str, PressureUse] = field(default_factory=dict)
    network: list[NetworkUse] = field(default_factory=list)
    shapers: Sequence[Shaper] = ()
    """Limits set on interfaces."""
    disks: list[DiskUse] = field(default_factory=list)
    limited_disks: list[LimitedDisk] = field(default_factory=list)
    """What processes did on disks whose rate was limited for them alone."""
    activity: Activity = field(default_factory=Activity)
    missing: dict[str, str] = field(default_factory=dict)
    """Source -> why it gave nothing."""
    machine: Machine | None = None
    health: HealthResult | None = None
    """The machine's last good health check, whose figures are limits."""
    has_load: bool = True
    """Whether a load generator drove the run: without one the workload decides itself how busy CPUs are."""
    foreign: Foreign = field(default_factory=Foreign)
    target: TargetUse | None = None
    """What the program's threads did, where a program was watched."""
    own_cpu: OwnCpu | None = None
    """What servers and load used by their own clocks, where the run has it."""
    cache: CacheUse | None = None
    generator: GeneratorUse | None = None
    stages: Stages | None = None
    """Where a server's requests spent their time, by its own clock."""
    progress: Progress | None = None
    """What the application finished, where a source was given."""
    profile: ProfileUse | None = None
    counters: CounterUse | None = None
    """What hardware counters say, where the run's folder was looked at for them; of a run with sides, of its
    servers.
    """
    load_counters: CounterUse | None = None
    """The same of the load."""

    @cached_property
    def usage(self) -> Usage:
        """Who used the CPUs."""
        return Usage(self.cpus, self.target, self.own_cpu, self.foreign)

    @cached_property
    def headline(self) -> Headline:
        """The time of the run's first figure."""
        return Headline(self.has_load, self.usage, self.stages)


def observe(
    recording: "Recording | None",
    begin_ns: int,
    end_ns: int,
    *,
    run: Run,
    machine: Machine | None = None,
    load: LoadResult | None = None,
    cache_stats: Sequence[CacheStats] = (),
    looks: Looks | None = None,
    shapers: Sequence[Shaper] = (),
    set_around: Sequence[GroupLimit] = (),
    profile: ProfileUse | None = None,
    health: HealthResult | None = None,
    stages: Stages | None = None,
    progress: Progress | None = None,
    folder: Path | None = None,
    whole: bool = True,
) -> Conditions:
    """Return what happened between ``begin_ns`` and ``end_ns`` (CLOCK_MONOTONIC).

    ``looks`` are those at a program that was watched, ``shapers`` the limits set on interfaces. To the limits
    on disks that the run set, ``set_around`` adds those that were set around it. Counters are looked for in
    the run's ``folder``, and without one left out. Without ``whole`` what only rules ask for is left out
    (``Conditions.activity``), which takes half of the time.
    """
    span, elsewhere = Span(begin_ns, end_ns), load_hosts(run) != ()
    cpus, power = Cpus(), Power()
    recorded: dict[str, Any] = {}
    if recording is not None:
        reader = Reader(recording, span)
        cpus = observe_cpus(reader, run, is_load_here=run.cpus.load is not None and not elsewhere)
        power = observe_power(reader)
        limits = [*set_around, *disk_limits(run)]
        recorded = _recorded(reader, run, cpus, machine, shapers, limits, whole=whole)
    counted: dict[str, Any] = {}
    if folder is not None:
        meanwhile = Meanwhile(span, cpus, power.frequency_hz)
        counted = _counted(folder, run, meanwhile, recording, machine, progress)
    return Conditions(
        span,
        cpus=cpus,
        power=power,
        shapers=shapers,
        machine=machine,
        health=health,
        has_load=elsewhere or run.cpus.load is not None,
        target=with_exact_use(observe_target(looks), run.metrics),
        cache=observe_cache(cache_stats, begin_ns, end_ns),
        generator=observe_generator(load),
        stages=stages,
        progress=progress,
        profile=profile,
        **recorded,
        **counted,
    )


def _recorded(
    reader: Reader,
    run: Run,
    cpus: Cpus,
    machine: Machine | None,
    shapers: Sequence[Shaper],
    limits: Sequence[GroupLimit],
    *,
    whole: bool,
) -> dict[str, Any]:
    """Return the facts that only a recording has, by their fields."""
    disks = observe_disks(reader)
    load_cpus = None if run.cpus.load is None else len(cpus.load.cpus)
    return {
        "scheduler": observe_scheduler(reader),
        "memory": observe_memory(reader),
        "pressure": observe_pressure(reader),
        "network": observe_network(reader, machine, shapers),
        "disks": disks,
        "limited_disks": observe_limited(reader, limits, disks),
        "missing": dict(reader.missing),
        "own_cpu": own_cpu(run.metrics, len(cpus.server.cpus), load_cpus),
        "foreign": observe_foreign(run, cpus.by_cpu),
        "activity": observe_activity(reader.read, machine=machine) if whole else Activity(),
    }


def _counted(
    folder: Path,
    run: Run,
    meanwhile: Meanwhile,
    recording: "Recording | None",
    machine: Machine | None,
    progress: Progress | None,
) -> dict[str, CounterUse | None]:
    """Return what hardware counters say, by the fields: of servers and load apart where that was counted."""
    done = (progress.operations if progress is not None else operations_of_run(folder, run)).count
    sides = uses_by_side(folder, run, meanwhile, machine=machine, operations=done)
    counters = sides.get("server") or counter_use(
        folder, run, meanwhile, recording=recording, machine=machine, operations=done
    )
    return {"counters": counters, "load_counters": sides.get("load")}
