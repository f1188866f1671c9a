"""``steelyard doctor``: shows what this machine can measure, what it cannot, and how to enable it.

In: the probe's account of its sources, and the diagnosis of ``machine``. Out: tables, or one JSON document.
Not here: finding out (``machine.doctor``), drawing (``report.machine.doctor``).
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from steelyard._base import EnvironmentLacksError, ExitCode, WorkloadFailedError, command_text, executable
from steelyard.cli.leftovers import put_back
from steelyard.cli.output import print_json, show_answer
from steelyard.machine import diagnose
from steelyard.machine.doctor import Diagnosis, Program

EXECUTABLES = (
    "steelyard-cache",
    "steelyard-exec",
    "steelyard-load",
    "steelyard-probe",
    "steelyard-profile",
    "steelyard-rank",
    "steelyard-tax",
    "steelyard-top",
)
_TIMEOUT_S = 30.0


def _executables() -> list[Program]:
    rows = []
    for name in EXECUTABLES:
        try:
            rows.append(Program(name, str(executable(name)), None))
        except EnvironmentLacksError as error:
            rows.append(Program(name, None, error.hint))
    return rows


def _sources() -> list[dict[str, Any]] | None:
    """Return what the probe says about its sources, ``None`` where there is no probe."""
    try:
        command = [str(executable("steelyard-probe")), "sources", "--json"]
    except EnvironmentLacksError:
        return None
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True)
        sources: list[dict[str, Any]] = json.loads(done.stdout)["sources"]
    except (subprocess.SubprocessError, OSError, ValueError, KeyError, TypeError) as error:
        raise WorkloadFailedError(f"{command_text(command)}: {error}") from error
    return sources


def show_doctor(*, as_json: bool, runs: Path = Path("runs")) -> int:
    """Print the diagnosis; 0 when benchmarks can run here, 3 where an executable is missing."""
    put_back()
    executables, sources = _executables(), _sources()
    capabilities = diagnose(sources=sources, runs=runs)
    if as_json:
        print_json(Diagnosis(executables, capabilities, sources))
    else:
        from steelyard.report.machine.doctor import answer

        lacks = [f"{one.name} is missing: {one.hint}" for one in executables if one.path is None]
        show_answer(answer(capabilities, lacks=lacks), None)
    complete = all(program.path for program in executables)
    return int(ExitCode.OK if complete else ExitCode.ENVIRONMENT)
