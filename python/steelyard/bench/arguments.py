"""What an executable thinks of its arguments, asked before anything is started.

In: the command line that a run will use. Out: nothing, or an error that names the parameter behind the flag.

The executables alone know the grammar of an objective or a delay. ``--check`` makes them read their arguments
and end, so that a wrong one is reported in a moment and not in the middle of a run.

Not here: what the flags mean, and starting what is part of a run (``executor``).
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from steelyard._base import REPAIR_HINT, EnvironmentLacksError, ExitCode, UsageError
from steelyard.bench.parameters import Setting

NOWHERE = "127.0.0.1:1"
"""Stands for the address of a server that is not there yet: an argument that is only read."""
_TIMEOUT_S = 60.0


def check_arguments(
    command: Sequence[str], settings: Mapping[str, Setting], names: Mapping[str, str], *, flags: str = ""
) -> None:
    """Have one of Steelyard's executables check ``command``.

    ``names`` has the parameter of each flag; ``flags`` is the parameter whose text is itself a list of flags:
    any other error is attributed to it. Raises UsageError or EnvironmentLacksError.
    """
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            [*command, "--check"], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise EnvironmentLacksError(f"{program} did not report its arguments: {error}") from error
    message = " ".join(done.stderr.split()).removeprefix(f"{program}: ")
    if done.returncode == ExitCode.OK and not done.stdout:
        return
    if done.returncode == ExitCode.OK:
        message = f"with it {program} prints a text and ends"
    # What a parameter of flags repeats is that parameter's doing: the last of the same flags counts.
    repeated = str(settings[flags]) if flags else ""
    suspects = (name for flag, name in names.items() if flag not in repeated and _is_about(flag, message))
    blamed = next(suspects, flags)
    if blamed:
        message = f"{blamed}={settings[blamed]}: {message}"
    if done.returncode in (ExitCode.OK, ExitCode.USAGE):
        raise UsageError(message.removesuffix("; see --help"))
    if done.returncode == ExitCode.ENVIRONMENT:
        raise EnvironmentLacksError(message)
    raise EnvironmentLacksError(
        f"{program} did not report its arguments: {message or f'it ended with {done.returncode}'}",
        hint=REPAIR_HINT,
    )


def _is_about(flag: str, message: str) -> bool:
    """Whether a complaint is about ``flag`` and not about one whose name only begins so."""
    return any(f"{flag}{end}" in f"{message} " for end in (" ", ":", "'", "="))
