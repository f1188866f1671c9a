"""A new tuning, or the sweep of a knob, from what was asked.

In: `TuneRequest`, `SweepRequest`. Out: the record of a tuning without trials with its knobs; that of an
experiment whose arms are the levels of one knob. Raises UsageError for anything that cannot be one. Not here:
trials and decisions (``tuning``, ``session``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import steelyard
from steelyard._base import UsageError
from steelyard._base.request import asked_document
from steelyard.bench import declaration, tiers
from steelyard.bench.clock import SystemClock
from steelyard.bench.manifest import this_process
from steelyard.bench.parameters import check_names, nearest
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.record import (
    check_workload,
    draw_seed,
    metric_of,
    ratio_of,
    record_of,
    seconds_of,
)
from steelyard.experiment.request.service import live_metric, live_of, source_names
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentMetric
from steelyard.records.tuning import Tuning, TuningGuard, TuningKnob, TuningLack, TuningPlan
from steelyard.tune import proposals, session
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
from steelyard.tune.request import SweepRequest, TuneRequest
from steelyard.tune.tuning import STRATEGIES

TIER = "smoke"
"""Many short trials tell more than few long ones."""
_STARTED = "it is given to a program when it starts, and the service runs already"


def begin(request: TuneRequest) -> tuple[Tuning, dict[str, Knob]]:
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
            request=asked_document(request),
            clock=SystemClock().now(),
            orchestrator=this_process(),
        ),
        knobs,
    )


def _metric(request: TuneRequest) -> ExperimentMetric:
    better = "lower" if request.lower_is_better else "higher"
    if request.sources:
        return live_metric(request.sources, request.metric, better)
    return metric_of(request.metric, request.benchmark, better=better)


def check_kind_of_workload(request: TuneRequest) -> None:
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
    request: TuneRequest, risk: Risk
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


def _of_program(name: str, levels: tuple[str, ...], request: TuneRequest) -> Knob:
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


def knobs_again(tuning: Tuning, folder: Path) -> dict[str, Knob]:
    """Return the knobs of a tuning that goes on."""
    user_file = folder / session.USER_FILE
    request = TuneRequest(
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


def begin_sweep(request: SweepRequest) -> tuple[Experiment, Knob, list[Guard]]:
    """Return the record of a sweep, its knob, and guardrails of the user's file."""
    asked = request.as_tuning()
    knobs, (entry,), _, guards = knobs_for(asked, Risk.HIGH)
    knob = knobs[entry.name]
    if entry.reason is not None:
        raise UsageError(f"{entry.name}: {entry.reason}")
    typed = request.knob.partition("=")[2].split(",") if "=" in request.knob else list(knob.levels)
    # The present level first: it is the base.
    levels = sorted(typed, key=lambda level: level != entry.found)
    if len(levels) < 2:
        raise UsageError(f"{entry.name}: a sweep needs two levels", hint=knob.about)
    check_kind_of_workload(asked)
    compared = ExperimentRequest(
        words=request.command,
        metric=request.metric,
        lower_is_better=request.lower_is_better,
        blocks=request.blocks,
        budget=request.budget,
        least_effect=request.least_effect,
        seed=request.seed,
        tier=request.tier or TIER,
        chosen=request.chosen,
        hooks=request.hooks,
        timeout=request.timeout,
        sources=request.sources,
        window=request.window,
        out=request.out,
    )
    check_workload(compared, request.benchmark, [request.chosen])
    arms = []
    for level in levels:
        arm = ExperimentArm(name=level, settings=dict(request.chosen), command=list(request.command))
        arms.append(knob.dress(arm, level))
    record = record_of(compared, request.benchmark, knob.name, arms)
    return record.model_copy(update={"request": asked_document(request)}), knob, guards
