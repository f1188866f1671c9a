"""What a fleet's machine types are, and what each job does on them in a second of CPU time.

In: the tables ``machines`` and ``task_samples`` of a store. Out: `Platform`s with attributes and, by job and
machine, operations over CPU time: the sum of each over the samples that have both.

Invariants: at most `MACHINES` machines of a platform and `DAYS` days count, chosen by name and the latest; an
attribute that a platform's machines do not agree on, and a job most of whose samples lack operations, is
missing with the reason.

Not here: scores of platforms (``decide``); differences within strata (``rue``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch_rows

MACHINES = 200
"""Machines of a platform that count; those whose names end with what sorts first, so from many racks."""
DAYS = 14
"""Days that count, the latest."""
_HALF = 0.5
_FINITE = 1e300
_TEXTS = {"processor": "cpu_model", "vendor": "vendor"}
_NUMBERS = {
    "cpus": "threads",
    "cores": "cores",
    "sockets": "sockets",
    "numa_nodes": "numa_nodes",
    "memory_bytes": "memory_bytes",
    "clock_hz": "nominal_frequency_hz",
    "turbo_hz": "max_frequency_hz",
}
"""Attribute of a machine -> column of the table ``machines``."""
_ALIKE = 0.02
"""Memory and clocks of one platform's machines may differ by this ratio."""


@dataclass(frozen=True, slots=True)
class JobFigures:
    """What a job does on a platform."""

    by_day: tuple[tuple[float, ...], ...]
    """Operations per CPU second, one figure a machine, by day; empty where it is missing."""
    machines: int
    """Machines that it ran on, of those that count."""
    missing: str = ""
    """Why there is no figure."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A machine type of a fleet."""

    name: str
    attributes: Mapping[str, float | str] = field(default_factory=dict)
    jobs: Mapping[str, JobFigures] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why an attribute is missing."""


def inventory(machines: Any) -> Any:
    """Return the expression for the smallest and the largest of each attribute, by platform."""
    columns = {**_TEXTS, **_NUMBERS}
    least = {f"{name}_least": machines[column].min() for name, column in columns.items()}
    most = {f"{name}_most": machines[column].max() for name, column in columns.items()}
    return machines.group_by("platform").agg(machines=machines.machine.nunique(), **least, **most)


def work(tasks: Any) -> Any:
    """Return the expression for operations and CPU time by platform, job, day and machine."""
    has_cpu = (tasks.cpu_s > 0) & (tasks.cpu_s < _FINITE)
    counts = has_cpu & (tasks.operations >= 0) & (tasks.operations < _FINITE)
    rows = tasks.mutate(counts=counts.fill_null(False))
    sums = rows.group_by("platform", "job", "date", "machine").agg(
        samples=rows.count(),
        counted=rows.counts.cast("int64").sum(),
        cpu_s=rows.cpu_s.sum(where=rows.counts),
        operations=rows.operations.sum(where=rows.counts),
    )
    ranked = sums.mutate(
        # From its end, a name's number comes before the rack's.
        machine_at=ibis.dense_rank().over(group_by="platform", order_by=sums.machine.reverse()),
        day_at=ibis.dense_rank().over(order_by=sums.date.desc()),
    )
    return ranked.filter((ranked.machine_at < MACHINES) & (ranked.day_at < DAYS))


def platforms(machines: Any, tasks: Any) -> list[Platform]:
    """Return the platforms that tasks ran on, by name."""
    known = {row["platform"]: row for row in fetch_rows(inventory(machines))}
    sums: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in fetch_rows(work(tasks)):
        if row["platform"] is not None and row["job"] is not None:
            sums.setdefault(str(row["platform"]), {}).setdefault(str(row["job"]), []).append(row)
    found = []
    for name in sorted(sums):
        attributes, missing = _attributes(known.get(name))
        jobs = {job: _figures(rows) for job, rows in sorted(sums[name].items())}
        found.append(Platform(name, attributes, jobs, missing))
    return found


def _attributes(row: Mapping[str, Any] | None) -> tuple[dict[str, float | str], dict[str, str]]:
    if row is None:
        return {}, dict.fromkeys((*_TEXTS, *_NUMBERS), "no inventory of its machines")
    found: dict[str, float | str] = {}
    missing: dict[str, str] = {}
    for name in (*_TEXTS, *_NUMBERS):
        least, most = row[f"{name}_least"], row[f"{name}_most"]
        if least is None:
            missing[name] = "not in the inventory"
        elif name in _TEXTS:
            if least == most:
                found[name] = str(least)
            else:
                missing[name] = f"its machines differ: {least} and {most}"
        elif 0 < most < _FINITE and least >= most * (1 - _ALIKE * (name.endswith(("_hz", "_bytes")))):
            found[name] = float(most)
        else:
            missing[name] = f"its machines differ: {least:g} to {most:g}"
    if "cpus" in found and "cores" in found:
        found["threads_per_core"] = float(found["cpus"]) / float(found["cores"])
    return found, missing


def _figures(rows: list[Mapping[str, Any]]) -> JobFigures:
    samples = sum(row["samples"] for row in rows)
    counted = sum(row["counted"] or 0 for row in rows)
    machines = len({row["machine"] for row in rows})
    if counted < _HALF * samples:
        why = f"operations and CPU time in {counted:,} of {samples:,} samples"
        return JobFigures((), machines, why if counted else "its samples have no operations")
    days: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: (str(row["date"]), str(row["machine"]))):
        if row["counted"] and 0 < row["operations"] < _FINITE and row["cpu_s"] < _FINITE:
            days.setdefault(str(row["date"]), []).append(row["operations"] / row["cpu_s"])
    figures = tuple(tuple(values) for values in days.values())
    return JobFigures(figures, machines, "" if figures else "it completed no operations")
