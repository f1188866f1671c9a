"""What every function of the API returns: a typed result, and its figures in three forms.

In: a result and its answer. Out: `Result`. Not here: how results come about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from steelyard._base import EnvironmentLacksError
from steelyard._base.documents import as_document

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from steelyard.report.answer import Answer
    from steelyard.report.exports.runs import ExportedRun

T = TypeVar("T", covariant=True)


class Figure(NamedTuple):
    """One figure of an answer, in its base unit."""

    table: str
    """The table that shows it."""
    row: str
    """What it is of."""
    figure: str
    """Its name."""
    value: float | None
    """None where there is none: ``note`` says why, or is a text in its place."""
    low: float | None
    """Lower end of its interval, None without one."""
    high: float | None
    unit: str
    note: str


@dataclass(frozen=True, repr=False)
class Result(Generic[T]):
    """A result, and the answer that shows it."""

    result: T
    """What ``--json`` prints, with its types."""
    answer: Answer
    """What a terminal and a page show."""

    @property
    def heading(self) -> str:
        """The answer in one line."""
        from steelyard.report.format import plain

        return plain(self.answer.heading)

    @property
    def says_no(self) -> bool:
        """Whether the command would exit with 1."""
        return self.answer.says_no

    def figures(self) -> list[Figure]:
        """Return every figure, in its base unit."""
        from steelyard.report.exports.figures import figures

        return [Figure(*row) for row in figures(self.answer, self._runs())]  # type: ignore[arg-type]

    def to_arrow(self) -> pa.Table:
        """Return the figures as an Arrow table, with the columns of `Figure`."""
        from steelyard.report.exports.figures import figures_table

        return figures_table(self.figures(), self.answer.title)

    def to_pandas(self) -> pd.DataFrame:
        """Return the figures as a data frame. Raises EnvironmentLacksError where pandas is not installed."""
        return frame_of(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as the values of the JSON document that the command prints."""
        document: dict[str, Any] = as_document(self.result)
        return document

    def _runs(self) -> Sequence[ExportedRun]:
        """Return the runs whose metrics come before the figures of the answer."""
        return ()

    def __repr__(self) -> str:
        """Return one line: what it is, and its answer. The record is in ``result``."""
        from steelyard.report.answer.delimited import clean

        verdict = (self.answer.verdict or self.answer.level or "").lower()
        said = f"{self.heading}, {verdict}" if verdict else self.heading
        return f"<{type(self).__name__} of {clean(self.answer.title)}: {clean(said)}>"

    def _repr_markdown_(self) -> str:
        """Return what a notebook shows: the answer, and its main table."""
        from steelyard.report.answer.delimited import brief_markdown

        return brief_markdown(self.answer)

    def __str__(self) -> str:
        """Return what a terminal would show, without colours."""
        from rich.console import Console

        from steelyard.report.answer.terminal import Shown

        console = Console(width=100, color_system=None, force_terminal=False)
        with console.capture() as captured:
            console.print(Shown(self.answer))
        return "\n".join(line.rstrip() for line in captured.get().splitlines())


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as a data frame. Raises EnvironmentLacksError where pandas is not installed."""
    try:
        import pandas  # noqa: F401 - to know whether it is there
    except ImportError as error:
        raise EnvironmentLacksError(
            "pandas is not installed, and Steelyard does not need it",
            hint="pip install pandas, or take .to_arrow()",
        ) from error
    return table.to_pandas()
