"""The runs of a folder, with what each export says beside their figures.

In: the folder of a run, a suite, an experiment or whatever else has runs in it. Out: `ExportedRun`s in the
order of their ids. A run that cannot be read is an error: an export without it would be taken for the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import ResultSaysNoError, SteelyardError
from steelyard.bench import runs
from steelyard.bench.manifest import MANIFEST
from steelyard.records import Machine, Metric, Run, read

_MACHINE = "machine.json"


@dataclass(frozen=True)
class ExportedRun:
    """A run, and the machine that it ran on, None where the folder has no inventory that can be read."""

    folder: Path
    run: Run
    machine: Machine | None

    @property
    def host(self) -> str:
        """The host's name, empty where nothing has it."""
        named = self.run.orchestrator.hostname
        return named or (self.machine.hostname if self.machine is not None else None) or ""

    @property
    def verdict(self) -> str:
        """``valid``, ``suspect`` or ``invalid``; empty where nothing was judged."""
        return self.run.verdict.level.value if self.run.verdict is not None else ""

    @property
    def begin_ns(self) -> int:
        """When what was measured began, in ns since 1970."""
        return self._span_ns()[0]

    @property
    def end_ns(self) -> int:
        """When it ended, in ns since 1970."""
        return self._span_ns()[1]

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """Return the results by name."""
        return self.run.metrics

    def realtime_ns(self, monotonic_ns: int) -> int:
        """Return a time of the run in ns since 1970."""
        return self.run.clock.realtime_ns + monotonic_ns - self.run.clock.monotonic_ns

    def _span_ns(self) -> tuple[int, int]:
        measured = [phase for phase in self.run.phases if phase.name == "measure"] or self.run.phases
        begin = min((phase.begin_ns for phase in measured), default=self.run.clock.monotonic_ns)
        end = max((phase.end_ns for phase in measured if phase.end_ns is not None), default=begin)
        return self.realtime_ns(begin), self.realtime_ns(max(begin, end))


def runs_in(folder: Path) -> list[ExportedRun]:
    """Return the runs in ``folder``, itself included.

    Raises ResultSaysNoError where there is none, RecordError for one that cannot be read.
    """
    found = [path.parent for path in sorted(folder.rglob(MANIFEST))]
    if not found:
        raise ResultSaysNoError(f"{folder}: no runs in it", hint="--to csv has the figures of any folder")
    return [ExportedRun(one, runs.load(one), _machine(one)) for one in found]


def _machine(folder: Path) -> Machine | None:
    try:
        return read(Machine, folder / _MACHINE)
    except SteelyardError:
        return None
