"""The index kept in SQLite: refreshed from the folders, asked by pages.

In: a folder of runs. Out: `Entry` rows, counts and series of metrics. The folders are the authority: a row is
read again when its record changes, and an index that is damaged, of another version, or cannot be written is
made anew, in memory where there is no other place.

Several servers may share one index: each transaction is short, and what one has read the other finds.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard._base import SteelyardError
from steelyard.catalog.entries import Entry, entry_of, folders, unreadable
from steelyard.catalog.filters import PAGE_ROWS, RunFilter
from steelyard.catalog.roots import listed_path, shown_path
from steelyard.records import Metric
from steelyard.report.folders.kinds import Kind, kind_of

FILE = ".steelyard-index.sqlite"
_VERSION = 2
_FRESH_S = 1.0
"""How old what is known of the folders may be when it is asked for."""
_FIRST_S = 2.0
"""How long the first list waits for the folders to be read."""
_BATCH = 200
_MOST_POINTS = 20_000
_MOST_NAMES = 3
_COLUMNS = (
    "path", "kind", "title", "status", "reason", "verdict", "tier", "parent", "metric", "value", "unit",
    "begin_ns", "host", "processor", "cpus", "kernel", "version",
)  # fmt: skip
_TABLES = f"""
CREATE TABLE folder ({", ".join(f"{name} {'PRIMARY KEY' if name == 'path' else ''}" for name in _COLUMNS)},
    tags, text, stamp);
