"""What co-location cost two workloads, and how near the prediction came.

In: the record of a co-location and the directories of its runs. Out: the record with overlaps, slow-downs,
shares of the machine's limits, predictions and a verdict.

A run together counts only if the other was in its measure phase for `OVERLAP_RATIO` of its own: what ran
beside nothing shows nothing. A workload's use of CPUs is looked at on the CPUs of the other's servers and of
its load, because that is where the two meet.

Not here: making the runs (``bench.colocation``), the formulas (``pressure.contention``).
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard import telemetry
from steelyard._base import SteelyardError
from steelyard.analyze.colocation_history import learned, spreads
from steelyard.analyze.conditions import Conditions, observe
from steelyard.analyze.pressure.contention import RATES, over, shared_slowdown, together
from steelyard.analyze.pressure.disk_limits import GroupLimit
from steelyard.analyze.pressure.intensities import intensities
from steelyard.analyze.pressure.limits import Limits
from steelyard.records import (
    Colocation,
    ColocationBlock,
    ColocationPrediction,
    ColocationRun,
    ColocationWorkload,
    Condition,
    HealthResult,
    Level,
    Machine,
    Run,
    RunStatus,
    read,
)
from steelyard.stats.intervals import RATIO_COUNT, ratio_interval
from steelyard.stats.sessions import SessionSpread

OVERLAP_RATIO = 0.8
"""Share of a measure phase beside the other below which a run does not count."""
RESOURCES = ("cpu", "dram_capacity", "dram_bandwidth", "disk_bandwidth", "network")
NEIGHBOUR = "foreign-load"
"""The check that objects to other processes: together, those of the other workload are meant to be there."""


def overlap_ratio(run: Run, other: Run) -> float | None:
    """Return the share of a run's measure phase in which the other was in its own, None without both.

    Of a phase of several steps, the steps count: what is done between them is not measured.
    """
    phase, beside = _measured(run), _measured(other)
    if phase is None or beside is None:
        return None
    spans = [(step.begin_ns, step.end_ns) for step in run.steps if step.end_ns is not None] or [phase]
    whole_ns = sum(end_ns - begin_ns for begin_ns, end_ns in spans)
    shared_ns = sum(max(0, min(end_ns, beside[1]) - max(begin_ns, beside[0])) for begin_ns, end_ns in spans)
    return shared_ns / whole_ns if whole_ns > 0 else None


def _measured(run: Run) -> tuple[int, int] | None:
    for phase in reversed(run.phases):
        if phase.name == "measure" and phase.end_ns is not None:
            return phase.begin_ns, phase.end_ns
    return None


def judged_run(entry: ColocationRun, run: Run, metric: str, other: Run | None) -> ColocationRun:
    """Return what a run amounts to; ``other`` is the one beside it, None for a run alone."""
    checks = run.verdict.reasons if run.verdict is not None else []
    if entry.condition is Condition.TOGETHER:
        checks = [check for check in checks if check.id != NEIGHBOUR]
    measured = run.metrics.get(metric)
    value = measured.value if measured is not None and run.status is RunStatus.COMPLETE else None
    shared = overlap_ratio(run, other) if other is not None else None
    refused = None
    if run.status is not RunStatus.COMPLETE:
        refused = run.status_reason or "the run is incomplete"
    elif not value:
        refused = (measured.missing if measured is not None else None) or f"it has no {metric}"
    elif entry.condition is Condition.TOGETHER and (shared is None or shared < OVERLAP_RATIO):
        refused = f"the other was measured in {shared or 0.0:.0%} of the time, less than {OVERLAP_RATIO:.0%}"
    return entry.model_copy(
        update={
            "run_id": run.run_id,
            "status": run.status,
            "status_reason": run.status_reason,
            "value": value,
            "overlap_ratio": shared,
            "objections": list(checks),
            "refused": refused,
        }
    )


def paired(runs: Sequence[ColocationRun]) -> list[ColocationRun]:
    """Return the runs of one turn, both refused where one is: together they are one measurement."""
    if all(run.refused is None for run in runs):
        return list(runs)
    update = {"refused": "the run beside it does not count"}
    return [run if run.refused is not None else run.model_copy(update=update) for run in runs]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a workload did alone, in one run."""

    use: Mapping[str, float | None]
    cpus: Mapping[int, float]
    """Share of each CPU's time that was used."""
    sets: Mapping[str, tuple[int, ...]]
    """CPUs of its servers and of its load."""


