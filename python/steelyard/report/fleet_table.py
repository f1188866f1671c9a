"""What a fleet query says, in the terminal: the tables, words and notes of its page.

In: `Section`s (``fleet_content``). Out: a renderable for a `rich` console, which minds the width, a pipe and
``NO_COLOR``. Every text from outside is a `Text`, never markup, and loses its control characters. Charts are
left to the page.

Not here: printing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from steelyard.report import format as fmt
from steelyard.report.fleet_content import Cell, Notes, Paragraph, Section, Table
from steelyard.report.table import safe

_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", "incomplete": "dim"}
_ROWS = 40


def terminal(
    sections: Iterable[Section],
    *,
    heading: str = "",
    subline: str = "",
    cautions: Sequence[str] = (),
    rows: int = _ROWS,
) -> RenderableType:
    """Return the sections' tables (``rows`` of each at most), words and notes."""
    parts: list[RenderableType] = []
    if heading:
        parts.append(_styled(heading, "bold"))
    if subline:
        parts.append(_styled(subline, "dim"))
    parts += [_styled(f"! {one}", "yellow") for one in cautions]
    for section in sections:
        made = [part for block in section.blocks for part in _block(block, rows)]
        if not made:
            continue
        parts += [Text(), _styled(section.title, "bold")]
        if section.intro:
            parts.append(_styled(section.intro, "dim"))
        parts += made
    return Group(*parts)


def rich_table(table: Table, rows: int = _ROWS) -> RichTable:
    """Return one table, of which ``rows`` are shown at most."""
    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, column in enumerate(table.columns):
        is_text = column.is_text or at == 0
        made.add_column(
            safe(column.name),
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
        )
    for row in table.rows[:rows]:
        made.add_row(*[_cell(one) for one in row])
    return made


def _block(block: object, rows: int) -> list[RenderableType]:
    if isinstance(block, Table):
        parts: list[RenderableType] = [_styled(block.title, "bold")] if block.title else []
        if not block.rows:
            return [*parts, _styled("nothing", "dim")]
        parts.append(rich_table(block, rows))
        if len(block.rows) > rows:
            parts.append(
                _styled(f"{len(block.rows) - rows:,} more rows: --report or --json shows all", "dim")
            )
        if block.caption:
            parts.append(_styled(block.caption, "dim"))
        return parts
    if isinstance(block, Paragraph):
        return [_styled(block.text, _STYLES.get(block.level or "", ""))]
    if isinstance(block, Notes) and block.items:
        head: list[RenderableType] = [_styled(block.title, "bold")] if block.title else []
        return head + [_styled(f"- {one}", "dim") for one in block.items]
    return []


def _cell(one: Cell) -> Text:
    return _styled(fmt.plain(one.text), _STYLES.get(one.level or "", ""))


def _styled(text: str, style: str) -> Text:
    made = safe(fmt.plain(text))
    if style:
        made.stylize(style)
    return made
