"""Processes of a run.

In: a command, its CPUs, a log file. Out: a `Process` that reports lines as they come and how it ended.

Invariants: every process is started through ``steelyard-exec --die-with-parent``, which ends it and all its
descendants when this process ends, however that happens; no shell is involved; standard output and error
reach the log file, and the last lines stay in memory for the case that the file cannot be written.

The kernel ties the parent-death signal to the *thread* that started a child (prctl(2), PR_SET_PDEATHSIG), so
processes must be started from a thread that lives as long as the run: the main one.

Not here: what the processes are for.
"""

import collections
import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from steelyard._base import (
    EnvironmentLacksError,
    ExitCode,
    SteelyardError,
    UsageError,
    WorkloadFailedError,
    executable,
    format_cpu_list,
    without_escapes,
)
from steelyard._base.long_logs import release_middle, shorten

_TAIL_BYTES = 16384
_MOST_WAITING = 256 << 20
"""Characters of lines that wait for somebody to read them; of more the first go."""
_OF_A_LINE = 100
"""What a line takes beside its characters."""
_LINE_BYTES = 64 << 20
"""A result is one line: the matrix of a machine with hundreds of CPUs has megabytes."""
_SAID_CHARACTERS = 1 << 12
_LOOK_S = 0.5
"""How often the length of a log is looked at."""
_FRAME = re.compile(r"\s+at \S.*\(.*\)\s*$|\s+\.\.\. \d+ (more|common frames omitted)$")
"""A line of a stack trace as a JVM prints it: what failed stands above."""
_SIGNALLED = 128
"""steelyard-exec, as shells do, reports a process that signal S ended with exit code 128 + S."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: an exit code, or the signal that killed it."""

    exit_code: int | None
    signal: int | None

    @classmethod
    def of(cls, returncode: int) -> "Ending":
        """Return the ending behind a return code of the supervisor."""
        if returncode < 0:
            return cls(None, -returncode)
        if returncode > _SIGNALLED:
            return cls(None, returncode - _SIGNALLED)
        return cls(returncode, None)

    def error_of(self, command: Sequence[str]) -> type[SteelyardError]:
        """Return what kind of failure this is of ``command``, which should not have ended so.

        Our own programs say with 2 that they were called wrongly; what others mean by it nobody knows.
        """
        ours = Path(command[0]).name.startswith("steelyard-")
        return UsageError if ours and self.exit_code == ExitCode.USAGE else WorkloadFailedError

    @property
    def code(self) -> int:
        """Return the exit code as a shell would."""
        return _SIGNALLED + self.signal if self.signal is not None else self.exit_code or 0

    def __str__(self) -> str:
        if self.signal is None:
            return f"exited with code {self.exit_code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(self.signal).name}"
        return f"was killed by signal {self.signal}"


