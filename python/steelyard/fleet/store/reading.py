"""The rows of a table that count: true ones, once each.

In: a listing. Out: a SELECT over its files, which DuckDB and Spark read alike. Clean files are read as they
are, at no cost; what footers cannot rule out is looked at row by row: rows that break a rule (``rules``) are
left out, and of rows with the same key (an agent that sent a window twice in different files) one is kept.

Invariants: the same rows on every engine and in every order of files. Of rows with the same key, the one with
the most to say is kept: columns are compared from the left, greater before smaller before missing.

Not here: counting and moving what is left out (``quarantine``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.fleet.store.engines import Engine, empty_list
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.listing import Listing, StoreFile
from steelyard.fleet.store.row_checks import Rules
from steelyard.fleet.store.schema import PARTITIONS, TableSchema


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
        # What many machines, or one at several times, tell of the same thing is in many files.
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
            held = [other for other in compacted[partition] if meet(file, other, time)]
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
    overlapping: set[StoreFile] = set()
    spans = sorted(files, key=lambda file: file.span(time) or (-float("inf"), float("inf")))
    longest: StoreFile | None = None
    for file in spans:
        if longest is not None and meet(longest, file, time):
            overlapping |= {longest, file}
        if longest is None or _end(file, time) > _end(longest, time):
            longest = file
    return overlapping


def _end(file: StoreFile, time: str) -> float:
    span = file.span(time)
    return span[1] if span is not None else float("inf")


def meet(file: StoreFile, other: StoreFile, time: str | None) -> bool:
    """Return whether rows of two files may be of the same time."""
    if time is None:
        return True
    a, b = file.span(time), other.span(time)
    if (a is None and file.rows == 0) or (b is None and other.rows == 0):
        return False
    return a is None or b is None or (a[0] <= b[1] and b[0] <= a[1])


def rows_of(engine: Engine, place: Place, listing: Listing) -> str:
    """Return the SELECT of the rows of ``listing`` that count."""
    how, schema = plan(listing), listing.table
    parts = []
    if how.clean:
        parts.append(true_rows(engine, place, schema, how.clean))
    if how.repeated:
        parts.append(once(true_rows(engine, place, schema, how.repeated), schema))
    if how.late:
        late = once(true_rows(engine, place, schema, how.late), schema)
        parts.append(without(late, true_rows(engine, place, schema, how.settled), schema))
    if not parts:
        return f"{empty_list(schema, dialect=engine.dialect)} WHERE false"
    return " UNION ALL ".join(parts)


def identity(schema: TableSchema) -> list[str]:
    """Return the columns that say which rows are the same."""
    return [*schema.key, *(PARTITIONS if schema.windowed else PARTITIONS[1:])]


def once(rows: str, schema: TableSchema) -> str:
    """Return the SELECT of ``rows`` with one of those that have the same key."""
    orders = [
        f"{column.name} DESC NULLS LAST"
        for column in schema.columns
        if column.name not in schema.key and "<" not in column.type
    ]
    columns = ", ".join([*schema.by_name, *PARTITIONS])
    number = f"row_number() OVER (PARTITION BY {', '.join(identity(schema))} ORDER BY {', '.join(orders)})"
    ranked = f"SELECT *, {number} AS _rank FROM ({rows}) AS _rows"
    return f"SELECT {columns} FROM ({ranked}) AS _ranked WHERE _rank = 1"


def without(rows: str, held: str, schema: TableSchema) -> str:
    """Return the SELECT of ``rows`` whose keys are not among those ``held``."""
    same = " AND ".join(f"_held.{name} = _rows.{name}" for name in identity(schema))
    return f"SELECT * FROM ({rows}) AS _rows WHERE NOT EXISTS (SELECT 1 FROM ({held}) AS _held WHERE {same})"


def true_rows(engine: Engine, place: Place, schema: TableSchema, files: Iterable[StoreFile]) -> str:
    """Return the SELECT of the rows of ``files`` that break no rule; files that cannot hold one that does are
    read as they are.
    """
    parts = []
    for rules, _, rows in suspected(engine, place, schema, files):
        broken = "" if rules is None else f" WHERE {rules.reason_of()} IS NULL"
        parts.append(f"SELECT * FROM {rows}{broken}")
    return " UNION ALL ".join(parts)


def suspected(
    engine: Engine, place: Place, schema: TableSchema, files: Iterable[StoreFile]
) -> Iterator[tuple[Rules | None, list[StoreFile], str]]:
    """Yield groups of ``files`` with the rules that their rows may break (None where that is ruled out) and
    the name of their rows.
    """
    groups: dict[tuple[int, frozenset[str], bool, Rules | None], list[StoreFile]] = defaultdict(list)
    for file in files:
        groups[file.major, frozenset(file.columns), file.is_vouched, file.suspected].append(file)
    for (*_, rules), group in groups.items():
        yield rules, group, engine.files(place, schema, group)
