"""Stack samples of a program or a machine, as folded stacks, and what can be counted in them.

In: a folded file, as ``steelyard-profile`` writes it: comment lines ``# key: value`` first, then one line a
stack, ``comm;frame;...;leaf COUNT``, where a frame is a function and, where known, `` [module]``. Out:
`Profile`, and `Weights` of its functions or modules.

Invariants: a line that cannot be read is counted and shown, never guessed at and never an exception; memory
is bounded, whatever the file holds, and what the bounds cut is counted; names have no control characters.

Not here: reading perf.data or pprof (``steelyard-profile fold``), what a function is for (``tax_map``),
differences of two profiles (``diff``), drawing.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from steelyard._base import RecordError, open_regular

Ids = NDArray[np.int64]

SAMPLES = "samples"
UNKNOWN = "[unknown]"
NO_STACK = "[no stack]"
"""The only frame of a sample of which no frame is known."""
TRUNCATED = "[truncated]"
KERNEL = "kernel"
IDLE_FUNCTIONS = frozenset(
    (
        *("native_safe_halt", "pv_native_safe_halt", "default_idle", "default_idle_call", "arch_cpu_idle"),
        *(
            "acpi_idle_enter",
            "acpi_safe_halt",
            "acpi_idle_do_entry",
            "mwait_idle",
            "poll_idle",
            "cpu_idle_poll",
        ),
        *("intel_idle", "intel_idle_ibrs", "intel_idle_irq", "intel_idle_xstate", "cpu_do_idle"),
        *("cpuidle_enter", "cpuidle_enter_state", "haltpoll_enter_idle", "mwait_idle_with_hints.constprop.0"),
    )
)
"""Where a processor that has nothing to do stands: Linux, kernel/sched/idle.c, drivers/cpuidle and the
architectures' process.c."""

