"""Looks at any workload for a while: a command, running processes, a cgroup, or the whole machine.

In: a `CharacterizeRequest`. Out: a run directory as ``steelyard run`` leaves one, with telemetry, looks at
the program's threads (``target/``), limits on interfaces (``shaping.json``) and, where ``steelyard-profile``
is there, a profile.

A command is started under ``steelyard-exec`` and nothing of it outlives the run. Processes that ran before
are watched and never ended. A profiler that is absent or refused costs the profile and not the run: the
reason stands in ``run.json``.

Not here: what the figures mean (``analyze``), and drawing them (``report``).
"""

import contextlib
import os
import secrets
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import steelyard
from steelyard import machine as machines
from steelyard._base import SteelyardError, UsageError, WorkloadFailedError, format_cpu_list
from steelyard.bench import hook as hooks
from steelyard.bench import undo
from steelyard.bench.benchmark import Benchmark, Outcome
from steelyard.bench.characterize import own_cost, perf_files
from steelyard.bench.characterize import traffic_shapers as shapers
from steelyard.bench.characterize.counting import Counting, counting_cpu_s
from steelyard.bench.characterize.declaration import DECLARATION
from steelyard.bench.characterize.metrics import checks_of, metrics_of
from steelyard.bench.characterize.watch import Watch, cgroup_folders
from steelyard.bench.children import ChildrenUse, children_of, children_use, descendants_cpu_s, descendants_of
from steelyard.bench.clock import Clock, SystemClock
from steelyard.bench.executor import Ending, Executor, LocalExecutor, Process
from steelyard.bench.health import known_limits
from steelyard.bench.launch import Attempt, make_folder, make_run_folder
from steelyard.bench.manifest import Manifest
from steelyard.bench.operations.sources import parse_all
from steelyard.bench.operations.watching import Watching, check
from steelyard.bench.parameters import Parameter, Settings
from steelyard.bench.placement import Placement
from steelyard.bench.progress import Progress
from steelyard.bench.recorders import stacks
from steelyard.bench.request import CharacterizeRequest
from steelyard.bench.session import TICK_S, Session
from steelyard.bench.signals import Interrupts
from steelyard.records import Cpus, Series, write
from steelyard.records import Parameter as ParameterRecord

if TYPE_CHECKING:
    from steelyard.analyze import Conditions

NAME = DECLARATION.name
COUNTING_HOOKS = ("counters", "topdown", "profile")
FOLDED, PPROF = "profile.folded", "profile.pb.gz"
_ATTACH_S = 1.0
_STOP_S = 8.0

_COUNTED = {"all": "system", "cgroup": "cgroup"}
"""Scope -> that of its counters, where it is not that of processes."""

PARAMETERS = (
    Parameter(
        "scope", "choice", "what is described", default="all", choices=("command", "pid", "cgroup", "all")
    ),
    Parameter(
        "duration",
        "seconds",
        "time to measure; 0 until the program ends",
        default=10.0,
        minimum=0.0,
        maximum=7 * 86_400.0,
    ),
    Parameter(
        "interval",
        "seconds",
        "time between two readings",
        derived="a hundredth of the duration, 0.1 to 1 s",
        minimum=0.01,
        maximum=3600.0,
    ),
    Parameter(
        "hz",
        "count",
        "profiler's samples a second and CPU; 0 for none",
        default=99,
        minimum=0,
        maximum=10_000,
    ),
    Parameter("call_graph", "choice", "how stacks are walked", default="fp", choices=("fp", "dwarf", "none")),
    Parameter("counters", "flag", "whether performance events are counted", default=True),
)


