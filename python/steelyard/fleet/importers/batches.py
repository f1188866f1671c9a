"""Reads files with DuckDB and writes what an Ibis expression makes of them into a store, batch by batch.

In: files, column names and types, an expression over them with a store table's columns. Out: raw files of the
store, one a day and batch. Invariants: memory holds a batch, not a file; a row that lacks what its table
requires, or whose time is before 1970 or after 9999, is counted and left out.

Not here: what the columns of a trace mean (the modules beside this).
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from steelyard._base import EnvironmentLacksError, RecordError, UsageError, encoding_of
from steelyard.fleet.store.layout import date_of
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import write_rows
from steelyard.telemetry.engine import duckdb, fetch_batches

BATCH_ROWS = 1_000_000
DAY_S = 86_400
UNREAD = "unread: "
"""What the name of a column of values begins with that could not be read; the input's column follows."""
_HEAD_BYTES = 256
_GROUPED = re.compile(r"\s*[+-]?\d{1,3}(?:[,.'\s\u202f\u00a0]\d{3})+\s*")
_TIMES_BELOW = 253_402_300_800
"""Unix time of the year 10000."""


@dataclass
class Imported:
    """What was brought into a store: `steelyard fleet import --json`."""

    KIND: ClassVar[str] = "fleet_import"

    source: str
    """What it was brought from."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that were written, by table."""
    files: int = 0
    """Files that were written."""
    left_out: int = 0
    """Rows that lack what a table requires."""
    notes: list[str] = field(default_factory=list)
    """Why, and which values could not be read."""
    unread: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Column of the input -> how many of its values could not be read, and the first of them."""
    lacking: dict[str, int] = field(default_factory=dict)
    """Required column -> rows that were left out for want of it."""

    def note_unread(self) -> None:
        """Say which values could not be read, and what rows lack, in ``notes``."""
        for column, (count, first) in self.unread.items():
            hint = " (separators of thousands are not read)" if _GROUPED.fullmatch(first) else ""
            self.notes.append(
                f"{column}: {several_values(count)} cannot be read, the first is {first[:60]!r}{hint}"
            )
        for column, count in self.lacking.items():
            self.notes.append(f"{count:,} rows have no {column}, which the table requires: left out")


class Reader:
    """Files of a trace as Ibis tables. A context manager: closing it frees the engine."""

    def __init__(self) -> None:
        duckdb()
        self._connection = ibis.duckdb.connect()
        self._tables = 0
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.disconnect()
        if self._folder is not None:
            self._folder.cleanup()

    def csv(self, paths: Sequence[Path], columns: Mapping[str, str]) -> Any:
        """Return CSV files without a header as a table of ``columns`` (name -> DuckDB type).

        All are read as text first: a field that is no number is missing, and ends no import.
        """
        words = dict.fromkeys(columns, "VARCHAR")
        options = {"header": False, "delim": ",", "quote": '"', "null_padding": True, "auto_detect": False}
        rows = self._read("csv", paths, columns=words, nullstr="", **options)
        return rows.select(**{name: as_type(rows[name], kind) for name, kind in columns.items()})

    def _as_utf8(self, path: Path) -> Path:
        """Return the path of the same text in UTF-8: a copy where it is in another encoding."""
        with path.open("rb") as file:
            codec = encoding_of(file.read(_HEAD_BYTES))
        if codec == "utf-8-sig":
            return path
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="steelyard-")
        copy = Path(self._folder.name) / path.name
        with (
            path.open(encoding=codec, errors="replace", newline="") as file,
            copy.open("w", encoding="utf-8", newline="") as out,
        ):
            shutil.copyfileobj(file, out)
        return copy

    def csv_with_header(self, paths: Sequence[Path], delimiter: str = ",") -> Any:
        """Return CSV files with a header as a table of texts."""
        return self._read("csv", paths, header=True, delim=delimiter, all_varchar=True, union_by_name=True)

    def json(self, paths: Sequence[Path], columns: Mapping[str, str]) -> Any:
        """Return files of JSON lines as a table of ``columns``."""
        return self._read("json", paths, columns=columns, format="newline_delimited")

    def parquet(self, paths: Sequence[Path]) -> Any:
        """Return Parquet files as a table."""
        return self._read("parquet", paths, union_by_name=True)

    def table(self, rows: pa.Table) -> Any:
        """Return Arrow rows as a table."""
        self._tables += 1
        self._connection.con.register(f"rows_{self._tables}", rows)
        return self._connection.table(f"rows_{self._tables}")

    def _read(self, kind: str, paths: Sequence[Path], **options: Any) -> Any:
        for path in paths:
            if not path.is_file():
                raise UsageError(f"{path}: no such file")
            if path.name.endswith((".tar", ".tar.gz", ".tgz")):
                raise UsageError(f"{path}: an archive", hint=f"unpack it first: tar -xf {path.name}")
        self._tables += 1
        read = getattr(self._connection, f"read_{kind}")
        try:
            if kind != "parquet":
                paths = [self._as_utf8(path) for path in paths]
            return read([str(path) for path in paths], table_name=f"input_{self._tables}", **options)
        except Exception as error:
            raise unreadable(paths, error) from error


def several_values(count: int) -> str:
    """Return a number of values in words."""
    return f"{count:,} value{'' if count == 1 else 's'}"


def as_type(column: Any, kind: str) -> Any:
    """Return a text column as ``kind``; null where it cannot be."""
    return column if kind in ("string", "VARCHAR") else column.try_cast(kind)


def unreadable(paths: Sequence[Path], error: BaseException) -> RecordError:
    """Return what to say when files cannot be read."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return RecordError(f"{paths[0]}{more}: {line}", hint="is it the file that the importer names?")


