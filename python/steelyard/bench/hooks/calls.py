"""The hooks of one run: calling them at their moments, what they may see, and what their processes cost.

In: a session and its hooks. Out: calls in order, the problems that hooks had, the CPU time that the processes
of each hook used in the measure phase, in its entry of the manifest, or why it is not known.

Invariants: an exception in a hook ends nothing; a hook is called in the measure phase no more often than it
asks for, and never from within a call of its own.

Not here: the interface (``bench.hook``), and the hooks (the other modules here).
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from steelyard._base import SteelyardError, WorkloadFailedError, command_text
from steelyard.bench.children import children_of, process_cpu_s
from steelyard.bench.executor import Process
from steelyard.bench.hook import Hook, ProcessHandle, Side
from steelyard.bench.parameters import Setting
from steelyard.records import Machine

if TYPE_CHECKING:
    from steelyard.bench.session import Session

BLOCKS_S = 0.1
"""A call in the measure phase that takes longer than this is a problem: the run is not watched meanwhile."""
_SEEN_RATIO = 0.5
"""How much of the measure phase must lie between the two looks at CPU times, and of that time in it."""
_NO_ACCOUNT = (
    "its processes ended before the measure phase did, or the kernel keeps no CPU time per thread (schedstat)"
)
_WAIT_S = 0.02
_STOP_TIMEOUT_S = 10.0


@dataclass(slots=True)
class HookProblem:
    """An exception that a hook raised, or that it held the run up."""

    hook: str
    moment: str
    message: str


@dataclass(slots=True)
class _Look:
    """CPU times of hooks' processes so far, s, None where they cannot be read, and when they were read."""

    span_ns: tuple[int, int]
    used_s: dict[str, float | None]


