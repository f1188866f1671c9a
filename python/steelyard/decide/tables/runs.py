"""Runs and suites as a table: a machine's runs of one benchmark are its repeats.

In: run manifests with their machines, and the metric of each benchmark. Out: a `MachineTable`.

Invariants: an invalid or incomplete run gives no value but a reason; runs of one benchmark in different
tiers, versions or parameters are refused, since a figure under one name would mean two things.

Not here: finding runs, and which metric a benchmark is scored by (``cli``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from steelyard._base import UsageError
from steelyard.decide.baseline import difference
from steelyard.decide.score import series_of
from steelyard.decide.tables.model import (
    Attribute,
    MachineTable,
    MeasuredMachine,
    Measurement,
    ResultColumn,
)
from steelyard.records import Level, Machine, Run, RunStatus


@dataclass(frozen=True)
class MachineRun:
    """A run, the machine it ran on, and how its machine is called here."""

    run: Run
    machine: Machine
    name: str = ""
    """What the user calls the machine; by default its host name, or its processor and CPUs."""
    path: Path | None = None
    power_w: float | None = None
    """Mean power of its processors in the measure phase, W; None where no energy was counted."""


def table_of_runs(runs: Sequence[MachineRun], metrics: Mapping[str, str]) -> MachineTable:
    """Return the table of ``runs``; ``metrics`` names the metric of each benchmark.

    Raises UsageError for runs that must not stand under one name.
    """
    columns: dict[str, tuple[ResultColumn, Run]] = {}
    values: dict[str, dict[str, list[tuple[str, float]]]] = {}
    missing: dict[str, dict[str, str]] = {}
    reservations: dict[tuple[str, str], str] = {}
    powers: dict[str, dict[str, list[float]]] = {}
    machines: dict[str, Machine] = {}
    notes: list[str] = []
    seen: dict[tuple[str, int], str] = {}
    for one in runs:
        name = one.name or name_of(one.machine)
        key = (one.run.run_id, one.run.clock.realtime_ns)
        if (known_as := seen.get(key)) is not None:
            if known_as != name:
                raise UsageError(
                    f"{one.run.run_id} is given as {known_as} and as {name}: one machine, two names",
                    hint="give each run once",
                )
            notes.append(f"{one.run.run_id} is given twice, and counts once.")
            continue
        seen[key] = name
        _check_machine(name, machines.setdefault(name, one.machine), one.machine)
        benchmark = one.run.benchmark
        value, reason = _value(one.run, metrics.get(benchmark, ""))
        if value is None:
            missing.setdefault(name, {})[benchmark] = reason
            notes.append(f"{name}: {one.run.run_id} gives no value: {reason}.")
            continue
        column = _column(one.run, metrics[benchmark])
        known, first = columns.setdefault(benchmark, (column, one.run))
        _check_alike(one.run, first, column, known)
        values.setdefault(name, {}).setdefault(benchmark, []).append((_session(one.run), value))
        if one.power_w is not None:
            powers.setdefault(name, {}).setdefault(f"{benchmark}_power_w", []).append(one.power_w)
        if one.run.verdict is not None and one.run.verdict.level is Level.SUSPECT:
            claims = "; ".join(check.claim.rstrip(".") for check in one.run.verdict.reasons)
            reservations[name, benchmark] = f"suspect: {claims}"
    rows = tuple(
        MeasuredMachine(
            name,
            attributes_of(machine) | {key: fmean(watts) for key, watts in powers.get(name, {}).items()},
            {
                benchmark: _measurement(found, reservations.get((name, benchmark), ""))
                for benchmark, found in values.get(name, {}).items()
            },
            {key: why for key, why in missing.get(name, {}).items() if key not in values.get(name, {})},
        )
        for name, machine in machines.items()
    )
    if powers:
        notes.append(
            f"Power of {', '.join(powers)} is that of the processor packages (RAPL), not of whole servers."
        )
    sources = tuple(dict.fromkeys(str(one.path) for one in runs if one.path is not None))
    return MachineTable(rows, tuple(column for column, _ in columns.values()), tuple(notes), sources)


def _check_machine(name: str, known: Machine, machine: Machine) -> None:
    """Raise UsageError where two machines have one name."""
    kinds = [(one.cpu.model, one.cpu.logical_cpus) for one in (known, machine)]
    if kinds[0] != kinds[1]:
        said = " and ".join(f"{model or 'an unknown processor'} with {cpus} CPUs" for model, cpus in kinds)
        raise UsageError(
            f"two machines are called {name}: {said}", hint="give each a name of its own: NAME=PATH"
        )


def name_of(machine: Machine) -> str:
    """Return how a machine is called whose user gave it no name."""
    if machine.hostname:
        return machine.hostname
    return f"{machine.cpu.model or machine.cpu.architecture or 'machine'}, {machine.cpu.logical_cpus} CPUs"


def attributes_of(machine: Machine) -> dict[str, Attribute]:
    """Return what of a machine's inventory a table has."""
    cpu = machine.cpu
    threads = None if not cpu.cores else cpu.logical_cpus / cpu.cores
    found: dict[str, Attribute | None] = {
        "processor": cpu.model,
        "architecture": cpu.architecture,
        "vendor": cpu.vendor,
        "cpus": float(cpu.usable_cpus),
        "cores": _number(cpu.cores),
        "threads_per_core": threads,
        "sockets": _number(cpu.sockets),
        "numa_nodes": float(len(machine.numa_nodes)),
        "memory_bytes": float(machine.memory.total_bytes),
        "clock_hz": _number(cpu.frequency_max_hz),
        "hypervisor": machine.hypervisor,
        "kernel": machine.kernel.release,
    }
    return {name: value for name, value in found.items() if value is not None}


