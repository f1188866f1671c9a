"""What can be asked of the index: words, kinds, dates, an order, a page.

In: the query of an address. Out: a `RunFilter`, and SQL with parameters. Names of columns are ours; values
from outside are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from steelyard._base import UsageError
from steelyard.catalog.entries import UNREADABLE
from steelyard.records import Level, RunStatus
from steelyard.report.folders.kinds import Kind

PAGE_ROWS = 100
_MOST_PAGES = 1_000_000

ORDERS = {
    "time": "begin_ns",
    "name": "title",
    "verdict": "verdict",
    "result": "value",
    "machine": "processor",
    "kernel": "kernel",
}
"""Columns that rows are ordered by, by the word in an address."""

CHOICES: dict[str, tuple[str, ...]] = {
    "order": tuple(ORDERS),
    "verdict": tuple(level.value for level in Level),
    "status": (*(status.value for status in RunStatus), UNREADABLE),
    "kind": tuple(kind.value for kind in Kind),
}
"""What has few words: each of them."""

_EXACT = ("kind", "benchmark", "tier", "verdict", "status", "host", "processor", "kernel")


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which folders are listed, and in which order."""

    search: str = ""
    """Words, all of which stand in the line of a folder."""
    kind: str = ""
    benchmark: str = ""
    tier: str = ""
    verdict: str = ""
    status: str = ""
    host: str = ""
    processor: str = ""
    kernel: str = ""
    tag: str = ""
    since: str = ""
    """First day, as 2026-01-31 (UTC)."""
    until: str = ""
    """Last day (inclusive)."""
    members: bool = False
    """Whether runs of suites are listed beside their suites."""
    order: str = "time"
    ascending: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: Mapping[str, str]) -> RunFilter:
        """Return the filter of an address. Raises UsageError for what it has not."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(query) - known):
            raise UsageError(f"unknown parameter {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}")
        given = {name: value for name, value in query.items() if value != ""}
        page = given.pop("page", "1")
        if not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) <= _MOST_PAGES):
            raise UsageError(f"page {page[:20]!r} is no number from 1")
        others: dict[str, Any] = {
            name: _flag(given.pop(name, "no"), name) for name in ("members", "ascending")
        }
        found = cls(page=int(page), **others, **given)  # type: ignore[arg-type]
        for name, choices in CHOICES.items():
            if (value := getattr(found, name)) and value not in choices:
                raise UsageError(f"unknown {name} {value[:20]!r}", hint=f"known: {', '.join(choices)}")
        for name in ("since", "until"):
            _day(getattr(found, name), name)
        return found

    @property
    def query(self) -> dict[str, str]:
        """Return what differs from its default, as an address has it."""
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                found[field.name] = "yes" if value is True else "no" if value is False else str(value)
        return found

    def where(self) -> tuple[str, list[str | int]]:
        """Return the condition, and its parameters."""
        terms, values = ["1"], list[str | int]()
        for word in self.search.split():
            terms.append("text LIKE ? ESCAPE '\\'")
            values.append(f"%{_escaped(word.casefold())}%")
        for name in _EXACT:
            if value := getattr(self, name):
                column = "title" if name == "benchmark" else name
                terms.append(f"{column} = ?")
                values.append(value)
        if self.benchmark:
            terms.append("kind = 'run'")
        if self.tag:
            terms.append("tags LIKE ? ESCAPE '\\'")
            values.append(f"%\n{_escaped(self.tag)}\n%")
        if self.since:
            terms.append("begin_ns >= ?")
            values.append(_day(self.since, "since"))
        if self.until:
            terms.append("begin_ns < ?")
            values.append(_day(self.until, "until", after=1))
        if not self.members and not self.benchmark:
            terms.append("parent = ''")
        return " AND ".join(terms), values

    def order_by(self) -> str:
        """Return the order: of equal rows the latest first."""
        way = "ASC" if self.ascending else "DESC"
        return f"{ORDERS[self.order]} IS NULL, {ORDERS[self.order]} {way}, begin_ns DESC, path DESC"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _flag(text: str, name: str) -> bool:
    if text not in ("yes", "no"):
        raise UsageError(f"{name} {text[:20]!r} is neither yes nor no")
    return text == "yes"


def _day(text: str, name: str, *, after: int = 0) -> int:
    """Return the start of a day, or of that ``after`` days later, in ns since 1970."""
    if not text:
        return 0
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=after)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{name} {text[:20]!r} is no date", hint="as 2026-01-31") from error
    return int(day.timestamp()) * 1_000_000_000
