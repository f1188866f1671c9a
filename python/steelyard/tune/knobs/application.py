"""Knobs of the program itself: parameters, places in its command, environment, configuration files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError
from steelyard.bench.limits.control_group import parent_group
from steelyard.bench.parameters import Parameter
from steelyard.records.experiment import ExperimentArm
from steelyard.tune.cells import (
    CommandCell,
    EnvironmentCell,
    FileCell,
    GroupMemoryCell,
    WholeFile,
    is_ordinary,
)
from steelyard.tune.changes import Write
from steelyard.tune.knobs.knob import Knob, Risk

MEMORY_MAX, UNLIMITED = "memory_max", "unlimited"
_MEMORY = Parameter(MEMORY_MAX, "bytes", "a size, such as 600MiB", minimum=1 << 20, maximum=1 << 60)
DEFAULT = "default"
"""The level of a parameter that the benchmark chooses itself."""


@dataclass
class SettingKnob(Knob):
    """A parameter of a benchmark."""

    parameter: Parameter
    present: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        self.name, self.about = self.parameter.name, self.parameter.doc
        self.levels = tuple(dict.fromkeys((self.present, *self.levels)))

    def read(self) -> str:
        """Return the level that trials have otherwise."""
        return self.present

    def check(self, level: str) -> str:
        """Return a value that the benchmark takes. Raises UsageError."""
        if level != DEFAULT:
            self.parameter.parse(level)
        return level

    def dress(self, arm: ExperimentArm, level: str) -> ExperimentArm:
        """Return an arm with this parameter."""
        settings = {name: value for name, value in arm.settings.items() if name != self.name}
        return arm.model_copy(
            update={"settings": settings if level == DEFAULT else {**settings, self.name: level}}
        )


@dataclass
class PlaceKnob(Knob):
    """A place ``{NAME}`` in the command of a trial; the first level is the one that it has otherwise."""

    name: str
    levels: tuple[str, ...]
    about: str = "a place in the command"

    def read(self) -> str:
        """Return the first level."""
        return self.levels[0]

    def check(self, level: str) -> str:
        """Return any text."""
        return level

    def dress(self, arm: ExperimentArm, level: str) -> ExperimentArm:
        """Return an arm whose command has the level in its place."""
        place = f"{{{self.name}}}"
        return arm.model_copy(update={"command": [word.replace(place, level) for word in arm.command]})


@dataclass
class EnvironmentKnob(Knob):
    """A variable of the environment; an empty level: not set."""

    variable: str
    levels: tuple[str, ...]
    name: str = ""
    about: str = "a variable of the environment"
    section: str | None = "service"

    def __post_init__(self) -> None:
        self.name = self.name or f"env:{self.variable}"

    def read(self) -> str:
        """Return its value here."""
        return EnvironmentCell(self.variable).read()

    def check(self, level: str) -> str:
        """Return any text without a NUL. Raises UsageError."""
        if "\0" in level:
            raise UsageError(f"{self.name}: a variable holds no NUL")
        return level

    def writes(self, level: str) -> list[Write]:
        """Return the variable of this process, which the workload inherits."""
        return [(EnvironmentCell(self.variable), level)]


@dataclass
class MemoryLimitKnob(Knob):
    """Memory that the command of a trial and all that it starts may have, their files in memory included.

    A control group below this process's own holds it; the other processes of a trial are not in it.
    """

    cell: GroupMemoryCell
    levels: tuple[str, ...]
    name: str = MEMORY_MAX
    about: str = "memory of the command and what it starts, with its cached files: a control group's limit"
    is_ordered: bool = True
    section: str | None = "service"

    @classmethod
    def of_this_process(cls, levels: tuple[str, ...]) -> MemoryLimitKnob:
        """Return the knob with these levels. Raises EnvironmentLacksError where no group can be made."""
        parent, version = parent_group("memory", "memory", noun="memory")
        file = "memory.limit_in_bytes" if version == 1 else "memory.max"
        cell = GroupMemoryCell(parent / f"steelyard-{MEMORY_MAX}-{os.getpid()}", file)
        knob = cls(cell, tuple(dict.fromkeys((UNLIMITED, *levels))))
        for level in levels:
            knob.check(level)
        return knob

    def read(self) -> str:
        """Return that there is no limit of its own."""
        return UNLIMITED

    def check(self, level: str) -> str:
        """Return a size, or that there is no limit. Raises UsageError."""
        if level != UNLIMITED:
            _MEMORY.parse(level)
        return level

    def bytes_of(self, level: str) -> int:
        """Return the limit of a level in bytes, as the kernel keeps it: in whole pages."""
        size = int(_MEMORY.parse(level))
        return size - size % os.sysconf("SC_PAGESIZE")

    def writes(self, level: str) -> list[Write]:
        """Return the limit of the group."""
        return [] if level == UNLIMITED else [(self.cell, str(self.bytes_of(level)))]

    def dress(self, arm: ExperimentArm, level: str) -> ExperimentArm:
        """Return an arm whose command begins in the group."""
        dressed = super().dress(arm, level)
        if level == UNLIMITED:
            return dressed
        procs = str(self.cell.folder / "cgroup.procs")
        command = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', procs, *arm.command]
        return dressed.model_copy(update={"command": command})


@dataclass
class TextKnob(Knob):
    """Files that the user names, each with the level as its content."""

    name: str
    about: str
    paths: tuple[Path, ...]
    levels: tuple[str, ...]
    risk: Risk = Risk.MEDIUM
    needs_reboot: bool = False
    minimum: float | None = None
    maximum: float | None = None

    def read(self) -> str:
        """Return the content, several joined by a comma where files differ."""
        return ",".join(dict.fromkeys(_value_in(path) for path in self.paths))

    def check(self, level: str) -> str:
        """Return a level that is listed, or a number in range. Raises UsageError."""
        return _listed_or_in_range(self, level, self.minimum, self.maximum)

    def writes(self, level: str) -> list[Write]:
        """Return the level for each file: a file on disk is replaced, and put back, to the byte."""
        written: list[Write] = []
        for path in self.paths:
            if not is_ordinary(path):
                written.append((FileCell(path), level))
                continue
            _value_in(path)
            whole = WholeFile(path)
            written.append((whole, level + ("\n" if whole.read().endswith("\n") else "")))
        return written


def _value_in(path: Path) -> str:
    """Return the value in a file. Raises OSError for one on disk that has more than a value in it."""
    if is_ordinary(path):
        lines = WholeFile(path).read().strip().splitlines()
        if len(lines) > 1:
            raise OSError(22, f"has {len(lines)} lines and no single value: a template fits it", str(path))
    return FileCell(path).read()


@dataclass
class CommandKnob(Knob):
    """What one command of the user's sets, and another one prints."""

    name: str
    about: str
    apply: tuple[str, ...]
    show: tuple[str, ...]
    levels: tuple[str, ...]
    risk: Risk = Risk.MEDIUM
    needs_reboot: bool = False
    minimum: float | None = None
    maximum: float | None = None

    def read(self) -> str:
        """Return what the command prints."""
        return CommandCell(self.apply, self.show).read()

    def check(self, level: str) -> str:
        """Return a level that is listed, or a number in range. Raises UsageError."""
        return _listed_or_in_range(self, level, self.minimum, self.maximum)

    def writes(self, level: str) -> list[Write]:
        """Return the command."""
        return [(CommandCell(self.apply, self.show), level)]


@dataclass
class TemplateKnob(Knob):
    """A configuration file, made of a template in which ``{value}`` stands for the level."""

    name: str
    about: str
    path: Path
    template: str
    levels: tuple[str, ...]
    risk: Risk = Risk.MEDIUM
    needs_reboot: bool = False

    def read(self) -> str:
        """Return the level whose file is there, or that it is another one."""
        now = WholeFile(self.path).read()
        return next((level for level in self.levels if self._text(level) == now), "as found")

    def writes(self, level: str) -> list[Write]:
        """Return the whole file."""
        return [(WholeFile(self.path), self._text(level))]

    def _text(self, level: str) -> str:
        return self.template.replace("{value}", level)


def _listed_or_in_range(knob: Knob, level: str, minimum: float | None, maximum: float | None) -> str:
    if level in knob.levels:
        return level
    if minimum is None and maximum is None:
        return Knob.check(knob, level)
    try:
        number = float(level)
    except ValueError:
        number = float("nan")
    if (minimum is None or number >= minimum) and (maximum is None or number <= maximum):
        return level
    low, high = ("" if end is None else f"{end:g}" for end in (minimum, maximum))
    raise UsageError(f"{knob.name}={level}: allowed is {low}..{high}", hint=knob.about)