CREATE INDEX by_time ON folder (begin_ns);
CREATE INDEX by_title ON folder (title, begin_ns);
CREATE TABLE metric (path, name, value, unit, better, missing, PRIMARY KEY (path, name)) WITHOUT ROWID;
CREATE INDEX by_name ON metric (name);
PRAGMA user_version = {_VERSION};
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """A page of a list."""

    entries: list[Entry]
    total: int
    """Rows of all pages."""
    page: int

    @property
    def pages(self) -> int:
        """How many pages there are, at least one."""
        return max(1, -(-self.total // PAGE_ROWS))


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric over runs."""

    entry: Entry
    value: float
    unit: str
    better: str | None


@dataclass(frozen=True, slots=True)
class Unread:
    """Folders of the first level that have no record: what is below them is not looked at."""

    count: int = 0
    names: tuple[str, ...] = ()
    """The first of them, as they can be shown."""

    @property
    def note(self) -> str:
        """What to say of them, empty where there are none."""
        if not self.count:
            return ""
        noun = "folder has no record and was" if self.count == 1 else "folders have no record and were"
        more = self.count - len(self.names)
        names = ", ".join(self.names) + (f" and {more:,} more" if more else "")
        return f"{self.count:,} {noun} not searched for runs: {names}"


class RefreshError(SteelyardError):
    """What is in the folder of runs is not known: the index could not be refreshed."""


class Index:
    """The index of the folders below ``root``; safe to use from several threads."""

    def __init__(self, root: Path, file: Path | None = None, clock: Callable[[], float] = time.monotonic):
        self.root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._reader: threading.Thread | None = None
        self._is_closed = False
        self._scanned_s = -1e9
        self._waiting = 0
        self._path = file or root / FILE
        self.problem = ""
        """Why it is kept in memory, empty where it is not."""
        self.unread = Unread()
        """Folders that the latest refresh did not look into."""
        self._failure = ""
        self._connection = self._open()

    def close(self) -> None:
        """Free the file."""
        self._is_closed = True
        with self._lock:
            self._connection.close()

    @property
    def waiting(self) -> int:
        """Folders that are still to be read by a refresh under way."""
        return self._waiting

    def refresh(self, *, most_s: float | None = None) -> None:
        """Read what changed since the last time, in a thread; wait for it no longer than ``most_s``.

        The first time that wait is a little longer: an empty list would be no answer.

        Raises RefreshError where the latest refresh that ended has failed.
        """
        if self._clock() - self._scanned_s < _FRESH_S:
            return
        if most_s is not None and self._scanned_s < 0:
            most_s = max(most_s, _FIRST_S)
        with self._starting:
            if self._reader is None or not self._reader.is_alive():
                self._reader = threading.Thread(target=self._read, name="index", daemon=True)
                self._reader.start()
            reader = self._reader
        reader.join(most_s)
        if self._failure:
            raise RefreshError(f"the folder of runs cannot be listed: {self._failure}")

    def _read(self) -> None:
        try:
            try:
                self._read_changes()
            except sqlite3.Error as error:
                if self._is_closed:
                    return
                # A full disk, or another server that does not let go: the folders are still there.
                self._go_to_memory(error)
                self._read_changes()
            self._scanned_s = self._clock()
            self._failure = ""
        except (OSError, sqlite3.Error) as error:
            self._failure = getattr(error, "strerror", None) or str(error)
        except Exception as error:
            traceback.print_exception(error, file=sys.stderr)
            self._failure = f"an error in Steelyard: {type(error).__name__}"
        finally:
            self._waiting = 0

    def rows(self, asked: RunFilter) -> Rows:
        """Return a page of the list."""
        where, values = asked.where()
        with self._transaction() as connection:
            (total,) = connection.execute(f"SELECT count(*) FROM folder WHERE {where}", values).fetchone()
            found = connection.execute(
                f"SELECT {', '.join(_COLUMNS)}, tags FROM folder WHERE {where}"
                f" ORDER BY {asked.order_by()} LIMIT ? OFFSET ?",
                [*values, PAGE_ROWS, (asked.page - 1) * PAGE_ROWS],
            ).fetchall()
        return Rows([_entry(row) for row in found], total, asked.page)

    def entry(self, path: str) -> Entry | None:
        """Return the row of a folder, with its metrics."""
        with self._transaction() as connection:
            row = connection.execute(
                f"SELECT {', '.join(_COLUMNS)}, tags FROM folder WHERE path = ?", [path]
            ).fetchone()
            metrics = connection.execute(
                "SELECT name, value, unit, better, missing FROM metric WHERE path = ?", [path]
            ).fetchall()
        return None if row is None else _entry(row, metrics)

    def latest(self) -> list[Entry]:
        """Return the latest run that is not invalid of each benchmark, tier and host."""
        columns = ", ".join(_COLUMNS)
        with self._transaction() as connection:
            found = connection.execute(
                f"SELECT {columns}, tags, max(begin_ns) FROM folder"
                " WHERE kind = 'run' AND status = 'complete' AND verdict != 'invalid'"
                " GROUP BY title, tier, host ORDER BY title LIMIT 1000"
            ).fetchall()
        return [_entry(row[:-1]) for row in found]

    def values_of(self, column: str) -> list[tuple[str, int]]:
        """Return the values of a column with how often each is there, the most frequent first."""
        if column not in _COLUMNS:
            raise ValueError(column)
        # A list of titles is one of benchmarks.
        where = "kind = 'run'" if column == "title" else "1"
        with self._transaction() as connection:
            return connection.execute(
                f"SELECT {column}, count(*) AS n FROM folder WHERE {where} AND {column} != ''"
                f" GROUP BY {column} ORDER BY n DESC, {column} LIMIT 200"
            ).fetchall()

    def tags(self) -> list[str]:
        """Return the tags of all folders, the most frequent first."""
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT tags, count(*) FROM folder WHERE tags != '' GROUP BY tags"
            ).fetchall()
        counts: Counter[str] = Counter()
        for tags, count in found:
            for tag in filter(None, tags.split("\n")):
                counts[tag] += count
        return [tag for tag, _ in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))]

    def metrics_of(self, benchmark: str) -> list[str]:
        """Return the names of a benchmark's metrics that have values, the main one first."""
        with self._transaction() as connection:
            found = connection.execute(
                "SELECT name, max(folder.metric = name) AS is_main, count(*) AS n FROM metric"
                " JOIN folder USING (path) WHERE title = ? AND kind = 'run' AND metric.value IS NOT NULL"
                " GROUP BY name ORDER BY is_main DESC, n DESC, name LIMIT 500",
                [benchmark],
            ).fetchall()
        return [name for name, *_ in found]

    def series(self, metric: str, asked: RunFilter) -> list[Point]:
        """Return a metric over the runs of a filter, in the order of time."""
        where, values = asked.where()
        columns = ", ".join(f"folder.{name}" for name in _COLUMNS)
        with self._transaction() as connection:
            found = connection.execute(
                f"SELECT {columns}, tags, m.value, m.unit, m.better"
                f" FROM metric AS m JOIN (SELECT * FROM folder WHERE {where}) AS folder USING (path)"
                " WHERE m.name = ? AND m.value IS NOT NULL ORDER BY begin_ns DESC, path LIMIT ?",
                [*values, metric, _MOST_POINTS],
            ).fetchall()
        return [Point(_entry(row[:-3]), *row[-3:]) for row in reversed(found)]

    def _open(self) -> sqlite3.Connection:
        try:
            return self._opened(str(self._path))
        except (sqlite3.Error, OSError) as error:
            first = error
        # A file of another version, or a damaged one: it holds nothing that the folders do not.
        with contextlib.suppress(OSError, sqlite3.Error):
            if isinstance(first, sqlite3.DatabaseError) and not isinstance(first, sqlite3.OperationalError):
                for ending in ("", "-wal", "-shm"):
                    Path(f"{self._path}{ending}").unlink(missing_ok=True)
                return self._opened(str(self._path))
        self.problem = f"{self._path}: {first}; the index is kept in memory"
        return self._opened(":memory:")

    def _go_to_memory(self, error: Exception) -> None:
        with self._lock:
            self._connection.close()
            self.problem = f"{self._path}: {error}; the index is kept in memory"
            self._connection = self._opened(":memory:")

    def _opened(self, name: str) -> sqlite3.Connection:
        if name != ":memory:" and os.path.islink(name):
            raise OSError("is a link")
        connection = sqlite3.connect(name, timeout=10, isolation_level=None, check_same_thread=False)
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise sqlite3.DatabaseError(f"an index of version {version}")
            if version == 0:
                for statement in _TABLES.split(";"):
                    connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _read_changes(self) -> None:
        with self._transaction() as connection:
            rows = connection.execute("SELECT path, stamp, kind FROM folder").fetchall()
        known = {path: stamp for path, stamp, _ in rows}
        kinds = {path: Kind(kind) for path, _, kind in rows}
        suites = {path for path, kind in kinds.items() if kind is Kind.SUITE}
        there: dict[str, tuple[str, str, str]] = {}
        unread = []
        for place, parent in folders(self.root, suites):
            path = listed_path(place)
            if stamp := _stamp(f"{self.root}/{place}", kinds.get(path)):
                # A name that is text goes before one that is spelt like it.
                if path == place or path not in there:
                    there[path] = place, listed_path(parent), stamp
            elif "/" not in place:
                unread.append(shown_path(place))
        self.unread = Unread(len(unread), tuple(sorted(unread)[:_MOST_NAMES]))
        changed = [path for path, (*_, stamp) in there.items() if known.get(path) != stamp]
        gone = [path for path in known if path not in there]
        self._waiting = len(changed)
        for at in range(0, len(changed), _BATCH):
            batch = changed[at : at + _BATCH]
            read = []
            for path in batch:
                place, parent, stamp = there[path]
                read.append((path, entry_of(self.root / place, self.root, parent), stamp))
            with self._transaction(writes=True) as connection:
                _put(connection, read)
            self._waiting -= len(batch)
        if gone:
            with self._transaction(writes=True) as connection:
                _drop(connection, gone)


def _stamp(folder: str, known: Kind | None) -> str:
    """Return what changes when the record of a folder does; empty where there is none.

    ``known`` is what was there when it was last looked at.
    """
    kind = known or kind_of(Path(folder))
    if kind is None:
        return ""
    try:
        status = os.lstat(f"{folder}/{kind.record}")
    except OSError:
        # It is gone, or another thing is there now.
        return _stamp(folder, None) if known is not None else "?"
    return f"{status.st_mtime_ns}.{status.st_size}.{status.st_ino}"


def _put(connection: sqlite3.Connection, read: Sequence[tuple[str, Entry | None, str]]) -> None:
    _drop(connection, [path for path, _, _ in read])
    for path, entry, stamp in read:
        if entry is None:
            continue
        try:
            _insert(connection, entry, stamp)
        except (ValueError, OverflowError):
            # Half a surrogate pair, or a number beyond 64 bits: there are rows of this folder alone.
            _drop(connection, [path])
            reason = "it holds a number or a text that no index can keep"
            _insert(connection, unreadable(path, entry.kind, reason, entry.parent), stamp)


def _insert(connection: sqlite3.Connection, entry: Entry, stamp: str) -> None:
    # One that is under way is looked at again: it ends without a change where its program is killed.
    mark = "r" if entry.status == "running" else ""
    tags = "\n" + "\n".join(entry.tags) + "\n" if entry.tags else ""
    words = " ".join(
        (entry.path, entry.title, entry.tier, entry.host, entry.processor, entry.kernel, *entry.tags)
    )
    connection.execute(
        f"INSERT INTO folder VALUES ({', '.join('?' * (len(_COLUMNS) + 3))})",
        [*(getattr(entry, name) for name in _COLUMNS), tags, words.casefold(), f"{stamp}{mark}"],
    )
    connection.executemany(
        "INSERT INTO metric VALUES (?, ?, ?, ?, ?, ?)",
        [
            (entry.path, name, metric.value, metric.unit, metric.better, metric.missing)
            for name, metric in entry.metrics.items()
        ],
    )


def _drop(connection: sqlite3.Connection, paths: Sequence[str]) -> None:
    listed = json.dumps(list(paths))
    for table in ("folder", "metric"):
        connection.execute(f"DELETE FROM {table} WHERE path IN (SELECT value FROM json_each(?))", [listed])


def _entry(row: Sequence[Any], metrics: Sequence[Sequence[Any]] = ()) -> Entry:
    values: Mapping[str, Any] = dict(zip(_COLUMNS, row, strict=False))
    tags = tuple(filter(None, (row[len(_COLUMNS)] or "").split("\n")))
    found = {
        name: Metric(value=value, unit=unit, better=better, missing=missing)
        for name, value, unit, better, missing in metrics
    }
    return Entry(**values, tags=tags, metrics=found)
