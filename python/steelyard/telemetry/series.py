"""Time series for drawing: rates and gauges in buckets, each with its mean and its extremes.

In: a `SourceTable`, an interval and a number of points. Out: `Series`. A bucket's mean is weighted by time,
and its low and high are of the single intervals in it, so that thinning hides no peak.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, floats, integers
from steelyard.telemetry.rates import Label
from steelyard.telemetry.tables import SourceTable, beside, increments, within

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
    parts: list[dict[_Key, _Buckets]] = []
    if counters:
        rows = _counter_buckets(table, counters, begin_ns, end_ns, bucket_ns)
        parts.append(_by_entity(rows, table.labels, counters))
    if gauges:
        rows = _gauge_buckets(table, gauges, begin_ns, end_ns, bucket_ns)
        parts.append(_by_entity(rows, table.labels, gauges))
    keys = sorted({key for part in parts for key in part}, key=lambda key: tuple(map(_sortable, key)))
    names = [*counters, *gauges]
    entities = [
        _entity_series(
            dict(zip(table.labels, key, strict=True)), names, [part[key] for part in parts if key in part]
        )
        for key in keys
    ]
    units = {name: table.columns[name].unit for name in names}
    missing = None if entities else "no reading falls within this interval"
    return Series(source, begin_ns, end_ns, bucket_ns, entities, units, missing)


_Key = tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Some columns of one entity: the number of each bucket, the times it covers, and figures by column."""

    number: NDArray[np.int64]
    from_ns: NDArray[np.int64]
    to_ns: NDArray[np.int64]
    bands: dict[str, Band]


def _sortable(part: Label) -> tuple[bool, int, str]:
    return (not isinstance(part, int), part if isinstance(part, int) else 0, str(part))


def _by_entity(rows: pa.Table, labels: Sequence[str], names: Sequence[str]) -> dict[_Key, _Buckets]:
    """Return the buckets of each entity of ``rows``, which are in the order of labels and buckets."""
    if not rows.num_rows:
        return {}
    keys = list(zip(*(rows[label].to_pylist() for label in labels), strict=True)) or [()] * rows.num_rows
    starts = [0, *(at for at in range(1, len(keys)) if keys[at] != keys[at - 1])]
    spans = [slice(start, end) for start, end in zip(starts, [*starts[1:], len(keys)], strict=True)]
    number, from_ns, to_ns = (integers(rows[f"{name}__"]) for name in ("bucket", "from", "to"))
    figures = {name: [floats(rows[f"{name}__{part}"]) for part in ("mean", "low", "high")] for name in names}
    return {
        keys[span.start]: _Buckets(
            number[span],
            from_ns[span],
            to_ns[span],
            {name: Band(*(values[span] for values in parts)) for name, parts in figures.items()},
        )
        for span in spans
    }


def _entity_series(entity: dict[str, Label], names: Sequence[str], parts: Sequence[_Buckets]) -> EntitySeries:
    """Return the parts of an entity on the buckets that any of them has."""
    numbers = np.unique(np.concatenate([part.number for part in parts]))
    gap = np.full(len(numbers), np.nan)
    bands = {name: Band(gap, gap, gap) for name in names}
    from_ns, to_ns = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    for part in parts:
        places = np.searchsorted(numbers, part.number)
        from_ns[places], to_ns[places] = part.from_ns, part.to_ns

        def spread(values: Floats, places: NDArray[np.int64] = places) -> Floats:
            whole = gap.copy()
            whole[places] = values
            return whole

        for name, band in part.bands.items():
            bands[name] = Band(spread(band.mean), spread(band.low), spread(band.high))
    return EntitySeries(entity, (from_ns + to_ns) // 2, bands)


def _counter_buckets(
    table: SourceTable, counters: Sequence[str], begin_ns: int, end_ns: int, bucket_ns: int
) -> pa.Table:
    pairs = increments(table, counters, begin_ns, end_ns)
    pairs = beside(pairs, origin__=begin_ns, width__=bucket_ns)
    middle = (pairs.begin_ns + pairs.end_ns) // 2
    pairs = pairs.mutate(
        bucket__=((middle - pairs.origin__) // pairs.width__).cast("int64"),
        span__=pairs.end_ns - pairs.begin_ns,
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
    return _ordered(table, pairs, figures)


def _gauge_buckets(
    table: SourceTable, gauges: Sequence[str], begin_ns: int, end_ns: int, bucket_ns: int
) -> pa.Table:
    inside = beside(within(table.rows, begin_ns, end_ns), origin__=begin_ns, width__=bucket_ns)
    time = inside.time_ns.cast("int64")
    inside = inside.mutate(bucket__=((time - inside.origin__) // inside.width__).cast("int64"))
    time = inside.time_ns.cast("int64")
    figures: dict[str, Any] = {"from__": time.min(), "to__": time.max()}
    for name in gauges:
        value = inside[name].cast("float64")
        figures[f"{name}__mean"] = value.mean()
        figures[f"{name}__low"] = value.min()
        figures[f"{name}__high"] = value.max()
    return _ordered(table, inside, figures)


def _ordered(table: SourceTable, rows: Any, figures: dict[str, Any]) -> pa.Table:
    keys = [*table.labels, "bucket__"]
    return fetch(rows.group_by(keys).aggregate(**figures).order_by(keys))