class HookCalls:
    """Hooks in the order given, and how far each has come."""

    def __init__(self, session: "Session", hooks: Sequence[tuple[str, Hook]]) -> None:
        self.problems: list[HookProblem] = []
        self.cpu_s = 0.0
        """CPU time of all processes of hooks in the measure phase, s."""
        self._session = session
        self._hooks = hooks
        self._begun: list[tuple[str, Hook]] = []
        self._due_ns: dict[str, int] = {}
        self._begin_ns: int | None = None
        self._first = _Look((0, 0), {})
        self._is_inside = False

    def call(self, moment: str) -> None:
        """Call every hook at a moment; those ``after_`` something in reverse order."""
        hooks = self._begun if moment != "before_run" else self._hooks
        for name, hook in list(hooks) if not moment.startswith("after_") else list(reversed(hooks)):
            if moment == "before_run":
                self._begun.append((name, hook))
            with self._noted(name, moment):
                getattr(hook, moment)(_Context(self._session, name))
            if self._session.failure is None:
                self._session.check()

    @contextlib.contextmanager
    def _noted(self, name: str, moment: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            first_line = (str(error) or type(error).__name__).splitlines()[0]
            message = f"{type(error).__name__}: {first_line}"
            if isinstance(error, SteelyardError):
                message = f"{error.message} ({error.hint})" if error.hint else error.message
            self.problems.append(HookProblem(name, moment, message))
            if not self._session.has_failed_for_good:
                self._session.progress.note(f"hook {name} failed at {moment}: {message}")

    def note_problem(self, name: str, moment: str, message: str) -> None:
        """Write down what is wrong with a hook."""
        self.problems.append(HookProblem(name, moment, message))
        self._session.progress.note(f"hook {name}: {message}")

    # The measure phase

    def begin_measure(self, begin_ns: int) -> None:
        """Read what the hooks' processes have used so far; calls of ``during`` begin."""
        self._begin_ns = begin_ns
        self._first = self._look()
        for name, hook in self._begun:
            if hook.during_interval_s is not None:
                self._due_ns[name] = self._session.clock.monotonic_ns()

    def during(self) -> None:
        """Call the hooks whose time has come, when the measure phase is on."""
        if not self._due_ns or self._is_inside or self._begin_ns is None:
            return
        clock = self._session.clock
        for name, hook in self._begun:
            due_ns, before_ns = self._due_ns.get(name), clock.monotonic_ns()
            if due_ns is None or before_ns < due_ns or hook.during_interval_s is None:
                continue
            self._is_inside = True
            known = len(self.problems)
            try:
                with self._noted(name, "during"):
                    hook.during(_MeasureContext(self._session, name, self._begin_ns))
            finally:
                self._is_inside = False
            after_ns = clock.monotonic_ns()
            if len(self.problems) > known:
                # It would fail again and again.
                del self._due_ns[name]
                continue
            if after_ns - before_ns > BLOCKS_S * 1e9:
                self._note_blocking(name, (after_ns - before_ns) / 1e9)
            self._due_ns[name] = _next_ns(due_ns, after_ns, int(hook.during_interval_s * 1e9))

    def _note_blocking(self, name: str, lasted_s: float) -> None:
        # One warning per hook is enough.
        if not any(problem.hook == name and problem.moment == "during" for problem in self.problems):
            message = f"it held up the run for {lasted_s:.2f} s, where {BLOCKS_S:g} s are allowed"
            self.note_problem(name, "during", message)

    def end_measure(self, end_ns: int) -> None:
        """Write into the manifest what the processes of each hook used in the measure phase."""
        self._due_ns.clear()
        if self._begin_ns is None:
            return
        phase_s = (end_ns - self._begin_ns) / 1e9
        first, last = self._first, self._look()
        unseen = _why_not(first.span_ns, last.span_ns, (self._begin_ns, end_ns))
        between_s = (sum(last.span_ns) - sum(first.span_ns)) / 2 / 1e9
        by_hook: dict[str, list[float | None]] = {}
        for name in {**first.used_s, **last.used_s}:
            hook = self._session.hook_of(name)
            if hook is not None:
                used_s = _between(first.used_s.get(name, 0.0), last.used_s.get(name))
                by_hook.setdefault(hook, []).append(used_s)
        for hook, parts in by_hook.items():
            known = [part for part in parts if part is not None]
            self.cpu_s += sum(known)
            context = _Context(self._session, hook)
            missing = unseen if len(known) == len(parts) else _NO_ACCOUNT
            rate = None if missing else sum(known) / between_s
            context.record("cpu_s", None if rate is None else round(rate * phase_s, 4))
            context.record("cpu_ratio", None if rate is None else round(rate / (os.cpu_count() or 1), 6))
            if missing:
                context.record("cpu_missing", missing)

    def _look(self) -> "_Look":
        session = self._session
        # What ended before the measure phase takes nothing of it, and hides nothing of the others.
        live = {
            name: pid
            for name, pid in session.live_processes(of_hooks=True).items()
            if session.process(name).poll() is None
        }
        begin_ns = session.clock.monotonic_ns()
        used_s = {name: process_cpu_s(pid) for name, pid in live.items()}
        return _Look((begin_ns, session.clock.monotonic_ns()), used_s)


def _between(first_s: float | None, last_s: float | None) -> float | None:
    """Return the CPU time between two looks, None where one has none or a child that it counted has ended."""
    return None if first_s is None or last_s is None or last_s < first_s else last_s - first_s


def _why_not(first_ns: tuple[int, int], last_ns: tuple[int, int], phase_ns: tuple[int, int]) -> str | None:
    """Return why what was read in two spans does not stand for a phase, None where it does.

    >>> _why_not((1_000_000, 5_000_000), (1_010_000_000, 1_015_000_000), (0, 1_000_000_000))
    >>> _why_not((1_000_000, 1_020_000_000), (1_030_000_000, 1_040_000_000), (0, 1_000_000_000))
    'CPU times were read only 1.02 s and 1.04 s into a measure phase of 1.00 s'
    """
    begin_ns, end_ns = phase_ns
    # This process may get no CPU while it reads.
    seen_ns = min(last_ns[0], end_ns) - max(first_ns[1], begin_ns)
    if seen_ns > 0 and seen_ns >= _SEEN_RATIO * max(last_ns[1] - first_ns[0], end_ns - begin_ns):
        return None
    first_s, last_s, phase_s = ((each - begin_ns) / 1e9 for each in (first_ns[1], last_ns[1], end_ns))
    looks = f"{first_s:.2f} s and {last_s:.2f} s"
    return f"CPU times were read only {looks} into a measure phase of {phase_s:.2f} s"


def _next_ns(due_ns: int, now_ns: int, interval_ns: int) -> int:
    """Return the next beat of a call that was due at ``due_ns``, without those past or too near.

    >>> _next_ns(0, 20, 100), _next_ns(0, 80, 100), _next_ns(0, 350, 0)
    (100, 200, 350)
    """
    if interval_ns <= 0:
        return now_ns
    beats = max(1, -(-(now_ns + interval_ns // 2 - due_ns) // interval_ns))
    return due_ns + beats * interval_ns


class _Context:
    """A session as one hook sees it."""

    def __init__(self, session: "Session", hook: str) -> None:
        self._session = session
        self._hook = hook

    @property
    def run_id(self) -> str:
        return self._session.manifest.run.run_id

    @property
    def directory(self) -> Path:
        return self._session.directory

    @property
    def benchmark(self) -> str:
        return self._session.manifest.run.benchmark

    @property
    def tier(self) -> str:
        return self._session.manifest.run.tier

    @property
    def machine(self) -> Machine:
        return self._session.machine

    @property
    def settings(self) -> Mapping[str, Setting]:
        return self._session.settings

    @property
    def server_cpus(self) -> Sequence[int]:
        return self._session.placement.server

    @property
    def load_cpus(self) -> Sequence[int]:
        return self._session.placement.load

    @property
    def processes(self) -> Mapping[str, int]:
        return self._session.live_processes()

    def processes_of(self, side: Side) -> Mapping[str, int]:
        return self._session.processes_of(side)

    def sides(self) -> Mapping[int, Side]:
        return self._session.sides()

    @property
    def measured(self) -> tuple[int, int] | None:
        return self._session.manifest.phase_span("measure")

    @property
    def failure(self) -> str | None:
        return self._session.failure

    def record(self, key: str, value: JsonValue) -> None:
        known = self._session.manifest.run.hooks.get(self._hook)
        before = known if isinstance(known, dict) else {}
        self._session.manifest.put_hook(self._hook, {**before, key: value})

    def add_artifact(self, role: str, path: Path) -> None:
        self._session.manifest.put_artifacts({role: str(path.relative_to(self._session.directory))})

    def start_process(
        self, name: str, command: Sequence[str], *, grace_s: float | None = None, may_end: bool = False
    ) -> Process:
        cpus = self._session.placement.load
        process = self._session.start_process(name, command, cpus=cpus, hook=self._hook, grace_s=grace_s)
        if may_end:
            self._session.expect_end(process)
        return process

    def interrupt_process(self, process: ProcessHandle) -> None:
        # Not its supervisor, which would give it a few seconds and then kill it.
        for child in children_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)

    def stop_process(self, process: ProcessHandle, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        self._session.stop_process(self._session.process(process.name), timeout_s)

    def wait_process(self, process: ProcessHandle, timeout_s: float) -> int:
        session = self._session
        started = session.process(process.name)
        session.expect_end(started)
        until = session.clock.monotonic_ns() + int(timeout_s * 1e9)
        while (ending := started.poll()) is None:
            if session.clock.monotonic_ns() > until:
                started.stop(1.0)
                session.note_end(started)
                raise WorkloadFailedError(f"{command_text(process.command)} took longer than {timeout_s:g} s")
            if session.failure is None:
                session.check()
            session.clock.sleep(_WAIT_S)
        session.note_end(started)
        return ending.code

    def last_line(self, process: ProcessHandle) -> str | None:
        return self._session.process(process.name).last_line()

    def has_ended(self, process: ProcessHandle) -> bool:
        return self._session.process(process.name).poll() is not None

    def wait(self, seconds: float) -> None:
        if self._session.failure is None:
            self._session.wait(seconds)


class _MeasureContext(_Context):
    """The same in the measure phase."""

    def __init__(self, session: "Session", hook: str, begin_ns: int) -> None:
        super().__init__(session, hook)
        self.begin_ns = begin_ns

    @property
    def elapsed_s(self) -> float:
        return (self._session.clock.monotonic_ns() - self.begin_ns) / 1e9
