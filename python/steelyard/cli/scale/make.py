"""``steelyard scale``: makes a scaling curve, goes on with one, or shows one that was measured elsewhere.

In: a request. Out: a table or one JSON document, the record in its folder. Not here: trials
(``steelyard.experiment``), what a curve means (``analyze.scaling``), drawing (``report.scale``).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard import machine as machines
from steelyard._base import (
    RecordError,
    UsageError,
    command_text,
    read_regular,
    text_of,
)
from steelyard._base.documents import Paged
from steelyard._base.request import resumed
from steelyard.analyze.profiles.callers import by_caller
from steelyard.analyze.profiles.hot_functions import FunctionShares
from steelyard.analyze.profiles.perf_report import PerfReport, parse_perf_report
from steelyard.analyze.scaling.curve import steps_of
from steelyard.analyze.scaling.machine import topology_of, worth_given, worth_of
from steelyard.analyze.scaling.measured import parse_curve
from steelyard.analyze.scaling.scaling import Scaling, analyse
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.placement.request import live_layout
from steelyard.bench.placement.steps import topology_of_layout
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment.make import carry_out, code_of, put_back
from steelyard.cli.output import page_of, print_json, print_path, show_answer
from steelyard.cli.profile.reading import read_profile
from steelyard.experiment import engine
from steelyard.experiment.counting import CommandCounts
from steelyard.experiment.design import is_curve
from steelyard.experiment.request.curve import begin, check
from steelyard.experiment.request.fields import CurveRequest
from steelyard.experiment.scaling import (
    ScalingAnswer,
    of_both,
    profile_ends,
    scaling_of,
    steps_of_experiment,
)
from steelyard.experiment.workload import BenchmarkRuns, Commands, Workload
from steelyard.records import RunStatus, write
from steelyard.records.experiment import Experiment
from steelyard.stats.scaling.choice import Topology
from steelyard.stats.scaling.prediction import SiblingWorth

_CURVE_BYTES = 64 << 20
_REPORT_BYTES = 256 << 20


@dataclass(frozen=True)
class Asked:
    """What is to be said of a curve beside its steps."""

    profiles: tuple[FunctionShares, FunctionShares] | None
    predict: Sequence[int]
    worth: SiblingWorth | None


RESUME = ("steelyard", "scale", "--resume")
"""The command that goes on with a curve, without its folder."""


def scale_and_show(
    request: CurveRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Make, resume or show a curve; ``given`` are the fields that were typed. Return the exit code."""
    check(request)
    asked = Asked(_given(request), sorted(set(request.predict)), _worth(request))
    if request.source is not None:
        text = _text(request.source, _CURVE_BYTES)
        observations = parse_curve(text, name=str(request.source))
        low, high = asked.profiles or (None, None)
        scaling = analyse(
            steps_of(observations),
            low=low,
            high=high,
            profiles_missing="no profiles of both ends were given",
            topology=topology_of(observations),
            predict=asked.predict,
            worth=asked.worth,
        )
        return _show(Shown(str(request.source), scaling), report, as_json=as_json)
    folder = Path(request.words[0]) if len(request.words) == 1 else None
    topology = None
    if request.resume is not None:
        folder = request.resume
        put_back()
        experiment = engine.load_to_resume(folder, machines.snapshot())
        request = resumed(experiment.request, request, given, words=[*RESUME, str(folder)])
        _check_curve(folder, experiment)
    elif folder is not None and (folder / engine.MANIFEST).exists():
        experiment = engine.load(folder)
        _check_curve(folder, experiment)
        return _show_experiment(folder, experiment, asked, report, as_json=as_json)
    else:
        put_back()
        experiment = begin(request)
        topology = topology_of_layout(live_layout())
        folder = make_run_folder(request.out, "scale", SystemClock())
        experiment = experiment.model_copy(update={"experiment_id": folder.name})
    interrupts = Interrupts()
    workload = _workload(experiment, folder, interrupts)
    experiment, error = carry_out(folder, experiment, workload, interrupts, status_of=_so_far)
    if isinstance(workload, Commands) and request.profile and experiment.status is RunStatus.COMPLETE:
        with interrupts.caught():
            experiment = _profiled(experiment, folder, workload)
    code = _show_experiment(folder, experiment, asked, report, topology, as_json=as_json)
    return code_of(folder, experiment, error, code, resume=RESUME)


