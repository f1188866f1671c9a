"""``steelyard top``: becomes ``steelyard-top``, with its arguments as they are.

In: arguments. Out: nothing of its own; the program takes this process's place, so that keys, signals and the
exit code are between it and the terminal. Not here: anything that it shows.
"""

import os
import sys
from typing import NoReturn

from steelyard._base import REPAIR_HINT, EnvironmentLacksError, executable


def become_top(arguments: list[str]) -> NoReturn:
    """Run ``steelyard-top`` in this process's place; EnvironmentLacksError where it cannot be run."""
    program = str(executable("steelyard-top"))
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(program, [program, *arguments])  # noqa: S606 - without a shell is how it is meant
    except OSError as error:
        raise EnvironmentLacksError(f"{program}: {error.strerror}", hint=REPAIR_HINT) from error
