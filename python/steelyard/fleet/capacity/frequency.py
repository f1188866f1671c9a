"""Frequency that the fleet ran at against what it was bought for, and what power capping took of it.

In: machine samples and machines. Out: Ibis expressions by platform, cluster and hour, and by machine, and
from them effective frequency, time below the reference, cycles lost (`FrequencyResult`).

The effective frequency of a window is what was recorded, or cycles over busy time. Cycles are lost where it
is below the reference, the nominal frequency by default: (reference - frequency) x busy time. They are lost
to capping where the window says that it was throttled, or its power stood at its cap.

Invariants: a window without a frequency, or of a machine without a reference, is counted as missing with the
reason, never as one that ran at the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch_rows

REFERENCES = ("nominal", "max")
TOLERANCE_RATIO = 0.02
"""A frequency is below the reference when it is lower by more than this: clocks and counters disagree a
little."""
AT_CAP_RATIO = 0.97
"""Power from this share of its cap on is at the cap: caps are kept on average over some milliseconds."""
HOURS = 24
MACHINES_AT_MOST = 50


def _windows(machine_samples: Any, machines: Any, reference: str) -> Any:
    """Return one row a window with its frequency, its reference, and what was lost."""
    # A machine is looked at many times; what it was bought as does not change.
    column = machines[f"{reference}_frequency_hz"]
    bought = machines.group_by(["machine", "cluster"]).agg(reference_hz=column.max())
    rows = machine_samples.left_join(bought, ["machine", "cluster"])
    positive = (rows.core_cycles > 0) & (rows.cpu_s > 0)
    counted = ibis.cases(
        (positive, rows.core_cycles.cast("float64") / rows.cpu_s), else_=ibis.null("float64")
    )
    rows = rows.select(
        "machine",
        "platform",
        "cluster",
        "window_s",
        "cpu_s",
        "throttled_s",
        "power_w",
        "power_cap_w",
        "reference_hz",
        hour=((rows.window_start_unix_s // 3600) % HOURS).cast("int64"),
        hz=ibis.coalesce(rows.frequency_hz, counted),
    )
    known = ((rows.hz > 0) & (rows.reference_hz > 0) & (rows.cpu_s >= 0)).fill_null(False)
    at_cap = ((rows.throttled_s > 0) | (rows.power_w >= AT_CAP_RATIO * rows.power_cap_w)).fill_null(False)
    # A truth that is null must not swallow the other: OR of null and true is true on both engines.
    rows = rows.mutate(known=known, at_cap=at_cap)
    below = (rows.hz < (1 - TOLERANCE_RATIO) * rows.reference_hz).fill_null(False)
    return rows.mutate(below=rows.known & below, capped=rows.known & below & rows.at_cap)


def _sums(rows: Any) -> dict[str, Any]:
    lost = (rows.reference_hz - rows.hz) * rows.cpu_s
    return {
        "windows": rows.count(),
        "no_frequency": rows.count(where=rows.hz.isnull()),
        "no_reference": rows.count(where=rows.reference_hz.isnull()),
        "known_windows": rows.count(where=rows.known),
        "machine_s": rows.window_s.sum(where=rows.known),
        "below_s": rows.window_s.sum(where=rows.below),
        "capped_s": rows.window_s.sum(where=rows.capped),
        "cpu_s": rows.cpu_s.sum(where=rows.known),
        "cycles": (rows.hz * rows.cpu_s).sum(where=rows.known),
        "reference_cycles": (rows.reference_hz * rows.cpu_s).sum(where=rows.known),
        "lost_cycles": lost.sum(where=rows.below),
        "capped_cycles": lost.sum(where=rows.capped),
    }


def expression(machine_samples: Any, machines: Any, reference: str = "nominal") -> Any:
    """Return sums by platform, cluster and UTC hour of the day."""
    rows = _windows(machine_samples, machines, reference)
    keys = ["platform", "cluster", "hour"]
    return rows.group_by(keys).agg(**_sums(rows)).order_by(keys)


def by_machine(machine_samples: Any, machines: Any, reference: str = "nominal") -> Any:
    """Return sums of the machines that lost cycles, those that lost most first."""
    rows = _windows(machine_samples, machines, reference)
    sums = rows.group_by(["machine", "cluster", "platform"]).agg(**_sums(rows))
    lost = sums.filter(sums.lost_cycles > 0)
    return lost.order_by([ibis.desc("lost_cycles"), "machine", "cluster"]).limit(MACHINES_AT_MOST)


@dataclass(frozen=True)
class Lost:
    """What some machines ran at and lost. Ratios are of the time of machines, or of the reference's
    cycles."""

    platform: str
    """Which platform."""
    cluster: str | None
    """Which cluster, None for all."""
    hour: int | None
    """Which hour of the day (UTC), None for all."""
    machine: str | None
    """Which machine, None for all."""
    frequency_hz: float | None
    """Effective, weighted by busy time."""
    reference_hz: float | None
    """The frequency that it is compared with."""
    below_ratio: float | None
    """Share of machine-hours below the reference."""
    capped_ratio: float | None
    """Share of machine-hours below it with power capped."""
    lost_cycles: float | None
    """Cycles lost."""
    lost_ratio: float | None
    """Cycles lost over those there would have been at the reference."""
    capped_cycles: float | None
    """Cycles lost with power capped."""
    capped_lost_ratio: float | None
    """These over the cycles there would have been."""
    machine_hours: float
    """Time of machines that the figures are of."""
    missing: str | None
    """Why there is no figure."""
    windows: int
    """Windows that were looked at."""
    no_frequency: int
    """Windows without a frequency."""
    no_reference: int
    """Windows without a reference."""


@dataclass(frozen=True)
class FrequencyResult:
    """Everything that ``steelyard fleet frequency`` answers."""

    KIND: ClassVar[str] = "fleet_frequency"

    reference: str
    """The reference: nominal, or another."""
    total: Lost
    """All machines."""
    platforms: tuple[Lost, ...]
    """By platform."""
    clusters: tuple[Lost, ...]
    """By platform and cluster."""
    hours: tuple[Lost, ...]
    """By platform and hour of the day (UTC)."""
    machines: tuple[Lost, ...]
    """The machines that lost most."""


def frequency_of_fleet(machine_samples: Any, machines: Any, reference: str = "nominal") -> FrequencyResult:
    """Return what was lost in all, by platform, cluster and hour, and by the machines that lost most.

    Raises UsageError for a reference of another name, or without samples.
    """
    if reference not in REFERENCES:
        raise UsageError(f"{reference!r} is no reference", hint=", ".join(REFERENCES))
    rows = fetch_rows(expression(machine_samples, machines, reference))
    if not rows:
        raise ResultSaysNoError(
            "the store has no machine samples", hint="agents and the simulator write them"
        )

    def grouped(*keys: str) -> tuple[Lost, ...]:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        return tuple(_lost(dict(zip(keys, key, strict=True)), groups[key]) for key in sorted(groups))

    worst = fetch_rows(by_machine(machine_samples, machines, reference))
    return FrequencyResult(
        reference=reference,
        total=_lost({"platform": "all"}, rows),
        platforms=grouped("platform"),
        clusters=grouped("platform", "cluster"),
        hours=grouped("platform", "hour"),
        machines=tuple(_lost(row, [row]) for row in worst),
    )


def _lost(key: dict[str, Any], rows: list[dict[str, Any]]) -> Lost:
    def total(name: str) -> float:
        return float(sum(row[name] or 0.0 for row in rows))

    windows, known = int(total("windows")), int(total("known_windows"))
    without, unbought = int(total("no_frequency")), int(total("no_reference"))
    machine_s, cpu_s, at_reference = total("machine_s"), total("cpu_s"), total("reference_cycles")
    missing = None
    if not known or not cpu_s or not at_reference:
        missing = "machines have no reference frequency"
        if without >= unbought:
            missing = "samples have neither a frequency nor cycles: no counters there"
        return Lost(
            key["platform"], key.get("cluster"), key.get("hour"), key.get("machine"),
            None, None, None, None, None, None, None, None, 0.0, missing, windows, without, unbought,
        )  # fmt: skip
    return Lost(
        platform=key["platform"],
        cluster=key.get("cluster"),
        hour=key.get("hour"),
        machine=key.get("machine"),
        frequency_hz=total("cycles") / cpu_s,
        reference_hz=at_reference / cpu_s,
        below_ratio=total("below_s") / machine_s,
        capped_ratio=total("capped_s") / machine_s,
        lost_cycles=total("lost_cycles"),
        lost_ratio=total("lost_cycles") / at_reference,
        capped_cycles=total("capped_cycles"),
        capped_lost_ratio=total("capped_cycles") / at_reference,
        machine_hours=machine_s / 3600,
        missing=None,
        windows=windows,
        no_frequency=without,
        no_reference=unbought,
    )
