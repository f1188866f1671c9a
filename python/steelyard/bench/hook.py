"""The public interface of hooks: what may be done around a benchmark without changing it.

A hook is a class derived from `Hook`, made known under the entry point group ``steelyard.hooks``:

    [project.entry-points."steelyard.hooks"]
    my-hook = "my_package:MyHook"

In: the context of a run, at five moments. Out: whatever the hook records, files in the run's directory.

Invariants: an exception in a hook never ends the run, it makes the verdict suspect and is reported there;
``after_run`` is called whenever ``before_run`` was, also when the run failed, so that changes can be undone.

Not here: the hooks themselves (``hooks/``).
"""

import shlex
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import ClassVar, Protocol

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.parameters import Parameter, Setting, Settings, nearest, parse_assignments

GROUP = "steelyard.hooks"
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

    @property
    def failure(self) -> str | None:
        """Why the run failed, None while it did not; of use in ``after_run``."""

    def record(self, key: str, value: Setting | None) -> None:
        """Put a value beside the hook's name in ``run.json``."""

    def add_artifact(self, role: str, path: Path) -> None:
        """Name a file or folder in the run's directory as a part of the run."""

    def start_process(self, name: str, command: Sequence[str]) -> ProcessHandle:
        """Start a process that lives beside the run, on the load's CPUs, and ends with it at the latest.

        If something kills it before it is stopped, the run is incomplete.
        """

    def stop_process(self, process: ProcessHandle, timeout_s: float = 10.0) -> None:
        """Ask a process to end with SIGTERM; raises WorkloadFailedError when it ended badly."""

    def wait_process(self, process: ProcessHandle, timeout_s: float) -> int:
        """Wait until a process ends by itself and return its exit code, 128 + S when signal S ended it.

        It is ended, and WorkloadFailedError raised, when it takes longer than ``timeout_s``.
        """

    def wait(self, seconds: float) -> None:
        """Wait while the run stays under watch. Hooks must not sleep by themselves."""


class Hook:
    """Base of every hook: does nothing at each of the five moments.

    ``parameters`` declares its options as a benchmark declares its parameters. ``always`` hooks run without
    being asked for.
    """

    doc: ClassVar[str] = ""
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    always: ClassVar[bool] = False

    def __init__(self, options: Settings) -> None:
        self.options = options

    def before_run(self, context: HookContext) -> None:
        """Before anything is started."""

    def after_start(self, context: HookContext) -> None:
        """The servers answer; no load runs yet."""

    def before_measure(self, context: HookContext) -> None:
        """The warm-up has ended, and the load goes on."""

    def after_measure(self, context: HookContext) -> None:
        """The measure phase has ended; the servers still run."""

    def after_run(self, context: HookContext) -> None:
        """The benchmark's processes have ended. Called after a failure too."""


_BUILT_IN = {
    "probe": "steelyard.bench.hooks.probe:ProbeHook",
    "copymove": "steelyard.bench.hooks.copymove:CopyMoveHook",
    "command": "steelyard.bench.hooks.command:CommandHook",
    "cpu-limit": "steelyard.bench.hooks.cpu_limit:CpuLimitHook",
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


def create(requests: Sequence[str], declared: Sequence[str] = ()) -> list[tuple[str, Hook]]:
    """Return the hooks of a run: built-in ones that always run, then those asked for, in order.

    ``declared`` are those of its benchmark: they come before those asked for, which replace them by name.
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
    always = [name for name in _BUILT_IN if classes[name].always]
    return [
        (
            name,
            classes[name](
                Settings.resolve(classes[name].parameters, chosen.get(name, {}), owner=f"hook {name}")
            ),
        )
        for name in dict.fromkeys([*always, *chosen])
    ]
