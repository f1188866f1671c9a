"""Names of the code that running JVMs have compiled, as each of them is asked to write them down.

In: ids of processes. Out: ``/tmp/perf-PID.map`` of those that are HotSpot JVMs, for ``steelyard-profile`` to
read at the end of a recording; removed afterwards.

A JVM listens for such requests once it has found the file ``.attach_pidPID`` at a SIGQUIT; then it takes
commands at the socket ``/tmp/.java_pidPID``. It needs no JDK. ``Compiler.perfmap`` is there from Java 17 on.
Source: OpenJDK, ``attachListener_posix.cpp`` and ``diagnosticCommand.cpp``.

Invariant: only a process that has mapped HotSpot and catches SIGQUIT gets that signal; it would end others.

Not here: JVMs that have ended; they write it by themselves with ``-XX:+DumpPerfMapAtExit``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ANSWER_S = 5.0
"""How long a JVM gets to listen, and then to answer; 0.1 s on an idle machine."""
_TICK_S = 0.02
_COMMAND = ("1", "jcmd", "Compiler.perfmap", "", "")
"""Version of the protocol, command, three arguments."""
_HOTSPOT = "/libjvm.so"
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Jvm:
    """A running JVM. Its files are in its own file system, named by its id in its own PID namespace."""

    pid: int
    inside: int

    @property
    def map(self) -> Path:
        """Where it writes the names."""
        return self._tmp / f"perf-{self.inside}.map"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._tmp / f".java_pid{self.inside}"

    @property
    def request(self) -> Path:
        """What it looks for at a SIGQUIT."""
        return self._tmp / f".attach_pid{self.inside}"

    @property
    def left(self) -> list[Path]:
        """What is left of a request, also where the JVM has ended."""
        own = [self.request, self.map]
        return own if self.inside != self.pid else [*own, *(Path("/tmp") / path.name for path in own)]  # noqa: S108

    @property
    def _tmp(self) -> Path:
        return Path(f"/proc/{self.pid}/root/tmp")


def jvms_of(pids: Sequence[int]) -> list[Jvm]:
    """Return those of ``pids`` that can be asked."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{pid}/status").read_text()
            caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
            if caught is None or not int(caught[1], 16) & 1 << signal.SIGQUIT - 1:
                continue
            if _HOTSPOT in Path(f"/proc/{pid}/maps").read_text():
                inside = re.search(r"^NSpid:.*?(\d+)$", status, re.MULTILINE)
                found.append(Jvm(pid, pid if inside is None else int(inside[1])))
    return found


@contextlib.contextmanager
def written(pids: Sequence[int], wait: Callable[[float], None]) -> Iterator[list[str]]:
    """Have the JVMs among ``pids`` write their names; yield why some did not. Remove the files at the end.

    ``wait`` waits for the given seconds. A JVM whose file is there already is left alone, and so is its file.
    """
    jvms = [jvm for jvm in jvms_of(pids) if not jvm.map.exists()]
    reasons: list[str] = []
    try:
        for jvm in jvms:
            with contextlib.suppress(OSError):
                _ask_to_listen(jvm)
        for jvm in jvms:
            reason = _reason_of(jvm, wait)
            if reason is not None:
                reasons.append(f"process {jvm.pid}: {reason}")
        yield reasons
    finally:
        for jvm in jvms:
            for path in jvm.left:
                with contextlib.suppress(OSError):
                    path.unlink()


def _ask_to_listen(jvm: Jvm) -> None:
    if jvm.socket.exists():
        return
    os.close(os.open(jvm.request, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o600))
    os.kill(jvm.pid, signal.SIGQUIT)


def _reason_of(jvm: Jvm, wait: Callable[[float], None]) -> str | None:
    """Return why a JVM did not write its names, None where it did."""
    waited_s = 0.0
    while not jvm.socket.exists():
        if waited_s >= ANSWER_S or not Path(f"/proc/{jvm.pid}").exists():
            return "it does not listen"
        wait(_TICK_S)
        waited_s += _TICK_S
    try:
        code, message = _answer(jvm)
    except OSError as error:
        return error.strerror or str(error)
    return None if code == "0" and jvm.map.exists() else message or f"its answer was {code!r}"


def _answer(jvm: Jvm) -> tuple[str, str]:
    """Return what a JVM answered: a code, and its last line."""
    # Anybody may write to /tmp: who listens there must be the JVM, and has a deadline for all of the answer.
    if jvm.socket.lstat().st_uid != Path(f"/proc/{jvm.pid}").stat().st_uid:
        raise PermissionError(errno.EPERM, "its socket belongs to another user")
    until = time.monotonic() + ANSWER_S
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_S)
        client.connect(str(jvm.socket))
        client.sendall(b"".join(word.encode() + b"\0" for word in _COMMAND))
        answer = b""
        while (read := client.recv(4096)) and len(answer) < _MOST_BYTES:
            answer += read
            client.settimeout(max(until - time.monotonic(), 0.001))
    code, _, message = answer.decode(errors="replace").partition("\n")
    return code.strip(), next((line for line in reversed(message.splitlines()) if line.strip()), "").strip()
