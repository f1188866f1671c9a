"""What a knob is.

In: the files of a machine below a root, which may be a recorded or made-up tree. Out: `Knob`: its levels
here and what it writes for each; or `Lacking`: why this machine has none.

Invariants: a level is a text; a knob writes nothing by itself (``tune.changes`` does); what it reads now is
the level "as found", to which nothing is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from steelyard._base import UsageError
from steelyard.machine.tree import Tree
from steelyard.records.experiment import ExperimentArm
from steelyard.tune.cells import Cell, FileCell
from steelyard.tune.changes import Write


class Risk(StrEnum):
    """What a wrong value may do to a machine in service."""

    LOW = "low"
    """Slower at worst."""
    MEDIUM = "medium"
    """May take memory or CPUs from other programs, or raise power and temperature."""
    HIGH = "high"
    """May stop programs or the machine."""

    @property
    def rank(self) -> int:
        """Return 0 for low, 2 for high."""
        return list(Risk).index(self)


@dataclass(frozen=True, slots=True)
class Lacking:
    """A knob that this machine does not offer."""

    name: str
    about: str
    reason: str


class Knob(ABC):
    """Something with levels that an operator may choose."""

    name: str
    about: str
    risk: Risk = Risk.LOW
    needs_reboot: bool = False
    levels: tuple[str, ...] = ()
    """Levels to try. Others may be allowed."""
    is_ordered: bool = False
    """Whether levels are amounts, so that neighbours resemble each other."""
    section: str | None = None
    """Where a deployed soft SKU sets it when no cell does: ``service`` for what the service's unit says."""

    @abstractmethod
    def read(self) -> str:
        """Return the present level. Raises OSError."""

    def writes(self, level: str) -> list[Write]:
        """Return what to write where for a level."""
        return []

    def check(self, level: str) -> str:
        """Return a level as it is written. Raises UsageError for one that is not allowed."""
        if level not in self.levels:
            raise UsageError(f"{self.name}={level}: allowed is {'|'.join(self.levels)}", hint=self.about)
        return level

    def dress(self, arm: ExperimentArm, level: str) -> ExperimentArm:
        """Return an arm of an experiment with this level."""
        return arm.model_copy(update={"knobs": {**arm.knobs, self.name: level}})


Found = Sequence[Knob | Lacking]
Finder = Callable[[Tree], Found]


@dataclass
class FilesKnob(Knob):
    """One value in one file, or the same value in several (of each CPU, each queue)."""

    name: str
    about: str
    paths: tuple[Path, ...]
    levels: tuple[str, ...]
    risk: Risk = Risk.LOW
    minimum: int | None = None
    maximum: int | None = None
    """Numbers between these are allowed too."""
    step: int = 1
    """Of these numbers only multiples of it, and the two ends: the hardware rounds others."""
    is_ordered: bool = False
    needs_reboot: bool = False

    @property
    def cells(self) -> list[Cell]:
        """Return the places."""
        return [FileCell(path) for path in self.paths]

    def read(self) -> str:
        """Return the value, several joined by a comma where files differ."""
        return ",".join(dict.fromkeys(cell.read() for cell in self.cells))

    def writes(self, level: str) -> list[Write]:
        """Return the value for every file."""
        return [(cell, level) for cell in self.cells]

    def check(self, level: str) -> str:
        """Return a level, or a number within the range. Raises UsageError."""
        if level in self.levels:
            return level
        if self.minimum is not None and self.maximum is not None:
            number = int(level) if level.isdigit() else -1
            is_step = number % self.step == 0 or number in (self.minimum, self.maximum)
            if is_step and self.minimum <= number <= self.maximum:
                return level
            steps = f" in steps of {self.step}" if self.step > 1 else ""
            raise UsageError(
                f"{self.name}={level}: allowed is {self.minimum}..{self.maximum}{steps}", hint=self.about
            )
        return super().check(level)


def choices(tree: Tree, name: str) -> list[str]:
    """Return the words of a file such as ``always [madvise] never``."""
    return [word.strip("[]") for word in (tree.text(name) or "").split()]


def unwritable(tree: Tree, names: Iterable[str]) -> str | None:
    """Return why files cannot be written; None where they can. Nothing is written to find out."""
    import os

    listed = list(names)
    if not listed:
        return "no such file"
    for name in listed:
        path = tree.path(name)
        if not path.exists():
            return f"/{name} is not there"
        if not os.access(path, os.W_OK):
            return (
                f"/{name} is read-only here"
                if path.stat().st_mode & 0o222 == 0
                else (f"/{name} cannot be written by this user, or its file system is read-only")
            )
        if tree.text(name) is None:
            return f"/{name} cannot be read (a kernel that is locked down refuses it)"
    return None


def between(low: int, high: int, count: int, step: int = 1) -> tuple[str, ...]:
    """Return about ``count`` numbers from ``low`` to ``high``, evenly spaced; those between are multiples of
    ``step``.

    >>> between(800, 3200, 4), between(1250, 2200, 4, step=100)
    (('800', '1600', '2400', '3200'), ('1250', '1600', '1900', '2200'))
    """
    if high <= low or count < 2:
        return (str(low),)
    inner = (round((low + (high - low) * part / (count - 1)) / step) * step for part in range(1, count - 1))
    return tuple(dict.fromkeys(map(str, (low, *(one for one in inner if low < one < high), high))))
