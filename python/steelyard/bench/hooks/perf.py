"""Hook ``perf``: runs a subcommand of perf over the servers' processes in the measure phase.

In: the words after ``perf``, as ``stat -e context-switches``. Out: what perf wrote, ``perf.out`` in the run's
directory, and ``logs/hook-perf.log``. The servers' processes (``-p``) and the output file (``-o``) are added
unless the words name a target or a file of their own.
"""

import shlex
import shutil
from typing import ClassVar

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError
from steelyard.bench.children import descendants_of
from steelyard.bench.hook import Hook, HookContext, ProcessHandle
from steelyard.bench.parameters import Parameter, Settings

FILE = "perf.out"
_FINISH_S = 60.0
_TARGETS = ("-p", "--pid", "-t", "--tid", "-a", "--all-cpus", "-C", "--cpu", "-G", "--cgroup", "--")
_OUTPUTS = ("-o", "--output")
_INTERRUPTED = (0, 130)
"""perf reports the interrupt that ends it, or not, by subcommand."""


class PerfHook(Hook):
    """Starts perf before the measure phase and interrupts it at the end."""

    doc = "runs a subcommand of perf over the servers' processes in the measure phase"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("args", "text", "subcommand of perf with its options, as stat -e context-switches"),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._process: ProcessHandle | None = None
        try:
            self._words = shlex.split(options.text("args"))
        except ValueError as error:
            raise UsageError(f"hook perf: args={options.text('args')!r}: {error}") from error
        if not self._words or self._words[0].startswith("-"):
            raise UsageError(
                "hook perf: args names no subcommand", hint="--hook 'perf:args=\"stat -e context-switches\"'"
            )

    def before_measure(self, context: HookContext) -> None:
        """Start perf."""
        program = shutil.which("perf")
        if program is None:
            raise EnvironmentLacksError(
                "perf is not installed", hint="apt install linux-perf, or your distribution's package of it"
            )
        words = list(self._words)
        file = context.directory / FILE
        added: list[str] = []
        if not any(_is_one_of(word, _TARGETS) for word in words):
            pids = [
                str(each) for pid in context.processes_of("server").values() for each in descendants_of(pid)
            ]
            if not pids:
                raise WorkloadFailedError("no server runs that perf could look at")
            added += ["-p", ",".join(pids)]
        if not any(_is_one_of(word, _OUTPUTS) for word in words):
            added += ["-o", str(file)]
        command = [program, words[0], *added, *words[1:]]
        context.record("command", shlex.join(command))
        self._process = context.start_process("hook-perf", command, grace_s=_FINISH_S, may_end=True)

    def after_measure(self, context: HookContext) -> None:
        """Interrupt perf, and wait until it has written its file."""
        if self._process is None:
            return
        context.interrupt_process(self._process)
        code = context.wait_process(self._process, _FINISH_S)
        file = context.directory / FILE
        if file.is_file():
            context.add_artifact("perf", file)
        if code not in _INTERRUPTED:
            line = context.last_line(self._process)
            why = f": {line}" if line else ""
            raise WorkloadFailedError(f"perf {self._words[0]} ended with code {code}{why}")


def _is_one_of(word: str, flags: tuple[str, ...]) -> bool:
    """Return whether a word is one of the flags, with or without its value.

    >>> _is_one_of("--pid=3", ("-p", "--pid")), _is_one_of("-p3", ("-p",)), _is_one_of("--per-core", ("-p",))
    (True, True, False)
    """
    return any(
        word == flag or word.startswith(f"{flag}=" if flag.startswith("--") else flag)
        for flag in flags
        if flag != "--" or word == "--"
    )
