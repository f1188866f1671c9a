"""Tables in CSV: wide (a row a machine, a column a result) or long (a row a value).

In: a file with a header. Out: a `MachineTable`. Columns are known by their names (``columns``); a long file
has columns for machine, result and value. Rows of one machine are its repeats, by ``session`` where there is
such a column; so are the figures of its power, of which the median is kept.

Invariants: a cell without a number has a reason; a value of 0 or below is no result and is noted; a machine
with two processors is refused.

Not here: what a cell holds (``cells``), what a column is (``columns``).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from steelyard._base import RecordError, UsageError, read_regular, text_of
from steelyard.decide.tables.cells import brief, is_almost_number, is_nothing, number_in, price_in, year_in
from steelyard.decide.tables.columns import (
    ATTRIBUTES,
    BETTER,
    MACHINE,
    RESULT,
    SESSION,
    TEXTS,
    UNIT,
    UNITS_LIKE,
    VALUE,
    ColumnKind,
    Declarations,
    Unit,
    better_of,
    kind_of,
    unit_of,
)
from steelyard.decide.tables.gathering import Reading
from steelyard.decide.tables.model import Attribute, MachineTable, ResultColumn

BYTES_AT_MOST = 256 << 20
_CELL_AT_MOST = 131_072
"""Characters of a cell."""
_MOSTLY = 0.5
"""A column of which more cells than this are numbers holds numbers; what else stands in it is missing."""


def read_delimited(paths: Sequence[Path], declarations: Declarations | None = None) -> list[MachineTable]:
    """Return the tables of CSV files. Raises UsageError."""
    declared = declarations or Declarations()
    tables, used = [], set()
    for path in paths:
        try:
            text = text_of(read_regular(path, at_most_bytes=BYTES_AT_MOST), str(path)).removeprefix("\ufeff")
        except RecordError as error:
            raise UsageError(error.message, hint=error.hint) from error
        reading = _read(text, str(path), declared)
        tables.append(reading.table())
        used |= reading.used
    _check_used(declared, used, ", ".join(str(path) for path in paths))
    return tables


def parse_delimited(text: str, path: str, declarations: Declarations) -> MachineTable:
    """Return the table that the text of a CSV file holds. Raises UsageError."""
    reading = _read(text, path, declarations)
    _check_used(declarations, reading.used, path)
    return reading.table()


def _check_used(declarations: Declarations, used: set[str], where: str) -> None:
    unknown = next((name for name in declarations.columns if name not in used), None)
    if unknown is not None and where:
        raise UsageError(
            f"{where}: there is no column {unknown!r}", hint="columns are called as in the header"
        )


def _read(text: str, path: str, declarations: Declarations) -> Reading:
    header, rows = _rows(text, path)
    reading = Reading(path, declarations)
    header, rows = _without_nameless(reading, header, rows)
    if not rows:
        raise UsageError(f"{path}: there is no machine in it", hint="write a row for each machine")
    columns = list(zip(*(row for _, row in rows), strict=True))
    reading.used.update(name for name in declarations.columns if name in header)
    try:
        kinds = [
            kind_of(name, is_number=_is_number(cells), declared=declarations.columns.get(name))
            for name, cells in zip(header, columns, strict=True)
        ]
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", hint=error.hint) from error
    if VALUE in (roles := [kind.role for kind in kinds]) and RESULT in roles:
        _read_long(reading, kinds, header, rows)
    else:
        declared = declarations.columns
        kinds = [
            _as_column(kind, cells, name, is_declared=name in declared)
            for kind, cells, name in zip(kinds, columns, header, strict=True)
        ]
        _note_almost_numbers(reading, kinds, columns, header)
        reading.notes += [
            _of_money(name) for kind, name in zip(kinds, header, strict=True) if kind.role == "money"
        ]
        _read_wide(reading, kinds, rows)
    return reading


def _without_nameless(
    reading: Reading, header: list[str], rows: list[tuple[int, list[str]]]
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the columns that have a name: spreadsheets write others, empty or with the rows' numbers."""
    if all(header):
        return header, rows
    kept = [at for at, name in enumerate(header) if name]
    holding = [
        at + 1 for at, name in enumerate(header) if not name and any(row[at].strip() for _, row in rows)
    ]
    if holding:
        reading.notes.append(f"Column {', '.join(map(str, holding))} has no name: skipped.")
    return [header[at] for at in kept], [(line, [row[at] for at in kept]) for line, row in rows]


def _of_money(name: str) -> str:
    return f"{name} is a price and not counted: call it price or price_per_hour if it is the machine's."