def _number(value: int | None) -> float | None:
    return None if value is None else float(value)


def _value(run: Run, metric: str) -> tuple[float | None, str]:
    """Return a run's result, or why it has none."""
    if run.status is not RunStatus.COMPLETE:
        return None, f"the run is {run.status}: {run.status_reason or 'no reason given'}"
    if run.verdict is None or run.verdict.level is Level.INVALID:
        claims = [] if run.verdict is None else [check.claim for check in run.verdict.reasons]
        return None, f"the result is invalid: {'; '.join(claims) or 'it has no verdict'}"
    found = run.metrics.get(metric)
    if found is None or found.value is None or found.value <= 0:
        reason = found.missing if found is not None and found.missing else "no positive value"
        return None, f"{metric or 'the benchmark'}: {reason}"
    return found.value, ""


def _column(run: Run, metric: str) -> ResultColumn:
    found = run.metrics[metric]
    version = ".".join(series_of(run.steelyard_version))
    conditions = f"tier {run.tier}, Steelyard {version}"
    return ResultColumn(run.benchmark, found.unit, found.better or "higher", conditions, run.parameters)


def _check_alike(run: Run, first: Run, column: ResultColumn, known: ResultColumn) -> None:
    if column.conditions != known.conditions:
        raise UsageError(
            f"{run.benchmark} was run in {known.conditions} ({first.run_id}) and in {column.conditions}"
            f" ({run.run_id}): one name, two workloads",
            hint=f"--tier {first.tier} uses those of one tier"
            if run.tier != first.tier
            else "give the runs of one version",
        )
    different = difference(run.parameters, first.parameters)
    if different:
        raise UsageError(
            f"{run.run_id} and {first.run_id} differ: {different}", hint="give runs of one workload"
        )


def _session(run: Run) -> str:
    return run.series.id


def _measurement(found: Sequence[tuple[str, float]], reservation: str) -> Measurement:
    sessions: dict[str, list[float]] = {}
    for session, value in found:
        sessions.setdefault(session, []).append(value)
    return Measurement(tuple(tuple(values) for values in sessions.values()), reservation)
