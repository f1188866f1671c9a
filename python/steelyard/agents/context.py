"""What the tools of a server share: folders, the index, the store, and what may still be measured.

Not here: messages (``wire``, ``server``), tools (``tools``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard._base import ResultSaysNoError, UsageError
from steelyard.agents.data import quoted, without_paths
from steelyard.catalog.folder import Catalog, Settings
from steelyard.catalog.index import FILE, Index
from steelyard.catalog.roots import check_links, folder_at, real_path, shown_path
from steelyard.report.folders.kinds import Kind, kind_of

RUNS = "runs"
"""The name under which decisions take the folder of runs for a table."""


@dataclass
class Budget:
    """Seconds that benchmarks may still take in this session; None where none may run."""

    left_s: float | None = None

    def take(self, seconds: float) -> None:
        """Take what was used."""
        if self.left_s is not None:
            self.left_s = max(0.0, self.left_s - seconds)


@dataclass(eq=False)
class Stop:
    """How a call that is no longer wanted is stopped."""

    wanted: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    """Set once the call's thread works."""
    note: str = ""
    """What the call is at, for whoever waits."""
    act: Callable[[], None] | None = None
    """Interrupts what the call waits for."""

    def stop(self) -> None:
        """Stop the call."""
        self.wanted.set()
        if self.act is not None:
            self.act()

    def check(self) -> None:
        """Raise ResultSaysNoError where the call is not wanted any more."""
        if self.wanted.is_set():
            raise ResultSaysNoError("cancelled")


@dataclass
class Context:
    """The state of a server."""

    root: Path
    store: str | None
    tables: tuple[Path, ...]
    budget: Budget = field(default_factory=Budget)
    given: Path | None = None
    """The folder of runs as it was named at the start."""
    measuring: threading.Lock = field(default_factory=threading.Lock)
    """Held while a benchmark runs."""
    catalog: Catalog = field(init=False)

    def __post_init__(self) -> None:
        # In memory, unless `steelyard serve` has left one: a server that only reads leaves nothing there.
        has_index = (self.root / FILE).is_file()
        index = Index(self.root, None if has_index else Path(":memory:"))
        self.catalog = Catalog(Settings(self.root, self.store, self.tables, given=self.given), index)

    @property
    def index(self) -> Index:
        """The index of the folder of runs."""
        return self.catalog.index

    def close(self) -> None:
        """Free the index."""
        self.catalog.close()

    def folder(self, path: str) -> Path:
        """Return the folder that ``list_runs`` has as ``path``. Raises UsageError."""
        folder = folder_at(self.root, real_path(self.root, path))
        if kind_of(folder) is None:
            raise UsageError(f"there is no run at {path[:200]!r}", hint="list_runs has the paths")
        check_links(self.root, folder)
        return folder

    def run(self, path: str) -> Path:
        """Return the folder of one run. Raises UsageError for another folder."""
        folder = self.folder(path)
        kind = kind_of(folder)
        if kind is not Kind.RUN:
            runs = [one.name for one in sorted(folder.iterdir()) if kind_of(one) is Kind.RUN]
            members = [f"{path}/{shown_path(name)}" for name in runs]
            hint = f"its runs: {', '.join(members[:8])}" if members else "list_runs has the paths"
            raise UsageError(f"{path[:200]!r} is no run but a {kind}", hint=hint)
        return folder

    def table(self, name: str) -> Path:
        """Return the file of a table, or the folder of runs. Raises UsageError for another name."""
        if name == RUNS:
            return self.root
        found = next((table for table in self.tables if table.name == name), None)
        if found is None:
            known = ", ".join(self.table_names)
            raise UsageError(f"there is no table {name[:80]!r}", hint=f"tables: {known}")
        return found

    @property
    def table_names(self) -> Sequence[str]:
        """The names that decisions take."""
        return [*dict.fromkeys(table.name for table in self.tables), RUNS]

    def named(self, text: str) -> str:
        """Return a text without where the folders and the store are on this machine."""
        # Agents know the store by the word that tools use.
        text = text if self.store is None else text.replace(self.store, "STORE")
        return self.catalog.without_root(text)

    def quoted(self, value: Any) -> Any:
        """Return a value as an agent gets it."""
        return quoted(value, self.named)

    def message(self, text: str) -> str:
        """Return the text of an error as an agent gets it: no path of this machine is in it."""
        found: str = quoted(without_paths(self.named(text)))
        return found
