"""Runs a command in this process and interrupts it at a chosen call: in any phase, without waiting."""

import os
import signal
import sys
from typing import Any

from steelyard.cli import main


def invoke_interrupted(moment: str, arguments: list[str], *, call: int = 1) -> tuple[int, bool]:
    """Return the exit code of a command that gets SIGINT at call number ``call``, and whether it did.

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
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, main._end_in_order)
    sys.setprofile(look)
    try:
        return main.invoke(arguments), left <= 0
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)
        main._signals.clear()
