"""Follows a log that grows, is rotated or truncated, and hands out its whole lines.

In: a path. Out: lines as text, in the order they were written, each once.

Rotation: when another file stands under the path, the old one is still read until it has been quiet for
`OLD_QUIET_S`, because its writer keeps it open for a while. Truncation: a file that is shorter than what was
read, or whose bytes before the reading place have changed (it was truncated and has grown past it since), is
read from its beginning. A line is handed out when its end is there; one longer than `LINE_BYTES` is dropped
and counted, and so is what is left of a line when its file is gone.

Invariants: one call reads `BATCH_BYTES` at most, so that a flood does not hold up the reader's clock; what
was in the file before following began is not handed out, but for a line that ends later.

Standard library only: the recorder's process imports it.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LINE_BYTES = 64 * 1024
BATCH_BYTES = 8 << 20
OLD_QUIET_S = 3.0
_PIECE_BYTES = 1 << 20
_MARK_BYTES = 64


@dataclass
class _Open:
    descriptor: int
    identity: tuple[int, int]
    place: int = 0
    partial: bytes = b""
    skipping: bool = False
    mark: bytes = b""
    quiet_since_ns: int | None = None


@dataclass
class Follower:
    """The lines of the log at ``path`` from now on."""

    path: Path
    events: list[str] = field(default_factory=list)
    """What happened since they were last taken: `rotated`, `truncated` and the like."""
    too_long: int = 0
    _files: list[_Open] = field(default_factory=list)

    def open(self) -> None:
        """Begin at the end of the file, if there is one. Raises OSError when it cannot be read."""
        current = self._open_current(from_end=True)
        if current is not None:
            self._files.append(current)

    def close(self) -> None:
        """Close whatever is open."""
        for file in self._files:
            os.close(file.descriptor)
        self._files.clear()

    def take_events(self) -> list[str]:
        """Return what happened since the last call."""
        events, self.events = self.events, []
        return events

    def lines(self, now_ns: int) -> Iterator[str]:
        """Yield the lines that are complete by now. Raises OSError when the log cannot be read."""
        self._look_for_another()
        for file in list(self._files):
            yield from self._read(file, now_ns)
        # The current file stays, older ones go when nothing has come for a while.
        for file in self._files[:-1]:
            quiet = file.quiet_since_ns is not None and now_ns - file.quiet_since_ns > OLD_QUIET_S * 1e9
            if quiet:
                os.close(file.descriptor)
                self._files.remove(file)

    def _open_current(self, *, from_end: bool) -> _Open | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        state = os.fstat(descriptor)
        file = _Open(descriptor, (state.st_dev, state.st_ino))
        if from_end and state.st_size:
            # A line whose beginning is there already is counted when it ends.
            begin = max(0, state.st_size - LINE_BYTES)
            tail = os.pread(descriptor, state.st_size - begin, begin)
            file.partial = tail[tail.rfind(b"\n") + 1 :]
            file.skipping = b"\n" not in tail and begin > 0
            file.partial = b"" if file.skipping else file.partial
            file.place = begin + len(tail)
            file.mark = tail[-_MARK_BYTES:]
        return file

    def _look_for_another(self) -> None:
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return
        if self._files and (state.st_dev, state.st_ino) == self._files[-1].identity:
            return
        current = self._open_current(from_end=False)
        if current is None:
            return
        if any(file.identity == current.identity for file in self._files):
            os.close(current.descriptor)
            return
        if self._files:
            self.events.append("the log was rotated")
        self._files.append(current)

    def _read(self, file: _Open, now_ns: int) -> Iterator[str]:
        size = os.fstat(file.descriptor).st_size
        changed = size > file.place and file.mark and not self._is_where_it_was(file)
        if size < file.place or changed:
            self.events.append("the log was truncated: lines lost before they were read are not counted")
            file.place, file.partial, file.skipping, file.mark = 0, b"", False, b""
        got = 0
        while got < BATCH_BYTES:
            piece = os.pread(file.descriptor, _PIECE_BYTES, file.place)
            if not piece:
                break
            got += len(piece)
            file.place += len(piece)
            file.mark = (file.mark + piece)[-_MARK_BYTES:]
            yield from self._split(file, piece)
        if got:
            file.quiet_since_ns = None
        elif file.quiet_since_ns is None:
            file.quiet_since_ns = now_ns

    @staticmethod
    def _is_where_it_was(file: _Open) -> bool:
        return os.pread(file.descriptor, len(file.mark), file.place - len(file.mark)) == file.mark

    def _split(self, file: _Open, piece: bytes) -> Iterator[str]:
        end = piece.rfind(b"\n")
        if end < 0:
            self._keep(file, piece)
            return
        whole = file.partial + piece[:end]
        begins = True
        if file.skipping:
            # The rest of a line that was too long; what follows it is a line again.
            _, ended, whole = whole.partition(b"\n")
            file.skipping, begins = False, bool(ended)
        file.partial = b""
        if begins:
            for line in whole.decode("utf-8", "replace").split("\n"):
                if len(line) > LINE_BYTES:
                    self.too_long += 1
                else:
                    yield line.removesuffix("\r")
        self._keep(file, piece[end + 1 :])

    def _keep(self, file: _Open, rest: bytes) -> None:
        if file.skipping:
            return
        file.partial += rest
        if len(file.partial) > LINE_BYTES:
            self.too_long += 1
            file.partial, file.skipping = b"", True
