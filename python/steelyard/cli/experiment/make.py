"""``steelyard experiment``: makes one, goes on with one, or shows one.

In: a request. Out: a table or one JSON document, the record in its folder. Not here: trials
(``steelyard.experiment``), drawing (``report.experiment``).
"""

import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from steelyard import machine as machines
from steelyard._base import ExitCode, UsageError, WorkloadFailedError, command_text
from steelyard._base.documents import Paged
from steelyard._base.request import resumed
from steelyard.bench import declaration, undo
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.progress import Progress
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment.plan import forecast_text, show_pilot, show_plan
from steelyard.cli.output import complain, page_of, print_json, print_path, show_answer
from steelyard.cli.progress import shown
from steelyard.experiment import engine
from steelyard.experiment.answers import answers, blocks_of_answer, factor_answers
from steelyard.experiment.counting import CommandCounts
from steelyard.experiment.design import is_curve
from steelyard.experiment.numa.design import is_numa
from steelyard.experiment.power import forecast
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.file import read_file
from steelyard.experiment.request.record import begin, pilot_of, read_elsewhere
from steelyard.experiment.response import is_sweep, is_tail, response
from steelyard.experiment.results import ExperimentAnswer
from steelyard.experiment.workload import BenchmarkRuns, Commands, Workload
from steelyard.machine.features import has_hardware_counters
from steelyard.records import RunStatus, write
from steelyard.records.experiment import Experiment

_BLOCKS_OF_FORECAST = 6


RESUME = ("steelyard", "experiment", "--resume")
"""The command that goes on with an experiment, without its folder."""


