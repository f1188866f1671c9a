"""Rates of counters and figures of gauges over one interval of time, per entity.

In: a `SourceTable` and an interval. Out: `Rates`. A rate is the counter's gain over the time in which the
gain is known, so a reset or a missing reading shortens the time instead of bending the rate.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.telemetry.engine import fetch_rows
from steelyard.telemetry.tables import SourceTable, increments, within

Label = str | int
"""What names an entity: a CPU's number, a device, a path."""


@dataclass(frozen=True)
class Rate:
    """How fast one counter of one entity rose.

    ``per_s`` and ``increment`` are in the counter's unit; both are None when no interval is known, and then
    ``missing`` says why. ``covered_ns`` is the time that the increment was gained in.
    """

    per_s: float | None
    increment: int | None
    covered_ns: int
    resets: int
    missing: str | None = None


@dataclass(frozen=True)
class Gauge:
    """One gauge of one entity over the interval: plain mean of its readings, extremes, and the last."""

    mean: float | None
    low: float | None
    high: float | None
    last: float | None
    missing: str | None = None


@dataclass(frozen=True)
class EntityRates:
    """What one entity did. ``entity`` maps label to value and is empty where a source has but one entity."""

    entity: dict[str, Label]
    rates: dict[str, Rate]
    gauges: dict[str, Gauge]


@dataclass(frozen=True)
class Rates:
    """What every entity of a source did between ``begin_ns`` and ``end_ns``.

    ``missing`` is why there is nothing at all, None when there is something.
    """

    source: str
    begin_ns: int
    end_ns: int
    entities: list[EntityRates] = field(default_factory=list)
    units: dict[str, str | None] = field(default_factory=dict)
    missing: str | None = None

    def only(self) -> EntityRates | None:
        """Return the entity of a source that has one; None when there is nothing.

        Raises ValueError when the source has several.
        """
        if len(self.entities) > 1:
            raise ValueError(f"{self.source} has {len(self.entities)} entities")
        return self.entities[0] if self.entities else None

    def total(self, column: str, keep: Iterable[EntityRates] | None = None) -> float | None:
        """Return the sum of a counter's rates over ``keep`` (all by default), None when none is known."""
        entities = self.entities if keep is None else keep
        known = [entity.rates[column].per_s for entity in entities if column in entity.rates]
        values = [value for value in known if value is not None]
        return sum(values) if values else None


def compute(
    source: str, table: SourceTable, begin_ns: int, end_ns: int, columns: Sequence[str] | None
) -> Rates:
    """Return the rates of ``columns`` (all when None) of every entity over the interval."""
    counters = [name for name in table.counters if columns is None or name in columns]
    gauges = [name for name in table.gauges if columns is None or name in columns]
    by_entity: dict[tuple[Label, ...], tuple[dict[str, Rate], dict[str, Gauge]]] = {}
    for row in _gauge_rows(table, gauges, begin_ns, end_ns):
        by_entity[_entity(table, row)] = ({}, {name: _gauge(table, name, row) for name in gauges})
    if counters:
        for row in _counter_rows(table, counters, begin_ns, end_ns):
            rates = by_entity.setdefault(_entity(table, row), ({}, {}))[0]
            rates.update({name: _rate(table, name, row) for name in counters})
    lone = Rate(None, None, 0, 0, "fewer than two readings in this interval")
    entities = [
        EntityRates(
            dict(zip(table.labels, key, strict=True)),
            rates or dict.fromkeys(counters, lone),
            figures,
        )
        for key, (rates, figures) in sorted(by_entity.items(), key=lambda item: _order(item[0]))
    ]
    units = {name: table.columns[name].unit for name in (*counters, *gauges)}
    missing = None if entities else "no reading falls within this interval"
    return Rates(source, begin_ns, end_ns, entities, units, missing)


def _order(key: tuple[Label, ...]) -> tuple[tuple[bool, int, str], ...]:
    """Order CPUs by number and names by letter, absent labels first."""
    return tuple(
        (not isinstance(part, int), part if isinstance(part, int) else 0, "" if part is None else str(part))
        for part in key
    )


def _entity(table: SourceTable, row: dict[str, Any]) -> tuple[Label, ...]:
    return tuple(row[label] for label in table.labels)


def _counter_rows(
    table: SourceTable, counters: Sequence[str], begin_ns: int, end_ns: int
) -> list[dict[str, Any]]:
    pairs = increments(table, counters, begin_ns, end_ns)
    span = pairs.end_ns - pairs.begin_ns
    sums: dict[str, Any] = {}
    for name in counters:
        known = pairs[name].notnull()
        sums[name] = pairs[name].sum()
        sums[f"{name}__covered"] = span.sum(where=known)
        sums[f"{name}__resets"] = pairs[f"{name}__reset"].sum()
    grouped = pairs.group_by(list(table.labels)) if table.labels else pairs
    rows = fetch_rows(grouped.aggregate(**sums))
    # Without labels an aggregate over nothing still gives a row; its sums are null.
    return [row for row in rows if table.labels or row[f"{counters[0]}__resets"] is not None]


def _gauge_rows(
    table: SourceTable, gauges: Sequence[str], begin_ns: int, end_ns: int
) -> list[dict[str, Any]]:
    inside = within(table.rows, begin_ns, end_ns)
    figures: dict[str, Any] = {"readings__": inside.count()}
    for name in gauges:
        value = inside[name]
        figures[f"{name}__mean"] = value.mean()
        figures[f"{name}__low"] = value.min()
        figures[f"{name}__high"] = value.max()
        figures[f"{name}__last"] = value.argmax(inside.time_ns)
    grouped = inside.group_by(list(table.labels)) if table.labels else inside
    return [row for row in fetch_rows(grouped.aggregate(**figures)) if row["readings__"] > 0]


def _rate(table: SourceTable, name: str, row: dict[str, Any]) -> Rate:
    gained, covered, resets = row[name], int(row[f"{name}__covered"] or 0), int(row[f"{name}__resets"] or 0)
    if gained is None or covered <= 0:
        reason = table.columns[name].missing
        if reason is None:
            reason = "the counter was reset in every interval" if resets else "no two neighbouring readings"
        return Rate(None, None, 0, resets, reason)
    return Rate(int(gained) * 1e9 / covered, int(gained), covered, resets)


def _gauge(table: SourceTable, name: str, row: dict[str, Any]) -> Gauge:
    mean = row[f"{name}__mean"]
    if mean is None:
        reason = table.columns[name].missing or "no reading succeeded"
        return Gauge(None, None, None, None, reason)
    low, high, last = (float(row[f"{name}__{part}"]) for part in ("low", "high", "last"))
    return Gauge(float(mean), low, high, last)
