"""Changes to the machine that must not outlive the run that made them.

In: a change about to be made. Out: a journal entry on disk before it, removed after it was undone; entries of
processes that are gone are replayed by the next run. Changes that are meant to outlive their process (`keep`)
move to a folder of their own, from where only `undo_kept` takes them back.

The journal is in ``$XDG_STATE_HOME/steelyard/undo`` (by default ``~/.local/state``), not in the run's
directory, so that the next run finds it wherever its results go. A home may be shared: an entry names the
machine, boot and PID namespace that it was made in, and its maker holds a lock on it; one of another
machine, of another container or of another user is left alone and named.

Invariants: an entry that is not this user's own, or that others may write, is never replayed; one that cannot
be read or undone does not keep others from being undone.

Not here: the changes themselves; each kind brings its own undo function.
"""

import contextlib
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, WorkloadFailedError, read_regular, users_dir
from steelyard.bench.identity import boot_id, start_ticks

UNDID = "undid"
"""How the line about an undone change begins."""
_MOVING = ".moving"
Undo = Callable[[Mapping[str, str]], None]
Words = Callable[[Mapping[str, str]], str]
_kinds: dict[str, Undo] = {}
_words: dict[str, Words] = {}
_on_disk: set[str] = set()
_held: set[int] = set()
_ENDING_S = 10.0
"""How long what a killed process had started may take to end before its changes are undone."""


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


def held_locks() -> tuple[int, ...]:
    """Return the descriptors that hold the locks of this process's entries.

    What may write for this process keeps them open, so that nothing is undone before it has ended.
    """
    return tuple(sorted(_held))


def journal_dir() -> Path:
    """Return the folder of the journal."""
    return users_dir("XDG_STATE_HOME", ".local/state") / "steelyard" / "undo"


def kept_dir() -> Path:
    """Return the folder of changes that outlive their process."""
    return journal_dir().with_name("kept")


class Change:
    """One change: written to the journal by `begin`, undone and forgotten by `undo`."""

    def __init__(self, path: Path, kind: str, details: Mapping[str, str], lock: int | None = None) -> None:
        self._path = path
        self._kind = kind
        self._details = details
        self._lock = lock

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
            "machine_id": _machine_id(),
            "host": socket.gethostname(),
            "pid_namespace": _pid_namespace(),
        }
        try:
            _make(folder)
            lock = _write(path, entry, lock=True)
        except OSError as error:
            raise WorkloadFailedError(
                f"{path}: the undo journal cannot be written, so nothing was changed: {error.strerror}",
                hint="point XDG_STATE_HOME at a writable folder",
            ) from error
        if lock is not None:
            _held.add(lock)
        return cls(path, kind, details, lock)

    def undo(self) -> None:
        """Take the change back and forget it. When taking back fails, the entry stays for the next start."""
        _kinds[self._kind](self._details)
        self.forget()

    def forget(self) -> None:
        """Forget the change: it is no more."""
        self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Give up the lock that says that this process lives: the change is undone, or kept."""
        lock, self._lock = self._lock, None
        if lock is not None:
            _held.discard(lock)
            os.close(lock)

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
    for change in changes:
        change.release()


def _move(moving: Path) -> None:
    """Move the entries that are named there, those that are left.

    Raises OSError, and RecordError for a list that is not this user's or that names anything but entries.
    """
    _check_owner(moving)
    pairs = json.loads(read_regular(moving, at_most_bytes=1 << 20))
    moves = [(Path(source), Path(target)) for source, target in pairs]
    folders = (journal_dir(), kept_dir())
    for ends in moves:
        for path, folder in zip(ends, folders, strict=True):
            if path.parent != folder or path.suffix != ".json":
                raise RecordError(f"{moving}: {path} is no entry in {folder}")
    for source, target in moves:
        # It may be there already, or another process may go on with the same list.
        with contextlib.suppress(FileNotFoundError):
            _rename(source, target)
    moving.unlink(missing_ok=True)


def _go_on_keeping() -> None:
    """Finish moving what a killed process had begun to keep: its list is complete."""
    for moving in sorted(kept_dir().glob(f"*{_MOVING}")):
        with contextlib.suppress(OSError, *_UNREADABLE):
            _move(moving)


def _write(path: Path, content: object, *, lock: bool = False) -> int | None:
    """Write a file that is there whole or not at all, also after a loss of power. Raises OSError.

    With ``lock`` it is locked before it has its name; the descriptor that holds the lock is returned.
    """
    partial = path.with_suffix(".partial")
    held = None
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
        if lock:
            # Of a file system without locks the process's id has to do.
            with contextlib.suppress(OSError):
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = os.dup(file.fileno())
    _rename(partial, path)
    return held


def _rename(source: Path, target: Path) -> None:
    """Rename so that it outlives a loss of power: a new name is there when its folder is on disk."""
    source.rename(target)
    _sync(target.parent)


def _make(folder: Path) -> None:
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            if _is_alive(path, entry):
                found.append((path.stem, int(entry["pid"])))
    return found


def _machine_id() -> str | None:
    """Return what distinguishes this machine from others; None where it has none (containers)."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _check_owner(path: Path) -> None:
    """Raise RecordError for a file that is another user's, or that others may write, or in such a folder."""
    for one in (path, path.parent):
        try:
            found = one.lstat()
        except OSError as error:
            raise RecordError(f"{one}: {error.strerror}") from error
        if found.st_uid != os.geteuid():
            raise RecordError(f"{one} belongs to user {found.st_uid}: run as that user to undo it")
        others = stat.S_IWOTH if found.st_gid == os.getegid() else stat.S_IWOTH | stat.S_IWGRP
        if found.st_mode & others and not stat.S_ISLNK(found.st_mode):
            raise RecordError(f"{one} may be written by others: chmod go-w it if it is yours")
        if one is path and not stat.S_ISREG(found.st_mode):
            raise RecordError(f"{one} is no file")


