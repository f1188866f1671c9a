"""Signals that wait: for code that must not be interrupted half-way."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Let signals that have a handler in Python wait for the end of the context.

    An extension module whose loading is interrupted may abort the process: its own code runs Python, and does
    not expect it to fail. Beside the main thread, where no signal is handled, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    for number in held:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for received in dict.fromkeys(waiting):
            signal.raise_signal(received)
