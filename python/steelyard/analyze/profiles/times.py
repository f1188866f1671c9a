"""When samples were taken: times out of the text of ``perf script``, and the samples of a span of them.

In: a file. Out: seconds since its first sample, and the text of those within a span. Folded stacks and pprof
have no times; of perf.data, ``perf script`` writes them.

Not here: stacks (``steelyard-profile fold``), drawing (``report.profiles.time_chart``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard._base import RecordError

# A sample's first line has its time, as ``comm 12 [001] 1234.567890: 1 cycles:``; lines of stacks begin with
# a tab.
_HEAD = re.compile(rb"[^\t].*?\s(\d{1,9})\.(\d{3,9}):\s")
FEWEST_IN_BLOCK = 20
"""Samples in a block of time below which its shares say next to nothing."""
_LOOK_AHEAD = 1000
"""Lines in which the first time must stand."""


def sample_times(path: Path) -> NDArray[np.int64] | None:
    """Return the time of each sample, ns since the earliest, in the file's order; None without any.

    Raises RecordError when the file cannot be read.
    """
    times = [time for time, _ in _blocks(path) if time is not None]
    if not times:
        return None
    found = np.array(times, dtype=np.int64)
    found -= found.min()
    return found


def between(path: Path, begin_s: float, end_s: float, target: Path) -> int:
    """Write the samples from ``begin_s`` to before ``end_s`` to ``target``; return how many. Seconds count
    from the earliest sample.

    Raises RecordError when the file cannot be read, has no times, or none in the span.
    """
    times = sample_times(path)
    if times is None:
        raise RecordError(
            f"{path}: its samples have no times", hint="perf script of perf.data writes them as text"
        )
    first = min(time for time, _ in _blocks(path) if time is not None)
    count = 0
    with target.open("wb") as out:
        for time, lines in _blocks(path):
            if time is not None and begin_s * 1e9 <= time - first < end_s * 1e9:
                out.writelines(lines)
                count += 1
    if not count:
        raise RecordError(
            f"{path}: no sample from second {begin_s:g} to {end_s:g}",
            hint=f"its last is at second {times.max() / 1e9:.3f}",
        )
    return count


def cut(path: Path, count: int, folder: Path) -> list[Path]:
    """Write the samples to ``count`` files in ``folder``, each of as many, in the order of their times.

    Returns nothing where they have no times, or are too few: `FEWEST_IN_BLOCK` in each file. Raises
    RecordError when the file cannot be read.
    """
    times = sample_times(path)
    if times is None or len(times) < count * FEWEST_IN_BLOCK:
        return []
    block_of = np.empty(len(times), dtype=np.int64)
    block_of[np.argsort(times, kind="stable")] = np.arange(len(times)) * count // len(times)
    files = [folder / f"{number}.{path.name}" for number in range(count)]
    with contextlib.ExitStack() as opened:
        outs = [opened.enter_context(file.open("wb")) for file in files]
        blocks = (lines for time, lines in _blocks(path) if time is not None)
        for number, lines in zip(block_of.tolist(), blocks, strict=True):
            outs[number].writelines(lines)
    return files


def _blocks(path: Path) -> Iterator[tuple[int | None, list[bytes]]]:
    """Yield each sample's time, ns, with its lines; None for what stands before the first."""
    time: int | None = None
    lines: list[bytes] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                head = _HEAD.match(line)
                if head is not None:
                    yield time, lines
                    time, lines = int(head[1]) * 10**9 + int(head[2].ljust(9, b"0")), []
                elif time is None and number > _LOOK_AHEAD:
                    return
                lines.append(line)
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    yield time, lines
