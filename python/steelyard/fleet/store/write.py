"""Writes rows into a store: one Parquet file a call, named by its content.

In: an Arrow table with a table's columns. Out: the path of the file. Invariants: a file appears whole or not
at all; the same rows give the same file, so that writing twice changes nothing; strings are
dictionary-encoded, every file says its table and version.

Not here: reading (``store``), joining small files (``compact``).
"""

import functools
import hashlib
import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard._base import RecordError, UsageError
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.layout import MARKER, Partition, check_date, compact_name, raw_name
from steelyard.fleet.store.listing import INPUTS_KEY, RULES_KEY
from steelyard.fleet.store.row_checks import MACRO, not_finite, row_rules, voucher
from steelyard.fleet.store.schema import KIND, SCHEMA_VERSION, TABLES, TableSchema
from steelyard.telemetry.engine import duckdb

ROW_GROUP_ROWS = 1_000_000
"""Rows of one row group: what one thread of an engine takes at a time."""


def create_store(url: str) -> Place:
    """Make ``url`` a store where it is none yet, and return its place."""
    place = Place(url)
    if not place.exists(MARKER):
        document = json.dumps({"schema_version": SCHEMA_VERSION, "kind": KIND}) + "\n"
        place.write(MARKER, document.encode())
    return place


@functools.lru_cache(maxsize=16)
def _created(url: str) -> Place:
    return create_store(url)


def write_rows(
    url: str,
    table: str,
    rows: pa.Table,
    *,
    cluster: str,
    date: str,
    machine: str,
    compression: str = "zstd",
    row_group_rows: int = ROW_GROUP_ROWS,
    sort: bool = True,
) -> str:
    """Write ``rows`` of one ``machine`` (or whoever uploads) and day; return the file's path in the store.

    The store is made where there is none. Columns may stand in any order; a nullable one may be absent.
    ``sort=False`` says that the rows are in order of time already. Raises UsageError for columns that do not
    fit the table, EnvironmentLacksError where the place cannot be written.
    """
    schema = table_schema(table)
    fitted = fit(rows, schema)
    if sort and schema.time is not None:
        fitted = fitted.sort_by(schema.time)
    first = 0
    if schema.time is not None and len(fitted):
        first = fitted[schema.time][0].as_py()
    content = encode_rows(fitted, schema, compression=compression, row_group_rows=row_group_rows)
    name = raw_name(machine, first, digest(content))
    return put(_created(url), Partition(table, check_date(date), cluster), name, content)


def write_compacted(
    url: str, table: str, rows: pa.Table, *, cluster: str, date: str, inputs: Sequence[str] = ()
) -> str:
    """Write ``rows`` of a whole day and cluster as a compacted file that holds the raw files ``inputs``.

    Rows are sorted as the table says. For writers of large files: the simulator, ``fleet compact``.
    """
    schema = table_schema(table)
    fitted = fit(rows, schema).sort_by([(name, "ascending") for name in schema.sort])
    content = encode_rows(fitted, schema, inputs=inputs, vouched=_keeps_rules(fitted, schema))
    return put(
        _created(url), Partition(table, check_date(date), cluster), compact_name(digest(content)), content
    )


def _keeps_rules(rows: pa.Table, schema: TableSchema) -> bool:
    """Return whether no row breaks a rule, and every figure is finite: readers need not look then."""
    wrong = [f"{row_rules(schema.name).reason_of()} IS NOT NULL"]
    wrong += [not_finite(c.name) for c in schema.columns if c.type == "double" and c.nullable]
    with duckdb().connect() as connection:
        connection.execute(MACRO)
        connection.register("written", rows)
        broken = connection.execute(f"SELECT count(*) FROM written WHERE {' OR '.join(wrong)}")  # noqa: S608
        row = broken.fetchone()
    return bool(row == (0,))


def table_schema(name: str) -> TableSchema:
    """Return the schema of the table ``name``. Raises UsageError when there is none."""
    try:
        return TABLES[name]
    except KeyError:
        raise UsageError(f"a store has no table {name!r}", hint=f"it has {', '.join(TABLES)}") from None


def fit(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Return ``rows`` with exactly the columns of ``schema``; absent nullable ones are null.

    Raises UsageError for columns that do not fit, RecordError for values that a store must not hold.
    """
    unknown = [name for name in rows.column_names if name not in schema.by_name]
    if unknown:
        raise UsageError(f"{schema.name} has no column {unknown[0]!r}", hint="see docs/reference/store.md")
    columns = []
    for field in schema.arrow:
        if field.name not in rows.column_names:
            if not field.nullable:
                raise UsageError(f"{schema.name}: the column {field.name} is missing")
            columns.append(pa.nulls(len(rows), field.type))
            continue
        column = rows[field.name]
        if not field.nullable and column.null_count:
            raise RecordError(f"{schema.name}: {column.null_count} rows without {field.name}")
        try:
            fitted = column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UsageError(f"{schema.name}: {field.name} is no {field.type}: {error}") from error
        if pa.types.is_floating(field.type) and (wrong := pc.sum(pc.is_nan(fitted)).as_py()):
            # Footers do not tell of these, so that a reader would have to look at every row.
            raise RecordError(
                f"{schema.name}: {wrong} rows in which {field.name} is no number (missing is null)"
            )
        columns.append(fitted)
    return pa.Table.from_arrays(columns, schema=schema.arrow)


def encode_rows(
    rows: pa.Table,
    schema: TableSchema,
    *,
    inputs: Sequence[str] = (),
    compression: str = "zstd",
    row_group_rows: int = ROW_GROUP_ROWS,
    vouched: bool = False,
) -> pa.Buffer:
    """Return ``rows`` (fitted) as the bytes of a Parquet file; ``vouched`` says that none breaks a rule."""
    words = dict(schema.arrow.metadata or {})
    if vouched:
        words[RULES_KEY] = voucher(schema.name).encode()
    if inputs:
        words[INPUTS_KEY] = json.dumps(list(inputs)).encode()
    sink = pa.BufferOutputStream()
    texts = [column.name for column in schema.columns if column.type == "string"]
    with pq.ParquetWriter(
        sink,
        schema.arrow.with_metadata(words),
        compression=compression,
        use_dictionary=[*texts, "labels.key_value.key", "labels.key_value.value"],
    ) as writer:
        writer.write_table(rows.replace_schema_metadata(words), row_group_size=row_group_rows)
    return sink.getvalue()


def digest(content: bytes | pa.Buffer) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def put(place: Place, partition: Partition, name: str, content: bytes | pa.Buffer) -> str:
    """Write ``content`` as the file ``name`` of ``partition``; return its path in the store."""
    path = f"{partition.path}/{name}"
    place.write(path, content)
    return path
