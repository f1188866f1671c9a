"""Changes to the machine that must not outlive the run that made them.

In: a change about to be made. Out: a journal entry on disk before it, removed after it was undone; entries of
processes that are gone are replayed by the next run.

The journal is in ``$XDG_STATE_HOME/steelyard/undo`` (by default ``~/.local/state``), not in the run's
directory, so that the next run finds it wherever its results go.

Not here: the changes themselves; each kind brings its own undo function.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from steelyard._base import RecordError, WorkloadFailedError, read_regular
from steelyard.bench.identity import boot_id, start_ticks

Undo = Callable[[Mapping[str, str]], None]
_kinds: dict[str, Undo] = {}
_on_disk: set[str] = set()


def register(kind: str, undo: Undo, *, on_disk: bool = False) -> None:
    """Make ``undo`` the way to take back changes of ``kind``. It must be harmless to call twice.

    Changes ``on_disk`` outlive a reboot; others live in the kernel, and a reboot undoes them.
    """
    _kinds[kind] = undo
    if on_disk:
        _on_disk.add(kind)


def journal_dir() -> Path:
    """Return the folder of the journal."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(state) / "steelyard" / "undo"


class Change:
    """One change: written to the journal by `begin`, undone and forgotten by `undo`."""

    def __init__(self, path: Path, kind: str, details: Mapping[str, str]) -> None:
        self._path = path
        self._kind = kind
        self._details = details

    @classmethod
    def begin(cls, name: str, kind: str, details: Mapping[str, str]) -> "Change":
        """Write down a change that is about to be made. Raises WorkloadFailedError when that fails."""
        folder = journal_dir()
        path = folder / f"{name}.json"
        entry = {
            "kind": kind,
            # Who can undo it: the next run need not have loaded that module.
            "module": _kinds[kind].__module__,
            "details": dict(details),
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
        }
        try:
            folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(".partial")
            with partial.open("w", encoding="utf-8") as file:
                json.dump(entry, file)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        except OSError as error:
            raise WorkloadFailedError(
                f"{path}: the undo journal cannot be written, so nothing was changed: {error.strerror}",
                hint="point XDG_STATE_HOME at a writable folder",
            ) from error
        return cls(path, kind, details)

    def undo(self) -> None:
        """Take the change back and forget it. When taking back fails, the entry stays for the next start."""
        _kinds[self._kind](self._details)
        self._path.unlink(missing_ok=True)


def _can_undo(kind: str, module: str) -> bool:
    if kind not in _kinds:
        with contextlib.suppress(ImportError):
            import_module(module)
    return kind in _kinds


def replay() -> list[str]:
    """Undo what killed runs left behind; return one line for each change that was undone or could not be."""
    messages: list[str] = []
    for path in sorted(journal_dir().glob("*.json")):
        try:
            entry = json.loads(read_regular(path, at_most_bytes=1 << 20))
            kind, details = str(entry["kind"]), dict(entry["details"])
            alive = entry["boot_id"] == boot_id() and start_ticks(int(entry["pid"])) == entry["start_ticks"]
        except (RecordError, RecursionError, ValueError, KeyError, TypeError) as error:
            messages.append(f"{path}: not a journal entry ({error}); remove it by hand")
            continue
        if alive:
            continue
        if not _can_undo(kind, str(entry.get("module"))):
            messages.append(f"{path}: nothing here can undo a {kind!r} change")
        elif entry["boot_id"] != boot_id() and kind not in _on_disk:
            path.unlink(missing_ok=True)
        else:
            try:
                _kinds[kind](details)
            except OSError as error:
                messages.append(f"{path}: {kind} cannot be undone: {error}")
                continue
            path.unlink(missing_ok=True)
            messages.append(f"undid a change of a killed run: {kind} {' '.join(details.values())}")
    return messages
