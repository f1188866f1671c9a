"""Files of ``perf stat`` that belong to a run: another program wrote them, and the run keeps copies.

In: paths as they were given (``--perf-stat``). Out: copies in the run's ``perf-stat`` folder, and what is
known of each in the run's manifest.

Invariants: a file is copied after the program has ended, so that ``perf stat -o FILE -- COMMAND`` may be the
program; whether it was written during the run is noted, because counts of another time explain nothing; one
that is not there costs its counts and not the run.

Not here: reading them (``telemetry.perf_stat.output``), which is tried before and after a run: counts that
were asked for and are none are said.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from steelyard._base import SteelyardError, UsageError
from steelyard.analyze.run_files import PERF_STAT_BYTES_AT_MOST as BYTES_AT_MOST
from steelyard.analyze.run_files import PERF_STAT_FOLDER as FOLDER
from steelyard.analyze.run_files import PERF_STAT_HOOK as HOOK
from steelyard.bench.manifest import Manifest
from steelyard.records import Run
from steelyard.telemetry.perf_stat.output import read_perf_stat

_CLOCK_STEP_NS = 20_000_000
"""Times of files are those of the kernel's last tick."""


def check_files(paths: Sequence[Path], command: Sequence[str]) -> None:
    """Raise for a file that cannot be read, and that the command does not name, which may write it.

    UsageError where there is none, RecordError where it is no output of perf stat.
    """
    for path in paths:
        is_named = any(path.name in word for word in command)
        if path.is_file():
            if not is_named:
                read_perf_stat(path)
            continue
        if path.exists():
            raise UsageError(f"--perf-stat {path}: is not a file")
        if not is_named:
            raise UsageError(
                f"--perf-stat {path}: there is no such file, and the command does not write it",
                hint="name it in the command too: -- perf stat -o FILE COMMAND",
            )


def problems(directory: Path, run: Run) -> list[str]:
    """Return why files that were given tell nothing of the run, a line for each."""
    found: list[str] = []
    files = run.hooks.get(HOOK)
    for name, about in (files if isinstance(files, dict) else {}).items():
        if not isinstance(about, dict):
            continue
        if isinstance(about.get("missing"), str):
            found.append(f"--perf-stat {name}: {about['missing']}")
            continue
        try:
            read_perf_stat(directory / FOLDER / Path(str(about.get("file", ""))).name)
        except SteelyardError as error:
            why = error.message.removeprefix(f"{directory / FOLDER / str(about.get('file', ''))}: ")
            found.append(f"--perf-stat {name}: {why}")
    return found


def keep_files(manifest: Manifest, paths: Sequence[Path], begin_ns: int) -> None:
    """Copy the files into the run, whose program began at ``begin_ns`` (CLOCK_MONOTONIC)."""
    if not paths:
        return
    clock = manifest.run.clock
    began_ns = clock.realtime_ns + (begin_ns - clock.monotonic_ns)
    by_name: dict[str, JsonValue] = {}
    kept: dict[str, str] = {}
    for number, path in enumerate(paths, 1):
        name = path.name if path.name not in by_name else f"{path.name} ({number})"
        copy = f"{number}-{path.name}"
        try:
            about = path.stat()
            if about.st_size > BYTES_AT_MOST:
                by_name[name] = {"missing": f"larger than {BYTES_AT_MOST >> 20} MiB"}
                continue
            (manifest.directory / FOLDER).mkdir(exist_ok=True)
            shutil.copyfile(path, manifest.directory / FOLDER / copy)
        except OSError as error:
            by_name[name] = {"missing": f"cannot be read: {error.strerror or error}"}
            continue
        by_name[name] = {"file": copy, "is_of_run": about.st_mtime_ns >= began_ns - _CLOCK_STEP_NS}
        kept[f"perf_stat_{number}"] = f"{FOLDER}/{copy}"
    manifest.put_hook(HOOK, by_name)
    manifest.put_artifacts(kept)
