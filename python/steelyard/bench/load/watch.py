"""Processes of ``steelyard-load`` in a run: what they tell, and the measure phase of all of them.

In: load processes that warm up until the order to measure. Out: the measure phase on the monotonic clock.

Not here: their command lines, which benchmarks know, and metrics from their results (``metrics``).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steelyard._base import WorkloadFailedError

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

LOAD_CODES = (0, 1)
"""Exit codes of a load that ended in order; with 1 its verdict is invalid, as the run's is then."""
LATE_S = 30.0
"""How much longer than it should the measure phase may take before something is wrong."""


@dataclass(slots=True)
class LoadWatch:
    """A load process and what it has reported so far."""

    process: "Process"
    phases: dict[str, int] = field(default_factory=dict)
    completed_per_s: list[float] = field(default_factory=list)
    errors: int = 0

    def read(self) -> None:
        """Take in what it reported since the last call."""
        for stream, line in self.process.lines():
            if stream == "stderr" and line.startswith("{"):
                self._take(line)

    def finish(self, session: "Session", timeout_s: float, what: str = "finishing the load") -> None:
        """Wait for its end in order, whatever its verdict; raises WorkloadFailedError for another one."""
        session.join(self.process, timeout_s, what=what, codes=LOAD_CODES)

    def _take(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event.get("event") == "phase":
            self.phases[str(event["name"])] = int(event["begin_ns"])
        elif event.get("event") == "interval":
            seconds = (int(event["end_ns"]) - int(event["begin_ns"])) / 1e9
            self.completed_per_s.append(int(event["completed"]) / seconds if seconds > 0 else 0.0)
            self.errors += int(event["errors"])


def show_progress(
    session: "Session", loads: Sequence[LoadWatch], hit_ratio: float | None, elapsed_s: float
) -> None:
    """Show where things stand."""
    figures = {"elapsed": f"{elapsed_s:.0f} s"}
    if all(load.completed_per_s for load in loads):
        figures["requests/s"] = f"{sum(load.completed_per_s[-1] for load in loads):,.0f}"
    if hit_ratio is not None:
        figures["hit ratio"] = f"{hit_ratio:.3f}"
    errors = sum(load.errors for load in loads)
    if errors:
        figures["errors"] = str(errors)
    session.progress.status(figures)


def measure(
    session: "Session",
    loads: Sequence[LoadWatch],
    duration_s: float,
    hit_ratio: Callable[[], float | None] = lambda: None,
    mark: Callable[[int], None] | None = None,
) -> tuple[int, int]:
    """Have all loads measure; return the interval in which every one of them did.

    ``hit_ratio`` returns what to show of servers that have one. ``mark`` is called with the beginning when it
    has come; without it phase ``measure`` begins then.
    """
    for load in loads:
        # It ends by itself soon after its measure phase, which may be over before anybody has looked.
        session.expect_end(load.process)
        load.process.write("measure\n")
    _wait_for_phase(session, loads, hit_ratio, "measure", LATE_S)
    begin_ns = max(load.phases["measure"] for load in loads)
    if mark is None:
        session.begin_phase("measure", begin_ns)
    else:
        mark(begin_ns)
    _wait_for_phase(session, loads, hit_ratio, "drain", duration_s + LATE_S)
    end_ns = min(load.phases["drain"] for load in loads)
    if end_ns <= begin_ns:
        raise WorkloadFailedError("the load processes did not measure at the same time")
    return begin_ns, end_ns


def _wait_for_phase(
    session: "Session",
    loads: Sequence[LoadWatch],
    hit_ratio: Callable[[], float | None],
    name: str,
    timeout_s: float,
) -> None:
    begin_ns = session.clock.monotonic_ns()
    shown_s = 0.0
    while not all(name in load.phases for load in loads):
        session.wait(0.02)
        for load in loads:
            load.read()
            if load.process.poll() is not None and name not in load.phases:
                # Its last lines are read when this returns.
                load.process.stop(0.0)
                load.read()
                if name not in load.phases:
                    session.join(load.process, 1.0, what="the end of the load")
                    raise WorkloadFailedError(f"{load.process.name} ended before phase {name}")
        elapsed_s = (session.clock.monotonic_ns() - begin_ns) / 1e9
        if elapsed_s > timeout_s:
            raise WorkloadFailedError(f"phase {name} did not begin within {timeout_s:g} s")
        if elapsed_s - shown_s >= 1.0:
            shown_s = elapsed_s
            show_progress(session, loads, hit_ratio(), elapsed_s)
