"""``run_benchmark``: measures this machine where the server was started with ``--allow-run``.

In: a benchmark or a suite and its settings. Out: where its run is. The run is a process of its own, which
ends with the server; when the budget of seconds is used up it is interrupted, and its record says so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from steelyard._base import ResultSaysNoError, UsageError, WorkloadFailedError, executable
from steelyard._base.request import Option
from steelyard.agents.context import Context, Stop
from steelyard.agents.tool import Reply, tool
from steelyard.bench import declaration, tiers
from steelyard.bench.request import HOSTS
from steelyard.report.folders.kinds import kind_of

_POLL_S = 0.1
_ENDING_S = 15.0
"""How long an interrupted run gets to end its processes and to write down why."""
_TIERS = tuple(str(tier) for tier in tiers.TIERS)
_MOST_OUTPUT = 1 << 16
_LINE_BYTES = 400


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What is run."""

    name: Annotated[str, Option("Benchmark or suite, such as tao or quick.")]
    tier: Annotated[str, Option("How long it runs.")] = "smoke"
    settings: Annotated[Mapping[str, str], Option("Parameters of the benchmark by name.")] = field(
        default_factory=dict
    )


@tool(RunRequest, choices={"tier": _TIERS}, measures=True)
def run_benchmark(context: Context, request: RunRequest, stop: Stop) -> Reply:
    """Run a benchmark or a suite on this machine. It takes the machine for itself, and its time is taken from
    the seconds that describe shows. Give the path of the answer to explain_run.
    """
    left_s = context.budget.left_s or 0.0
    if left_s <= 0:
        hint = "more needs a new start of the server with --budget"
        raise ResultSaysNoError("the budget for benchmarks is used up", hint=hint)
    _check(request)
    before = set(context.root.iterdir())
    begun_s = time.monotonic()
    with context.measuring:
        try:
            code, text = _carry_out(_words(context, request), left_s, stop)
        finally:
            context.budget.take(time.monotonic() - begun_s)
    made = [path for path in sorted(set(context.root.iterdir()) - before) if kind_of(path) is not None]
    last = context.message(next(reversed(text.strip().splitlines()), "")[:2000])
    if not made:
        raise WorkloadFailedError(f"nothing was run: exit code {code}: {last}")
    data: dict[str, Any] = {
        "paths": [path.name for path in made],
        "exit_code": code,
        "took_s": round(time.monotonic() - begun_s, 1),
        "seconds_left_for_benchmarks": round(context.budget.left_s or 0.0, 1),
    }
    if code not in (0, 1):
        data["failed"] = last
    return Reply(context.quoted(data))


def _check(request: RunRequest) -> None:
    """Raise UsageError for what is no benchmark, and for settings that reach other machines."""
    _, names, _ = tiers.resolve(request.name, request.tier)
    for name in names:
        declaration.find(name)
    if any(name.rpartition(".")[2] == HOSTS for name in request.settings):
        raise UsageError(f"{HOSTS} is no setting for agents", hint="the load runs on this machine")


def _words(context: Context, request: RunRequest) -> list[str]:
    words = [str(executable("steelyard-exec")), "--die-with-parent", "--"]
    words += [sys.executable, "-m", "steelyard.cli.main", "run", request.name, "--tier", request.tier]
    for name, value in request.settings.items():
        words += ["--set", f"{name}={value}"]
    return [*words, "--out", str(context.root)]


def _carry_out(words: list[str], most_s: float, stop: Stop) -> tuple[int, str]:
    """Run a command for at most ``most_s``; return its exit code and the end of what it said on stderr."""
    until_s = time.monotonic() + most_s
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        try:
            while process.poll() is None and time.monotonic() < until_s and not stop.wanted.is_set():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)
                stop.note = _last_line(said.fileno())
        finally:
            _end(process)
        said.seek(0, 2)
        said.seek(max(0, said.tell() - _MOST_OUTPUT))
        return process.returncode, said.read().decode("utf-8", "replace")


def _last_line(file: int) -> str:
    """Return the last line of what a command has said so far."""
    size = os.fstat(file).st_size
    text = os.pread(file, _LINE_BYTES, max(0, size - _LINE_BYTES)).decode("utf-8", "replace")
    return text.rstrip().rpartition("\n")[2]


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
