"""What all pages of a server share: where runs, store and tables are, the index, jobs, rendered pages.

Not here: routes (``app``), pages (``pages``).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.web.index.store import Index
from steelyard.web.jobs import Jobs

_CACHE_BYTES = 64 << 20


@dataclass(frozen=True)
class Settings:
    """What a server was started with. Paths are absolute: `runs` in a message may be a word."""

    root: Path
    """Folder of runs."""
    store: str | None = None
    """A fleet's store: a folder, or an address."""
    tables: tuple[Path, ...] = ()
    """Files of machines and results."""
    index: Path | None = None

    @property
    def store_name(self) -> str:
        """How pages call the store: without where it is on this machine."""
        store = self.store or ""
        return store if "://" in store else Path(store).name


@dataclass
class Context:
    """The state of a server."""

    settings: Settings
    index: Index
    jobs: Jobs = field(default_factory=Jobs)
    pages: PageCache = field(default_factory=lambda: PageCache(_CACHE_BYTES))

    def close(self) -> None:
        """Stop the jobs and free the index."""
        self.jobs.close()
        self.index.close()

    def without_root(self, text: str) -> str:
        """Return a message without where the folders are on this machine."""
        root = self.settings.root
        names = dict.fromkeys((root, root.resolve()), "the folder of runs")
        names |= {path: table.name for table in self.settings.tables for path in (table, table.resolve())}
        if self.settings.store is not None and "://" not in self.settings.store:
            names[Path(self.settings.store)] = self.settings.store_name
        # What lies in another folder goes first; a relative path may be a word.
        for path in sorted(names, key=lambda path: -len(str(path))):
            if not path.is_absolute() or path == Path("/"):
                continue
            before, *parts = re.split(rf"{re.escape(str(path))}(?![\w.-])", text)
            is_root = path in (root, root.resolve())
            # A folder in the root is called by its path there.
            text = before + "".join(
                part[1:] if is_root and part[:1] == "/" else names[path] + part for part in parts
            )
        return text


class PageCache:
    """Texts of pages by key, the oldest forgotten when there are too many."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._pages: OrderedDict[Hashable, str] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], str]) -> str:
        """Return the page of ``key``, made where it is not there."""
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
                return self._pages[key]
        made = make()
        with self._lock:
            if key not in self._pages and len(made) <= self._most_bytes:
                self._pages[key] = made
                self._bytes += len(made)
                while self._bytes > self._most_bytes:
                    _, dropped = self._pages.popitem(last=False)
                    self._bytes -= len(dropped)
        return made