def seen_alone(
    folder: Path,
    run: Run,
    *,
    limits: Limits | None = None,
    disk_limits: Sequence[GroupLimit] = (),
    health: HealthResult | None = None,
) -> Seen | None:
    """Return what a run alone used of the machine's limits, None without telemetry.

    ``disk_limits`` are those that were set for all runs together.
    """
    span = _measured(run)
    if span is None:
        return None
    machine = _machine(folder)
    try:
        with telemetry.open(folder) as recording:
            conditions = observe(
                recording, *span, run=run, machine=machine, set_around=disk_limits, whole=False
            )
    except SteelyardError:
        return None
    parts = intensities(conditions, machine, health=health, limits=limits)
    use = {name: _binding(parts, name) for name in RESOURCES}
    # Which CPUs others used is not known: their share is taken off each.
    checks = run.verdict.checks if run.verdict is not None else []
    others = next((check.value for check in checks if check.id == NEIGHBOUR), None) or 0.0
    return Seen(
        use,
        {cpu: max(0.0, each.own_ratio - others) for cpu, each in conditions.cpus.by_cpu.items()},
        {name: _set(conditions, name) for name in ("server", "load")},
    )


def _binding(parts: object, name: str) -> float | None:
    """Return a share of a limit; loopback's unset limit is what one connection did, and binds nobody."""
    pressure = getattr(parts, name)
    return pressure.ratio if pressure.binding else None


def _set(conditions: Conditions, name: str) -> tuple[int, ...]:
    return (conditions.cpus.server if name == "server" else conditions.cpus.load).cpus


def _machine(folder: Path) -> Machine | None:
    try:
        return read(Machine, folder / "machine.json")
    except SteelyardError:
        return None


Uses = dict[str, float | None]
"""Share of each limit, None where it is not known."""


def uses(mine: Sequence[Seen], others: Sequence[Seen]) -> tuple[Uses, Uses]:
    """Return what a workload used of each limit, and what the other did of the same: means over runs.

    For CPUs, both on the servers' or the load's, whichever would be fuller with both.
    """
    own = {name: _mean([each.use[name] for each in mine]) for name in RESOURCES}
    beside = {name: _mean([each.use[name] for each in others]) for name in RESOURCES}
    fullest: tuple[float, float, float] | None = None
    for cpus in {cpus for each in mine for cpus in each.sets.values() if cpus}:
        shares = [_mean([_on(each, cpus) for each in side]) for side in (mine, others)]
        if shares[0] is not None and shares[1] is not None:
            found = (shares[0] + shares[1], shares[0], shares[1])
            fullest = found if fullest is None else max(fullest, found)
    own["cpu"], beside["cpu"] = (None, None) if fullest is None else fullest[1:]
    return own, beside


def _on(seen: Seen, cpus: Sequence[int]) -> float | None:
    return _mean([seen.cpus.get(cpu) for cpu in cpus])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def predicted(own: Mapping[str, float | None], beside: Mapping[str, float | None]) -> ColocationPrediction:
    """Return what to expect of a workload, from what both used alone."""
    sums = together(own, beside)
    if not any(name in sums for name in RATES):
        return ColocationPrediction(missing="no resource was measured for both alone")
    slowdown, resource = shared_slowdown(sums)
    return ColocationPrediction(slowdown=slowdown, method="shared limits", resource=resource)


