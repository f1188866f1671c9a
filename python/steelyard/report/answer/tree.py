"""What a command answers, as data: headline, sections of tables, charts and words.

In: tables (``tables``) and charts (``charts``). Out: an `Answer`, which the terminal, a page, CSV
and Markdown are made of.

Not here: drawing (``page``, ``terminal``, ``delimited``), figures (``analyze``, ``fleet``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steelyard.report.answer.charts import Chart, Heat
from steelyard.report.answer.tables import Column, Table, table
from steelyard.report.answer.timelines import Timeline

if TYPE_CHECKING:
    from steelyard.report.assets import Assets


@dataclass(frozen=True)
class Paragraph:
    """Words. ``level`` sets a warning (``suspect``) or a refusal (``invalid``) apart."""

    text: str
    level: str | None = None


@dataclass(frozen=True)
class Notes:
    """A list of short remarks, as files that were put aside or data that is missing."""

    items: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class Fragment:
    """A piece of HTML of ours, escaped by whoever makes it, with the page's scripts: a flame graph."""

    make: Callable[[Assets], str]


@dataclass(frozen=True)
class Tile:
    """A main figure, at the head of a page or of a section."""

    name: str
    text: str
    raw: str = ""
    note: str = ""


@dataclass(frozen=True)
class Tiles:
    """Main figures of a section, side by side."""

    items: tuple[Tile, ...]


@dataclass(frozen=True)
class Links:
    """Other pages, each with its address and a remark; a terminal has none."""

    items: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Output:
    """What a program printed, line by line as it did."""

    title: str
    text: str


@dataclass(frozen=True)
class Remark:
    """A sentence after a word that says of what kind it is, and named details."""

    text: str
    mark: str = ""
    level: str | None = None
    details: tuple[tuple[str, str], ...] = ()
    figures: tuple[Tile, ...] = ()
    """What it rests on, which a page shows; the note of each is its bound."""
    hint: str = ""
    """What stands behind it, for whoever points at it on a page."""


@dataclass(frozen=True)
class Remarks:
    """Remarks below each other. ``columns`` names mark and sentence where CSV has them as its table.

    ``are_cards`` sets them apart on a page, each with its figures.
    """

    items: tuple[Remark, ...]
    columns: tuple[str, str] | None = None
    are_cards: bool = False

    @property
    def as_table(self) -> Table | None:
        """Return them as a table, a column for each name of details; None without columns."""
        if self.columns is None:
            return None
        names = tuple(dict.fromkeys(name for item in self.items for name, _ in item.details))
        rows = [
            (item.mark, item.text, *(dict(item.details).get(name, "") for name in names))
            for item in self.items
        ]
        return table([Column(name, is_text=True) for name in (*self.columns, *names)], rows)


Block = Table | Chart | Timeline | Heat | Paragraph | Notes | Remarks | Output | Fragment | Tiles | Links


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in reading order.

    ``grid`` puts charts side by side, ``small`` many of them.
    """

    anchor: str
    title: str
    blocks: tuple[Block, ...]
    intro: str = ""
    grid: bool = False
    small: bool = False
    on_terminal: bool = True
    """Whether a terminal shows it, too: a page has room for more."""
    missing: tuple[tuple[str, str], ...] = ()
    """What could not be measured, each with its reason, beside rows and charts that say so themselves."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the blocks that are tables."""
        return tuple(block for block in self.blocks if isinstance(block, Table))

    @property
    def charts(self) -> tuple[Chart | Timeline | Heat, ...]:
        """Return the blocks that are charts."""
        return tuple(block for block in self.blocks if isinstance(block, Chart | Timeline | Heat))


@dataclass(frozen=True)
class Answer:
    """What a command answers: headline, what else it says in sentences, and sections."""

    title: str
    heading: str
    """The answer in one line."""
    sections: Sequence[Section]
    result: Any = None
    """What ``--json`` prints of a fleet's store: a dataclass."""
    lines: Sequence[str] = ()
    """Sentences under the heading."""
    cautions: Sequence[str] = ()
    """What to know before believing it."""
    tiles: Sequence[Tile] = ()
    says_no: bool = False
    """Whether the command exits with 1."""
    rows: int = 20
    """Rows of a table on a terminal; pages and documents have them all."""
    level: str | None = None
    """``valid``, ``suspect``, ``invalid`` or ``incomplete``: a badge that says ``verdict``."""
    verdict: str = ""
    eyebrow: str = "fleet"
    """What it is about, in small letters above the heading of a page."""
    command: str = ""
    """The command that shows it again."""
    command_title: str = "Shown by"
    source: str = "a fleet's store"
    """Where its data are from."""
    figure: Tile | None = None
    """The figure of the heading and its noun, which a page sets apart."""
    remarks: Remarks | None = None
    """What stands against it."""
    up: tuple[str, str] | None = None
    """Text and address of the page that leads to this one."""
    time_axis: Mapping[str, Any] = field(default_factory=dict)
    """What its charts over time have in common: ``zero`` in words and ``phases``."""


def store_notes(
    problems: Sequence[Any], missing: Mapping[str, str] | None = None, *, most: int = 20
) -> Notes:
    """Return what a reader must know of the data: files that were put aside, and columns that are missing.

    ``problems`` are the store's, each with what ``str`` says of it; ``missing`` names what is unknown
    with the reason.
    """
    items = [f"{name}: {reason}" for name, reason in (missing or {}).items()]
    items += [f"Put aside: {problem}" for problem in problems[:most]]
    if len(problems) > most:
        items.append(
            f"Put aside: {len(problems) - most:,} more files; `steelyard fleet check` names them all."
        )
    return Notes(tuple(items), "Skipped data")
