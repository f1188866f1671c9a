"""Curves and sweeps by their names, as sizing takes them.

In: ``[MACHINE=]PATH``: a CSV file (one curve, or one a machine where it has a column ``machine``), or the
folder of an experiment. Out: `Measured`.

A sweep whose factor is a size, or is named after memory, is one of memory; any other is one of load.

Not here: sizing (``decide.sizing``).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from steelyard._base import RecordError, UsageError, read_regular, text_of
from steelyard.analyze.scaling.curve import (
    LATENCY,
    LATENCY_P50,
    LATENCY_P99,
    Observation,
    Step,
    steps_of,
    whole_blocks,
)
from steelyard.analyze.scaling.machine import topology_of
from steelyard.analyze.scaling.measured import in_base_units, parse_curve
from steelyard.decide.sizing.curves import LoadSweep, MemorySweep, SizeCurve
from steelyard.decide.sizing.sources import Measured
from steelyard.experiment import engine
from steelyard.experiment.answers import values_by_arm
from steelyard.experiment.design import is_curve
from steelyard.experiment.response import response
from steelyard.experiment.scaling import steps_of_experiment, topology_of_experiment
from steelyard.records.experiment import Experiment
from steelyard.stats.scaling.choice import Topology

_BYTES = 64 << 20
_MACHINE = "machine"
_NAMES = {"p99": LATENCY_P99, "p50": LATENCY_P50, "mean": LATENCY}


def measured_in(sources: Sequence[str]) -> Measured:
    """Return what the sources have. Raises UsageError and RecordError."""
    curves: list[SizeCurve] = []
    loads: list[LoadSweep] = []
    memories: list[MemorySweep] = []
    for text in sources:
        name, path = _split(text)
        folder = path.parent if path.name == engine.MANIFEST else path
        if (folder / engine.MANIFEST).exists():
            found = _of_experiment(name, folder)
            if isinstance(found, SizeCurve):
                curves.append(found)
            elif isinstance(found, MemorySweep):
                memories.append(found)
            else:
                loads.append(found)
        elif path.is_file():
            curves += _of_file(name, path)
        else:
            raise UsageError(f"{path}: no curve", hint="a CSV file, or the folder of `scale` or `experiment`")
    return Measured(curves, loads, memories)


def _split(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    return (name, Path(path)) if equals and not Path(text).exists() else ("", Path(text))


def _of_file(name: str, path: Path) -> list[SizeCurve]:
    try:
        text = text_of(read_regular(path, at_most_bytes=_BYTES), str(path)).removeprefix("\ufeff")
    except RecordError as error:
        raise UsageError(error.message) from error
    try:
        by_machine = _by_machine(text)
    except csv.Error as error:
        raise UsageError(f"{path}: no CSV: {error}") from error
    if name and len(by_machine) > 1:
        raise UsageError(f"{path} has {len(by_machine)} machines", hint="give its path without a name")
    found = []
    for machine, part in by_machine.items():
        label = f"{path} ({machine})" if machine else str(path)
        found.append(_of_observations(name or machine, label, parse_curve(part, name=label)))
    return found


def _by_machine(text: str) -> dict[str, str]:
    """Return the text of each machine's curve, by its name; of a file without names, the whole text."""
    rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if _MACHINE not in header:
        return {"": text}
    at = header.index(_MACHINE)
    parts: dict[str, list[list[str]]] = {}
    for row in rows[1:]:
        if at < len(row):
            parts.setdefault(row[at].strip(), []).append(row)
    found = {}
    for machine, lines in parts.items():
        out = io.StringIO()
        csv.writer(out).writerows([rows[0], *lines])
        found[machine] = out.getvalue()
    return found


def _of_observations(machine: str, source: str, observations: Sequence[Observation]) -> SizeCurve:
    limit = next((one.machine_cpus for one in observations if one.is_threads), None)
    # More threads than CPUs are no size of a machine.
    kept = [one for one in observations if limit is None or one.cpus <= limit]
    worst: dict[str, dict[int, float]] = {}
    for one in kept:
        for name, figure in _NAMES.items():
            if one.ops_per_s is not None and (value := one.readings.get(figure)):
                known = worst.setdefault(name, {})
                known[one.cpus] = max(value, known.get(one.cpus, 0.0))
    made = _curve(machine, source, steps_of(kept), topology_of(kept), worst)
    is_threads = any(one.is_threads for one in kept)
    return SizeCurve(made.machine, made.values, made.topology, worst, source, is_threads)


def _curve(
    machine: str,
    source: str,
    steps: Sequence[Step],
    topology: Topology,
    latency: dict[str, dict[int, float]],
) -> SizeCurve:
    values = whole_blocks(steps)
    if not values:
        raise UsageError(f"{source}: no step has a throughput")
    return SizeCurve(machine, values, topology, latency, source)


def _of_experiment(machine: str, folder: Path) -> SizeCurve | LoadSweep | MemorySweep:
    experiment = engine.load(folder)
    if is_curve(experiment):
        worst: dict[str, dict[int, float]] = {}
        for trial in experiment.trials:
            for name, figure in _NAMES.items():
                if trial.value is not None and (value := in_base_units(trial.readings).get(figure)):
                    known = worst.setdefault(name, {})
                    known[int(trial.arm)] = max(value, known.get(int(trial.arm), 0.0))
        topology = topology_of_experiment(experiment, folder)
        return _curve(machine, str(folder), steps_of_experiment(experiment), topology, worst)
    return _sweep(machine, folder, experiment)


def _sweep(machine: str, folder: Path, experiment: Experiment) -> LoadSweep | MemorySweep:
    found = response(experiment)
    if found is None:
        raise UsageError(
            f"{folder}: its arms are no sweep of three numbers at least",
            hint="steelyard experiment --sweep NAME=1,2,4",
        )
    if experiment.metric.better == "lower":
        raise UsageError(
            f"{folder}: {experiment.metric.name} is no throughput: less of it is better",
            hint="sweep with --metric of a rate",
        )
    values = values_by_arm(experiment)
    known = [level for level in found.levels if any(value > 0 for value in values[level.arm].values())]
    by_level = [[value for value in values[level.arm].values() if value > 0] for level in known]
    if not known:
        raise UsageError(f"{folder}: no level has a throughput")
    if (found.unit == "bytes" and "mem" in experiment.factor.lower()) or _is_size(experiment, found.unit):
        count = min(len(row) for row in by_level)
        sizes = {round(level.level): row[:count] for level, row in zip(known, by_level, strict=True)}
        return MemorySweep(machine, sizes, str(folder))
    latency = {
        name: rows
        for name, figure in _NAMES.items()
        if all(rows := [_readings(experiment, level.arm, figure) for level in known])
    }
    return LoadSweep(machine, [level.level for level in known], by_level, latency, str(folder))


def _is_size(experiment: Experiment, unit: str) -> bool:
    """Return whether the levels of a sweep are sizes of memory."""
    return unit == "bytes" or any(word in experiment.factor.lower() for word in ("memory", "_bytes"))


def _readings(experiment: Experiment, arm: str, figure: str) -> list[float]:
    trials = [trial for trial in experiment.trials if trial.arm == arm and trial.value is not None]
    found = (in_base_units(trial.readings).get(figure) for trial in trials)
    return [value for value in found if value]
