"""Run directories on disk: finding and reading them.

In: the folder of runs, a run's directory or id. Out: manifests in which a run that was killed says so.

Invariant: a manifest that says ``running`` is believed only while its orchestrator lives: the same process id
with the same start time in the same boot.

Not here: writing runs (``manifest``), and drawing them (``report``).
"""

import os
import re
from contextlib import suppress
from pathlib import Path

from steelyard._base import RecordError, UsageError, open_regular, read_at_most, read_regular
from steelyard.bench.identity import gone
from steelyard.bench.manifest import MANIFEST, SUITE
from steelyard.bench.parameters import nearest
from steelyard.records import Run, RunStatus
from steelyard.records import read as read_record

_BEGIN = re.compile(rb'"realtime_ns"\s*:\s*(\d{1,19})(?=\D)')
"""The first such time of a record is that of its clock."""
_BEGINNING_BYTES = 8 << 10


def load(directory: Path, proc: Path = Path("/proc")) -> Run:
    """Return the manifest of the run in ``directory``, corrected when its orchestrator is gone.

    Raises RecordError when there is no readable manifest.
    """
    run = read_record(Run, directory / MANIFEST)
    if run.status is not RunStatus.RUNNING:
        return run
    reason = gone(run.orchestrator, proc, phase=run.phases[-1].name if run.phases else "preparation")
    if reason is None:
        return run
    return run.model_copy(
        update={"status": RunStatus.INCOMPLETE, "status_reason": reason, "metrics": {}, "verdict": None}
    )


def listing(out: Path) -> list[tuple[Path, Run | RecordError]]:
    """Return every run under ``out`` in order of its id, an unreadable one with the reason.

    Runs of suites are among them; their directories lie in the suite's.
    """
    return [(directory, attempt(directory)) for directory in sorted(_runs(out), key=lambda path: path.name)]


def attempt(directory: Path) -> Run | RecordError:
    """Return the manifest of the run in ``directory``, or why it cannot be read."""
    try:
        return load(directory)
    except RecordError as error:
        return error


def suites(out: Path) -> list[Path]:
    """Return the directories of the suites under ``out`` in order of their ids."""
    return sorted(path.parent for path in out.glob(f"*/{SUITE}"))


def outermost(out: Path) -> list[Path]:
    """Return the directories of suites, and of runs that are in no suite, in order of their ids."""
    return sorted([*suites(out), *(path.parent for path in out.glob(f"*/{MANIFEST}"))])


def _runs(out: Path) -> list[Path]:
    alone = [path.parent for path in out.glob(f"*/{MANIFEST}")]
    return alone + [path.parent for suite in suites(out) for path in suite.glob(f"*/{MANIFEST}")]


def begin_of_record_ns(record: Path) -> int:
    """Return when that began which a record is of, in ns since 1970.

    Where the record does not say, that is when it was written. Names do not say it: folders are renamed, and
    copied beside others. 0 for a file that cannot be read.
    """
    with suppress(RecordError, OSError):
        with open_regular(record) as file:
            # The time stands near the beginning, and ten thousand records may have to be looked at.
            found = _BEGIN.search(read_at_most(file, _BEGINNING_BYTES))
        found = found or _BEGIN.search(read_regular(record))
        return int(found[1]) if found else record.stat().st_mtime_ns
    return 0


def _begin_ns(directory: Path) -> int:
    """Return when a run or suite began, in ns since 1970."""
    return begin_of_record_ns(directory / MANIFEST) or begin_of_record_ns(directory / SUITE)


def find(name: str, out: Path) -> Path:
    """Return the directory of the run or suite ``name``: a path, an id under ``out``, or ``latest``.

    The latest is the one that began last: a suite where the last command ran one, and not the last of its
    members.
    Raises UsageError when there is none.
    """
    whole = outermost(out)
    if name == "latest" and whole:
        return max(whole, key=lambda path: (_begin_ns(path), path.name))
    for candidate in (Path(name), out / name):
        directory = candidate.parent if candidate.name in (MANIFEST, SUITE) else candidate
        # Whatever stands in the manifest's place: reading it says what is wrong with it.
        if any(os.path.lexists(directory / manifest) for manifest in (MANIFEST, SUITE)):
            return directory
    known = [*whole, *(path for path in _runs(out) if path not in whole)]
    exact = [path for path in known if path.name == name]
    # A beginning stands for a suite before it stands for one of its members.
    matching = exact or [path for path in whole if name and path.name.startswith(name)]
    matching = matching or [path for path in known if name and path.name.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    names = [path.name for path in whole]
    hint = f"runs under {out}: {', '.join(names[-5:])}" if names else f"there are no runs under {out}"
    if matching:
        raise UsageError(f"{name} fits {len(matching)} runs", hint=hint)
    close = nearest(name, [path.name for path in known])
    raise UsageError(f"unknown run {name!r}{close}", hint=hint)
