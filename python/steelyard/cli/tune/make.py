"""``steelyard tune run``: makes a tuning, goes on with one, shows one, or says what would be tried.

In: what was typed. Out: a table or one JSON document, the record in its folder, and files of a soft SKU where
one was found. Not here: trials and decisions (``steelyard.tune``), drawing (``report.tune``).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import steelyard
from steelyard import machine as machines
from steelyard._base import (
    ExitCode,
    RecordError,
    ResultSaysNoError,
    UsageError,
    WorkloadFailedError,
    command_text,
)
from steelyard.bench import declaration, tiers, undo
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.manifest import this_process
from steelyard.bench.parameters import check_names, nearest
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment.begin import draw_seed, metric_of, ratio_of, seconds_of
from steelyard.cli.experiment.make import so_far
from steelyard.cli.experiment.service import live_metric, live_of, source_names
from steelyard.cli.output import complain, output_console, page_of, print_json, print_path, show_answer
from steelyard.cli.progress import shown
from steelyard.experiment.engine import MACHINE
from steelyard.records import Machine, RunStatus, read, write
from steelyard.records.experiment import ExperimentMetric
from steelyard.records.tuning import Tuning, TuningGuard, TuningKnob, TuningLack, TuningPlan
from steelyard.tune import proposals, session
from steelyard.tune.deploy import write_all
from steelyard.tune.guards import Guard, parse_guard
from steelyard.tune.knobs import Knob, Lacking, Risk, find
from steelyard.tune.knobs.application import (
    DEFAULT,
    MEMORY_MAX,
    EnvironmentKnob,
    MemoryLimitKnob,
    PlaceKnob,
    SettingKnob,
)
from steelyard.tune.knobs.user import read_user_file
from steelyard.tune.tuning import STRATEGIES

TIER = "smoke"
"""Many short trials tell more than few long ones."""
_STARTED = "it is given to a program when it starts, and the service runs already"


@dataclass(frozen=True)
class Request:
    """What was typed."""

    command: Sequence[str] = ()
    benchmark: str | None = None
    knobs: Sequence[str] = ()
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Levels by knob, of a tuning that goes on."""
    user_file: Path | None = None
    risk: str = "low"
    guards: Sequence[str] = ()
    sources: Sequence[str] = ()
    """What is read of a running service, which trials look at."""
    window: str | None = None
    """How long a trial looks at it."""
    strategy: str = "one-at-a-time"
    metric: str | None = None
    lower_is_better: bool = False
    least_effect: str = "1%"
    blocks: int = 40
    confirm_blocks: int = 40
    budget: str | None = None
    settle: str = "0s"
    chosen: dict[str, str] = field(default_factory=dict)
    tier: str | None = None
    hooks: Sequence[str] = ()
    seed: int | None = None
    timeout: str = "10min"
    resume: Path | None = None
    advice: bool = False
    root: Path = Path("/")
    out: Path = Path("runs")


def word_of(tuning: Tuning) -> str:
    """Return what is tuned in a word: a benchmark, a command, a service."""
    return tuning.benchmark or ("command" if tuning.live is None else "service")


def tune_and_show(request: Request, *, report: Path | None = None, as_json: bool) -> int:
    """Make or resume a tuning, or only say what it would try; return the exit code."""
    if request.advice:
        if report is not None:
            raise UsageError("--report is for what was found: --advice tries nothing")
        return show_tuning(None, _begin(request)[0], as_json=as_json)
    with session.alone(_root_of(request)):
        return _tune(request, report, as_json=as_json)


def _root_of(request: Request) -> Path:
    """Return the root of the machine that is changed; a tuning that goes on knows its own."""
    if request.resume is None:
        return request.root
    try:
        return Path(session.load(request.resume).root)
    except RecordError:
        # It is refused, with the reason, by whoever reads it next.
        return request.root


