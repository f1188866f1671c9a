"""What a trial of a scenario does: starts the co-runner, runs X in its place, reads back where both were.

In: an arm with a placement. Out: `Measured`, with what was read back; without that proof there is no value.

X is a command, or a benchmark whose servers and load are on X's CPUs together. A co-runner is one of both
too: it is begun again until X has ended, its memory is where the kernel puts it, which is by default near
its CPUs.

Invariant: the co-runner is under way before X starts, and ends after it.

Not here: where that is (``scenarios``), intervals.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard._base import ExitCode, RecordError, UsageError, parse_cpu_list
from steelyard._base.request import asked_document
from steelyard.bench import declaration
from steelyard.bench.children import descendants_of
from steelyard.bench.clock import Clock
from steelyard.bench.colocation.lengths import PARAMETER as MEASURE
from steelyard.bench.colocation.member import answer_path
from steelyard.bench.colocation.workload import COMMAND, workload_of
from steelyard.bench.command import loop
from steelyard.bench.command.benchmark import words
from steelyard.bench.executor import LocalExecutor, Process
from steelyard.bench.launch import SEED, repeat_seed
from steelyard.bench.placement.parameters import BINDING
from steelyard.bench.request import RunRequest
from steelyard.bench.signals import Interrupts
from steelyard.experiment.numa.read_back import Watch
from steelyard.experiment.workload import (
    LOGS,
    RUNS,
    Commands,
    Measured,
    ended,
    make_way,
    measured_of,
    placed,
)
from steelyard.machine.tree import Tree
from steelyard.records import Run, read
from steelyard.records.experiment import Experiment, ExperimentArm, ExperimentPlacement

CO_RUNS = "co-runs"
"""Folder of what co-runners left."""
_LONGEST_S = 86_400.0
_SETTLE_S = 1.0
"""A command is under way as a co-runner after this time."""
_STOP_S = 15.0
_TICK_S = 0.05
_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 2.0


@dataclass
class _Looks:
    """Looks at X and its co-runner: often at first, so that short commands are seen, then seldom."""

    x: Watch
    tree: Tree
    co_runner: Watch | None = None
    beside: Process | None = None
    wait_s: float = _FIRST_LOOK_S

    def look(self, pid: int) -> float:
        """Look once; return after how many seconds to look again."""
        before = self.x.looks
        self.x.look(self.tree, descendants_of(pid))
        if self.co_runner is not None and self.beside is not None:
            self.co_runner.look(self.tree, descendants_of(self.beside.pid))
        if self.x.looks > before:
            self.wait_s = min(2 * self.wait_s, _LAST_LOOK_S)
        return self.wait_s


@dataclass(frozen=True)
class ScenarioTrials:
    """Trials of an experiment whose arms are scenarios."""

    experiment: Experiment
    directory: Path
    clock: Clock
    interrupts: Interrupts
    tree: Tree = Tree()  # noqa: RUF009 - it has no state but its root

    def measure(self, arm: ExperimentArm, block: int) -> Measured:
        """Try a scenario once."""
        place = arm.placement
        if place is None:
            raise AssertionError("every arm is a scenario")
        cpus, nodes = placed(arm)
        looks = _Looks(Watch(cpus, nodes), self.tree)
        try:
            with self._co_runner(arm, place, block) as beside:
                if beside is not None:
                    looks.co_runner, looks.beside = (
                        Watch(parse_cpu_list(place.co_runner_cpus or "") or []),
                        beside,
                    )
                made = self._x(arm, block, looks)
                if beside is not None and beside.poll() is not None:
                    return Measured(None, self._gone(place, beside))
        except _NotBegunError as error:
            return Measured(None, str(error))
        return self._proven(made, looks)

    def _proven(self, made: Measured, looks: _Looks) -> Measured:
        """Return the value with its proof; without the proof there is none."""
        co_runner = looks.co_runner
        made = replace(
            made,
            read_back=looks.x.record(),
            co_runner_read_back=None if co_runner is None else co_runner.record(),
        )
        if made.value is None:
            return made
        objection = looks.x.objection()
        if objection is None and co_runner is not None and (reason := co_runner.objection()) is not None:
            objection = f"its co-runner: {reason}"
        return made if objection is None else replace(made, value=None, reason=objection)

    def _x(self, arm: ExperimentArm, block: int, looks: _Looks) -> Measured:
        plan = self.experiment.plan
        if self.experiment.benchmark is None:
            commands = Commands(
                self.experiment.metric,
                self.directory,
                plan.timeout_s,
                self.clock,
                self.interrupts,
                look=looks.look,
            )
            return commands.measure(arm, block)
        chosen = {SEED: str(repeat_seed(plan.seed, block + 2)), **arm.settings}
        request = _unbound(self.experiment.benchmark, self.experiment.tier, chosen)
        request = replace(request, hooks=self.experiment.hooks, out=self.directory / RUNS)
        label = f"{block:04}-{_plain(arm.name)}"
        cpus, nodes = placed(arm)
        file = _written(request, self.directory / RUNS / "requests" / f"{label}.json")
        process = LocalExecutor().start(
            f"trial-{arm.name}",
            _member(file),
            log=self._log(label),
            direct=True,
            cpus=cpus,
            memory_nodes=nodes,
        )
        reason = ended(process, plan.timeout_s, clock=self.clock, interrupts=self.interrupts, look=looks.look)
        process.stop(0.0)
        return Measured(None, reason) if reason is not None else self._answer(file, process)

    def _answer(self, file: Path, process: Process) -> Measured:
        """Return what a run of a benchmark gave. Raises UsageError for what no trial can run."""
        try:
            answer = json.loads(answer_path(file).read_text())
        except OSError:
            return Measured(None, process.last_line() or "its run left no answer")
        if answer.get("exit_code") == ExitCode.USAGE:
            raise UsageError(answer["message"], hint=answer.get("hint"))
        if "message" in answer:
            return Measured(None, answer["message"], run_id=answer.get("run_id"))
        run = read(Run, self.directory / RUNS / answer["run_id"] / "run.json")
        return measured_of(run, self.experiment.metric.name)

    @contextlib.contextmanager
    def _co_runner(
        self, arm: ExperimentArm, place: ExperimentPlacement, block: int
    ) -> Iterator[Process | None]:
        """Have the co-runner of an arm under way; None where it has none."""
        if place.co_runner is None:
            yield None
            return
        workload = workload_of(place.co_runner)
        label = f"{block:04}-{_plain(arm.name)}"
        folder = self.directory / CO_RUNS / label
        folder.mkdir(parents=True, exist_ok=True)
        if workload.benchmark == COMMAND:
            again = words(workload.chosen["command"])
        else:
            request = _unbound(workload.benchmark, self.experiment.tier, dict(workload.chosen), forever=True)
            again = _member(_written(replace(request, out=folder), folder / "request.json"))
        process = LocalExecutor().start(
            f"co-runner-{arm.name}",
            [sys.executable, "-I", str(Path(loop.__file__)), str(folder / "iterations.txt"), *again],
            log=self._log(f"{label}-co-runner"),
            cpus=parse_cpu_list(place.co_runner_cpus or "") or [],
            direct=True,
        )
        try:
            self._begun(place, process, folder if workload.benchmark != COMMAND else None)
            yield process
        finally:
            process.stop(_STOP_S)

    def _begun(self, place: ExperimentPlacement, process: Process, runs: Path | None) -> None:
        """Wait until a co-runner is under way: a benchmark measures, a command has had a second."""
        begin_ns = self.clock.monotonic_ns()
        limit_s = self.experiment.plan.timeout_s if runs is not None else _SETTLE_S
        while self.clock.monotonic_ns() - begin_ns < limit_s * 1e9:
            if self.interrupts.received is not None:
                raise _NotBegunError(f"stopped by {self.interrupts.received}")
            if process.poll() is not None:
                raise _NotBegunError(self._gone(place, process))
            if runs is not None and any(_measures(path) for path in runs.glob("*/run.json")):
                return
            self.clock.sleep(_TICK_S)
        if runs is not None:
            raise _NotBegunError(f"co-runner {place.co_runner} did not begin to measure in {limit_s:g} s")

    def _gone(self, place: ExperimentPlacement, process: Process) -> str:
        message = process.last_line()
        return f"co-runner {place.co_runner} {process.stop(0.0)}" + (f": {message}" if message else "")

    def _log(self, label: str) -> Path:
        path = self.directory / LOGS / f"{label}.log"
        make_way(path)
        return path


class _NotBegunError(Exception):
    """The co-runner is not under way."""


def _unbound(
    benchmark: str, tier: str | None, chosen: dict[str, str], *, forever: bool = False
) -> RunRequest:
    """Return a request for a run that takes CPUs and memory as it gets them from its parent."""
    known = {parameter.name: parameter for parameter in declaration.find(benchmark).load().parameters}
    if BINDING in known:
        chosen[BINDING] = "none"
    if forever and MEASURE in known and MEASURE not in chosen:
        longest = known[MEASURE].maximum
        chosen[MEASURE] = f"{_LONGEST_S if longest is None else min(longest, _LONGEST_S):g}"
    return RunRequest(name=benchmark, tier=tier, chosen=chosen)


def _written(request: RunRequest, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    answer_path(path).unlink(missing_ok=True)
    path.write_text(json.dumps(asked_document(request)))
    return path


def _member(file: Path) -> list[str]:
    return [sys.executable, "-m", "steelyard.bench.colocation.member", str(file)]


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _measures(path: Path) -> bool:
    with contextlib.suppress(RecordError):
        return any(phase.name == MEASURE for phase in read(Run, path).phases)
    return False