def measured(workload: ColocationWorkload, between: SessionSpread | None = None) -> ColocationWorkload:
    """Return a workload with its slow-down, and how far the prediction was off.

    ``between`` is how slow-downs of the pair differ between sessions, where that is known.
    """
    alone, beside = workload.alone, workload.together
    if not alone or not beside:
        return workload.model_copy(
            update={
                "slowdown": None,
                "slowdown_low": None,
                "slowdown_high": None,
                "sessions": None,
                "missing": f"no valid run {'alone' if not alone else 'beside the other'}",
            }
        )
    above, below = (beside, alone) if workload.better == "lower" else (alone, beside)
    slowdown = statistics.median(above) / statistics.median(below)
    interval = ratio_interval(above, below, between=None if between is None else between.of_one())
    missing = interval.reason
    if interval.low is None and missing is None:
        missing = f"an interval needs {RATIO_COUNT} runs alone and {RATIO_COUNT} together"
    prediction = workload.prediction
    if prediction is not None and prediction.slowdown is not None:
        within = None
        if interval.low is not None and interval.high is not None:
            within = interval.low <= prediction.slowdown <= interval.high
        prediction = prediction.model_copy(
            update={"error_ratio": prediction.slowdown / slowdown - 1, "is_within_interval": within}
        )
    return workload.model_copy(
        update={
            "slowdown": slowdown,
            "slowdown_low": interval.low,
            "slowdown_high": interval.high,
            "sessions": interval.sessions,
            "missing": missing,
            "prediction": prediction,
        }
    )


def concluded(
    record: Colocation, seen: Sequence[Sequence[Seen]], history: Sequence[Colocation] = ()
) -> Colocation:
    """Return a record whose runs have been made with all that follows.

    ``seen`` is what each workload did alone, ``history`` are co-locations that were made before: where they
    are enough to tell what pairs cost on this machine, they predict instead of the shared limits.
    """
    blocks = record.blocks
    pressed = []
    for number, workload in enumerate(record.workloads):
        own, beside = uses(seen[number], seen[1 - number])
        made = [run for block in blocks for run in block.runs if run.workload == number]
        counted = [run for run in made if run.refused is None]
        update = {
            "alone": _values(counted, is_together=False),
            "together": _values(counted, is_together=True),
            "use": own,
            "beside": beside,
            "prediction": predicted(own, beside),
        }
        pressed.append(workload.model_copy(update=update))
    by_pairs = learned(record.model_copy(update={"workloads": pressed}), history)
    workloads = [
        measured(each if better is None else each.model_copy(update={"prediction": better}), between)
        for each, better, between in zip(pressed, by_pairs, spreads(record, history), strict=True)
    ]
    # Where they meet on other CPUs, those that would be fullest count.
    totals = [together(each.use, each.beside) for each in workloads]
    names = [name for name in RESOURCES if any(name in total for total in totals)]
    sums = {name: max(total[name] for total in totals if name in total) for name in names}
    level, objections = _judge(blocks, workloads)
    return record.model_copy(
        update={
            "workloads": workloads,
            "together": sums,
            "over": list(over(sums)),
            "level": level,
            "objections": objections,
        }
    )


def _values(runs: Sequence[ColocationRun], *, is_together: bool) -> list[float]:
    return [
        run.value
        for run in runs
        if run.value is not None and (run.condition is Condition.TOGETHER) == is_together
    ]


def _judge(
    blocks: Sequence[ColocationBlock], workloads: Sequence[ColocationWorkload]
) -> tuple[Level, list[str]]:
    """Return the verdict: the worst of the runs that count; invalid where a slow-down is missing."""
    level, objections = Level.VALID, []
    for workload in workloads:
        if workload.slowdown is None:
            level = Level.INVALID
            objections.append(f"{workload.name}: {workload.missing}")
    for block in blocks:
        for run in block.runs:
            name = workloads[run.workload].name
            where = "together" if run.condition is Condition.TOGETHER else "alone"
            if run.refused is not None:
                level = max(level, Level.SUSPECT, key=lambda each: each.severity)
                objections.append(f"block {block.index}, {name} {where}: {run.refused}")
                continue
            for check in run.objections:
                level = max(level, check.level, key=lambda each: each.severity)
                objections.append(f"block {block.index}, {name} {where}: {check.id}: {check.claim}")
    return level, objections
