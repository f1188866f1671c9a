"""Values that several records share."""

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
"""A number that cannot be negative: a count, a size, a time since boot."""


class Value(BaseModel):
    """A part of a record. Fields that a newer minor version added are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


class Clock(Value):
    """One moment on both clocks, read together, so that a monotonic time can be converted to a date."""

    monotonic_ns: int = Field(ge=0, description="CLOCK_MONOTONIC, ns")
    realtime_ns: int = Field(ge=0, description="CLOCK_REALTIME, ns since 1970-01-01T00:00:00Z")

    @classmethod
    def now(cls) -> Self:
        """Read both clocks."""
        return cls(monotonic_ns=time.monotonic_ns(), realtime_ns=time.time_ns())


class Level(StrEnum):
    """How far a result may be believed, from best to worst."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"

    @property
    def severity(self) -> int:
        """Return 0 for valid, 1 for suspect, 2 for invalid."""
        return list(Level).index(self)


class Check(Value):
    """One question asked of a result, and its answer."""

    id: str = Field(description="Stable name, such as generator-bound")
    level: Level
    claim: str = Field(description="The finding, one sentence")
    value: float | None = Field(default=None, description="The measured value, null when not measurable")
    suspect: float | None = Field(
        default=None,
        description="The bound of suspect; `data/checks.json` says on which side it fails",
    )
    invalid: float | None = Field(default=None, description="The bound of invalid, on the same side")
    unit: str | None = Field(default=None, description="Unit of value and bounds, of `data/units.json`")


class Verdict(Value):
    """Whether a result may be believed, and why not."""

    level: Level = Field(description="The worst level among the checks")
    checks: list[Check] = Field(description="Every check that was made, those that passed included")

    @classmethod
    def of(cls, checks: Iterable[Check]) -> Self:
        """Return the verdict that follows from ``checks``; without any, nothing is known: suspect.

        >>> Verdict.of([]).level
        <Level.SUSPECT: 'suspect'>
        """
        listed = list(checks)
        level = max((check.level for check in listed), key=lambda lv: lv.severity, default=Level.SUSPECT)
        return cls(level=level, checks=listed)

    @property
    def reasons(self) -> list[Check]:
        """Return the checks that object, worst first."""
        objecting = [check for check in self.checks if check.level is not Level.VALID]
        return sorted(objecting, key=lambda check: -check.level.severity)