def experiment_and_show(
    request: ExperimentRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Make, resume or show an experiment; ``given`` are the fields that were typed. Return the exit code."""
    if request.pilot is not None and (request.plan or request.source or request.resume):
        raise UsageError(
            "--pilot is for an experiment that has not begun: it takes no --plan, --from or --resume"
        )
    if request.plan and (request.source is not None or request.resume is not None):
        raise UsageError("--plan is for an experiment that has not begun: it takes no --from or --resume")
    if request.source is not None:
        return show_experiment(None, read_elsewhere(request), report, as_json=as_json)
    if len(request.words) == 1 and request.words[0].endswith(".toml"):
        request = read_file(Path(request.words[0]), request)
    folder = Path(request.words[0]) if len(request.words) == 1 else None
    if request.resume is not None:
        folder = request.resume
        put_back()
        experiment = engine.load_to_resume(folder, machines.snapshot())
        _check_own(folder, experiment)
        resumed(experiment.request, request, given, words=[*RESUME, str(folder)])
    elif folder is not None and (folder / engine.MANIFEST).exists():
        return show_experiment(folder, engine.load(folder), report, as_json=as_json)
    elif request.plan:
        return show_plan(begin(request), request.out, as_json=as_json)
    else:
        folder, experiment = _begun(request)
    experiment, error = _made(folder, experiment)
    code = show_experiment(folder, experiment, report, as_json=as_json)
    return code_of(folder, experiment, error, code, resume=RESUME)


def made(request: ExperimentRequest) -> tuple[Path, Experiment, WorkloadFailedError | None]:
    """Make a new experiment; return its folder, its record, and why an arm gave no value."""
    folder, experiment = _begun(request)
    return (folder, *_made(folder, experiment))


def _begun(request: ExperimentRequest) -> tuple[Path, Experiment]:
    put_back()
    experiment = begin(request)
    if request.pilot is not None:
        experiment = pilot_of(experiment, request.pilot)
    folder = make_run_folder(request.out, f"experiment-{experiment.factor[:20]}", SystemClock())
    return folder, experiment.model_copy(update={"experiment_id": folder.name})


def _made(folder: Path, experiment: Experiment) -> tuple[Experiment, WorkloadFailedError | None]:
    workload = _workload(experiment, folder, interrupts := Interrupts())
    with _service(experiment):
        return carry_out(folder, experiment, workload, interrupts)


def _check_own(folder: Path, experiment: Experiment) -> None:
    """Raise UsageError for an experiment that another command makes, which alone can go on with it."""
    if is_curve(experiment):
        again = command_text(["steelyard", "scale", "--resume", folder])
        raise UsageError(f"{folder} is a scaling curve", hint=f"{again} goes on")
    if is_numa(experiment):
        again = command_text(["steelyard", "numa", "experiment", "--resume", folder])
        raise UsageError(f"{folder} is a NUMA experiment", hint=f"{again} goes on")
    if any(arm.knobs for arm in experiment.arms):
        raise UsageError(f"{folder} is the sweep of a knob, which does not go on", hint="begin it again")


def put_back() -> None:
    """Undo what a killed run left behind: it would be measured, and taken for the machine as it is."""
    for line in undo.replay():
        print(f"steelyard: {line}", file=sys.stderr)


def carry_out(
    folder: Path,
    experiment: Experiment,
    workload: Workload,
    interrupts: Interrupts,
    *,
    status_of: Callable[[Experiment], dict[str, str]] | None = None,
) -> tuple[Experiment, WorkloadFailedError | None]:
    """Make the trials that are missing; return the record, and why an arm gave no value.

    ``status_of`` says what is known so far.
    """
    error: WorkloadFailedError | None = None
    if not (folder / engine.MACHINE).exists():
        write(machines.snapshot(), folder / engine.MACHINE)
    with interrupts.caught(), shown() as progress:

        def tell(experiment: Experiment) -> None:
            progress.status((status_of or so_far)(experiment))
            if status_of is None and not is_numa(experiment) and experiment.pilot is None:
                _forecast(progress, experiment)

        made = engine.Engine(
            folder,
            experiment,
            workload,
            clock=SystemClock(),
            progress=progress,
            interrupts=interrupts,
            on_progress=tell,
            together=_together(experiment, folder, interrupts),
        )
        try:
            made.run()
        except WorkloadFailedError as failed:
            error = failed
    return made.experiment, error


def code_of(
    folder: Path,
    experiment: Experiment,
    error: WorkloadFailedError | None,
    code: int,
    *,
    resume: Sequence[str],
) -> int:
    """Return the exit code of an experiment that was shown with ``code``; tell of one that was cut short."""
    if error is not None:
        complain(error)
        return int(ExitCode.FAILED)
    if experiment.status is RunStatus.INCOMPLETE:
        reason = experiment.status_reason
        complain(
            WorkloadFailedError(f"experiment {reason}", hint=f"{command_text([*resume, folder])} goes on")
        )
        return int(ExitCode.FAILED)
    return code


def _together(experiment: Experiment, folder: Path, interrupts: Interrupts) -> engine.Together | None:
    """Return what makes the trials of a block at once, None where they are made here in turn."""
    if not experiment.hosts:
        return None
    from steelyard.experiment.hosts import HostTrials

    return HostTrials(experiment, folder, SystemClock(), interrupts)


def _service(experiment: Experiment) -> AbstractContextManager[None]:
    """Return what puts a running service back in the state of the first arm."""
    if experiment.live is None:
        return nullcontext()
    from steelyard.experiment.live import variants_in_place

    return variants_in_place(experiment, lambda text: print(f"steelyard: {text}", file=sys.stderr))


def _workload(experiment: Experiment, folder: Path, interrupts: Interrupts) -> Workload:
    if experiment.live is not None:
        from steelyard.experiment.live import LiveTrials

        return LiveTrials(experiment, folder, SystemClock(), interrupts)
    guards = tuple(experiment.plan.guards)
    if experiment.benchmark is None:
        timeout_s = experiment.plan.timeout_s
        readings = tuple(experiment.readings)
        return Commands(
            experiment.metric,
            folder,
            timeout_s,
            SystemClock(),
            interrupts,
            readings,
            counts_of_sweep(experiment, folder),
            guards=guards,
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
        others=_others(experiment),
        has_readings=has_counters_of_sweep(experiment),
    )


def counts_of_sweep(experiment: Experiment, folder: Path) -> CommandCounts | None:
    """Return what counts beside commands, None where arms are no curve or the host has no counters."""
    return CommandCounts.prepare(folder, has_metrics=True) if has_counters_of_sweep(experiment) else None


def has_counters_of_sweep(experiment: Experiment) -> bool:
    """Whether arms are points of a curve, and the host counts what can stand beside it."""
    return is_sweep(experiment) and bool(has_hardware_counters(machines.snapshot()))


def _others(experiment: Experiment) -> tuple[str, ...]:
    """Return the metrics that are kept beside the one that is compared: of guardrails, and p99."""
    headline = declaration.find(experiment.benchmark).headline if experiment.benchmark else ()
    names = [*(guard.name for guard in experiment.plan.guards), *filter(is_tail, headline)]
    return tuple(dict.fromkeys(name for name in names if name != experiment.metric.name))


def _forecast(progress: Progress, experiment: Experiment) -> None:
    """Tell how many blocks the noise asks for, once it is known."""
    made = experiment.trials[-1].block + 1
    if made == _BLOCKS_OF_FORECAST * blocks_of_answer(experiment):
        text = forecast_text(experiment, forecast(experiment, [experiment]))
        progress.note(f"after {made} blocks: {text}")


def so_far(experiment: Experiment) -> dict[str, str]:
    """Return what is known of each arm, for the line of progress."""
    from steelyard.report.experiment.words import ratio_text

    return {answer.arm: ratio_text(answer) for answer in answers(experiment, is_over=False)}


def show_experiment(
    folder: Path | None, experiment: Experiment, report: Path | None, *, as_json: bool
) -> int:
    """Show what an experiment says; return the exit code."""
    from steelyard.report.experiment.answer import answer

    if is_numa(experiment):
        from steelyard.cli.experiment.scenarios import show

        return show(folder, experiment, report, as_json=as_json)
    if experiment.pilot is not None:
        if report is not None:
            raise UsageError("--report is for answers, and a pilot has none")
        return show_pilot(folder, experiment, as_json=as_json)
    found = answers(experiment, is_over=experiment.status is RunStatus.COMPLETE)
    curve = response(experiment)
    by_factor = factor_answers(experiment, is_over=experiment.status is RunStatus.COMPLETE)
    made = answer(experiment, found, curve, by_factor)
    if as_json:
        page = page_of(made, report)
        result = ExperimentAnswer.of(experiment, folder, found, curve, by_factor)
        print_json(Paged(result, page))
        return int(made.says_no)
    code = show_answer(made, report)
    if folder is not None:
        print_path("record", folder / engine.MANIFEST)
    return code
