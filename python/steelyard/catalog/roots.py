"""Which files a page may be made of: those below the folder of runs, and no others.

In: a path as an address has it. Out: a folder below the root. A link that leads out of the root is refused,
whether it is the folder, a part of its path, or a file in it that a page would read.

Names of folders are bytes of any kind: `shown_path` spells them in letters that survive where they are shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from steelyard._base import RecordError, UsageError

NOT_UTF8 = "the folder's name is not UTF-8"
_MOST_FILES = 20_000
_LIKE_ENCODED = re.compile("%(?=[0-9A-Fa-f]{2})")
_LOST_SPACE = re.compile("^ | $|(?<= ) ")


class NotThereError(UsageError):
    """There is no such folder, or page."""


def folder_at(root: Path, path: str) -> Path:
    """Return the folder at ``path`` below ``root``.

    Raises NotThereError where there is none, RecordError where its name is not UTF-8.
    """
    folder = _folder(root, path)
    decoded = unquote(path, errors="surrogateescape")
    if not is_utf8(decoded) and _folder(root, decoded) is not None:
        raise RecordError(f"{shown_path(decoded)}: {NOT_UTF8}", hint="rename it")
    if folder is None:
        raise NotThereError(f"there is no {path[:200]!r} here")
    return folder


def _folder(root: Path, path: str) -> Path | None:
    parts = path.split("/")
    if any(part == "" or part.startswith(".") or "\0" in part for part in parts):
        return None
    folder = root.joinpath(*parts)
    try:
        return folder if folder.is_dir() and is_inside(root, folder) else None
    except (OSError, ValueError):
        return None


def is_utf8(path: str) -> bool:
    """Whether a path of the file system can be written down as text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def listed_path(path: str) -> str:
    """Return the path that the index has for one of the file system: itself if it is text, else as shown."""
    return path if is_utf8(path) else shown_path(path)


def shown_path(path: str) -> str:
    """Return a path in letters that can be shown and given back: others are percent-encoded.

    `real_path` undoes it. Spaces that whoever copies the path might drop are encoded too.

    >>> shown_path("esc\\x1b[31m red"), shown_path("100%"), shown_path("a%1Bb "), shown_path("caf\\udce9")
    ('esc%1B[31m red', '100%', 'a%251Bb%20', 'caf%E9')
    """
    path = _LIKE_ENCODED.sub("%25", path)
    letters = (one if one.isprintable() else quote(one, errors="surrogateescape") for one in path)
    return _LOST_SPACE.sub("%20", "".join(letters))


def real_path(root: Path, shown: str) -> str:
    """Return the path below ``root`` that `shown_path` spelt as ``shown``, else ``shown``, if it is none.

    Raises RecordError for a folder whose name is not UTF-8.
    """
    decoded = unquote(shown, errors="surrogateescape")
    try:
        folder_at(root, decoded)
    except NotThereError:
        return shown
    return decoded


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
    """Return the names of folders in ``folder``, without hidden ones and links that lead out of ``root``.

    Raises OSError where ``folder`` cannot be read.
    """
    with os.scandir(folder) as entries:
        # Ten thousand of them are looked at for each list: no more than the kernel says anyway.
        return [entry.name for entry in entries if entry.name[0] != "." and _is_folder(root, entry)]


def _is_folder(root: Path, entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() and (not entry.is_symlink() or is_inside(root, Path(entry.path)))
    except OSError:
        # A link to itself, or to where this user may not look.
        return False
