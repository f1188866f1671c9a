"""A new experiment from what was asked.

In: `ExperimentRequest`. Out: the record of an experiment without trials. Raises UsageError for anything that
cannot be one. Not here: trials (``engine``), what is shown (``report.experiment``).
"""

import secrets
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import steelyard
from steelyard._base import UsageError
from steelyard._base.request import asked_document
from steelyard.analyze.values import declared_unit
from steelyard.bench import declaration, tiers
from steelyard.bench.clock import SystemClock
from steelyard.bench.manifest import this_process
from steelyard.bench.parameters import Parameter, check_names
from steelyard.experiment.answers import blocks_of_answer
from steelyard.experiment.request.arms import Named, arms_of, check_different
from steelyard.experiment.request.fields import ExperimentRequest
from steelyard.experiment.request.service import hosts_of, live_metric, live_of, source_names
from steelyard.experiment.workload import CPU, ELAPSED, check_pattern, headline_of
from steelyard.records import RunStatus
from steelyard.records.experiment import (
    Experiment,
    ExperimentArm,
    ExperimentGuard,
    ExperimentMetric,
    ExperimentPilot,
    ExperimentPlan,
)
from steelyard.stats.contrasts import FEWEST_BLOCKS

_SEED_BITS = 48


def begin(request: ExperimentRequest) -> Experiment:
    """Return the record of a new experiment. Raises UsageError for anything that cannot be one."""
    benchmark = (
        request.words[0] if len(request.words) == 1 and request.words[0] in declaration.names() else None
    )
    template = [] if benchmark is not None else list(request.words)
    named = Named(request.a, request.b, request.sweep, request.variants)
    factor, arms = arms_of(named, benchmark, template)
    check_workload(request, benchmark, [request.chosen, *(arm.settings for arm in arms)])
    if benchmark:
        arms = [arm.model_copy(update={"settings": {**request.chosen, **arm.settings}}) for arm in arms]
    record = record_of(request, benchmark, factor, arms)
    check_different(record)
    return record


def pilot_of(experiment: Experiment, blocks: int) -> Experiment:
    """Return the pilot for an experiment. Raises UsageError for too few blocks."""
    least = FEWEST_BLOCKS * blocks_of_answer(experiment)
    if blocks < least or blocks % blocks_of_answer(experiment):
        raise UsageError(
            f"--pilot {blocks}: at least {least} blocks tell a noise, of two hosts an even number"
        )
    first = experiment.arms[0]
    # Nobody looks before its end, and nothing but its noise is asked for.
    plan = {"blocks": blocks, "stop_early": False, "guards": [], "pairs": []}
    return experiment.model_copy(
        update={
            "arms": [first, first.model_copy(update={"name": f"{first.name} again"})],
            "plan": experiment.plan.model_copy(update=plan),
            "pilot": ExperimentPilot(arms=experiment.arms, plan=experiment.plan),
        }
    )


def check_workload(
    request: ExperimentRequest, benchmark: str | None, settings: Sequence[Mapping[str, str]]
) -> None:
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
    request: ExperimentRequest,
    benchmark: str | None,
    factor: str,
    arms: list[ExperimentArm],
    pairs: Sequence[tuple[str, str]] = (),
) -> Experiment:
    """Return the record of an experiment without trials. Raises UsageError for a plan that cannot be."""
    if request.blocks < FEWEST_BLOCKS:
        raise UsageError(f"--blocks {request.blocks}: at least {FEWEST_BLOCKS} are needed for an interval")
    guards = _guards(request, benchmark)
    plan = _plan(request, request.blocks, stop_early=not request.to_the_end, guards=guards)
    return _record(
        benchmark=benchmark,
        tier=None if benchmark is None else tiers.resolve(benchmark, request.tier)[2],
        hooks=list(request.hooks),
        factor=factor,
        arms=arms,
        metric=_metric(request, benchmark),
        plan=plan.model_copy(update={"pairs": list(pairs)}),
        readings=_readings(request, benchmark),
        hosts=hosts_of(request.hosts, request.ssh, arms, request.blocks, is_live=bool(request.sources)),
        ssh=request.ssh,
        remote_command=request.remote_command,
        live=live_of(request.sources, request.window, benchmark, request.out),
        status=RunStatus.RUNNING,
        trials=[],
        request=asked_document(request),
    )


