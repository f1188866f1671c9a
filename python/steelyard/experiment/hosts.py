"""Trials on two hosts at once, over ssh: an arm runs on either, and in the next block they change places.

In: two arms, two hosts. Out: what each trial gave. A difference between the hosts (its processor,
its neighbours) weighs on both arms of a pair of blocks alike; such a pair is a block of the answer.

A trial is a command, or a run of a benchmark by the host's own `steelyard`. The host's shell starts it in a
session of its own, measures its time there, and ends it when its standard input ends: when ssh goes, so does
the trial.

Not here: who runs where (``engine``, by the order that ``design`` draws).
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard._base import EnvironmentLacksError
from steelyard.bench.clock import Clock
from steelyard.bench.executor import LocalExecutor, Process
from steelyard.bench.launch import SEED, repeat_seed
from steelyard.bench.load.hosts import HERE
from steelyard.bench.signals import Interrupts
from steelyard.experiment.workload import (
    CPU,
    ELAPSED,
    LOGS,
    Measured,
    ended,
    make_way,
    measured_of_metrics,
    measured_of_output,
    tail,
)
from steelyard.records import Metric, RunStatus, Verdict
from steelyard.records.experiment import Experiment, ExperimentArm

_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_REACH_S = 30.0
_LEAST_S = 1.0
_OUTPUT_BYTES = 16 << 20
"""What is read of a host's output, from its end: a run's document is the longest."""
_END = re.compile(
    r"^steelyard-trial (\d+) (\d+) (\d+)\n.*\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s\n?\Z", re.MULTILINE
)
"""Exit code, begin and end in nanoseconds; then `times`: of the shell, and of its children."""
_SCRIPT = """
exec 3<&0
t0=$(date +%s%N)
setsid {command} </dev/null 3<&- & p=$!
{{ cat <&3; kill -TERM -$p; sleep 5; kill -KILL -$p; }} >/dev/null 2>&1 & w=$!
wait $p; c=$?
t1=$(date +%s%N)
kill $w 2>/dev/null
printf '\\nsteelyard-trial %s %s %s\\n' $c $t0 $t1
times
"""


@dataclass(frozen=True)
class HostTrials:
    """Trials of the arms of an experiment on its hosts."""

    experiment: Experiment
    directory: Path
    clock: Clock
    interrupts: Interrupts

    def measure_together(self, placed: Sequence[tuple[ExperimentArm, str]], block: int) -> list[Measured]:
        """Try each arm on its host, all at once."""
        timeout_s = self.experiment.plan.timeout_s
        processes: list[Process] = []
        try:
            for arm, host in placed:
                log = self.directory / LOGS / f"{block:04}-{arm.name}.log"
                make_way(log)
                command = self._command(arm, host, block)
                processes.append(LocalExecutor().start(f"trial-{arm.name}", command, log=log))
            begin_ns = self.clock.monotonic_ns()
            found = []
            for (arm, host), process in zip(placed, processes, strict=True):
                left_s = max(_LEAST_S, timeout_s - (self.clock.monotonic_ns() - begin_ns) / 1e9)
                reason = ended(process, left_s, clock=self.clock, interrupts=self.interrupts)
                process.stop(0.0)
                found.append(Measured(None, reason) if reason else self._measured(arm, host, process))
        finally:
            for process in processes:
                process.stop(_LEAST_S)
        return found

    def _command(self, arm: ExperimentArm, host: str, block: int) -> list[str]:
        words = arm.command
        if self.experiment.benchmark is not None:
            chosen = {SEED: str(repeat_seed(self.experiment.plan.seed, block + 2)), **arm.settings}
            words = [
                *(self.experiment.remote_command, "run", self.experiment.benchmark, "--json"),
                *("--tier", self.experiment.tier or "quick"),
                *("--out", f"/tmp/steelyard-{self.experiment.experiment_id}"),  # noqa: S108 - on the host
                *(word for name, value in chosen.items() for word in ("--set", f"{name}={value}")),
                *(word for hook in self.experiment.hooks for word in ("--hook", hook)),
            ]
        return on_host(host, self.experiment.ssh, _SCRIPT.format(command=shlex.join(words)))

    def _measured(self, arm: ExperimentArm, host: str, process: Process) -> Measured:
        text = tail(process.log, _OUTPUT_BYTES)
        end = _END.search(text)
        if end is None:
            lines = [line for line in text.splitlines() if line.strip()]
            return Measured(None, f"{host}: {lines[-1] if lines else 'the connection ended'}")
        output, code = text[: end.start()], int(end[1])
        if self.experiment.benchmark is not None:
            return self._of_run(output, host)
        if code != 0:
            lines = [line for line in output.splitlines() if line.strip()]
            message = f": {lines[-1]}" if lines else ""
            return Measured(None, f"{host}: {Path(arm.command[0]).name} exited with code {code}{message}")
        minutes = [float(part) for part in end.groups()[3:]]
        took = {
            ELAPSED: (int(end[3]) - int(end[2])) / 1e9,
            CPU: 60 * (minutes[0] + minutes[2]) + minutes[1] + minutes[3],
        }
        return measured_of_output(self.experiment.metric, self.experiment.plan.guards, took, output)

    def _of_run(self, output: str, host: str) -> Measured:
        """Return the metric of a run that the host's own program has printed."""
        try:
            # Lines of progress may stand around it: they share the connection.
            text = output[output.index("\n{\n" if "\n{\n" in output else "{") :]
            document: Mapping[str, Any] = json.JSONDecoder().raw_decode(text.lstrip())[0]
            run = document["runs"][0]
            if run["status"] != RunStatus.COMPLETE:
                return Measured(None, f"{host}: {run['status_reason']}")
            metrics = {name: Metric.model_validate(one) for name, one in run["metrics"].items()}
            verdict = None if run["verdict"] is None else Verdict.model_validate(run["verdict"])
        except (ValueError, LookupError, TypeError):
            lines = [line for line in output.splitlines() if line.strip()]
            return Measured(None, f"{host}: no run: {lines[-1] if lines else 'nothing was printed'}")
        benchmark, metric = self.experiment.benchmark or "", self.experiment.metric.name
        guards = [guard.name for guard in self.experiment.plan.guards]
        run_id = str(run["run_id"])
        return measured_of_metrics(benchmark, metrics, verdict, metric, guards, run_id=run_id)


def on_host(host: str, ssh: str, script: str) -> list[str]:
    """Return the command that runs a script on a host."""
    if host == HERE:
        return ["sh", "-c", script]
    options = [word for option in _OPTIONS for word in ("-o", option)]
    return [*shlex.split(ssh), *options, "-T", host, "--", f"exec sh -c {shlex.quote(script)}"]


def check_hosts(hosts: Sequence[str], ssh: str) -> None:
    """Raise EnvironmentLacksError for a host that cannot be reached without a question."""
    for host in hosts:
        try:
            done = subprocess.run(
                on_host(host, ssh, "command -v setsid"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_REACH_S,
            )
        except OSError as error:
            raise EnvironmentLacksError(f"host {host}: {ssh}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise EnvironmentLacksError(f"host {host}: no answer in {_REACH_S:.0f} s") from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            why = lines[-1] if lines else "there is no setsid, or no login"
            raise EnvironmentLacksError(f"host {host}: {why}", hint="hosts need a login without a password")