def characterize(
    request: CharacterizeRequest,
    *,
    progress: Progress,
    clock: Clock | None = None,
    executor: Executor | None = None,
) -> Attempt:
    """Make one run. Raises SteelyardError only when nothing could be started."""
    scope = request.scope
    watch = _watch(request)
    perf_files.check_files(request.perf_stat, request.command)
    settings = Settings.resolve(
        PARAMETERS,
        {**request.settings, "scope": scope},
        lambda chosen: {"interval": _interval_s(float(chosen.get("duration", 10.0)))},
        owner=NAME,
    )
    specs = parse_all(request.ops)
    if scope == "all" and settings.number("duration") == 0:
        raise UsageError("--duration 0: the machine does not end", hint="give a duration, as --duration 10s")
    for line in (*check(specs, starts=bool(request.command), out=request.out), *undo.replay()):
        progress.note(line)
    machine = machines.snapshot()
    clock = clock or SystemClock()
    make_folder(request.out)
    directory = make_run_folder(request.out, f"{NAME}-{scope}", clock)
    (directory / "logs").mkdir()
    placement = Placement(tuple(sorted(os.sched_getaffinity(0))), ())
    interrupts = Interrupts()
    manifest = _manifest(directory, clock, request, settings, placement)
    hook = f"probe:interval={settings.number('interval'):g}"
    try:
        with interrupts.caught():
            write(machine, directory / "machine.json")
            manifest.put_artifacts({"machine": "machine.json"})
            known_limits.keep_last(manifest, request.out)
            session = Session(
                manifest,
                settings=settings,
                machine=machine,
                placement=placement,
                # It counts and samples what it describes itself.
                hooks=hooks.create([hook], without=COUNTING_HOOKS),
                executor=executor or LocalExecutor(),
                clock=clock,
                progress=progress,
                interrupts=interrupts,
            )
            session.run(
                lambda session: Characterization(
                    session, request, watch, Watching(session, specs, request.out)
                )
            )
    except SteelyardError as error:
        return Attempt(directory, manifest.run, error)
    return Attempt(directory, manifest.run)


def _watch(request: CharacterizeRequest) -> Watch | None:
    """Return what to look at. Raises UsageError when it is not there."""
    if request.command and shutil.which(request.command[0]) is None:
        raise UsageError(
            f"{request.command[0]}: there is no such command", hint="give its path, or look at PATH"
        )
    for pid in request.pids:
        if not Path(f"/proc/{pid}").exists():
            raise UsageError(f"--pid {pid}: there is no such process")
    if request.cgroup is not None:
        return Watch(folders=cgroup_folders(request.cgroup))
    return Watch(pids=request.pids) if request.pids else None


def _interval_s(duration_s: float) -> float:
    return min(1.0, max(0.1, duration_s / 100)) if duration_s else 0.1


def _manifest(
    directory: Path, clock: Clock, request: CharacterizeRequest, settings: Settings, placement: Placement
) -> Manifest:
    command = ["steelyard", NAME]
    for name, flag in (("duration", "--duration"), ("interval", "--interval"), ("hz", "--hz")):
        if settings.source(name) == "set":
            command += [flag, f"{settings[name]:g}" if name == "hz" else f"{settings[name]:g}s"]
    if settings.source("call_graph") == "set":
        command += ["--call-graph", settings.text("call_graph")]
    if settings.source("counters") == "set":
        command += ["--counters" if settings.flag("counters") else "--no-counters"]
    for pid in request.pids:
        command += ["--pid", str(pid)]
    for path in request.perf_stat:
        command += ["--perf-stat", str(path)]
    for source in request.ops:
        command += ["--ops", source]
    command += ["--cgroup", request.cgroup] if request.cgroup is not None else []
    command += ["--", *request.command] if request.command else []
    return Manifest.create(
        directory,
        clock,
        benchmark=NAME,
        suite=None,
        # There is no tier: what was described stands in its place.
        tier=settings.text("scope"),
        series=Series(id=secrets.token_hex(4), index=1, count=1),
        version=steelyard.__version__,
        command=command,
        parameters={
            name: ParameterRecord(
                value=value, unit=settings.parameters[name].unit, source=settings.source(name)
            )
            for name, value in settings.items()
        },
        cpus=Cpus(server=format_cpu_list(placement.server), load=None),
    )


