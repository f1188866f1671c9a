"""Imports any CSV (or Parquet) by a mapping file, which says what its columns are.

    table = "task_samples"                                   # a table of the store
    [columns]
    machine = "host"                                         # a column of the file, as it is
    cpu_s = { column = "cpu_ms", scale = 0.001 }             # times a factor
    window_start_unix_s = { column = "when", time = "ms" }   # s, ms, us, ns, or text as ISO 8601 (UTC)
    job_class = { value = "batch" }                          # the same in every row
    [labels]
    version = "build"                                        # a label from a column

Columns that the mapping leaves out are null; those that the table requires must be named. Fields that cannot
be read as the column's type are missing, and counted with their column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis

from steelyard._base import RecordError, UsageError
from steelyard._base.toml import read_toml, table_in
from steelyard.fleet.importers.batches import UNREAD, Imported, Reader, find, must, unpacked, write
from steelyard.fleet.store.schema import StoreColumn, TableSchema
from steelyard.fleet.store.write import table_schema

_TIMES = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_INTEGERS_BELOW = 9.2e18
_KEYS = {"column", "scale", "time", "value"}


@dataclass(frozen=True)
class Mapping:
    """A mapping file that was checked."""

    path: Path
    table: TableSchema
    columns: dict[str, dict[str, Any]]
    labels: dict[str, str]
    delimiter: str


def read_mapping(path: Path) -> Mapping:
    """Read and check ``path``. Raises UsageError that names what is wrong."""
    try:
        document = read_toml(path)
        tables = {key: table_in(document, key, path) for key in ("columns", "labels")}
    except RecordError as error:
        raise UsageError(error.message) from error
    unknown = document.keys() - {"table", "columns", "labels", "delimiter"}
    if unknown:
        raise UsageError(f"{path}: {min(unknown)!r} means nothing", hint="table, columns, labels, delimiter")
    schema = table_schema(str(document.get("table", "task_samples")))
    columns = {}
    for key, entry in tables["columns"].items():
        name = schema.today(key)
        if name not in schema.by_name or "<" in schema.by_name[name].type:
            raise UsageError(f"{path}: {schema.name} has no column {name!r} of one value")
        columns[name] = _checked(path, name, {"column": entry} if isinstance(entry, str) else entry)
    for column in schema.columns:
        if not column.nullable and column.name not in columns and column.type != "map<string,string>":
            raise UsageError(f"{path}: {schema.name} requires {column.name}, which [columns] does not name")
    labels = {str(name): str(column) for name, column in tables["labels"].items()}
    return Mapping(path, schema, columns, labels, str(document.get("delimiter", ",")))


def _checked(path: Path, name: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict) or not entry.keys() <= _KEYS or ("column" in entry) == ("value" in entry):
        raise UsageError(f"{path}: {name} needs a column or a value", hint="see docs/reference/store.md")
    if entry.get("time") not in (None, "iso", *_TIMES):
        raise UsageError(f"{path}: {name}: time is {entry['time']!r}, not s, ms, us, ns or iso")
    if not isinstance(entry.get("scale", 1.0), int | float):
        raise UsageError(f"{path}: {name}: scale is no number")
    return entry


def import_csv(
    inputs: Sequence[Path], store: str, mapping: Mapping, *, cluster: str = "imported"
) -> Imported:
    """Import every file of ``inputs`` (CSV with a header, or Parquet) as ``mapping`` says."""
    done = Imported("csv")
    paths = must(find(inputs), "file", inputs)
    with Reader() as reader:
        for path in paths:
            is_parquet = path.name.endswith(".parquet")
            rows = reader.parquet([path]) if is_parquet else reader.csv_with_header([path], mapping.delimiter)
            shaped = _shape(rows, mapping, path)
            uploader = f"csv.{unpacked(path)}"
            write(store, mapping.table.name, shaped, cluster=cluster, uploader=uploader, done=done)
    return done


def _shape(rows: Any, mapping: Mapping, path: Path) -> Any:
    named = [entry["column"] for entry in mapping.columns.values() if "column" in entry]
    for column in [*named, *mapping.labels.values()]:
        if column not in rows.columns:
            raise UsageError(f"{path}: no column {column!r}", hint=f"it has {', '.join(rows.columns[:20])}")
    shaped = {
        name: _value(rows, entry, mapping.table.by_name[name]) for name, entry in mapping.columns.items()
    }
    shaped |= _unread(rows, mapping, shaped)
    if "labels" in mapping.table.by_name:
        names = list(mapping.labels)
        values = [rows[column].cast("string") for column in mapping.labels.values()]
        # Typed for the case without labels, whose types are not known.
        keys = ibis.literal(names, "array<string>")
        shaped["labels"] = ibis.map(keys, ibis.array(values) if values else ibis.literal([], "array<string>"))
    return rows.select(**shaped)


def _unread(rows: Any, mapping: Mapping, shaped: dict[str, Any]) -> dict[str, Any]:
    """Return columns of what stands in the file and gave no value, one for each column of the file."""
    found: dict[str, Any] = {}
    for name, entry in mapping.columns.items():
        column = entry.get("column")
        if column is None or f"{UNREAD}{column}" in found or mapping.table.by_name[name].type == "string":
            continue
        text = rows[column].cast("string")
        is_lost = text.notnull() & (text.strip() != "") & shaped[name].isnull()
        found[f"{UNREAD}{column}"] = ibis.ifelse(is_lost, text, ibis.null("string"))
    return found


def _whole(number: Any) -> Any:
    """Return the whole part of a number; null for what no integer of 64 bits holds, such as NaN."""
    return ibis.ifelse(number.abs() < _INTEGERS_BELOW, number, ibis.null("float64")).floor().cast("int64")


def _value(rows: Any, entry: dict[str, Any], column: StoreColumn) -> Any:
    kind = {"string": "string", "int64": "int64", "double": "float64", "bool": "boolean"}[column.type]
    if "value" in entry:
        try:
            return ibis.literal(entry["value"], kind)
        except TypeError as error:
            raise UsageError(f"{column.name}: {entry['value']!r} is no {column.type}") from error
    value = rows[entry["column"]]
    time = entry.get("time")
    if time == "iso":
        return _seconds(value)
    if column.type in ("string", "bool"):
        return value.try_cast(kind)
    factor = float(entry.get("scale", 1.0)) / _TIMES.get(time or "s", 1)
    if factor == 1.0 and column.type == "int64":
        return ibis.coalesce(value.try_cast("int64"), _whole(value.try_cast("float64")))
    number = value.try_cast("float64") * factor
    if column.type == "int64":
        return _whole(number)
    # What is no number is missing, whether its text says so or not.
    return ibis.ifelse(number.isnan() | number.isinf(), ibis.null("float64"), number)


def _seconds(value: Any) -> Any:
    """Return the Unix time of ISO 8601 text, taken for UTC unless it names another zone."""
    return value.try_cast("timestamp('UTC')").epoch_seconds().cast("int64")