def unpacked(path: Path) -> str:
    """Return the name of a file without the suffixes of its compression and kind.

    >>> unpacked(Path("part-00000-of-00500.csv.gz"))
    'part-00000-of-00500'
    """
    name = path.name
    for ending in (".gz", ".zst", ".csv", ".json", ".jsonl", ".parquet"):
        name = name.removesuffix(ending)
    return name


def find(inputs: Sequence[Path]) -> list[Path]:
    """Return the files among ``inputs``, and those in the folders among them, in order of name."""
    files: list[Path] = []
    for path in inputs:
        if path.is_dir():
            files += sorted(
                entry for entry in path.rglob("*") if entry.is_file() and entry.name[0] not in "._"
            )
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(f"{path}: no such file or folder")
    return files


def named(paths: Sequence[Path], word: str) -> list[Path]:
    """Return the paths whose own or folder's name begins with ``word``."""
    return [path for path in paths if path.name.startswith(word) or path.parent.name.startswith(word)]


def write(
    store: str,
    table: str,
    rows: Any,
    *,
    cluster: str,
    uploader: str,
    done: Imported,
    date: str | None = None,
    batch_rows: int = BATCH_ROWS,
) -> None:
    """Write the Ibis table ``rows`` into ``table`` of the store, by day of its time (or all on ``date``)."""
    schema = TABLES[table]
    with reading():
        batches = fetch_batches(rows, batch_rows)
        for number, batch in enumerate(batches):
            part = _numbers(_without_unread(pa.Table.from_batches([batch]), done))
            whole = _required(part, table, done)
            done.left_out += len(part) - len(whole)
            days = {date: whole} if date is not None else _by_day(whole, schema.time or "")
            for day, inside in days.items():
                if len(inside):
                    name = f"{uploader}.{number}"
                    write_rows(store, table, inside, cluster=cluster, date=str(day), machine=name)
                    done.files += 1
                    done.rows[table] = done.rows.get(table, 0) + len(inside)


@contextmanager
def reading() -> Iterator[None]:
    """Turn what the engine says of its input into a RecordError."""
    try:
        yield
    except Exception as error:
        # By way of Arrow the engine's errors come as OSError, without the number that the system's have.
        is_engines = type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb")
        if is_engines or (
            isinstance(error, OSError | pa.ArrowException) and not getattr(error, "errno", None)
        ):
            line = next(iter(str(error).splitlines()), type(error).__name__)
            raise RecordError(f"the input cannot be read: {line}") from error
        raise


def _numbers(rows: pa.Table) -> pa.Table:
    """Return the rows with null for what is no number: a text "NaN", zero over zero."""
    for place, named in enumerate(rows.schema):
        if pa.types.is_floating(named.type):
            column = rows[named.name]
            missing = pa.scalar(None, named.type)
            rows = rows.set_column(place, named, pc.if_else(pc.is_nan(column), missing, column))
    return rows


def _without_unread(rows: pa.Table, done: Imported) -> pa.Table:
    """Return the rows without the columns that hold what could not be read, which is counted."""
    for name in [name for name in rows.column_names if name.startswith(UNREAD)]:
        values = rows[name]
        count = len(values) - values.null_count
        if count:
            before, first = done.unread.get(name.removeprefix(UNREAD), (0, ""))
            known = first or str(values.drop_null()[0].as_py())
            done.unread[name.removeprefix(UNREAD)] = (before + count, known)
        rows = rows.drop_columns([name])
    return rows


def _required(rows: pa.Table, table: str, done: Imported) -> pa.Table:
    """Return the rows that have every value that the table requires; what others lack is counted."""
    keep: Any = None
    for column in TABLES[table].columns:
        if not column.nullable and column.name in rows.column_names:
            there = pc.is_valid(rows[column.name])
            lacking = rows[column.name].null_count
            if lacking:
                done.lacking[column.name] = done.lacking.get(column.name, 0) + lacking
            keep = there if keep is None else pc.and_(keep, there)
    time = TABLES[table].time
    if keep is not None and time is not None and time in rows.column_names:
        # Other times have no date; they are of a file that counts in another unit than was said.
        beyond = pc.or_(pc.less(rows[time], 0), pc.greater_equal(rows[time], _TIMES_BELOW))
        odd = pc.sum(beyond).as_py()
        if odd:
            key = f"{time} from 1970 to 9999"
            done.lacking[key] = done.lacking.get(key, 0) + odd
        inside = pc.and_(pc.greater_equal(rows[time], 0), pc.less(rows[time], _TIMES_BELOW))
        keep = pc.and_(keep, pc.fill_null(inside, False))
    return rows if keep is None else rows.filter(keep)


def _by_day(rows: pa.Table, time: str) -> dict[str, pa.Table]:
    """Return the rows by the day that their time is in."""
    if not len(rows):
        return {}
    # Times may be years apart: only days with a row are looked at.
    days = pc.floor(pc.divide(pc.cast(rows[time], pa.float64()), float(DAY_S)))
    known = sorted(pc.unique(days).to_pylist())
    return {date_of(int(day) * DAY_S): rows.filter(pc.equal(days, day)) for day in known}


def labels(**words: Any) -> Any:
    """Return an Ibis map column of ``words``: texts, or text columns (null ones stay, as null)."""
    values = [ibis.literal(value) if isinstance(value, str) else value for value in words.values()]
    return ibis.map(ibis.array(list(words)), ibis.array(values))


def must(files: Sequence[Path], noun: str, inputs: Sequence[Path]) -> list[Path]:
    """Return ``files``. Raises EnvironmentLacksError when it is empty."""
    if not files:
        where = ", ".join(map(str, inputs))
        raise EnvironmentLacksError(f"{where}: no {noun} there", hint="name the trace's folder or its files")
    return list(files)