def _workload(experiment: Experiment, folder: Path, interrupts: Interrupts) -> Workload:
    if experiment.benchmark is None:
        return Commands(
            metric=experiment.metric,
            directory=folder,
            timeout_s=experiment.plan.timeout_s,
            clock=SystemClock(),
            interrupts=interrupts,
            readings=experiment.readings,
            counts=CommandCounts.prepare(folder),
        )
    return BenchmarkRuns(
        benchmark=experiment.benchmark,
        tier=experiment.tier or "quick",
        metric=experiment.metric.name,
        directory=folder,
        seed=experiment.plan.seed,
        clock=SystemClock(),
        interrupts=interrupts,
        hooks=tuple(experiment.hooks),
        has_readings=True,
    )


def _profiled(experiment: Experiment, folder: Path, commands: Commands) -> Experiment:
    """Sample stacks at both ends; a reason why not becomes a note."""
    reason = profile_ends(experiment, folder, commands)
    if reason is None:
        return experiment
    experiment = experiment.model_copy(update={"notes": [*experiment.notes, reason]})
    write(experiment, folder / engine.MANIFEST)
    return experiment


def _check_curve(folder: Path, experiment: Experiment) -> None:
    if not is_curve(experiment):
        raise UsageError(
            f"{folder} is no scaling curve",
            hint=f"show it: {command_text(['steelyard', 'experiment', folder])}",
        )


def _so_far(experiment: Experiment) -> dict[str, str]:
    from steelyard.report import format as fmt

    steps = [step for step in steps_of_experiment(experiment) if step.ops_per_s is not None]
    return {fmt.several(step.cpus, step.noun): fmt.quantity(step.ops_per_s, "1/s") for step in steps[-1:]}


def _given(request: CurveRequest) -> tuple[FunctionShares, FunctionShares] | None:
    """Return the profiles that were measured elsewhere."""
    low, high = request.profile_low, request.profile_high
    if low is None or high is None:
        return None
    first, second = _profile(low), _profile(high)
    if isinstance(first, dict) and isinstance(second, dict):
        first, second = of_both(first, second)
    shares = [
        FunctionShares.of_report(one) if isinstance(one, PerfReport) else FunctionShares.of_samples(one)
        for one in (first, second)
    ]
    return shares[0], shares[1]


def _worth(request: CurveRequest) -> SiblingWorth | None:
    """Return what siblings are worth on another machine."""
    if request.sibling_worth is None and not request.siblings_of:
        return None
    if request.sibling_worth is not None:
        return worth_given(request.sibling_worth)
    return worth_of(
        {str(path): parse_curve(_text(path, _CURVE_BYTES), name=str(path)) for path in request.siblings_of}
    )


def _profile(path: Path) -> PerfReport | dict[str, int]:
    """Read what ``perf report`` printed, or the samples by function of a profile in any other form."""
    if path.is_file():
        reports = parse_perf_report(_text(path, _REPORT_BYTES))
        if reports:
            return max(reports, key=lambda report: len(report.rows))
    try:
        return by_caller(read_profile(path))
    except RecordError as error:
        raise UsageError(error.message, hint="perf report --stdio, folded stacks or perf.data") from error


def _text(path: Path, most_bytes: int) -> str:
    try:
        return text_of(read_regular(path, at_most_bytes=most_bytes), str(path), errors="replace")
    except RecordError as error:
        raise UsageError(error.message) from error


@dataclass(frozen=True)
class Shown:
    """A curve to show."""

    source: str
    scaling: Scaling
    experiment: Experiment | None = None


def _show_experiment(
    folder: Path,
    experiment: Experiment,
    asked: Asked,
    report: Path | None,
    topology: Topology | None = None,
    *,
    as_json: bool,
) -> int:
    scaling = scaling_of(
        experiment,
        folder,
        topology=topology,
        profiles=asked.profiles,
        predict=asked.predict,
        worth=asked.worth,
    )
    return _show(Shown(str(folder), scaling, experiment), report, as_json=as_json)


def _show(shown: Shown, report: Path | None, *, as_json: bool) -> int:
    from steelyard.report.scale.answer import answer

    scaling, experiment = shown.scaling, shown.experiment
    made = answer(scaling, source=shown.source, experiment=experiment)
    if as_json:
        page = page_of(made, report)
        print_json(Paged(ScalingAnswer.of(shown.source, scaling, experiment), page))
        return int(made.says_no)
    code = show_answer(made, report)
    if experiment is not None:
        print_path("record", Path(shown.source) / engine.MANIFEST)
    return code
