"""The profile of a run, for the tools of others.

In: a run, and a side of it where servers and load were sampled apart. Out: the profile, or an error that says
why there is none.

Not here: the formats (``report.profiles``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard._base import ResultSaysNoError, UsageError, read_regular
from steelyard.analyze.profiles.figures import read_profile
from steelyard.analyze.profiles.profile import Profile
from steelyard.analyze.run_files import PROFILE, PROFILES
from steelyard.report.exports.runs import ExportedRun
from steelyard.report.profiles.pprof import pprof

_PPROF = "profile"
"""The role under which a run's manifest names the file of pprof that the sampler wrote."""


def only_run(runs: Sequence[ExportedRun]) -> ExportedRun:
    """Return the one run among ``runs``. Raises UsageError for several: their programs differ."""
    if len(runs) > 1:
        names = ", ".join(str(one.folder) for one in runs[:4])
        raise UsageError(f"{len(runs)} runs, and a profile is of one", hint=f"name one of them: {names}")
    return runs[0]


def profile_of(one: ExportedRun, side: str) -> Profile:
    """Return the profile of a side of a run. Raises ResultSaysNoError where it has none."""
    hook = one.run.hooks.get(PROFILE)
    missing = hook.get("missing") if isinstance(hook, dict) else None
    found = read_profile(one.folder, missing if isinstance(missing, str) else None, name=PROFILES[side])
    if found.profile is None:
        raise ResultSaysNoError(
            f"{one.run.run_id}: no profile of the {side}: {found.missing}",
            hint="steelyard doctor says whether this machine can sample stacks",
        )
    return found.profile


def pprof_of(one: ExportedRun, side: str) -> bytes:
    """Return the same as pprof, with addresses where the sampler wrote it itself."""
    profile = profile_of(one, side)
    name = one.run.artifacts.get(_PPROF, "")
    if side == "server" and name.endswith(".pb.gz") and "/" not in name:
        return read_regular(one.folder / name)
    programs = [
        Path(process.command[0]).name
        for process in one.run.processes
        if process.command and process.name.startswith(side)
    ]
    return pprof(profile, programs, begin_ns=one.begin_ns, duration_ns=one.end_ns - one.begin_ns)
