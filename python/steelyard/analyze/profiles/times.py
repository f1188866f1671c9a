"""When samples were taken, and the samples of a span of time.

In: the text of ``perf script``, or folded stacks with the file of times that ``steelyard-profile record``
writes beside them. Out: seconds since the first sample, and text of the same kind of the samples within a
span. Other folded stacks and pprof have no times; of perf.data, ``perf script`` writes them.

Not here: stacks (``steelyard-profile fold``), drawing (``report.profiles.time_chart``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard._base import RecordError, read_regular

# A sample's first line has its time, as ``comm 12 [001] 1234.567890: 1 cycles:``; lines of stacks begin with
# a tab.
_HEAD = re.compile(rb"[^\t].*?\s(\d{1,9})\.(\d{3,9}):\s")
# Behind it are the period and the event.
_EVENT = re.compile(rb"\s*(?:\d+\s+)?(\S+):(?:\s|$)")
FEWEST_IN_BLOCK = 20
"""Samples in a block of time below which its shares say next to nothing."""
TIMES = ".times"
"""Ending of the file of times beside folded stacks."""
_KEPT_FACTS = (b"# unit:", b"# event:", b"# hz:", b"# cpus:", b"# scope:")
"""What folded stacks say of themselves that is so of a part of them, too."""
_FIRST = re.compile(rb"# .*CLOCK_MONOTONIC (\d{1,18})\b")
_CHILD_END = b"/"
"""Parts the process that a stack descends from and its command (``--descendants-of``)."""
_PID_DIGITS = 18
_LOOK_AHEAD = 1000
"""Lines in which the first time must stand."""


@dataclass(frozen=True)
class Taken:
    """When the samples of a recording were taken."""

    first_ns: int
    """The earliest, on CLOCK_MONOTONIC."""
    elapsed_ns: NDArray[np.int64]
    """Each sample since the earliest, in the file's order."""


def recorded_times(path: Path) -> Taken | None:
    """Return when the samples of folded stacks were taken; None where no times were recorded beside them.

    Raises RecordError when the file of times cannot be read.
    """
    own = _own(path)
    return None if own is None or not len(own) else Taken(_first_ns(path), own[:, 0])


def _first_ns(path: Path) -> int:
    first = _FIRST.match(read_regular(path.with_suffix(TIMES)).partition(b"\n")[0])
    if first is None:
        raise RecordError(f"{path.with_suffix(TIMES)}: does not say when its first sample was taken")
    return int(first[1])


def sample_times(path: Path, event: str | None = None) -> NDArray[np.int64] | None:
    """Return the time of each sample, ns since the earliest, in the file's order; None without any.

    Of text with several events, those of ``event`` alone (``+`` between the names of a hybrid CPU's).

    Raises RecordError when the file cannot be read.
    """
    own = _own(path)
    if own is not None:
        return own[:, 0] if len(own) else None
    times = [time for time, _ in _blocks(path, event) if time is not None]
    if not times:
        return None
    elapsed = np.array(times, dtype=np.int64)
    elapsed -= elapsed.min()
    return elapsed


def write_between(path: Path, begin_s: float, end_s: float, target: Path, event: str | None = None) -> int:
    """Write the samples from ``begin_s`` to before ``end_s`` to ``target``; return how many. Seconds count
    from the earliest sample.

    Raises RecordError when the file cannot be read, has no times, or none in the span.
    """
    times = sample_times(path, event)
    if times is None:
        raise RecordError(
            f"{path}: its samples have no times", hint="perf script of perf.data writes them as text"
        )
    is_within = (begin_s * 1e9 <= times) & (times < end_s * 1e9)
    count = int(is_within.sum())
    if count:
        _split(path, np.where(is_within, 0, -1), [target], event)
    else:
        raise RecordError(
            f"{path}: no sample from second {begin_s:g} to {end_s:g}",
            hint=f"its last is at second {times.max() / 1e9:.3f}",
        )
    return count


def cut(path: Path, count: int, folder: Path, event: str | None = None) -> list[Path]:
    """Write the samples to ``count`` files in ``folder``, each of as many, in the order of their times.

    Returns nothing where they have no times, or are too few: `FEWEST_IN_BLOCK` in each file. Raises
    RecordError when the file cannot be read.
    """
    times = sample_times(path, event)
    if times is None or len(times) < count * FEWEST_IN_BLOCK:
        return []
    block_of = np.empty(len(times), dtype=np.int64)
    block_of[np.argsort(times, kind="stable")] = np.arange(len(times)) * count // len(times)
    files = [folder / f"{number}.{path.name}" for number in range(count)]
    _split(path, block_of, files, event)
    return files