def read_elsewhere(request: ExperimentRequest) -> Experiment:
    """Return the experiment in a file of values that were measured elsewhere; nothing is recorded of it.

    Raises UsageError for a file that has none.
    """
    from steelyard.experiment.curves import read_curves

    assert request.source is not None
    given = (request.words, request.a, request.b, request.sweep, request.chosen, request.hooks, request.tier)
    if (
        any(given)
        or request.sources
        or request.window
        or request.hosts
        or request.to_the_end
        or request.budget
        or request.resume
        or request.intervals
    ):
        raise UsageError("--from takes what was measured: no benchmark, command, arms, settings or limits")
    curves = read_curves(request.source)
    guards = _guards_elsewhere(request, curves.metrics, str(request.source))
    name = request.metric or curves.metrics[0]
    if name not in curves.metrics:
        raise UsageError(
            f"{request.source} has no metric {name!r}", hint=f"it has {', '.join(curves.metrics)}"
        )
    # Whoever measured it has stopped: there is one look.
    plan = _plan(request, curves.blocks, stop_early=False, guards=guards)
    return _record(
        benchmark=None,
        tier=None,
        hooks=[],
        factor=curves.factor,
        arms=[ExperimentArm(name=arm, settings={}, command=[]) for arm in curves.arms],
        metric=_metric_elsewhere(name, request),
        plan=plan.model_copy(update={"blocks_in_order": curves.in_order}),
        status=RunStatus.COMPLETE,
        trials=curves.trials(name),
        units={each: unit for each in curves.metrics if (unit := declared_unit(each))},
    )


def _metric_elsewhere(name: str, request: ExperimentRequest) -> ExperimentMetric:
    """Return a metric of a file; times that Steelyard measures itself mean the same there."""
    if name in (ELAPSED, CPU):
        return ExperimentMetric(name=name, unit="s", better="lower")
    better = "lower" if request.lower_is_better else "higher"
    return ExperimentMetric(name=name, unit=declared_unit(name), better=better)


def _record(**fields: Any) -> Experiment:
    return Experiment(
        experiment_id="",
        steelyard_version=steelyard.__version__,
        command=["steelyard", *sys.argv[1:]],
        clock=SystemClock().now(),
        orchestrator=this_process(),
        **fields,
    )


def _plan(
    request: ExperimentRequest, blocks: int, *, stop_early: bool, guards: list[ExperimentGuard]
) -> ExperimentPlan:
    return ExperimentPlan(
        seed=draw_seed() if request.seed is None else request.seed,
        blocks=blocks,
        budget_s=None if request.budget is None else seconds_of("--budget", request.budget),
        least_effect_ratio=ratio_of(request.least_effect),
        confidence=0.95,
        stop_early=stop_early,
        timeout_s=seconds_of("--timeout", request.timeout),
        guards=guards,
    )


def _guards(request: ExperimentRequest, benchmark: str | None) -> list[ExperimentGuard]:
    """Return the guardrails of trials that are to be made."""
    if request.sources:
        return _guards_elsewhere(request, source_names(request.sources), "the service")
    found = [_guard(text) for text in request.guards]
    _check_apart(found, _metric(request, benchmark).name)
    for index, guard in enumerate(found):
        if benchmark is not None and guard.pattern is not None:
            raise UsageError(
                f"--guard {request.guards[index]}: a benchmark has metrics, no output",
                hint=f"--guard {guard.name}=5%",
            )
        if benchmark is None and guard.pattern is None:
            if guard.name not in (ELAPSED, CPU):
                raise UsageError(
                    f"--guard {guard.name}: a command has {ELAPSED} and {CPU}",
                    hint="or NAME=REGEX=+5%, with a group for the number",
                )
            found[index] = guard.model_copy(update={"unit": "s", "better": guard.better or "lower"})
    return found


def _guards_elsewhere(
    request: ExperimentRequest, metrics: Sequence[str], where: str
) -> list[ExperimentGuard]:
    """Return the guardrails of values from a file or a service, which tell no direction."""
    found = [_guard(text) for text in request.guards]
    _check_apart(found, request.metric or metrics[0])
    for guard in found:
        if guard.pattern is not None or guard.name not in metrics:
            raise UsageError(
                f"--guard {guard.name}: {where} has no such metric",
                hint=f"it has {', '.join(metrics)}",
            )
        if not guard.better:
            raise _no_direction(guard.name)
    return found


