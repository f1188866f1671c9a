"""Guardrails: bounds that a trial must keep; a breach ends it at once, and the arm with it.

In: a number from a command or a file, looked at while a trial runs, or a metric of the run after it. Out: the
breach in words. A guardrail that gives no number is a breach: what cannot be seen cannot be guarded.

Not here: putting the machine back (``changes``).
"""

from __future__ import annotations

import math
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from steelyard._base import UsageError
from steelyard.bench.signals import Interrupts
from steelyard.bench.supervised import run_to_end

_EVERY_S = 0.5
_PROBE_TIMEOUT_S = 10.0


class Source(StrEnum):
    """Where a guardrail's number comes from."""

    COMMAND = "command"
    FILE = "file"
    METRIC = "metric"


@dataclass(frozen=True, slots=True)
class Guard:
    """One bound."""

    name: str
    source: Source
    words: tuple[str, ...]
    """A command, a path, or the name of a metric."""
    is_most: bool
    limit: float

    def breach(self, value: float | None, why: str = "") -> str | None:
        """Return what is wrong with a value, None where it keeps the bound."""
        if value is None or math.isnan(value):
            return f"guardrail {self.name} gives no number{': ' + why if why else ''}"
        if value <= self.limit if self.is_most else value >= self.limit:
            return None
        side = "above" if self.is_most else "below"
        return f"guardrail {self.name}: {value:g} is {side} {self.limit:g}"

    def look(self) -> str | None:
        """Return the breach of a command or file as it is now."""
        try:
            if self.source is Source.FILE:
                return self.breach(float(Path(self.words[0]).read_text().split()[0]))
            done = run_to_end(self.words, timeout_s=_PROBE_TIMEOUT_S, background=True)
            done.check_returncode()
            return self.breach(float(done.stdout.split()[0]))
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            return self.breach(None, str(error))


def parse_guard(text: str) -> Guard:
    """Return a bound of a metric such as ``p99_ns<=5e6``. Raises UsageError.

    >>> parse_guard("hit_ratio>=0.9").is_most
    False
    """
    for sign, is_most in (("<=", True), (">=", False)):
        name, found, limit = text.partition(sign)
        if found and name.strip():
            try:
                return Guard(name.strip(), Source.METRIC, (name.strip(),), is_most, float(limit))
            except ValueError:
                break
    raise UsageError(f"--guard {text}: write it as METRIC<=NUMBER or METRIC>=NUMBER")


@contextmanager
def watched(guards: Sequence[Guard], interrupts: Interrupts) -> Iterator[list[str]]:
    """Look at guardrails while the context lasts; a breach stops the trial by way of ``interrupts``.

    Yields a list that holds the breach afterwards. The interrupt itself is taken back: it ends the trial, not
    the tuning.
    """
    looked_at = [guard for guard in guards if guard.source is not Source.METRIC]
    breaches: list[str] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            for guard in looked_at:
                if (breach := guard.look()) is not None and not ended.is_set():
                    breaches.append(breach)
                    if interrupts.received is None:
                        interrupts.received = breach
                    return
            ended.wait(_EVERY_S)

    thread = threading.Thread(target=look, name="guardrails", daemon=True) if looked_at else None
    if thread is not None:
        thread.start()
    try:
        yield breaches
    finally:
        ended.set()
        if thread is not None:
            thread.join()
        if breaches and interrupts.received == breaches[0]:
            interrupts.received = None


def breach_of_metrics(guards: Sequence[Guard], metrics: Mapping[str, float | None]) -> str | None:
    """Return the first breach of a metric of a run."""
    for guard in guards:
        if guard.source is Source.METRIC:
            breach = guard.breach(metrics.get(guard.words[0]), "the run has no such metric")
            if breach is not None:
                return breach
    return None