def write_by_child(path: Path, files: Mapping[int, Path], begin_ns: int, end_ns: int) -> dict[Path, int]:
    """Write the samples of each child's descendants within a span (CLOCK_MONOTONIC) to its file.

    In: folded stacks of ``steelyard-profile record --descendants-of`` with their times; several children may
    share a file. Out: the samples of each file, with their times beside it; one without any is not written.
    Raises RecordError when the stacks or their times cannot be read.
    """
    own = _own(path)
    if own is None:
        raise RecordError(f"{path}: its samples have no times")
    first_ns = _first_ns(path)
    head, lines = _head_and_stacks(path)
    at_ns = own[:, 0] + first_ns
    is_within = (begin_ns <= at_ns) & (at_ns < end_ns)
    counts = _counts(path, own[is_within, 1], len(lines))
    facts = [line for line in head if line.startswith((*_KEPT_FACTS, b"# reason:", b"# lost:"))]
    facts.append(b"# duration_s: %.3f\n" % ((end_ns - begin_ns) / 1e9))
    bodies: dict[Path, list[bytes]] = {file: [] for file in files.values()}
    sums = dict.fromkeys(bodies, 0)
    numbers = {file: np.full(len(lines), -1, dtype=np.int64) for file in bodies}
    for at, (line, count) in enumerate(zip(lines, counts.tolist(), strict=True)):
        child, parted, stack = line.rpartition(b" ")[0].partition(_CHILD_END)
        file = files.get(int(child)) if parted and child.isdigit() and len(child) <= _PID_DIGITS else None
        if file is not None and count:
            numbers[file][at] = len(bodies[file])
            bodies[file].append(b"%b %d\n" % (stack, count))
            sums[file] += count
    for file, body in bodies.items():
        if body:
            file.write_bytes(b"".join([*facts, *body]))
            stacks = np.full(len(own), -1, dtype=np.int64)
            stacks[is_within] = numbers[file][own[is_within, 1]]
            _write_times(file, at_ns[stacks >= 0], stacks[stacks >= 0])
    return sums


def _write_times(file: Path, at_ns: NDArray[np.int64], stacks: NDArray[np.int64]) -> None:
    """Write the times of samples beside their stacks, as ``steelyard-profile record --times`` does."""
    first_ns = int(at_ns.min())
    rows = zip((at_ns - first_ns).tolist(), stacks.tolist(), strict=True)
    head = f"# ns since the first sample (CLOCK_MONOTONIC {first_ns}), number of its stack\n"
    file.with_suffix(TIMES).write_text(head + "".join(f"{elapsed} {stack}\n" for elapsed, stack in rows))


def _head_and_stacks(path: Path) -> tuple[list[bytes], list[bytes]]:
    lines = read_regular(path).splitlines(keepends=True)
    head_lines = next((at for at, line in enumerate(lines) if line[:2] != b"# "), len(lines))
    return lines[:head_lines], lines[head_lines:]


def _counts(path: Path, numbers: NDArray[np.int64], stacks: int) -> NDArray[np.int64]:
    """Return how often each stack occurs among ``numbers``, which are from 0.

    Raises RecordError for a number that no stack has: `numpy.bincount` would take memory for all below it,
    and for the largest ones writes where it has none.
    """
    if numbers.size and numbers.max() >= stacks:
        raise RecordError(f"{path.with_suffix(TIMES)}: not the times of {path.name}")
    return np.bincount(numbers, minlength=stacks)


def _split(path: Path, file_of: NDArray[np.int64], files: Sequence[Path], event: str | None) -> None:
    """Write each sample to the file of its number; those below 0 to none."""
    own = _own(path)
    if own is not None:
        facts, lines = _head_and_stacks(path)
        head = [line for line in facts if line.startswith(_KEPT_FACTS)]
        stacks = [line.rpartition(b" ")[0] for line in lines]
        for number, file in enumerate(files):
            counts = _counts(path, own[file_of == number, 1], len(stacks))
            body = [b"%b %d\n" % (stack, count) for stack, count in zip(stacks, counts, strict=True) if count]
            file.write_bytes(b"".join([*head, *body]))
        return
    with contextlib.ExitStack() as opened:
        outs = [opened.enter_context(file.open("wb")) for file in files]
        blocks = (lines for time, lines in _blocks(path, event) if time is not None)
        for number, block in zip(file_of.tolist(), blocks, strict=True):
            if number >= 0:
                outs[number].writelines(block)


def _own(path: Path) -> NDArray[np.int64] | None:
    """Return time and stack of each sample from the file beside folded stacks; None without one."""
    place = path.with_suffix(TIMES)
    if place == path or not place.is_file():
        return None
    words = read_regular(place).partition(b"\n")[2].split()
    try:
        rows = np.array(words, dtype=np.int64).reshape(-1, 2)
    except (ValueError, OverflowError) as error:
        raise RecordError(f"{place}: no times of samples: {error}") from error
    if (rows < 0).any():
        raise RecordError(f"{place}: no times of samples: a number is negative")
    return rows


def _blocks(path: Path, event: str | None = None) -> Iterator[tuple[int | None, list[bytes]]]:
    """Yield each sample's time, ns, with its lines; None for what stands before the first, and for samples of
    other events.
    """
    names = None if event is None else {name.encode() for name in event.split(" + ")}
    time: int | None = None
    has_begun = False
    lines: list[bytes] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                head = _HEAD.match(line)
                if head is not None:
                    yield time, lines
                    has_begun = True
                    time, lines = int(head[1]) * 10**9 + int(head[2].ljust(9, b"0")), []
                    counted = _EVENT.match(line, head.end())
                    if names is not None and counted is not None and counted[1] not in names:
                        time = None
                elif not has_begun and number > _LOOK_AHEAD:
                    return
                lines.append(line)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    yield time, lines