class Characterization(Benchmark):
    """The verbs of a look at a workload."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def __init__(
        self, session: Session, request: CharacterizeRequest, watch: Watch | None, operations: Watching
    ) -> None:
        super().__init__(session)
        self._request = request
        self._operations = operations
        self._watch = watch
        self._counting = Counting()
        self._program: Process | None = None
        self._profiler: Process | None = None
        self._ending: Ending | None = None
        self._cut = False
        self._cpu_s: float | None = None
        self._used: ChildrenUse | None = None
        self._children_s = 0.0
        self._shaping: dict[str, object] = {}
        self._begin_ns = self._end_ns = 0

    def warm_up(self) -> None:
        """Take down what is limited; do not wait: what is described has no warm-up of ours."""
        self._shaping = shapers.read_shaping(self.session.clock)
        self._operations.begin(self.settings.number("interval"))
        if self.settings.flag("counters"):
            scope = self.settings.text("scope")
            self._counting.prepare(self.session, _COUNTED.get(scope, "process"))
        if self.settings.text("scope") == "all":
            self._count("system", [])
            self._start_profiler(["--all"])

    def measure(self) -> int:
        """Watch until the time is over or the program has ended; return when that was."""
        clock, interval_s = self.session.clock, self.settings.number("interval")
        self._begin_ns = clock.monotonic_ns()
        self.session.begin_phase("measure", self._begin_ns)
        if self._request.command:
            self._before = children_use()
            self._program = self.session.start_process(
                "program", self._request.command, cpus=None, direct=True
            )
            self.session.expect_end(self._program)
            self._watch = Watch(supervisor=self._program.pid)
        if self._watch is not None:
            self._watch.start(self.session, interval_s)
            self._attach()
        lasts_ns = int(self.settings.number("duration") * 1e9)
        until_ns = self._begin_ns + lasts_ns if lasts_ns else None
        while until_ns is None or clock.monotonic_ns() < until_ns:
            if self._is_over():
                break
            self._show_progress()
            left_s = TICK_S if until_ns is None else (until_ns - clock.monotonic_ns()) / 1e9
            self.session.wait(max(0.0, min(TICK_S, left_s)))
        if self._watch is not None and self._ending is None:
            # Its last look belongs to the phase.
            self._watch.stop(self.session)
        if self._program is not None and self._ending is None:
            # It goes on until it is stopped, after the phase.
            self._cpu_s = descendants_cpu_s(self._program.pid)
        self._end_ns = clock.monotonic_ns()
        return self._end_ns

    def _show_progress(self) -> None:
        passed_s = (self.session.clock.monotonic_ns() - self._begin_ns) / 1e9
        duration_s = self.settings.number("duration")
        self.session.progress.status(
            {"time": f"{passed_s:.0f} s" + (f" of {duration_s:g} s" if duration_s else "")}
        )

    def _is_over(self) -> bool:
        """Return whether the program has ended, and note how."""
        if self._program is not None:
            self._ending = self._program.poll()
            if self._ending is not None:
                # No other child has been waited for since: the profiler is, when it is asked to end.
                self._used = children_use().since(self._before)
                self._cpu_s = self._used.cpu_s
            return self._ending is not None
        if self._watch is not None and self._watch.has_ended():
            self.session.progress.note("the watched processes have ended")
            return True
        return False

    def _attach(self) -> None:
        """Attach counters and profiler to what is watched."""
        if self._request.cgroup is not None:
            folders = self._watch.folders if self._watch is not None else []
            self._count("cgroup", [str(folders[0]) if folders else self._request.cgroup])
            self._start_profiler(["--cgroup", str(folders[0]) if folders else self._request.cgroup])
            return
        pids = list(self._request.pids)
        if self._program is not None:
            until_ns = self.session.clock.monotonic_ns() + int(_ATTACH_S * 1e9)
            while not pids and self.session.clock.monotonic_ns() < until_ns and self._program.poll() is None:
                pids = children_of(self._program.pid)
                self.session.clock.sleep(0.001)
        if pids:
            every = dict.fromkeys(each for pid in pids for each in (pid, *descendants_of(pid)))
            self._count("process", [str(pid) for pid in every])
            self._start_profiler(self._sampled(pids))
        else:
            self._no_profile("the program had ended before the profiler began")

    def _sampled(self, pids: Sequence[int]) -> list[str]:
        """Return whose stacks to sample.

        The clock of a task begins with it and has no tick in processes that live shorter: where all CPUs
        may be sampled, a command's processes are found among what ran there.
        """
        from steelyard.machine import attempts

        if self._program is not None and attempts.counter_of_all_processes() is None:
            return ["--all", "--descendants-of", str(self._program.pid), "--plain-commands"]
        return [word for pid in pids for word in ("--pid", str(pid))]

    def _count(self, scope: str, targets: Sequence[str]) -> None:
        if self.settings.flag("counters"):
            self._counting.start(self.session, scope, targets, self.settings.number("interval"))

    def _start_profiler(self, scope: Sequence[str]) -> None:
        hz = self.settings.count("hz")
        if hz == 0:
            self._no_profile("not requested (--hz 0)")
            return
        files = stacks.files_at(self.session.directory, folded=FOLDED, pprof=PPROF, has_times=True)
        try:
            call_graph = self.settings.text("call_graph")
            command = stacks.sampling_command(scope, hz=hz, call_graph=call_graph, files=files)
        except SteelyardError as error:
            self._no_profile(f"{error.message} ({error.hint})")
            return
        self._profiler = self.session.start_process("profile", command, cpus=None)
        self.session.expect_end(self._profiler)

    def _no_profile(self, reason: str) -> None:
        self.session.manifest.put_hook("profile", {"missing": reason})

    def _end_profiler(self) -> None:
        """Ask the profiler to end and give it time to resolve symbols while what it saw still runs."""
        profiler = self._profiler
        if profiler is None:
            return
        for child in children_of(profiler.pid):
            # Not its supervisor, which would give it a few seconds and then kill it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGINT)
        with contextlib.suppress(WorkloadFailedError):
            self.session.wait_for(
                lambda: profiler.poll() is not None, stacks.FINISH_S, what="ending the profile"
            )
        ending = profiler.stop(1.0)
        self.session.note_end(profiler)
        files = {"profile_folded": FOLDED, "profile": PPROF}
        there = {role: name for role, name in files.items() if (self.session.directory / name).is_file()}
        self.session.manifest.put_artifacts(there)
        if "profile_folded" not in there:
            self._no_profile(stacks.reason_of(profiler.last_line(), ending))
        else:
            self.session.manifest.put_hook("profile", {"hz": self.settings.count("hz")})

    def drain(self) -> None:
        """End the readers and the profile, then the command, if it still runs.

        What ran before the run is left alone.
        """
        self._operations.end()
        self._counting.stop(self.session)
        self._end_profiler()
        after = shapers.read_shaping(self.session.clock)
        with contextlib.suppress(OSError):
            shapers.write_shaping(self.session.directory, self._shaping, after)
            self.session.manifest.put_artifacts({"shaping": shapers.FILE})
        if self._watch is not None:
            self._watch.stop(self.session)
        self._end_program()
        perf_files.keep_files(self.session.manifest, self._request.perf_stat, self._begin_ns)

    def _end_program(self) -> None:
        if self._program is None:
            return
        if self._ending is None:
            self._cut = True
            self._ending = self._program.stop(_STOP_S)
        self.session.note_end(self._program)
        if not self._cut and self._ending.exit_code in (125, 126):
            raise WorkloadFailedError(
                f"{self._request.command[0]} could not be run: {self._program.last_line() or 'see its log'}"
            )

    def collect(self) -> Outcome:
        """Return what was counted, and what stands against believing it."""
        from steelyard.analyze.workload import observe_run

        self._operations.collect(self._begin_ns, self._end_ns)
        conditions = observe_run(self.session.directory, self.session.manifest.run, self.session.machine)
        elapsed_s = (self._end_ns - self._begin_ns) / 1e9
        cost = own_cost.tool_cpu_s(self.session.directory, self.session.own_cpu_s)
        self.session.manifest.put_hook(
            own_cost.HOOK, {"cpu_s": dict(cost), "cpus": own_cost.cpus(cost, elapsed_s)}
        )
        return Outcome(
            metrics=metrics_of(conditions, elapsed_s=elapsed_s, cpu_s=self._cpu_s, used=self._used),
            loads=None,
            own_cpu_s=self._own_cpu_s(conditions, cost.get(own_cost.PROFILER) or 0.0),
            checks=checks_of(elapsed_s, self._ending, self._program, cut=self._cut),
            own_commands=conditions.target.commands if conditions.target is not None else (),
            describes="machine" if self.settings.text("scope") == "all" else "program",
        )

    def _own_cpu_s(self, conditions: "Conditions", profiling_s: float) -> float | None:
        looking_s = Watch.cpu_s(self.session.directory) if self._watch is not None else 0.0
        used_s = self._used_cpu_s(conditions)
        if used_s is None:
            return None
        return used_s + looking_s + profiling_s + counting_cpu_s(self.session.directory)

    def _used_cpu_s(self, conditions: "Conditions") -> float | None:
        if self._cpu_s is not None:
            return self._cpu_s
        target = conditions.target
        if target is None or target.cpus.value is None:
            return None
        return target.cpus.value * (self._end_ns - self._begin_ns) / 1e9
