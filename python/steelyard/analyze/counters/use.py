"""What counters say of one run: the iron law, where issue slots go, and how much of the machine was used.

In: a run's folder (copies of ``perf stat`` files, the recording's counters), what the machine did meanwhile,
and the operations that the application finished. Out: `CounterUse`.

Time. Counts of the recording are taken over the measure phase. A ``perf stat`` file has a time of its own:
counts over counts are free of it (IPC, shares of slots, instructions per operation by their rates); rates
are over what perf says it lasted. Operations are divided only into counts of the same time: a file that was
there before the run is of another one.

Invariants: functions of the folder only; each term is a value or the reason why there is none; what a
reader must know before believing a figure stands in ``cautions``.

Not here: the law (``iron_law``), the tree (``topdown``), metrics of single events (``metrics``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import SteelyardError
from steelyard.analyze.counters.choice import SCOPES, TOP_DOWN, MachineFacts, choose, definition_of, facts_of
from steelyard.analyze.counters.definitions import Definition, definitions
from steelyard.analyze.counters.events import (
    CLOCKS,
    CORE_CYCLES,
    CYCLES,
    INSTRUCTIONS,
    EventCounts,
    counts_of,
    counts_of_gains,
    whole_of,
)
from steelyard.analyze.counters.iron_law import Counts, IronLaw, Meanwhile, counts_of_phase, iron_law
from steelyard.analyze.counters.metrics import MetricValue, metrics_of, top_down_of
from steelyard.analyze.counters.smt import Bounds, UtilisationSplit, split_utilisation, used_capacity
from steelyard.analyze.counters.topdown import TopDown, top_down
from steelyard.analyze.counters.topdown_choice import choose_model
from steelyard.analyze.run_files import COUNTERS, RECORDED
from steelyard.analyze.run_files import PERF_STAT_FOLDER as FOLDER
from steelyard.analyze.run_files import PERF_STAT_HOOK as HOOK
from steelyard.analyze.values import Quantity
from steelyard.records import Machine, Run
from steelyard.telemetry.counters import CounterSeries, counter_series, gains
from steelyard.telemetry.perf_stat.output import PerfStat, read_perf_stat
from steelyard.telemetry.perf_stat.rows import PerfMetric

if TYPE_CHECKING:
    # For types only: it loads the query engine.
    from steelyard.telemetry import Recording

GENERIC = "generic"
SAME_TIME_RATIO = 0.1
"""perf starts before its command and ends after it: times nearer than this are the same."""
_WHOLE_RATIO = 0.99
NOTHING = "no counters were read: give a perf stat file (--perf-stat), see steelyard doctor for those of here"


@dataclass(frozen=True)
class CounterUse:
    """What was concluded from one source of counts, or, without one, from none."""

    law: IronLaw
    counts: Counts
    source: str | None = None
    """Where the counts are from."""
    scope: str | None = None
    """``process``, ``system``, ``cpu`` or ``cgroup``."""
    duration_s: float | None = None
    """Time that the counts are of."""
    operations: Quantity = field(default_factory=lambda: Quantity(None, "1", "not known"))
    """Operations that the application finished in the measure phase."""
    events: EventCounts = field(default_factory=lambda: EventCounts({}, {}, {}))
    series: CounterSeries | None = None
    perf_metrics: tuple[PerfMetric, ...] = ()
    """Metrics that perf worked out itself."""
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    """What the processor's definition makes of the counts, values and withheld ones."""
    definition: str | None = None
    """The definition, and why it is that one."""
    top_down: TopDown | None = None
    top_down_missing: str | None = None
    split: UtilisationSplit | None = None
    split_missing: str | None = None
    capacity: Bounds = field(default_factory=lambda: Bounds(None, None, "ratio", "not known"))
    """Part of what the cores can do at the frequency that they had."""
    cautions: tuple[str, ...] = ()
    missing: str | None = None
    """Why there are no counts."""

    @property
    def is_of_cpus(self) -> bool:
        """Whether CPU time is that of whole CPUs, whoever ran on them, and not that of a program."""
        return self.source is None or self.scope not in ("process", "cgroup")


