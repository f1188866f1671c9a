"""Moves rows that cannot be true, and the files of machines that flood the store, out of the tables.

In: a store and files of it. Out: ``STORE/quarantine/<table>/date=.../cluster=.../<file's name>`` with the
table's columns, the ``reason``, and the ``origin`` path. No query reads there.

Invariants: one file for each file that rows came from, of the same name, so that doing it again after a kill
changes nothing; a row is written here before it is taken from the table.

Not here: what cannot be true (``row_checks``), when rows are moved (``compact``).
"""

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.fleet.store.engines import quoted
from steelyard.fleet.store.layout import QUARANTINE, encode
from steelyard.fleet.store.listing import StoreFile
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import Store


def set_aside(store: Store, file: StoreFile, reason: str | None = None) -> int:
    """Copy the rows of ``file`` that break a rule to the quarantine; return how many there are.

    With ``reason`` all of its rows are copied, for that reason.
    """
    schema = TABLES[file.partition.table]
    rules = file.suspected
    if reason is None and rules is None:
        return 0
    because = rules.reason_of() if reason is None and rules is not None else quoted(reason or "")
    rows = store.engine.files(store.place, schema, [file])
    columns = ", ".join(schema.by_name)
    broken = store.fetch(
        f"SELECT * FROM (SELECT {columns}, {because} AS reason FROM {rows}) WHERE reason IS NOT NULL"
    )
    if len(broken):
        broken = broken.append_column("origin", pa.array([file.path] * len(broken), pa.string()))
        sink = pa.BufferOutputStream()
        pq.write_table(broken, sink, compression="zstd")
        store.place.write(place_of(file), sink.getvalue())
    return len(broken)


def place_of(file: StoreFile) -> str:
    """Return where the rows of ``file`` are set aside."""
    partition = file.partition
    folder = f"{QUARANTINE}/{partition.table}/date={partition.date}/cluster={encode(partition.cluster)}"
    return f"{folder}/{file.name}"
