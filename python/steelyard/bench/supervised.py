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
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from steelyard._base import executable
from steelyard.bench import undo

_STOP_S = 8.0
"""How long the supervisor gets, which kills after 5 s what does not end when asked."""
_MOST_BYTES = 16 << 20
"""Of more output than this the end counts."""


class LeftRunning(KeyboardInterrupt):
    """An interrupt that did not wait for the end of a command."""


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


def run_undisturbed(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, why: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` to its end, whatever happens to this process: what must not be stopped half-way.

    An interrupt waits for the end of the command, with ``why`` on standard error, and is raised then; a
    second one leaves it running and raises LeftRunning at once. Raises OSError for a command that cannot be
    started.
    """
    held = undo.held_locks()
    flags = ["--keep-background", *(f"--hold={lock}" for lock in held)]
    interrupted = False
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [str(executable("steelyard-exec")), *flags, "--", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=held,
            # Out of reach of the terminal: of Ctrl-C, and of its being closed.
            start_new_session=True,
        )
        while True:
            try:
                process.wait()
                break
            except KeyboardInterrupt:
                if interrupted:
                    raise LeftRunning from None
                interrupted = True
                with contextlib.suppress(OSError):
                    print(f"{why}; interrupt again to leave it running", file=sys.stderr, flush=True)
        if interrupted:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(list(command), process.returncode, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _MOST_BYTES, 0))
    return file.read(_MOST_BYTES).decode(errors="replace")
