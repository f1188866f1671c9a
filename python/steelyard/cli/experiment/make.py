"""``steelyard experiment``: makes one, goes on with one, or shows one.

In: what was typed. Out: a table or one JSON document, the record in its folder. Not here: trials
(``steelyard.experiment``), drawing (``report.experiment``).
"""

import re
import secrets
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import steelyard
from steelyard._base import ExitCode, UsageError, WorkloadFailedError
from steelyard.bench import declaration, tiers
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.manifest import this_process
from steelyard.bench.parameters import Parameter, check_names, parse_assignments
from steelyard.bench.signals import Interrupts
from steelyard.cli.output import complain, output_console, print_json
from steelyard.cli.progress import shown
from steelyard.experiment import engine
from steelyard.experiment.answers import Answer, Outcome, answers
from steelyard.experiment.design import is_curve
from steelyard.experiment.numa.design import is_numa
from steelyard.experiment.workload import (
    CPU,
    ELAPSED,
    BenchmarkRuns,
    Commands,
    Workload,
    check_pattern,
    headline_of,
)
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentMetric, ExperimentPlan

_PLACE = re.compile(r"\{([A-Za-z_][\w-]*)\}")
_SEED_BITS = 48


@dataclass(frozen=True)
class Request:
    """What was typed."""

    words: Sequence[str] = ()
    """A benchmark, the folder of an experiment, or a command with places for the levels of a sweep."""
    a: str | None = None
    b: str | None = None
    sweep: str | None = None
    metric: str | None = None
    lower_is_better: bool = False
    blocks: int = 40
    budget: str | None = None
    least_effect: str = "1%"
    to_the_end: bool = False
    seed: int | None = None
    tier: str | None = None
    chosen: dict[str, str] = field(default_factory=dict)
    hooks: Sequence[str] = ()
    timeout: str = "10min"
    resume: Path | None = None
    out: Path = Path("runs")


def experiment_and_show(request: Request, *, report: Path | None, as_json: bool) -> int:
    """Make, resume or show an experiment; return the exit code."""
    folder = Path(request.words[0]) if len(request.words) == 1 else None
    if request.resume is not None:
        if request.words or request.a or request.b or request.sweep or request.chosen or request.hooks:
            raise UsageError("--resume goes on as it began: it takes no benchmark, command, arms or hooks")
        folder = request.resume
        experiment = engine.load_to_resume(folder)
        if is_curve(experiment):
            raise UsageError(
                f"{folder} is a scaling curve", hint=f"steelyard scale --resume {folder} goes on"
            )
    elif folder is not None and (folder / engine.MANIFEST).exists():
        return _show(folder, engine.load(folder), report, as_json=as_json)
    else:
        experiment = _begin(request)
        folder = make_run_folder(request.out, f"experiment-{experiment.factor[:20]}", SystemClock())
        experiment = experiment.model_copy(update={"experiment_id": folder.name})
    interrupts = Interrupts()
    workload = _workload(experiment, folder, interrupts)
    experiment, error = carry_out(folder, experiment, workload, interrupts)
    code = _show(folder, experiment, report, as_json=as_json)
    return code_of(folder, experiment, error, code, resume="steelyard experiment --resume")


def carry_out(
    folder: Path,
    experiment: Experiment,
    workload: Workload,
    interrupts: Interrupts,
    *,
    told: Callable[[Experiment], dict[str, str]] | None = None,
) -> tuple[Experiment, WorkloadFailedError | None]:
    """Make the trials that are missing; return the record, and why an arm gave no value.

    ``told`` says what is known so far.
    """
    error: WorkloadFailedError | None = None
    with interrupts.caught(), shown() as progress:
        made = engine.Engine(
            folder,
            experiment,
            workload,
            clock=SystemClock(),
            progress=progress,
            interrupts=interrupts,
            told=lambda experiment: progress.status((told or so_far)(experiment)),
        )
        try:
            made.run()
        except WorkloadFailedError as failed:
            error = failed
    return made.experiment, error


def code_of(
    folder: Path, experiment: Experiment, error: WorkloadFailedError | None, code: int, *, resume: str
) -> int:
    """Return the exit code of an experiment that was shown with ``code``; tell of one that was cut short."""
    if error is not None:
        complain(error)
        return int(ExitCode.FAILED)
    if experiment.status is RunStatus.INCOMPLETE:
        reason = experiment.status_reason
        complain(WorkloadFailedError(f"experiment {reason}", hint=f"{resume} {folder} goes on"))
        return int(ExitCode.FAILED)
    return code


