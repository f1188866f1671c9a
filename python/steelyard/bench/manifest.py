"""The manifest of a run under way: ``run.json``, rewritten atomically at each change.

In: what happened. Out: a file that says how far the run came, whenever it is read.

Invariants: phases never overlap and only the last one is open; the status leaves ``running`` once, for ever;
room for the last rewrite is set aside at the start, so that a full disk can still be reported.

Not here: deciding what happens.
"""

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from steelyard._base import record_files
from steelyard.bench.clock import Clock
from steelyard.bench.identity import boot_id, start_ticks
from steelyard.records import (
    Cpus,
    Metric,
    Orchestrator,
    Parameter,
    Phase,
    Process,
    Run,
    RunStatus,
    Series,
    Verdict,
)
from steelyard.records import write as write_record

MANIFEST = record_files.RUN
SUITE = record_files.SUITE
_BALLAST = ".ballast"
_BALLAST_BYTES = 256 * 1024


def this_process() -> Orchestrator:
    """Return the identity of this process, as a manifest names it."""
    return Orchestrator(
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
        boot_id=boot_id(),
        hostname=socket.gethostname(),
    )


class Manifest:
    """The manifest of the run in ``directory``; every change is on disk before the method returns."""

    def __init__(self, directory: Path, run: Run, clock: Clock) -> None:
        self.directory = directory
        self.run = run
        self._clock = clock
        with contextlib.suppress(OSError), (directory / _BALLAST).open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, _BALLAST_BYTES)
        self.save()

    @classmethod
    def create(
        cls,
        directory: Path,
        clock: Clock,
        *,
        benchmark: str,
        suite: str | None,
        tier: str,
        series: Series,
        version: str,
        command: list[str],
        parameters: Mapping[str, Parameter],
        cpus: Cpus,
        tags: Sequence[str] = (),
    ) -> "Manifest":
        """Write the first manifest of a run whose folder exists and is its own."""
        run = Run(
            run_id=directory.name,
            benchmark=benchmark,
            suite=suite,
            tier=tier,
            series=series,
            tags=list(tags),
            status=RunStatus.RUNNING,
            steelyard_version=version,
            command=command,
            clock=clock.now(),
            orchestrator=this_process(),
            parameters=dict(parameters),
            cpus=cpus,
            phases=[],
            processes=[],
            metrics={},
            hooks={},
            artifacts={},
        )
        return cls(directory, run, clock)

    def save(self) -> None:
        """Write the manifest. Raises WorkloadFailedError when it cannot be written."""
        write_record(self.run, self.directory / MANIFEST)

    def change(self, **fields: object) -> None:
        """Replace fields of the record and write it."""
        self.run = self.run.model_copy(update=fields)
        self.save()

    @property
    def phase(self) -> str | None:
        """Return the name of the open phase."""
        phases = self.run.phases
        return phases[-1].name if phases and phases[-1].end_ns is None else None

    def begin_phase(self, name: str, begin_ns: int | None = None) -> None:
        """End the open phase, if there is one, and begin ``name`` at the same moment."""
        at = self._clock.monotonic_ns() if begin_ns is None else begin_ns
        self.change(phases=[*self._closed(at), Phase(name=name, begin_ns=at)])

    def end_phase(self, end_ns: int | None = None) -> None:
        """End the open phase, if there is one."""
        if self.phase is not None:
            at = self._clock.monotonic_ns() if end_ns is None else end_ns
            self.change(phases=self._closed(at))

    def _closed(self, at: int) -> list[Phase]:
        phases = list(self.run.phases)
        if self.phase is not None:
            phases[-1] = phases[-1].model_copy(update={"end_ns": max(at, phases[-1].begin_ns)})
        return phases

    def put_step(self, name: str, begin_ns: int, end_ns: int) -> None:
        """Add a part of the measure phase."""
        self.change(steps=[*self.run.steps, Phase(name=name, begin_ns=begin_ns, end_ns=end_ns)])

    def phase_span(self, name: str) -> tuple[int, int] | None:
        """Return when the last phase called ``name`` began and ended, None when it did not end."""
        for phase in reversed(self.run.phases):
            if phase.name == name and phase.end_ns is not None:
                return phase.begin_ns, phase.end_ns
        return None

    def put_process(self, process: Process) -> None:
        """Add a process, or replace the entry of the same name."""
        others = [known for known in self.run.processes if known.name != process.name]
        self.change(processes=[*others, process])

    def put_hook(self, name: str, value: JsonValue) -> None:
        """Set what a hook added."""
        self.change(hooks={**self.run.hooks, name: value})

    def put_artifacts(self, artifacts: Mapping[str, str]) -> None:
        """Add files by role, relative to the run's directory."""
        self.change(artifacts={**self.run.artifacts, **artifacts})

    def complete(self, metrics: Mapping[str, Metric], verdict: Verdict) -> None:
        """Turn the run into a result."""
        self.end_phase()
        (self.directory / _BALLAST).unlink(missing_ok=True)
        self.change(status=RunStatus.COMPLETE, metrics=dict(metrics), verdict=verdict)

    def fail(self, reason: str) -> None:
        """Mark the run incomplete. The phase it was cut off in keeps its open end.

        To be called when no process of the run is left: one that still wrote to a full disk would take the
        room that is given free here.
        """
        (self.directory / _BALLAST).unlink(missing_ok=True)
        self.change(status=RunStatus.INCOMPLETE, status_reason=reason, metrics={}, verdict=None)
