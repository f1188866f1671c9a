"""Bad input for a simulated store, each kind once: what ``fleet check`` must name and no result may feel.

In: a simulation that has written its store. Out: files among the good ones, and a list of what was done (for
the truth). Bad rows are of machines that are not in the fleet and of real jobs, so that a query that reads
them is wrong.

Two faults are in the good data itself, and change where it stands but not what it says: a late file (one
machine's first day stands beside the compacted file) and a job that gets another name halfway (``plan``).

Not here: setting bad rows aside (``store.row_checks``, ``store.quarantine``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from steelyard.fleet.simulate.settings import DAY_S
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.layout import Partition, encode, raw_name
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.write import digest, encode_rows, fit, put

TABLE = "task_samples"
SKEW_S = 9 * DAY_S
FLOOD_WINDOWS, FLOOD_ROWS_PER_WINDOW = 10, 6_000


class Faults:
    """Writes bad files beside one good machine's rows of a day (``rows``, in the order of time)."""

    def __init__(self, place: Place, rows: pa.Table, date: str, cluster: str) -> None:
        self.place, self.date, self.cluster = place, date, cluster
        self.rows = fit(rows.combine_chunks(), TABLES[TABLE])
        self.done: list[dict[str, Any]] = []

    def add_all(self) -> list[dict[str, Any]]:
        """Write every kind; return what was done."""
        start = self.rows["window_start_unix_s"]
        self._machine("clock-skew", {"window_start_unix_s": pc.add(start, SKEW_S)})
        zeros = pa.array(np.zeros(len(self.rows), np.int64))
        nothing = pa.nulls(len(self.rows), pa.float64())
        self._machine("zero-instructions", {"instructions": zeros, "cpi": nothing})
        self._machine("tiny-cpu-time", self._tiny())
        self._flood()
        self._again()
        self._damaged()
        self._versions()
        return self.done

    def _tiny(self) -> dict[str, pa.Array]:
        count = len(self.rows)
        return {
            "cpu_s": pa.array(np.full(count, 2e-6)),
            "reference_cycles": pa.array(np.full(count, 5_000)),
            "instructions": pa.array(np.full(count, 12)),
            "cpi": pa.array(np.full(count, 5_000 / 12)),
        }

    def _put(
        self, kind: str, machine: str, rows: pa.Table, cut: Callable[[bytes], bytes] | None = None
    ) -> None:
        content = encode_rows(rows, TABLES[TABLE])
        name = raw_name(machine, int(rows["window_start_unix_s"][0].as_py()), digest(content))
        sent = content if cut is None else cut(content.to_pybytes())
        path = put(self.place, Partition(TABLE, self.date, self.cluster), name, sent)
        self.done.append({"kind": kind, "machine": machine, "path": path, "rows": len(rows)})

    def _machine(self, kind: str, changed: dict[str, Any]) -> None:
        """Write a machine that is not in the fleet, with some columns changed."""
        machine = f"{kind}.{self.cluster}"
        words = {"machine": pa.array([machine] * len(self.rows))}
        self._put(kind, machine, _changed(self.rows, words | changed))

    def _flood(self) -> None:
        """One machine with thousands of tasks a minute."""
        machine = f"flood.{self.cluster}"
        first = self.rows.slice(0, 1)
        count = FLOOD_WINDOWS * FLOOD_ROWS_PER_WINDOW
        same = pa.array(np.zeros(count, np.int64))
        window = np.repeat(np.arange(FLOOD_WINDOWS), FLOOD_ROWS_PER_WINDOW)
        task = pa.array(np.tile(np.arange(FLOOD_ROWS_PER_WINDOW), FLOOD_WINDOWS))
        job = first["job"][0].as_py()
        changed = {
            "machine": pa.array([machine]).take(same),
            "task": pa.array([f"{job}/flood-{n}" for n in range(FLOOD_ROWS_PER_WINDOW)]).take(task),
            "window_start_unix_s": pa.array(first["window_start_unix_s"][0].as_py() + 60 * window),
        }
        self._put("flood", machine, _changed(first.take(same), changed))

    def _again(self) -> None:
        """The second half of a day once more, cut otherwise than the first time."""
        half = len(self.rows) // 2
        self._put("duplicate", self.rows["machine"][0].as_py(), self.rows.slice(half))

    def _damaged(self) -> None:
        machine = f"half-written.{self.cluster}"
        self._put("half-written", machine, self.rows, lambda content: content[: len(content) * 3 // 5])

    def _versions(self) -> None:
        """A file that says it is of another major version, and one in that version's folder."""
        major = TABLES[TABLE].major + 1
        later = f"{major}.0"
        words = dict(TABLES[TABLE].arrow.metadata or {}) | {b"steelyard.schema_version": later.encode()}
        sink = pa.BufferOutputStream()
        pq.write_table(self.rows.replace_schema_metadata(words), sink)
        content = sink.getvalue()
        machine = f"later-version.{self.cluster}"
        name = raw_name(machine, int(self.rows["window_start_unix_s"][0].as_py()), digest(content))
        folder = f"{TABLE}/schema={major}/date={self.date}/cluster={encode(self.cluster)}"
        for path in (f"{Partition(TABLE, self.date, self.cluster).path}/{name}", f"{folder}/{name}"):
            self.place.write(path, content)
            fault = {"kind": "other-version", "machine": machine, "path": path, "rows": len(self.rows)}
            self.done.append(fault)


def _changed(rows: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """Return ``rows`` with other values in some columns."""
    for name, values in columns.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), values)
    return rows
