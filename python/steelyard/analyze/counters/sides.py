"""What counters say of servers and load, each for itself: recordings of the hooks `counters` and `topdown`.

In: a run's folder, and in its manifest which entities of the recordings are whose. Out: a `CounterUse` by
side. What CPUs share (memory controllers, power) was counted of the whole machine, and stands with both.

Invariants: a function of the folder only; a recording that is missing costs what it would have said, and the
reason stands there.

Not here: recording (``bench.hooks``), and what counts mean (``use``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from steelyard._base import SteelyardError
from steelyard.analyze.counters.choice import choose, shared_metrics
from steelyard.analyze.counters.iron_law import Meanwhile
from steelyard.analyze.counters.metrics import MetricValue
from steelyard.analyze.counters.use import CounterUse, metrics_of_series, source_of, use_of
from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.run_files import COUNTERS, RECORDED, SHARED, TOP_DOWN_HOOK
from steelyard.analyze.values import Quantity
from steelyard.records import Machine, Run
from steelyard.telemetry.counters import CounterSeries, counter_series

SIDES = ("server", "load")
OF_MACHINE = "of the whole machine"
"""What stands with metrics of what servers and load share."""


def uses_by_side(
    folder: Path,
    run: Run,
    meanwhile: Meanwhile,
    *,
    machine: Machine | None = None,
    operations: Quantity | None = None,
) -> dict[str, CounterUse]:
    """Return what was counted of each side; nothing for a run whose counts have no sides."""
    entities = _entities(run, COUNTERS)
    if not entities or not (folder / RECORDED).is_dir():
        return {}
    operations = operations or Quantity(None, "1", "the operations are not known")
    counted = _series(folder / RECORDED, meanwhile)
    slots = _series(folder / TOP_DOWN_HOOK, meanwhile)
    shared, reason = _shared_metrics(folder, meanwhile, machine), _missing(run, COUNTERS, "machine_missing")
    uses = {}
    for side, names in entities.items():
        part = _part(meanwhile, side)
        here = _of_cpus(machine, names)
        source = counted if isinstance(counted, str) else source_of(_of(counted, names), part, here)
        if isinstance(source, str):
            continue
        use = use_of(source, part, run, machine=here, operations=operations)
        uses[side] = _with_tree(
            replace(use, metrics={**_with_reasons(use.metrics, machine, reason), **shared}),
            slots if isinstance(slots, str) else _of(slots, _entities(run, TOP_DOWN_HOOK).get(side, ())),
            part,
            run,
            here,
            _missing(run, TOP_DOWN_HOOK),
        )
    return uses


def _entities(run: Run, hook: str) -> dict[str, tuple[str, ...]]:
    about = run.hooks.get(hook)
    found = {}
    for side in SIDES:
        names = about.get(side) if isinstance(about, dict) else None
        if isinstance(names, list):
            found[side] = tuple(str(name) for name in names)
    return found


def _missing(run: Run, hook: str, key: str = "missing") -> str | None:
    about = run.hooks.get(hook)
    missing = about.get(key) if isinstance(about, dict) else None
    return missing if isinstance(missing, str) else None


def _series(folder: Path, meanwhile: Meanwhile) -> list[CounterSeries] | str:
    """Return the counts of a recording over the measure phase, or why there are none."""
    if not folder.is_dir():
        return "it was not recorded"
    # Read when needed: it loads the query engine.
    from steelyard.telemetry import open_recording

    try:
        with open_recording(folder) as recording:
            why = recording.missing("counters")
            return why or counter_series(recording, meanwhile.span.begin_ns, meanwhile.span.end_ns)
    except SteelyardError as error:
        return error.message.replace(f"{folder.parent}/", "")


def _of(series: list[CounterSeries], names: tuple[str, ...]) -> list[CounterSeries]:
    return [each for each in series if each.entity in names]


def _part(meanwhile: Meanwhile, side: str) -> Meanwhile:
    """Return what one side's CPUs did, as if there were no others."""
    cpus = meanwhile.cpus.load if side == "load" else meanwhile.cpus.server
    return replace(meanwhile, cpus=Cpus(all=cpus, server=cpus))


def _of_cpus(machine: Machine | None, names: tuple[str, ...]) -> Machine | None:
    """Return the machine with as many CPUs as were counted, which formulas ask for."""
    if machine is None or not all(name.startswith("cpu") for name in names):
        return machine
    return machine.model_copy(update={"cpu": machine.cpu.model_copy(update={"logical_cpus": len(names)})})


def _shared_metrics(folder: Path, meanwhile: Meanwhile, machine: Machine | None) -> Mapping[str, MetricValue]:
    series = _series(folder / SHARED, meanwhile)
    if isinstance(series, str):
        return {}
    source = source_of(series, meanwhile, machine)
    if isinstance(source, str):
        return {}
    values, _ = metrics_of_series(source.series, machine, source.duration_s)
    names = shared_metrics(machine) if machine is not None else values.keys()
    return {
        name: replace(values[name], meaning=f"{values[name].meaning}, {OF_MACHINE}")
        for name in names
        if name in values and values[name].value is not None
    }


def _with_reasons(
    values: Mapping[str, MetricValue], machine: Machine | None, reason: str | None
) -> dict[str, MetricValue]:
    """Say of what only a whole machine has why it is missing there: it cannot be had, or ``reason``."""
    if machine is None:
        return dict(values)
    missing = choose(machine, "system").missing
    if reason is not None:
        missing = {**dict.fromkeys(shared_metrics(machine), reason), **missing}
    return {
        name: replace(each, missing=missing.get(name, each.missing)) if each.value is None else each
        for name, each in values.items()
    }


def _with_tree(
    use: CounterUse,
    slots: list[CounterSeries] | str,
    meanwhile: Meanwhile,
    run: Run,
    machine: Machine | None,
    missing: str | None,
) -> CounterUse:
    """Take the tree from the recording of its events."""
    if isinstance(slots, str):
        return replace(use, top_down=None, top_down_missing=missing or slots)
    source = source_of(slots, meanwhile, machine)
    if isinstance(source, str):
        return replace(use, top_down=None, top_down_missing=missing or source)
    tree = use_of(source, meanwhile, run, machine=machine, operations=use.operations)
    return replace(use, top_down=tree.top_down, top_down_missing=tree.top_down_missing)
