"""What is known of runs under way, read on as it grows, at little cost: their machines are being measured.

In: folders of runs, looked at again and again. Out: `Watched`, with the seconds that the logs of the loads
have and the charts of the CPUs. Of a log only what is new is read; the charts and what is calculated, which
take more, are made again no sooner than `_CPU_SHARE` allows.

Not here: what is calculated (``observed``), what the page says (``pages.live``).
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import SteelyardError, open_regular
from steelyard.records import Check, Run

if TYPE_CHECKING:
    from steelyard.report.answer import Timeline

_RUNS = 16
_MOST_BYTES = 16 << 20
"""Of a log that are read at one look; the next look goes on."""
_LINE_BYTES = 1 << 20
_FRESH_S = 0.5
"""How old what is known may be: several who watch one run cost no more than one."""
_CPU_SHARE = 0.01
"""Share of one CPU that may go into what is made of telemetry and statistics."""
_NEEDED = ("begin_ns", "end_ns", "completed", "errors")


@dataclass
class Second:
    """What all loads together did in one second."""

    completed_per_s: float = 0.0
    errors: int = 0
    p50_ns: float = float("nan")
    p99_ns: float = float("nan")
    lag_p99_ns: float = float("nan")


@dataclass
class Seen:
    """What the logs of the loads say."""

    seconds: dict[int, Second] = field(default_factory=dict)
    """By the second of the monotonic clock."""
    errors: int = 0
    measured: int = 0
    """Requests that were completed in the measure phase, and the errors in it."""
    measured_errors: int = 0
    measured_per_s: dict[int, float] = field(default_factory=dict)
    """Throughput of all loads in each second of the measure phase."""

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an interval of one load to those of the others."""
        second = self.seconds.setdefault(int(event["end_ns"]) // 1_000_000_000, Second())
        length_s = (int(event["end_ns"]) - int(event["begin_ns"])) / 1e9
        completed, errors = int(event["completed"]), int(event["errors"])
        per_s = completed / length_s if length_s > 0 else 0.0
        second.completed_per_s += per_s
        second.errors += errors
        self.errors += errors
        if event.get("phase") == "measure":
            self.measured += completed
            self.measured_errors += errors
            at = int(event["end_ns"]) // 1_000_000_000
            self.measured_per_s[at] = self.measured_per_s.get(at, 0.0) + per_s
        for name in ("p50_ns", "p99_ns"):
            setattr(second, name, _larger(getattr(second, name), event.get(f"response_{name}")))
        second.lag_p99_ns = _larger(second.lag_p99_ns, event.get("lag_p99_ns"))


@dataclass
class Watched:
    """A run under way."""

    folder: Path
    seen: Seen = field(default_factory=Seen)
    cpu: list[Timeline] = field(default_factory=list)
    """Charts of servers and load, as far as they are on disk."""
    steady: Check | None = None
    """What the throughput so far would say of the result; None where the seconds are too few."""
    steal_ratio: float | None = None
    """Share of the CPU time of the last minutes that the hypervisor took, None where that is not known."""
    _begun: dict[str, int] = field(default_factory=dict)
    """Where the unread part of each log begins."""
    _looked_s: float = float("-inf")
    _due_s: float = float("-inf")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def look(self, run: Run) -> None:
        """Read on."""
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._looked_s < _FRESH_S:
                return
            for process in run.processes:
                if process.log is None or "load" not in process.name or ".." in Path(process.log).parts:
                    continue
                for event in self._new_events(process.log):
                    self.seen.add(event)
            if now_s >= self._due_s:
                # It is loaded once, and that is not what a look takes.
                from steelyard.web import observed

                began_s = time.process_time()
                self.cpu, self.steal_ratio = observed.cpus_of(self.folder, run)
                self.steady = observed.steady_of(self.seen.measured_per_s)
                self._due_s = time.monotonic() + (time.process_time() - began_s) / _CPU_SHARE
            self._looked_s = time.monotonic()

    def _new_events(self, log: str) -> Iterator[Mapping[str, Any]]:
        """Yield the intervals of the whole lines that were written since the last look."""
        begin = self._begun.get(log, 0)
        try:
            with open_regular(self.folder / log) as file:
                file.seek(begin)
                text = file.read(_MOST_BYTES)
        except (SteelyardError, OSError):
            return
        whole = text.rfind(b"\n") + 1
        if not whole and len(text) > _LINE_BYTES:
            # Whatever this is, it is no line of a load.
            whole = len(text)
        self._begun[log] = begin + whole
        for line in text[:whole].splitlines():
            if line.startswith(b"{") and b'"interval"' in line and (event := _event(line)) is not None:
                yield event


class Watching:
    """Runs that are watched, the last ones asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[Path, Watched] = OrderedDict()

    def look(self, folder: Path, run: Run) -> Watched:
        """Return what is known of the run in ``folder`` by now."""
        with self._lock:
            watched = self._runs.setdefault(folder, Watched(folder))
            self._runs.move_to_end(folder)
            while len(self._runs) > _RUNS:
                self._runs.popitem(last=False)
        watched.look(run)
        return watched


def _event(line: bytes) -> Mapping[str, Any] | None:
    try:
        event = json.loads(line)
        if event.get("event") == "interval":
            return {
                **event,
                **{name: int(event[name]) for name in ("begin_ns", "end_ns", "completed", "errors")},
            }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        # A line of another program.
        pass
    return None


def _larger(one: float, other: Any) -> float:
    """Return the larger of two that may be missing: the worst of several loads."""
    if isinstance(other, bool) or not isinstance(other, int | float) or other != other or other <= one:
        return one
    return float(other)
