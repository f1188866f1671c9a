"""The garbage collector's log of a Java virtual machine: pauses, and the heap in use after each.

In: a log written with ``-Xlog:gc=info:file=...:timenanos``, whose times are the kernel's monotonic clock.
Out: `Pause`s, and metrics of a phase.

Not here: concurrent phases, which stop no thread.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from steelyard.bench.load.metrics import value
from steelyard.records import Metric

_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_PAUSE = re.compile(
    r"\[(?P<at>\d{1,18})ns\] GC\(\d+\) (?P<kind>Pause .*?) "
    r"\d+[BKMG]->(?P<used>\d{1,9})(?P<used_unit>[BKMG])\((?P<heap>\d{1,9})(?P<heap_unit>[BKMG])\) "
    r"(?P<ms>\d{1,9}\.?\d{0,9})ms"
)


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause of all threads."""

    end_ns: int
    """When it ended, on the monotonic clock."""
    duration_ns: int
    kind: str
    used_bytes: int
    """Heap in use after it."""
    heap_bytes: int
    """Heap that the virtual machine had then."""


def read_pauses(lines: Iterable[str]) -> list[Pause]:
    """Return the pauses that the lines of a log tell of; other lines are skipped.

    >>> read_pauses(["[5000000ns] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 40M->8M(64M) 1.500ms"])[0]
    Pause(end_ns=5000000, duration_ns=1500000, kind='Pause Young', used_bytes=8388608, heap_bytes=67108864)
    """
    pauses = []
    for line in lines:
        match = _PAUSE.match(line)
        if match is not None:
            pauses.append(
                Pause(
                    end_ns=int(match["at"]),
                    duration_ns=round(float(match["ms"]) * 1e6),
                    kind=match["kind"].partition(" (")[0],
                    used_bytes=int(match["used"]) * _UNITS[match["used_unit"]],
                    heap_bytes=int(match["heap"]) * _UNITS[match["heap_unit"]],
                )
            )
    return pauses


def pauses_of(path: Path, begin_ns: int, end_ns: int) -> list[Pause] | None:
    """Return the pauses that ended within the interval, None when there is no log."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            return [pause for pause in read_pauses(log) if begin_ns <= pause.end_ns <= end_ns]
    except OSError:
        return None


def gc_metrics(log: Path, span: tuple[int, int]) -> dict[str, Metric]:
    """Return what the garbage collector did in ``span``."""
    pauses = pauses_of(log, *span)
    missing = (
        "there is no log of the garbage collector" if pauses is None else "no pause in the measure phase"
    )
    seen = pauses or []
    stopped_ns = sum(pause.duration_ns for pause in seen)
    return {
        "gc_pauses": value(None if pauses is None else len(seen), "count", None, missing),
        "gc_pause_ratio": value(
            None if pauses is None else stopped_ns / (span[1] - span[0]), "ratio", "lower", missing
        ),
        "gc_pause_max_ns": value(max((p.duration_ns for p in seen), default=None), "ns", "lower", missing),
        "heap_used_max_bytes": value(max((p.used_bytes for p in seen), default=None), "bytes", None, missing),
        "heap_bytes": value(max((p.heap_bytes for p in seen), default=None), "bytes", None, missing),
    }
