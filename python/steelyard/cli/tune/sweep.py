"""``steelyard tune sweep``: a workload over the levels of one knob, with its response curve and knee.

In: what was typed. Out: an experiment whose arms are the levels (ways of a cache, a frequency, huge pages):
its record, and what ``steelyard experiment`` shows of a sweep. Trials change the machine as those of a tuning
do: journal first, read back, put back. Where the host counts, CPI and misses of the last cache stand beside
the curve.

Not here: the curve and its knee (``experiment.response``), choosing a level (``make``).
"""

from __future__ import annotations

import sys
from pathlib import Path

from steelyard._base import ExitCode, UsageError, WorkloadFailedError
from steelyard.bench import undo
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment import begin
from steelyard.cli.experiment.make import carry_out, has_counters_of_sweep, show_experiment
from steelyard.cli.output import complain
from steelyard.cli.tune.make import TIER, Request, check_kind_of_workload, knobs_for
from steelyard.experiment.counting import CommandCounts
from steelyard.experiment.workload import BenchmarkRuns, Commands, Workload
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment, ExperimentArm
from steelyard.tune import session
from steelyard.tune.guards import Guard
from steelyard.tune.knobs import Knob, Risk
from steelyard.tune.trials import KnobTrials


def sweep_and_show(request: Request, *, report: Path | None, as_json: bool) -> int:
    """Try every level of the one knob of ``request``; return the exit code."""
    with session.alone(request.root):
        # What a killed one left behind would be taken for the machine as found.
        for line in undo.replay():
            print(f"steelyard: {line}", file=sys.stderr)
        knob, levels, guards = _knob_of(request)
        experiment = _experiment(request, knob, levels)
        folder = make_run_folder(request.out, f"sweep-{knob.name[:20]}", SystemClock())
        experiment = experiment.model_copy(update={"experiment_id": folder.name})
        interrupts = Interrupts()
        trials = KnobTrials(
            inner=_workload(experiment, folder, guards, interrupts),
            knobs={knob.name: knob},
            guards=guards,
            name=folder.name,
            settle_s=begin.seconds_of("--settle", request.settle, minimum=0.0),
            clock=SystemClock(),
            interrupts=interrupts,
        )
        made, error = carry_out(folder, experiment, trials, interrupts)
    code = show_experiment(folder, made, report, as_json=as_json)
    if error is None and made.status is not RunStatus.COMPLETE:
        error = WorkloadFailedError(f"sweep {made.status_reason}", hint="begin it again: it does not go on")
    if error is not None:
        complain(error)
        return int(ExitCode.FAILED)
    return code


def _knob_of(request: Request) -> tuple[Knob, list[str], list[Guard]]:
    """Return the knob, its levels beginning with the present one, and guardrails of the user's file."""
    knobs, (entry,), _, guards = knobs_for(request, Risk.HIGH)
    knob = knobs[entry.name]
    if entry.reason is not None:
        raise UsageError(f"{entry.name}: {entry.reason}")
    typed = request.knobs[0].partition("=")[2].split(",") if "=" in request.knobs[0] else list(knob.levels)
    levels = sorted(typed, key=lambda level: level != entry.found)
    if len(levels) < 2:
        raise UsageError(f"{entry.name}: a sweep needs two levels", hint=knob.about)
    return knob, levels, guards


def _experiment(request: Request, knob: Knob, levels: list[str]) -> Experiment:
    check_kind_of_workload(request)
    asked = begin.Request(
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
    begin.check_workload(asked, request.benchmark, [request.chosen])
    arms = []
    for level in levels:
        arm = ExperimentArm(name=level, settings=dict(request.chosen), command=list(request.command))
        arms.append(knob.dress(arm, level))
    return begin.record_of(asked, request.benchmark, knob.name, arms)


def _workload(experiment: Experiment, folder: Path, guards: list[Guard], interrupts: Interrupts) -> Workload:
    clock = SystemClock()
    if experiment.live is not None:
        return session.live_trials(experiment, folder, guards, clock, interrupts)
    if experiment.benchmark is None:
        counts = CommandCounts.prepare(folder, has_metrics=True)
        timeout_s = experiment.plan.timeout_s
        return Commands(experiment.metric, folder, timeout_s, clock, interrupts, counts=counts)
    return BenchmarkRuns(
        benchmark=experiment.benchmark,
        tier=experiment.tier or TIER,
        metric=experiment.metric.name,
        directory=folder,
        seed=experiment.plan.seed,
        clock=clock,
        interrupts=interrupts,
        hooks=tuple(experiment.hooks),
        has_readings=has_counters_of_sweep(experiment),
    )
