"""What a section could not measure, as one line with its reasons instead of rows of dashes; zeros as one row.

In: a `Section`. Out: the section without rows that have no figure, and what is missing by reason.
A row stays if any of its figures is known; a figure that is zero is known.

Not here: why something is missing (whoever measured it says so), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.report.answer import Block, Cell, Chart, Section, Table, Timeline
from steelyard.report.format import MISSING

_NAMED = 4
"""Names that the line itself has; the rest stands under it."""
_NOTHING = "nothing was recorded"
_ZEROS = 3
"""Rows of zero that become one."""


@dataclass(frozen=True)
class Unmeasured:
    """One line, and, where the line does not hold them all, every reason with its names."""

    summary: str
    reasons: tuple[tuple[str, str], ...]


def without_missing(section: Section) -> tuple[Section, list[tuple[str, str]]]:
    """Return the section with what it has, and what it has not: names with their reasons.

    Charts that cannot be drawn, rows of figures that are all missing, and what the section itself says.
    """
    missing = list(section.missing)
    blocks: list[Block] = []
    for block in section.blocks:
        if isinstance(block, Table):
            rows = tuple(row for row in block.rows if not _is_missing(row))
            missing += [(row[0].text.strip(), _reason(row)) for row in block.rows if _is_missing(row)]
            if rows or not block.rows:
                blocks.append(_filled(replace(block, rows=rows)))
        elif isinstance(block, Timeline | Chart) and not block.is_drawable:
            missing.append((block.title, block.missing or _NOTHING))
        else:
            blocks.append(block)
    return replace(section, blocks=tuple(blocks), missing=()), missing


def unmeasured(missing: Sequence[tuple[str, str]]) -> Unmeasured | None:
    """Return what to say of names that are missing with their reasons; None where none is.

    >>> unmeasured([("IPC", "no counters"), ("CPI", "no counters")]).summary
    'Not measured here: IPC and CPI, because no counters.'
    """
    if not missing:
        return None
    reasons: dict[str, list[str]] = {}
    for name, reason in missing:
        names = reasons.setdefault(reason.strip().rstrip(".") or _NOTHING, [])
        if name not in names:
            names.append(name)
    ranked = sorted(reasons.items(), key=lambda each: -len(each[1]))
    reason, names = ranked[0]
    others = sum(len(each) for _, each in ranked[1:])
    line = f"Not measured here: {_listed(names)}, because {reason}"
    if others:
        line += f"; and {others} more for {'another reason' if len(ranked) == 2 else 'other reasons'}"
    whole = not others and len(names) <= _NAMED
    listed = () if whole else tuple((reason, ", ".join(names)) for reason, names in ranked)
    return Unmeasured(f"{line}.", listed)


def zeros_together(table: Table, names: int) -> Table:
    """Return the table with its rows whose figures are all zero as one, with their names in column ``names``.

    A row whose value is not a number as `fmt.raw` writes it, or that says more, stays as it is.
    """
    zeros = [row for row in table.rows if _is_zero(row)]
    if len(zeros) < _ZEROS:
        return table
    cells = [Cell("") for _ in table.columns]
    cells[0], cells[1] = Cell("all zero"), Cell("0", "0.0")
    cells[names] = Cell(", ".join(row[0].text for row in zeros), is_text=True)
    rows = tuple(row for row in table.rows if not _is_zero(row))
    return replace(table, rows=(*rows, tuple(cells)))


def _is_zero(row: Sequence[Cell]) -> bool:
    try:
        return row[1].level is None and float(row[1].raw.split(" ")[0]) == 0
    except ValueError:
        return False


def _listed(names: Sequence[str]) -> str:
    if len(names) > _NAMED:
        return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _figures(row: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in row[1:] if not cell.is_text and cell.bar is None]


def _is_missing(row: Sequence[Cell]) -> bool:
    figures = _figures(row)
    unknown = all(cell.text in ("", MISSING) and cell.level is None for cell in figures)
    return unknown and any(cell.text == MISSING for cell in figures)


def _reason(row: Sequence[Cell]) -> str:
    words = [cell.text for cell in row[1:] if cell.is_text and cell.text not in ("", MISSING)]
    raw = [cell.raw for cell in _figures(row) if cell.raw not in ("", "not measured")]
    return next(iter([*reversed(words), *raw]), _NOTHING)


def _filled(table: Table) -> Table:
    """Return the table without empty text columns."""
    kept = [
        at
        for at in range(len(table.columns))
        if at == 0 or not table.rows or any(_says(row[at]) for row in table.rows)
    ]
    columns = tuple(table.columns[at] for at in kept)
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def _says(cell: Cell) -> bool:
    return bool(cell.text) or cell.bar is not None
