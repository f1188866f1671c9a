"""Tables in CSV: wide (a row a machine, a column a result) or long (a row a value).

In: a file with a header. Out: a `MachineTable`. Columns are told by their names (``columns``); a long file
has columns for machine, result and value. Rows of one machine are its repeats, by ``session`` where there is
such a column.

Invariants: a cell without a number has a reason; a value of 0 or below is no result and is noted; a machine
with two processors is refused.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard._base import RecordError, UsageError, read_regular, text_of
from steelyard.decide.tables.columns import (
    BETTER,
    MACHINE,
    RESULT,
    SESSION,
    TEXTS,
    UNIT,
    VALUE,
    ColumnKind,
    Declarations,
    kind_of,
    unit_of,
)
from steelyard.decide.tables.model import (
    Attribute,
    MachineTable,
    MeasuredMachine,
    Measurement,
    ResultColumn,
)

BYTES_AT_MOST = 256 << 20
_NOTHING = frozenset(["", "-", "--", "na", "n/a", "nan", "none", "null", "nc", "missing", "unknown"])
_MONTHS = {
    name: at
    for at, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    )
}
_MOSTLY = 0.5
"""A column of which more cells than this are numbers holds numbers; what else stands in it is missing."""


@dataclass
class _Cell:
    """What was gathered of one machine's result."""

    by_session: dict[str, list[float]] = field(default_factory=dict)
    reason: str = ""


