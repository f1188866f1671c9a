"""Changes to the machine that must not outlive the run that made them.

In: a change about to be made. Out: a journal entry on disk before it, removed after it was undone; entries of
processes that are gone are replayed by the next run. Changes that are meant to outlive their process (`keep`)
move to a folder of their own, from where only `undo_kept` takes them back.

The journal is in ``$XDG_STATE_HOME/steelyard/undo`` (by default ``~/.local/state``), not in the run's
directory, so that the next run finds it wherever its results go.

Not here: the changes themselves; each kind brings its own undo function.
"""

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, WorkloadFailedError, read_regular
from steelyard.bench.identity import boot_id, start_ticks

UNDID = "undid"
"""How a line begins that tells of a change that was undone."""
_MOVING = ".moving"
Undo = Callable[[Mapping[str, str]], None]
Words = Callable[[Mapping[str, str]], str]
_kinds: dict[str, Undo] = {}
_words: dict[str, Words] = {}
_on_disk: set[str] = set()


def register(kind: str, undo: Undo, *, on_disk: bool = False, words: Words | None = None) -> None:
    """Make ``undo`` the way to take back changes of ``kind``. It must be harmless to call twice.

    Changes ``on_disk`` outlive a reboot; others live in the kernel, and a reboot undoes them. ``words`` tells
    a change in one line, by default its details.
    """
    _kinds[kind] = undo
    if words is not None:
        _words[kind] = words
    if on_disk:
        _on_disk.add(kind)


def journal_dir() -> Path:
    """Return the folder of the journal."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(state) / "steelyard" / "undo"


def kept_dir() -> Path:
    """Return the folder of changes that outlive their process."""
    return journal_dir().with_name("kept")


class Change:
    """One change: written to the journal by `begin`, undone and forgotten by `undo`."""

    def __init__(self, path: Path, kind: str, details: Mapping[str, str]) -> None:
        self._path = path
        self._kind = kind
        self._details = details

    @classmethod
    def begin(cls, name: str, kind: str, details: Mapping[str, str], *, root: str = "/") -> "Change":
        """Write down a change that is about to be made to the machine below ``root``.

        Raises WorkloadFailedError when that fails.
        """
        folder = journal_dir()
        path = folder / f"{name}.json"
        entry = {
            "kind": kind,
            # Who can undo it: the next run need not have loaded that module.
            "module": _kinds[kind].__module__,
            "details": dict(details),
            "root": root,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": boot_id(),
        }
        try:
            _make(folder)
            _write(path, entry)
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

    @property
    def path(self) -> Path:
        """Its entry in the journal."""
        return self._path


def keep(changes: Sequence[Change]) -> None:
    """Let changes outlive this process together, until `undo_kept`.

    A kill in between leaves all of them to the next start or keeps all. Raises WorkloadFailedError.
    """
    folder = kept_dir()
    # Numbered: what was kept last is taken back first.
    used = [int(path.name[:6]) for path in folder.glob("[0-9]*.json")]
    first = max(used, default=0) + 1
    moves = [
        (str(change.path), str(folder / f"{number:06}-{change.path.name}"))
        for number, change in enumerate(changes, start=first)
    ]
    try:
        _make(folder)
        moving = folder / f"{first:06}{_MOVING}"
        _write(moving, moves)
        _move(moving)
    except OSError as error:
        raise WorkloadFailedError(f"{folder}: the change cannot be kept: {error.strerror}") from error


def _move(moving: Path) -> None:
    """Move the entries that are named there, those that are left. Raises OSError."""
    for source, target in json.loads(read_regular(moving, at_most_bytes=1 << 20)):
        # It may be there already, or another process may go on with the same list.
        with contextlib.suppress(FileNotFoundError):
            _rename(Path(source), Path(target))
    moving.unlink(missing_ok=True)


def _go_on_keeping() -> None:
    """Keep what a killed process had begun to keep: all of it was made, and stands in its list."""
    for moving in sorted(kept_dir().glob(f"*{_MOVING}")):
        with contextlib.suppress(OSError, *_UNREADABLE):
            _move(moving)


def _write(path: Path, content: object) -> None:
    """Write a file that is there whole or not at all, also after a loss of power. Raises OSError."""
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    _rename(partial, path)


def _rename(source: Path, target: Path) -> None:
    """Rename so that it outlives a loss of power: a new name is there when its folder is on disk."""
    source.rename(target)
    _sync(target.parent)


def _make(folder: Path) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in missing:
        _sync(one.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _can_undo(kind: str, module: str) -> bool:
    if kind not in _kinds:
        with contextlib.suppress(ImportError, ValueError, TypeError, RecursionError):
            import_module(module)
    return kind in _kinds


def replay() -> list[str]:
    """Undo what killed runs left behind; return one line for each change that was undone or could not be."""
    _go_on_keeping()
    messages = (_take_back(path, f"{UNDID} a change of a killed run") for path in _entries(journal_dir()))
    return [message for message in messages if message is not None]


def undo_kept() -> list[str]:
    """Undo changes that outlived their processes, the last first; return one line for each."""
    _go_on_keeping()
    messages = (_take_back(path, UNDID, whoever_made_it=True) for path in reversed(_entries(kept_dir())))
    return [message for message in messages if message is not None]


def kept_roots() -> set[str]:
    """Return the roots of the machines with changes that outlived their processes."""
    found = set()
    for path in _entries(kept_dir()):
        with contextlib.suppress(*_UNREADABLE):
            found.add(str(_read(path).get("root", "/")))
    return found


def pending() -> list[tuple[str, int]]:
    """Return the names and processes of changes that living processes have made and not yet undone."""
    found = []
    for path in _entries(journal_dir()):
        with contextlib.suppress(*_UNREADABLE):
            entry = _read(path)
            if _is_alive(entry):
                found.append((path.stem, int(entry["pid"])))
    return found


_UNREADABLE = (RecordError, RecursionError, ValueError, KeyError, TypeError, OverflowError)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _read(path: Path) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(read_regular(path, at_most_bytes=1 << 20))
    str(entry["kind"]), dict(entry["details"]), int(entry["pid"]), entry["boot_id"], entry["start_ticks"]
    return entry


def _is_alive(entry: Mapping[str, Any]) -> bool:
    return bool(entry["boot_id"] == boot_id()) and start_ticks(int(entry["pid"])) == entry["start_ticks"]


def _take_back(path: Path, told: str, *, whoever_made_it: bool = False) -> str | None:
    """Undo the change of an entry and forget it; return what came of it, None for nothing to do."""
    try:
        entry = _read(path)
        kind, details = str(entry["kind"]), dict(entry["details"])
        if not whoever_made_it and _is_alive(entry):
            return None
    except _UNREADABLE as error:
        return f"{path}: not a journal entry ({error}); remove it by hand"
    if not _can_undo(kind, str(entry.get("module"))):
        return f"{path}: nothing here can undo a {kind!r} change"
    if entry["boot_id"] != boot_id() and kind not in _on_disk:
        path.unlink(missing_ok=True)
        return None
    try:
        _kinds[kind](details)
    except (OSError, *_UNREADABLE) as error:
        return f"{path}: {kind} cannot be undone: {error}"
    path.unlink(missing_ok=True)
    words = _words[kind](details) if kind in _words else " ".join(map(str, details.values()))
    return f"{told}: {kind} {words}"
