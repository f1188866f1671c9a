"""The process that reads one source while the run's clock runs.

In: a plan as JSON on its command line. Out: the source's file (`steelyard.analyze.operations.files` tells its
format), complete when the process has been asked to end with SIGTERM or SIGINT.

A log is looked at every tenth of a second by default and its new lines are matched at once, so that a log of
any length needs no room. A pattern gets `LINE_TIME_S` for one line; after `SLOW_LINES_AT_MOST` of them the
source is given up. An endpoint is asked at most so often that asking takes `ASK_RATIO` of the time.

Standard library only, and one process a source: it starts within some hundredths of a second, and what holds
it up holds up nothing else.

Not here: deciding what to read (``sources``), and what it means (``analyze``).
"""

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from steelyard.bench.operations.follow import Follower
from steelyard.bench.operations.stamps import NoZoneError, Stamps

COMM = "steelyard-ops"
"""Name of the process in the kernel, by which a watched program is distinguished from it."""
KIND, SCHEMA_VERSION = "operations", "1.0"
ASK_RATIO = 0.1
ASK_TIME_S = 6.0
LINE_TIME_S = 0.05
SLOW_LINES_AT_MOST = 3
LABELS_AT_MOST = 50
_OTHER = "(others)"
_MORE = object()
"""Stands for the labels of operations in more series than are kept."""
_PROBLEMS_AT_MOST = 1000


class _SlowPatternError(Exception):
    """A pattern did not come to an end on a line."""


class _TooSlowError(Exception):
    """A service, or a condition on labels, took too long."""


def _too_slow(number: int, frame: Any) -> None:
    raise _TooSlowError(f"it took longer than {ASK_TIME_S:g} s")


class Out(Protocol):
    """What lines are written to."""

    def write(self, text: str) -> int:
        """Take a text."""

    def flush(self) -> None:
        """Hand it on."""


