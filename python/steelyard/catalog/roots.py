"""Which files a page may be made of: those below the folder of runs, and no others.

In: a path as an address has it. Out: a folder below the root. A link that leads out of the root is refused,
whether it is the folder, a part of its path, or a file in it that a page would read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from steelyard._base import RecordError, UsageError

_MOST_FILES = 20_000


class NotThereError(UsageError):
    """There is no such folder, or page."""


def folder_at(root: Path, path: str) -> Path:
    """Return the folder at ``path`` below ``root``. Raises NotThereError where there is none."""
    parts = path.split("/")
    if not path or any(part in ("", ".", "..") or part.startswith(".") or "\0" in part for part in parts):
        raise NotThereError(f"there is no {path[:200]!r} here")
    folder = root.joinpath(*parts)
    try:
        is_there = folder.is_dir() and is_inside(root, folder)
    except OSError:
        is_there = False
    if not is_there:
        raise NotThereError(f"there is no {path[:200]!r} here")
    return folder


def is_inside(root: Path, path: Path) -> bool:
    """Whether ``path``, its links followed, is below ``root``."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def check_links(root: Path, folder: Path) -> None:
    """Raise RecordError where a link in ``folder`` leads out of ``root``."""
    for count, entry in enumerate(_entries(folder)):
        if count > _MOST_FILES:
            raise RecordError(f"{folder.name}: more than {_MOST_FILES} files")
        if entry.is_symlink() and not is_inside(root, Path(entry.path)):
            raise RecordError(f"{folder.name}: {entry.name} is a link that leads out of the folder of runs")


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            listed = list(entries)
    except OSError:
        return
    yield from listed
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def subfolders(root: Path, folder: str) -> list[str]:
    """Return the names of folders in ``folder``, without hidden ones and links that lead out of ``root``."""
    try:
        with os.scandir(folder) as entries:
            # Ten thousand of them are looked at for each list: no more than the kernel says anyway.
            return [
                entry.name
                for entry in entries
                if entry.name[0] != "."
                and entry.is_dir()
                and (not entry.is_symlink() or is_inside(root, Path(entry.path)))
            ]
    except OSError:
        return []
