"""What ``steelyard install --json`` and ``steelyard uninstall --json`` print."""

from typing import ClassVar

from pydantic import Field

from steelyard.bench.stack.installation import Installation
from steelyard.records import Record
from steelyard.records.values import Count, Value


class NotInstalled(Value):
    """A benchmark that could not be installed."""

    benchmark: str = Field(description="Which benchmark")
    reason: str = Field(description="Why")
    hint: str | None = Field(description="What to do, null where nothing helps")


class InstallDocument(Record):
    """What was installed, and what was not."""

    KIND: ClassVar[str] = "install"

    installed: list[Installation] = Field(description="Installed benchmarks")
    failed: list[NotInstalled] = Field(description="Benchmarks that were not installed")
    nothing_needed: list[str] = Field(description="Benchmarks that need nothing but Steelyard")


class UninstallDocument(Record):
    """What was removed."""

    KIND: ClassVar[str] = "uninstall"

    benchmark: str = Field(description="Which benchmark")
    payload_bytes: Count = Field(description="Disk space that its files took")
    packages: list[str] = Field(description="Packages that were removed")
    kept: list[str] = Field(description="What was left, each with the reason")
