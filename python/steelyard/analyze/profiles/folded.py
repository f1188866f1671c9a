"""Folded stacks, of Steelyard and of others, to a profile.

In: a folded file, as ``steelyard-profile`` writes it: comment lines ``# key: value`` first, then one line a
stack, ``comm;frame;...;leaf COUNT``, where a frame is a function and, where known, `` [module]``. Out:
`Profile`.

Files of other tools have no comments, and their stacks may begin with a function (py-spy, async-profiler): a
root that has the shape of a function is none of a command. A count may have a fraction, and a tab before it.

Invariants: a line that cannot be read is counted and shown, never guessed at and never an exception; memory
is bounded, whatever the file holds, and what the bounds cut is counted; names have no control characters.

Not here: reading perf.data, perf script or pprof (``steelyard-profile fold``).
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

import numpy as np

from steelyard._base import RecordError, open_regular
from steelyard.analyze.profiles.profile import NO_STACK, TRUNCATED, Ids, Profile, Reading, parse_frame

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


NO_COMMAND = "[no command]"
"""The command of stacks that begin with a function."""
_LOOK_AHEAD = 1000
"""Lines from which the form of a file is recognized."""
_DIGITS = 19
_DECIMALS = 6
"""Decimals of a count that are kept."""
_FRACTION = re.compile(r"(?=[\d.]*\d)\d{0,18}\.(\d{0,30})", re.ASCII)
_TWO_COUNTS = re.compile(r"\s\d+(?:\.\d*)?\s+\d+(?:\.\d*)?$", re.ASCII)
# The kernel's names of commands have 15 bytes at most, and those that tools append a process's number to.
_FUNCTION = re.compile(
    r"""(?x)
    .+\ \([^()]*:\d+\)$                             # main (a.py:3): py-spy, phpspy
    | .+\ \([^()]*\.(?:py|pyx|rb|php|js|mjs|ts)\)$   # main (a.py): py-spy --nolineno
    | .+\ -\ \S+\.(?:py|rb|php)(?::\d+|\ line\ \d+)?$    # block in run - app.rb: rbspy
    | .*::                                           # C++, Rust
    | [^`/]+`.                                       # libc.so`start: DTrace
    | .+_\[[jikn01]\]$                               # annotations of async-profiler
    | [\w$]+(?:/[\w$]+)+\.[\w$<>]+                   # java/lang/Thread.run
    | (?=.{16})[\w$]+(?:\.[\w$<>]+){2,}              # java.lang.Thread.run
    | [\w./-]*\.\(\*\w+\)\.\w+                      # net/http.(*conn).serve
    | (?:runtime|main)\.(?!(?:py|sh|js|rb|pl|exe|out)$)\w+(?:\.\w+)*$  # runtime.goexit, main.f.func1
    | \w+\([^()\d][^()]*\)$ | \w+\(\)$               # main(int, char**)
    | _start$ | __libc_start_(?:call_)?main | (?:start_thread|thread_start|_pthread_start)$
    | _*clone3?$ | <\w+>$
    | [A-Za-z_]\w{15,}$                              # longer than a command's name
    """
)


class _TwoCountsError(Exception):
    """Each line has two counts."""


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
        self.scale = 1
        self.begins_with_command = True
        self.latest: bytes | None = None
        """Key of the stack that was read last; None when it could not be."""

    def bad(self, reason: str) -> None:
        self.bad_lines += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"line {self.lines}: {reason}")

    def read(self, file: BinaryIO) -> None:
        lines = self.lines_of(file)
        first = list(itertools.islice(lines, _LOOK_AHEAD))
        head = [text for _, text in itertools.takewhile(lambda line: line[1].startswith("#"), first)]
        for text in head:
            self.fact(text)
        is_own = "unit" in self.facts or "event" in self.facts
        stacks = [text for _, text in first[len(head) :]]
        self.begins_with_command = is_own or not _begin_with_functions(stacks)
        if stacks and not is_own and all(_TWO_COUNTS.search(text) for text in stacks):
            raise _TwoCountsError
        total = self.lines
        for self.lines, text in itertools.chain(first[len(head) :], lines):
            self.stack(text)
        self.lines = max(total, self.lines)

    def lines_of(self, file: BinaryIO) -> Iterator[tuple[int, str]]:
        """Yield lines that are not empty, with their numbers."""
        number = 0
        while raw := file.readline(_LINE_BYTES):
            self.lines = number = number + 1
            if not raw.endswith(b"\n") and len(raw) >= _LINE_BYTES:
                self.bad(f"longer than {_LINE_BYTES >> 20} MiB")
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(_LINE_BYTES)
                continue
            text = raw.decode("utf-8", errors="replace").strip().removeprefix("\ufeff")
            if text:
                yield number, text

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
        names, _, number = (text if "\t" not in text[-24:] else _last_tab_as_space(text)).rpartition(" ")
        names = names.rstrip()
        if not names:
            return self.bad("no count after the stack")
        if not names.isprintable():
            names = _UNPRINTABLE.sub("\ufffd", names)
        count = self.count(number)
        if count is None:
            return self.bad(f"{number[:24]!r} is no count")
        if count > _MAX_COUNT:
            return self.bad(f"{number} is beyond any count")
        if count == 0:
            return None
        command, *parts = names.split(";") if self.begins_with_command else (NO_COMMAND, *names.split(";"))
        if ";-;" in names or ";--;" in names:
            # bcc's profile.py -d puts a line between the program's part of a stack and the kernel's.
            parts = [part for part in parts if part not in ("-", "--")]
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

    def count(self, number: str) -> int | None:
        """Return a count in parts of 1/scale, which a fraction with more digits makes smaller."""
        # int() takes more than digits, and thousands of them.
        if number.isascii() and number.isdecimal() and len(number) <= _DIGITS:
            return int(number) * self.scale
        match = _FRACTION.fullmatch(number)
        if match is None:
            return None
        needed = 10 ** min(len(match[1].rstrip("0")), _DECIMALS)
        if needed > self.scale:
            factor = needed // self.scale
            self.scale = needed
            self.cut_samples *= factor
            self.stacks = {key: count * factor for key, count in self.stacks.items()}
        return round(Decimal(number) * self.scale)

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
            scale=self.scale,
        )


def _last_tab_as_space(text: str) -> str:
    """Return the text with a space for the tab that stands before its last word."""
    names, _, number = text.rpartition("\t")
    return f"{names} {number}" if " " not in number else text


def _begin_with_functions(stacks: list[str]) -> bool:
    """Whether most stacks begin with a function, not with a command."""
    roots = [text.partition(";")[0] for text in stacks]
    # A stack of one frame has its count behind it.
    roots = [
        root if ";" in text else root.rpartition(" ")[0] for root, text in zip(roots, stacks, strict=True)
    ]
    return 2 * sum(_FUNCTION.match(root) is not None for root in roots) > len(roots)


def fold(
    stacks: Iterable[tuple[str, int | str]], facts: Mapping[str, str] | None = None
) -> tuple[Profile, Ids]:
    """Return stacks (``comm;frame;...;leaf``) with counts as a profile, and which of its stacks each is.

    A stack that cannot be read, or counts nothing, is -1; equal ones fall together.
    """
    reader = _Reader(_ENTRIES, _NAME_BYTES)
    reader.facts.update(facts or {})
    keys: list[bytes | None] = []
    for text, count in stacks:
        reader.lines += 1
        plain = text.strip()
        reader.stack(f"{plain} {count}")
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
    except _TwoCountsError as error:
        raise RecordError(
            f"{path}: two counts a line: the comparison of two profiles (difffolded.pl), not a profile",
            hint="steelyard profile diff compares two profiles",
        ) from error
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
