"""An answer in the terminal: its tables, words and notes.

In: an `Answer`. Out: a renderable for a `rich` console, which minds the width, a pipe and
``NO_COLOR``. Every text from outside is a `Text`, never markup, and loses its control characters. Charts are
left to the page.

Not here: printing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from steelyard.report import format as fmt
from steelyard.report.answer import Answer, Cell, Heat, Notes, Paragraph, Remarks, Table, Tiles, table_of
from steelyard.report.terminal import safe

_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", "incomplete": "dim"}
_ROWS = 40
_NAME = 28
"""Characters of a text that there is room for before columns are left out."""
_LEAST = 12
"""Characters that a column keeps which is never left out."""
_GAP = 3
_BAR = 12
"""Characters of a full bar."""


def terminal(answer: Answer) -> RenderableType:
    """Return the answer: headline, sentences, cautions, and of each section its tables, words and notes."""
    parts: list[RenderableType] = [_styled(answer.heading, "bold")] if answer.heading else []
    if answer.level:
        parts.append(_styled(answer.verdict or answer.level, _STYLES[answer.level]))
    parts += [_styled(line, "dim") for line in answer.lines if line]
    parts += [_styled(f"! {caution}", "yellow") for caution in answer.cautions]
    if answer.remarks is not None and answer.remarks.items:
        parts += [Text(), _remarks(answer.remarks)]
    for section in (section for section in answer.sections if section.on_terminal):
        made: list[RenderableType] = []
        for block in section.blocks:
            shown = _block(block, answer.rows)
            made += [Text(), *shown] if made and shown else shown
        if not made:
            continue
        parts += [Text(), _styled(section.title, "bold")] if parts else [_styled(section.title, "bold")]
        if section.intro:
            parts.append(_styled(section.intro, "dim"))
        parts += made
    return Group(*parts)


class Shown:
    """An answer as a console prints it; other formats take the answer itself."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what a terminal shows of it."""
        yield terminal(self.answer)


