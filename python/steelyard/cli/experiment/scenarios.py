"""``steelyard numa experiment``: plans, makes or shows one, and holds it beside a fleet's finding.

In: a request. Out: a table or one JSON document, the record in its folder, a page. Not here: scenarios
and verdicts (``steelyard.experiment.numa``), drawing (``report.experiment.scenarios``).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from steelyard import machine as machines
from steelyard._base import (
    ExitCode,
    ResultSaysNoError,
    UsageError,
    command_text,
)
from steelyard._base.documents import Paged
from steelyard._base.request import resumed
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment import make
from steelyard.cli.output import page_of, print_json, print_path, show_answer
from steelyard.experiment import engine
from steelyard.experiment.numa import design
from steelyard.experiment.numa.production import Production, agreements, finding_of
from steelyard.experiment.numa.result import NumaExperiment
from steelyard.experiment.numa.scenarios import NumaPlan
from steelyard.experiment.numa.verdict import verdicts
from steelyard.experiment.numa.workload import ScenarioTrials
from steelyard.experiment.request.fields import ScenarioRequest
from steelyard.experiment.request.scenarios import begin, read_elsewhere, scenarios_asked
from steelyard.fleet.numa.locality import Locality
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment

RESUME = ("steelyard", "numa", "experiment", "--resume")
"""The command that goes on with a NUMA experiment, without its folder."""


def experiment_and_show(
    request: ScenarioRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Plan, make, resume or show; ``given`` are the fields that were typed. Return the exit code."""
    if request.root is not None and not request.plan:
        raise UsageError("--root is for --plan: nothing can run on a recorded machine")
    if (request.store is None) != (request.job is None):
        raise UsageError("--from-fleet and --job belong together")
    if request.plan:
        return _show_plan(request, as_json=as_json)
    # A store that has no such job is found before hours of trials.
    locality = None if request.store is None else _of_fleet(request)
    folder, experiment = _which(request, given)
    if folder is None and request.figures is None:
        folder = make_run_folder(request.out, "experiment-numa", SystemClock())
        experiment = experiment.model_copy(update={"experiment_id": folder.name})
    elif request.resume is None:
        return show(folder, experiment, report, as_json=as_json, locality=locality)
    assert folder is not None
    interrupts = Interrupts()
    trials = ScenarioTrials(experiment, folder, SystemClock(), interrupts)
    experiment, error = make.carry_out(folder, experiment, trials, interrupts)
    code = show(folder, experiment, report, as_json=as_json, locality=locality)
    return make.code_of(folder, experiment, error, code, resume=RESUME)


def _which(request: ScenarioRequest, given: Collection[str]) -> tuple[Path | None, Experiment]:
    """Return the experiment that was asked for, with its folder where it has one already."""
    words = request.words
    if request.figures is not None:
        if words or request.resume or request.co_runners:
            raise UsageError("--from takes its scenarios from the file: no command, co-runner or folder")
        return None, read_elsewhere(request, request.figures)
    if request.resume is not None:
        make.put_back()
        experiment = engine.load_to_resume(request.resume, machines.snapshot())
        resumed(experiment.request, request, given, words=[*RESUME, str(request.resume)])
        return request.resume, _numa(request.resume, experiment)
    if len(words) == 1 and (Path(words[0]) / engine.MANIFEST).exists():
        return Path(words[0]), _numa(Path(words[0]), engine.load(Path(words[0])))
    make.put_back()
    return None, begin(request)


def _numa(folder: Path, experiment: Experiment) -> Experiment:
    if not design.is_numa(experiment):
        raise UsageError(
            f"{folder} is no NUMA experiment",
            hint=f"{command_text(['steelyard', 'experiment', folder])} shows it",
        )
    return experiment


def _of_fleet(request: ScenarioRequest) -> Locality:
    """Return the fleet's finding of a job."""
    from steelyard.cli.fleet.options import opened
    from steelyard.fleet.numa.locality import numa

    assert request.store is not None
    assert request.job is not None
    with opened(request.store) as store:
        try:
            found = numa(store.table("task_samples"), jobs=[request.job])
        except ResultSaysNoError as error:
            raise ResultSaysNoError(f"job {request.job}: {error.message}", hint=error.hint) from error
    return finding_of(found.effects, request.job, request.fleet_metric)


def show(
    folder: Path | None,
    experiment: Experiment,
    report: Path | None,
    *,
    as_json: bool,
    locality: Locality | None = None,
) -> int:
    """Show verdicts; return 0 where every one is known and production does not disagree, else 1."""
    from steelyard.report.experiment.scenarios_answer import answer

    is_over = experiment.status is RunStatus.COMPLETE
    known = verdicts(experiment, is_over=is_over)
    agreed = (
        []
        if locality is None
        else agreements(locality, known[0], least_effect_ratio=experiment.plan.least_effect_ratio)
    )
    said = answer(experiment, known, locality, agreed)
    if as_json:
        page = page_of(said, report)
        production = None if locality is None else Production(locality.job, locality.metric, agreed)
        print_json(Paged(NumaExperiment.of(experiment, folder, known, production), page))
        return int(said.says_no)
    code = show_answer(said, report)
    if folder is not None:
        print_path("record", folder / engine.MANIFEST)
    return code


def _show_plan(request: ScenarioRequest, *, as_json: bool) -> int:
    scenarios = scenarios_asked(request)
    if as_json:
        print_json(NumaPlan("live" if request.root is None else str(request.root), scenarios))
        return int(ExitCode.OK)
    from steelyard.report.experiment.scenarios import plan_answer

    command = request.words or ("COMMAND",)
    show_answer(plan_answer(scenarios, command, request.co_runners or ("CO-RUNNER",)), None)
    return int(ExitCode.OK)
