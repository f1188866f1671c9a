"""Markdown of generated pages: tables, and texts that stand in their cells.

In: texts of declarations. Out: Markdown, the same for the same input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """Return a text as a cell of a table: one line, nothing in it taken for HTML or an end of the cell.

    >>> cell("the `a|b` of ``c``, <d>")
    'the `a\\\\|b` of `c`, &lt;d>'
    """
    line = " ".join(text.replace("``", "`").split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


def code(text: str) -> str:
    """Return a name as code, nothing for an empty one."""
    return f"`{text}`" if text else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells may hold Markdown."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"
