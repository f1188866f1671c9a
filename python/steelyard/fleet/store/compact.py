"""Joins a store's small files into large ones, sorted as each table says; clears away what does not count.

In: an open store. Out: `Compaction`, and a store that reads the same. For each day and cluster: the rows that
cannot be true are copied to the quarantine, the rest (each key once) is written as one compacted file that
names the files it holds, and those are removed.

Invariants: writing the compacted file is the one moment at which the view changes, from the old files to the
new one: a kill before it leaves the old ones, a kill after it leaves old files that the new one names, which
nobody reads and the next run removes. Every name is kept through later compactions, so that an upload that
comes again is known. Two runs at once are safe: of compacted files that hold the same rows each key is read
once (``reading``), and the next run joins them.

Not here: retention (``retention``).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steelyard.fleet.store.layout import Partition, compact_name
from steelyard.fleet.store.listing import Listing, StoreFile, look_at
from steelyard.fleet.store.quarantine import set_aside
from steelyard.fleet.store.reading import (
    identity,
    meet,
    once,
    rows_of,
    sharing,
    suspected,
    true_rows,
    without,
)
from steelyard.fleet.store.schema import TABLES, TableSchema
from steelyard.fleet.store.store import Store
from steelyard.fleet.store.write import digest, encode_rows, fit, put, table_schema

TARGET_ROWS = 1_000_000
"""Rows of a compacted file: what fits in memory well, and one thread of an engine takes at a time."""

TARGET_BYTES = 128 << 20
"""Bytes of the files that become one."""


@dataclass
class TableCompaction:
    """What was done with one table."""

    files_before: int = 0
    """Small files that were joined."""
    files_after: int = 0
    """Files that they became."""
    rows: int = 0
    """Rows that were written."""
    repeated_rows: int = 0
    """Rows that came again, and were dropped."""
    quarantined_rows: int = 0
    """Bad rows that were moved to quarantine."""


@dataclass
class Compaction:
    """What was done with a store: `steelyard fleet compact --json`."""

    KIND: ClassVar[str] = "fleet_compact"

    store: str
    """Where the store is."""
    tables: dict[str, TableCompaction] = field(default_factory=dict)
    """Each table."""
    removed_leftovers: int = 0
    """Files of an earlier compaction that were removed."""


def _unwatched(step: str) -> None:
    """Do nothing at a step."""


def compact_store(
    store: Store,
    tables: Sequence[str] | None = None,
    *,
    dry_run: bool = False,
    target_rows: int = TARGET_ROWS,
    step: Callable[[str], None] = _unwatched,
) -> Compaction:
    """Compact ``tables`` (all by default) of ``store``, which must not be read from again afterwards.

    ``step`` is called with a word before each change on disk, for tests that stop there. Raises
    EnvironmentLacksError where the store cannot be written, or changed while it was read.
    """
    done = Compaction(store.url)
    for name in tables or TABLES:
        schema = table_schema(name)
        listing = store.listing(name)
        table = done.tables[name] = TableCompaction()
        if not dry_run:
            done.removed_leftovers += len(listing.replaced)
            _remove(store, listing.replaced, step)
            table.quarantined_rows += _floods(store, listing, step)
        work = _Work(store, schema, table, step, dry_run)
        for partition, files in sorted(_by_partition(listing.files).items()):
            work.compact(partition, files, target_rows)
    return done


def _by_partition(files: Iterable[StoreFile]) -> dict[Partition, list[StoreFile]]:
    partitions: dict[Partition, list[StoreFile]] = defaultdict(list)
    for file in files:
        partitions[file.partition].append(file)
    return partitions


def _remove(store: Store, files: Iterable[StoreFile], step: Callable[[str], None]) -> None:
    for file in files:
        step("remove")
        store.place.remove(file.path)


def _floods(store: Store, listing: Listing, step: Callable[[str], None]) -> int:
    """Move the files of machines that flood the store away whole."""
    moved = 0
    for file, reason in listing.floods:
        step("quarantine")
        moved += set_aside(store, file, reason)
        _remove(store, [file], step)
    return moved


@dataclass
class _Work:
    """The compaction of one table."""

    store: Store
    schema: TableSchema
    done: TableCompaction
    step: Callable[[str], None]
    dry_run: bool

    def compact(self, partition: Partition, files: Sequence[StoreFile], target_rows: int) -> None:
        """Join the small files of one partition."""
        shared = sharing(files)
        raw = any(not file.is_compact for file in files)
        small = [
            file
            for file in files
            if not file.is_compact
            or file in shared
            or (self.schema.small and raw)
            or (file.rows < target_rows // 2 and file.size_bytes < TARGET_BYTES // 2)
        ]
        if all(file.is_compact for file in small) and len(small) < 2:
            return
        settled = [file for file in files if file not in small]
        # One uploader's files stand together, so that what it sent twice mostly meets in one group.
        small.sort(key=lambda file: (file.is_compact, file.uploader or "", file.name))
        whole = self.schema.small or bool(shared)
        for group in [small] if whole else _groups(small, target_rows):
            self.done.files_before += len(group)
            self.done.files_after += 1
            if self.dry_run:
                self.done.rows += sum(file.rows for file in group)
                continue
            settled.append(self._join(partition, group, settled))

    def _join(
        self, partition: Partition, group: Sequence[StoreFile], settled: Sequence[StoreFile]
    ) -> StoreFile:
        """Write ``group`` as one file beside ``settled`` ones, and remove it; return the new file."""
        store, schema = self.store, self.schema
        bad = self._set_aside(group)
        # As readers read them, so that the store reads the same before and after.
        rows = rows_of(store.engine, store.place, Listing(schema, list(group)))
        if self._is_repeated(rows):
            rows = once(rows, schema)
        held = [file for file in settled if any(meet(file, member, schema.time) for member in group)]
        if held:
            rows = without(rows, true_rows(store.engine, store.place, schema, held), schema)
        order = [*schema.sort, *(name for name in schema.key if name not in schema.sort)]
        good = store.fetch(f"SELECT {', '.join(schema.by_name)} FROM ({rows}) ORDER BY {', '.join(order)}")
        good = fit(good, schema)
        inputs = sorted({name for file in group for name in (file.name, *file.inputs)})
        content = encode_rows(good, schema, inputs=inputs, vouched=True)
        self.step("write")
        path = put(store.place, partition, compact_name(digest(content)), content)
        _remove(store, group, self.step)
        self.done.rows += len(good)
        self.done.quarantined_rows += bad
        self.done.repeated_rows += sum(file.rows for file in group) - bad - len(good)
        return look_at(store.place, schema, path)

    def _set_aside(self, group: Sequence[StoreFile]) -> int:
        """Copy the rows of ``group`` that break a rule to the quarantine; return how many there are."""
        store, moved = self.store, 0
        for rules, files, rows in suspected(store.engine, store.place, self.schema, group):
            if rules is None:
                continue
            broken = store.fetch(f"SELECT 1 FROM {rows} WHERE {rules.reason_of()} IS NOT NULL LIMIT 1")
            for file in files if len(broken) else ():
                self.step("quarantine")
                moved += set_aside(store, file)
        return moved

    def _is_repeated(self, rows: str) -> bool:
        """Return whether two of ``rows`` may have the same key: two hashes are the same."""
        keys = ", ".join(identity(self.schema))
        counts = self.store.fetch(
            f"SELECT count(*) AS rows, count(DISTINCT hash({keys})) AS keys FROM ({rows})"
        ).to_pylist()[0]
        return bool(counts["rows"] != counts["keys"])


def _groups(files: Sequence[StoreFile], target_rows: int) -> list[list[StoreFile]]:
    """Return ``files`` in groups that become one file each."""
    groups: list[list[StoreFile]] = []
    rows = size = 0
    for file in files:
        if not groups or rows + file.rows > target_rows or size + file.size_bytes > TARGET_BYTES:
            groups.append([])
            rows = size = 0
        groups[-1].append(file)
        rows += file.rows
        size += file.size_bytes
    return groups
