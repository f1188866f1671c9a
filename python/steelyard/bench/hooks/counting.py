"""Counting events of servers and load in the measure phase, for the hooks ``counters`` and ``topdown``.

In: which metrics. Out: a recording of ``steelyard-probe``, and in ``run.json`` which of its entities are the
servers' and which the load's, or why nothing was counted.

Where servers and load have CPUs of their own, these CPUs are counted: that costs nothing when threads take
turns, and what the kernel does for them in interrupts is in it. Where they share CPUs, or the kernel lets
this user count own processes only, the processes that are there when counting begins are counted, with those
that they make.

Invariant: what cannot be counted is written down with its reason, and is no problem of the run.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from steelyard._base import SteelyardError
from steelyard.bench.children import descendants_of
from steelyard.bench.hook import SIDES, Hook, HookContext, ProcessHandle, Side
from steelyard.bench.hooks.probe import INTERVAL, interval_of
from steelyard.bench.parameters import Parameter, Settings

if TYPE_CHECKING:
    from pydantic import JsonValue

    from steelyard.analyze.counters.choice import Choice

STOP_S = 10.0
PARAMETERS = (
    Parameter("enabled", "flag", "whether to count at all", default=True),
    INTERVAL,
    Parameter(
        "scope",
        "choice",
        "CPUs or processes of servers and load; auto: CPUs where they share none",
        default="auto",
        choices=("auto", "cpu", "process"),
    ),
)


class CountingHook(Hook, ABC):
    """Counts from just before the measure phase to its end."""

    always: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    name: ClassVar[str]
    """Of the hook and of its recording."""

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._processes: list[tuple[ProcessHandle, Path]] = []

    @abstractmethod
    def metrics(self, known: Collection[str]) -> Collection[str]:
        """Return which of the ``known`` metrics to count."""

    def before_measure(self, context: HookContext) -> None:
        """Begin to count."""
        context.record("enabled", self.options.flag("enabled"))
        if not self.options.flag("enabled"):
            context.record("missing", "turned off (enabled=false)")
            return
        scope = self._scope(context)
        choice = self._choice(context, scope)
        if isinstance(choice, str):
            context.record("missing", choice)
            return
        context.record("scope", scope)
        entities = _entities(context, scope)
        for side, names in entities.items():
            about: list[JsonValue] = [*names]
            context.record(side, about)
        if choice.plan.cpu == "software":
            reasons = list(dict.fromkeys(choice.missing.values()))
            context.record("reduced", f"software events only: {_main_reason(choice) or reasons[0]}")
        targets = [entity for names in entities.values() for entity in names] if scope == "process" else []
        self._start(context, choice, scope, targets, self.name)

    def _start(
        self, context: HookContext, choice: "Choice", scope: str, targets: Sequence[str], name: str
    ) -> None:
        from steelyard.bench.recorders import event_counts

        recording = context.directory / name
        interval_s = interval_of(self.options, context.tier)
        try:
            command = event_counts.counting_command(
                choice,
                scope,
                targets,
                interval_s,
                plan=context.directory / f"{name}-plan.json",
                recording=recording,
            )
        except SteelyardError as error:
            context.record(self._missing(recording), error.message)
            return
        context.record("interval_s", interval_s)
        process = context.start_process(f"hook-{name}", command, may_end=True)
        self._processes.append((process, recording))
        waited_s = 0.0
        while not (recording / "telemetry.json").exists() and not context.has_ended(process):
            if waited_s > STOP_S:
                break
            context.wait(0.02)
            waited_s += 0.02

    def after_measure(self, context: HookContext) -> None:
        """Read the counts a last time."""
        from steelyard.bench.recorders import event_counts

        for process, _ in self._processes:
            context.interrupt_process(process)
        for process, recording in self._processes:
            missing = self._missing(recording)
            try:
                code = context.wait_process(process, STOP_S)
            except SteelyardError as error:
                context.record(missing, error.message)
                continue
            if event_counts.recorded(recording) is None:
                line = (context.last_line(process) or "").removeprefix("steelyard-probe: ")
                context.record(missing, line or f"steelyard-probe ended with code {code}")
                continue
            context.add_artifact(recording.name.replace("-", "_"), recording)

    def _missing(self, recording: Path) -> str:
        """Return the key under which stands why there is no such recording."""
        return "missing" if recording.name == self.name else "machine_missing"

    def _scope(self, context: HookContext) -> str:
        wanted = self.options.text("scope")
        if wanted != "auto":
            return wanted
        from steelyard.machine import attempts

        shares = set(context.server_cpus) & set(context.load_cpus)
        return "process" if shares or attempts.counter_of_all_processes() is not None else "cpu"

    def _choice(self, context: HookContext, scope: str) -> "Choice | str":
        from steelyard.analyze.counters.choice import choose

        try:
            known = choose(context.machine, scope)
            wanted = self.metrics([metric.name for metric in known.metrics])
            choice = choose(context.machine, scope, wanted)
        except SteelyardError as error:
            return error.message
        if not choice.plan.events:
            return _main_reason(choice) or "no event is known"
        return choice


def _main_reason(choice: "Choice") -> str | None:
    """Return why most of the metrics are missing."""
    reasons = list(choice.missing.values())
    return max(reasons, key=reasons.count) if reasons else None


def _entities(context: HookContext, scope: str) -> dict[Side, list[str]]:
    """Return what is counted of each side, as the recording names it."""
    if scope == "cpu":
        cpus = {"server": context.server_cpus, "load": context.load_cpus}
        return {side: [f"cpu{cpu}" for cpu in cpus[side]] for side in SIDES if cpus[side]}
    found: dict[Side, list[str]] = {}
    for side in SIDES:
        pids = [each for pid in context.processes_of(side).values() for each in (pid, *descendants_of(pid))]
        if pids:
            found[side] = [str(pid) for pid in dict.fromkeys(pids)]
    return found
