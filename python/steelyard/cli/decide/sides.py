"""A workload by its name: a run, a file of metrics or of ``perf stat``, a fleet's job.

In: what was typed. Out: a `WorkloadProfile`. Repeats of a run that lie beside it are taken with it.

Not here: what a profile is (``decide.fidelity``), comparing.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from steelyard._base import RecordError, SteelyardError, UsageError
from steelyard.bench import declaration, runs
from steelyard.bench.suites import suite
from steelyard.cli.decide.sources import check_file
from steelyard.decide.fidelity.of_counters import of_perf_stat
from steelyard.decide.fidelity.of_file import is_profile_file, read_profile_file
from steelyard.decide.fidelity.of_run import profile_of_run
from steelyard.decide.fidelity.workload import WorkloadProfile, repeated
from steelyard.records import Machine, RunStatus, read

_MANIFEST = "run.json"


def profile_named(name: str, folder: Path) -> WorkloadProfile:
    """Return the profile of what ``name`` means; runs are looked for in ``folder``.

    Raises UsageError and RecordError.
    """
    path = Path(name)
    if path.is_file() and path.name != _MANIFEST:
        return _of_file(path)
    store, mark, job = name.rpartition("#")
    if mark and store and not path.exists():
        from steelyard.cli.decide.fleet_job import profile_of_job

        return profile_of_job(store, job)
    check_file(path)
    try:
        directory = runs.find(name, folder)
    except UsageError as error:
        hint = f"{error.hint}; or name a file of metrics, of perf stat, or a fleet's job as STORE#JOB"
        raise UsageError(error.message, hint=hint) from error
    if suite.is_suite(directory):
        raise UsageError(
            f"{directory.name} is a suite: name one of its runs", hint=f"they lie in {directory}"
        )
    return profile_of_folder(directory)


def _of_file(path: Path) -> WorkloadProfile:
    """Return what a file states; one of perf stat may end as those of metrics do."""
    if not is_profile_file(str(path)):
        return of_perf_stat(path)
    try:
        return read_profile_file(path)
    except UsageError:
        if path.suffix == ".toml":
            raise
        with contextlib.suppress(SteelyardError):
            return of_perf_stat(path)
        raise


def profile_of_folder(directory: Path) -> WorkloadProfile:
    """Return the profile of a run with its repeats."""
    run = runs.load(directory)
    if run.status is not RunStatus.COMPLETE:
        raise UsageError(f"{run.run_id} is {run.status.value}: {run.status_reason or 'it has no result'}")
    from steelyard.report.model import siblings_of

    siblings = [one for one in siblings_of(directory, run) if one.run.status is RunStatus.COMPLETE]
    own = [one for one in siblings if one.run.run_id == run.run_id]
    others = [one for one in siblings if one.run.run_id != run.run_id]
    return repeated([profile_of_one(each.folder) for each in (*own, *others)])


def profile_of_one(directory: Path) -> WorkloadProfile:
    """Return the profile of a run alone."""
    run = runs.load(directory)
    machine = None
    with contextlib.suppress(RecordError):
        machine = read(Machine, directory / "machine.json")
    headline = declaration.of_run(run.benchmark).headline
    return profile_of_run(directory, run, machine, headline[0] if headline else None)