def _elsewhere(entry: Mapping[str, Any]) -> str | None:
    """Return where an entry was made that is not of this machine, or not of this container; None for here."""
    here = _machine_id()
    machine, host = entry.get("machine_id"), entry.get("host")
    if machine is not None and here is not None and machine != here:
        return f"on another machine ({host})"
    unnamed = machine is None or here is None
    if unnamed and host is not None and host != socket.gethostname() and entry["boot_id"] != boot_id():
        return f"on another machine ({host})"
    namespace = entry.get("pid_namespace")
    is_other = namespace is not None and namespace != _pid_namespace() and host != socket.gethostname()
    # A container that was started again has its name still, and another namespace.
    if is_other and entry["boot_id"] == boot_id():
        return f"in another container of this machine ({host})"
    return None


_UNREADABLE = (RecordError, RecursionError, ValueError, KeyError, TypeError, OverflowError)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _read(path: Path) -> dict[str, Any]:
    _check_owner(path)
    entry: dict[str, Any] = json.loads(read_regular(path, at_most_bytes=1 << 20))
    if not isinstance(entry, dict):
        raise RecordError(f"{path}: no object")
    text, maybe_text, number = (str,), (str, type(None)), (int,)
    for name, types in (
        *(("kind", text), ("details", (dict,)), ("pid", number), ("start_ticks", (int, type(None)))),
        *(
            (name, maybe_text)
            for name in ("boot_id", "module", "root", "machine_id", "host", "pid_namespace")
        ),
    ):
        value = entry.get(name) if name not in _NEEDED else entry[name]
        if not isinstance(value, types) or isinstance(value, bool):
            raise RecordError(f"{name} is {value!r:.60}")
    if not all(isinstance(one, str) for pair in entry["details"].items() for one in pair):
        raise RecordError("details are no texts")
    return entry


_NEEDED = frozenset({"kind", "details", "pid", "boot_id", "start_ticks"})


def _is_locked(path: Path) -> bool:
    """Return whether a living process holds the entry."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _has_ended(path: Path) -> bool:
    """Wait until nothing holds the entry that its maker had started; return whether that came in time."""
    if any(os.path.samestat(path.stat(), os.fstat(lock)) for lock in _held):
        return True
    deadline = time.monotonic() + _ENDING_S
    while _is_locked(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _is_alive(path: Path, entry: Mapping[str, Any]) -> bool:
    """Return whether the maker of an entry lives: by its process where that can be seen, else by its lock."""
    if entry.get("pid_namespace") in (None, _pid_namespace()):
        return bool(entry["boot_id"] == boot_id()) and start_ticks(int(entry["pid"])) == entry["start_ticks"]
    return _is_locked(path)


def _take_back(path: Path, prefix: str, *, whoever_made_it: bool = False) -> str | None:
    """Undo the change of an entry and forget it; return the outcome, None for nothing to do."""
    try:
        entry = _read(path)
        kind, details = str(entry["kind"]), dict(entry["details"])
        if not whoever_made_it and _is_alive(path, entry):
            return None
    except _UNREADABLE as error:
        return f"{path}: not undone: not a journal entry of yours ({error})"
    if (where := _elsewhere(entry)) is not None:
        return f"{path}: left alone: it was made {where}; undo it there, or remove it if that is gone"
    if not _can_undo(kind, str(entry.get("module"))):
        return f"{path}: nothing here can undo a {kind!r} change"
    if entry["boot_id"] != boot_id() and kind not in _on_disk:
        path.unlink(missing_ok=True)
        return None
    if not _has_ended(path):
        return f"{path}: not undone yet: a command that the killed run had started still runs; try again"
    try:
        _kinds[kind](details)
    except Exception as error:
        # Whatever one entry does to its undoing, the next one is undone.
        return f"{path}: {kind} cannot be undone: {error or type(error).__name__}"
    path.unlink(missing_ok=True)
    words = _words[kind](details) if kind in _words else " ".join(map(str, details.values()))
    return f"{prefix}: {kind} {words}"
