"""How much of the fleet's capacity is used and left: capacity of cores, not utilisation of threads.

In: machine samples. Out: an Ibis expression of sums by platform, cluster and hour of the day, and from them
utilisation, used capacity and what is left (`SmtResult`).

A core with one busy thread does nearly all that it can; utilisation calls it half idle. With the time that
cores have any busy thread (``core_busy_s``) it is known how long both threads were busy, and the used
capacity follows from what the second thread adds (the uplift). Without it, or without the uplift, there are
bounds (``analyze.counters.smt``).

The uplift is given, by platform or for all: one run with one thread a core and one with two shows it. It
cannot be had from the samples themselves (docs/journal/0146): jobs and frequency change together with how
cores are shared.

Invariants: what is not known is bounds or missing, with its reason; samples that contradict themselves by
more than rounding (more busy than there is time) are counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.analyze.counters.smt import Bounds, used_capacity_of_sums
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch_rows

HOURS = 24
ALL = "*"
"""Stands for every platform that is not named."""
ROUNDING = 1.02
"""Busy time may exceed the time there was by this much: two clocks were read one after the other."""


def expression(machine_samples: Any) -> Any:
    """Return sums by platform, cluster, UTC hour of the day and threads of a core."""
    rows = machine_samples.mutate(
        hour=((machine_samples.window_start_unix_s // 3600) % HOURS).cast("int64"),
        threads_per_core=machine_samples.threads.cast("float64") / machine_samples.cores.cast("float64"),
        thread_s=machine_samples.threads * machine_samples.window_s,
        core_s=machine_samples.cores * machine_samples.window_s,
    )
    good = (rows.cpu_s >= 0) & (rows.cpu_s <= ROUNDING * rows.thread_s)
    busy = rows.core_busy_s
    exact = good & (busy >= 0) & (busy <= ROUNDING * rows.core_s) & (busy <= ROUNDING * rows.cpu_s)
    exact = (exact & (2 * busy * ROUNDING >= rows.cpu_s)).fill_null(False)
    rows = rows.mutate(good=good.fill_null(False), exact=exact)
    # Both threads of a core are busy for what threads are busy beyond cores; rounding must not make it
    # negative.
    both = ibis.greatest(rows.cpu_s - rows.core_busy_s, 0.0)
    least = ibis.greatest(rows.cpu_s - rows.core_s, 0.0)
    bounded = rows.good & ~rows.exact
    return (
        rows.group_by(["platform", "cluster", "hour", "threads_per_core"])
        .agg(
            windows=rows.count(),
            contradictions=rows.count(where=~rows.good),
            window_s=rows.window_s.sum(where=rows.good),
            thread_s=rows.thread_s.sum(where=rows.good),
            core_s=rows.core_s.sum(where=rows.good),
            cpu_s=rows.cpu_s.sum(where=rows.good),
            exact_windows=rows.count(where=rows.exact),
            both_s=both.sum(where=rows.exact),
            least_both_s=least.sum(where=bounded),
            most_both_s=(rows.cpu_s / 2).sum(where=bounded),
        )
        .order_by(["platform", "cluster", "hour", "threads_per_core"])
    )


@dataclass(frozen=True)
class Uplift:
    """Throughput gain of a core's second thread, and where that is from; None where it is not known."""

    platform: str
    """Which platform."""
    threads_per_core: float | None
    """Threads of a core."""
    ratio: float | None
    """The gain: 0.25 is 25 % more than one thread."""
    source: str
    """``given``, or why there is none."""


@dataclass(frozen=True)
class Used:
    """What some machines used. ``low`` and ``high`` are the used capacity's bounds, equal where it is
    known."""

    platform: str
    """Which platform."""
    cluster: str | None
    """Which cluster, None for all."""
    hour: int | None
    """Which hour of the day (UTC), None for all."""
    utilisation_ratio: float | None
    """CPU utilisation."""
    low: float | None
    """The least share of capacity that was used."""
    high: float | None
    """The most."""
    missing: str | None
    """Why there is no figure."""
    machine_s: float
    """Time of machines that the figures are from."""
    cores: float | None
    """Cores of those machines, on average over the time of them all; None where not known."""


@dataclass(frozen=True)
class SmtResult:
    """Everything that ``steelyard fleet smt`` answers."""

    KIND: ClassVar[str] = "fleet_smt"

    uplifts: tuple[Uplift, ...]
    """Gains of second threads, by platform."""
    platforms: tuple[Used, ...]
    """By platform."""
    clusters: tuple[Used, ...]
    """By platform and cluster."""
    hours: tuple[Used, ...]
    """By platform and hour of the day (UTC)."""
    windows: int
    """Windows that were looked at."""
    contradictions: int
    """Windows whose figures contradict each other, and do not count."""
    without_core_time: int
    """Windows of machines with two threads a core that do not tell the time of cores."""