class Recorder:
    """Writes one source's file until it is stopped."""

    def __init__(self, plan: dict[str, Any], out: Out) -> None:
        self.plan = plan
        self.ended = False
        self._out = out
        self._totals: dict[str, Any] = {}
        self._notes: list[str] = []
        self._problems = 0
        self._declared: str | None = None
        self._close: Callable[[], None] = lambda: None

    def run(self) -> None:
        """Read until a signal says so."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        look = self._log() if self.plan["type"] == "log" else self._endpoint()
        begin_ns = time.monotonic_ns()
        keys = ("given", "type", "name", "meaning", "what")
        head = {"kind": KIND, "schema_version": SCHEMA_VERSION, **{key: self.plan[key] for key in keys}}
        clock = {"monotonic_ns": begin_ns, "realtime_ns": time.time_ns()}
        self.write({**head, "clock": clock, "begin_ns": begin_ns})
        interval_ns = int(self.plan["interval_s"] * 1e9)
        due_ns = begin_ns
        while not self.ended:
            took_ns = look()
            self._out.flush()
            now_ns = time.monotonic_ns()
            due_ns = max(due_ns + interval_ns, now_ns + int(took_ns / ASK_RATIO) - took_ns)
            if due_ns < now_ns:
                # What was missed is not made up for.
                due_ns = now_ns
            self._sleep(due_ns)
        look()
        self._close()
        tail = {"end_ns": time.monotonic_ns(), "cpu_s": time.process_time(), "notes": self._notes}
        self.write({**tail, **self._totals})
        for number in (signal.SIGTERM, signal.SIGINT):
            # All is written: being asked to end while ending is no failure.
            signal.signal(number, signal.SIG_IGN)

    def write(self, line: dict[str, Any]) -> None:
        """Write one line."""
        self._out.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")

    def _end(self, number: int, frame: Any) -> None:
        self.ended = True

    def _sleep(self, until_ns: int) -> None:
        # A signal that comes before the wait does not end it: the waits are short.
        while not self.ended and (left := until_ns - time.monotonic_ns()) > 0:
            time.sleep(min(0.05, left / 1e9))

    def _problem(self, time_ns: int, text: str) -> None:
        self._problems += 1
        if self._problems <= _PROBLEMS_AT_MOST:
            self.write({"time_ns": time_ns, "problem": text})

    # An endpoint

    def _endpoint(self) -> Callable[[], int]:
        # Here: a log needs no client, whose modules are most of the start.
        from steelyard.bench.operations import exposition, selector
        from steelyard.bench.operations.fetch import Client, FetchError

        client = Client(self.plan["url"])
        self._close = client.close
        selected = selector.parse(self.plan["what"], where="--ops")
        totals = self._totals
        totals |= {"readings": 0, "failed": 0}
        signal.signal(signal.SIGALRM, _too_slow)

        def look() -> int:
            begin_ns = time.monotonic_ns()
            # The socket's limit is one of each wait: a service that sends a byte now and then keeps it.
            signal.setitimer(signal.ITIMER_REAL, ASK_TIME_S)
            try:
                reading = exposition.read(client.get(), selected)
            except (FetchError, _TooSlowError) as error:
                client.close()
                totals["failed"] += 1
                self._problem(begin_ns, str(error))
                return time.monotonic_ns() - begin_ns
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            took_ns = time.monotonic_ns() - begin_ns
            # The values are of a moment between question and answer.
            time_ns = begin_ns + took_ns // 2
            totals["readings"] += 1
            if reading.meaning is not None and reading.meaning != self._declared:
                self._declared = reading.meaning
                self.write({"time_ns": time_ns, "declared": reading.meaning})
            if not reading.values:
                why = (
                    "its values are not numbers" if reading.unreadable else "the endpoint has no such series"
                )
                self._problem(time_ns, f"{self.plan['what']}: {why}")
            else:
                self.write({"time_ns": time_ns, "took_ns": took_ns, "values": reading.values})
            if reading.left_out and not self._notes:
                self._notes.append(
                    f"{reading.left_out} series more than {exposition.SERIES_AT_MOST} are left out"
                )
            return took_ns

        return look

    # A log

    def _log(self) -> Callable[[], int]:
        reader = _LogReader(self.plan)
        self._totals = reader.totals

        def look() -> int:
            now_ns = time.monotonic_ns()
            try:
                reader.take(now_ns)
            except OSError as error:
                self._problem(now_ns, f"{self.plan['path']}: {error.strerror}")
                return 0
            for event in reader.follower.take_events():
                self.write({"time_ns": now_ns, "event": event})
            # Lines were there when the reading ended: what came meanwhile is among them.
            self.write(reader.reading(time.monotonic_ns()))
            if reader.given_up:
                self._notes.append(reader.given_up)
                self.ended = True
            return 0

        reader.follower.open()
        return look


class _LogReader:
    """Matches lines and gathers operations until they are written."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.follower = Follower(Path(plan["path"]))
        self.totals: dict[str, Any] = {
            "lines": 0, "matched": 0, "too_long": 0, "slow": 0, "unread_stamps": 0, "other_labels": 0,
        }  # fmt: skip
        self.given_up: str | None = None
        self._pattern = re.compile(plan["what"]) if plan["what"] else None
        groups = dict(self._pattern.groupindex) if self._pattern else {}
        self._time, self._count = groups.pop("time", None), groups.pop("count", None)
        self._labels = sorted(groups)
        self._places = [groups[name] for name in self._labels]
        self._stamps = Stamps(plan.get("format"), plan.get("zone"))
        self._counted: dict[Any, int] = {}
        self._names: set[Any] = set()
        self._matching = False
        self._line = self._line_before = 0
        signal.signal(signal.SIGALRM, self._alarm)

    def _alarm(self, number: int, frame: Any) -> None:
        # The alarm rings again and again; a line that it finds for the second time takes too long.
        if self._matching and self._line == self._line_before:
            self._matching = False
            raise _SlowPatternError
        self._line_before = self._line

    def take(self, now_ns: int) -> None:
        """Match what was written since the last call. Raises OSError when the log cannot be read."""
        signal.setitimer(signal.ITIMER_REAL, LINE_TIME_S, LINE_TIME_S)
        try:
            for line in self.follower.lines(now_ns):
                self.totals["lines"] += 1
                if not self.given_up:
                    self._match(line)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.totals["too_long"] = self.follower.too_long

    def _match(self, line: str) -> None:
        if self._pattern is None:
            self.totals["matched"] += 1
            self._counted[None, ""] = self._counted.get((None, ""), 0) + 1
            return
        self._line += 1
        try:
            self._matching = True
            match = self._pattern.search(line)
            self._matching = False
        except _SlowPatternError:
            self.totals["slow"] += 1
            if self.totals["slow"] >= SLOW_LINES_AT_MOST:
                self.given_up = (
                    f"the pattern took longer than {LINE_TIME_S:g} s on {SLOW_LINES_AT_MOST} lines: no more"
                    " were read; repetitions within repetitions, as (a+)+, do that"
                )
            return
        if match is not None:
            self._add(match)

    def _add(self, match: "re.Match[str]") -> None:
        count = 1
        if self._count is not None:
            text = match[self._count] or ""
            if not text.isdecimal() or len(text) > 15:
                return
            count = int(text)
        stamp = None
        if self._time is not None:
            try:
                stamp = self._stamps.read(match[self._time] or "")
            except NoZoneError:
                self.totals["zoneless"] = self.totals.get("zoneless", 0) + 1
                return
            except (ValueError, OverflowError):
                self.totals["unread_stamps"] += 1
                return
            stamp -= stamp % self._stamps.resolution_ns
        self.totals["matched"] += 1
        # Their text is made when it is written: there are many lines and few labels.
        labels: Any = match.group(*self._places) if self._places else ""
        if labels not in self._names:
            if len(self._names) >= LABELS_AT_MOST:
                self.totals["other_labels"] += 1
                labels = _MORE
            else:
                self._names.add(labels)
        key = (stamp, labels)
        self._counted[key] = self._counted.get(key, 0) + count

    def _text(self, labels: Any) -> str:
        if labels is _MORE:
            return _OTHER
        values = labels if isinstance(labels, tuple) else (labels,) if self._labels else ()
        return ",".join(f'{name}="{value or ""}"' for name, value in zip(self._labels, values, strict=True))

    def reading(self, now_ns: int) -> dict[str, Any]:
        """Return what was gathered as a reading, and begin anew."""
        counted, self._counted = self._counted, {}
        if self._time is None:
            # A label that did not take part in the match is recorded as empty.
            counts: dict[str, int] = {}
            for (_, labels), count in counted.items():
                text = self._text(labels)
                counts[text] = counts.get(text, 0) + count
            return {"time_ns": now_ns, "counts": counts}
        return {
            "time_ns": now_ns,
            "offset_ns": time.time_ns() - now_ns,
            "resolution_ns": self._stamps.resolution_ns,
            "stamps": [[stamp, self._text(labels), count] for (stamp, labels), count in counted.items()],
        }


def main(arguments: list[str]) -> int:
    """Read the source of a plan into the file that it names; return the exit code."""
    plan = json.loads(arguments[0])
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(COMM)
    partial = Path(f"{plan['out']}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as out:
            # The name appears with its first lines: whoever waits for it knows that reading has begun.
            Recorder(plan, _Named(out, partial, Path(plan["out"]))).run()
    except OSError as error:
        print(f"{COMM}: {error.filename or plan['out']}: {error.strerror}", file=sys.stderr)
        return 3
    return 0


class _Named:
    """A file that takes its name with the first line that is flushed."""

    def __init__(self, file: Out, partial: Path, path: Path) -> None:
        self._file = file
        self._names: tuple[Path, Path] | None = (partial, path)

    def write(self, text: str) -> int:
        """Take a text."""
        return self._file.write(text)

    def flush(self) -> None:
        """Hand it on, under the file's own name from now on."""
        self._file.flush()
        if self._names is not None:
            self._names[0].rename(self._names[1])
            self._names = None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
