"""One run: the verbs of a benchmark in their phases, with hooks around them, under watch.

In: a benchmark, its settings, hooks, an executor, clocks. Out: a run directory that is complete, or
incomplete with the reason.

Invariants: whatever happens, every started process has ended when `Session.run` returns or raises; a process
of the run that something else killed makes the run incomplete; an exception in a hook makes it suspect.

Not here: what a benchmark does, and how evidence is judged.
"""

import contextlib
import signal
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import SteelyardError, WorkloadFailedError
from steelyard.analyze import verdict as verdicts
from steelyard.analyze.checks import CONSTANTS
from steelyard.analyze.interference import Interference, observe
from steelyard.analyze.load_hosts import link_check, load_hosts
from steelyard.analyze.utilisation import at_limit
from steelyard.bench.clock import Clock
from steelyard.bench.executor import Ending, Executor, Process
from steelyard.bench.hook import Hook, Side
from steelyard.bench.hooks.calls import HookCalls
from steelyard.bench.identity import cpu_cgroups
from steelyard.bench.limits.memory import MemoryLimit
from steelyard.bench.manifest import Manifest
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import Placement
from steelyard.bench.progress import Progress
from steelyard.bench.signals import Interrupts
from steelyard.machine.accounting import interrupts_in_process_time
from steelyard.records import Check, Machine, Run
from steelyard.records import Process as ProcessRecord

if TYPE_CHECKING:
    from steelyard.bench.benchmark import Benchmark, Outcome

TICK_S = 0.02
"""How long the session sleeps between looks at its processes: short beside a second, long beside a look."""
MEASURE = "measure"
"""The phase that the result is of."""
SETTLE_S = 0.1
"""How long after the end of one process the ends of others are looked for."""
STOP_TIMEOUT_S = 10.0
GIVE_UP_TIMEOUT_S = 1.0
"""How long processes of a run that has failed get to end in order."""


@dataclass(slots=True)
class _Watched:
    process: Process
    record: ProcessRecord
    ended: Ending | None = None
    hook: str | None = None
    side: Side | None = None
    may_end: bool = False
    comm: str | None = None
    pending: list[tuple[str, str]] = field(default_factory=list)


def side_of(name: str) -> Side:
    """Return the side of a benchmark's process.

    >>> side_of("load-2"), side_of("server"), side_of("loader")
    ('load', 'server', 'server')
    """
    return "load" if name == "load" or name.startswith("load-") else "server"


