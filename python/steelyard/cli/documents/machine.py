"""What ``steelyard doctor``, ``machine check``, ``machine diff``, ``health`` and ``numa map`` print."""

from typing import ClassVar

from pydantic import Field

from steelyard.analyze.health.comparison import Alert, Compared
from steelyard.records import HealthResult, Record


class HealthCheckDocument(Record):
    """A health check beside earlier ones: `steelyard health --json`."""

    KIND: ClassVar[str] = "health_check"

    folder: str = Field(description="Folder of the check")
    report: str = Field(description="Its page")
    against: str = Field(description="Baseline, in words")
    is_ok: bool = Field(description="Whether there is no alert")
    is_quiet: bool = Field(description="Whether the machine was otherwise idle, as far as is known")
    alerts: list[Alert] = Field(description="What to look at")
    notes: list[str] = Field(description="What else a reader should know")
    figures: list[Compared] = Field(description="Every value with its expected value")
    health: HealthResult = Field(description="The record of the measurements")
