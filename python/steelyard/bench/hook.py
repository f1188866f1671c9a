"""The public interface of hooks: what may be done around a benchmark without changing it.

A hook is a class derived from `Hook`, made known under the entry point group ``steelyard.hooks``:

    [project.entry-points."steelyard.hooks"]
    my-hook = "my_package:MyHook"

In: the context of a run, at five moments, and at intervals in the measure phase. Out: whatever the hook
records, files in the run's directory.

Invariants: an exception in a hook never ends the run, it makes the verdict suspect and is reported there;
``after_run`` is called whenever ``before_run`` was, also when the run failed, so that changes can be undone.

Not here: the hooks themselves (``hooks/``).
"""

import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.parameters import Parameter, Setting, Settings, nearest, parse_assignments

if TYPE_CHECKING:
    from pydantic import JsonValue

    from steelyard.records import Machine

GROUP = "steelyard.hooks"
Side = Literal["server", "load"]
SIDES: tuple[Side, ...] = ("server", "load")
MOMENTS = ("before_run", "after_start", "before_measure", "after_measure", "after_run")


class ProcessHandle(Protocol):
    """A process that a hook started."""

    @property
    def name(self) -> str:
        """Unique in its run."""

    @property
    def command(self) -> Sequence[str]:
        """What was started."""

    @property
    def pid(self) -> int:
        """Id of its supervisor."""


class HookContext(Protocol):
    """What a hook may know and do."""

    @property
    def run_id(self) -> str:
        """Unique name of the run."""

    @property
    def directory(self) -> Path:
        """The run's directory; files put here travel with the run."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""

    @property
    def tier(self) -> str:
        """Name of the tier."""

    @property
    def machine(self) -> "Machine":
        """The machine's inventory."""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Settings of the benchmark, in base units."""

    @property
    def server_cpus(self) -> Sequence[int]:
        """CPUs of the servers."""

    @property
    def load_cpus(self) -> Sequence[int]:
        """CPUs of the load, and of everything that is not the server."""

    @property
    def processes(self) -> Mapping[str, int]:
        """Live processes of the run: name -> id of the supervisor, of which all others descend."""

    def processes_of(self, side: Side) -> Mapping[str, int]:
        """Live processes of one side: those whose name begins with ``load``, or the benchmark's others."""

    def sides(self) -> Mapping[int, Side]:
        """The side of every process that the benchmark has started, by the id of its supervisor."""

    @property
    def measured(self) -> tuple[int, int] | None:
        """Begin and end of the measure phase, CLOCK_MONOTONIC in ns; None before its end."""

    @property
    def failure(self) -> str | None:
        """Why the run failed, None while it did not; of use in ``after_run``."""

    def record(self, key: str, value: "JsonValue") -> None:
        """Put a value beside the hook's name in ``run.json``."""

    def add_artifact(self, role: str, path: Path) -> None:
        """Name a file or folder in the run's directory as a part of the run."""

    def start_process(
        self, name: str, command: Sequence[str], *, grace_s: float | None = None, may_end: bool = False
    ) -> ProcessHandle:
        """Start a process that lives beside the run, on the load's CPUs, and ends with it at the latest.

        If something kills it before it is stopped, the run is incomplete; one that ``may_end`` costs what it
        would have done. ``grace_s`` is what it needs to end in order.
        """

    def interrupt_process(self, process: ProcessHandle) -> None:
        """Send SIGINT, at which recorders finish their files; wait for it by `wait_process`."""

    def has_ended(self, process: ProcessHandle) -> bool:
        """Whether a process has ended."""

    def last_line(self, process: ProcessHandle) -> str | None:
        """The last line of a process's standard error."""

    def stop_process(self, process: ProcessHandle, timeout_s: float = 10.0) -> None:
        """Ask a process to end with SIGTERM; raises WorkloadFailedError when it ended badly."""

    def wait_process(self, process: ProcessHandle, timeout_s: float) -> int:
        """Wait until a process ends by itself and return its exit code, 128 + S when signal S ended it.

        It is ended, and WorkloadFailedError raised, when it takes longer than ``timeout_s``.
        """

    def wait(self, seconds: float) -> None:
        """Wait while the run stays under watch. Hooks must not sleep by themselves."""


class MeasureContext(HookContext, Protocol):
    """The same in the measure phase."""

    @property
    def begin_ns(self) -> int:
        """Begin of the phase, CLOCK_MONOTONIC."""

    @property
    def elapsed_s(self) -> float:
        """How long it has lasted."""


