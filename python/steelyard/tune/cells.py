"""Places that a knob writes: files, bits of a register, one resource of resctrl, a command's state, a group.

In: an address, such as ``file:/sys/kernel/mm/transparent_hugepage/enabled``. Out: a cell that is read and
written as a text. Addresses stand in the undo journal, so that whoever finds it can put the text back without
knowing the knob.

Invariant: what `Cell.read` returns can be written; reading it back gives the same.

Not here: which texts make sense (``knobs``), and when they are written (``changes``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from steelyard._base import format_cpu_list, parse_cpu_list
from steelyard.bench.limits.control_group import remove_group
from steelyard.bench.supervised import run_to_end

_TEXT_BYTES = 1 << 16
_COMMAND_TIMEOUT_S = 60.0
_CHOICE = re.compile(r"\[([^\]]+)\]")


class Cell(Protocol):
    """One place."""

    outlives: ClassVar[bool]
    """Whether what is written there outlives this process."""

    @property
    def address(self) -> str:
        """Where it is."""

    def read(self) -> str:
        """Return what is there. Raises OSError."""

    def write(self, text: str) -> None:
        """Write. Raises OSError."""


@dataclass(frozen=True, slots=True)
class FileCell:
    """A file of the kernel, or another one with a single value."""

    path: Path
    outlives: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return ``file:`` and the path."""
        return f"file:{self.path}"

    def read(self) -> str:
        """Return the value; of a list of choices the one in brackets, as it is written."""
        with self.path.open("rb") as file:
            text = file.read(_TEXT_BYTES).decode("utf-8", "replace").strip()
        match = _CHOICE.search(text)
        return match[1] if match is not None else text

    def write(self, text: str) -> None:
        """Write the value in one call, as the kernel wants it."""
        # Unbuffered: what the kernel refuses must be an error here, not when the file is closed.
        with self.path.open("wb", buffering=0) as file:
            file.write(text.encode())


_OF_THE_KERNEL = frozenset(
    (
        *(
            "bpf",
            "cgroup",
            "cgroup2",
            "configfs",
            "cpuset",
            "debugfs",
            "efivarfs",
            "fusectl",
            "proc",
            "pstore",
        ),
        *("resctrl", "securityfs", "selinuxfs", "sysfs", "tracefs"),
    )
)


