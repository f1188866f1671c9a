"""A scaling curve as an experiment: its factor is the CPUs of a trial.

In: the record of an experiment whose arms have CPUs, and its folder. Out: the steps of the curve, and the
profiles of its ends.

Runs of a benchmark have profiles already; a command is run once more on the fewest and on the most CPUs, with
its stacks sampled, so that sampling is no part of the curve.

Not here: trials (``engine``, ``workload``), what the curve means (``analyze.scaling``).
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from steelyard._base import RecordError, ResultSaysNoError, SteelyardError, parse_cpu_list
from steelyard._base.documents import INLINE
from steelyard.analyze.profiles.callers import by_caller
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.hot_functions import FunctionShares
from steelyard.analyze.run_files import PROFILES
from steelyard.analyze.scaling.curve import Observation, Place, Step, steps_of
from steelyard.analyze.scaling.machine import topology_of_places
from steelyard.analyze.scaling.measured import in_base_units
from steelyard.analyze.scaling.scaling import Scaling, analyse
from steelyard.bench.recorders import stacks
from steelyard.experiment.engine import MACHINE
from steelyard.experiment.workload import LOGS, RUNS, Commands
from steelyard.records import RunStatus, read
from steelyard.records.experiment import Experiment, ExperimentArm
from steelyard.records.machine import Machine
from steelyard.stats.scaling.choice import Topology
from steelyard.stats.scaling.prediction import SiblingWorth

FACTOR = "cpus"
_HZ = 499
"""Samples a second and CPU: commands may be short."""


def steps_of_experiment(experiment: Experiment) -> tuple[Step, ...]:
    """Return the steps as far as they were tried.

    Raises ResultSaysNoError for a metric that is no rate, RecordError for arms that are no numbers of CPUs.
    """
    if odd := [arm.name for arm in experiment.arms if not re.fullmatch(r"[1-9]\d{0,6}", arm.name, re.ASCII)]:
        raise RecordError(f"{experiment.experiment_id}: the arm {odd[0][:40]!r} is no number of CPUs")
    places = _places(experiment)
    metric = experiment.metric
    if metric.better == "lower" and metric.unit not in ("s", ""):
        raise ResultSaysNoError(
            f"{metric.name} is no throughput: less of it is better, and it is no time",
            hint="choose another with --metric",
        )
    observations = []
    asked = {reading.name for reading in experiment.readings}
    for trial in experiment.trials:
        rate = trial.value
        reason = trial.reason
        if rate is not None and rate <= 0:
            rate, reason = None, f"{metric.name} is {rate:g}: a curve needs a positive number"
        elif rate is not None and metric.better == "lower":
            # A time for the same work.
            rate = 1 / rate
        readings = in_base_units(trial.readings, asked)
        observations.append(Observation(int(trial.arm), trial.block, rate, reason, readings, trial.missing))
    return steps_of(observations, places)


def _places(experiment: Experiment) -> dict[int, Place]:
    return {
        int(arm.name): Place(arm.cpus.listed, arm.cpus.shares_cores, arm.cpus.nodes)
        for arm in experiment.arms
        if arm.cpus is not None
    }


def topology_of_experiment(experiment: Experiment, folder: Path) -> Topology:
    """Return where cores, nodes and siblings end, as far as the steps and the record of the machine say."""
    places = _places(experiment)
    try:
        machine = read(Machine, folder / MACHINE)
    except SteelyardError:
        return topology_of_places(places, None, None)
    cpu = machine.cpu
    if cpu.usable_cpus != cpu.logical_cpus or cpu.quota_cpus is not None:
        # Which cores could be used is not in the record.
        return topology_of_places(places, None, cpu.threads_per_core)
    found = topology_of_places(places, cpu.cores, cpu.threads_per_core)
    sizes = {len(parse_cpu_list(node.cpus) or ()) for node in machine.numa_nodes if node.cpus}
    count = sum(1 for node in machine.numa_nodes if node.cpus)
    ends = found.node_ends
    if len(sizes) == 1 and found.cores is not None:
        ends = tuple(found.cores * node // count for node in range(1, count))
    return Topology(cpu.logical_cpus, found.cores, found.threads_per_core, ends)


def profile_path(folder: Path, arm: ExperimentArm) -> Path:
    """Return where the profile of a command on the CPUs of an arm is."""
    return folder / f"profile-{arm.name}.folded"


def profile_ends(experiment: Experiment, folder: Path, commands: Commands) -> str | None:
    """Run the command on the fewest and on the most CPUs with its stacks sampled; return why that failed."""
    for arm in (experiment.arms[0], experiment.arms[-1]):
        path = profile_path(folder, arm)
        if path.exists():
            continue
        partial = path.with_suffix(".partial")
        try:
            files = stacks.files_at(folder, folded=partial.name)
            command = stacks.sampling_command([], hz=_HZ, call_graph=_call_graph(), files=files)
        except SteelyardError as error:
            return error.message
        try:
            took = commands.run(
                arm, [*command, "--", *arm.command], folder / LOGS / f"profile-{arm.name}.log"
            )
            if isinstance(took, str) or not partial.exists():
                return f"stacks were not sampled: {took if isinstance(took, str) else 'there is no profile'}"
            partial.rename(path)
        finally:
            # A profiler that was stopped writes what it has.
            partial.unlink(missing_ok=True)
    return None


def _call_graph() -> str:
    """Return how stacks are unwound: the C library has no frame pointers, and its locks would hide who takes
    them.
    """
    return "dwarf" if platform.machine() in ("x86_64", "aarch64") else "fp"


def profiles_of_ends(experiment: Experiment, folder: Path) -> tuple[FunctionShares, FunctionShares] | str:
    """Return the functions that ran at both ends of the curve, or why they are not known."""
    ends: list[Counter[str]] = []
    for arm in (experiment.arms[0], experiment.arms[-1]):
        paths = [profile_path(folder, arm)]
        if experiment.benchmark is not None:
            runs = [trial.run_id for trial in experiment.trials if trial.arm == arm.name and trial.run_id]
            paths = [folder / RUNS / run / PROFILES["server"] for run in runs]
        samples: Counter[str] = Counter()
        event = "samples"
        for path in paths:
            if path.exists():
                try:
                    profile = read_folded(path)
                except RecordError as error:
                    return error.message
                event = profile.facts.get("event", event)
                samples.update(by_caller(profile))
        if not samples:
            return f"no stacks were sampled at the step of {arm.name}"
        ends.append(samples)
    low, high = (FunctionShares.of_samples(counts, event) for counts in of_both(*ends))
    return low, high


def scaling_of(
    experiment: Experiment,
    folder: Path,
    *,
    topology: Topology | None = None,
    profiles: tuple[FunctionShares, FunctionShares] | None = None,
    predict: Sequence[int] = (),
    worth: SiblingWorth | None = None,
) -> Scaling:
    """Return what the curve of an experiment says; ``profiles`` stand for those of its ends.

    Raises ResultSaysNoError and RecordError as `steps_of_experiment` does.
    """
    found = profiles or profiles_of_ends(experiment, folder)
    low, high = (None, None) if isinstance(found, str) else found
    return analyse(
        steps_of_experiment(experiment),
        low=low,
        high=high,
        profiles_missing=found if isinstance(found, str) else "",
        notes=experiment.notes,
        topology=topology or topology_of_experiment(experiment, folder),
        predict=predict,
        worth=worth,
    )


def of_both(first: Mapping[str, int], second: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return samples by function with those of the other profile, of which a whole profile has 0."""
    names = {*first, *second}
    return {name: first.get(name, 0) for name in names}, {name: second.get(name, 0) for name in names}


@dataclass(frozen=True, slots=True)
class ScalingAnswer:
    """A scaling curve and what it says: `steelyard scale --json`."""

    KIND: ClassVar[str] = "scaling"

    source: str
    """Folder of the experiment, or file that was measured elsewhere."""
    benchmark: str | None
    """Benchmark of the trials, None for commands and files."""
    metric: str
    """What throughput is counted by."""
    status: RunStatus
    """Status of the experiment; `complete` for a file."""
    status_reason: str | None
    """Why it is incomplete."""
    scaling: Scaling = field(metadata=INLINE)

    @classmethod
    def of(cls, source: str, scaling: Scaling, experiment: Experiment | None) -> ScalingAnswer:
        """Return the answer of an experiment; without one, of a file."""
        if experiment is None:
            return cls(source, None, "ops_per_s", RunStatus.COMPLETE, None, scaling)
        status = experiment.status, experiment.status_reason
        return cls(source, experiment.benchmark, experiment.metric.name, *status, scaling)