class Session:
    """The run in ``manifest.directory``."""

    def __init__(
        self,
        manifest: Manifest,
        *,
        settings: Settings,
        machine: Machine,
        placement: Placement,
        hooks: Sequence[tuple[str, Hook]],
        executor: Executor,
        clock: Clock,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        self.manifest = manifest
        self.directory = manifest.directory
        self.settings = settings
        self.machine = machine
        self.placement = placement
        self.clock = clock
        self.progress = progress
        self.remarks: list[str] = []
        self.failure: str | None = None
        self._hooks = HookCalls(self, hooks)
        self._executor = executor
        self._interrupts = interrupts
        self._watched: dict[str, _Watched] = {}
        self.endings = contextlib.ExitStack()  # For what is left to do when every process has ended.
        self._fatal: SteelyardError | None = None
        self._own_cpu_s = 0.0
        self._memory_limit = MemoryLimit.of_this_process()

    # Time

    def begin_phase(self, name: str, begin_ns: int | None = None) -> None:
        """Mark the beginning of a phase, which ends the one before."""
        self.manifest.begin_phase(name, begin_ns)
        self.progress.phase(name)
        if name == MEASURE:
            self._hooks.begin_measure(self.manifest.run.phases[-1].begin_ns)

    def wait(self, seconds: float) -> None:
        """Wait; raises WorkloadFailedError as soon as a process is gone or a signal asks to stop."""
        until = self.clock.monotonic_ns() + int(seconds * 1e9)
        self.check()
        while (left := until - self.clock.monotonic_ns()) > 0:
            self.clock.sleep(min(TICK_S, left / 1e9))
            self.check()
            self._hooks.during()

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float, *, what: str, hint: str | None = None
    ) -> None:
        """Wait until ``condition`` holds; raises WorkloadFailedError after ``timeout_s``."""
        until = self.clock.monotonic_ns() + int(timeout_s * 1e9)
        while not condition():
            self.check()
            if self.clock.monotonic_ns() > until:
                raise WorkloadFailedError(f"{what} took longer than {timeout_s:g} s", hint=hint)
            self.clock.sleep(TICK_S)
            self._hooks.during()

    def check(self) -> None:
        """Raise WorkloadFailedError when a signal asked to stop or a process ended that should not have.

        Once it has raised it raises the same again: a hook cannot swallow the end of the run.
        """
        if self._fatal is None and self._interrupts.received is not None:
            self._fatal = WorkloadFailedError(f"stopped by {self._interrupts.received}{self._in_phase()}")
        if self._fatal is None and self._ended():
            # What killed one process may make another fail in the next moment, and be seen later.
            self.clock.sleep(SETTLE_S)
            ended = self._ended()
            killed = [watched for watched in ended if watched.ended and watched.ended.signal is not None]
            blamed = (killed or ended)[0]
            self._fatal = self._unexpected(blamed)
        if self._fatal is not None:
            raise self._fatal

    def _ended(self) -> list[_Watched]:
        """Return the processes that have ended and should not have, in the order of their start."""
        for watched in self._watched.values():
            if watched.ended is None and not watched.may_end:
                watched.ended = watched.process.poll()
                if watched.hook is not None and watched.ended and watched.ended.signal is None:
                    # It gave up by itself: that is the hook's failure, which the run survives.
                    watched.may_end = True
                    error = self._unexpected(watched)
                    self._hooks.note_problem(watched.hook, "its process", error.message)
        return [watched for watched in self._watched.values() if watched.ended and not watched.may_end]

    def _in_phase(self) -> str:
        return f" in phase {self.manifest.phase}" if self.manifest.phase else ""

    # Processes

    def start_process(
        self,
        name: str,
        command: Sequence[str],
        *,
        cpus: Sequence[int] | None,
        memory_nodes: Sequence[int] = (),
        hook: str | None = None,
        direct: bool = False,
        comm: str | None = None,
        grace_s: float | None = None,
        is_aside: bool = False,
    ) -> Process:
        """Start a process of the run, or of ``hook``; its output goes to ``logs/<name>.log``.

        ``memory_nodes`` are the NUMA nodes that its memory is bound to, none: not bound. ``direct``: output
        goes straight there, for a program whose lines nobody reads while it runs. ``comm`` is what the kernel
        will call it, where that is not its executable's name; ``grace_s`` what it needs to end in order.
        Names that begin with ``load`` are of the load, all others of the servers, unless ``is_aside``.
        """
        log = self.directory / "logs" / f"{name}.log"
        process = self._executor.start(
            name,
            command,
            log=log,
            cpus=cpus,
            memory_nodes=memory_nodes,
            environment={"STEELYARD_RUN": self.directory.name},
            direct=direct,
            grace_s=grace_s,
        )
        record = ProcessRecord(
            name=name, command=list(command), pid=process.pid, log=str(log.relative_to(self.directory))
        )
        self._watched[name] = _Watched(
            process, record, hook=hook, comm=comm, side=None if hook or is_aside else side_of(name)
        )
        self.manifest.put_process(record)
        self.manifest.put_artifacts({f"log_{name.replace('-', '_')}": record.log or ""})
        return process

    def expect_end(self, process: Process) -> None:
        """Allow a process to end by itself from now on."""
        self._watched[process.name].may_end = True

    def join(
        self, process: Process, timeout_s: float, *, what: str, codes: Container[int | None] = (0,)
    ) -> None:
        """Wait for a process to end; raises WorkloadFailedError for an exit code that is not of ``codes``."""
        self.expect_end(process)
        self.wait_for(lambda: process.poll() is not None, timeout_s, what=what)
        watched = self._watched[process.name]
        self._note_end(watched, process.stop(0.0))
        if process.stop(0.0).exit_code not in codes:
            raise self._unexpected(watched)

    def stop_process(
        self, process: Process, timeout_s: float = STOP_TIMEOUT_S, *, dies_of_sigterm: bool = False
    ) -> None:
        """End a process in order, as whose end some report the signal (``dies_of_sigterm``).

        Raises WorkloadFailedError when it was gone already or ends badly.
        """
        watched = self._watched[process.name]
        self.check()
        watched.may_end = True
        begin_ns = self.clock.monotonic_ns()
        ending = process.stop(timeout_s)
        took_s = (self.clock.monotonic_ns() - begin_ns) / 1e9
        self._note_end(watched, ending)
        if ending.exit_code != 0 and not (dies_of_sigterm and ending.signal == signal.SIGTERM):
            raise self._unexpected(watched, took_s)

    def _note_end(self, watched: _Watched, ending: Ending) -> None:
        watched.ended = ending
        watched.record = watched.record.model_copy(
            update={"exit_code": ending.exit_code, "signal": ending.signal}
        )
        self.manifest.put_process(watched.record)
        if watched.process.log_error is not None:
            self.remarks.append(f"log incomplete: {watched.process.log_error}")

    def _unexpected(self, watched: _Watched, took_s: float | None = None) -> SteelyardError:
        """Write down that a process has ended, and return the error that says how.

        ``took_s`` is how long ago it was asked to end, if it was.
        """
        # The supervisor has ended, so the last words in its pipe are complete.
        ending = watched.process.stop(0.0)
        # On a full disk the manifest cannot be written now; it will be, when the run has failed for good.
        with contextlib.suppress(SteelyardError):
            self._note_end(watched, ending)
        # What a killed process wrote before is of something else.
        message = None if ending.signal == signal.SIGKILL else watched.process.last_line()
        asked = "" if took_s is None else f", {took_s:.1f} s after it was asked to end"
        reason = f"{watched.process.name} {ending}{self._in_phase()}{asked}"
        if ending.signal is not None and self._memory_limit.kills_since_start():
            reason += f": the memory limit of {self._memory_limit.text} was reached"
            return WorkloadFailedError(
                reason, hint="make the cache smaller with --set memory=..., or raise the limit"
            )
        if message:
            reason += f": {message}"
        return ending.error_of(watched.process.command)(reason, hint=f"see {watched.process.log}")

    def process(self, name: str) -> Process:
        """Return the process called ``name``."""
        return self._watched[name].process

    def note_end(self, process: Process) -> None:
        """Write down how an ended process ended."""
        self._note_end(self._watched[process.name], process.stop(0.0))

    @property
    def has_failed_for_good(self) -> bool:
        """Return whether the run has come to its end and every further check raises."""
        return self._fatal is not None

    def live_processes(self, *, of_hooks: bool | None = None) -> dict[str, int]:
        """Return the ids of the supervisors of processes that have not ended, by name.

        ``of_hooks``: only those of hooks, or only the others.
        """
        return {
            name: watched.process.pid
            for name, watched in self._watched.items()
            if watched.ended is None and of_hooks in (None, watched.hook is not None)
        }

    def sides(self) -> dict[int, Side]:
        """Return the side of every process that the benchmark has started, by the id of its supervisor."""
        return {w.process.pid: w.side for w in self._watched.values() if w.side in self._own_sides()}

    def processes_of(self, side: Side) -> dict[str, int]:
        """Return the ids of the supervisors of one side's processes that have not ended, by name."""
        if side not in self._own_sides():
            return {}
        watched = self._watched.items()
        return {name: w.process.pid for name, w in watched if w.ended is None and w.side == side}

    def _own_sides(self) -> tuple[Side, ...]:
        """Return the sides whose work is done here: ssh, which commands a load on other hosts, is no load."""
        return ("server",) if load_hosts(self.manifest.run) else ("server", "load")

    def hook_of(self, name: str) -> str | None:
        """Return the hook that started a process, None for one of the benchmark."""
        return self._watched[name].hook

    def _stop_everything(self) -> None:
        for watched in reversed(list(self._watched.values())):
            if watched.ended is None:
                ending = watched.process.stop(STOP_TIMEOUT_S if self.failure is None else GIVE_UP_TIMEOUT_S)
                with contextlib.suppress(SteelyardError):
                    self._note_end(watched, ending)

    # The run

    def run(self, make: "Callable[[Session], Benchmark]") -> Run:
        """Run the benchmark; return the finished manifest.

        Raises SteelyardError when the run cannot become a result; the manifest then says why.
        """
        try:
            with self._ending():
                benchmark = make(self)
                self._drive(benchmark)
            self._judge(benchmark.collect())
        except SteelyardError as error:
            self._fail(error.message)
            raise
        except BaseException as error:
            self._fail(f"internal error: {type(error).__name__}: {error}")
            raise
        return self.manifest.run

    def _drive(self, benchmark: "Benchmark") -> None:
        self.begin_phase("install")
        self._hooks.call("before_run")
        benchmark.install()
        self.check()
        self.begin_phase("start")
        benchmark.start()
        self._hooks.call("after_start")
        self.begin_phase("warmup")
        benchmark.warm_up()
        self._hooks.call("before_measure")
        self._own_cpu_s = -self.clock.cpu_s()
        end_ns = benchmark.measure()
        self._own_cpu_s += self.clock.cpu_s()
        self._hooks.end_measure(end_ns)
        self.begin_phase("drain", end_ns)
        self._hooks.call("after_measure")
        benchmark.drain()
        self.manifest.end_phase()

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """See that hooks learn of the end and that no process is left, whatever happens inside."""
        try:
            yield
        except BaseException as error:
            self.failure = error.message if isinstance(error, SteelyardError) else repr(error)
            raise
        finally:
            try:
                self._hooks.call("after_run")
            finally:
                self._stop_everything()
                self.endings.close()

    def _fail(self, reason: str) -> None:
        with contextlib.suppress(SteelyardError):
            self.manifest.fail(reason)

    @property
    def own_cpu_s(self) -> float:
        """Return the CPU time that this process took while the measure phase lasted, s."""
        return self._own_cpu_s

    def _judge(self, outcome: "Outcome") -> None:
        self.manifest.put_artifacts(outcome.artifacts)
        evidence = verdicts.Evidence(
            loads=outcome.loads,
            own=[
                *outcome.checks,
                *at_limit(self.manifest.run, outcome.metrics, outcome.saturates),
                *self._link(),
            ],
            samples=outcome.samples,
            achieved_ratio_min=outcome.achieved_ratio_min or CONSTANTS.achieved_ratio,
            warmup=outcome.warmup,
            measure=outcome.measure,
            machine=self.machine,
            memory_needed_bytes=outcome.memory_needed_bytes,
            memory_limit_bytes=self._memory_limit.limit_bytes,
            shared_cpus=self.placement.shared,
            clock_begin=self.manifest.run.clock,
            clock_end=self.clock.now(),
            interference=self._interference(outcome),
            hook_problems=[f"{p.hook} at {p.moment}: {p.message}" for p in self._hooks.problems],
            remarks=list(dict.fromkeys(self.remarks)),
            limited_on_purpose="cpu-limit" in self.manifest.run.hooks,
            describes=outcome.describes,
        )
        self.manifest.complete(outcome.metrics, verdicts.judge(evidence))

    def _link(self) -> list[Check]:
        """Return whether the link to the hosts that made the load was the limit."""
        hosts = load_hosts(self.manifest.run)
        if not hosts:
            return []
        from steelyard import telemetry
        from steelyard.analyze.facts.network import network_use

        folder, span = self.manifest.run.artifacts.get("telemetry"), self.manifest.phase_span("measure")
        if folder is None or span is None:
            return [link_check((), hosts)]
        try:
            with telemetry.open(self.directory / folder) as recording:
                return [link_check(network_use(recording, *span, self.machine), hosts)]
        except SteelyardError:
            return [link_check((), hosts)]

    def _interference(self, outcome: "Outcome") -> Interference:
        """Return what telemetry says about the measure phase."""
        # Here and not above: it loads a query engine, and a run that fails early is not to wait for it.
        from steelyard import telemetry

        folder = self.manifest.run.artifacts.get("telemetry")
        span = self.manifest.phase_span("measure")
        if folder is None or span is None:
            return Interference(missing="no telemetry was recorded")
        try:
            with telemetry.open(self.directory / folder) as recording:
                own_cpu_s = self._own_cpu_s + self._hooks.cpu_s
                return observe(
                    recording,
                    *span,
                    cpus=sorted({*self.placement.server, *self.placement.load}),
                    own_cpu_s=None if outcome.own_cpu_s is None else outcome.own_cpu_s + own_cpu_s,
                    own_commands=("steelyard", "steelyard-exec", *self._commands(), *outcome.own_commands),
                    own_cgroups=cpu_cgroups(f"steelyard-{self.directory.name}"),
                    server_cpus=self.placement.server,
                    interrupts_in_process_time=interrupts_in_process_time(),
                )
        except SteelyardError as error:
            return Interference(missing=error.message)
        except Exception as error:
            # What was measured stands; only what telemetry would say about it is not known.
            return Interference(missing=f"telemetry cannot be read: {type(error).__name__}: {error}")

    def _commands(self) -> list[str]:
        return [watched.comm or Path(watched.process.command[0]).name for watched in self._watched.values()]
