"""A folder of runs with its index, and the store and tables beside it.

Not here: finding runs (``index``), what is said of them (``report``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from steelyard.catalog.index import Index

_COMMAND = re.compile(r"\bsteelyard [a-z][^\n`.;]*$")
"""The beginning of a command, of which what follows is an argument."""


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
    given: Path | None = None
    """The folder of runs as it was named at the start."""

    @property
    def runs_name(self) -> str:
        """How commands call the folder of runs: as it was named, without where it is on this machine."""
        is_shown = self.given is not None and not self.given.is_absolute()
        return str(self.given) if is_shown else self.root.name or "."

    @property
    def store_name(self) -> str:
        """How pages call the store: without where it is on this machine."""
        store = self.store or ""
        return store if "://" in store else Path(store).name


@dataclass
class Catalog:
    """What can be asked about: the runs of a folder, a store, tables."""

    settings: Settings
    index: Index

    def close(self) -> None:
        """Free the index."""
        self.index.close()

    def without_root(self, text: str) -> str:
        """Return a message without where the folders are on this machine; commands in it can still be run."""
        root = self.settings.root
        names = dict.fromkeys((root, root.resolve()), "the folder of runs")
        names |= {path: table.name for table in self.settings.tables for path in (table, table.resolve())}
        if self.settings.store is not None and "://" not in self.settings.store:
            names[Path(self.settings.store)] = self.settings.store_name
        # What lies in another folder goes first; a relative path may be a word.
        for path in sorted(names, key=lambda path: -len(str(path))):
            if not path.is_absolute() or path == Path("/"):
                continue
            text, *parts = re.split(rf"{re.escape(str(path))}(?![\w.-])", text)
            is_root = path in (root, root.resolve())
            for part in parts:
                if is_root and _COMMAND.search(text):
                    text += self.settings.runs_name + part
                elif is_root and part[:1] == "/":
                    # A folder in the root is called by its path there.
                    text += part[1:]
                else:
                    text += names[path] + part
        return text
