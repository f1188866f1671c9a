"""Going on with a suite that was interrupted: which runs stay, which are made again.

In: the directory of a suite, this machine, the settings that its members would have now. Out: a `Resumption`.

Invariants: a run that came to a result stays untouched; the suite goes on only on the same machine, in the
same version and with the same settings, so that its members can stand in one report; a run that was cut off
moves to ``interrupted/`` in the suite's directory, with its logs.

Not here: running (``launch``), and the manifest (``suite``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import steelyard
from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError, command_text
from steelyard.bench.parameters import Settings
from steelyard.bench.suites import suite as suite_files
from steelyard.machine.compare import other_machine
from steelyard.records import Cpus, Machine, Run, RunStatus, Suite, read

INTERRUPTED = "interrupted"
SEED = "seed"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a member would run with now."""

    settings: Settings
    cpus: Cpus


@dataclass(frozen=True, slots=True)
class Resumption:
    """A suite that may go on."""

    directory: Path
    suite: Suite
    kept: list[tuple[Path, Run]]
    """Runs with a result, in the order in which they were made."""
    again: list[Path]
    """Directories of runs without one."""
    seeds: Mapping[str, int]
    """Seed of the first run of each member that had begun."""

    def has(self, benchmark: str, index: int) -> bool:
        """Return whether this repeat of a member has its result."""
        return any(run.benchmark == benchmark and run.series.index == index for _, run in self.kept)

    def set_aside(self) -> None:
        """Move the runs without a result. Raises EnvironmentLacksError where that cannot be done."""
        folder = self.directory / INTERRUPTED
        try:
            for path in self.again:
                folder.mkdir(exist_ok=True)
                path.rename(folder / path.name)
        except OSError as error:
            raise EnvironmentLacksError(f"{folder}: cannot be written: {error.strerror}") from error


def interrupted_suite(directory: Path) -> Suite:
    """Return the suite in ``directory``. Raises UsageError unless it was interrupted."""
    if not suite_files.is_suite(directory):
        raise UsageError(f"{directory} is no suite", hint="only suites are resumed; run a benchmark again")
    suite, _ = suite_files.load(directory)
    if suite.status is RunStatus.RUNNING:
        raise UsageError(f"{directory.name} is still running, in process {suite.orchestrator.pid}")
    if suite.status is RunStatus.COMPLETE:
        raise UsageError(
            f"{directory.name} is complete",
            hint=f"{command_text(['steelyard', 'report', directory.name])} shows it",
        )
    return suite


def open_suite(directory: Path, machine: Machine, expected: Mapping[str, Expected]) -> Resumption:
    """Return what of the suite in ``directory`` stays.

    Raises UsageError, with the first reason, where its results and new ones are not of one kind.
    """
    suite = interrupted_suite(directory)
    _, runs = suite_files.load(directory)
    if suite.steelyard_version != steelyard.__version__:
        raise _refused(
            directory, f"it ran with Steelyard {suite.steelyard_version}, this is {steelyard.__version__}"
        )
    kept = [(folder, run) for folder, run in runs if run.status is RunStatus.COMPLETE]
    for folder, run in kept:
        here = expected.get(run.benchmark)
        if here is None:
            raise _refused(directory, f"it has a result of {run.benchmark}, which is no member now")
        difference = _other_machine(folder, machine) or _other_settings(run, here)
        if difference is not None:
            raise _refused(directory, f"{run.benchmark} {difference}")
    again = [folder for folder, run in runs if run.status is not RunStatus.COMPLETE]
    return Resumption(directory, suite, kept, again, _first_seeds(run for _, run in runs))


def _refused(directory: Path, why: str) -> UsageError:
    return UsageError(f"{directory.name} cannot be resumed: {why}", hint="run the suite anew")


def _other_machine(folder: Path, machine: Machine) -> str | None:
    try:
        then = read(Machine, folder / "machine.json")
    except SteelyardError as error:
        return f"ran on an unknown machine: {error.message}"
    difference = other_machine(then, machine)
    return None if difference is None else f"ran on another machine: {difference}"


def _other_settings(run: Run, here: Expected) -> str | None:
    for name, value in here.settings.items():
        if name == SEED and here.settings.source(name) != "set":
            continue
        then = run.parameters.get(name)
        if then is None or then.value != value:
            was = "without it" if then is None else f"{name}={then.value}"
            return f"ran with {was}, and now has {name}={value}"
    if run.cpus != here.cpus:
        return "ran on other CPUs than it would now"
    return None


def _first_seeds(runs: Iterable[Run]) -> dict[str, int]:
    """Return the seeds from which those of the repeats follow."""
    return {
        run.benchmark: int(str(run.parameters[SEED].value))
        for run in runs
        if run.series.index == 1 and SEED in run.parameters
    }
