"""One source's table in either of the two forms a recorder leaves, and the Ibis expressions over it.

In: ``<source>.parquet``, or ``<source>.arrows`` of a recorder that was killed. Out: an Ibis table, the
meaning of its columns, and `increments`: what each counter gained between neighbouring readings.

Not here: which interval of time matters (``rates``, ``series``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard._base import RecordError
from steelyard.records import Column, ColumnKind
from steelyard.telemetry.arrays import integers
from steelyard.telemetry.deferred import ibis, memtable
from steelyard.telemetry.engine import keep

# Counters are unsigned 64-bit numbers and their differences must be exact.
_EXACT = "uint64"


@dataclass(frozen=True)
class SourceTable:
    """The rows of one source.

    ``rows`` is an Ibis table; the other fields name its columns by what they are. ``ranges`` maps a counter
    to the gauge that says where it wraps. ``kept`` holds the gains of all counters once they were asked for.
    """

    rows: Any
    columns: dict[str, Column]
    labels: tuple[str, ...]
    counters: tuple[str, ...]
    gauges: tuple[str, ...]
    ranges: dict[str, str]
    kept: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def read_stream(path: Path) -> pa.Table | None:
    """Return all complete batches of the Arrow stream ``path``, or None when not even its schema is there.

    A recorder that was killed leaves a stream without an end, and perhaps half a batch: what was flushed
    before is good.
    """
    batches: list[pa.RecordBatch] = []
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
            batches.extend(_complete_batches(stream))
            return pa.Table.from_batches(batches, schema=stream.schema)
    except (pa.ArrowInvalid, OSError):
        return None


def _complete_batches(stream: Any) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = stream.read_next_batch()
            # Arrow believes a stream; an engine that follows an offset to where nothing is ends the process.
            batch.validate(full=True)
        except (StopIteration, pa.ArrowInvalid, OSError):
            return
        yield batch


def parquet_schema(path: Path) -> pa.Schema | None:
    """Return the schema of a complete Parquet file; None when there is none, or no footer yet."""
    if not path.is_file():
        return None
    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError):
        return None


def columns_of(schema: pa.Schema, declared: Sequence[Column], where: str) -> dict[str, Column]:
    """Return the meaning of every column of ``schema``.

    ``telemetry.json`` says it (``declared``); a recording whose metadata was cut short is read by the
    ``unit`` and ``kind`` that the fields themselves carry. Raises RecordError for a column without either.
    """
    by_name = {column.name: column for column in declared}
    return {field.name: by_name.get(field.name) or _from_metadata(field, where) for field in schema}


def _from_metadata(field: pa.Field, where: str) -> Column:
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    try:
        kind = ColumnKind(metadata.get("kind", ""))
    except ValueError as error:
        raise RecordError(
            f"{where}: no metadata of the column {field.name!r} is",
            hint="record again with this version's steelyard-probe",
        ) from error
    return Column(name=field.name, kind=kind, unit=metadata.get("unit"), missing=metadata.get("missing"))


def describe(rows: Any, schema: pa.Schema, columns: dict[str, Column]) -> SourceTable:
    """Return ``rows``, whose columns are those of ``schema``, with its columns sorted by what they are."""

    def of(kind: ColumnKind) -> tuple[str, ...]:
        return tuple(name for name, column in columns.items() if column.kind is kind)

    # A gauge of words, such as the state of a thread, has no figures.
    gauges = tuple(name for name in of(ColumnKind.GAUGE) if _is_number(schema.field(name).type))
    ranges = {
        counter: gauge
        for counter in of(ColumnKind.COUNTER)
        for gauge in [_wrap_name(counter)]
        if gauge in gauges
    }
    return SourceTable(rows, columns, of(ColumnKind.LABEL), of(ColumnKind.COUNTER), gauges, ranges)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def beside(rows: Any, **values: int) -> Any:
    """Return ``rows`` with ``values`` as columns: SQL that holds the numbers of a run serves no other run."""
    row = {name: integers([int(value)]) for name, value in values.items()}
    return rows.cross_join(memtable(pa.table(row)))


def within(rows: Any, begin_ns: int, end_ns: int) -> Any:
    """Return the readings that were made from ``begin_ns`` to ``end_ns``, both included."""
    both = beside(rows, span_begin_ns=begin_ns, span_end_ns=end_ns)
    inside = both.filter((both.time_ns >= both.span_begin_ns) & (both.time_ns <= both.span_end_ns))
    return inside.drop("span_begin_ns", "span_end_ns")


def mostly_within(begin_ns: int, end_ns: int, span_begin_ns: float, span_end_ns: float) -> bool:
    """Return whether at least half of the interval between two readings lies within a span.

    Readings seldom fall on the ends of a span. Without the intervals that straddle them, what a program
    does last would be lost; so each belongs to the span that has most of it, with its whole length.

    >>> mostly_within(0, 10, 4, 100), mostly_within(0, 10, 6, 100), mostly_within(0, 10, 3, 6)
    (True, False, False)
    """
    before_ns, after_ns = max(0, span_begin_ns - begin_ns), max(0, end_ns - span_end_ns)
    return 2 * (before_ns + after_ns) <= end_ns - begin_ns > 2 * after_ns


def intervals_within(rows: Any, begin_ns: int, end_ns: int) -> Any:
    """Return the intervals, rows with ``begin_ns`` and ``end_ns``, that are `mostly_within` the span."""
    both = beside(rows, span_begin_ns=begin_ns, span_end_ns=end_ns)
    length_ns = both.end_ns - both.begin_ns
    before_ns = ibis.greatest(0, both.span_begin_ns - both.begin_ns)
    after_ns = ibis.greatest(0, both.end_ns - both.span_end_ns)
    inside = both.filter((2 * (before_ns + after_ns) <= length_ns) & (2 * after_ns < length_ns))
    return inside.drop("span_begin_ns", "span_end_ns")


def _wrap_name(counter: str) -> str:
    """Return the gauge that tells where ``counter`` wraps.

    >>> _wrap_name("energy_uj")
    'energy_max_uj'
    """
    stem, _, unit = counter.rpartition("_")
    return f"{stem}_max_{unit}"


def increments(table: SourceTable, counters: Sequence[str], begin_ns: int, end_ns: int) -> Any:
    """Return one row per entity and pair of neighbouring readings that lie mostly within the span.

    Columns: the labels, ``begin_ns`` and ``end_ns`` of the interval, and each counter's gain (exact). A gain
    is null where a reading is missing or the counter fell, unless the table says where it wraps: then a fall
    is one wrap. ``<counter>__reset`` is 1 where it fell without such a range.
    """
    if "gains" not in table.kept and set(counters) >= set(table.counters):
        # A reader of all of them is rarely the only one: the sorting is done once, in the engine.
        table.kept["gains"] = keep(_gains(table, table.rows, table.counters))
    gains = table.kept.get("gains")
    if gains is None:
        gains = _gains(table, table.rows, counters)
    return intervals_within(gains, begin_ns, end_ns)


def _gains(table: SourceTable, rows: Any, counters: Sequence[str]) -> Any:
    window = ibis.window(group_by=list(table.labels), order_by=rows.time_ns)
    before = rows.mutate(
        _before_ns=rows.time_ns.lag().over(window),
        **{f"_before_{name}": rows[name].lag().over(window) for name in counters},
    )
    pairs = before.filter(before._before_ns.notnull())
    gains: dict[str, Any] = {}
    nothing = ibis.null(_EXACT)
    for name in counters:
        now, then = (pairs[column].cast(_EXACT) for column in (name, f"_before_{name}"))
        # Unsigned numbers must not go below 0 on the way, not even in rows that are left out afterwards.
        gain = ibis.greatest(now, then) - then
        # A comparison with a reading that is missing is neither, so that its gain is null and no reset.
        if name not in table.ranges:
            gains[name] = ibis.ifelse(now >= then, gain, nothing)
            gains[f"{name}__reset"] = ibis.ifelse(now < then, 1, 0)
            continue
        fall = then - ibis.least(now, then)
        wraps_at = pairs[table.ranges[name]].cast(_EXACT)
        # A range smaller than the fall is not this counter's range; the interval stays missing.
        wrapped = ibis.ifelse(wraps_at >= fall, ibis.greatest(wraps_at, fall) - fall, nothing)
        gains[name] = ibis.cases((now >= then, gain), (now < then, wrapped), else_=nothing)
        gains[f"{name}__reset"] = ibis.ifelse((now < then) & wrapped.isnull(), 1, 0)
    return pairs.select(
        *table.labels,
        begin_ns=pairs._before_ns.cast("int64"),
        end_ns=pairs.time_ns.cast("int64"),
        **gains,
    )
