"""What all pages of a server share: the catalog, jobs, rendered pages.

Not here: routes (``app``), pages (``pages``).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from steelyard.catalog.folder import Catalog
from steelyard.web.jobs import Jobs
from steelyard.web.watching import Watching

_CACHE_BYTES = 64 << 20


@dataclass
class Context(Catalog):
    """The state of a server."""

    jobs: Jobs = field(default_factory=Jobs)
    pages: PageCache = field(default_factory=lambda: PageCache(_CACHE_BYTES))
    watching: Watching = field(default_factory=Watching)

    def close(self) -> None:
        """Stop the jobs and free the index."""
        self.jobs.close()
        super().close()


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