def _begin(request: Request) -> Experiment:
    """Return the record of a new experiment. Raises UsageError for anything that cannot be one."""
    benchmark = (
        request.words[0] if len(request.words) == 1 and request.words[0] in declaration.names() else None
    )
    template = [] if benchmark is not None else list(request.words)
    factor, arms = _arms(request, benchmark, template)
    check_workload(request, benchmark, [request.chosen, *(arm.settings for arm in arms)])
    if benchmark:
        arms = [arm.model_copy(update={"settings": {**request.chosen, **arm.settings}}) for arm in arms]
    return record_of(request, benchmark, factor, arms)


def check_workload(request: Request, benchmark: str | None, settings: Sequence[dict[str, str]]) -> None:
    """Raise UsageError for settings that a benchmark has not, and for those of a command."""
    if benchmark is None:
        if request.chosen or request.hooks:
            raise UsageError("--set and --hook are for a benchmark")
        return
    known = {parameter.name: parameter for parameter in declaration.find(benchmark).load().parameters}
    for each in settings:
        check_names(each, known, owner=benchmark)
        for name, text in each.items():
            known[name].parse(text)


def record_of(
    request: Request,
    benchmark: str | None,
    factor: str,
    arms: list[ExperimentArm],
    pairs: Sequence[tuple[str, str]] = (),
) -> Experiment:
    """Return the record of an experiment without trials. Raises UsageError for a plan that cannot be."""
    if request.blocks < 4:
        raise UsageError(f"--blocks {request.blocks}: at least 4 are needed for an interval")
    return Experiment(
        experiment_id="",
        benchmark=benchmark,
        tier=None if benchmark is None else tiers.resolve(benchmark, request.tier)[2],
        hooks=list(request.hooks),
        factor=factor,
        arms=arms,
        metric=metric_of(request.metric, benchmark, better="lower" if request.lower_is_better else "higher"),
        plan=ExperimentPlan(
            seed=draw_seed() if request.seed is None else request.seed,
            blocks=request.blocks,
            budget_s=None if request.budget is None else seconds_of("--budget", request.budget),
            least_effect_ratio=ratio_of(request.least_effect),
            confidence=0.95,
            stop_early=not request.to_the_end,
            timeout_s=seconds_of("--timeout", request.timeout),
            pairs=list(pairs),
        ),
        status=RunStatus.RUNNING,
        steelyard_version=steelyard.__version__,
        command=["steelyard", *sys.argv[1:]],
        clock=SystemClock().now(),
        orchestrator=this_process(),
        trials=[],
    )


def _arms(request: Request, benchmark: str | None, template: list[str]) -> tuple[str, list[ExperimentArm]]:
    """Return the name of the factor, and its arms."""
    if request.sweep is not None:
        if request.a is not None or request.b is not None:
            raise UsageError("--sweep names all arms: it takes no --a or --b")
        return _levels(request.sweep, benchmark, template)
    if request.a is None or request.b is None:
        raise UsageError(
            "an experiment needs two arms", hint="give --a and --b, or --sweep NAME=VALUE,VALUE,..."
        )
    if template:
        raise UsageError(
            f"{template[0]!r} is no benchmark and no experiment",
            hint="a command is an arm: --a 'COMMAND' --b 'COMMAND'; see `steelyard list`",
        )
    if benchmark is None:
        commands = [_words(flag, text) for flag, text in (("--a", request.a), ("--b", request.b))]
        if commands[0] == commands[1]:
            raise UsageError("--a and --b are the same command")
        arms = [
            ExperimentArm(name=name, settings={}, command=one)
            for name, one in zip("ab", commands, strict=True)
        ]
        return "command", arms
    sides = [_assignments(flag, text) for flag, text in (("--a", request.a), ("--b", request.b))]
    if sides[0] == sides[1]:
        raise UsageError("--a and --b are the same settings")
    factor = ", ".join(dict.fromkeys(name for side in sides for name in side))
    return factor, [
        ExperimentArm(name=name, settings=side, command=[]) for name, side in zip("ab", sides, strict=True)
    ]


def _assignments(flag: str, text: str) -> dict[str, str]:
    """Return NAME=VALUE,NAME=VALUE; nothing stands for the defaults."""
    return parse_assignments(text.split(",") if text else [], flag=flag)


def _words(flag: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text!r}: {error}") from error
    if not words:
        raise UsageError(f"{flag} is empty: without a benchmark it is a command")
    return words


