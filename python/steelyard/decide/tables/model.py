"""A table of machines, their attributes and their results.

In: what a reader found. Out: values as arrays for statistics.

Invariants: results are positive and finite; a missing one has its reason, and never stands as 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from steelyard._base import UsageError
from steelyard.records import Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Attribute = float | str
LIST_AT_MOST = 8
"""Names that an error lists."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A result that machines have: a benchmark's metric, or a column of a file."""

    name: str
    """How it is called."""
    unit: str = "1"
    """Its unit, ``1`` for scores."""
    better: str = "higher"
    """``higher`` or ``lower``."""
    conditions: str = ""
    """Tier and version under which it was measured; empty where the source names none."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict, compare=False)
    """Settings of the runs; empty where the source names none."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One result of one machine: every repeat, by session."""

    sessions: tuple[tuple[float, ...], ...]
    reservation: str = ""
    """Why it is suspect; empty where nothing is against it."""

    @property
    def values(self) -> tuple[float, ...]:
        """Return all repeats."""
        return tuple(value for session in self.sessions for value in session)

    @property
    def value(self) -> float:
        """Return the median over the repeats."""
        return statistics.median(self.values)

    def with_sessions(self, other: Measurement) -> Measurement:
        """Return both together."""
        reservations = dict.fromkeys(one for one in (self.reservation, other.reservation) if one)
        return Measurement((*self.sessions, *other.sessions), "; ".join(reservations))


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """A machine with its attributes and results."""

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    """By name (``columns.ATTRIBUTES``): numbers in base units, and texts."""
    results: Mapping[str, Measurement] = field(default_factory=dict)
    """By the name of the result."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a result or attribute is missing, by its name."""

    def number(self, attribute: str) -> float | None:
        """Return an attribute that is a number, None where there is none."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, float) else None

    def text(self, attribute: str) -> str | None:
        """Return an attribute that is a text, None where there is none."""
        value = self.attributes.get(attribute)
        return value if isinstance(value, str) else None

    def why_missing(self, name: str) -> str:
        """Return why there is no such result or attribute."""
        return self.missing.get(name, "not measured")


@dataclass(frozen=True)
class MachineTable:
    """Machines in the order of their source, and the results that any of them has."""

    machines: tuple[MeasuredMachine, ...]
    results: tuple[ResultColumn, ...]
    notes: tuple[str, ...] = ()
    """What a reader must know of the data, in sentences."""
    sources: tuple[str, ...] = ()
    """Where it was read from."""

    def machine(self, name: str) -> MeasuredMachine:
        """Return the machine called ``name``. Raises UsageError, which names the nearest ones."""
        for machine in self.machines:
            if machine.name == name:
                return machine
        raise _unknown("machine", name, self.names)

    def column(self, name: str) -> ResultColumn:
        """Return the result called ``name``. Raises UsageError, which names the nearest ones."""
        for column in self.results:
            if column.name == name:
                return column
        raise _unknown("result", name, [column.name for column in self.results])

    @property
    def names(self) -> tuple[str, ...]:
        """Return the machines' names."""
        return tuple(machine.name for machine in self.machines)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Return the attributes that any machine has, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for machine in self.machines for name in machine.attributes))

    def values(self, result: str) -> Floats:
        """Return the medians of a result, one a machine; NaN where it is missing."""
        import numpy as np

        found = [machine.results.get(result) for machine in self.machines]
        return np.array([np.nan if one is None else one.value for one in found])

    def numbers(self, attribute: str) -> Floats:
        """Return an attribute as numbers, one a machine; NaN where it is missing or a text."""
        import numpy as np

        found = [machine.number(attribute) for machine in self.machines]
        return np.array([np.nan if one is None else one for one in found])

    def with_attributes(self, declared: Mapping[str, Mapping[str, Attribute]]) -> MachineTable:
        """Return the table with attributes that were declared, by machine; they replace those it has."""
        machines = tuple(
            replace(machine, attributes={**machine.attributes, **declared.get(machine.name, {})})
            for machine in self.machines
        )
        return replace(self, machines=machines)

    def with_notes(self, notes: Sequence[str]) -> MachineTable:
        """Return the table with more to say of it."""
        return replace(self, notes=(*self.notes, *notes))


def _unknown(kind: str, name: str, known: Sequence[str]) -> UsageError:
    import difflib

    close = difflib.get_close_matches(name, known, LIST_AT_MOST, 0.5) or known[:LIST_AT_MOST]
    more = f" and {len(known) - len(close)} more" if len(known) > len(close) else ""
    return UsageError(f"unknown {kind} {name!r}", hint=f"{kind}s: {', '.join(close)}{more}")
