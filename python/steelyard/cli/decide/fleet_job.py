"""The profile of a fleet's job, from the samples of its tasks in a store.

In: a store and the name of a job. Out: a `WorkloadProfile` with a value for each minute: rates are sums over
tasks, per task and second; ratios are ratios of sums.

Not here: stores (``fleet.store``), comparing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard._base import SteelyardError, UsageError
from steelyard.decide.fidelity.catalogue import FUNCTIONS, TAX
from steelyard.decide.fidelity.comparison import FLEET
from steelyard.decide.fidelity.of_counters import MOST_WINDOWS
from steelyard.decide.fidelity.workload import Measurement, Mix, WorkloadProfile, measurement, mix

_SUMS = (
    "cpu_s", "reference_cycles", "instructions", "llc_misses", "context_switches", "page_faults",
    "storage_bytes", "network_bytes", "operations",
)  # fmt: skip
_RATIOS: Mapping[str, tuple[str, str, float]] = {
    "throughput_per_s": ("operations", "window_s", 1.0),
    "instructions_per_request": ("instructions", "operations", 1.0),
    "cpu_per_request_ns": ("cpu_s", "operations", 1e9),
    "ipc": ("instructions", "reference_cycles", 1.0),
    "llc_mpki": ("llc_misses", "instructions", 1000.0),
    "context_switches_per_s": ("context_switches", "window_s", 1.0),
    "context_switches_per_request": ("context_switches", "operations", 1.0),
    "page_faults_per_s": ("page_faults", "window_s", 1.0),
}
"""Metric -> what is summed above and below, and the factor."""
_FEWEST_ROWS_RATIO = 0.5
_NO_DETAIL = "a store's task samples do not have it"


def profile_of_job(store: str, job: str) -> WorkloadProfile:
    """Return the profile of a job. Raises UsageError where the store has no samples of it."""
    from steelyard.cli.fleet.options import opened
    from steelyard.telemetry.engine import fetch_rows

    with opened(store) as open_store:
        tasks = open_store.table("task_samples")
        rows = fetch_rows(_by_minute(tasks, job))
        if not rows:
            known = fetch_rows(tasks.group_by("job").agg(rows=tasks.count()))
            names = sorted(str(row["job"]) for row in known)
            raise UsageError(f"{store} has no samples of job {job!r}", hint=f"jobs: {', '.join(names[:10])}")
        mixes = _mixes(open_store, job)
    rows.sort(key=lambda row: row["minute"])
    metrics = {name: _ratio(name, rows, *terms) for name, terms in _RATIOS.items()}
    memory = [row["memory_bytes"] for row in rows if row["memory_bytes"] is not None]
    metrics["resident_bytes"] = measurement(
        "resident_bytes", sum(memory) / len(memory) if memory else None, values=memory, missing=_NO_DETAIL
    )
    metrics["latency_p99_ns"] = _latency(rows)
    notes = (
        f"{job}: rates are of one task ({rows[0]['tasks']} tasks in the first minute)",
        f"{job}: IPC is of reference cycles, as fleets count them",
    )
    return WorkloadProfile(job, FLEET, metrics, mixes, notes=notes, lacks=_NO_DETAIL)


def _mixes(open_store: Any, job: str) -> dict[str, Mix]:
    """Return shares of functions and of the datacenter tax, from the stacks sampled of a job's tasks."""
    from steelyard.analyze.profiles.figures import profile_use
    from steelyard.analyze.profiles.tax_map import classify
    from steelyard.fleet.profiles.stacks import Selection, event_rows, gather

    selection = Selection(job=(job,), text=f"job={job}")
    profiles, tasks, symbols = (open_store.table(name) for name in ("profiles", "task_samples", "symbols"))
    try:
        rows, event, _ = event_rows(profiles, selection, tasks, None)
        stacks = gather(rows, event, symbols)
        use = profile_use(stacks.profile, classify(stacks.profile))
    except SteelyardError as error:
        return {name: mix(name, {}, missing=error.message) for name in (FUNCTIONS, TAX)}
    samples = int(stacks.samples.sum())
    return {
        FUNCTIONS: mix(FUNCTIONS, use.own, samples=samples),
        TAX: mix(TAX, use.categories, samples=samples),
    }


def _by_minute(tasks: Any, job: str) -> Any:
    """Return sums over the tasks of a job in each minute, with how many rows have each."""
    own = tasks.filter(tasks.job == job)
    own = own.mutate(minute=own.window_start_unix_s - own.window_start_unix_s % 60)
    sums = {name: own[name].cast("float64").sum() for name in _SUMS}
    counts = {f"{name}_rows": own[name].count() for name in _SUMS}
    return own.group_by("minute").agg(
        rows=own.count(),
        tasks=own.task.nunique(),
        window_s=own.window_s.sum(),
        memory_bytes=own.memory_bytes.mean(),
        latency_p99_s=own.latency_p99_s.mean(),
        **sums,
        **counts,
    )


def _ratio(
    name: str, rows: Sequence[Mapping[str, Any]], above: str, below: str, factor: float
) -> Measurement:
    used = [row for row in rows if _has(row, above) and _has(row, below)]
    if not used or len(used) < _FEWEST_ROWS_RATIO * len(rows):
        return measurement(name, None, missing=_NO_DETAIL)
    total = math.fsum(row[below] for row in used)
    if total <= 0:
        return measurement(name, None, missing=f"{below} is 0")
    pieces = -(-len(used) // MOST_WINDOWS)
    windows = []
    for first in range(0, len(used) - pieces + 1, pieces):
        part = used[first : first + pieces]
        bottom = math.fsum(row[below] for row in part)
        windows.append(factor * math.fsum(row[above] for row in part) / bottom if bottom > 0 else None)
    value = factor * math.fsum(row[above] for row in used) / total
    return measurement(name, value, values=windows if all(each is not None for each in windows) else [])


def _has(row: Mapping[str, Any], name: str) -> bool:
    """Return whether nearly every sample of a minute has a column: a ratio of sums needs the same ones."""
    return row[name] is not None and (name == "window_s" or row[f"{name}_rows"] == row["rows"])


def _latency(rows: Sequence[Mapping[str, Any]]) -> Measurement:
    known = [row["latency_p99_s"] * 1e9 for row in rows if row["latency_p99_s"] is not None]
    mean = math.fsum(known) / len(known) if known else None
    return measurement("latency_p99_ns", mean, values=known, missing=_NO_DETAIL)
