"""Counts performance events of what is described beside a characterization.

In: the machine, whose events (the machine's, processes' or a cgroup's). Out: ``counter-plan.json`` and the
recording ``counters/`` in the run's directory, and in the manifest what was planned or why nothing was
counted.

Invariants: what cannot be counted costs its counts and not the run. Processes that exist when counting begins
are counted each for itself, those that they make later with them; so entities never overlap.

Not here: the command (``recorders.event_counts``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from steelyard._base import SteelyardError
from steelyard.analyze.run_files import COUNTERS, RECORDED
from steelyard.bench.recorders import event_counts

if TYPE_CHECKING:
    from steelyard.analyze.counters.choice import Choice
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

PLAN = "counter-plan.json"
_STOP_S = 10.0


@dataclass
class Counting:
    """Counts of one scope: ``system``, ``process`` or ``cgroup``."""

    _process: "Process | None" = field(default=None, repr=False)
    _choice: "Choice | SteelyardError | None" = field(default=None, repr=False)

    def prepare(self, session: "Session", scope: str) -> None:
        """Choose what to count, before there is anything that choosing would disturb."""
        from steelyard.analyze.counters.choice import choose

        try:
            self._choice = choose(session.machine, scope)
        except SteelyardError as error:
            self._choice = error

    def start(
        self,
        session: "Session",
        scope: str,
        targets: Sequence[str],
        interval_s: float,
    ) -> None:
        """Begin to count; targets are process ids or cgroups, none for the machine.

        What stands in the way is written into the manifest.
        """
        if self._choice is None:
            self.prepare(session, scope)
        choice = self._choice
        if choice is None or isinstance(choice, SteelyardError):
            self._missing(session, choice.message if choice is not None else "nothing was chosen")
            return
        plan, recording = session.directory / PLAN, session.directory / RECORDED
        try:
            command = event_counts.counting_command(
                choice, scope, targets, interval_s, plan=plan, recording=recording
            )
        except SteelyardError as error:
            self._missing(session, error.message)
            return
        self._process = session.start_process("counters", command, cpus=None)
        session.expect_end(self._process)

    def stop(self, session: "Session") -> None:
        """Read the counts a last time and complete the recording."""
        if self._process is None:
            return
        ending = self._process.stop(_STOP_S)
        session.note_end(self._process)
        reason = (self._process.last_line() or "").removeprefix("steelyard-probe: ")
        self._process = None
        if event_counts.recorded(session.directory / RECORDED) is None:
            self._missing(session, reason or f"steelyard-probe {ending}")
            return
        cost_s = event_counts.cost_s(session.directory / RECORDED)
        about: dict[str, JsonValue] = {"cpu_s": round(cost_s, 4) if cost_s is not None else None}
        session.manifest.put_hook(COUNTERS, about)
        session.manifest.put_artifacts({"counters": RECORDED, "counter_plan": PLAN})

    @staticmethod
    def _missing(session: "Session", reason: str) -> None:
        session.manifest.put_hook(COUNTERS, {"missing": reason})


def counting_cpu_s(directory: Path) -> float:
    """Return the CPU time that counting took in the run in ``directory``, s."""
    return event_counts.cost_s(directory / RECORDED) or 0.0
