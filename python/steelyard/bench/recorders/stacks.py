"""Sampling stacks beside a workload, by ``steelyard-profile``.

In: whose stacks, and how often. Out: the command line that samples them.

Not here: sampling (``steelyard-profile``), and what the stacks mean (``analyze.profiles``).
"""

from collections.abc import Sequence
from pathlib import Path

from steelyard._base import executable

FINISH_S = 30.0
"""How long a profiler gets to resolve its symbols."""
PROGRAM = "steelyard-profile"


def sampling_command(scope: Sequence[str], *, hz: int, call_graph: str, files: Sequence[str]) -> list[str]:
    """Return the command, of which ``scope`` and ``files`` are flags.

    Raises EnvironmentLacksError without the program.
    """
    program = executable(PROGRAM)
    return [str(program), "record", *scope, "--hz", str(hz), "--call-graph", call_graph, *files]


def reason_of(last_line: str | None, ending: object) -> str:
    """Return why there is no profile."""
    return (last_line or "").removeprefix(f"{PROGRAM}: ") or f"{PROGRAM} {ending}"


def files_at(folder: Path, *, folded: str, pprof: str | None = None, has_times: bool = False) -> list[str]:
    """Return the flags that name what is written."""
    flags = ["--folded", str(folder / folded)]
    flags += ["-o", str(folder / pprof)] if pprof is not None else []
    flags += ["--times", str((folder / folded).with_suffix(".times"))] if has_times else []
    return flags
