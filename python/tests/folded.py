"""Folded stacks for tests."""

from collections.abc import Mapping
from pathlib import Path

from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import Profile


def folded(folder: Path, stacks: Mapping[str, int], head: str = "", name: str = "p.folded") -> Path:
    """Write stacks, and return where."""
    path = folder / name
    text = head + "".join(f"{stack} {count}\n" for stack, count in stacks.items())
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    return path


def profile(folder: Path, stacks: Mapping[str, int], head: str = "") -> Profile:
    """Return the profile of stacks."""
    return read_folded(folded(folder, stacks, head))
