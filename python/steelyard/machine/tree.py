"""Reading /proc and /sys below a root, where anything may be absent.

In: a root. Out: texts, numbers and names, ``None`` for whatever is not there. Kernel files may fail to be
read in many ways (absent, no permission, EINVAL from a driver that has no answer): all are one case here.
"""

from __future__ import annotations

import re
from pathlib import Path

from steelyard._base import RecordError, open_regular, read_at_most

_BYTES_AT_MOST = 16 << 20
"""The longest file that is read, /proc/interrupts of a large machine, has some 2 MB."""


class Tree:
    """Files below a root."""

    def __init__(self, root: Path | str = "/") -> None:
        self.root = Path(root)

    @property
    def is_live(self) -> bool:
        """Whether this is the running machine and no recorded tree."""
        return self.root == Path("/")

    def path(self, name: str) -> Path:
        """Return where ``name`` (such as ``proc/stat``) is."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Return the stripped content of ``name``, ``None`` where it cannot be read.

        A recorded tree may have anything in a file's place: only regular files are read, and not without end.
        """
        try:
            with open_regular(self.path(name)) as file:
                data = read_at_most(file, _BYTES_AT_MOST)
        except (OSError, RecordError):
            return None
        return data.decode("utf-8", errors="replace").strip(" \t\r\n\0")

    def first_text(self, *names: str) -> str | None:
        """Return the content of the first of ``names`` that can be read and is not empty."""
        for name in names:
            text = self.text(name)
            if text:
                return text
        return None

    def number(self, name: str) -> int | None:
        """Return the integer in ``name``, ``None`` where there is none."""
        text = self.text(name)
        try:
            return int(text) if text else None
        except ValueError:
            return None

    def exists(self, name: str) -> bool:
        """Return whether ``name`` is there."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def link(self, name: str) -> str | None:
        """Return where the symbolic link ``name`` points."""
        try:
            return str(self.path(name).readlink())
        except OSError:
            return None

    def names(self, folder: str, pattern: str = ".*") -> list[str]:
        """Return the names in ``folder`` that match ``pattern`` as a whole, numbers in numeric order."""
        try:
            entries = [entry.name for entry in self.path(folder).iterdir()]
        except OSError:
            return []
        return sorted((name for name in entries if re.fullmatch(pattern, name)), key=natural)


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts ``cpu2`` before ``cpu10``.

    >>> sorted(["cpu10", "cpu2", "cpu"], key=natural)
    ['cpu', 'cpu2', 'cpu10']
    """
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def parse_size(text: str) -> int | None:
    """Return the bytes of a kernel size such as ``32K``.

    >>> parse_size("32K"), parse_size("2 MB"), parse_size("16388 kB"), parse_size("?")
    (32768, 2097152, 16781312, None)
    """
    match = re.fullmatch(r"(\d+)\s*([kKMGT]?)i?B?", text.strip())
    if match is None:
        return None
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def keyed(text: str | None, separator: str = ":") -> dict[str, str]:
    """Return the first value of each key of ``key: value`` lines, as in /proc/meminfo and os-release."""
    values: dict[str, str] = {}
    for line in (text or "").splitlines():
        key, mark, value = line.partition(separator)
        if mark:
            values.setdefault(key.strip(), value.strip().strip('"'))
    return values