def used_of_fleet(machine_samples: Any, *, uplifts: Mapping[str, float] | None = None) -> SmtResult:
    """Return used capacity by platform, by cluster, and by hour of the day.

    ``uplifts`` are by platform; that of `ALL` is for those not named. Raises ResultSaysNoError where there
    are no samples, UsageError where an uplift is not a ratio.
    """
    given = dict(uplifts or {})
    wrong = [name for name, ratio in given.items() if not 0 <= ratio <= 1]
    if wrong:
        raise UsageError(f"an uplift of {given[wrong[0]]:g} is not between 0 and 1")
    rows = fetch_rows(expression(machine_samples))
    if not rows:
        raise ResultSaysNoError(
            "the store has no machine samples", hint="agents and the simulator write them"
        )
    platforms = sorted({row["platform"] for row in rows})
    unknown = [name for name in given if name != ALL and name not in platforms]
    if unknown:
        raise UsageError(f"there is no platform {unknown[0]!r}", hint=", ".join(platforms[:12]))
    found_uplifts = _uplifts(rows, given)
    by_platform = {(uplift.platform, uplift.threads_per_core): uplift.ratio for uplift in found_uplifts}

    def grouped(*keys: str) -> tuple[Used, ...]:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        return tuple(
            _used(dict(zip(keys, key, strict=True)), groups[key], by_platform) for key in sorted(groups)
        )

    two = [row for row in rows if row["threads_per_core"] == 2]
    return SmtResult(
        uplifts=found_uplifts,
        platforms=grouped("platform"),
        clusters=grouped("platform", "cluster"),
        hours=grouped("platform", "hour"),
        windows=sum(row["windows"] for row in rows),
        contradictions=sum(row["contradictions"] for row in rows),
        without_core_time=sum(row["windows"] - row["contradictions"] - row["exact_windows"] for row in two),
    )


def _uplifts(rows: Iterable[dict[str, Any]], given: Mapping[str, float]) -> tuple[Uplift, ...]:
    kinds = {(row["platform"], row["threads_per_core"]) for row in rows}
    uplifts = []
    for platform, threads in sorted(kinds, key=lambda kind: (kind[0], kind[1] or 0.0)):
        ratio = given.get(platform, given.get(ALL))
        if threads == 1:
            uplifts.append(Uplift(platform, threads, None, "one thread a core"))
        elif ratio is None:
            uplifts.append(Uplift(platform, threads, None, "not given: between 0 and 1"))
        else:
            uplifts.append(Uplift(platform, threads, ratio, "given"))
    return tuple(uplifts)


def _used(
    key: dict[str, Any], rows: list[dict[str, Any]], uplifts: dict[tuple[str, float | None], float | None]
) -> Used:
    """Return the used capacity of some rows: their bounds, weighted by time of cores."""
    thread_s = sum(row["thread_s"] or 0.0 for row in rows)
    cpu_s = sum(row["cpu_s"] or 0.0 for row in rows)
    window_s = sum(row["window_s"] or 0.0 for row in rows)
    core_s, low, high, missing = 0.0, 0.0, 0.0, None
    for row in rows:
        if not row["core_s"]:
            missing = missing or "how many cores machines have is not recorded"
            continue
        bounds = _bounds(row, uplifts.get((row["platform"], row["threads_per_core"])))
        if bounds.low is None or bounds.high is None:
            missing = bounds.missing
            continue
        core_s += row["core_s"]
        low += bounds.low * row["core_s"]
        high += bounds.high * row["core_s"]
    known = core_s > 0 and missing is None
    return Used(
        platform=key["platform"],
        cluster=key.get("cluster"),
        hour=key.get("hour"),
        utilisation_ratio=cpu_s / thread_s if thread_s > 0 else None,
        low=low / core_s if known else None,
        high=high / core_s if known else None,
        missing=None if known else missing or "nothing was recorded",
        machine_s=window_s,
        cores=core_s / window_s if known and window_s > 0 else None,
    )


def _bounds(row: dict[str, Any], uplift: float | None) -> Bounds:
    both = row["both_s"] or 0.0
    return used_capacity_of_sums(
        row["cpu_s"] or 0.0,
        row["core_s"],
        threads_per_core=row["threads_per_core"],
        both_s=(both + (row["least_both_s"] or 0.0), both + (row["most_both_s"] or 0.0)),
        uplift_ratio=uplift,
    )
