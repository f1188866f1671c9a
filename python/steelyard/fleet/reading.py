"""The rows of a table that count: true ones, once each.

In: a listing. Out: an Ibis expression over its files. Clean files are read as they are, at no cost; what
footers cannot rule out is looked at row by row: rows that break a rule (``rules``) are left out, and of rows
with the same key (an agent that sent a window twice in different files) one is kept.

Invariants: the same rows on every engine and in every order of files. Of rows with the same key, the one with
the most to say is kept: columns are compared from the left, greater before smaller before missing.

Not here: counting and moving what is left out (``quarantine``).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis

from steelyard.fleet.engines import Engine
from steelyard.fleet.files import Place
from steelyard.fleet.listing import Listing, StoreFile
from steelyard.fleet.rules import Rules, rules_of
from steelyard.fleet.schema import PARTITIONS, TableSchema


@dataclass
class Plan:
    """How the files of a listing are read.

    ``clean`` files as they are; ``repeated`` files once for each key; ``late`` files are raw ones beside
    compacted files (``settled``) of their partition that may hold the same rows.
    """

    clean: list[StoreFile] = field(default_factory=list)
    repeated: list[StoreFile] = field(default_factory=list)
    late: list[StoreFile] = field(default_factory=list)
    settled: list[StoreFile] = field(default_factory=list)


def plan(listing: Listing) -> Plan:
    """Return how the files of ``listing`` are read."""
    time = listing.table.time
    if listing.table.small or time is None:
        # What many machines, or one at several times, tell of the same thing is told in many files.
        return Plan(repeated=list(listing.files))
    compacted: dict[Any, list[StoreFile]] = defaultdict(list)
    raw: dict[Any, list[StoreFile]] = defaultdict(list)
    for file in listing.files:
        if file.is_compact:
            compacted[file.partition].append(file)
        else:
            raw[file.partition, file.uploader].append(file)
    repeated = sharing(listing.files)
    repeated |= {file for files in raw.values() for file in _overlapping(files, time)}
    settled: set[StoreFile] = set()
    late: set[StoreFile] = set()
    for (partition, _), files in raw.items():
        for file in files:
            held = [other for other in compacted[partition] if _meet(file, other, time)]
            settled.update(held)
            if held:
                late.add(file)
    return Plan(
        clean=[file for file in listing.files if file not in repeated and file not in late],
        repeated=[file for file in listing.files if file in repeated and file not in late],
        late=[file for file in listing.files if file in late],
        settled=[file for file in listing.files if file in settled],
    )


def sharing(files: Iterable[StoreFile]) -> set[StoreFile]:
    """Return the compacted files that hold a file which another one holds, too: two runs met."""
    holders: dict[Any, list[StoreFile]] = defaultdict(list)
    for file in files:
        for name in file.inputs:
            holders[file.partition, name].append(file)
    return {file for held_by in holders.values() if len(held_by) > 1 for file in held_by}


def _overlapping(files: Sequence[StoreFile], time: str) -> set[StoreFile]:
    """Return those of one uploader's ``files`` whose times meet those of another."""
    found: set[StoreFile] = set()
    spans = sorted(files, key=lambda file: file.span(time) or (-float("inf"), float("inf")))
    longest: StoreFile | None = None
    for file in spans:
        if longest is not None and _meet(longest, file, time):
            found |= {longest, file}
        if longest is None or _end(file, time) > _end(longest, time):
            longest = file
    return found


def _end(file: StoreFile, time: str) -> float:
    span = file.span(time)
    return span[1] if span is not None else float("inf")


def _meet(one: StoreFile, other: StoreFile, time: str) -> bool:
    a, b = one.span(time), other.span(time)
    if (a is None and one.rows == 0) or (b is None and other.rows == 0):
        return False
    return a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])


def rows_of(engine: Engine, place: Place, listing: Listing) -> Any:
    """Return the rows of ``listing`` that count, as an Ibis table."""
    how = plan(listing)
    parts = []
    if how.clean:
        parts.append(true_rows(engine, place, listing.table, how.clean))
    if how.repeated:
        parts.append(once(true_rows(engine, place, listing.table, how.repeated), listing.table))
    if how.late:
        late = once(true_rows(engine, place, listing.table, how.late), listing.table)
        settled = true_rows(engine, place, listing.table, how.settled)
        parts.append(late.anti_join(settled.select(*identity(listing.table)), identity(listing.table)))
    if not parts:
        return engine.empty(listing.table)
    return _together(parts)


def identity(schema: TableSchema) -> list[str]:
    """Return the columns that say which rows are the same."""
    return [*schema.key, *(PARTITIONS if schema.windowed else PARTITIONS[1:])]


def once(rows: Any, schema: TableSchema) -> Any:
    """Return ``rows`` with one of those that have the same key."""
    orders = [
        ibis.desc(rows[column.name], nulls_first=False)
        for column in schema.columns
        if column.name not in schema.key and "<" not in column.type
    ]
    number = ibis.row_number().over(group_by=identity(schema), order_by=orders or None)
    ranked = rows.mutate(_rank=number)
    return ranked.filter(ranked._rank == 0).drop("_rank")


def true_rows(engine: Engine, place: Place, schema: TableSchema, files: Iterable[StoreFile]) -> Any:
    """Return the rows of ``files`` that break no rule; a file that cannot hold such rows is read as it is."""
    groups: dict[tuple[frozenset[str], Rules | None], list[StoreFile]] = defaultdict(list)
    for file in files:
        rules = rules_of(schema.name, file.partition.date, file.written_unix_s)
        suspected = rules.left(file.extremes) if rules.suspects(file.extremes) else None
        groups[frozenset(file.columns), suspected].append(file)
    parts = []
    for (_, suspected), group in groups.items():
        rows = engine.source(place, schema, group)
        parts.append(rows if suspected is None else rows.filter(suspected.reason_of(rows).isnull()))
    return _together(parts)


def _together(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else ibis.union(*parts)
