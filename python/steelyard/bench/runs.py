"""Run directories on disk: finding and reading them.

In: the folder of runs, a run's directory or id. Out: manifests in which a run that was killed says so.

Invariant: a manifest that says ``running`` is believed only while its orchestrator lives: the same process id
with the same start time in the same boot.

Not here: writing runs (``manifest``), and drawing them (``report``).
"""

from pathlib import Path

from steelyard._base import RecordError, UsageError
from steelyard.bench.identity import boot_id, start_ticks
from steelyard.bench.manifest import MANIFEST
from steelyard.bench.parameters import nearest
from steelyard.records import Run, RunStatus
from steelyard.records import read as read_record


def load(directory: Path, proc: Path = Path("/proc")) -> Run:
    """Return the manifest of the run in ``directory``, told truthfully when its orchestrator is gone.

    Raises RecordError when there is no readable manifest.
    """
    run = read_record(Run, directory / MANIFEST)
    if run.status is not RunStatus.RUNNING:
        return run
    reason = _gone(run, proc)
    if reason is None:
        return run
    return run.model_copy(
        update={"status": RunStatus.INCOMPLETE, "status_reason": reason, "metrics": {}, "verdict": None}
    )


def _gone(run: Run, proc: Path) -> str | None:
    """Return why the run cannot be under way, None when it is."""
    driver = run.orchestrator
    phase = run.phases[-1].name if run.phases else "preparation"
    if driver.boot_id is not None and driver.boot_id != boot_id(proc):
        where = driver.hostname or "its machine"
        return f"was under way in phase {phase} when {where} rebooted, or its folder was copied from there"
    if start_ticks(driver.pid, proc) != driver.start_ticks:
        return f"the orchestrator (process {driver.pid}) was killed in phase {phase}"
    return None


def listing(out: Path) -> list[tuple[Path, Run | RecordError]]:
    """Return every run under ``out`` in order of its id, an unreadable one with the reason."""
    found: list[tuple[Path, Run | RecordError]] = []
    for directory in sorted(path.parent for path in out.glob(f"*/{MANIFEST}")):
        try:
            found.append((directory, load(directory)))
        except RecordError as error:
            found.append((directory, error))
    return found


def find(name: str, out: Path) -> Path:
    """Return the directory of the run ``name``: a path, an id under ``out``, or ``latest``.

    Raises UsageError when there is none.
    """
    known = sorted(path.parent for path in out.glob(f"*/{MANIFEST}"))
    if name == "latest" and known:
        return known[-1]
    for candidate in (Path(name), out / name):
        directory = candidate.parent if candidate.name == MANIFEST else candidate
        if (directory / MANIFEST).is_file():
            return directory
    matching = [path for path in known if name and path.name.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    names = [path.name for path in known]
    hint = f"runs under {out}: {', '.join(names[-5:])}" if names else f"there are no runs under {out}"
    if matching:
        raise UsageError(f"{name} fits {len(matching)} runs", hint=hint)
    raise UsageError(f"there is no run {name!r}{nearest(name, names)}", hint=hint)