class Hook:
    """Base of every hook: does nothing at each of the five moments.

    ``parameters`` declares its options as a benchmark declares its parameters. ``always`` hooks run without
    being asked for. ``during_interval_s`` is the time between two calls in the measure phase, None: none.
    """

    doc: ClassVar[str] = ""
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    always: ClassVar[bool] = False
    during_interval_s: float | None = None

    def __init__(self, options: Settings) -> None:
        self.options = options

    def check(self) -> None:
        """Raise UsageError or EnvironmentLacksError where this machine does not let the hook do its work.

        Called before anything of the run exists.
        """

    def before_run(self, context: HookContext) -> None:
        """Before anything is started."""

    def after_start(self, context: HookContext) -> None:
        """The servers answer; no load runs yet."""

    def before_measure(self, context: HookContext) -> None:
        """The warm-up has ended, and the load goes on."""

    def during(self, measure: MeasureContext) -> None:
        """The measure phase is on. A call that takes longer than 0.1 s is a problem of the hook."""

    def after_measure(self, context: HookContext) -> None:
        """The measure phase has ended; the servers still run."""

    def after_run(self, context: HookContext) -> None:
        """The benchmark's processes have ended. Called after a failure too."""


_BUILT_IN = {
    "probe": "steelyard.bench.hooks.probe:ProbeHook",
    "counters": "steelyard.bench.hooks.counters:CountersHook",
    "topdown": "steelyard.bench.hooks.topdown:TopDownHook",
    "profile": "steelyard.bench.hooks.profile:ProfileHook",
    "perf": "steelyard.bench.hooks.perf:PerfHook",
    "copymove": "steelyard.bench.hooks.copymove:CopyMoveHook",
    "command": "steelyard.bench.hooks.command:CommandHook",
    "cpu-limit": "steelyard.bench.hooks.cpu_limit:CpuLimitHook",
    "network-limit": "steelyard.bench.hooks.network_limit:NetworkLimitHook",
    "disk-limit": "steelyard.bench.hooks.disk_limit:DiskLimitHook",
    "rendezvous": "steelyard.bench.hooks.rendezvous:RendezvousHook",
}


def _installed() -> dict[str, EntryPoint]:
    """Return others' hooks by name; a package cannot take the name of a built-in one."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in _BUILT_IN}


def names() -> list[str]:
    """Return the names of all hooks that are installed, built-in ones first."""
    return [*_BUILT_IN, *sorted(_installed())]


def find(name: str) -> type[Hook]:
    """Return the hook class called ``name``.

    Raises UsageError when there is none, EnvironmentLacksError when its package cannot be imported.
    """
    built_in = _BUILT_IN.get(name)
    point = EntryPoint(name, built_in, GROUP) if built_in else _installed().get(name)
    if point is None:
        raise UsageError(
            f"unknown hook {name!r}{nearest(name, names())}", hint=f"hooks: {', '.join(names())}"
        )
    try:
        loaded = point.load()
    except Exception as error:
        raise EnvironmentLacksError(
            f"hook {name} ({point.value}) cannot be imported: {error}", hint="install its package again"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, Hook)):
        raise EnvironmentLacksError(f"hook {name} ({point.value}) is not a steelyard.bench.hook.Hook class")
    return loaded


def parse_request(text: str) -> tuple[str, dict[str, str]]:
    """Return the hook's name and options from ``NAME[:option=value,...]``; values may be quoted.

    >>> parse_request('command:before="echo a,b",after=true')
    ('command', {'before': 'echo a,b', 'after': 'true'})
    """
    name, _, rest = text.partition(":")
    lexer = shlex.shlex(rest, posix=True)
    lexer.whitespace = ","
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        parts = list(lexer)
    except ValueError as error:
        raise UsageError(
            f"--hook {text!r}: {error}", hint="write it as NAME:option=value,option=value"
        ) from error
    return name.strip(), parse_assignments(parts, flag=f"--hook {name}: option")


def create(
    requests: Sequence[str], declared: Sequence[str] = (), *, without: Sequence[str] = ()
) -> list[tuple[str, Hook]]:
    """Return the hooks of a run: built-in ones that always run, then those asked for, in order.

    ``declared`` are those of its benchmark: they come before those asked for, which replace them by name.
    ``without`` names those that always run and have no place in this run.
    """
    chosen: dict[str, dict[str, str]] = {}
    for text in requests:
        name, options = parse_request(text)
        if name in chosen:
            raise UsageError(f"--hook {name} is given twice")
        chosen[name] = options
    own = dict(parse_request(text) for text in declared)
    chosen = {**{name: options for name, options in own.items() if name not in chosen}, **chosen}
    classes = {name: find(name) for name in [*_BUILT_IN, *chosen]}
    # Those that always run come first, asked for or not: they watch what the others do.
    always = [name for name in _BUILT_IN if classes[name].always and name not in without]
    return [
        (
            name,
            classes[name](
                Settings.resolve(classes[name].parameters, chosen.get(name, {}), owner=f"hook {name}")
            ),
        )
        for name in dict.fromkeys([*always, *chosen])
    ]
