"""Hook ``command``: runs commands at moments of the run.

In: a command line per moment. Out: ``logs/command-<moment>.log``. Command lines are split as a shell would
and started without one: no pipes, no variables.
"""

import shlex
from typing import ClassVar

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.bench.hook import MOMENTS, Hook, HookContext
from steelyard.bench.parameters import Parameter, Settings

_WHEN = {
    "before_run": "before anything starts",
    "after_start": "when the servers answer",
    "before_measure": "when the warm-up has ended",
    "after_measure": "when the measure phase has ended, servers still up",
    "after_run": "when everything has ended",
}


class CommandHook(Hook):
    """Runs one command at each moment that has one, and waits for it."""

    doc = "runs commands before, in and after the run"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        *(Parameter(moment, "text", f"command to run {_WHEN[moment]}", default="") for moment in MOMENTS),
        Parameter(
            "timeout",
            "seconds",
            "time that each command may take",
            default=60.0,
            minimum=0.1,
            maximum=86400.0,
        ),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._commands: dict[str, list[str]] = {}
        for moment in MOMENTS:
            try:
                self._commands[moment] = shlex.split(options.text(moment))
            except ValueError as error:
                raise UsageError(f"hook command: {moment}={options.text(moment)!r}: {error}") from error

    def _run(self, moment: str, context: HookContext) -> None:
        command = self._commands[moment]
        if not command:
            return
        process = context.start_process(f"command-{moment.replace('_', '-')}", command)
        code = context.wait_process(process, self.options.number("timeout"))
        context.record(moment, shlex.join(command))
        if code != 0:
            raise WorkloadFailedError(f"{shlex.join(command)} ended with code {code}")

    def before_run(self, context: HookContext) -> None:
        """Run the command of this moment."""
        self._run("before_run", context)

    def after_start(self, context: HookContext) -> None:
        """Run the command of this moment."""
        self._run("after_start", context)

    def before_measure(self, context: HookContext) -> None:
        """Run the command of this moment."""
        self._run("before_measure", context)

    def after_measure(self, context: HookContext) -> None:
        """Run the command of this moment."""
        self._run("after_measure", context)

    def after_run(self, context: HookContext) -> None:
        """Run the command of this moment."""
        self._run("after_run", context)
