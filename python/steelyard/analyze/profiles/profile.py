"""Stack samples of a program or a machine, and what can be counted in them.

In: distinct stacks with their counts. Out: `Profile`, and `Weights` of its functions or modules.

Not here: reading files (``folded``), what a function is for (``tax_map``), differences of two profiles
(``diff``), drawing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

SAMPLES = "samples"
COUNTS = "counts"
"""The unit of counts with fractions, of which the file does not say what they count."""
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

_CPU_TIME = re.compile(r"cpu|cpu-cycles|cycles|ref-cycles|cpu-clock|task-clock")
_TIME_UNITS = frozenset(("nanoseconds", "microseconds", "milliseconds", "seconds", "ns", "us", "ms", "s"))
_LINE = re.compile(r" \([^()\s]+:\d+\)$")
_IDLE_THREAD = re.compile(r"swapper(/\d+)?")
_COMPILED = re.compile(r"(?:\.(?:part|constprop|isra|cold|lto_priv|llvm|warm|hot)(?:\.\d+)*)+$|@+\w[\w.]*$")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")
# Compiled at run time, inlined, interpreted: stackcollapse-perf.pl --jit --inline and async-profiler.
_KIND_OF_CODE = re.compile(r"[^_]_\[[jin01]\]$")
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
    def bare(self) -> str:
        """The function without its line of the source.

        >>> Frame("copy (a.c:12)", "db").bare, Frame("f(int)", "db").bare
        ('copy', 'f(int)')
        """
        return _LINE.sub("", self.function) if self.function.endswith(")") else self.function

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


def _bare(event: str) -> str:
    """Return an event without its unit and modifiers.

    >>> _bare("cpu_core/cycles:ppp/"), _bare("cycles:u"), _bare("cpu-clock")
    ('cycles', 'cycles', 'cpu-clock')
    """
    inner = event.split("/")[1] if event.count("/") > 1 else event
    return inner.partition(":")[0]


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
        elif _KIND_OF_CODE.search(text):
            function = text[:-4]
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
    scale: int = 1
    """Counts are in parts of 1/scale, so that those of a file with fractions are whole here."""

    @property
    def unit(self) -> str:
        """What the counts count. Fractions are no samples."""
        return self.facts.get("unit", SAMPLES if self.scale == 1 else COUNTS)

    def in_unit(self, count: int) -> int | float:
        """Return a count as the file has it."""
        return count if self.scale == 1 else count / self.scale

    @property
    def measured(self) -> str:
        """Name what the counts measure: CPU time where it is, else the event or the unit.

        Samples of a clock or of cycles are CPU time, and so are those of which nothing else is said.
        """
        event = self.facts.get("event")
        if self.unit in _TIME_UNITS or self.unit == SAMPLES or self.unit == event:
            events = [] if event is None else event.split(" + ")
            if all(_CPU_TIME.fullmatch(_bare(name)) for name in events):
                return "CPU time" if self.unit in (*_TIME_UNITS, SAMPLES) or events else self.unit
            return {"wall": "wall time"}.get(event or "", event or self.unit)
        return event or self.unit

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


def modules_of(profile: Profile, *, says_others: bool = False) -> dict[str, str]:
    """Return, for each function, the module in which most of its frames lie.

    ``says_others`` adds how many others it lies in, as "kv-store and 1 more".
    """
    seen: dict[str, Counter[str]] = {}
    weight = np.bincount(profile.entries, minlength=len(profile.frames)).tolist()
    for frame, count in zip(profile.frames, weight, strict=True):
        if frame.module is not None:
            seen.setdefault(frame.key, Counter())[frame.module] += count

    def said(counter: Counter[str]) -> str:
        others = len(counter) - 1 if says_others else 0
        return counter.most_common(1)[0][0] + (f" and {others:,} more" if others else "")

    return {key: said(counter) for key, counter in seen.items()}
