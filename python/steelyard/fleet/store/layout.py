"""Names in a store: folders by table, version, day and cluster, and files by machine and content.

    STORE/<table>/schema=N/date=YYYY-MM-DD/cluster=<encoded>/<machine encoded>.<first window>.<hash>.parquet
    STORE/<table>/schema=N/date=YYYY-MM-DD/cluster=<encoded>/compact.<hash>.parquet

N is the major version of the table, or an earlier one.

Pure functions between names and what they say. Invariants: a machine's or cluster's name is percent-encoded,
so that it is one part of a path and never hidden; the same content has the same name, so that a second upload
replaces the first.
"""

import datetime
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from steelyard._base import UsageError
from steelyard.fleet.store.schema import TABLES

MARKER = "steelyard-store.json"
"""The file that makes a folder a store."""

QUARANTINE = "quarantine"
"""The folder of rows that were moved away; no table."""

_SCHEMA = re.compile(r"schema=([1-9]\d*)")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_COMPACT = re.compile(r"compact\.[0-9a-f]{16}\.parquet")
_RAW = re.compile(r"(?P<machine>[^.]+)\.(?P<first>-?\d+)\.(?P<hash>[0-9a-f]{16})\.parquet")


@dataclass(frozen=True, order=True)
class Partition:
    """One day of one cluster in one table."""

    table: str
    date: str
    cluster: str

    @property
    def path(self) -> str:
        """The folder that its files are written into, relative to the store."""
        return (
            f"{self.table}/schema={TABLES[self.table].major}/date={self.date}/cluster={encode(self.cluster)}"
        )


def encode(name: str) -> str:
    """Return ``name`` as one part of a path: all but letters, digits, ``-`` and ``_`` are encoded.

    >>> encode("rack 1/a.b")
    'rack%201%2Fa%2Eb'
    >>> decode(encode("rack 1/a.b~é"))
    'rack 1/a.b~é'
    """
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")


def decode(part: str) -> str:
    """Return the name that `encode` was given."""
    return unquote(part)


def partition_of(path: str) -> Partition | str:
    """Return the partition of a file at ``path`` (relative to the store), or why it belongs to none.

    >>> partition_of("task_samples/schema=1/date=2026-01-31/cluster=a/x.1.0123456789abcdef.parquet")
    Partition(table='task_samples', date='2026-01-31', cluster='a')
    >>> partition_of("task_samples/schema=3/date=2026-01-31/cluster=a/x.parquet")
    'schema 3 is of a later major version than 2'
    >>> partition_of("task_samples/x.parquet")
    'not in a folder schema=N/date=YYYY-MM-DD/cluster=NAME'
    """
    parts = path.split("/")
    strays = "not in a folder schema=N/date=YYYY-MM-DD/cluster=NAME"
    folder = _SCHEMA.fullmatch(parts[1]) if len(parts) > 1 else None
    if folder is not None and int(folder[1]) > TABLES[parts[0]].major:
        return f"schema {folder[1]} is of a later major version than {TABLES[parts[0]].major}"
    if len(parts) != 5 or folder is None:
        return strays
    table, _, date, cluster, _ = parts
    if not date.startswith("date=") or not cluster.startswith("cluster=") or cluster == "cluster=":
        return strays
    try:
        day = check_date(date.removeprefix("date="))
    except UsageError:
        return f"{date} names no day"
    return Partition(table, day, decode(cluster.removeprefix("cluster=")))


def check_date(text: str) -> str:
    """Return ``text`` when it is a day as YYYY-MM-DD. Raises UsageError."""
    try:
        if _DAY.fullmatch(text):
            datetime.date.fromisoformat(text)
            return text
    except ValueError:
        pass
    raise UsageError(f"{text!r} is no day", hint="write it as 2026-01-31")


def date_of(unix_s: float) -> str:
    """Return the day of UTC that ``unix_s`` is in.

    >>> date_of(1_767_225_599), date_of(1_767_225_600)
    ('2025-12-31', '2026-01-01')
    """
    return datetime.datetime.fromtimestamp(unix_s, tz=datetime.UTC).date().isoformat()


def start_of(date: str) -> int:
    """Return when the day ``date`` begins, Unix time.

    >>> start_of("2026-01-01")
    1767225600
    """
    day = datetime.date.fromisoformat(date)
    return int(datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp())


def raw_name(machine: str, first_unix_s: int, digest: str) -> str:
    """Return the name of a machine's upload: of whom, from when, and the content's SHA-256 in hexadecimal."""
    return f"{encode(machine)}.{first_unix_s}.{digest[:16]}.parquet"


def compact_name(digest: str) -> str:
    """Return the name of a compacted file."""
    return f"compact.{digest[:16]}.parquet"


def is_compact(name: str) -> bool:
    """Return whether ``name`` is a compacted file's."""
    return _COMPACT.fullmatch(name) is not None


def machine_of(name: str) -> str | None:
    """Return the machine that a raw file is from; None for a compacted file or another's name.

    >>> machine_of(raw_name("web.17", 1_767_225_600, "0123456789abcdef"))
    'web.17'
    >>> machine_of(compact_name("0123456789abcdef")) is None
    True
    """
    match = _RAW.fullmatch(name)
    return decode(match["machine"]) if match else None