_IDLE_THREAD = re.compile(r"swapper(/\d+)?")
_LINE_BYTES = 1 << 20
_DEPTH = 1024
_ENTRIES = 10_000_000
"""Frames kept over all distinct stacks: 100,000 stacks of 100 frames, 40 MB."""
_NAME_BYTES = 128 << 20
"""Names kept, in bytes; later new ones become `TRUNCATED`."""
_EXAMPLES = 5
_FACT = re.compile(r"#\s*([A-Za-z_][\w.-]{0,63})\s*:\s*(.*)")
_MAX_COUNT = 1 << 62
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COMPILED = re.compile(r"(?:\.(?:part|constprop|isra|cold|lto_priv|llvm|warm|hot)(?:\.\d+)*)+$|@+\w[\w.]*$")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
_ADDRESS = re.compile(r"(?:0x)?[0-9a-f]{6,16}$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One function of a stack: its name, and the base name of the file it was mapped from."""

    function: str
    module: str | None

    @property
    def known(self) -> bool:
        """Whether the function has a name."""
        return self.function not in (UNKNOWN, NO_STACK, TRUNCATED)

    @property
    def label(self) -> str:
        """The frame as it stands in a folded file."""
        return self.function if self.module is None else f"{self.function} [{self.module}]"

    @property
    def key(self) -> str:
        """What is counted as one function: without what a compiler appends, and with the module where
        nameless.

        >>> Frame("memcpy@@GLIBC_2.14", "libc.so.6").key, Frame("[unknown]", "libfoo.so").key
        ('memcpy', '[unknown] [libfoo.so]')
        """
        return plain_name(self.function) if self.known else self.label


def _at_rest(frame: Frame) -> bool:
    return frame.module in (KERNEL, None) and frame.function in IDLE_FUNCTIONS


def plain_name(function: str) -> str:
    """Return ``function`` without version, compiler's suffix or Rust's hash.

    >>> plain_name("do_idle.part.0.constprop.0"), plain_name("core::ptr::drop::h0123456789abcdef")
    ('do_idle', 'core::ptr::drop')
    """
    if "@" in function or "." in function:
        function = _COMPILED.sub("", function) or function
    return _RUST_HASH.sub("", function) if "::h" in function else function


def parse_frame(text: str) -> Frame:
    """Return the frame that ``text`` means.

    >>> parse_frame("operator new[] [libstdc++.so.6]")
    Frame(function='operator new[]', module='libstdc++.so.6')
    >>> parse_frame("tcp_sendmsg_[k]"), parse_frame("[unknown]").module
    (Frame(function='tcp_sendmsg', module='kernel'), None)
    """
    function, module = text, None
    if text.endswith("]"):
        at = text.rfind(" [")
        if at > 0 and at + 3 < len(text):
            function, module = text[:at], text[at + 2 : -1]
        elif text.endswith("_[k]") and len(text) > 4:
            # What Brendan Gregg's stackcollapse-perf.pl --kernel writes.
            function, module = text[:-4], KERNEL
    if module in ("kernel.kallsyms", "guest.kernel.kallsyms", "vmlinux"):
        module = KERNEL
    elif module == "unknown":
        module = None
    function = function.strip()
    if not function or _ADDRESS.match(function):
        function = UNKNOWN
    return Frame(function, module)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file was read: what it lost, in lines and samples."""

    lines: int = 0
    bad_lines: int = 0
    examples: tuple[str, ...] = ()
    """Some bad lines as ``line N: reason``."""
    cut_stacks: int = 0
    """Lines whose stack was shortened, because of its depth or of the bounds of memory."""
    cut_samples: int = 0
    """Samples on those lines."""

    def sentences(self) -> list[str]:
        """Return what a reader of the result must know."""
        sentences = []
        if self.bad_lines:
            sentences.append(
                f"{self.bad_lines:,} of {self.lines:,} lines could not be read and are left out"
                f" ({'; '.join(self.examples)})"
            )
        if self.cut_stacks:
            sentences.append(
                f"{self.cut_stacks:,} stacks with {self.cut_samples:,} samples were too deep or too many"
                f" to keep"
                f" whole; their outer frames are shown as {TRUNCATED}"
            )
        return sentences


@dataclass(frozen=True)
class Profile:
    """Distinct stacks with their counts.

    Stack ``i`` is of the command ``commands[command_of[i]]`` and has the frames ``frames[f]`` for ``f`` in
    ``entries[starts[i]:starts[i + 1]]``, the outermost first; each has at least one.
    """

    commands: tuple[str, ...]
    frames: tuple[Frame, ...]
    command_of: Ids
    starts: Ids
    entries: NDArray[np.int32]
    counts: Ids
    facts: Mapping[str, str] = field(default_factory=dict)
    """The file's comments: ``unit``, ``event``, ``hz``, ``duration_s``, ``lost``, ``user_stacks``,
    ``cut_stacks``, ``scope``, and all of ``reason`` in one."""
    reading: Reading = field(default_factory=Reading)

    @property
    def unit(self) -> str:
        """What the counts count."""
        return self.facts.get("unit", SAMPLES)

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return int(self.counts.sum())

    @property
    def lost(self) -> int | None:
        """Samples that the kernel dropped, or None where the file does not say."""
        text = self.facts.get("lost", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None

    @property
    def whole_ratio(self) -> float | None:
        """The share of programs' stacks that reach where their thread began; None where unknown."""
        counts = [self.facts.get(key, "") for key in ("user_stacks", "cut_stacks")]
        if not all(text.isascii() and text.isdecimal() and len(text) < 19 for text in counts):
            return None
        stacks, cut = map(int, counts)
        return 1 - cut / stacks if 0 <= cut <= stacks and stacks else None

    @property
    def leaves(self) -> Ids:
        """The frame in which each stack's samples were taken."""
        return self.entries[self.starts[1:] - 1].astype(np.int64)

    def stacks(self) -> Iterator[tuple[int, list[int], int]]:
        """Yield command, frames from the outermost, and count of each stack."""
        starts = self.starts.tolist()
        for index, (command, count) in enumerate(
            zip(self.command_of.tolist(), self.counts.tolist(), strict=True)
        ):
            yield command, self.entries[starts[index] : starts[index + 1]].tolist(), count

    def only(self, keep: NDArray[np.bool_]) -> Profile:
        """Return the profile of the stacks where ``keep`` holds."""
        lengths = np.diff(self.starts)
        return replace(
            self,
            command_of=self.command_of[keep],
            starts=np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int64),
            entries=self.entries[np.repeat(keep, lengths)],
            counts=self.counts[keep],
        )

    @cached_property
    def idle(self) -> NDArray[np.bool_]:
        """Which stacks were taken on a processor that had nothing to do.

        Without the kernel's symbols they are those of the idle thread, whatever it did.
        """
        if not len(self.counts):
            return np.zeros(0, dtype=bool)
        at_rest = np.array([_at_rest(frame) for frame in self.frames], dtype=bool)
        nameless = np.array([not frame.known and frame.module == KERNEL for frame in self.frames], dtype=bool)
        idlers = np.array([bool(_IDLE_THREAD.fullmatch(name)) for name in self.commands], dtype=bool)
        leaves = self.leaves
        result: NDArray[np.bool_] = at_rest[leaves] | (nameless[leaves] & idlers[self.command_of])
        return result

    def busy(self) -> Profile:
        """Return the profile without idle processors: their share says how loaded a machine is, not by
        what.
        """
        return self.only(~self.idle) if self.idle.any() else self