class Fitted:
    """One table: at most ``rows`` of it, and the columns that the console has room for."""

    def __init__(self, table: Table, rows: int = _ROWS) -> None:
        self.table = table
        self.rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, and what was left out."""
        table, shown = self.table, self.table.rows[: self.rows]
        widths = [_width(table, at, shown) for at in range(len(table.columns))]
        kept = _kept(table, shown, widths, options.max_width)
        given = _given(table, kept, widths, shown, options.max_width)
        if sum(given.values()) + _GAP * (len(kept) - 1) > options.max_width:
            yield from _below(shown, kept)
            return
        made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for at in kept:
            is_text = table.columns[at].is_text or at == 0 or any(row[at].bar is not None for row in shown)
            # Each has its width: left to share, columns beyond the edge would vanish without a word.
            made.add_column(
                safe(table.columns[at].name),
                justify="left" if is_text else "right",
                overflow="fold",
                width=given[at],
            )
        for row in shown:
            made.add_row(*[_cell(row[at]) for at in kept])
        yield made
        if len(table.rows) > self.rows:
            yield _styled(f"the first {self.rows:,} rows: --json has all", "dim")
        lost = [
            column.name
            for at, column in enumerate(table.columns)
            if at not in kept and column.name and any(row[at].text for row in shown)
        ]
        if lost:
            yield _styled(f"no room here for: {'; '.join(lost)}", "dim")


def _below(rows: Sequence[tuple[Cell, ...]], kept: Sequence[int]) -> Iterator[Text]:
    """Yield rows that are too wide for names that are never cut: what is said of each stands below it."""
    first, *others = kept
    for row in rows:
        name = fmt.plain(row[first].text)
        yield safe(name)
        said = "  ".join(filter(None, (fmt.plain(row[at].text) for at in others)))
        yield safe(f"{' ' * (len(name) - len(name.lstrip()) + 4)}{said}".rstrip())


def _kept(table: Table, rows: Sequence[tuple[Cell, ...]], widths: Sequence[int], room: int) -> list[int]:
    """Return which columns there is room for, in their order: the first and the answer always, then those
    of the least rank; columns without any figure last, those without any text never.
    """
    filled = [any(_length(row[at]) for row in rows) for at in range(len(widths))]
    known = [
        any(row[at].text not in ("", fmt.MISSING) or row[at].bar is not None for row in rows)
        for at in range(len(widths))
    ]
    always = [at for at in range(1, len(widths)) if filled[at] and table.columns[at].is_answer]
    others = [at for at in range(1, len(widths)) if filled[at] and at not in always]
    kept = [0, *always]
    used = sum(_least(table, at, widths, rows) + _GAP for at in kept)
    for at in sorted(others, key=lambda at: (not known[at], table.columns[at].rank, at)):
        least = _least(table, at, widths, rows)
        if used + least <= room:
            kept.append(at)
            used += least + _GAP
    return sorted(kept)


def _given(
    table: Table, kept: Sequence[int], widths: Sequence[int], rows: Sequence[tuple[Cell, ...]], room: int
) -> dict[int, int]:
    """Return the width of each column: what is left beside figures goes to texts, the short ones first."""
    given = {at: _least(table, at, widths, rows) for at in kept}
    spare = max(0, room - sum(given.values()) - _GAP * (len(kept) - 1))
    texts = [at for at in kept if table.columns[at].is_text or at == 0]
    # A heading in one line is worth less than a text that is not broken.
    for columns in (texts, [at for at in kept if at not in texts]):
        wanting = sorted(columns, key=lambda at: widths[at] - given[at])
        for place, at in enumerate(wanting):
            more = min(widths[at] - given[at], spare // (len(wanting) - place))
            given[at] += more
            spare -= more
    return given


def _least(table: Table, at: int, widths: Sequence[int], rows: Sequence[tuple[Cell, ...]]) -> int:
    """Return the characters that a column takes at least: texts are broken, figures are not."""
    column = table.columns[at]
    if not (column.is_text or at == 0) or column.is_whole:
        return _narrowest(table, at, rows)
    # Beside a column that is never left out the first one gives way, too.
    gives_way = column.is_answer or (at == 0 and any(other.is_answer for other in table.columns))
    return min(widths[at], _LEAST if gives_way else _NAME)


def _length(cell: Cell) -> int:
    return len(cell.text) if cell.bar is None else _BAR


def _width(table: Table, at: int, rows: Sequence[tuple[Cell, ...]]) -> int:
    """Return the width of a column that has room: of its longest cell, and of its name in one line."""
    return max([len(table.columns[at].name), *(_length(row[at]) for row in rows)])


def _narrowest(table: Table, at: int, rows: Sequence[tuple[Cell, ...]]) -> int:
    """Return the width of a column of figures: of its longest cell, and of the longest word of its name.

    A text is as narrow as its longest word.
    """
    words = table.columns[at].name.split() or [""]
    if table.columns[at].is_whole:
        words += [word for row in rows for word in row[at].text.split()]
        return max(map(len, words))
    return max([*map(len, words), *(_length(row[at]) for row in rows)])


def _block(block: object, rows: int) -> list[RenderableType]:
    if isinstance(block, Heat) and block.on_terminal:
        block = table_of(block)
    if isinstance(block, Table):
        parts: list[RenderableType] = [_styled(block.title, "bold")] if block.title else []
        if not block.rows:
            return [*parts, _styled("nothing", "dim")]
        parts.append(Fitted(block, rows))
        if block.caption:
            parts.append(_styled(block.caption, "dim"))
        return parts
    if isinstance(block, Paragraph):
        return [_styled(block.text, _STYLES.get(block.level or "", ""))]
    if isinstance(block, Tiles) and block.items:
        return [_styled(", ".join(f"{tile.name} {tile.text}" for tile in block.items), "dim")]
    if isinstance(block, Remarks) and block.items:
        return [_remarks(block)]
    if isinstance(block, Notes) and block.items:
        head: list[RenderableType] = [_styled(block.title, "bold")] if block.title else []
        return head + [_styled(f"- {item}", "dim") for item in block.items]
    return []


def _remarks(block: Remarks) -> RichTable:
    """Return a layout of two columns: the word before each sentence, and the sentence with its details."""
    made = RichTable.grid(padding=(0, 1))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    names = max((len(name) for item in block.items for name, _ in item.details), default=0)
    for item in block.items:
        made.add_row(_styled(item.mark, _STYLES.get(item.level or "", "bold")), _styled(item.text, ""))
        for name, text in item.details:
            made.add_row("", _styled(f"{name:{names}} {text}" if names else text, "dim"))
    return made


def _cell(cell: Cell) -> Text:
    if cell.bar is not None:
        return Text("█" * round(_BAR * min(cell.bar, 1.0)) or "▏", style="blue")
    return _styled(fmt.plain(cell.text), _STYLES.get(cell.level or "", ""))


def _styled(text: str, style: str) -> Text:
    made = safe(fmt.plain(text))
    if style:
        made.stylize(style)
    return made
