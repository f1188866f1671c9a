"""What a command answers, as data, and the exporters that show it."""

from steelyard.report.answer.charts import Band, Chart, Heat, Mark, Series, is_finite, short, utc
from steelyard.report.answer.tables import (
    Cell,
    Column,
    Figure,
    Table,
    cell,
    grid,
    span,
    table,
    table_of,
    written,
)
from steelyard.report.answer.timelines import Floats, Timeline, Trace, absent
from steelyard.report.answer.tree import (
    Answer,
    Block,
    Fragment,
    Notes,
    Paragraph,
    Section,
    Tile,
    store_notes,
)

__all__ = [
    "Answer",
    "Band",
    "Block",
    "Cell",
    "Chart",
    "Column",
    "Figure",
    "Floats",
    "Fragment",
    "Heat",
    "Mark",
    "Notes",
    "Paragraph",
    "Section",
    "Series",
    "Table",
    "Tile",
    "Timeline",
    "Trace",
    "absent",
    "cell",
    "grid",
    "is_finite",
    "short",
    "span",
    "store_notes",
    "table",
    "table_of",
    "utc",
    "written",
]
