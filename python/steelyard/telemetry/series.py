"""Time series for drawing: rates and gauges in buckets, each with its mean and its extremes.

In: a `SourceTable`, an interval and a number of points. Out: `Series`. A bucket's mean is weighted by time,
and its low and high are of the single intervals in it, so that thinning hides no peak.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis
import numpy as np
from numpy.typing import NDArray

from steelyard.telemetry.rates import Label
from steelyard.telemetry.tables import SourceTable, increments

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Band:
    """One column over time; NaN where it is missing. Counters are per second, gauges as they are."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class EntitySeries:
    """One entity's columns over the same times (middle of what each point covers, ns)."""

    entity: dict[str, Label]
    time_ns: NDArray[np.int64]
    bands: dict[str, Band]


@dataclass(frozen=True)
class Series:
    """Every entity of a source over time.

    ``bucket_ns`` is the width of a bucket. ``missing`` is why there is nothing at all.
    """

    source: str
    begin_ns: int
    end_ns: int
    bucket_ns: int
    entities: list[EntitySeries] = field(default_factory=list)
    units: dict[str, str | None] = field(default_factory=dict)
    missing: str | None = None

    def grid(self, column: str) -> tuple[NDArray[np.int64], Floats]:
        """Return the middles of all buckets and the means of ``column``: one row an entity, NaN for gaps."""
        count = max(1, -(-(self.end_ns - self.begin_ns) // self.bucket_ns))
        middles = self.begin_ns + self.bucket_ns * np.arange(count, dtype=np.int64) + self.bucket_ns // 2
        values = np.full((len(self.entities), count), np.nan)
        for index, entity in enumerate(self.entities):
            places = np.clip((entity.time_ns - self.begin_ns) // self.bucket_ns, 0, count - 1)
            values[index, places] = entity.bands[column].mean
        return middles, values


def compute(
    source: str,
    table: SourceTable,
    begin_ns: int,
    end_ns: int,
    columns: Sequence[str] | None,
    points: int,
    interval_ns: int,
) -> Series:
    """Return at most ``points`` points per entity for ``columns`` (all when None)."""
    span = max(1, end_ns - begin_ns)
    # Buckets narrower than the recording's own interval would only leave holes between the readings.
    bucket_ns = max(1, -(-span // max(1, points)), interval_ns)
    counters = [name for name in table.counters if columns is None or name in columns]
    gauges = [name for name in table.gauges if columns is None or name in columns]
    parts = []
    if counters:
        parts.append((counters, _counter_buckets(table, counters, begin_ns, end_ns, bucket_ns)))
    if gauges:
        parts.append((gauges, _gauge_buckets(table, gauges, begin_ns, end_ns, bucket_ns)))
    merged: dict[tuple[Label, ...], dict[int, dict[str, Any]]] = {}
    for _, rows in parts:
        for row in rows:
            key = tuple(row[label] for label in table.labels)
            merged.setdefault(key, {}).setdefault(row["bucket__"], {}).update(row)
    names = [name for part, _ in parts for name in part]
    entities = [
        _entity_series(dict(zip(table.labels, key, strict=True)), names, buckets)
        for key, buckets in sorted(merged.items(), key=lambda item: tuple(map(_sortable, item[0])))
    ]
    units = {name: table.columns[name].unit for name in names}
    missing = None if entities else "no reading falls within this interval"
    return Series(source, begin_ns, end_ns, bucket_ns, entities, units, missing)


def _sortable(part: Label) -> tuple[bool, int, str]:
    return (not isinstance(part, int), part if isinstance(part, int) else 0, str(part))


def _entity_series(
    entity: dict[str, Label], names: Sequence[str], buckets: dict[int, dict[str, Any]]
) -> EntitySeries:
    rows = [buckets[bucket] for bucket in sorted(buckets)]

    def values(key: str) -> Floats:
        return np.array(
            [np.nan if row.get(key) is None else float(row[key]) for row in rows], dtype=np.float64
        )

    times = np.array([(row["from__"] + row["to__"]) // 2 for row in rows], dtype=np.int64)
    bands = {
        name: Band(values(f"{name}__mean"), values(f"{name}__low"), values(f"{name}__high")) for name in names
    }
    return EntitySeries(entity, times, bands)


def _counter_buckets(
    table: SourceTable, counters: Sequence[str], begin_ns: int, end_ns: int, bucket_ns: int
) -> list[dict[str, Any]]:
    pairs = increments(table, counters, begin_ns, end_ns)
    middle = (pairs.begin_ns + pairs.end_ns) // 2
    pairs = pairs.mutate(
        bucket__=((middle - begin_ns) // bucket_ns).cast("int64"), span__=pairs.end_ns - pairs.begin_ns
    )
    # Two reads cannot share a time, but a recording's clock is material from outside: no division by zero.
    pairs = pairs.filter(pairs.span__ > 0)
    figures: dict[str, Any] = {"from__": pairs.begin_ns.min(), "to__": pairs.end_ns.max()}
    second = ibis.literal(1e9, "float64")
    for name in counters:
        gain = pairs[name].cast("float64")
        each = gain * second / pairs.span__
        figures[f"{name}__mean"] = gain.sum() * second / pairs.span__.sum(where=gain.notnull())
        figures[f"{name}__low"] = each.min()
        figures[f"{name}__high"] = each.max()
    rows: list[dict[str, Any]] = (
        pairs.group_by([*table.labels, "bucket__"]).aggregate(**figures).to_pyarrow().to_pylist()
    )
    return rows


def _gauge_buckets(
    table: SourceTable, gauges: Sequence[str], begin_ns: int, end_ns: int, bucket_ns: int
) -> list[dict[str, Any]]:
    rows = table.rows
    inside = rows.filter((rows.time_ns >= begin_ns) & (rows.time_ns <= end_ns))
    inside = inside.mutate(bucket__=((inside.time_ns.cast("int64") - begin_ns) // bucket_ns).cast("int64"))
    time = inside.time_ns.cast("int64")
    figures: dict[str, Any] = {"from__": time.min(), "to__": time.max()}
    for name in gauges:
        value = inside[name].cast("float64")
        figures[f"{name}__mean"] = value.mean()
        figures[f"{name}__low"] = value.min()
        figures[f"{name}__high"] = value.max()
    found: list[dict[str, Any]] = (
        inside.group_by([*table.labels, "bucket__"]).aggregate(**figures).to_pyarrow().to_pylist()
    )
    return found
