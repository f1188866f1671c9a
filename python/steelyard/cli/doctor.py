"""``steelyard doctor``: what this machine can and cannot measure, why, and how to enable it."""

import json
import subprocess
import sys
from typing import Any

from steelyard._base import EnvironmentLacksError, ExitCode, WorkloadFailedError, executable
from steelyard.cli.output import print_json

EXECUTABLES = ("steelyard-cache", "steelyard-exec", "steelyard-load", "steelyard-probe")
_TIMEOUT_S = 30.0


def _executables() -> list[dict[str, Any]]:
    found = []
    for name in EXECUTABLES:
        try:
            found.append({"name": name, "path": str(executable(name)), "hint": None})
        except EnvironmentLacksError as error:
            found.append({"name": name, "path": None, "hint": error.hint})
    return found


def _sources() -> Any:
    """Return what the probe says about its sources."""
    command = [str(executable("steelyard-probe")), "sources", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=True)
        return json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        raise WorkloadFailedError(f"{' '.join(command)}: {error}") from error


def show_doctor(*, as_json: bool) -> int:
    """Print the diagnosis; 0 when benchmarks can run here, 3 otherwise."""
    executables = _executables()
    complete = all(one["path"] for one in executables)
    document = {"executables": executables, "sources": _sources() if complete else None}
    if as_json:
        print_json(document)
    else:
        print(json.dumps(document, indent=1), file=sys.stdout)
    return int(ExitCode.OK if complete else ExitCode.ENVIRONMENT)
