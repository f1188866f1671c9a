"""Runs a command in this process and sends it a signal at a chosen call: in any phase, without waiting."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from steelyard.cli import main

Look = Callable[[Any, str, Any], None]


@contextmanager
def _watched(look: Look) -> Iterator[None]:
    """Call ``look`` at every call of a function, with signals taken as the command takes them."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, main._end_in_order) for number in numbers}
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
        for number, handler in before.items():
            signal.signal(number, handler)
        main._signals.clear()


def invoke_interrupted(
    moment: str,
    arguments: list[str],
    *,
    call: int = 1,
    sent: signal.Signals = signal.SIGINT,
    run: Callable[[list[str]], int] = main.invoke,
) -> tuple[int, bool]:
    """Return the exit code of a command that gets a signal at call number ``call``, and whether it did.

    ``moment`` is ``module:function``: a function of the module, or one that it calls.
    """
    module, _, function = moment.partition(":")
    left = call

    def look(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if event == "call":
            name, callers = frame.f_code.co_name, (frame, frame.f_back)
        elif event == "c_call":
            name, callers = argument.__name__, (frame,)
        else:
            return
        if name != function or module not in [one.f_globals.get("__name__") for one in callers if one]:
            return
        left -= 1
        if left == 0:
            sys.setprofile(None)
            os.kill(os.getpid(), sent)

    with _watched(look):
        return run(arguments), left <= 0


def moments_of(arguments: list[str]) -> tuple[int, list[str]]:
    """Run a command undisturbed; return its exit code and its functions, in the order of their first call.

    Those of the package alone, from where the command line has been read: each is a moment for
    `invoke_interrupted`.
    """
    found: dict[str, None] = {}

    def look(frame: Any, event: str, _argument: Any) -> None:
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        # <lambda> and its like are many of one name.
        if event == "call" and module.startswith("steelyard.") and name.isidentifier():
            found[f"{module}:{name}"] = None

    with _watched(look):
        code = main.invoke(arguments)
    return code, [moment for moment in found if not moment.startswith("steelyard.cli.main:")]


def spread(moments: list[str], count: int) -> list[str]:
    """Return ``count`` of ``moments``, evenly from the first to the last."""
    return [moments[(len(moments) - 1) * at // (count - 1)] for at in range(count)]
