"""A new NUMA experiment from what was asked.

In: `ScenarioRequest`. Out: its scenarios, and the record of an experiment without trials, or of figures that
were measured elsewhere. Raises UsageError and EnvironmentLacksError for anything that cannot be one. Not
here: what the scenarios say (``experiment.numa.verdict``).
"""

from dataclasses import fields
from pathlib import Path

from steelyard._base import EnvironmentLacksError, UsageError, parse_cpu_list
from steelyard._base.request import asked_document
from steelyard.bench import declaration
from steelyard.bench.placement.request import binding_refusal, live_layout, recorded_layout
from steelyard.experiment.numa import design
from steelyard.experiment.numa.scenarios import Scenarios, scenarios_of
from steelyard.experiment.request.fields import ExperimentRequest, ScenarioRequest
from steelyard.experiment.request.record import check_workload, record_of
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentMetric


def begin(request: ScenarioRequest) -> Experiment:
    """Return the record of a new experiment."""
    from steelyard.bench.colocation.workload import workload_of

    words = request.words
    if not words:
        raise UsageError(
            "a NUMA experiment needs a benchmark or a command",
            hint="such as: steelyard numa experiment --with 'COMMAND' -- COMMAND",
        )
    benchmark = words[0] if len(words) == 1 and words[0] in declaration.names() else None
    scenarios = scenarios_asked(request)
    for co_runner in request.co_runners:
        workload_of(co_runner)
    command = [] if benchmark is not None else list(words)
    shared = _shared(request)
    check_workload(shared, benchmark, [request.chosen])
    arms = design.arms_of(scenarios, request.co_runners, settings=request.chosen, command=command)
    # A kernel that does not let memory be bound to the nodes is known before the first trial.
    refusal = binding_refusal([scenarios.first_node, scenarios.second_node])
    if refusal is not None:
        raise EnvironmentLacksError(refusal)
    record = record_of(shared, benchmark, design.FACTOR, arms, design.pairs_of(arms))
    return record.model_copy(update={"request": asked_document(request)})


def scenarios_asked(request: ScenarioRequest) -> Scenarios:
    """Return the scenarios on this machine or the recorded one."""
    nodes = None
    if request.nodes is not None:
        nodes = parse_cpu_list(request.nodes)
        if nodes is None:
            raise UsageError(f"--nodes {request.nodes!r} is no list of nodes", hint="such as --nodes 0,1")
    layout = live_layout() if request.root is None else recorded_layout(request.root)
    return scenarios_of(layout, nodes=nodes, cores=request.cores, every_thread=request.every_thread)


def read_elsewhere(request: ScenarioRequest, path: Path) -> Experiment:
    """Return the figures of a file as an experiment that is over."""
    from steelyard.experiment.numa.figures import read_figures

    figures = read_figures(path)
    better = "lower" if request.lower_is_better else "higher"
    record = record_of(_shared(request), None, design.FACTOR, figures.arms, design.pairs_of(figures.arms))
    return record.model_copy(
        update={
            "experiment_id": path.name,
            "metric": ExperimentMetric(name=figures.metric, unit="1", better=better),
            # Nobody has looked before the end: the interval of one look holds.
            "plan": record.plan.model_copy(update={"blocks": figures.blocks, "stop_early": False}),
            "status": RunStatus.COMPLETE,
            "trials": figures.trials,
        }
    )


def _shared(request: ScenarioRequest) -> ExperimentRequest:
    """Return what every experiment is asked."""
    names = {each.name for each in fields(ExperimentRequest)} & {each.name for each in fields(request)}
    return ExperimentRequest(**{name: getattr(request, name) for name in names - {"plan", "root"}})
