"""The functions of a profile as a table of a page.

In: shares of busy samples. Out: a `Table`, the busiest functions first.
"""

from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.profiles.names import short_function
from steelyard.report.answer import Cell, Table, grid, measured

COLUMNS = ("function", "module", "itself", "with callees", "of all")


def functions_table(use: ProfileUse, count: int, caption: str) -> Table:
    """Return the ``count`` functions with the largest shares of their own."""
    rows = tuple(
        (
            Cell(short_function(name), name),
            Cell(use.modules.get(name, ""), is_text=True),
            _ratio(own),
            _ratio(use.total.get(name)),
            Cell("", bar=own),
        )
        for name, own in list(use.own.items())[:count]
    )
    return grid(COLUMNS, rows, caption)


def _ratio(value: float | None) -> Cell:
    return measured(value, "ratio")
