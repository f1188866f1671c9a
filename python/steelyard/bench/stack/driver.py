"""A driver of jobs: a process that prints a line of JSON for every step that it has done.

In: a process whose lines are ``{"event": NAME, ...}``. Out: the line of an event when it has come, or the
reason why it will not.

Not here: what the driver does, and what else may be the cause of its failure, which the caller knows.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from steelyard._base import WorkloadFailedError

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

LOOK_S = 0.2
"""How often the driver is looked at."""


class Driver:
    """A driver that has been started; it may end by itself."""

    def __init__(self, session: "Session", process: "Process", look: Callable[[], None]) -> None:
        """``look`` is called at every look, and raises where something else has failed."""
        self._session = session
        self.process = process
        self._look = look
        self._events: list[dict[str, Any]] = []
        session.expect_end(process)

    def wait(self, event: str, timeout_s: float, what: str, **fields: str) -> dict[str, Any]:
        """Return the line of ``event`` with ``fields``. Raises WorkloadFailedError without it."""
        deadline_ns = self._session.clock.monotonic_ns() + int(timeout_s * 1e9)

        def matches(line: Mapping[str, Any]) -> bool:
            return line["event"] == event and all(line.get(name) == word for name, word in fields.items())

        while (found := next((line for line in self._events if matches(line)), None)) is None:
            self._look()
            ended = self.process.poll() is not None
            if ended:
                # Its last lines are read when this returns.
                self.process.stop(0.0)
            self._take()
            if ended and not any(matches(line) for line in self._events):
                self._blame()
            if self._session.clock.monotonic_ns() > deadline_ns:
                raise WorkloadFailedError(
                    f"{what} took longer than {timeout_s:.0f} s", hint=f"see {self.process.log}"
                )
            self._session.wait(LOOK_S)
        return found

    def _take(self) -> None:
        """Read what the driver printed."""
        for stream, line in self.process.lines():
            if stream == "stdout" and line.startswith('{"event"'):
                self._events.append(json.loads(line))

    def _blame(self) -> NoReturn:
        """Raise for a driver that has ended: what else has failed is the cause where something has."""
        self._session.check()
        self._look()
        self._session.join(self.process, 1.0, what="the driver")
        raise WorkloadFailedError("the driver ended early", hint=f"see {self.process.log}")
