"""``steelyard fidelity --calibrate``: runs of a benchmark that are brought near a target.

In: a request. Out: an answer or one JSON document; runs in a folder of their own, with ``calibration.json``.
Not here: the search (``tune.calibration``), reading workloads (``sides``).
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from steelyard._base import (
    ExitCode,
    SteelyardError,
    UsageError,
    WorkloadFailedError,
    replacing,
)
from steelyard._base.documents import Paged, as_document
from steelyard.bench import declaration
from steelyard.bench.clock import SystemClock
from steelyard.bench.declaration import Declaration
from steelyard.bench.launch import SEED, execute, make_run_folder, repeat_seed
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.bench.signals import Interrupts
from steelyard.cli.decide.sides import profile_named, profile_of_one
from steelyard.cli.output import command_line, page_of, print_json, print_path, show_answer
from steelyard.experiment.request.record import seconds_of
from steelyard.experiment.workload import NEIGHBOURS
from steelyard.records import Level
from steelyard.tune.calibration.request import FidelityRequest
from steelyard.tune.calibration.results import Calibration
from steelyard.tune.calibration.search import Calibrator, Plan, Tried
from steelyard.tune.calibration.space import space_of

RECORD = "calibration.json"
_SMOKE = "smoke"
_SEED_BITS = 48


def calibrate_and_show(request: FidelityRequest, *, report: Path | None, as_json: bool) -> int:
    """Calibrate a benchmark to a target and show it; return the exit code."""
    if len(request.words) != 1:
        raise UsageError(
            f"--calibrate takes one target, {len(request.words)} were named",
            hint="steelyard fidelity --calibrate BENCHMARK TARGET",
        )
    assert request.calibrate is not None
    declared = _declared(request.calibrate)
    target = profile_named(request.words[0], request.runs)
    known = [name for name in (*target.metrics, *target.mixes) if target.why_missing(name) is None]
    searched = space_of(declared.load().parameters, declared.search, request.vary, known, owner=declared.name)
    both = next((each.name for each in searched if each.name in request.chosen), None)
    if both is not None:
        raise UsageError(
            f"{both} is set and searched", hint=f"leave out --set {both}, or name others with --vary"
        )
    seed = secrets.randbits(_SEED_BITS) if request.seed is None else request.seed
    clock = SystemClock()
    budget_s = None if request.budget is None else seconds_of("--budget", request.budget)
    folder = make_run_folder(request.out, f"calibrate-{declared.name}", clock)
    plan = Plan(
        declared.name, target, searched, request.trials, request.repeat, seed, folder, request.hold_out
    )
    made = _carried_out(plan, request, declared, clock, budget_s)
    with replacing(folder / RECORD) as partial:
        partial.write_text(json.dumps(as_document(made), indent=2, allow_nan=False) + "\n")
    return _show(made, report, as_json=as_json)


def _declared(name: str) -> Declaration:
    try:
        return declaration.find(name)
    except KeyError as error:
        from steelyard.bench.parameters import nearest

        names = declaration.names()
        raise UsageError(
            f"unknown benchmark {name!r}{nearest(name, names)}", hint=f"benchmarks: {', '.join(names)}"
        ) from error


def _carried_out(
    plan: Plan, request: FidelityRequest, declared: Declaration, clock: SystemClock, budget_s: float | None
) -> Calibration:
    interrupts = Interrupts()
    begin_ns = clock.monotonic_ns()

    def is_over() -> bool:
        spent_s = (clock.monotonic_ns() - begin_ns) / 1e9
        return interrupts.received is not None or (budget_s is not None and spent_s >= budget_s)

    def make(settings: Mapping[str, str], number: int) -> Tried:
        if interrupts.received is not None:
            raise WorkloadFailedError(f"calibration stopped by {interrupts.received}")
        return _run(plan, request, declared, settings, number, clock, interrupts)

    calibrator = Calibrator(plan, make, is_over, lambda text: print(f"steelyard: {text}", file=sys.stderr))
    with interrupts.caught():
        return calibrator.run()


def _run(
    plan: Plan,
    request: FidelityRequest,
    declared: Declaration,
    settings: Mapping[str, str],
    number: int,
    clock: SystemClock,
    interrupts: Interrupts,
) -> Tried:
    """Run the benchmark once; what fails by its settings is a trial without a profile."""
    chosen = {SEED: str(repeat_seed(plan.seed, number + 1)), **request.chosen, **settings}
    asked = RunRequest(
        name=declared.name,
        tier=request.tier or _SMOKE,
        chosen=chosen,
        hooks=request.hooks,
        out=plan.directory / "runs",
    )
    try:
        launched = execute(asked, progress=Silence(), clock=clock, interrupts=interrupts)
    except SteelyardError as error:
        if not settings:
            raise
        return Tried(None, missing=error.message)
    attempt = launched.attempts[0]
    if attempt.error is not None:
        return Tried(None, run_id=attempt.run.run_id, missing=attempt.error.message)
    parameters = {name: each.value for name, each in attempt.run.parameters.items()}
    profile = profile_of_one(attempt.directory)
    verdict = attempt.run.verdict
    objections = [] if verdict is None else [one.id for one in verdict.reasons if one.level is Level.INVALID]
    return Tried(
        replace(profile, notes=()),
        parameters,
        attempt.run.run_id,
        is_disturbed=any(each in NEIGHBOURS for each in objections),
    )


def _show(made: Calibration, report: Path | None, *, as_json: bool) -> int:
    from steelyard.report.decide.calibration import answer

    said = answer(made, command=command_line())
    if as_json:
        print_json(Paged(made, page_of(said, report)))
        return int(ExitCode.OK)
    show_answer(said, report)
    print_path("record", made.directory / RECORD)
    return int(ExitCode.OK)