def _tune(request: Request, report: Path | None, *, as_json: bool) -> int:
    # What a killed one left behind would be taken for the machine as found.
    for line in undo.replay():
        print(f"steelyard: {line}", file=sys.stderr)
    if request.resume is not None:
        given = (request.command, request.benchmark, request.sources, request.knobs, request.chosen)
        if any(given):
            raise UsageError("--resume goes on as it began: it takes no benchmark, command, --ops or knobs")
        folder = request.resume
        tuning = session.load_to_resume(folder, machines.snapshot(_root_of(request)))
        knobs = _again(tuning, folder)
        session.check_as_found(tuning, knobs)
    else:
        tuning, knobs = _begin(request)
        if not any(entry.reason is None for entry in tuning.knobs):
            raise ResultSaysNoError(
                "there is no knob to try",
                hint="steelyard tune list shows which there are, and why others are not",
            )
        folder = make_run_folder(request.out, f"tune-{word_of(tuning)}", SystemClock())
        tuning = tuning.model_copy(update={"tuning_id": folder.name})
        write(machines.snapshot(tuning.root), folder / MACHINE)
        _say_chances(tuning)
        if request.user_file is not None:
            shutil.copyfile(request.user_file, folder / session.USER_FILE)
    return _run(folder, tuning, knobs, report, as_json=as_json)


def _say_chances(tuning: Tuning) -> None:
    """Say before the first trial what its blocks can find."""
    from rich.console import Console

    from steelyard.report.tune.knobs import chances

    Console(stderr=True, highlight=False).print(chances(tuning.plan))


def _run(folder: Path, tuning: Tuning, knobs: dict[str, Knob], report: Path | None, *, as_json: bool) -> int:
    interrupts = Interrupts()
    tried = {entry.name: knobs[entry.name] for entry in tuning.knobs if entry.reason is None}
    failed: WorkloadFailedError | None = None
    with interrupts.caught(), shown() as progress:
        under_way = session.Session(
            folder,
            tuning,
            tried,
            clock=SystemClock(),
            progress=progress,
            interrupts=interrupts,
            on_progress=lambda experiment: progress.status(so_far(experiment)),
        )
        try:
            under_way.run()
        except WorkloadFailedError as error:
            failed = error
        made = under_way.tuning
        # What is complete is not resumed: an interrupt comes too late to keep its files from being written.
        if made.status is RunStatus.COMPLETE and made.chosen:
            write_all(folder, made, tried, read(Machine, folder / MACHINE))
    code = show_tuning(folder, made, report, as_json=as_json)
    if made.status is RunStatus.COMPLETE:
        return code
    complain(
        failed
        or WorkloadFailedError(
            f"tuning {made.status_reason}",
            hint=f"{command_text(['steelyard', 'tune', 'run', '--resume', folder])} goes on",
        )
    )
    return int(ExitCode.FAILED)


def show_tuning(folder: Path | None, tuning: Tuning, report: Path | None = None, *, as_json: bool) -> int:
    """Show a tuning, or the plan of one that has no folder; write its page to ``report``."""
    from steelyard.report.tune.answer import answer

    said = answer(tuning)
    if as_json:
        page_of(said, report)
        print_json(tuning.model_dump(mode="json"))
    elif folder is None:
        from steelyard.report.tune.knobs import plan_summary

        page_of(said, report)
        output_console().print(plan_summary(tuning))
    else:
        show_answer(said, report)
        print_path("record", folder / session.MANIFEST)
        for path in sorted(folder.glob("softsku*")):
            print_path("soft SKU", path)
    return int(said.says_no)


