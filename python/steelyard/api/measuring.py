"""``run``, ``run_experiment`` and ``this_machine``: what measures.

In: a benchmark or a suite, and options as on the command line. Out: the record that was written, read again.
Progress goes to standard error, as a command's does.

``run_experiment`` and ``this_machine`` have names of two words because ``steelyard.experiment`` and
``steelyard.machine`` are packages. Not here: how runs are made (``bench``, ``experiment``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import SteelyardError, UsageError
from steelyard.api.calls import brief, checked, in_python
from steelyard.api.reading import Reading, read
from steelyard.api.requests import request_of, with_options
from steelyard.api.result import Result
from steelyard.experiment.request.fields import ExperimentRequest

if TYPE_CHECKING:
    from steelyard.records import Machine

_NAMES = {
    "--tier": "tier",
    "--set": "settings",
    "--hook": "hooks",
    "--repeat": "repeat",
    "--tag": "tags",
    "--out": "out",
}
"""Options of `run` by their flags."""
_LEFT = ("words", "resume", "plan", "source", "variants")


@checked
def run(
    name: str,
    *,
    tier: str | None = None,
    settings: Mapping[str, object] | None = None,
    hooks: Sequence[str] = (),
    repeat: int = 1,
    tags: Sequence[str] = (),
    out: str | os.PathLike[str] = "runs",
) -> Reading:
    """Run a benchmark, or each of a suite; return what its folder holds.

    ``settings`` are its parameters by name, ``tier`` is how long it runs (smoke, quick, standard, full), and
    ``out`` is the folder of runs, in which each gets a new one. Of ``repeat`` runs of a benchmark, the first
    is returned: its answer has all. ``tags`` are written into each run. Progress goes to standard error.

    Raises UsageError for names and settings that do not fit, EnvironmentLacksError where this machine lacks
    something, WorkloadFailedError where the run failed.
    """
    from steelyard.bench.launch import execute
    from steelyard.bench.request import RunRequest
    from steelyard.cli.progress import shown
    from steelyard.cli.run.make import errors_of

    chosen = {str(key): _typed(value) for key, value in (settings or {}).items()}
    request = RunRequest(
        name=name,
        tier=tier,
        chosen=chosen,
        hooks=_texts(hooks),
        repeat=repeat,
        tags=_texts(tags),
        out=Path(out),
    )
    try:
        with shown() as progress:
            launched = execute(request, progress=progress)
    except SteelyardError as error:
        raise in_python(error, _NAMES) from error
    errors = errors_of(launched)
    if errors:
        raise errors[0]
    return read(launched.suite or launched.attempts[0].directory)


@with_options(lambda: ExperimentRequest, without=_LEFT)
def run_experiment(*words: str, **options: Any) -> Reading:
    """Compare variants of a benchmark or of commands in interleaved trials until the difference is known.

    ``words`` are a benchmark, an experiment in a file, or a command with places for the levels of a sweep.

    Raises UsageError for what does not fit, WorkloadFailedError where an arm gave no value.
    """
    from steelyard.cli.experiment.make import made
    from steelyard.experiment.request.file import read_file

    request = request_of(ExperimentRequest, {"words": list(words), **options}, without=_LEFT[1:])
    if len(request.words) == 1 and request.words[0].endswith(".toml"):
        request = read_file(Path(request.words[0]), request)
    folder, _, error = made(request)
    if error is not None:
        raise error
    return read(folder)


@checked
def this_machine() -> Result[Machine]:
    """Return the inventory of this machine: processors, memory, NUMA, disks, network, kernel, firmware."""
    from steelyard.cli.machine.inventory import find
    from steelyard.machine.sources import LIVE
    from steelyard.report.machine.views import machine_answer

    machine = find(LIVE, Path("runs"))
    return Result(machine, machine_answer(machine))


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _typed(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise UsageError(
        f"{brief(value)} is no value of a setting", hint="give a text, a number or a truth value"
    )
