"""One process per CPU, each pinned to its CPU, from a queue of commands.

In: CPUs, and tasks: a command with the files that it may open. Out: how each ended, with its CPU time and
memory.

Invariants: a task runs on the CPU of its worker only; `Crew.stop` ends running tasks at once and starts no
more; the first task that fails stops all, and `Crew.failure` says which it was.

Not here: what the commands are (``jobs``), and what follows from their results (``pool``).
"""

import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from steelyard.bench.limits.memory import MemoryLimit

_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class Task:
    """A command to run; ``files`` stay open in it under their numbers."""

    label: str
    command: list[str]
    files: tuple[int, ...] = ()
    kind: int = 0
    output: "IO[bytes] | None" = None


@dataclass(frozen=True, slots=True)
class Done:
    """How a task ended. ``begin_ns`` is when its worker was free for it."""

    task: Task
    cpu: int
    begin_ns: int
    end_ns: int
    usage: resource.struct_rusage
    stdout: str
    stderr: str


class Crew:
    """Workers, one per CPU."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.cpus = list(cpus)
        self.failure: str | None = None
        self.stopped: list[Done] = []
        self.lock = threading.Lock()
        self._running: dict[int, int] = {}
        self._stopping = False
        self._memory = MemoryLimit.of_this_process()

    def run(self, take: Callable[[], Task | None], done: Callable[[Done], object]) -> list[threading.Thread]:
        """Start workers that run what ``take`` returns until it returns None or `stop` is called.

        Both functions are called with `lock` held.
        """
        self._stopping = False
        begin_ns = time.monotonic_ns()
        workers = [
            threading.Thread(target=self._work, args=(cpu, begin_ns, take, done), name=f"cpu-{cpu}")
            for cpu in self.cpus
        ]
        for worker in workers:
            worker.start()
        return workers

    def run_all(self, tasks: Sequence[Task], done: Callable[[Done], object] = lambda one: None) -> None:
        """Run every task once and return when all have ended. `failure` tells of the first that failed."""
        left = list(reversed(tasks))
        for worker in self.run(lambda: left.pop() if left else None, done):
            worker.join()

    def stop(self) -> None:
        """End running tasks at once and start no more."""
        with self.lock:
            self._stopping = True
            for pid in self._running.values():
                os.kill(pid, signal.SIGKILL)

    def fail(self, reason: str) -> None:
        """Say why the work cannot go on, unless something else said so before, and stop all."""
        with self.lock:
            self.failure = self.failure or reason
        self.stop()

    def _work(
        self, cpu: int, begin_ns: int, take: Callable[[], Task | None], done: Callable[[Done], object]
    ) -> None:
        try:
            # Of this thread alone; the processes that it starts inherit it.
            os.sched_setaffinity(0, {cpu})
            while (one := self._next(cpu, begin_ns, take)) is not None:
                begin_ns = one.end_ns
                with self.lock:
                    if self._stopping:
                        return
                    done(one)
        except Exception as error:
            self.fail(f"CPU {cpu}: {type(error).__name__}: {error}")

    def _next(self, cpu: int, begin_ns: int, take: Callable[[], Task | None]) -> Done | None:
        """Run one task; return None when there is none, or when it did not end well."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            with self.lock:
                task = None if self._stopping else take()
                if task is None:
                    return None
                process = subprocess.Popen(
                    task.command,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=task.files,
                )
                self._running[cpu] = process.pid
            # Nobody else may get the number of a process that `stop` is about to end: it is freed under lock.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            end_ns = time.monotonic_ns()
            with self.lock:
                del self._running[cpu]
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                one = Done(task, cpu, begin_ns, end_ns, usage, _tail(stdout), _tail(stderr))
                if self._stopping:
                    self.stopped.append(one)
                    return None
        if process.returncode != 0:
            self.fail(f"{task.label}: {self._reason(task, process.returncode, one.stderr)}")
            return None
        return one

    def _reason(self, task: Task, code: int, stderr: str) -> str:
        program = os.path.basename(task.command[0])
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"signal {-code}"
            limit = ""
            if self._memory.kills_since_start():
                limit = f": the memory limit of {self._memory.text} was reached"
            return f"{program} was killed by {name}{limit}"
        lines = [line for line in stderr.splitlines() if line.strip()]
        return f"{program} exited with code {code}" + (f": {lines[-1].strip()}" if lines else "")


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode("utf-8", "replace")
