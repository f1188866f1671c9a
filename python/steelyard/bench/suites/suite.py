"""One execution of a suite: its directory, and ``suite.json``, rewritten atomically at each change.

In: what happened to its members. Out: a file that says how far the suite came, whenever it is read. The runs
of the members are directories inside the suite's, each complete in itself.

Invariants: a suite is complete only when every run that was asked for came to a result; whatever killed it,
it is visible as incomplete; a member that fails, or cannot be started, leaves the others alone.

Not here: running members (``launch``), and scores (``decide``), which ``cli`` hands in.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, SteelyardError
from steelyard.bench import runs as run_files
from steelyard.bench.clock import Clock
from steelyard.bench.identity import gone
from steelyard.bench.manifest import MANIFEST, SUITE, this_process
from steelyard.records import Level, Run, RunStatus, Suite, SuiteMember, SuiteRun
from steelyard.records import read as read_record
from steelyard.records import write as write_record
from steelyard.records.suite import SCHEMA_VERSION

Member = tuple[str, str, str | None]
"""Benchmark, metric, and why it is not run, if so."""
SESSIONS_AT_MOST = 12
"""Other suites of a folder that are read for how sessions differ."""


class SuiteManifest:
    """The manifest of the suite in ``directory``; every change is on disk before the method returns."""

    def __init__(self, directory: Path, suite: Suite, clock: Clock) -> None:
        self.directory = directory
        self.suite = suite
        self._clock = clock
        self._save()

    @classmethod
    def create(
        cls,
        directory: Path,
        clock: Clock,
        *,
        suite: str,
        tier: str,
        repeats: int,
        version: str,
        command: list[str],
        request: dict[str, Any],
        members: Sequence[Member],
    ) -> "SuiteManifest":
        """Write the first manifest."""
        record = Suite(
            suite_id=directory.name,
            suite=suite,
            tier=tier,
            repeats=repeats,
            status=RunStatus.RUNNING,
            steelyard_version=version,
            command=command,
            request=request,
            clock=clock.now(),
            orchestrator=this_process(),
            members=_listed(members),
        )
        return cls(directory, record, clock)

    @classmethod
    def resume(
        cls, directory: Path, clock: Clock, suite: Suite, *, members: Sequence[Member], kept: Sequence[Run]
    ) -> "SuiteManifest":
        """Write the manifest of a suite that goes on with the runs in ``kept``."""
        changes = {
            "status": RunStatus.RUNNING,
            "status_reason": None,
            "end_ns": None,
            "orchestrator": this_process(),
            "resumed": [*suite.resumed, clock.now()],
            "members": _listed(members),
            "overall": None,
            "schema_version": SCHEMA_VERSION,
        }
        manifest = cls(directory, suite.model_copy(update=changes), clock)
        for run in kept:
            manifest.put_run(run)
        return manifest

    def _save(self) -> None:
        write_record(self.suite, self.directory / SUITE)

    def put_run(self, run: Run) -> None:
        """Add a run of a member, or say how it stands now."""
        self.suite = self.suite.model_copy(
            update={
                "members": [
                    with_run(member, run) if member.benchmark == run.benchmark else member
                    for member in self.suite.members
                ]
            }
        )
        self._save()

    def finish(self, stopped: str | None = None) -> None:
        """Say how it ended; ``stopped`` is what ended it before every member had its turn."""
        reason = stopped or unfinished(self.suite)
        self.suite = self.suite.model_copy(
            update={
                "status": RunStatus.COMPLETE if reason is None else RunStatus.INCOMPLETE,
                "status_reason": reason,
                "end_ns": self._clock.monotonic_ns(),
            }
        )
        self._save()


def _listed(members: Sequence[Member]) -> list[SuiteMember]:
    return [
        SuiteMember(benchmark=name, runs=[], refused=refused, metric=metric)
        for name, metric, refused in members
    ]


def with_run(member: SuiteMember, run: Run) -> SuiteMember:
    """Return ``member`` with ``run`` as it stands."""
    verdict = run.verdict
    entry = SuiteRun(
        run_id=run.run_id,
        index=run.series.index,
        status=run.status,
        status_reason=run.status_reason,
        level=verdict.level if verdict is not None else None,
        reasons=verdict.reasons if verdict is not None else [],
    )
    known = [other.run_id for other in member.runs]
    runs = [entry if other.run_id == run.run_id else other for other in member.runs]
    return member.model_copy(update={"runs": runs if run.run_id in known else [*runs, entry]})


def unfinished(suite: Suite) -> str | None:
    """Return which members lack a result and why, None when none does."""
    lacking = []
    for member in suite.members:
        if member.refused is not None:
            lacking.append(f"{member.benchmark} was not run: {member.refused}")
            continue
        failed = [run for run in member.runs if run.status is not RunStatus.COMPLETE]
        if failed:
            lacking.append(
                f"{member.benchmark} has no result: {failed[0].status_reason or 'no reason given'}"
            )
        elif len(member.runs) < suite.repeats:
            lacking.append(f"{member.benchmark} has {len(member.runs)} of {suite.repeats} runs")
    return "; ".join(lacking) or None


def is_suite(directory: Path) -> bool:
    """Return whether ``directory`` is that of a suite, readable or not."""
    return os.path.lexists(directory / SUITE)


def save(suite: Suite, directory: Path) -> None:
    """Write the manifest of a suite that has ended, now with its scores."""
    write_record(suite, directory / SUITE)


def load(directory: Path, proc: Path = Path("/proc")) -> tuple[Suite, list[tuple[Path, Run]]]:
    """Return a suite as its directory shows it now, and the runs of its members that can be read.

    What a run's own manifest says goes before what the suite's says of it: the directory may have been copied
    while it ran, or its orchestrator killed. Raises RecordError when there is no readable ``suite.json``.
    """
    suite = read_record(Suite, directory / SUITE)
    runs: list[tuple[Path, Run]] = []
    unreadable: dict[str, str] = {}
    for folder in sorted(path.parent for path in directory.glob(f"*/{MANIFEST}")):
        try:
            runs.append((folder, run_files.load(folder, proc)))
        except RecordError as error:
            unreadable[folder.name] = error.message
    members = suite.members
    for _, run in runs:
        members = [
            with_run(member, run) if member.benchmark == run.benchmark else member for member in members
        ]
    present = {run.run_id for _, run in runs}
    members = [_without_lost(member, present, unreadable) for member in members]
    suite = suite.model_copy(update={"members": members})
    reason = None
    if suite.status is RunStatus.RUNNING and (why := gone(suite.orchestrator, proc)) is not None:
        running = next((member.benchmark for member in members if _under_way(member, suite.repeats)), None)
        reason = f"{why} while {running} was to run" if running else why
    elif suite.status is RunStatus.COMPLETE:
        reason = unfinished(suite)
    if reason is not None:
        suite = suite.model_copy(update={"status": RunStatus.INCOMPLETE, "status_reason": reason})
    return suite, runs


def beside(directories: Sequence[Path]) -> list[list[Run]]:
    """Return the runs of other suites in the same folders as ``directories``, those of each suite together.

    The newest `SESSIONS_AT_MOST`; what cannot be read is left out.
    """
    own = {directory.resolve() for directory in directories}
    others = {
        path.parent for parent in {one.parent for one in own} for path in parent.glob(f"*/{SUITE}")
    } - own
    found = []
    for directory in sorted(others, key=lambda path: path.name, reverse=True):
        with suppress(SteelyardError, OSError):
            runs = [run for _, run in load(directory)[1]]
            if runs:
                found.append(runs)
        if len(found) == SESSIONS_AT_MOST:
            break
    return found


def _without_lost(member: SuiteMember, present: set[str], unreadable: Mapping[str, str]) -> SuiteMember:
    """Say of runs whose directory is not there, or cannot be read, that they are no results here."""

    def reason(run: SuiteRun) -> str:
        why = unreadable.get(run.run_id)
        return f"the run cannot be read: {why}" if why else f"the run's directory {run.run_id} is not here"

    runs = [
        run
        if run.run_id in present
        else run.model_copy(
            update={
                "status": RunStatus.INCOMPLETE,
                "status_reason": reason(run),
                "level": None,
                "reasons": [],
            }
        )
        for run in member.runs
    ]
    return member.model_copy(update={"runs": runs})


def _under_way(member: SuiteMember, repeats: int) -> bool:
    return member.refused is None and sum(run.status is RunStatus.COMPLETE for run in member.runs) < repeats


def verdict_of(suite: Suite) -> Level | None:
    """Return the worst verdict among the members, None unless the suite is complete and each has one."""
    levels = [level_of(member) for member in suite.members]
    known = [level for level in levels if level is not None]
    if suite.status is not RunStatus.COMPLETE or len(known) < len(levels):
        return None
    return max(known, key=lambda level: level.severity, default=None)


def level_of(member: SuiteMember) -> Level | None:
    """Return the worst verdict among a member's results, None when there is none.

    Invalid runs count only when there is nothing else: one of several repeats that failed is left out.
    """
    levels = [run.level for run in member.runs if run.level is not None]
    good = [level for level in levels if level is not Level.INVALID]
    return max(good or levels, key=lambda level: level.severity, default=None)
