"""Signals that ask this process to stop, as a fact that is looked at rather than an exception anywhere.

In: SIGINT, SIGTERM, SIGHUP. Out: the name of the first one that came. An exception out of a signal handler
could strike in the middle of writing a manifest or of undoing a change; a flag cannot.

A second SIGINT ends this process at once: its children die with it, the run shows as incomplete, and what it
changed is undone by the next run.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from steelyard._base import ExitCode

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN = b"steelyard: interrupted again: ended at once; the next run undoes what this one changed\n"
_Handler = Callable[[int, FrameType | None], object] | int | None


class Interrupts:
    """Which signal asked for a stop, if any."""

    def __init__(self) -> None:
        self.received: str | None = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = signal.Signals(number).name
        elif number == signal.SIGINT:
            os.write(2, _AGAIN)
            os._exit(ExitCode.FAILED)

    @contextmanager
    def caught(self) -> Iterator["Interrupts"]:
        """Note signals instead of dying of them, for the time of the context."""
        before: dict[signal.Signals, _Handler] = {}
        for number in _SIGNALS:
            before[number] = signal.signal(number, self._note)
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
