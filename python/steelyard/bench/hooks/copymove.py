"""Hook ``copymove``: puts files that other programs wrote into the run's directory.

In: names or patterns of files, and whether to copy or move. Out: ``files/`` in the run's directory. As
DCPerf's CopyMove: logs and time series of other tools are kept with the result that they belong to.
"""

import glob
import shlex
import shutil
from pathlib import Path
from typing import ClassVar

from steelyard._base import UsageError, WorkloadFailedError
from steelyard.bench.hook import Hook, HookContext
from steelyard.bench.parameters import Parameter, Settings


def _patterns(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"hook copymove: {option}={text!r}: {error}") from error


class CopyMoveHook(Hook):
    """Copies and moves when everything has ended, or before anything starts."""

    doc = "copies or moves files and folders into the run's directory"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("copy", "text", "files to copy: names or patterns, separated by spaces", default=""),
        Parameter("move", "text", "files to move: names or patterns, separated by spaces", default=""),
        Parameter("to", "text", "folder in the run's directory", default="files"),
        Parameter(
            "when", "choice", "moment of the run", default="after_run", choices=("before_run", "after_run")
        ),
    )

    def __init__(self, options: Settings) -> None:
        super().__init__(options)
        self._copy = _patterns("copy", options.text("copy"))
        self._move = _patterns("move", options.text("move"))
        if not (self._copy or self._move):
            raise UsageError("hook copymove has nothing to do", hint="give copy=... or move=...")
        to = Path(options.text("to"))
        if to.is_absolute() or ".." in to.parts:
            raise UsageError(f"hook copymove: to={to} leads out of the run's directory")

    def before_run(self, context: HookContext) -> None:
        """Act when asked for this moment."""
        if self.options.text("when") == "before_run":
            self._act(context)

    def after_run(self, context: HookContext) -> None:
        """Act when asked for this moment."""
        if self.options.text("when") == "after_run":
            self._act(context)

    def _act(self, context: HookContext) -> None:
        target = context.directory / self.options.text("to")
        target.mkdir(parents=True, exist_ok=True)
        done: list[str] = []
        absent: list[str] = []
        for patterns, move in ((self._copy, False), (self._move, True)):
            for pattern in patterns:
                names = sorted(glob.glob(pattern, recursive=True))
                if not names:
                    absent.append(pattern)
                done += [_transfer(Path(name), target, move=move) for name in names]
        context.add_artifact("files", target)
        context.record("files", len(done))
        if absent:
            raise WorkloadFailedError(f"nothing fits {', '.join(absent)}")


def _transfer(source: Path, folder: Path, *, move: bool) -> str:
    """Put ``source`` into ``folder`` under a name that is free there; return that name."""
    target = folder / source.name
    number = 2
    while target.exists():
        target = folder / f"{source.stem}-{number}{source.suffix}"
        number += 1
    if move:
        shutil.move(source, target)
    elif source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)
    return target.name