def _readings(request: ExperimentRequest, benchmark: str | None) -> list[ExperimentMetric]:
    """Return the numbers that are kept beside the metric, without being compared."""
    if request.readings and (benchmark is not None or request.sources or request.hosts):
        raise UsageError("--reading takes numbers from the output of a command that runs here")
    guards = (_guard(text).name for text in request.guards)
    return readings_of(request.readings, {_metric(request, benchmark).name, *guards, ELAPSED, CPU})


def readings_of(texts: Sequence[str], taken: Collection[str]) -> list[ExperimentMetric]:
    """Return numbers to take from the output of a command, each ``NAME=REGEX``.

    Raises UsageError for one that is malformed, or whose name is ``taken`` or given twice.
    """
    found: list[ExperimentMetric] = []
    for text in texts:
        name, equals, pattern = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--reading {text}: write it as NAME=REGEX, with a group for the number")
        pattern = check_pattern(pattern, "--reading")
        if name in taken or any(name == each.name for each in found):
            raise UsageError(f"--reading {name}: it is there already")
        found.append(ExperimentMetric(name=name, unit=declared_unit(name), better="higher", pattern=pattern))
    return found


def _check_apart(guards: Sequence[ExperimentGuard], metric: str) -> None:
    names = [metric, *(guard.name for guard in guards)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--guard {name}: it is the metric already, or given twice")


def _guard(text: str) -> ExperimentGuard:
    """Return ``NAME=5%`` or ``NAME=REGEX=+5%``; the sign says which way it must not go further."""
    name, equals, rest = text.partition("=")
    pattern, is_pattern, margin = rest.rpartition("=")
    if not equals or not name or not margin:
        raise UsageError(f"--guard {text}: write it as NAME=5% or NAME=REGEX=+5%")
    better = {"+": "lower", "-": "higher"}.get(margin[0], "")
    if is_pattern and not better:
        raise _no_direction(name)
    return ExperimentGuard(
        name=name,
        margin_ratio=ratio_of(margin.lstrip("+-"), "--guard " + name),
        better=better,
        pattern=check_pattern(pattern, "--guard") if is_pattern else None,
    )


def _no_direction(name: str) -> UsageError:
    return UsageError(
        f"--guard {name}: say which way is worse",
        hint="+5% allows 5 % more (less is better), -5% allows 5 % less",
    )


def _metric(request: ExperimentRequest, benchmark: str | None) -> ExperimentMetric:
    if request.intervals and (benchmark is not None or "=" not in (request.metric or "")):
        raise UsageError("--intervals is for a number in a command's output", hint="--metric NAME=REGEX")
    better = "lower" if request.lower_is_better else "higher"
    if request.sources:
        return live_metric(request.sources, request.metric, better)
    return metric_of(request.metric, benchmark, better=better).model_copy(
        update={"is_series": request.intervals}
    )


def metric_of(text: str | None, benchmark: str | None, *, better: str) -> ExperimentMetric:
    """Return the metric that ``--metric`` names, or the workload's own. Raises UsageError."""
    if benchmark is not None:
        return ExperimentMetric(name=text or headline_of(benchmark), unit="", better=better)
    name, equals, pattern = (text or ELAPSED).partition("=")
    if equals:
        return ExperimentMetric(name=name, unit="", better=better, pattern=check_pattern(pattern))
    if name not in (ELAPSED, CPU):
        raise UsageError(
            f"--metric {name}: a command has {ELAPSED} and {CPU}",
            hint="or NAME=REGEX, with a group for the number",
        )
    return ExperimentMetric(name=name, unit="s", better="lower")


def draw_seed() -> int:
    """Return a seed for an experiment that was given none."""
    return secrets.randbits(_SEED_BITS)


def ratio_of(text: str, flag: str = "--least-effect") -> float:
    """Return ``1%`` or ``0.01`` as a ratio. Raises UsageError for another text, and outside 0 to 1."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 1e-6 <= value < 1:
        raise UsageError(f"{flag} {text}: write it as 1% or 0.01")
    return value


def seconds_of(flag: str, text: str, *, minimum: float = 0.01) -> float:
    """Return a time such as 10min in seconds. Raises UsageError."""
    about = "a time, such as 90s or 10min"
    return float(Parameter(flag, "seconds", about, minimum=minimum, maximum=30 * 86_400).parse(text))
