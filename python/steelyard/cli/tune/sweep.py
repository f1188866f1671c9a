"""``steelyard tune sweep``: a workload over the levels of one knob, with its response curve and knee.

In: a request. Out: an experiment whose arms are the levels (ways of a cache, a frequency, huge pages):
its record, and what ``steelyard experiment`` shows of a sweep. Trials change the machine as those of a tuning
do: journal first, read back, put back. Where the host counts, CPI and misses of the last cache stand beside
the curve.

Not here: the curve and its knee (``experiment.response``), choosing a level (``make``).
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from steelyard._base import ExitCode, WorkloadFailedError
from steelyard.bench import undo
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import make_run_folder
from steelyard.bench.signals import Interrupts
from steelyard.cli.experiment.make import carry_out, has_counters_of_sweep, show_experiment
from steelyard.cli.output import complain
from steelyard.experiment.counting import CommandCounts
from steelyard.experiment.request.record import seconds_of
from steelyard.experiment.workload import BenchmarkRuns, Commands, Workload
from steelyard.records import RunStatus
from steelyard.records.experiment import Experiment
from steelyard.tune import session
from steelyard.tune.begin import TIER, begin_sweep
from steelyard.tune.guards import Guard
from steelyard.tune.request import SweepRequest
from steelyard.tune.trials import KnobTrials


def sweep_and_show(
    request: SweepRequest, given: Collection[str], *, report: Path | None, as_json: bool
) -> int:
    """Try every level of the one knob of ``request``; return the exit code."""
    with session.alone(request.root):
        # What a killed one left behind would be taken for the machine as found.
        for line in undo.replay():
            print(f"steelyard: {line}", file=sys.stderr)
        experiment, knob, guards = begin_sweep(request)
        folder = make_run_folder(request.out, f"sweep-{knob.name[:20]}", SystemClock())
        experiment = experiment.model_copy(update={"experiment_id": folder.name})
        interrupts = Interrupts()
        trials = KnobTrials(
            inner=_workload(experiment, folder, guards, interrupts),
            knobs={knob.name: knob},
            guards=guards,
            name=folder.name,
            settle_s=seconds_of("--settle", request.settle, minimum=0.0),
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
