"""A new scaling curve from what was asked.

In: `CurveRequest`. Out: the record of an experiment without trials, whose arms are numbers of CPUs. Raises
UsageError for anything that cannot be one. Not here: trials (``engine``), what a curve means
(``analyze.scaling``).
"""

import sys

import steelyard
from steelyard._base import UsageError, format_cpu_list
from steelyard._base.request import asked_document
from steelyard.bench import declaration, tiers
from steelyard.bench.clock import SystemClock
from steelyard.bench.manifest import this_process
from steelyard.bench.parameters import check_names
from steelyard.bench.placement.request import live_layout
from steelyard.bench.placement.steps import cpu_steps
from steelyard.experiment.request.fields import CurveRequest
from steelyard.experiment.request.record import draw_seed, metric_of, readings_of, seconds_of
from steelyard.experiment.scaling import FACTOR
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentCpus, ExperimentPlan

_PLACE = f"{{{FACTOR}}}"


def check(request: CurveRequest) -> None:
    """Raise UsageError for options that contradict one another."""
    if (request.profile_low is None) != (request.profile_high is None):
        raise UsageError("--profile-low and --profile-high belong together")
    if (request.sibling_worth is not None or request.siblings_of) and not request.predict:
        raise UsageError("--sibling-worth and --siblings-of are for --predict")
    if request.sibling_worth is not None and request.siblings_of:
        raise UsageError("--sibling-worth and --siblings-of both say what siblings are worth")
    if request.source is not None and (request.words or request.resume or request.chosen or request.hooks):
        raise UsageError("--from reads a curve: it takes no benchmark, command or --resume")


def begin(request: CurveRequest) -> Experiment:
    """Return the record of a new curve. Raises UsageError for anything that cannot be one."""
    words = list(request.words)
    benchmark = words[0] if len(words) == 1 and words[0] in declaration.names() else None
    if not words:
        raise UsageError(
            "name what to scale: a benchmark, or -- COMMAND", hint="or --from FILE.csv for a measured curve"
        )
    if benchmark is None and (request.chosen or request.hooks or request.tier):
        raise UsageError("--set, --hook and --tier are for a benchmark")
    if benchmark is not None and request.readings:
        raise UsageError("--reading takes numbers from the output of a command")
    metric = metric_of(request.metric, benchmark, better="higher")
    steps, notes = cpu_steps(live_layout(), _numbers(request.steps))
    arms = [
        ExperimentArm(
            name=str(len(step.cpus)),
            settings={name: _at(text, len(step.cpus)) for name, text in request.chosen.items()},
            command=[] if benchmark else [_at(word, len(step.cpus)) for word in words],
            cpus=ExperimentCpus(
                listed=format_cpu_list(step.cpus), shares_cores=step.shares_cores, nodes=step.nodes
            ),
        )
        for step in steps
    ]
    if benchmark is not None:
        known = {parameter.name: parameter for parameter in declaration.find(benchmark).load().parameters}
        check_names(request.chosen, known, owner=benchmark)
        for arm in arms:
            for name, text in arm.settings.items():
                known[name].parse(text)
    return Experiment(
        experiment_id="",
        benchmark=benchmark,
        tier=None if benchmark is None else tiers.resolve(benchmark, request.tier)[2],
        hooks=list(request.hooks),
        factor=FACTOR,
        arms=arms,
        metric=metric,
        readings=readings_of(request.readings, {metric.name}),
        notes=notes,
        plan=ExperimentPlan(
            seed=draw_seed() if request.seed is None else request.seed,
            blocks=request.blocks,
            budget_s=None if request.budget is None else seconds_of("--budget", request.budget),
            least_effect_ratio=0.01,
            confidence=0.95,
            stop_early=False,
            timeout_s=seconds_of("--timeout", request.timeout),
        ),
        status=RunStatus.RUNNING,
        steelyard_version=steelyard.__version__,
        command=["steelyard", *sys.argv[1:]],
        request=asked_document(request),
        clock=SystemClock().now(),
        orchestrator=this_process(),
        trials=[],
    )


def _at(text: str, cpus: int) -> str:
    return text.replace(_PLACE, str(cpus))


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UsageError(f"--steps {text}: not numbers of CPUs", hint="write them as 1,2,4") from None
