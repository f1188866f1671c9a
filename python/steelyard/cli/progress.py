"""What a run tells while it lasts: one live line on a terminal, plain lines elsewhere, always on stderr.

Not here: results, which go to standard output.
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from steelyard.bench.progress import Progress

PLAIN_EVERY_S = 10.0
"""Least time between figures where each costs a line."""


class PlainProgress:
    """A line for each phase and note, and one for figures every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._phase = ""
        self._shown_s = 0.0

    def _say(self, text: str) -> None:
        # Whoever read along has left: that ends no measurement.
        with contextlib.suppress(OSError):
            print(text, file=self._stream, flush=True)

    def phase(self, name: str) -> None:
        """A phase has begun."""
        self._phase = name
        self._shown_s = time.monotonic()
        self._say(f"{name} ...")

    def status(self, figures: dict[str, str]) -> None:
        """Print figures, unless some were printed a moment ago."""
        if time.monotonic() - self._shown_s >= PLAIN_EVERY_S:
            self._shown_s = time.monotonic()
            self._say(f"{self._phase}: " + ", ".join(f"{name} {value}" for name, value in figures.items()))

    def note(self, text: str) -> None:
        """Something worth a line."""
        self._say(text)


class LiveProgress:
    """One line that is rewritten, above it one for each phase that has ended."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.status import Status

        self._console = Console(file=stream)
        # Twice a second: drawing takes CPU time from the load.
        self._status = Status("starting", console=self._console, refresh_per_second=2)
        self._phase = ""
        self._began_s = 0.0

    def start(self) -> None:
        """Show the line."""
        self._status.start()

    def stop(self) -> None:
        """Take the line away."""
        self._end_phase()
        self._status.stop()

    def _end_phase(self) -> None:
        if self._phase:
            self._console.print(f"[dim]{self._phase:8} {time.monotonic() - self._began_s:7.1f} s[/dim]")
        self._phase = ""

    def phase(self, name: str) -> None:
        """A phase has begun."""
        self._end_phase()
        self._phase, self._began_s = name, time.monotonic()
        self._status.update(name)

    def status(self, figures: dict[str, str]) -> None:
        """Show figures beside the phase."""
        text = "  ".join(f"[dim]{name}[/dim] {value}" for name, value in figures.items())
        self._status.update(f"{self._phase}  {text}")

    def note(self, text: str) -> None:
        """Something worth a line."""
        self._console.print(text, markup=False)


@contextmanager
def shown() -> Iterator[Progress]:
    """Give the progress display that fits standard error."""
    if not sys.stderr.isatty():
        yield PlainProgress(sys.stderr)
        return
    live = LiveProgress(sys.stderr)
    live.start()
    try:
        yield live
    finally:
        live.stop()
