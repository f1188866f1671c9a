"""Changes of knobs: written down, made, read back, put back.

In: what to write where. Out: a context in which the machine has these values. A kill at any moment leaves an
entry in the undo journal, from which the next start or ``steelyard tune restore`` puts everything back.

Invariant: all original texts are on disk before the first is changed.

Not here: what a knob writes (``knobs``), the journal's files (``bench.undo``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import WorkloadFailedError, held_back
from steelyard.bench import undo
from steelyard.tune.cells import Cell, WholeFile, cell_at

KNOBS, FILES = "knobs", "files of knobs"
Write = tuple[Cell, str]


class RefusedError(WorkloadFailedError):
    """A knob did not take its value; the machine is as it was."""


def _put_back(details: Mapping[str, str]) -> None:
    """Write the original texts, the last change first; try all before failing. Raises OSError."""
    failed: OSError | None = None
    for address, text in reversed(list(details.items())):
        try:
            _put_back_one(cell_at(address), text)
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _put_back_one(cell: Cell, text: str) -> None:
    if cell.read() == text:
        return
    cell.write(text)
    if (found := cell.read()) != text:
        raise OSError(5, f"wrote {_short(text)}, reads {_short(found)}", _place(cell.address))


def _words(details: Mapping[str, str]) -> str:
    return ", ".join(f"{_place(address)} = {_short(text)}" for address, text in details.items())


def _place(address: str) -> str:
    return address.partition(":")[2] or address


def _short(text: str) -> str:
    shown = " ".join(text.split())
    return repr(shown if len(shown) <= 40 else shown[:37] + "...")


undo.register(KNOBS, _put_back, words=_words)
undo.register(FILES, _put_back, words=_words, on_disk=True)


@contextmanager
def applied(writes: Sequence[Write], *, name: str) -> Iterator[None]:
    """Make changes for the time of the context; ``name`` is that of their journal entry.

    Raises RefusedError for a value that is not taken, and WorkloadFailedError where something cannot be put
    back: its entry then stays in the journal.
    """
    with contextlib.ExitStack() as stack:
        for change in _begin(writes, name):
            stack.callback(_undo, change)
        inner = [(cell, cell.read()) for cell, _ in writes if not cell.outlives]
        stack.callback(_write_all, inner)
        _make(writes)
        yield


def apply_and_keep(writes: Sequence[Write], *, name: str, root: Path) -> None:
    """Make changes to the machine below ``root`` that outlive this process, until ``steelyard tune restore``.

    Raises RefusedError. An interrupt waits until they are made.
    """
    # An interrupt half-way would leave some of them to the next run, which takes them back, and keep others.
    with held_back():
        changes = _begin(writes, name, root)
        try:
            _make(writes)
        except BaseException:
            for change in reversed(changes):
                _undo(change)
            raise
        undo.keep(changes)


def _begin(writes: Sequence[Write], name: str, root: Path = Path("/")) -> list[undo.Change]:
    """Write the originals to the journal: one entry for the kernel, one for files that outlive a reboot."""
    originals: dict[str, dict[str, str]] = {}
    for cell, _ in writes:
        if cell.outlives:
            kind = FILES if isinstance(cell, WholeFile) else KNOBS
            try:
                originals.setdefault(kind, {}).setdefault(cell.address, cell.read())
            except OSError as error:
                raise RefusedError(f"{_place(cell.address)} cannot be read: {_why(error)}") from error
    return [
        undo.Change.begin(f"{name}-{kind.replace(' ', '-')}", kind, details, root=str(root.resolve()))
        for kind, details in originals.items()
    ]


def _make(writes: Sequence[Write]) -> None:
    for cell, text in writes:
        try:
            cell.write(text)
        except OSError as error:
            raise RefusedError(f"{_place(cell.address)} refuses {_short(text)}: {_why(error)}") from error
    # After all of them: one may change another.
    for cell, text in writes:
        try:
            found = cell.read()
        except OSError as error:
            raise RefusedError(f"{_place(cell.address)} cannot be read back: {_why(error)}") from error
        if found != text:
            raise RefusedError(
                f"{_place(cell.address)} refuses {_short(text)} silently: it reads {_short(found)}"
            )


def _write_all(writes: Sequence[Write]) -> None:
    for cell, text in reversed(writes):
        cell.write(text)


def _undo(change: undo.Change) -> None:
    try:
        change.undo()
    except OSError as error:
        raise WorkloadFailedError(
            f"{error.filename or 'a knob'} cannot be put back: {_why(error)}",
            hint="steelyard tune restore tries again; the values are in the undo journal",
        ) from error


def _why(error: OSError) -> str:
    return error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where a machine differs from what is to be written."""

    place: str
    """A file, a register, or a command."""
    wanted: str
    """What is to be written."""
    found: str | None
    """What is there, None where it cannot be read."""


def differences(writes: Sequence[Write]) -> list[Difference]:
    """Return where the machine differs from ``writes``."""
    found: list[Difference] = []
    for cell, text in writes:
        try:
            now: str | None = cell.read()
        except OSError:
            now = None
        if now != text:
            found.append(Difference(_place(cell.address), text, now))
    return found
