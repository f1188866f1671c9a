"""Which files of a store count, and why others do not.

In: a place and a table. Out: `Listing`: the files whose rows may be read, with what their footers say of
those, and the files put aside, each with its reason.

Invariants: only a file's footer is read, and its version is what the footer says; columns have today's names,
whatever the file calls them; one file's trouble puts that file aside and no other; a raw file
that a compacted file holds is neither read nor a problem. Columns that this version does not know are left
out; a nullable column that a file lacks is null.

Not here: rows (``row_checks``, ``reading``).
"""

import json
import statistics
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard._base import RecordError
from steelyard.fleet.store.files import Entry, Place, reason
from steelyard.fleet.store.layout import Partition, is_compact, machine_of, partition_of
from steelyard.fleet.store.row_checks import NULLS, Extremes, Rules, columns_of, rules_of, voucher
from steelyard.fleet.store.schema import ARROW_TYPES, TableSchema

INPUTS_KEY = b"steelyard.inputs"
RULES_KEY = b"steelyard.rules"
TABLE_KEY = b"steelyard.table"
VERSION_KEY = b"steelyard.schema_version"

# Footers are small reads that wait for a disk or a server.
_READERS = 8

FLOOD_TIMES = 20
"""An uploader with so many times the rows a minute of the median uploader floods the store."""

FLOOD_ROWS_PER_MIN = {"machine_samples": 60.0, "task_samples": 4_000.0, "profiles": 400_000.0}
"""... unless it has fewer than these rows a minute, which one large machine may well have."""

FLOOD_UPLOADERS = 5
"""Fewer uploaders have no median to speak of."""


@dataclass(frozen=True)
class Problem:
    """A file put aside: where it is in the store, of which table, and why."""

    path: str
    """Where it is in the store."""
    table: str
    """Which table it is of."""
    reason: str
    """Why it was put aside."""


@dataclass(frozen=True)
class StoreFile:
    """A file that counts: its version, its known columns in the file's order, its rows, the files it was made
    of, and what says that its rows were held against the rules (`rules.voucher`).
    """

    path: str
    partition: Partition
    major: int
    size_bytes: int
    written_unix_s: float | None
    rows: int
    columns: tuple[str, ...]
    inputs: tuple[str, ...]
    extremes: Extremes = field(compare=False)
    voucher: str | None = None

    @property
    def is_vouched(self) -> bool:
        """Whether its rows were held against the rules of today."""
        return self.voucher == voucher(self.partition.table)

    @property
    def suspected(self) -> Rules | None:
        """The rules that its rows may break; None where that is ruled out."""
        partition = self.partition
        return rules_of(partition.table, partition.date, self.written_unix_s, self.voucher).left(
            self.extremes
        )

    @property
    def uploader(self) -> str | None:
        """The machine (or whoever) that a raw file is from; None for a compacted one."""
        return machine_of(self.name)

    @property
    def is_compact(self) -> bool:
        """Whether the file is a compacted one."""
        return is_compact(self.name)

    def span(self, time: str) -> tuple[float, float] | None:
        """Return the first and last time of its rows; None when the footer does not say."""
        return self.extremes.get(time)

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return PurePosixPath(self.path).name


