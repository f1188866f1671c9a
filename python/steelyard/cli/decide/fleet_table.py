"""A fleet's store as the table of a decision: its machine types, and what jobs do on them.

In: a store. Out: a `MachineTable`: a platform is a machine, and each job a result, operations per CPU second.

Invariant: with `SESSIONS` days or more, a day is a session; with fewer, each machine's figure is a repeat of
one session, since a day or two say nothing of the spread between days.

Not here: queries (``fleet.platforms``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from steelyard._base import UsageError
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, Measurement, ResultColumn
from steelyard.stats.intervals import RATIO_COUNT as SESSIONS

if TYPE_CHECKING:
    from steelyard.fleet.platforms import Platform

ENDING = "_ops_per_cpu_s"


def is_store(source: str) -> bool:
    """Whether a source is a fleet's store."""
    from steelyard.fleet.store.files import Place
    from steelyard.fleet.store.layout import MARKER

    if source.startswith("s3://"):
        return True
    return bool(source) and Place(source).exists(MARKER)


def table_of_store(url: str) -> MachineTable:
    """Return the table of a store. Raises UsageError where no task of it completed operations."""
    from steelyard.cli.fleet.options import opened
    from steelyard.fleet.platforms import DAYS, MACHINES, platforms

    with opened(url) as store:
        found = platforms(store.table("machines"), store.table("task_samples"))
        problems = len(store.problems)
    if not found:
        raise UsageError(
            f"{url} has no samples of tasks", hint="steelyard fleet import, or an agent's upload"
        )
    jobs = sorted({job for platform in found for job in platform.jobs})
    machines = [_machine(platform, jobs) for platform in found]
    kept = [job for job in jobs if any(f"{job}{ENDING}" in machine.results for machine in machines)]
    if not kept:
        why = next(figures.missing for platform in found for figures in platform.jobs.values())
        raise UsageError(f"no job of {url} has operations: {why}", hint="steelyard fleet rue explains them")
    notes = [
        "Operations per CPU second of a job depend on the requests and the load that a machine type had:"
        " steelyard fleet rue compares within strata."
    ]
    if any(figures.machines >= MACHINES for platform in found for figures in platform.jobs.values()):
        notes.append(f"{MACHINES} machines of each type count at most, and the last {DAYS} days.")
    if left := [job for job in jobs if job not in kept]:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        notes.append(f"{', '.join(left[:3])}{more}: no operations on any machine type.")
    if problems:
        notes.append(f"{problems} files of the store were put aside: steelyard fleet check names them.")
    columns = tuple(ResultColumn(f"{job}{ENDING}", "1/s") for job in kept)
    return MachineTable(tuple(machines), columns, tuple(notes), (url,))


def _machine(platform: Platform, jobs: Sequence[str]) -> MeasuredMachine:
    results: dict[str, Measurement] = {}
    missing = dict(platform.missing)
    for job in jobs:
        figures = platform.jobs.get(job)
        name = f"{job}{ENDING}"
        if figures is None or not figures.by_day:
            missing[name] = "it did not run there" if figures is None else figures.missing
            continue
        days = figures.by_day
        if len(days) < SESSIONS:
            days = (tuple(value for day in days for value in day),)
        results[name] = Measurement(days)
    assert all(math.isfinite(value) for one in results.values() for value in one.values)
    return MeasuredMachine(platform.name, platform.attributes, results, missing)
