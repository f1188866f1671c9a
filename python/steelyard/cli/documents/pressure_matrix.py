"""What ``steelyard characterize --suite --json`` prints."""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record
from steelyard.records.values import Value


class PartEntry(Value):
    """How near a part of the machine came to its limit."""

    ratio: float | None = Field(description="Use over limit, null where there is no limit or no measurement")
    limit: str | None = Field(description="Whose limit, null without one")
    is_pressure_point: bool = Field(description="Whether it holds the workload back")
    evidence: str = Field(description="What was seen")
    reason: str | None = Field(description="Why there is no ratio, null where there is one")


class DifferenceEntry(Value):
    """A resource that is a pressure point here and not in the paper, or the other way round."""

    resource: str = Field(description="`cpu`, `dram`, `disk` or `network`")
    here: bool = Field(description="Whether it is one here")
    why: str = Field(description="What was seen of it here")


class MatrixRow(Value):
    """A workload."""

    benchmark: str = Field(description="Which benchmark")
    run_id: str = Field(description="Its run")
    missing: str | None = Field(description="Why there are no figures, null where there are")
    objections: list[str] = Field(description="Why its result is invalid; empty for others")
    pressure_points: list[str] = Field(description="Resources that hold it back here")
    published: list[str] | None = Field(description="Those of the paper, null where it has no such workload")
    parts: dict[str, PartEntry] = Field(description="The worst step by part")
    steps: dict[str, dict[str, PartEntry]] = Field(description="Each step's parts")
    differences: list[DifferenceEntry] = Field(description="Where it differs from the paper")


class PressureMatrixDocument(Record):
    """The pressure point matrix of a suite."""

    KIND: ClassVar[str] = "pressure_matrix"

    suite_id: str = Field(description="The suite's run")
    rows: list[MatrixRow] = Field(description="Its complete runs")
    report: str | None = Field(default=None, description="Where the page was written, null without one")