@dataclass
class _Gathered:
    """What was gathered of one machine."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    cells: dict[str, _Cell] = field(default_factory=dict)


@dataclass
class _Reading:
    """One file as it is read."""

    path: str
    declarations: Declarations
    machines: dict[str, _Gathered] = field(default_factory=dict)
    results: dict[str, ResultColumn] = field(default_factory=dict)
    not_results: Counter[tuple[str, str]] = field(default_factory=Counter)

    def attribute(self, machine: str, name: str, value: Attribute) -> None:
        """Note an attribute. Raises UsageError where the machine has another value already."""
        known = self.machines.setdefault(machine, _Gathered()).attributes
        if name in known and known[name] != value:
            raise UsageError(
                f"{self.path}: machine {machine!r} has two values of {name}: {known[name]} and {value}",
                hint="rows of one machine are its repeats: give other machines other names",
            )
        known[name] = value

    def value(self, machine: str, column: ResultColumn, text: str, factor: float, session: str) -> None:
        """Note what stands in a cell."""
        cell = self.machines.setdefault(machine, _Gathered()).cells.setdefault(column.name, _Cell())
        value = number_in(text)
        if value is None:
            cell.reason = cell.reason or (
                "the cell is empty" if is_nothing(text) else f"{text!r} is no number"
            )
            if not is_nothing(text):
                self.not_results[column.name, "a text"] += 1
        elif value <= 0:
            kind = "0" if value == 0 else "a negative value"
            cell.reason = cell.reason or f"{text} is no result"
            self.not_results[column.name, kind] += 1
        else:
            cell.by_session.setdefault(session, []).append(value * factor)

    def table(self) -> MachineTable:
        """Return what was read."""
        for name, attributes in self.declarations.machines.items():
            if name in self.machines:
                self.machines[name].attributes.update(attributes)
        machines = tuple(_machine(name, gathered) for name, gathered in self.machines.items())
        notes = [
            f"{name}: {kind} on {count:,} of {len(machines):,} machines, taken as missing."
            for (name, kind), count in sorted(self.not_results.items())
        ]
        kept = [column for column in self.results.values() if any(column.name in m.results for m in machines)]
        return MachineTable(machines, tuple(kept), tuple(notes), (self.path,))


def _machine(name: str, gathered: _Gathered) -> MeasuredMachine:
    results, missing = {}, {}
    for result, cell in gathered.cells.items():
        if cell.by_session:
            results[result] = Measurement(tuple(tuple(values) for values in cell.by_session.values()))
        else:
            missing[result] = cell.reason
    return MeasuredMachine(name, gathered.attributes, results, missing)


def is_nothing(text: str) -> bool:
    """Whether a cell says that it holds nothing."""
    return text.strip().lower() in _NOTHING


def number_in(text: str) -> float | None:
    """Return the finite number that a cell holds, None where it holds none.

    >>> number_in(" 1e3 "), number_in("1_000"), number_in("inf")
    (1000.0, None, None)
    """
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def year_in(text: str) -> float | None:
    """Return a date as a year with its fraction, None for what is no date.

    >>> year_in("2021-07"), year_in("Jan-2019"), year_in("2020"), year_in("soon")
    (2021.5, 2019.0, 2020.0, None)
    """
    year = re.search(r"(?<!\d)(19[5-9]\d|20\d\d)(?!\d)", text)
    if year is None:
        return None
    month = re.search(r"[a-z]{3}", text.lower())
    if month is not None and month[0] in _MONTHS:
        return int(year[0]) + _MONTHS[month[0]] / 12
    digits = re.match(r"\s*\d{4}[-/](\d{1,2})", text)
    number = int(digits[1]) if digits else 1
    return int(year[0]) + (number - 1) / 12 if 1 <= number <= 12 else None


def read_delimited(path: Path, declarations: Declarations | None = None) -> MachineTable:
    """Return the table of a CSV file. Raises UsageError for one that is none."""
    try:
        text = text_of(read_regular(path, at_most_bytes=BYTES_AT_MOST), str(path)).removeprefix("\ufeff")
    except RecordError as error:
        raise UsageError(error.message) from error
    return parse_delimited(text, str(path), declarations or Declarations())


def parse_delimited(text: str, path: str, declarations: Declarations) -> MachineTable:
    """Return the table that the text of a CSV file holds. Raises UsageError."""
    header, rows = _rows(text, path)
    columns = [[row[at] for _, row in rows] for at in range(len(header))]
    kinds = [
        kind_of(name, is_number=_is_number(cells), declared=declarations.columns.get(name))
        for name, cells in zip(header, columns, strict=True)
    ]
    unknown = [name for name in declarations.columns if name not in header]
    if unknown:
        raise UsageError(f"{path}: there is no column {unknown[0]!r}", hint=f"columns: {', '.join(header)}")
    reading = _Reading(path, declarations)
    if VALUE in (roles := [kind.role for kind in kinds]) and RESULT in roles:
        _read_long(reading, kinds, rows)
    else:
        kinds = [
            _as_column(kind, cells, name) for kind, cells, name in zip(kinds, columns, header, strict=True)
        ]
        _read_wide(reading, kinds, rows)
    table = reading.table()
    if not table.machines:
        raise UsageError(f"{path}: there is no machine in it")
    strangers = [name for name in declarations.machines if name not in reading.machines]
    told = [f"{name} of [machines] is not in the table." for name in strangers]
    return table.with_notes(told)


def _rows(text: str, path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and the rows with their line numbers."""
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UsageError(f"{path}: no CSV: {error}") from error
    if len(header) < 2:
        raise UsageError(f"{path}: no CSV: its first line names no columns")
    twice = next((name for name, count in Counter(header).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{path}: two columns are called {twice!r}")
    wrong = next(((line, row) for line, row in rows if len(row) != len(header)), None)
    if wrong is not None:
        raise UsageError(f"{path}:{wrong[0]}: {len(wrong[1])} cells under {len(header)} columns")
    return header, rows


def _is_number(cells: Iterable[str]) -> bool:
    known = [cell for cell in cells if not is_nothing(cell)]
    return bool(known) and sum(number_in(cell) is not None for cell in known) > _MOSTLY * len(known)


def _as_column(kind: ColumnKind, cells: Sequence[str], header: str) -> ColumnKind:
    """Return the kind in a wide file: there, no column says where the values of others belong."""
    if kind.role not in (RESULT, VALUE, UNIT, BETTER):
        return kind
    role = "measured" if _is_number(cells) else "attribute"
    return ColumnKind(header, role)


def _named(kinds: Sequence[ColumnKind], rows: Sequence[tuple[int, list[str]]], path: str) -> list[str]:
    """Return the machine of each row."""
    at = next((at for at, kind in enumerate(kinds) if kind.role == MACHINE), None)
    if at is not None:
        names = [row[at].strip() for _, row in rows]
        empty = next((line for (line, _), name in zip(rows, names, strict=True) if not name), None)
        if empty is not None:
            raise UsageError(f"{path}:{empty}: the machine has no name")
        return names
    processor = next((at for at, kind in enumerate(kinds) if kind.name == "processor"), None)
    if processor is None:
        raise UsageError(
            f"{path}: no column names the machines",
            hint="call one `machine`, or say which in a TOML file: --columns FILE",
        )
    return [f"{row[processor].strip()} (line {line})" for line, row in rows]


def _first_of_each(kinds: Sequence[ColumnKind], path: str) -> None:
    twice = Counter(kind.name for kind in kinds if kind.role in ("attribute", MACHINE, "measured"))
    name = next((name for name, count in twice.items() if count > 1), None)
    if name is not None:
        raise UsageError(
            f"{path}: two columns are the {name}", hint="say which in a TOML file: --columns FILE"
        )


def _read_wide(reading: _Reading, kinds: Sequence[ColumnKind], rows: Sequence[tuple[int, list[str]]]) -> None:
    kinds = _one_machine_column(kinds)
    _first_of_each(kinds, reading.path)
    session_at = next((at for at, kind in enumerate(kinds) if kind.role == SESSION), None)
    for kind in kinds:
        if kind.role == "measured":
            reading.results[kind.name] = ResultColumn(kind.name, kind.unit.name, kind.better)
    for machine, (_, row) in zip(_named(kinds, rows, reading.path), rows, strict=True):
        session = "" if session_at is None else row[session_at].strip()
        for kind, text in zip(kinds, row, strict=True):
            if kind.role == "measured":
                reading.value(machine, reading.results[kind.name], text, kind.unit.factor, session)
            elif kind.role == "attribute":
                _read_attribute(reading, machine, kind, text)


def _one_machine_column(kinds: Sequence[ColumnKind]) -> list[ColumnKind]:
    """Return the kinds with one column of machines: the one that says so most plainly."""
    found = [kind for kind in kinds if kind.role == MACHINE]
    plain = next((kind for kind in found if kind.name == MACHINE), found[0] if found else None)
    return [
        kind if kind.role != MACHINE or kind is plain else ColumnKind(kind.name, "attribute")
        for kind in kinds
    ]


def _read_attribute(reading: _Reading, machine: str, kind: ColumnKind, text: str) -> None:
    text = text.strip()
    if is_nothing(text):
        reading.machines.setdefault(machine, _Gathered())
        return
    value: Attribute | None
    if kind.name == "year":
        value = year_in(text)
    elif kind.name in TEXTS or (value := number_in(text)) is None:
        value = text
    else:
        value = value * kind.unit.factor
    if value is None:
        reading.not_results[kind.name, "no date"] += 1
        return
    reading.attribute(machine, kind.name, value)
    if kind.currency:
        reading.attribute(machine, "currency", kind.currency)


def _read_long(reading: _Reading, kinds: Sequence[ColumnKind], rows: Sequence[tuple[int, list[str]]]) -> None:
    kinds = _one_machine_column(kinds)
    at: Mapping[str, int] = {kind.role: position for position, kind in enumerate(kinds)}
    names = _named(kinds, rows, reading.path)
    for machine, (line, row) in zip(names, rows, strict=True):
        name = row[at[RESULT]].strip()
        if not name:
            raise UsageError(f"{reading.path}:{line}: the result has no name")
        column, factor = _long_column(reading, name, at, line, row)
        session = row[at[SESSION]].strip() if SESSION in at else ""
        reading.value(machine, column, row[at[VALUE]], factor, session)
        for kind, text in zip(kinds, row, strict=True):
            if kind.role == "attribute":
                _read_attribute(reading, machine, kind, text)


def _long_column(
    reading: _Reading, name: str, at: Mapping[str, int], line: int, row: Sequence[str]
) -> tuple[ResultColumn, float]:
    """Return the column of a row's result, and the factor to its unit.

    Raises UsageError where the unit is unknown, or another than that of the rows before.
    """
    declared = reading.declarations.columns.get(name)
    kind = kind_of(name, is_number=True, declared=declared)
    unit, better = kind.unit, kind.better
    if UNIT in at and (text := row[at[UNIT]].strip()):
        found = unit_of(text)
        if found is None:
            raise UsageError(
                f"{reading.path}:{line}: unknown unit {text!r}", hint="such as 1/s, MB/s, ms, W, score"
            )
        unit = found
        lower = unit.name in ("s", "w", "joule")
        better = "lower" if lower else kind.better
    if BETTER in at and (text := row[at[BETTER]].strip()):
        better = text
    if better not in ("higher", "lower"):
        raise UsageError(f"{reading.path}:{line}: {better!r} is neither higher nor lower")
    known = reading.results.setdefault(name, ResultColumn(name, unit.name, better))
    if (known.unit, known.better) != (unit.name, better):
        raise UsageError(
            f"{reading.path}:{line}: {name} is in {unit.name} ({better} is better), before it was in"
            f" {known.unit} ({known.better} is better)",
            hint="convert them to one unit",
        )
    return known, unit.factor
