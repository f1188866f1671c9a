"""Removes what a store has kept long enough.

In: a place, and how many days to keep. Out: `Expiry`, and the files of older days gone: those that count,
those put aside, and what was set aside in the quarantine. By default the tables that tell of windows; what
machines are, symbols and specs stay until their tables are named.

Invariants: a file is removed whole, by the day in its path alone; removing again changes nothing.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steelyard._base import UsageError
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.layout import QUARANTINE, check_date
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.write import table_schema


@dataclass(frozen=True)
class Removed:
    """What was removed of a table."""

    files: int
    """How many files."""
    bytes: int
    """Their size."""


@dataclass
class Expiry:
    """What was removed of a store: `steelyard fleet expire --json`."""

    KIND: ClassVar[str] = "fleet_expire"

    first_kept: str
    """The first day that was kept."""
    removed: dict[str, Removed] = field(default_factory=dict)
    """By table."""


def expire_store(
    place: Place,
    keep_days: int,
    *,
    tables: Sequence[str] | None = None,
    today: str | None = None,
    dry_run: bool = False,
) -> Expiry:
    """Remove every file of a day before the last ``keep_days`` days, ``today`` (UTC) being one of them."""
    day = check_date(today) if today else datetime.datetime.now(datetime.UTC).date().isoformat()
    first = datetime.date.fromisoformat(day) - datetime.timedelta(days=keep_days - 1)
    done = Expiry(first.isoformat())
    names = [table_schema(name).name for name in tables] if tables else None
    for name in names or [table.name for table in TABLES.values() if table.windowed]:
        files = size = 0
        for folder in (name, f"{QUARANTINE}/{name}"):
            for entry in place.entries(folder):
                date = _date_in(entry.path)
                if date is not None and date < done.first_kept:
                    files, size = files + 1, size + entry.size_bytes
                    if not dry_run:
                        place.remove(entry.path)
        done.removed[name] = Removed(files, size)
    return done


def _date_in(path: str) -> str | None:
    """Return the day that a file's folders name; None where they name none.

    >>> _date_in("profiles/schema=1/date=2026-01-31/cluster=a/x.parquet")
    '2026-01-31'
    >>> _date_in("profiles/x.parquet") is None
    True
    """
    for part in path.split("/"):
        if part.startswith("date="):
            try:
                return check_date(part.removeprefix("date="))
            except UsageError:
                return None
    return None