class Process(Protocol):
    """A started process."""

    @property
    def name(self) -> str:
        """Unique in its run."""

    @property
    def command(self) -> Sequence[str]:
        """What was started."""

    @property
    def pid(self) -> int:
        """Id of its supervisor."""

    @property
    def log(self) -> Path:
        """Where its output goes."""

    @property
    def log_error(self) -> str | None:
        """Why the log is not complete, None when it is."""

    def poll(self) -> Ending | None:
        """Return how it ended, None while it runs."""

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that came since the last call, as (``stdout`` or ``stderr``, text)."""

    def last_line(self) -> str | None:
        """Return the last line of standard error that says what went wrong: no JSON, no stack trace."""

    def write(self, text: str) -> None:
        """Write to its standard input."""

    def stop(self, timeout_s: float) -> Ending:
        """Ask it to end with SIGTERM, and kill it after ``timeout_s``."""


class Executor(Protocol):
    """What starts processes."""

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        cpus: Sequence[int] | None = None,
        memory_nodes: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        direct: bool = False,
        grace_s: float | None = None,
    ) -> Process:
        """Start ``command``, confined to ``cpus`` where given, its memory bound to ``memory_nodes``.

        It has ``grace_s`` to end once it was asked to, None: the supervisor's default.

        With ``direct`` its output goes straight to the log, however much it is, and its input is empty:
        for programs whose lines nobody reads while they run.
        """


@dataclass
class LocalProcess:
    """A process on this machine, under its supervisor."""

    name: str
    command: Sequence[str]
    log: Path
    popen: "subprocess.Popen[bytes]"
    log_error: str | None = None
    _lines: "collections.deque[tuple[str, str]]" = field(default_factory=collections.deque)
    _waiting: int = 0
    _looked_s: float = 0.0
    _tail: "collections.deque[str]" = field(default_factory=lambda: collections.deque(maxlen=50))
    _readers: list[threading.Thread] = field(default_factory=list)
    _log_lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, log_file: IO[bytes]) -> None:
        """Start the threads that pass the process's output on."""
        streams = {"stdout": self.popen.stdout, "stderr": self.popen.stderr}
        for stream, source in streams.items():
            if source is None:
                raise AssertionError("both streams are pipes")
            reader = threading.Thread(
                target=self._read, args=(stream, source, log_file), name=f"{self.name}-{stream}", daemon=True
            )
            reader.start()
            self._readers.append(reader)

    def _read(self, stream: str, source: IO[bytes], log_file: IO[bytes]) -> None:
        # A line without an end comes in pieces.
        for raw in iter(partial(source.readline, _LINE_BYTES), b""):
            # A full disk must not stop the reading: the process would block on its pipe.
            with self._log_lock:
                if self.log_error is None:
                    try:
                        log_file.write(raw)
                    except OSError as error:
                        self.log_error = f"{self.log}: {error.strerror}"
            text = raw.decode("utf-8", "replace").rstrip("\n")
            if stream == "stderr" and not text.startswith("{") and _says(text):
                self._tail.append(text[:_SAID_CHARACTERS])
            with self._log_lock:
                self._lines.append((stream, text))
                self._waiting += len(text) + _OF_A_LINE
                while self._waiting > _MOST_WAITING and len(self._lines) > 1:
                    self._waiting -= len(self._lines.popleft()[1]) + _OF_A_LINE

    @property
    def pid(self) -> int:
        """Return the id of the supervisor, whose process group holds nothing else."""
        return self.popen.pid

    def poll(self) -> Ending | None:
        """Return how it ended, None while it runs."""
        self.keep_short()
        code = self.popen.poll()
        return None if code is None else Ending.of(code)

    def keep_short(self) -> None:
        """Give the middle of its log back when that has grown long."""
        now_s = time.monotonic()
        if now_s - self._looked_s > _LOOK_S:
            self._looked_s = now_s
            release_middle(self.log)

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that came since the last call, of very many the last."""
        with self._log_lock:
            lines = list(self._lines)
            self._lines.clear()
            self._waiting = 0
        return lines

    def last_line(self) -> str | None:
        """Return it of standard error, or of the log where that holds all."""
        if self._tail or self._readers:
            return _plain(self._tail[-1]) if self._tail else None
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return None
        return next((_plain(line) for line in reversed(lines) if _says(line)), None)

    def write(self, text: str) -> None:
        """Write to its standard input; a process that has ended is noticed by `poll`, not here."""
        if self.popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.write(text.encode())
                self.popen.stdin.flush()

    def finish_reading(self) -> None:
        """Wait until all output of an ended process has been read."""
        for reader in self._readers:
            reader.join(timeout=2.0)

    def stop(self, timeout_s: float) -> Ending:
        """Ask it to end with SIGTERM, and kill it after ``timeout_s``."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            if self.popen.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    self.popen.send_signal(sent)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.popen.wait(timeout_s)
        ending = Ending.of(self.popen.wait())
        self.finish_reading()
        if self.popen.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.popen.stdin.close()
        with contextlib.suppress(OSError):
            shorten(self.log)
        return ending


def _plain(line: str) -> str:
    return without_escapes(line[:_SAID_CHARACTERS]).strip()


def _says(line: str) -> bool:
    """Return whether a line of output may say what went wrong."""
    return bool(without_escapes(line[:_SAID_CHARACTERS]).strip()) and _FRAME.match(line) is None


class LocalExecutor:
    """Starts processes on this machine."""

    def __init__(self) -> None:
        self._supervisor = executable("steelyard-exec")

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        cpus: Sequence[int] | None = None,
        memory_nodes: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        direct: bool = False,
        grace_s: float | None = None,
    ) -> LocalProcess:
        """Start ``command`` as `Executor` says."""
        if threading.current_thread() is not threading.main_thread():
            raise AssertionError(
                "processes die with the thread that starts them: start them from the main one"
            )
        # By its id: this process may be killed before the supervisor asks whose child it is.
        supervised = [str(self._supervisor), f"--die-with-parent={os.getpid()}"]
        if cpus:
            supervised += ["--cpus", format_cpu_list(cpus)]
        if memory_nodes:
            supervised += ["--memory-nodes", format_cpu_list(memory_nodes)]
        if grace_s is not None:
            supervised += ["--grace", f"{grace_s:.0f}s"]
        try:
            log_file = log.open("ab", buffering=0)
            popen = subprocess.Popen(
                [*supervised, "--", *command],
                stdin=subprocess.DEVNULL if direct else subprocess.PIPE,
                stdout=log_file if direct else subprocess.PIPE,
                stderr=log_file if direct else subprocess.PIPE,
                env={**os.environ, **(environment or {})},
                # Its own group: Ctrl-C at the terminal reaches this process alone, which then stops the
                # others in order.
                process_group=0,
            )
        except OSError as error:
            raise EnvironmentLacksError(f"{name}: cannot be started: {error}") from error
        process = LocalProcess(name=name, command=list(command), log=log, popen=popen)
        if direct:
            log_file.close()
        else:
            process.begin(log_file)
        return process
