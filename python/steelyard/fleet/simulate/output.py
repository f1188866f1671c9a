"""Writes a simulated store's files, laid out as agents and ``fleet compact`` do.

In: tables in order. Out: files in the store and their sizes. Strings reach the file from their dictionaries
without being spread out first, which is most of the speed; a file's schema is the store's all the same.

Invariants: names follow from content (``layout``); a file appears whole or not at all.
"""

from __future__ import annotations

import datetime

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.fleet.store.files import Place
from steelyard.fleet.store.layout import Partition, compact_name, raw_name
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.write import digest, put

ROW_GROUP_ROWS = 250_000
_BATCH_ROWS = 65_536
_STEADY = (
    "window_s",
    "window_start_unix_s",
    "hz",
    "sampled_ratio",
    "threads",
    "cores",
    "power_cap_w",
    "throttled_s",
    "steal_s",
)


def encode(table: str, rows: pa.Table, compression: str) -> pa.Buffer:
    """Return rows, whose columns stand in the table's order, as the bytes of a Parquet file."""
    schema = TABLES[table].arrow
    fields = [
        pa.field(field.name, rows.schema.field(field.name).type, nullable=field.nullable) for field in schema
    ]
    words = [column.name for column in TABLES[table].columns if column.type == "string"]
    steady = [name for name in _STEADY if name in schema.names]
    labels = ["labels.key_value.key", "labels.key_value.value"] if "labels" in schema.names else []
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        pa.schema(fields, metadata=schema.metadata),
        compression=compression,
        use_dictionary=[*words, *steady, *labels],
        store_schema=False,
        write_batch_size=_BATCH_ROWS,
    ) as writer:
        writer.write_table(rows.cast(writer.schema), row_group_size=ROW_GROUP_ROWS)
        # Without Arrow's own schema, which would tell of dictionaries, the words are not written by
        # themselves.
        writer.add_key_value_metadata(schema.metadata)
    return sink.getvalue()


class Output:
    """Where a simulation writes to."""

    def __init__(self, place: Place, compression: str) -> None:
        self.place = place
        self.compression = compression

    def compact(self, table: str, rows: pa.Table, *, date: datetime.date, cluster: str) -> tuple[int, int]:
        """Write a compacted file; return its rows and bytes."""
        content = encode(table, rows, self.compression)
        name = compact_name(digest(content))
        put(self.place, Partition(table, date.isoformat(), cluster), name, content)
        return len(rows), len(content)

    def raw(
        self,
        table: str,
        rows: pa.Table,
        *,
        date: datetime.date,
        cluster: str,
        machine: str,
        first_unix_s: int,
    ) -> tuple[int, int]:
        """Write one machine's upload; return its rows and bytes."""
        content = encode(table, rows, self.compression)
        name = raw_name(machine, first_unix_s, digest(content))
        put(self.place, Partition(table, date.isoformat(), cluster), name, content)
        return len(rows), len(content)