def _begin(request: Request) -> tuple[Tuning, dict[str, Knob]]:
    """Return the record of a new tuning, and its knobs by name. Raises UsageError."""
    name = request.benchmark
    check_kind_of_workload(request)
    if name is not None:
        known = {one.name: one for one in declaration.find(name).load().parameters}
        check_names(request.chosen, known, owner=name)
        for parameter, text in request.chosen.items():
            known[parameter].parse(text)
    if request.strategy not in STRATEGIES:
        raise UsageError(f"--strategy {request.strategy}: it is {', '.join(STRATEGIES)}")
    if request.strategy == "optuna":
        proposals.require()
    if min(request.blocks, request.confirm_blocks) < 4:
        raise UsageError("--blocks and --confirm-blocks: at least 4 are needed for an interval")
    try:
        risk = Risk(request.risk)
    except ValueError as error:
        raise UsageError(f"--risk {request.risk}: it is low, medium or high") from error
    knobs, entries, lacking, guards = knobs_for(request, risk)
    guards += [parse_guard(text) for text in request.guards]
    return (
        Tuning(
            tuning_id="",
            benchmark=name,
            tier=None if name is None else tiers.resolve(name, request.tier or TIER)[2],
            hooks=list(request.hooks),
            settings=dict(request.chosen),
            template=list(request.command),
            live=live_of(request.sources, request.window, name, request.out),
            metric=_metric(request),
            root=str(request.root),
            knobs=entries,
            lacking=[TuningLack(name=one.name, reason=one.reason) for one in lacking],
            guards=[
                TuningGuard(
                    name=one.name,
                    source=one.source,
                    words=list(one.words),
                    is_most=one.is_most,
                    limit=one.limit,
                )
                for one in guards
            ],
            plan=TuningPlan(
                strategy=request.strategy,
                seed=draw_seed() if request.seed is None else request.seed,
                blocks=request.blocks,
                confirm_blocks=request.confirm_blocks,
                budget_s=None if request.budget is None else seconds_of("--budget", request.budget),
                least_effect_ratio=ratio_of(request.least_effect),
                confidence=0.95,
                settle_s=seconds_of("--settle", request.settle, minimum=0.0),
                timeout_s=seconds_of("--timeout", request.timeout),
            ),
            evidence=[],
            chosen={},
            trials=0,
            status=RunStatus.RUNNING,
            steelyard_version=steelyard.__version__,
            command=["steelyard", *sys.argv[1:]],
            clock=SystemClock().now(),
            orchestrator=this_process(),
        ),
        knobs,
    )


def _metric(request: Request) -> ExperimentMetric:
    better = "lower" if request.lower_is_better else "higher"
    if request.sources:
        return live_metric(request.sources, request.metric, better)
    return metric_of(request.metric, request.benchmark, better=better)


def check_kind_of_workload(request: Request) -> None:
    """Raise UsageError unless there is one benchmark, command or service, with what is for its kind."""
    name = request.benchmark
    kinds = [name is not None, bool(request.command), bool(request.sources)]
    if kinds.count(True) != 1:
        raise UsageError(
            "a tuning needs one workload: --benchmark NAME, --ops SOURCE, or a command after --",
            hint="such as: steelyard tune --benchmark tao",
        )
    if name is None and (request.chosen or request.hooks):
        raise UsageError("--set and --hook are for a benchmark")
    if request.command and request.guards:
        raise UsageError(
            "--guard is for a benchmark or a service",
            hint="guardrails of files and commands stand in --knobs FILE.toml",
        )
    if request.sources:
        names = source_names(request.sources)
        for guard in (parse_guard(text) for text in request.guards):
            if guard.name not in names:
                raise UsageError(
                    f"--guard {guard.name}: no source has this name{nearest(guard.name, names)}",
                    hint=f"there is {', '.join(names)}",
                )
    if name is not None and tiers.resolve(name, request.tier or TIER)[0] is not None:
        raise UsageError(f"--benchmark {name} is a suite", hint="a tuning is for one benchmark")


def knobs_for(
    request: Request, risk: Risk
) -> tuple[dict[str, Knob], list[TuningKnob], list[Lacking], list[Guard]]:
    """Return all knobs by name, their entries in the record, what is lacking, and the user's guardrails."""
    found, lacking = find(request.root)
    mine: list[Knob] = []
    guards: list[Guard] = []
    if request.user_file is not None:
        mine, guards = read_user_file(request.user_file)
    knobs = {one.name: one for one in [*found, *mine]}
    if len(knobs) < len(found) + len(mine):
        raise UsageError(f"{request.user_file}: a knob has the name of another one")
    named = {**dict(_named(text) for text in request.knobs), **request.levels}
    missing = {one.name: one.reason for one in lacking}
    for name, levels in named.items():
        if name in missing:
            raise UsageError(f"--knob {name}: {missing[name]}")
        if name not in knobs:
            knobs[name] = _of_program(name, levels, request)
    chosen = dict(named) if named else {one.name: () for one in [*found, *mine] if one.risk.rank <= risk.rank}
    if request.sources:
        # They are given to a program that a trial starts.
        for name in named:
            if knobs[name].section == "service":
                raise UsageError(
                    f"--knob {name}: {_STARTED}", hint="a [[knob]] of --knobs FILE.toml can restart it"
                )
        chosen = {name: levels for name, levels in chosen.items() if knobs[name].section != "service"}
    entries = [entry_of(knobs[name], chosen.get(name, ())) for name in chosen]
    if not named:
        left = (one for name, one in knobs.items() if name not in chosen)
        entries += [
            entry_of(
                one,
                (),
                _STARTED
                if request.sources and one.section == "service"
                else f"its risk is {one.risk}: --risk {one.risk}",
            )
            for one in left
        ]
    return knobs, entries, lacking, guards


