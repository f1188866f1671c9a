"""Hook ``profile``: samples stacks of servers and load in the measure phase.

In: samples a second. Out: ``profile.folded`` of the servers and ``profile-load.folded`` of the load, samples
of the measure phase only.

All CPUs are sampled, which costs nothing when threads take turns, and what does not descend from this run's
processes is dropped as it comes. Where the kernel lets this user sample own processes only, those that are
there when sampling begins are sampled, with those that they make.

Invariant: what cannot be sampled is written down with its reason, and is no problem of the run.
"""

import os
from pathlib import Path
from typing import ClassVar

from steelyard._base import SteelyardError
from steelyard.analyze.run_files import PROFILES
from steelyard.bench.children import descendants_of
from steelyard.bench.hook import SIDES, Hook, HookContext, ProcessHandle
from steelyard.bench.parameters import Parameter, Settings
from steelyard.bench.recorders import java_names, stacks

_ALL = "profile-all.folded"
_PROCESS = "hook-profile"


class ProfileHook(Hook):
    """Runs ``steelyard-profile record`` from just before the measure phase to its end."""

    doc = "samples stacks of servers and load (always on)"
    always: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("enabled", "flag", "whether to sample at all", default=True),
        Parameter("hz", "count", "samples a second and CPU", default=99, minimum=1, maximum=10_000),
        Parameter(
            "call_graph", "choice", "how stacks are walked", default="fp", choices=("fp", "dwarf", "none")
        ),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._process: ProcessHandle | None = None

    def before_measure(self, context: HookContext) -> None:
        """Begin to sample; the samples before the phase are dropped in the end."""
        context.record("enabled", self.options.flag("enabled"))
        if not self.options.flag("enabled"):
            context.record("missing", "turned off (enabled=false)")
            return
        from steelyard.machine import attempts

        scope = ["--all"]
        if attempts.counter_of_all_processes() is not None:
            scope = [word for pid in _processes(context) for word in ("--pid", str(pid))]
        hz = self.options.count("hz")
        try:
            command = stacks.sampling_command(
                [*scope, "--descendants-of", str(os.getpid())],
                hz=hz,
                call_graph=self.options.text("call_graph"),
                files=stacks.files_at(context.directory, folded=_ALL, has_times=True),
            )
        except SteelyardError as error:
            context.record("missing", f"{error.message} ({error.hint})")
            return
        context.record("hz", hz)
        context.record("scope", "cpu" if scope == ["--all"] else "process")
        grace_s = stacks.FINISH_S
        self._process = context.start_process(_PROCESS, command, grace_s=grace_s, may_end=True)

    def after_measure(self, context: HookContext) -> None:
        """Have the stacks named while their processes still run, and part them by side."""
        if self._process is None:
            return
        with java_names.written(_processes(context), context.wait) as reasons:
            if reasons:
                context.record("no_java_names", [*reasons])
            context.interrupt_process(self._process)
            try:
                code = context.wait_process(self._process, stacks.FINISH_S)
            except SteelyardError as error:
                context.record("missing", error.message)
                return
        if not (context.directory / _ALL).is_file():
            reason = stacks.reason_of(context.last_line(self._process), f"ended with code {code}")
            context.record("missing", reason)

    def after_run(self, context: HookContext) -> None:
        """Part the samples of the measure phase by side."""
        whole, measured = context.directory / _ALL, context.measured
        if not whole.is_file():
            return
        from steelyard.analyze.profiles.times import TIMES, write_by_child

        try:
            if measured is not None:
                files = {pid: context.directory / PROFILES[side] for pid, side in context.sides().items()}
                samples = write_by_child(whole, files, *measured)
                for side in SIDES:
                    self._tell(context, side, context.directory / PROFILES[side], samples)
        except SteelyardError as error:
            context.record("missing", error.message)
        finally:
            whole.unlink()
            whole.with_suffix(TIMES).unlink(missing_ok=True)

    @staticmethod
    def _tell(context: HookContext, side: str, file: Path, samples: dict[Path, int]) -> None:
        count = samples.get(file)
        if count is None:
            return
        context.record(f"{side}_samples", count)
        if count:
            context.add_artifact("profile_folded" if side == "server" else f"profile_{side}_folded", file)
        elif side == "server":
            context.record("missing", "no sample of the servers fell into the measure phase")


def _processes(context: HookContext) -> list[int]:
    """Return the ids of all processes of servers and load."""
    return [
        each
        for side in SIDES
        for pid in context.processes_of(side).values()
        for each in (pid, *descendants_of(pid))
    ]
