"""Moves rows that cannot be true, and the files of machines that flood the store, out of the tables.

In: a store and files of it. Out: ``STORE/quarantine/<table>/date=.../cluster=.../<file's name>`` with the
table's columns, the ``reason``, and the ``origin`` path. No query reads there.

Invariants: one file for each file that rows came from, of the same name, so that doing it again after a kill
changes nothing; a row is written here before it is taken from the table.

Not here: what cannot be true (``rules``), when rows are moved (``compact``).
"""

from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.fleet.layout import QUARANTINE, encode
from steelyard.fleet.listing import StoreFile
from steelyard.fleet.rules import rules_of
from steelyard.fleet.schema import TABLES
from steelyard.fleet.store import Store
from steelyard.telemetry.engine import fetch


def set_aside(store: Store, file: StoreFile, reason: str | None = None) -> int:
    """Copy the rows of ``file`` that break a rule to the quarantine; return how many there are.

    With ``reason`` all of its rows are copied, for that reason.
    """
    schema = TABLES[file.partition.table]
    rules = rules_of(schema.name, file.partition.date, file.written_unix_s)
    if reason is None and not rules.suspects(file.extremes):
        return 0
    rows = store.engine.source(store.place, schema, [file])
    because: Any = rules.reason_of(rows) if reason is None else ibis.literal(reason)
    bad = rows.mutate(reason=because)
    bad = bad.filter(bad.reason.notnull()).drop("date", "cluster")
    found = fetch(bad)
    if len(found):
        found = found.append_column("origin", pa.array([file.path] * len(found), pa.string()))
        sink = pa.BufferOutputStream()
        pq.write_table(found, sink, compression="zstd")
        store.place.write(place_of(file), sink.getvalue())
    return len(found)


def place_of(file: StoreFile) -> str:
    """Return where the rows of ``file`` are set aside."""
    partition = file.partition
    folder = f"{QUARANTINE}/{partition.table}/date={partition.date}/cluster={encode(partition.cluster)}"
    return f"{folder}/{file.name}"