def _named(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, levels = text.partition("=")
    listed = tuple(levels.split(",")) if equals else ()
    if not name or len(set(listed)) < len(listed):
        raise UsageError(f"--knob {text}: not NAME or NAME=LEVEL,LEVEL,... with different levels")
    return name, listed


def _of_program(name: str, levels: tuple[str, ...], request: Request) -> Knob:
    """Return a knob of the program itself. Raises UsageError for a name that nothing has."""
    if name.startswith("env:") and levels:
        return EnvironmentKnob(name.removeprefix("env:"), levels)
    if name == MEMORY_MAX and levels:
        if request.benchmark is not None:
            raise UsageError(
                f"--knob {name}: it is for a command",
                hint=f"such as -- steelyard run {request.benchmark}, or a parameter of the benchmark",
            )
        return MemoryLimitKnob.of_this_process(levels)
    if request.benchmark is not None:
        known = {one.name: one for one in declaration.find(request.benchmark).load().parameters}
        if name in known and levels:
            knob = SettingKnob(known[name], request.chosen.get(name, DEFAULT), levels)
            for level in levels:
                knob.check(level)
            return knob
    elif len(levels) > 1 and any(f"{{{name}}}" in word for word in request.command):
        return PlaceKnob(name, levels)
    hint = (
        "see steelyard tune list; a parameter, {NAME}, env:NAME and memory_max need levels: NAME=LEVEL,LEVEL"
    )
    raise UsageError(
        f"there is no knob {name!r}{nearest(name, (one.name for one in find(request.root)[0]))}", hint=hint
    )


def entry_of(knob: Knob, levels: Sequence[str] = (), reason: str | None = None) -> TuningKnob:
    """Return the record of a knob; what cannot be tried says why."""
    for level in levels:
        knob.check(level)
    try:
        found = knob.read()
    except OSError as error:
        found, reason = "", reason or f"cannot be read: {error.strerror or error}"
    tried = [level for level in (levels or knob.levels) if level != found]
    if knob.needs_reboot:
        reason = "needs a reboot: set it, reboot, and compare with steelyard experiment"
    elif not tried:
        reason = reason or "it has no other level"
    return TuningKnob(
        name=knob.name,
        about=knob.about,
        found=found,
        levels=tried,
        risk=knob.risk,
        needs_reboot=knob.needs_reboot,
        reason=reason,
    )


def _again(tuning: Tuning, folder: Path) -> dict[str, Knob]:
    """Return the knobs of a tuning that goes on."""
    user_file = folder / session.USER_FILE
    request = Request(
        command=tuning.template,
        benchmark=tuning.benchmark,
        # Not as they are typed: a level may have a comma.
        levels={one.name: tuple(_levels(one, tuning)) for one in tuning.knobs if one.reason is None},
        user_file=user_file if user_file.exists() else None,
        chosen=tuning.settings,
        sources=() if tuning.live is None else tuning.live.sources,
        root=Path(tuning.root),
    )
    return knobs_for(request, Risk.HIGH)[0]


def _levels(entry: TuningKnob, tuning: Tuning) -> list[str]:
    """Return levels as they were typed: those of a place begin with the one that it has otherwise."""
    is_place = any(f"{{{entry.name}}}" in word for word in tuning.template)
    return [entry.found, *entry.levels] if is_place else list(entry.levels)
