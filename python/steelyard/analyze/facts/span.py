"""The time that facts are of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """From ``begin_ns`` to ``end_ns``, of CLOCK_MONOTONIC."""

    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """Its length, s."""
        return (self.end_ns - self.begin_ns) / 1e9