@dataclass(frozen=True)
class Source:
    """Counts as they were found, of which `use_of` makes what they say."""

    name: str
    series: CounterSeries
    events: EventCounts
    duration_s: float | None
    perf_metrics: tuple[PerfMetric, ...] = ()
    cpu_s: float | None = None
    is_of_run: bool = True
    """Whether they are of the run's own time."""
    cautions: tuple[str, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Metric -> why its events were not even planned."""


def counter_use(
    folder: Path,
    run: Run,
    meanwhile: Meanwhile,
    *,
    recording: Recording | None = None,
    machine: Machine | None = None,
    operations: Quantity | None = None,
) -> CounterUse:
    """Return what the counters of the run in ``folder`` say. Raises nothing: what fails is reported."""
    operations = operations or Quantity(None, "1", "the application's operations are not known")
    source, reasons = _source(folder, run, meanwhile, recording, machine)
    if source is None:
        return _use_without(meanwhile, machine, operations, "; ".join(reasons) or NOTHING)
    return use_of(source, meanwhile, run, machine=machine, operations=operations, reasons=reasons)


def use_of(
    source: Source,
    meanwhile: Meanwhile,
    run: Run,
    *,
    machine: Machine | None,
    operations: Quantity,
    reasons: Sequence[str] = (),
) -> CounterUse:
    """Return what counts say; ``reasons`` are why others than these were not taken."""
    cautions = [*source.cautions, *reasons]
    counts, notes = _counts(source, meanwhile, machine, operations, run)
    cautions += notes
    metrics, definition = metrics_of_series(source.series, machine, counts.duration_s)
    metrics = {
        name: replace(each, missing=source.withheld.get(name, each.missing)) if each.missing else each
        for name, each in metrics.items()
    }
    tree, tree_missing = _tree(source, machine, counts.duration_s)
    if tree is None:
        tree_missing = source.withheld.get(TOP_DOWN, tree_missing)
    return CounterUse(
        law=iron_law(counts),
        counts=counts,
        source=source.name,
        scope=source.series.scope,
        duration_s=counts.duration_s,
        events=source.events,
        series=source.series,
        perf_metrics=source.perf_metrics,
        metrics=metrics,
        definition=definition,
        top_down=tree,
        top_down_missing=tree_missing,
        cautions=tuple(cautions),
        **_shared(meanwhile, machine, operations),
    )


def _shared(meanwhile: Meanwhile, machine: Machine | None, operations: Quantity) -> dict[str, Any]:
    split, capacity, split_missing = _used(meanwhile, machine)
    return {
        "operations": operations,
        "split": split,
        "split_missing": split_missing,
        "capacity": capacity,
    }


def _use_without(
    meanwhile: Meanwhile, machine: Machine | None, operations: Quantity, missing: str
) -> CounterUse:
    counts = _without_counters(meanwhile, machine, operations, missing)
    shared = _shared(meanwhile, machine, operations)
    return CounterUse(iron_law(counts), counts, missing=missing, top_down_missing=missing, **shared)


def _source(
    folder: Path, run: Run, meanwhile: Meanwhile, recording: Recording | None, machine: Machine | None
) -> tuple[Source | None, list[str]]:
    """Return the counts to take: a file that was given before what the recorder counted."""
    reasons: list[str] = []
    files = run.hooks.get(HOOK)
    for name, about in (files if isinstance(files, dict) else {}).items():
        if not isinstance(about, dict):
            continue
        if isinstance(about.get("missing"), str):
            reasons.append(f"{name}: {about['missing']}")
            continue
        try:
            # Files of a run are named by the run alone: nothing may lead out of its folder.
            read = read_perf_stat(folder / FOLDER / Path(str(about.get("file", ""))).name)
        except SteelyardError as error:
            reasons.append(error.message.replace(f"{folder / FOLDER}/", ""))
            continue
        source = _of_file(read, name, about, run)
        if isinstance(source, str):
            reasons.append(f"{name}: {source}")
        else:
            return source, reasons
    live = _live(folder, meanwhile, run, recording, machine)
    if isinstance(live, Source):
        return live, reasons
    return None, [*reasons, *([live] if live is not None else [])]


def _live(
    folder: Path, meanwhile: Meanwhile, run: Run, recording: Recording | None, machine: Machine | None
) -> Source | str | None:
    """Return what was counted beside the run, in a recording of its own or in the telemetry's, or why not."""
    about = run.hooks.get(COUNTERS)
    missing = about.get("missing") if isinstance(about, dict) else None
    if isinstance(missing, str):
        return missing
    if not (folder / RECORDED).is_dir():
        return _of_recording(recording, meanwhile, run, machine) if recording is not None else None
    # Read when needed: it loads the query engine.
    from steelyard.telemetry import open_recording

    try:
        with open_recording(folder / RECORDED) as counted:
            return _of_recording(counted, meanwhile, run, machine)
    except SteelyardError as error:
        return error.message.replace(f"{folder}/", "")


def _of_file(read: PerfStat, name: str, about: Mapping[str, Any], run: Run) -> Source | str:
    series = whole_of(read.series, cgroup=_cgroup(run))
    if isinstance(series, str):
        if read.metrics and not read.series:
            return "it has metrics that perf worked out and no counts (--metric-only)"
        return series
    events = counts_of(series)
    duration_s = read.duration_s
    if duration_s is None and events.values.get("duration_time"):
        duration_s = events.values["duration_time"] / 1e9
    cautions = []
    if about.get("is_of_run") is False:
        cautions.append(
            f"{name} was written before the run: its counts are of another time than the run's telemetry"
        )
    if read.runs > 1:
        cautions.append(f"counts are means of {read.runs} repeats (perf stat -r)")
    if read.outputs > 1:
        cautions.append(outputs_of(read, name))
    if read.unread:
        cautions.append(f"{read.unread} lines of {name} could not be understood")
    perf_metrics = tuple(metric for metric in read.metrics if metric.time_s is None and not metric.summary)
    return Source(
        f"perf stat file {name}",
        series,
        events,
        duration_s,
        perf_metrics,
        read.cpu_s,
        about.get("is_of_run") is not False,
        tuple(cautions),
    )


def outputs_of(read: PerfStat, name: str) -> str:
    """Return what became of several outputs in one file."""
    head = f"{name} holds {read.outputs} outputs of perf stat"
    if read.left_out is not None:
        return f"{head}: the last one is taken, since {read.left_out}"
    if not read.repeated:
        return f"{head} of different events, which are joined"
    more = f" and {len(read.repeated) - 3} more" if len(read.repeated) > 3 else ""
    return f"{head}, which are joined: counts of {', '.join(read.repeated[:3])}{more} are means"


def _cgroup(run: Run) -> str | None:
    command = run.command
    return command[command.index("--cgroup") + 1] if "--cgroup" in command[:-1] else None


def _of_recording(
    recording: Recording, meanwhile: Meanwhile, run: Run, machine: Machine | None
) -> Source | str:
    why = recording.missing("counters")
    if why is not None:
        return NOTHING if why == "this source was not recorded" else why
    recorded = counter_series(recording, meanwhile.span.begin_ns, meanwhile.span.end_ns)
    return source_of(recorded, meanwhile, machine, cgroup=_cgroup(run))


def source_of(
    recorded: Sequence[CounterSeries],
    meanwhile: Meanwhile,
    machine: Machine | None,
    *,
    cgroup: str | None = None,
) -> Source | str:
    """Return counts of a recording as one source, or why they are none."""
    series = whole_of(recorded, cgroup=cgroup)
    if isinstance(series, str):
        return series
    # CPUs that were summed count as a system of that many; what they cannot count is that of one of them.
    scope = recorded[0].scope if recorded else series.scope
    withheld = choose(machine, scope).missing if machine and scope in SCOPES else {}
    if "ipc" in withheld:
        # What could not be planned is not in the recording; the machine tells why.
        unplanned = dict.fromkeys((*INSTRUCTIONS, *CYCLES), withheld["ipc"])
        series = replace(series, missing={**unplanned, **series.missing})
    # Counts, metrics and their time are of the same windows.
    series = series.within(meanwhile.span.begin_ns, meanwhile.span.end_ns)
    gained = gains(series)
    return Source("steelyard-probe", series, counts_of_gains(gained), gained.duration_s, withheld=withheld)


def _counts(
    source: Source, meanwhile: Meanwhile, machine: Machine | None, operations: Quantity, run: Run
) -> tuple[Counts, list[str]]:
    cautions: list[str] = []
    phase_s = meanwhile.span.seconds
    duration_s = source.duration_s
    if duration_s is None and source.is_of_run:
        duration_s = phase_s
        cautions.append("the counts have no duration; the measure phase's is used")
    events = source.events
    instructions_name, instructions = events.first(INSTRUCTIONS)
    cycles_name, cycles = events.first(CYCLES)
    missing = {
        name: quantity.missing
        for name, quantity in (("instructions", instructions), ("cycles", cycles))
        if quantity.missing
    }
    pair = (instructions_name, cycles_name)
    user = [name in events.user_only for name in pair if name is not None]
    if any(user):
        if len(user) == 2 and not all(user):
            # One of user mode over one of both would be no IPC of anything.
            missing["instructions"] = "instructions and clocks were counted in different modes"
            instructions = Quantity(None, "1", missing["instructions"])
        else:
            cautions.append("counted in user mode only (:u): the kernel's instructions are not in it")
    ratios = [events.coverage[name] for name in pair if name is not None and name in events.coverage]
    if ratios and min(ratios) < _WHOLE_RATIO:
        cautions.append(
            "events took turns on the counters: instructions and clocks were counted in"
            f" {min(ratios) * 100:.0f} % of the time, and are scaled"
        )
    done, same = _operations(source, operations, phase_s, duration_s)
    cautions += same
    _, core = events.first(CORE_CYCLES)
    base = counts_of_phase(
        meanwhile,
        done.value,
        machine=machine,
        counters={"instructions": instructions.value, "cycles": cycles.value, "core_cycles": core.value},
        missing={**missing, **({"operations": done.missing} if done.missing else {})},
    )
    cpu_s, cpu_missing = _cpu_s(source, base, run, phase_s, duration_s)
    at_most = base.core_cycles_at_most
    if at_most is not None and duration_s is not None and phase_s > 0:
        at_most *= duration_s / phase_s
    reasons = dict(base.missing)
    if duration_s is None:
        reasons["duration_s"] = "the counts have no duration and are not from the run's time"
    if cpu_s is None:
        reasons["cpu_s"] = cpu_missing
    counts = replace(base, duration_s=duration_s, cpu_s=cpu_s, core_cycles_at_most=at_most, missing=reasons)
    return counts, cautions


def _operations(
    source: Source, operations: Quantity, phase_s: float, duration_s: float | None
) -> tuple[Quantity, list[str]]:
    """Return the operations of the counts' time."""
    if operations.value is None:
        return operations, []
    if not source.is_of_run:
        return Quantity(None, "1", "operations are of the run's time, and the counts of another"), []
    if duration_s is None or phase_s <= 0:
        return operations, []
    # Both are rates of the same work, of which one was watched longer.
    notes = []
    if abs(duration_s / phase_s - 1) > SAME_TIME_RATIO:
        notes.append(
            f"counts are of {duration_s:.3g} s and operations of {phase_s:.3g} s: their rates are divided"
        )
    return Quantity(operations.value * duration_s / phase_s, "1"), notes


def _cpu_s(
    source: Source, base: Counts, run: Run, phase_s: float, duration_s: float | None
) -> tuple[float | None, str]:
    """Return the CPU time of what was counted, in the time of the counts."""
    if source.series.scope == "system":
        if base.cpu_s is None or not source.is_of_run or duration_s is None or phase_s <= 0:
            return None, base.missing.get("cpu_s", "the CPU time of the counts' time is not known")
        return base.cpu_s * duration_s / phase_s, ""
    for name in CLOCKS:
        counted = source.events.values.get(name)
        unit = next((event.unit for key, event in source.series.events.items() if key.startswith(name)), "")
        if counted and unit in ("ns", ""):
            return counted / 1e9, ""
    if source.cpu_s:
        return source.cpu_s, ""
    used = run.metrics.get("cpu_time_s")
    if used is not None and used.value and source.is_of_run and duration_s is not None and phase_s > 0:
        scale = duration_s / phase_s
        if abs(scale - 1) <= SAME_TIME_RATIO:
            return used.value * scale, ""
    return None, "the program's CPU time was not counted (event task-clock)"


def _without_counters(
    meanwhile: Meanwhile, machine: Machine | None, operations: Quantity, missing: str
) -> Counts:
    reasons = {"instructions": missing, "cycles": missing}
    if operations.missing:
        reasons["operations"] = operations.missing
    return counts_of_phase(meanwhile, operations.value, machine=machine, missing=reasons)


def metrics_of_series(
    series: CounterSeries, machine: Machine | None, duration_s: float | None
) -> tuple[dict[str, MetricValue], str]:
    """Return the metrics of the processor's definition, and which that is.

    What it withholds for want of the vendor's events is taken from those that perf names alike on every
    processor, where they were counted.
    """
    definition, why = definition_of(machine)
    gained = gains(series)
    if gained.duration_s is None and duration_s is not None:
        gained = replace(gained, duration_s=duration_s)
    values = metrics_of(definition, gained, _facts(machine, series, definition))
    if definition.id != GENERIC:
        generic = definitions()[GENERIC]
        for name, value in metrics_of(generic, gained, _facts(machine, series, generic)).items():
            known = values.get(name)
            if value.value is not None and (known is None or known.value is None):
                values[name] = value
    return values, f"{definition.name}: {why}"


def _facts(machine: Machine | None, series: CounterSeries, definition: Definition) -> MachineFacts:
    return facts_of(machine, series.scope if series.scope in SCOPES else "system", definition)


def _tree(
    source: Source, machine: Machine | None, duration_s: float | None
) -> tuple[TopDown | None, str | None]:
    """Return the tree by the machine's own model, else by one that the events' names tell."""
    definition, _ = definition_of(machine)
    gained = replace(gains(source.series), duration_s=duration_s)
    own = top_down_of(definition, gained, _facts(machine, source.series, definition))
    if isinstance(own, TopDown) and any(node.ratio is not None for node in own.level_1):
        return own, None
    events = source.events
    model = choose_model(machine, [*events.values, *events.missing])
    if isinstance(model, str):
        return None, model
    counts: dict[str, float | None] = dict(events.values)
    for name, value in events.values.items():
        # Formulas name variants of an event as perf's own do, cpu@EVENT,cmask=1@.
        if "," in name:
            counts[f"cpu@{name}@"] = value
    return top_down(model, counts, missing=events.missing), None


def _used(
    meanwhile: Meanwhile, machine: Machine | None
) -> tuple[UtilisationSplit | None, Bounds, str | None]:
    """Return how the CPUs' time was used, and what part of the cores' capacity that is."""
    cpus = meanwhile.cpus.server if meanwhile.cpus.server.use is not None else meanwhile.cpus.all
    if cpus.use is None:
        reason = cpus.missing or "CPU time was not recorded"
        return None, Bounds(None, None, "ratio", reason), reason
    split = split_utilisation(cpus.use)
    threads = machine.cpu.threads_per_core if machine is not None else None
    if not threads:
        return split, Bounds(None, None, "ratio", "how many threads share a core is not known"), None
    return split, used_capacity(min(1.0, split.total_ratio), threads_per_core=threads), None
