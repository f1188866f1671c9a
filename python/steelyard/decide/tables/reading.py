"""Several sources as one table.

In: tables. Out: their union: machines by name, whose results of several sources are further sessions.

Invariants: sources that disagree about a machine's attribute or a result's unit are refused; a machine whose
results all equal another's is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard._base import UsageError
from steelyard.decide.tables.columns import Declarations, read_declarations
from steelyard.decide.tables.delimited import read_delimited
from steelyard.decide.tables.model import MachineTable, MeasuredMachine, ResultColumn

_ALIKE_AT_LEAST = 3
"""Results that two machines must share exactly before they are taken for one."""
_TWINS_AT_MOST = 5
"""Pairs of them that are named."""


def read_table(paths: Sequence[Path], declarations: Path | None = None) -> MachineTable:
    """Return the table of CSV files together; ``declarations`` is a TOML file of units and attributes.

    Raises UsageError.
    """
    if not paths:
        raise UsageError("no table", hint="give a CSV file, runs or suites")
    declared = Declarations() if declarations is None else read_declarations(declarations)
    return together(read_delimited(paths, declared), declared)


def together(tables: Sequence[MachineTable], declared: Declarations | None = None) -> MachineTable:
    """Return tables as one; ``declared`` was used to read them.

    Raises UsageError where they contradict each other.
    """
    joined = tables[0] if len(tables) == 1 else _union(tables)
    known = set(joined.names)
    strangers = [name for name in (declared or Declarations()).machines if name not in known]
    notes = [f"[machines.{name}] is not in the table." for name in strangers]
    return joined.with_notes([*notes, *_notes_of_twins(joined)])


def _union(tables: Sequence[MachineTable]) -> MachineTable:
    machines: dict[str, MeasuredMachine] = {}
    columns: dict[str, ResultColumn] = {}
    for table in tables:
        for column in table.results:
            known = columns.setdefault(column.name, column)
            if known != column:
                raise UsageError(
                    f"{column.name} is {_said(known)} in one source and {_said(column)} in another",
                    hint="convert them to one unit, or give results of one tier and version",
                )
        for machine in table.machines:
            known_machine = machines.get(machine.name)
            machines[machine.name] = machine if known_machine is None else _joined(known_machine, machine)
    return MachineTable(
        tuple(machines.values()),
        tuple(columns.values()),
        tuple(note for table in tables for note in table.notes),
        tuple(dict.fromkeys(source for table in tables for source in table.sources)),
    )


def _said(column: ResultColumn) -> str:
    more = f", {column.conditions}" if column.conditions else ""
    return f"in {column.unit} ({column.better} is better{more})"


def _joined(one: MeasuredMachine, other: MeasuredMachine) -> MeasuredMachine:
    attributes = dict(one.attributes)
    for name, value in other.attributes.items():
        if attributes.setdefault(name, value) != value:
            raise UsageError(
                f"machine {one.name!r} has two values of {name}: {attributes[name]} and {value}",
                hint="two machines under one name: give them names of their own (NAME=PATH)",
            )
    results = dict(one.results)
    for name, measurement in other.results.items():
        known = results.get(name)
        results[name] = measurement if known is None else known.with_sessions(measurement)
    lacking = {**other.missing, **one.missing}
    missing = {name: why for name, why in lacking.items() if name not in results and name not in attributes}
    return MeasuredMachine(one.name, attributes, results, missing)


def twins(table: MachineTable) -> list[tuple[str, str]]:
    """Return pairs of machines whose results are the same to the last digit: one machine under two names."""
    seen: dict[tuple[tuple[str, tuple[float, ...]], ...], str] = {}
    pairs = []
    for machine in table.machines:
        key = tuple(sorted((name, result.values) for name, result in machine.results.items()))
        if len(key) < _ALIKE_AT_LEAST:
            continue
        first = seen.setdefault(key, machine.name)
        if first != machine.name:
            pairs.append((first, machine.name))
    return pairs


def _notes_of_twins(table: MachineTable) -> list[str]:
    pairs = twins(table)
    more = [f"So have {len(pairs) - _TWINS_AT_MOST:,} more pairs."] if len(pairs) > _TWINS_AT_MOST else []
    return [
        f"{first} and {second} have the same results to the last digit: one machine under two names?"
        for first, second in pairs[:_TWINS_AT_MOST]
    ] + more
