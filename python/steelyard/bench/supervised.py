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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from steelyard._base import executable
from steelyard._base.interrupts import held_back
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
    flags = [f"--die-with-parent={os.getpid()}"]
    if background:
        flags += ["--keep-background", "--grace=0s"]
    # Ctrl-C at the terminal reaches this process alone, which then ends the command in order.
    with _started(command, environment, flags, process_group=0) as (process, completed):
        try:
            process.wait(timeout_s)
        except BaseException:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            process.kill()
            process.wait()
            raise
        return completed()


def run_undisturbed(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, why: str
) -> "subprocess.CompletedProcess[str]":
    """Run ``command`` to its end, whatever happens to this process: what must not be stopped half-way.

    An interrupt waits for the end of the command, with ``why`` on standard error, and is raised then; a
    second one leaves it running and raises LeftRunning at once. Raises OSError for a command that cannot be
    started.
    """
    process = None
    interrupted = False
    with contextlib.ExitStack() as started:
        try:
            try:
                # Whatever comes meanwhile finds a command that is known to run, or none.
                with held_back():
                    # Out of reach of the terminal: of Ctrl-C, and of its being closed.
                    process, completed = started.enter_context(
                        _started(command, environment, ["--keep-background"], start_new_session=True)
                    )
                process.wait()
            except KeyboardInterrupt:
                if process is None:
                    raise
                interrupted = True
                with contextlib.suppress(OSError):
                    print(f"{why}; interrupt again to leave it running", file=sys.stderr, flush=True)
                process.wait()
        except KeyboardInterrupt:
            # At any moment since the first one.
            if process is None:
                raise
            raise LeftRunning from None
        if interrupted:
            raise KeyboardInterrupt
        return completed()


@contextlib.contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str] | None, flags: Sequence[str], **apart: Any
) -> Iterator[tuple["subprocess.Popen[bytes]", Callable[[], "subprocess.CompletedProcess[str]"]]]:
    """Start a command under its supervisor; yield it, and a function that returns how it ended."""
    path = (os.environ if environment is None else environment).get("PATH")
    if shutil.which(command[0], path=path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    held = undo.held_locks()
    # Files, not pipes: a process in the background may keep them open.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        holds = (f"--hold={lock}" for lock in held)
        process = subprocess.Popen(
            [str(executable("steelyard-exec")), *flags, *holds, "--", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            pass_fds=held,
            **apart,
        )
        yield (
            process,
            lambda: subprocess.CompletedProcess(list(command), process.returncode, _text(out), _text(err)),
        )


def _text(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _MOST_BYTES, 0))
    return file.read(_MOST_BYTES).decode(errors="replace")
