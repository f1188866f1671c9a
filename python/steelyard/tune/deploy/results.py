"""What ``steelyard tune list``, ``apply``, ``verify`` and ``restore`` found: ``tune run`` writes a record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from steelyard.records.tuning import TuningKnob, TuningLack
from steelyard.tune.changes import Difference


@dataclass(frozen=True, slots=True)
class KnobList:
    """Knobs of a machine: `steelyard tune list --json`."""

    KIND: ClassVar[str] = "knob_list"

    root: Path
    """Root of its files."""
    knobs: list[TuningKnob]
    """In the order in which they are tried."""
    lacking: list[TuningLack]
    """Knobs that are not there."""


@dataclass(frozen=True, slots=True)
class SoftSkuState:
    """Whether a machine has the values of a soft SKU: `steelyard tune verify --json`."""

    KIND: ClassVar[str] = "softsku_state"

    softsku: Path
    """File of the soft SKU."""
    differences: list[Difference]
    """Places that differ."""
    programs_own: list[str]
    """Levels of the program or its service, not of the machine."""
    other_machine: list[str]
    """By what this is another kind of machine than it was found on."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """What was put back: `steelyard tune restore --json`."""

    KIND: ClassVar[str] = "restoration"

    undone: list[str]
    """Changes that were undone."""
    failed: list[str]
    """Changes that could not be undone, with the reasons."""
    in_use: list[str]
    """Changes of living processes, which were left alone."""
