"""The clocks of a run, as an object so that tests can give another."""

import time
from typing import Protocol

from steelyard.records import Clock as Moment


class Clock(Protocol):
    """What a session asks about time."""

    def now(self) -> Moment:
        """Return both clocks, read together."""

    def monotonic_ns(self) -> int:
        """Return ``CLOCK_MONOTONIC``, ns: the clock that phases and the data plane use."""

    def cpu_s(self) -> float:
        """Return the CPU time that this process has used, s."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> Moment:
        """Return both clocks, read together."""
        return Moment.now()

    def monotonic_ns(self) -> int:
        """Return ``CLOCK_MONOTONIC``, ns."""
        return time.monotonic_ns()

    def cpu_s(self) -> float:
        """Return the CPU time that this process has used, s."""
        return time.process_time()

    def sleep(self, seconds: float) -> None:
        """Wait, also when a signal handler ran meanwhile."""
        time.sleep(seconds)