def _levels(text: str, benchmark: str | None, template: list[str]) -> tuple[str, list[ExperimentArm]]:
    name, equals, values = text.partition("=")
    levels = [level for level in values.split(",") if level]
    if not equals or not name or len(set(levels)) < 2 or len(set(levels)) < len(levels):
        raise UsageError(f"--sweep {text}: not NAME=VALUE,VALUE,... with different values")
    if benchmark is not None:
        return name, [ExperimentArm(name=level, settings={name: level}, command=[]) for level in levels]
    places = {found for word in template for found in _PLACE.findall(word)}
    if name not in places:
        raise UsageError(
            f"the command has no place {{{name}}} for the levels of --sweep",
            hint=f"such as: steelyard experiment --sweep {name}=1,2 -- program --option {{{name}}}",
        )
    return name, [
        ExperimentArm(
            name=level, settings={}, command=[word.replace(f"{{{name}}}", level) for word in template]
        )
        for level in levels
    ]


def metric_of(asked: str | None, benchmark: str | None, *, better: str) -> ExperimentMetric:
    """Return the metric that ``--metric`` names. Raises UsageError for one that cannot be."""
    if benchmark is not None:
        return ExperimentMetric(name=asked or headline_of(benchmark), unit="", better=better)
    name, equals, pattern = (asked or ELAPSED).partition("=")
    if equals:
        return ExperimentMetric(name=name, unit="", better=better, pattern=check_pattern(pattern))
    if name not in (ELAPSED, CPU):
        raise UsageError(
            f"--metric {name}: a command has {ELAPSED} and {CPU}",
            hint="or NAME=REGEX, with a group for the number",
        )
    return ExperimentMetric(name=name, unit="s", better="lower")


def draw_seed() -> int:
    """Return a seed for an order that nobody chose."""
    return secrets.randbits(_SEED_BITS)


def ratio_of(text: str) -> float:
    """Return ``1%`` or ``0.01`` as a ratio. Raises UsageError for another text, and outside 0 to 1."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value < 1:
        raise UsageError(f"--least-effect {text}: write it as 1% or 0.01")
    return value


def seconds_of(flag: str, text: str, *, minimum: float = 0.01) -> float:
    """Return a time such as 10min in seconds. Raises UsageError."""
    about = "a time, such as 90s or 10min"
    return float(Parameter(flag, "seconds", about, minimum=minimum, maximum=30 * 86_400).parse(text))


def _workload(experiment: Experiment, folder: Path, interrupts: Interrupts) -> Workload:
    if is_numa(experiment):
        from steelyard.experiment.numa.workload import ScenarioTrials

        return ScenarioTrials(experiment, folder, SystemClock(), interrupts)
    if experiment.benchmark is None:
        return Commands(experiment.metric, folder, experiment.plan.timeout_s, SystemClock(), interrupts)
    return BenchmarkRuns(
        benchmark=experiment.benchmark,
        tier=experiment.tier or "quick",
        metric=experiment.metric.name,
        directory=folder,
        seed=experiment.plan.seed,
        clock=SystemClock(),
        interrupts=interrupts,
        hooks=tuple(experiment.hooks),
    )


def so_far(experiment: Experiment) -> dict[str, str]:
    """Return what is known of each arm, for the line of progress."""
    from steelyard.report.experiment.table import ratio_text

    return {answer.arm: ratio_text(answer) for answer in answers(experiment, is_over=False)}


def _show(folder: Path, experiment: Experiment, report: Path | None, *, as_json: bool) -> int:
    if is_numa(experiment):
        from steelyard.cli.experiment.scenarios import show

        return show(folder, experiment, report, as_json=as_json)
    found = answers(experiment, is_over=experiment.status is RunStatus.COMPLETE)
    page = None
    if report is not None:
        from steelyard.report.experiment.page import write_experiment

        page = write_experiment(report, experiment, found)
    if as_json:
        print_json(document(folder, experiment, found, page), kind="experiment_answer")
    else:
        from steelyard.report.experiment.table import summary

        target = output_console()
        target.print(summary(experiment, found))
        target.print(f"record: {folder / engine.MANIFEST}", markup=False, highlight=False, soft_wrap=True)
        if page is not None:
            target.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
    return int(exit_code(found))


def exit_code(found: Sequence[Answer]) -> ExitCode:
    """Return 0 where every arm is better or equivalent, else 1."""
    good = (Outcome.BETTER, Outcome.EQUIVALENT)
    return ExitCode.OK if all(answer.outcome in good for answer in found) else ExitCode.NO


def document(
    folder: Path, experiment: Experiment, found: Sequence[Answer], page: Path | None
) -> dict[str, Any]:
    """Return what ``--json`` shows."""
    return {
        "experiment_id": experiment.experiment_id,
        "directory": str(folder),
        "benchmark": experiment.benchmark,
        "factor": experiment.factor,
        "metric": experiment.metric.model_dump(),
        "plan": experiment.plan.model_dump(),
        "status": experiment.status,
        "status_reason": experiment.status_reason,
        "base": experiment.arms[0].name,
        "answers": [asdict(answer) for answer in found],
        "report": None if page is None else str(page),
    }
