"""Scores of what runs now: asks ``steelyard-probe numa``.

In: what is wanted. Out: the `NumaScore` record of one window. Not here: reading /proc, which the executable
does.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import (
    REPAIR_HINT,
    EnvironmentLacksError,
    ExitCode,
    SteelyardError,
    UsageError,
    WorkloadFailedError,
    executable,
)
from steelyard.numa.distances import Table
from steelyard.records import NumaScore, parse

_NAME = "steelyard-probe"


@dataclass(frozen=True)
class ScoreRequest:
    """Whose scores are wanted: processes, control groups, or everything."""

    pids: Sequence[int] = ()
    cgroups: Sequence[str] = ()
    everything: bool = False
    duration: str = "1s"
    looks: int = 10
    distances: str | Table = "slit"
    """``slit``, ``hmat``, the path of a table, or a table."""
    running: bool = False
    """Leave out what did not run in the window."""
    pages: bool = False
    """Read memory on a machine with one node, too."""
    largest: str | None = None
    """Size above which a process's memory is not looked through."""
    root: Path | None = None

    def arguments(self, distances: str) -> list[str]:
        """Return the executable's arguments."""
        found = ["numa", "--json", "--duration", self.duration, "--looks", str(self.looks)]
        found += ["--distances", distances]
        for pid in self.pids:
            found += ["--pid", str(pid)]
        for cgroup in self.cgroups:
            found += ["--cgroup", cgroup]
        flags = {"--all": self.everything, "--running": self.running, "--pages": self.pages}
        found += [name for name, wanted in flags.items() if wanted]
        if self.largest is not None:
            found += ["--largest", self.largest]
        if self.root is not None:
            found += ["--root", str(self.root)]
        return found


def measure(request: ScoreRequest) -> NumaScore:
    """Return the scores of one window.

    Raises UsageError for a process or group that is not there, EnvironmentLacksError where the machine
    tells of no nodes, WorkloadFailedError for whatever else the executable complains of.
    """
    program = executable(_NAME)
    with tempfile.TemporaryDirectory() as folder:
        distances = request.distances
        if not isinstance(distances, str):
            file = Path(folder) / "distances"
            file.write_text("\n".join(" ".join(map(repr, row)) for row in distances) + "\n")
            distances = str(file)
        try:
            done = subprocess.run(
                [str(program), *request.arguments(distances)], capture_output=True, check=False
            )
        except OSError as error:
            raise EnvironmentLacksError(f"{program}: {error.strerror}", hint=REPAIR_HINT) from error
    if done.returncode != 0:
        raise _failure(done.returncode, done.stderr.decode(errors="replace"))
    return parse(NumaScore, done.stdout, where=_NAME)


def _failure(code: int, stderr: str) -> SteelyardError:
    line = " ".join(stderr.split()).removeprefix(f"{_NAME}: ") or f"{_NAME} ended with {code}"
    if code == ExitCode.USAGE:
        return UsageError(line)
    if code == ExitCode.ENVIRONMENT:
        return EnvironmentLacksError(line)
    return WorkloadFailedError(line)