def is_ordinary(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> bool:
    """Return whether ``path`` is a file on disk, whose bytes are its owner's, and no kernel value."""
    if not path.is_file():
        return False
    resolved, best, kind = path.resolve(), -1, ""
    with contextlib.suppress(OSError):
        for line in mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            before, _, after = line.partition(" - ")
            fields = before.split()
            if len(fields) < 5 or not after:
                continue
            # Blanks in names of mount points are written in octal (proc_pid_mountinfo(5)).
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
            if resolved.is_relative_to(point) and len(point) >= best:
                best, kind = len(point), after.split()[0]
    return kind not in _OF_THE_KERNEL


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file on disk that is replaced as a whole, such as a configuration; it outlives a reboot."""

    path: Path
    outlives: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return ``whole:`` and the path."""
        return f"whole:{self.path}"

    def read(self) -> str:
        """Return the content. Raises OSError, also for one that is too long for the journal."""
        text = self.path.read_bytes()
        if len(text) > _TEXT_BYTES:
            raise OSError(27, f"longer than {_TEXT_BYTES} bytes", str(self.path))
        return text.decode("utf-8", "surrogateescape")

    def write(self, text: str) -> None:
        """Replace the content, keeping owner and mode."""
        with self.path.open("r+b") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.truncate()
            file.flush()
            os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class BitsCell:
    """Bits of a model-specific register of one CPU, through the ``msr`` driver (msr(4))."""

    path: Path
    register: int
    mask: int
    outlives: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return ``msr:``, the device, the register and the bits."""
        return f"msr:{self.path}:{self.register:#x}:{self.mask:#x}"

    def read(self) -> str:
        """Return the bits of the mask in hexadecimal, in their places."""
        return f"{self._whole() & self.mask:#x}"

    def write(self, text: str) -> None:
        """Write the bits of the mask; the others stay."""
        value = self._whole() & ~self.mask | int(text, 16) & self.mask
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, struct.pack("<Q", value), self.register)
        finally:
            os.close(descriptor)

    def _whole(self) -> int:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            data = os.pread(descriptor, 8, self.register)
        finally:
            os.close(descriptor)
        if len(data) != 8:
            raise OSError(5, f"register {self.register:#x} cannot be read", str(self.path))
        return int(struct.unpack("<Q", data)[0])


@dataclass(frozen=True, slots=True)
class SchemataCell:
    """One resource of a resctrl group: ``L3``, ``L3CODE``, ``L3DATA``.

    Source: Linux, Documentation/filesystems/resctrl.rst.
    """

    path: Path
    resource: str
    outlives: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return ``schemata:``, the file and the resource."""
        return f"schemata:{self.path}:{self.resource}"

    def read(self) -> str:
        """Return its domains, such as ``0=7ff;1=7ff``."""
        for line in self.path.read_text().splitlines():
            name, _, domains = line.strip().partition(":")
            if name == self.resource:
                return ";".join(_without_zeros(domain) for domain in domains.split(";"))
        raise OSError(2, f"has no resource {self.resource}", str(self.path))

    def write(self, text: str) -> None:
        """Write its domains; a recorded file keeps its other lines, as the kernel does."""
        lines = [f"{self.resource}:{text}"]
        if self.path.stat().st_size:
            # Files of resctrl have no size: this is a recorded one, which would lose its other lines.
            kept = self.path.read_text().splitlines()
            lines = [lines[0] if line.strip().startswith(f"{self.resource}:") else line for line in kept]
        with self.path.open("wb", buffering=0) as file:
            file.write(("\n".join(lines) + "\n").encode())


def _without_zeros(domain: str) -> str:
    name, _, mask = domain.partition("=")
    return f"{name}={mask.lstrip('0') or '0'}"


@dataclass(frozen=True, slots=True)
class CommandCell:
    """The state of something that only commands reach; ``{}`` in ``write_words`` stands for the text."""

    write_words: tuple[str, ...]
    read_words: tuple[str, ...]
    outlives: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return ``command:`` and both commands as JSON."""
        return "command:" + json.dumps([self.write_words, self.read_words])

    def read(self) -> str:
        """Return what the reading command prints."""
        return _output(self.read_words)

    def write(self, text: str) -> None:
        """Run the writing command."""
        _output([word.replace("{}", text) for word in self.write_words])


def _output(words: Sequence[str]) -> str:
    try:
        done = run_to_end(words, timeout_s=_COMMAND_TIMEOUT_S, background=True)
    except subprocess.TimeoutExpired as error:
        raise OSError(110, f"took longer than {_COMMAND_TIMEOUT_S:g} s", words[0]) from error
    if done.returncode != 0:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        raise OSError(5, f"exited with code {done.returncode}" + (f": {last}" if last else ""), words[0])
    return done.stdout.strip()


@dataclass(frozen=True, slots=True)
class AffinityCell:
    """The CPUs of this process, which its children inherit."""

    outlives: ClassVar[bool] = False
    address: ClassVar[str] = "affinity:"

    def read(self) -> str:
        """Return the CPUs as a list."""
        return format_cpu_list(sorted(os.sched_getaffinity(0)))

    def write(self, text: str) -> None:
        """Confine this process."""
        os.sched_setaffinity(0, parse_cpu_list(text) or [])


@dataclass(frozen=True, slots=True)
class EnvironmentCell:
    """A variable of this process's environment, which its children inherit; an empty text: not set."""

    name: str
    outlives: ClassVar[bool] = False

    @property
    def address(self) -> str:
        """Return ``environment:`` and the name."""
        return f"environment:{self.name}"

    def read(self) -> str:
        """Return its value."""
        return os.environ.get(self.name, "")

    def write(self, text: str) -> None:
        """Set or remove it."""
        if text:
            os.environ[self.name] = text
        else:
            os.environ.pop(self.name, None)


@dataclass(frozen=True, slots=True)
class GroupMemoryCell:
    """The memory limit in bytes of a control group that is there for it alone; an empty text: no group."""

    folder: Path
    file: str
    """`memory.max`, or `memory.limit_in_bytes` of version 1."""
    outlives: ClassVar[bool] = True

    @property
    def address(self) -> str:
        """Return ``group-memory:``, the file and the folder."""
        return f"group-memory:{self.file}:{self.folder}"

    def read(self) -> str:
        """Return the limit; nothing where there is no group."""
        try:
            return (self.folder / self.file).read_text().strip()
        except FileNotFoundError:
            return ""

    def write(self, text: str) -> None:
        """Make the group with this limit, or remove it."""
        if text:
            self.folder.mkdir(exist_ok=True)
            (self.folder / self.file).write_text(text)
        else:
            remove_group(self.folder)


def _bits(rest: str) -> BitsCell:
    path, register, mask = rest.rsplit(":", 2)
    return BitsCell(Path(path), int(register, 16), int(mask, 16))


def _schemata(rest: str) -> SchemataCell:
    path, _, resource = rest.rpartition(":")
    return SchemataCell(Path(path), resource)


def _group_memory(rest: str) -> GroupMemoryCell:
    file, _, folder = rest.partition(":")
    return GroupMemoryCell(Path(folder), file)


def _command(rest: str) -> CommandCell:
    write, read = json.loads(rest)
    return CommandCell(tuple(write), tuple(read))


_KINDS: dict[str, Callable[[str], Cell]] = {
    "file": lambda rest: FileCell(Path(rest)),
    "whole": lambda rest: WholeFile(Path(rest)),
    "msr": _bits,
    "schemata": _schemata,
    "command": _command,
    "group-memory": _group_memory,
}


def cell_at(address: str) -> Cell:
    """Return the cell with this address.

    >>> cell_at("file:/proc/sys/vm/swappiness")
    FileCell(path=PosixPath('/proc/sys/vm/swappiness'))

    Raises OSError for an address of another kind: an entry of the journal that this version cannot read.
    """
    kind, _, rest = address.partition(":")
    try:
        return _KINDS[kind](rest)
    except (KeyError, ValueError, TypeError) as error:
        raise OSError(22, "no place that this version of Steelyard knows", address) from error
