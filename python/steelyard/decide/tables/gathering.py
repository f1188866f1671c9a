"""What a table's file holds, gathered cell by cell.

In: cells with the machine and column that they belong to. Out: a `MachineTable`.

Invariants: as of `MachineTable`; a machine with two values of an attribute is refused.

Not here: reading files (``delimited``).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from steelyard._base import UsageError
from steelyard.decide.tables.cells import brief, is_nothing, number_in
from steelyard.decide.tables.columns import Declarations
from steelyard.decide.tables.model import (
    Attribute,
    MachineTable,
    MeasuredMachine,
    Measurement,
    ResultColumn,
)

_RANGE = (1e-100, 1e100)
"""Between which results are: beyond, their ratios would be 0 or infinite."""


@dataclass
class _Cell:
    """What was gathered of one machine's result."""

    by_session: dict[str, list[float]] = field(default_factory=dict)
    reason: str = ""


@dataclass
class Gathered:
    """What was gathered of one machine."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    cells: dict[str, _Cell] = field(default_factory=dict)
    powers: dict[str, list[float]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@dataclass
class Reading:
    """One file as it is read."""

    path: str
    declarations: Declarations
    machines: dict[str, Gathered] = field(default_factory=dict)
    results: dict[str, ResultColumn] = field(default_factory=dict)
    not_results: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Machines by result and what stands in the place of it."""
    used: set[str] = field(default_factory=set)
    """Columns, and results of a long file, that the declarations name."""
    notes: list[str] = field(default_factory=list)

    def machine(self, name: str) -> Gathered:
        """Return what was gathered of a machine so far."""
        found = self.machines.get(name)
        if found is None:
            found = self.machines[name] = Gathered()
        return found

    def refuse(self, machine: str, name: str, kind: str) -> None:
        """Note that a machine has no result since its cell holds a ``kind``."""
        self.not_results.setdefault((name, kind), set()).add(machine)

    def attribute(self, machine: str, name: str, value: Attribute) -> None:
        """Note an attribute. Raises UsageError where the machine has another value already."""
        known = self.machine(machine).attributes
        if known.setdefault(name, value) != value:
            hint = "rows of one machine are its repeats: give other machines other names"
            if name == "currency":
                hint = "give a machine's prices in one currency"
            if name == "year":
                hint = 'if it is when the results were measured: [columns.NAME] is = "session", or "skip"'
            raise UsageError(
                f"{self.path}: machine {brief(machine)} has two values of {name}: {_said(known[name])} and"
                f" {_said(value)}",
                hint=hint,
            )

    def value(self, machine: str, column: ResultColumn, text: str, factor: float, session: str) -> None:
        """Note what stands in a cell."""
        cells = self.machine(machine).cells
        cell = cells.get(column.name)
        if cell is None:
            cell = cells[column.name] = _Cell()
        value = number_in(text)
        scaled = math.nan if value is None else value * factor
        if _RANGE[0] < scaled < _RANGE[1]:
            cell.by_session.setdefault(session, []).append(scaled)
        elif value is None:
            cell.reason = cell.reason or (
                "the cell is empty" if is_nothing(text) else f"{brief(text.strip())} is no number"
            )
            if not is_nothing(text):
                self.refuse(machine, column.name, "no finite number")
        else:
            kind = "0" if value == 0 else "a negative value" if value < 0 else "a number out of range"
            cell.reason = cell.reason or f"{brief(text.strip())[1:-1]} is no result"
            self.refuse(machine, column.name, kind)

    def table(self) -> MachineTable:
        """Return what was read."""
        for name, attributes in self.declarations.machines.items():
            if name in self.machines:
                self.machines[name].attributes.update(attributes)
        machines = tuple(_machine(name, gathered) for name, gathered in self.machines.items())
        notes = [
            f"{name}: {kind} on {len(found):,} of {len(machines):,} machines, taken as missing."
            for (name, kind), found in sorted(self.not_results.items())
        ]
        several = {
            name
            for gathered in self.machines.values()
            for name, values in gathered.powers.items()
            if len(set(values)) > 1
        }
        if several:
            notes.append(f"{', '.join(sorted(several))}: the median of each machine's figures.")
        kept = [column for column in self.results.values() if any(column.name in m.results for m in machines)]
        empty = [name for name in self.results if not any(name == column.name for column in kept)]
        if empty:
            more = f" and {len(empty) - 3} more" if len(empty) > 3 else ""
            notes.append(f"{', '.join(empty[:3])}{more}: no machine has a value.")
        notes += _notes_of_units(machines)
        return MachineTable(machines, tuple(kept), (*self.notes, *notes), (self.path,))


def _machine(name: str, gathered: Gathered) -> MeasuredMachine:
    results, missing = {}, dict(gathered.missing)
    for result, cell in gathered.cells.items():
        if cell.by_session:
            results[result] = Measurement(tuple(tuple(values) for values in cell.by_session.values()))
        else:
            missing[result] = cell.reason
    for power, values in gathered.powers.items():
        gathered.attributes.setdefault(power, statistics.median(values))
    return MeasuredMachine(name, gathered.attributes, results, missing)


_LEAST = {"memory_bytes": (2.0**20, "1 MiB", "memory_gib"), "clock_hz": (1e6, "1 MHz", "clock_ghz")}


def _notes_of_units(machines: Sequence[MeasuredMachine]) -> list[str]:
    """Note sizes and clocks that are too small to be in bytes and Hz."""
    notes = []
    for name, (least, said, better) in _LEAST.items():
        low = sum((machine.number(name) or least) < least for machine in machines)
        if low:
            notes.append(
                f"{name} is below {said} on {low:,} of {len(machines):,} machines: name the column with its"
                f" unit, as {better}."
            )
    return notes


def _said(value: Attribute) -> str:
    return f"{value:g}" if isinstance(value, float) else brief(value)