@dataclass
class Listing:
    """The files of one table.

    ``replaced`` are held by a compacted file: good, but not to be read again. ``floods`` are files of
    uploaders that flood the store, and why that is thought; they are among the problems, too.
    """

    table: TableSchema
    files: list[StoreFile] = field(default_factory=list)
    replaced: list[StoreFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    floods: list[tuple[StoreFile, str]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all files that count."""
        return sum(file.rows for file in self.files)


def list_table(
    place: Place, table: TableSchema, first: str | None = None, last: str | None = None
) -> Listing:
    """Return the files of ``table``, of the days ``first`` to ``last`` (included) where they are given."""
    listing = Listing(table)
    kept: list[tuple[Entry, Partition]] = []
    closed: list[tuple[str, str]] = []
    entries = place.entries(table.name, closed)
    listing.problems += [Problem(folder, table.name, f"unreadable: {why}") for folder, why in closed]
    for entry in entries:
        if not entry.path.endswith(".parquet"):
            listing.problems.append(Problem(entry.path, table.name, "no Parquet file by its name"))
            continue
        partition = partition_of(entry.path)
        if isinstance(partition, str):
            listing.problems.append(Problem(entry.path, table.name, partition))
        elif (first is None or partition.date >= first) and (last is None or partition.date <= last):
            kept.append((entry, partition))
    with ThreadPoolExecutor(_READERS) as readers:
        looks = readers.map(lambda pair: _look(place, table, *pair), kept)
        _sort_out(listing, looks)
    _put_floods_aside(listing)
    return listing


def _sort_out(listing: Listing, looks: Iterable[StoreFile | Problem]) -> None:
    """Put each file where it belongs: what a compacted file of its folder names is not read again."""
    good = []
    for look in looks:
        if isinstance(look, Problem):
            listing.problems.append(look)
        else:
            good.append(look)
    held = {(file.partition, name) for file in good for name in file.inputs}
    for file in good:
        (listing.replaced if (file.partition, file.name) in held else listing.files).append(file)


def _put_floods_aside(listing: Listing) -> None:
    """Put the raw files of uploaders aside that send far more rows a minute than others."""
    time, floor = listing.table.time, FLOOD_ROWS_PER_MIN.get(listing.table.name)
    if time is None or floor is None:
        return
    rates: dict[str, float] = {}
    for file in listing.files:
        span = file.span(time)
        if file.uploader is not None and span is not None:
            rate = file.rows / ((span[1] - span[0]) / 60 + 1)
            rates[file.uploader] = max(rate, rates.get(file.uploader, 0.0))
    if len(rates) < FLOOD_UPLOADERS:
        return
    usual = statistics.median(rates.values())
    bound = max(floor, FLOOD_TIMES * usual)
    for file in list(listing.files):
        rate = rates.get(file.uploader or "", 0.0)
        if rate > bound:
            listing.files.remove(file)
            message = f"{file.uploader} floods the store: {rate:.0f} rows a minute, the median is {usual:.0f}"
            listing.problems.append(Problem(file.path, listing.table.name, message))
            listing.floods.append((file, message))


def look_at(place: Place, table: TableSchema, path: str) -> StoreFile:
    """Return the file at ``path``, which was just written. Raises RecordError when it cannot be read."""
    partition = partition_of(path)
    assert isinstance(partition, Partition)
    file = _look(place, table, place.entry(path), partition)
    if isinstance(file, Problem):
        raise RecordError(f"{path}: {file.reason}", hint="run it again")
    return file


def _look(place: Place, table: TableSchema, entry: Entry, partition: Partition) -> StoreFile | Problem:
    try:
        with place.open(entry.path) as source:
            metadata = pq.read_metadata(source)
            words = metadata.metadata or {}
            schema = metadata.schema.to_arrow_schema()
            fault = version_fault(words, table) or schema_fault(schema, table, major_of(words))
            inputs = _inputs(words) if is_compact(PurePosixPath(entry.path).name) else ()
    except FileNotFoundError:
        return Problem(entry.path, table.name, "gone between the listing and the reading")
    except (OSError, pa.ArrowException, ValueError) as error:
        return Problem(entry.path, table.name, f"unreadable: {reason(error)}")
    if fault is not None:
        return Problem(entry.path, table.name, fault)
    major = major_of(words)
    names = {table.name_in(column.name, major): column.name for column in table.columns}
    return StoreFile(
        path=entry.path,
        partition=partition,
        major=major,
        size_bytes=entry.size_bytes,
        written_unix_s=entry.written_unix_s,
        rows=metadata.num_rows,
        columns=tuple(names[name] for name in schema.names if name in names),
        inputs=inputs,
        extremes=_extremes(metadata, {name: table.name_in(name, major) for name in columns_of(table.name)})
        | _nulls(metadata, table),
        voucher=words[RULES_KEY].decode(errors="replace") if RULES_KEY in words else None,
    )


def _nulls(metadata: Any, table: TableSchema) -> dict[str, tuple[float, float] | None]:
    """Return the required columns that may hold nulls, as footers know."""
    nulls: dict[str, tuple[float, float] | None] = {}
    required = {column.name for column in table.columns if not column.nullable and "<" not in column.type}
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        if column.path not in required or not column.max_definition_level:
            continue
        for group in range(metadata.num_row_groups):
            stats = metadata.row_group(group).column(number).statistics
            if stats is None or not stats.has_null_count or stats.null_count:
                nulls[column.path + NULLS] = None
    return nulls


def _extremes(metadata: Any, columns: Mapping[str, str]) -> dict[str, tuple[float, float] | None]:
    """Return the smallest and greatest value of ``columns``, given with their names in the file; nothing for
    a column without values.
    """
    places = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    extremes: dict[str, tuple[float, float] | None] = {}
    for name, written in columns.items():
        if written not in places:
            continue
        lows, highs, known = [], [], True
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(places[written])
            stats = chunk.statistics
            if stats is not None and stats.has_min_max:
                lows.append(stats.min)
                highs.append(stats.max)
            elif stats is None or not stats.has_null_count or stats.null_count < chunk.num_values:
                known = False
        if not known:
            extremes[name] = None
        elif lows:
            extremes[name] = (min(lows), max(highs))
    return extremes


def _inputs(words: dict[bytes, bytes]) -> tuple[str, ...]:
    try:
        names = json.loads(words.get(INPUTS_KEY, b"[]"))
    except RecursionError as error:
        raise ValueError("steelyard.inputs nests too deeply") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("steelyard.inputs is no list of names")
    return tuple(names)


def version_fault(words: dict[bytes, bytes], table: TableSchema) -> str | None:
    """Return what is wrong with what a file says of itself; None when it is this table, this version."""
    name = words.get(TABLE_KEY)
    if name is None:
        return "does not name its table (steelyard.table is not in its metadata)"
    if name != table.name.encode():
        return f"is of the table {name.decode(errors='replace')}"
    version = words.get(VERSION_KEY, b"").decode(errors="replace")
    major, _, minor = version.partition(".")
    if not (major.isdigit() and minor.isdigit()) or int(major) < 1:
        return f"its schema version {version!r} is none"
    if int(major) > table.major:
        return f"schema version {version} is of a later major version than {table.major}"
    return None


def major_of(words: dict[bytes, bytes]) -> int:
    """Return the major version of a file without a `version_fault`."""
    return int(words[VERSION_KEY].partition(b".")[0])


def schema_fault(schema: pa.Schema, table: TableSchema, major: int) -> str | None:
    """Return why a file of ``schema`` and version ``major`` cannot be read as ``table``; None when it can."""
    if len(set(schema.names)) != len(schema.names):
        return "two columns have the same name"
    for column in table.columns:
        name = table.name_in(column.name, major)
        index = schema.get_field_index(name)
        if index < 0:
            if not column.nullable:
                return f"lacks the column {name}"
            continue
        actual = plain_type(schema.field(index).type)
        if actual != plain_type(ARROW_TYPES[column.type]):
            return f"the column {name} is {actual}, not {column.type}"
    return None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` without what is only of Arrow: dictionaries, large offsets, names of list items."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind
