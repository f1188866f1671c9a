"""Runs a command of an installation: the package manager, or the script that brings a benchmark's files.

In: a command. Out: how it ended, with its output. Whatever ends the waiting for it (an interrupt, a kill of
this process, too much time) ends all that it has started, which would go on downloading for hours.

Not here: the processes of runs, which are looked at while they live (``bench.executor``).
"""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence

from steelyard._base import executable

_STOP_S = 8.0
"""How long the supervisor gets, which kills after 5 s what does not end when asked."""


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str], *, timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` in ``environment``, without input. Raises subprocess.TimeoutExpired."""
    with subprocess.Popen(
        [str(executable("steelyard-exec")), f"--die-with-parent={os.getpid()}", "--", *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # Ctrl-C at the terminal reaches this process alone, which then ends the command in order.
        process_group=0,
    ) as process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            process.kill()
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)
