"""Runs a command to its end: the package manager, an installing script, what a knob or a guardrail runs.

In: a command. Out: how it ended, with its output. Whatever ends the waiting for it (an interrupt, a kill of
this process, too much time) ends all that it has started, which would go on downloading or writing for hours.

Invariant: entries of the undo journal stay locked until the command of a killed process is gone, so that none
is undone before the command has written its last.

Not here: the processes of runs, which are looked at while they live (``bench.executor``).
"""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from steelyard._base import executable
from steelyard.bench import undo

_STOP_S = 8.0
"""How long the supervisor gets, which kills after 5 s what does not end when asked."""
_MOST_BYTES = 16 << 20
"""Of more output than this the end counts."""


def run_to_end(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float,
    background: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` in ``environment`` (by default this one), without input.

    With ``background`` what the command leaves running when it ends by itself goes on; a command that has to
    be ended is killed at once, with all that it started. Raises OSError for one that cannot be started, and
    subprocess.TimeoutExpired.
    """
    path = (os.environ if environment is None else environment).get("PATH")
    if shutil.which(command[0], path=path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    held = undo.held_locks()
    flags = [f"--die-with-parent={os.getpid()}", *(f"--hold={lock}" for lock in held)]
    if background:
        flags += ["--keep-background", "--grace=0s"]
    # Files, not pipes: a process in the background may keep them open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with subprocess.Popen(
            [str(executable("steelyard-exec")), *flags, "--", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=held,
            # Ctrl-C at the terminal reaches this process alone, which then ends the command in order.
            process_group=0,
        ) as process:
            try:
                process.wait(timeout_s)
            except BaseException:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_S)
                process.kill()
                raise
        return subprocess.CompletedProcess(list(command), process.returncode, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _MOST_BYTES, 0))
    return file.read(_MOST_BYTES).decode(errors="replace")