def _note_almost_numbers(
    reading: Reading, kinds: Sequence[ColumnKind], columns: Sequence[Sequence[str]], header: Sequence[str]
) -> None:
    """Note a column that would be a result if its numbers could be read."""
    for kind, cells, name in zip(kinds, columns, header, strict=True):
        if kind.role != "attribute" or kind.name in ATTRIBUTES:
            continue
        known = [cell for cell in cells if not is_nothing(cell)]
        if known and sum(is_almost_number(cell) for cell in known) > _MOSTLY * len(known):
            reading.notes.append(
                f"{name}: {brief(known[0].strip())} is read as a text; write 1234.5, and units in the"
                " column's name."
            )


def _rows(text: str, path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and the rows with their line numbers."""
    first = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", text, maxsplit=1)[0])
    delimiter = max(",;\t|", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UsageError(f"{path}: no CSV: {error}", hint="a header, then rows of cells") from error
    # The reader's own limit is one of the whole process, which others set.
    if any(len(cell) > _CELL_AT_MOST for _, row in rows for cell in row):
        raise UsageError(
            f"{path}: no CSV: field larger than field limit ({_CELL_AT_MOST})", hint="shorten the cell"
        )
    if len(header) < 2:
        raise UsageError(f"{path}: no CSV: its first line names no columns", hint="such as machine,web_per_s")
    if "\0" in text:
        raise UsageError(f"{path}: no CSV: it has NUL bytes", hint="save it as text")
    twice = next((name for name, count in Counter(header).items() if count > 1 and name), None)
    if twice is not None:
        raise UsageError(f"{path}: two columns are called {brief(twice)}", hint="rename one")
    wrong = next(((line, row) for line, row in rows if len(row) != len(header)), None)
    if wrong is not None:
        raise UsageError(
            f"{path}:{wrong[0]}: {len(wrong[1])} cells under {len(header)} columns",
            hint="quote cells that hold the delimiter",
        )
    return header, rows


def _is_number(cells: Iterable[str]) -> bool:
    known = [cell for cell in cells if not is_nothing(cell)]
    return bool(known) and sum(number_in(cell) is not None for cell in known) > _MOSTLY * len(known)


def _as_column(kind: ColumnKind, cells: Sequence[str], header: str, *, is_declared: bool) -> ColumnKind:
    """Return the kind in a wide file: there, no column says where the values of others belong."""
    if kind.role not in (RESULT, VALUE, UNIT, BETTER):
        return kind
    role = "measured" if _is_number(cells) else "attribute"
    if is_declared:
        return replace(kind, role=role, name=header if kind.name == kind.role else kind.name)
    return ColumnKind(header, role)


def _named(kinds: Sequence[ColumnKind], rows: Sequence[tuple[int, list[str]]], path: str) -> list[str]:
    """Return the machine of each row."""
    at = next((at for at, kind in enumerate(kinds) if kind.role == MACHINE), None)
    if at is not None:
        names = [row[at].strip() for _, row in rows]
        empty = next((line for (line, _), name in zip(rows, names, strict=True) if not name), None)
        if empty is not None:
            raise UsageError(f"{path}:{empty}: the machine has no name", hint="name it in its column")
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


def _read_wide(reading: Reading, kinds: Sequence[ColumnKind], rows: Sequence[tuple[int, list[str]]]) -> None:
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


_STATED = frozenset(["tdp_w", "budgeted_power_w"])
"""Powers that are stated, not measured."""
_SIZES = ("cpus", "cores", "threads_per_core", "sockets", "numa_nodes")
_SIZE_AT_MOST = 1e6
_NUMBER_AT_MOST = 1e30


def _read_attribute(reading: Reading, machine: str, kind: ColumnKind, text: str) -> None:
    text = text.strip()
    gathered = reading.machine(machine)
    if is_nothing(text):
        gathered.missing.setdefault(kind.name, "the cell is empty")
        return
    value: Attribute | None
    currency = kind.currency
    if kind.name == "year":
        value = year_in(text)
        if value is None:
            reading.refuse(machine, kind.name, "no date")
            return
    elif kind.name in TEXTS:
        value = text
    elif kind.name in _PRICES and (price := price_in(text)) is not None:
        value, currency = price[0], price[1] or currency
    else:
        number = _number_of(text, kind.unit)
        value = text if number is None else number
        if (
            isinstance(value, float)
            and value <= 0
            and (kind.name in _SIZES or kind.unit.name in ("bytes", "hz"))
        ):
            reading.refuse(machine, kind.name, "0" if value == 0 else "a negative value")
            return
        if isinstance(value, float) and not _is_in_range(value, kind.name):
            reading.refuse(machine, kind.name, "a number out of range")
            return
        if isinstance(value, float) and kind.unit.name == "w" and kind.name not in _STATED:
            gathered.powers.setdefault(kind.name, []).append(value)
            return
    reading.attribute(machine, kind.name, value)
    if currency:
        reading.attribute(machine, "currency", currency)


def _is_in_range(value: float, name: str) -> bool:
    """Whether an attribute of a machine may have this value."""
    if name in _SIZES:
        return 1 / _SIZE_AT_MOST <= value <= _SIZE_AT_MOST
    return value == 0 or 1 / _NUMBER_AT_MOST <= abs(value) <= _NUMBER_AT_MOST


_PRICES = ("price", "price_per_hour", "maintenance_per_year")


def _number_of(text: str, unit: Unit) -> float | None:
    """Return an attribute's number in base units; sizes and clocks may have their unit in the cell.

    >>> _number_of("512 GB (16 x 32 GB)", Unit("bytes")), _number_of("16", Unit("bytes", 2.0**30))
    (512000000000.0, 17179869184.0)
    """
    if (value := number_in(text)) is not None:
        return value * unit.factor
    found = re.match(r"([\d.]+)\s*([A-Za-z]+)\b", text)
    if found is None or unit.name not in ("bytes", "hz"):
        return None
    own, number = unit_of(found[2]), number_in(found[1])
    return None if own is None or number is None or own.name != unit.name else number * own.factor


def _read_long(
    reading: Reading,
    kinds: Sequence[ColumnKind],
    header: Sequence[str],
    rows: Sequence[tuple[int, list[str]]],
) -> None:
    kinds = _one_machine_column(kinds)
    at: dict[str, int] = {}
    for position, kind in enumerate(kinds):
        if (
            kind.role in (RESULT, VALUE, SESSION, UNIT, BETTER)
            and at.setdefault(kind.role, position) != position
        ):
            raise UsageError(
                f"{reading.path}: both {header[at[kind.role]]} and {header[position]} name the {kind.role}",
                hint='skip one in a TOML file ([columns.NAME] is = "skip"): --columns FILE',
            )
    names = _named(kinds, rows, reading.path)
    attributes = [(position, kind) for position, kind in enumerate(kinds) if kind.role == "attribute"]
    known: dict[tuple[str, str, str], tuple[ColumnKind, ResultColumn | None]] = {}
    for machine, (line, row) in zip(names, rows, strict=True):
        name = row[at[RESULT]].strip()
        if not name:
            raise UsageError(f"{reading.path}:{line}: the result has no name", hint="name it in its column")
        unit, better = (row[at[role]].strip() if role in at else "" for role in (UNIT, BETTER))
        key = (name, unit, better)
        if key not in known:
            known[key] = _long_column(reading, key, line)
        kind, column = known[key]
        if kind.role == "attribute":
            _read_attribute(reading, machine, kind, row[at[VALUE]])
        elif column is not None:
            session = row[at[SESSION]].strip() if SESSION in at else ""
            reading.value(machine, column, row[at[VALUE]], kind.unit.factor, session)
        for position, attribute in attributes:
            _read_attribute(reading, machine, attribute, row[position])


def _long_column(
    reading: Reading, key: tuple[str, str, str], line: int
) -> tuple[ColumnKind, ResultColumn | None]:
    """Return what a row's value is, and its column if it is a result.

    Raises UsageError where the unit is unknown, or another than that of the rows before.
    """
    name, unit, better = key
    declared = reading.declarations.columns.get(name)
    reading.used.add(name)
    try:
        kind = kind_of(name, is_number=True, declared=declared)
    except UsageError as error:
        raise UsageError(f"{reading.path}:{line}: {error.message}", hint=error.hint) from error
    if kind.role == "skip":
        return kind, None
    if kind.role == "money" and not better:
        reading.notes.append(_of_money(name))
        return kind, None
    if kind.role != "attribute" and kind.role != "measured":
        kind = replace(kind, role="measured", name=name)
    if unit:
        found = unit_of(unit)
        if found is None:
            raise UsageError(f"{reading.path}:{line}: unknown unit {brief(unit)}", hint=UNITS_LIKE)
        stated = declared is not None and "better" in declared
        kind = replace(kind, unit=found, better=kind.better if stated else better_of(name, found))
    if better not in ("", "higher", "lower"):
        raise UsageError(
            f"{reading.path}:{line}: {brief(better)} is neither higher nor lower", hint="higher or lower"
        )
    kind = replace(kind, better=better or kind.better)
    if kind.role == "attribute":
        return kind, None
    column = reading.results.setdefault(kind.name, ResultColumn(kind.name, kind.unit.name, kind.better))
    if (column.unit, column.better) != (kind.unit.name, kind.better):
        raise UsageError(
            f"{reading.path}:{line}: {brief(name)} is in {kind.unit.name} ({kind.better} is better), before"
            f" it was in {column.unit} ({column.better} is better)",
            hint="convert them to one unit",
        )
    return kind, column
