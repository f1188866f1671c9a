"""Which files of a store count, and why others do not.

In: a place and a table. Out: `Listing`: the files whose rows may be read, grouped by the columns that they
have, and the files put aside, each with its reason.

Invariants: only a file's footer is read; one file's trouble puts that file aside and no other; a raw file
that a compacted file holds is neither read nor a problem. Columns that this version does not know are left
out; a nullable column that a file lacks is null.

Not here: rows (``quarantine``).
"""

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.fleet.files import Entry, Place, reason
from steelyard.fleet.layout import Partition, is_compact, partition_of
from steelyard.fleet.schema import ARROW_TYPES, MAJOR, TableSchema

INPUTS_KEY = b"steelyard.inputs"
TABLE_KEY = b"steelyard.table"
VERSION_KEY = b"steelyard.schema_version"

# Footers are small reads that wait for a disk or a server.
_READERS = 8


@dataclass(frozen=True)
class Problem:
    """A file put aside: where it is in the store, of which table, and why."""

    path: str
    table: str
    reason: str


@dataclass(frozen=True)
class StoreFile:
    """A file that counts: its known columns in the file's order, its rows, and the files it was made of."""

    path: str
    partition: Partition
    size_bytes: int
    written_unix_s: float | None
    rows: int
    columns: tuple[str, ...]
    inputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return PurePosixPath(self.path).name


@dataclass
class Listing:
    """The files of one table. ``replaced`` are held by a compacted file: good, but not to be read again."""

    table: TableSchema
    files: list[StoreFile] = field(default_factory=list)
    replaced: list[StoreFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all files that count."""
        return sum(file.rows for file in self.files)

    def groups(self) -> dict[frozenset[str], list[StoreFile]]:
        """Return the files by the set of known columns that they have."""
        groups: dict[frozenset[str], list[StoreFile]] = {}
        for file in self.files:
            groups.setdefault(frozenset(file.columns), []).append(file)
        return groups


def list_table(
    place: Place, table: TableSchema, first: str | None = None, last: str | None = None
) -> Listing:
    """Return the files of ``table``, of the days ``first`` to ``last`` (included) where they are given."""
    listing = Listing(table)
    wanted: list[tuple[Entry, Partition]] = []
    for entry in place.list(table.name):
        if not entry.path.endswith(".parquet"):
            listing.problems.append(Problem(entry.path, table.name, "no Parquet file by its name"))
            continue
        partition = partition_of(entry.path)
        if isinstance(partition, str):
            listing.problems.append(Problem(entry.path, table.name, partition))
        elif (first is None or partition.date >= first) and (last is None or partition.date <= last):
            wanted.append((entry, partition))
    with ThreadPoolExecutor(_READERS) as readers:
        looks = readers.map(lambda pair: _look(place, table, *pair), wanted)
        _sort_out(listing, looks)
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


def _look(place: Place, table: TableSchema, entry: Entry, partition: Partition) -> StoreFile | Problem:
    try:
        with place.open(entry.path) as source:
            metadata = pq.read_metadata(source)
            words = metadata.metadata or {}
            fault = version_fault(words, table) or schema_fault(metadata.schema.to_arrow_schema(), table)
            inputs = _inputs(words) if is_compact(PurePosixPath(entry.path).name) else ()
    except FileNotFoundError:
        return Problem(entry.path, table.name, "gone between the listing and the reading")
    except (OSError, pa.ArrowException, ValueError) as error:
        return Problem(entry.path, table.name, f"unreadable: {reason(error)}")
    if fault is not None:
        return Problem(entry.path, table.name, fault)
    names = metadata.schema.to_arrow_schema().names
    known = tuple(name for name in names if name in table.by_name)
    return StoreFile(
        entry.path, partition, entry.size_bytes, entry.written_unix_s, metadata.num_rows, known, inputs
    )


def _inputs(words: dict[bytes, bytes]) -> tuple[str, ...]:
    names = json.loads(words.get(INPUTS_KEY, b"[]"))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("steelyard.inputs is no list of names")
    return tuple(names)


def version_fault(words: dict[bytes, bytes], table: TableSchema) -> str | None:
    """Return what is wrong with what a file says of itself; None when it is this table, this version."""
    said = words.get(TABLE_KEY)
    if said is None:
        return "says nothing of its table (steelyard.table is not in its metadata)"
    if said != table.name.encode():
        return f"is of the table {said.decode(errors='replace')}"
    version = words.get(VERSION_KEY, b"").decode(errors="replace")
    major, _, minor = version.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        return f"its schema version {version!r} is none"
    if int(major) != MAJOR:
        return f"schema version {version} is of another major version than {MAJOR}"
    return None


def schema_fault(schema: pa.Schema, table: TableSchema) -> str | None:
    """Return why a file of ``schema`` cannot be read as ``table``; None when it can."""
    if len(set(schema.names)) != len(schema.names):
        return "two columns have the same name"
    for column in table.columns:
        index = schema.get_field_index(column.name)
        if index < 0:
            if not column.nullable:
                return f"lacks the column {column.name}"
            continue
        found = plain_type(schema.field(index).type)
        if found != plain_type(ARROW_TYPES[column.type]):
            return f"the column {column.name} is {found}, not {column.type}"
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
