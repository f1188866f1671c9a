"""What was recorded beside runs over time, a row a reading: telemetry of the machine, and the load by second.

In: runs. Out: Arrow tables with the columns of `SCHEMA`, one a source. Counters are as the kernel counts them
(``count``, exact), other readings are in ``value``; of either, the other column is null. A source without
rows is in the list of what is missing, with the reason.

Not here: rates over a phase (``telemetry``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import WriteOptions, write_csv

from steelyard import telemetry
from steelyard._base import SteelyardError, UsageError
from steelyard.records import ColumnKind, IntervalRow, LoadResult, read
from steelyard.report.exports.runs import ExportedRun
from steelyard.telemetry import Recording
from steelyard.telemetry.engine import fetch

TIME = "time_ns"
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("benchmark", pa.string()),
        ("source", pa.string()),
        ("entity", pa.string()),
        ("name", pa.string()),
        ("unit", pa.string()),
        (TIME, pa.int64()),
        ("count", pa.uint64()),
        ("value", pa.float64()),
    ]
)
"""``time_ns`` is since 1970, as the run's clocks say; ``entity`` is a CPU, a disk, a process, or the phase
of a load."""
_LOAD = "load"


def series_of(one: ExportedRun, missing: list[str]) -> Iterator[pa.Table]:
    """Yield the tables of a run's sources; add to ``missing`` what has none, and why."""
    yield from _of_load(one, missing)
    try:
        recording = telemetry.open(one.folder)
    except SteelyardError as error:
        reason = "there is no recording" if isinstance(error, UsageError) else error.message
        missing.append(f"{one.run.run_id}: telemetry: {reason}")
        return
    with closing(recording):
        for source in recording.metadata.sources:
            absent = recording.missing(source.name)
            if absent is not None:
                missing.append(f"{one.run.run_id}: {source.name}: {absent}")
            else:
                yield from _of_source(one, recording, source.name)


def _of_source(one: ExportedRun, recording: Recording, source: str) -> Iterator[pa.Table]:
    table = recording.table(source)
    rows = fetch(table.rows)
    if TIME not in rows.column_names:
        return
    labels = [name for name in table.labels if name != TIME and name in rows.column_names]
    entity = _entity([rows[name] for name in labels], rows.num_rows)
    times = pc.add(pc.cast(rows[TIME], pa.int64()), one.realtime_ns(0))
    for name in (*table.counters, *table.gauges):
        column = table.columns[name]
        is_counter = column.kind is ColumnKind.COUNTER
        yield _table(one, source, name, column.unit, times, entity, rows[name], is_counter)


def _entity(labels: Sequence[pa.ChunkedArray], rows: int) -> pa.Array | pa.ChunkedArray:
    """Return the name of each row's CPU, disk or process: its labels, an empty text where it has none."""
    if not labels:
        return pa.array([""] * rows, pa.string())
    texts = [pc.fill_null(pc.cast(label, pa.string()), "") for label in labels]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " ")


def _of_load(one: ExportedRun, missing: list[str]) -> Iterator[pa.Table]:
    """Yield what the load counted and timed in each second."""
    if one.run.cpus.load is None and _LOAD not in one.run.artifacts:
        return
    try:
        load = read(LoadResult, one.folder / "load.json")
    except SteelyardError as error:
        missing.append(f"{one.run.run_id}: {_LOAD}: {error.message.replace(f'{one.folder}/', '')}")
        return
    times = pa.array([one.realtime_ns(row.end_ns) for row in load.series], pa.int64())
    entity = pa.array([row.phase for row in load.series], pa.string())
    for name in IntervalRow.model_fields:
        if name in _NOT_VALUES:
            continue
        unit = "ns" if name.endswith("_ns") else "bytes" if name.endswith("_bytes") else "1"
        values = pa.array([getattr(row, name) for row in load.series], pa.float64())
        yield _table(one, _LOAD, name, unit, times, entity, values, is_counter=False)


_NOT_VALUES = ("begin_ns", "end_ns", "phase")


def _table(
    one: ExportedRun,
    source: str,
    name: str,
    unit: str | None,
    times: pa.Array,
    entity: pa.Array,
    values: pa.Array,
    is_counter: bool,
) -> pa.Table:
    rows = len(values)

    def same(text: str | None) -> pa.Array:
        return pa.array([text] * rows, pa.string())

    counts, figures = pa.nulls(rows, pa.uint64()), pa.nulls(rows, pa.float64())
    if is_counter:
        counts = pc.cast(values, pa.uint64())
    else:
        figures = pc.cast(values, pa.float64(), safe=False)
    columns = [
        same(one.run.run_id),
        same(one.run.benchmark),
        same(source),
        entity,
        same(name),
        same(unit),
        times,
        counts,
        figures,
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def series_csv(table: pa.Table, *, head: bool) -> str:
    """Return a table of `series_of` as CSV; names in it are no formulas and have no control characters."""
    for name in ("benchmark", "entity"):
        texts = pc.replace_substring_regex(table[name], r"[[:cntrl:]]", " ")
        is_formula = pc.match_substring_regex(texts, r"^[=+\-@]")
        inert = pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)
        table = table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), inert)
    sink = pa.BufferOutputStream()
    write_csv(table, sink, WriteOptions(include_header=head))
    text: str = sink.getvalue().to_pybytes().decode()
    return text