@dataclass(frozen=True)
class Weights:
    """Counts by key: ``own`` where the key's frame was the leaf, ``total`` where it was anywhere in the
    stack.
    """

    keys: tuple[str, ...]
    own: Ids
    total: Ids


def by_function(frame: Frame) -> str:
    """Key of a frame's function."""
    return frame.key


def by_module(frame: Frame) -> str:
    """Key of a frame's module."""
    return frame.module or "[no module]"


def weigh(profile: Profile, key_of: Callable[[Frame], str] = by_function) -> Weights:
    """Count the samples of each key; recursion counts once in ``total``."""
    numbers: dict[str, int] = {}
    key_of_frame = np.array(
        [numbers.setdefault(key_of(frame), len(numbers)) for frame in profile.frames], dtype=np.int64
    )
    count = len(numbers)
    own = np.zeros(count, dtype=np.int64)
    total = np.zeros(count, dtype=np.int64)
    if len(profile.counts):
        np.add.at(own, key_of_frame[profile.leaves], profile.counts)
        for first, last in _slices(profile.starts):
            lengths = np.diff(profile.starts[first : last + 1])
            keys = key_of_frame[profile.entries[profile.starts[first] : profile.starts[last]]]
            stack = np.repeat(np.arange(first, last, dtype=np.int64), lengths)
            pairs = np.unique(stack * count + keys)
            np.add.at(total, pairs % count, profile.counts[pairs // count])
    seen = total > 0
    names = tuple(name for name, number in numbers.items() if seen[number])
    return Weights(names, own[seen], total[seen])


def _slices(starts: Ids, entries: int = 1_000_000) -> Iterator[tuple[int, int]]:
    """Yield ranges of stacks with about ``entries`` frames each, so that temporary arrays stay small."""
    first, count = 0, len(starts) - 1
    while first < count:
        last = int(np.searchsorted(starts, starts[first] + entries, side="right")) - 1
        last = min(count, max(first + 1, last))
        yield first, last
        first = last


def modules_of(profile: Profile) -> dict[str, str]:
    """Return, for each function, the module in which most of its frames lie."""
    seen: dict[str, Counter[str]] = {}
    weight = np.bincount(profile.entries, minlength=len(profile.frames)).tolist()
    for frame, count in zip(profile.frames, weight, strict=True):
        if frame.module is not None:
            seen.setdefault(frame.key, Counter())[frame.module] += count
    return {key: counter.most_common(1)[0][0] for key, counter in seen.items()}


class _Numbers(dict[str, int]):
    """Gives each new name the next number, within a budget of bytes."""

    def __init__(self, budget: list[int]) -> None:
        super().__init__()
        self.names: list[str] = []
        self.budget = budget
        self.refused = False

    def __missing__(self, name: str) -> int:
        # A Python string takes about 60 bytes beside its characters, its place in the tables as much again.
        cost = 120 + len(name)
        if name != TRUNCATED and self.budget[0] < cost:
            self.refused = True
            return self[TRUNCATED]
        self.budget[0] -= cost
        number = len(self.names)
        self[name] = number
        self.names.append(name)
        return number


class _Reader:
    def __init__(self, entries: int, name_bytes: int) -> None:
        budget = [name_bytes]
        self.commands = _Numbers(budget)
        self.frames = _Numbers(budget)
        self.stacks: dict[bytes, int] = {}
        self.frames[TRUNCATED], self.commands[TRUNCATED]  # the first names, for whatever finds no room
        self.entries_left = entries
        self.extra = entries // 10
        self.facts: dict[str, str] = {}
        self.lines = 0
        self.bad_lines = 0
        self.examples: list[str] = []
        self.cut_stacks = 0
        self.cut_samples = 0
        self.latest: bytes | None = None
        """Key of the stack that was read last; None when it could not be."""

    def bad(self, reason: str) -> None:
        self.bad_lines += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"line {self.lines}: {reason}")

    def read(self, file: BinaryIO) -> None:
        in_head = True
        while raw := file.readline(_LINE_BYTES):
            self.lines += 1
            if not raw.endswith(b"\n") and len(raw) >= _LINE_BYTES:
                self.bad(f"longer than {_LINE_BYTES >> 20} MiB")
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(_LINE_BYTES)
                continue
            text = raw.decode("utf-8", errors="replace").strip()
            if not text:
                continue
            if not text.isprintable():
                text = _UNPRINTABLE.sub("\ufffd", text)
            if in_head and text.startswith("#"):
                self.fact(text)
                continue
            in_head = False
            self.stack(text)

    def fact(self, text: str) -> None:
        match = _FACT.match(text)
        if not match:
            return
        key, value = match[1], match[2][:500]
        if key == "reason" and key in self.facts:
            # Each thing that is missing has a line of its own.
            self.facts[key] = f"{self.facts[key]}; {value}"[:2000]
        elif len(self.facts) < 64:
            self.facts.setdefault(key, value)

    def stack(self, text: str) -> None:
        self.latest = None
        names, _, number = text.rpartition(" ")
        if not names:
            return self.bad("no count after the stack")
        # int() takes more than digits, and thousands of them.
        if not (number.isascii() and number.isdecimal()) or len(number) > 19:
            return self.bad(f"{number[:24]!r} is no count")
        count = int(number)
        if count > _MAX_COUNT:
            return self.bad(f"{number} is beyond any count")
        if count == 0:
            return None
        command, *parts = names.split(";")
        if not parts:
            parts = [NO_STACK]
        cut = len(parts) > _DEPTH
        if cut:
            parts = [TRUNCATED, *parts[-_DEPTH + 1 :]]
        self.frames.refused = self.commands.refused = False
        command_number = self.commands[command]
        numbers = [command_number, *map(self.frames.__getitem__, parts)]
        if len(numbers) > self.entries_left:
            # The leaf stays what it was: the time of every function is still right, its callers are lost.
            within = self.entries_left > -self.extra
            numbers = [command_number, self.frames[TRUNCATED], numbers[-1]] if within else [0, 0]
            cut = True
        key = self.latest = array("i", numbers).tobytes()
        if key not in self.stacks:
            self.entries_left -= len(numbers)
        self.stacks[key] = self.stacks.get(key, 0) + count
        if cut or self.frames.refused or self.commands.refused:
            self.cut_stacks += 1
            self.cut_samples += count
        return None

    def profile(self) -> Profile:
        flat = np.frombuffer(b"".join(self.stacks), dtype=np.int32)
        lengths = np.array([len(key) // 4 for key in self.stacks], dtype=np.int64)
        counts = list(self.stacks.values())
        self.stacks.clear()
        begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entries = np.ones(len(flat), dtype=bool)
        entries[begins[:-1]] = False
        return Profile(
            commands=tuple(self.commands.names),
            frames=tuple(map(parse_frame, self.frames.names)),
            command_of=flat[begins[:-1]].astype(np.int64),
            starts=(begins - np.arange(len(begins))).astype(np.int64),
            entries=flat[entries],
            counts=np.array(counts, dtype=np.int64),
            facts=self.facts,
            reading=Reading(
                self.lines, self.bad_lines, tuple(self.examples), self.cut_stacks, self.cut_samples
            ),
        )


def fold(stacks: Iterable[tuple[str, int]], facts: Mapping[str, str] | None = None) -> tuple[Profile, Ids]:
    """Return stacks (``comm;frame;...;leaf``) with counts as a profile, and which of its stacks each is.

    A stack that cannot be read, or counts nothing, is -1; equal ones fall together.
    """
    reader = _Reader(_ENTRIES, _NAME_BYTES)
    reader.facts.update(facts or {})
    keys: list[bytes | None] = []
    for text, count in stacks:
        reader.lines += 1
        plain = text.strip()
        reader.stack(f"{plain if plain.isprintable() else _UNPRINTABLE.sub(chr(0xFFFD), plain)} {count}")
        keys.append(reader.latest)
    places = {key: at for at, key in enumerate(reader.stacks)}
    index = np.array([-1 if key is None else places[key] for key in keys], dtype=np.int64)
    return reader.profile(), index


def read_folded(path: Path, *, entries: int = _ENTRIES, name_bytes: int = _NAME_BYTES) -> Profile:
    """Read folded stacks; at most ``entries`` frames and ``name_bytes`` of names are kept.

    Raises RecordError when the file cannot be opened, holds no stack at all, or counts beyond 2**62 in sum.
    """
    reader = _Reader(entries, name_bytes)
    try:
        with open_regular(path) as file:
            reader.read(file)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    if not reader.stacks:
        reason = f"none of its {reader.lines} lines is one" if reader.bad_lines else "it has no sample"
        detail = reader.facts.get("reason") or "; ".join(reader.examples[:1])
        raise RecordError(
            f"{path}: no folded stacks: {reason}{f' ({detail})' if detail else ''}",
            hint="steelyard-profile fold makes them of perf.data, perf script text and pprof",
        )
    if sum(reader.stacks.values()) > _MAX_COUNT:
        raise RecordError(f"{path}: its counts add up to more than any profile holds")
    return reader.profile()
