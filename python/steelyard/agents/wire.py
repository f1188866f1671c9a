"""Messages on standard input and output, a line each: bounded, and answered even where they make no sense.

In: the process's streams. Out: lines of valid JSON-RPC for the SDK's server, which itself reads lines of any
length and drops those that it cannot read. Here a line of more than `MOST_BYTES` is passed over in pieces,
and each line that is no message is answered with one error: with the id of the request where it can be seen.

Meanwhile standard input is empty and standard output is standard error, so that nothing that a tool starts or
prints gets between messages.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from typing import BinaryIO, Self

import anyio
import anyio.to_thread
from mcp import types

MOST_BYTES = 1 << 20
_PIECE = 1 << 16
_ID = re.compile(rb'"id"\s*:\s*(-?\d{1,15}|"[^"\\]{0,64}")')
_INVALID, _UNREADABLE = -32600, -32700
_NO_JSON = "this line is no JSON"
_NO_MESSAGE = "this JSON is no message of JSON-RPC 2.0"


class Wire:
    """Both directions, as the SDK's transport takes them: lines to read, texts to write."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._lock = anyio.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        """Return the next line that is a message."""
        while True:
            # A read that nobody waits for any more is left behind: it ends with the process.
            line, size = await anyio.to_thread.run_sync(self._line, abandon_on_cancel=True)
            if not line:
                raise StopAsyncIteration
            if size > MOST_BYTES:
                said = f"a message of {size:,} bytes, and at most {MOST_BYTES:,} are read"
                await self._refuse(line, _INVALID, said)
            elif line.strip():
                problem = _problem(line)
                if problem is None:
                    return line.decode("utf-8", "replace")
                await self._refuse(line, *problem)

    async def write(self, text: str) -> None:
        """Write a message whole."""
        async with self._lock:
            await anyio.to_thread.run_sync(self._write, text.encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Do nothing: a message is on its way once it is written."""

    def _line(self) -> tuple[bytes, int]:
        """Return the next line, of one that is too long its beginning and its end, and how long it is."""
        try:
            line = self._source.readline(MOST_BYTES + 1)
            size = len(line)
            if size <= MOST_BYTES or line.endswith(b"\n"):
                return line, size
            head, tail = line[:_PIECE], line[-_PIECE:]
            while piece := self._source.readline(_PIECE):
                size += len(piece)
                tail = (tail + piece)[-_PIECE:]
                if piece.endswith(b"\n"):
                    break
            return head + tail, size
        except (OSError, ValueError):
            return b"", 0

    def _write(self, data: bytes) -> None:
        # Whoever has left reads no answer.
        with contextlib.suppress(OSError, ValueError):
            self._sink.write(data)
            self._sink.flush()

    async def _refuse(self, line: bytes, code: int, message: str) -> None:
        found = _ID.search(line)
        error = {"code": code, "message": message}
        answer = {"jsonrpc": "2.0", "id": json.loads(found[1]) if found else None, "error": error}
        await self.write(json.dumps(answer) + "\n")


def _problem(line: bytes) -> tuple[int, str] | None:
    """Return why a line is no message, None where it is one."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError as error:
        return (_UNREADABLE, _NO_JSON) if "Invalid JSON" in str(error) else (_INVALID, _NO_MESSAGE)
    # A request whose id is no id would pass for a notification, which nobody answers.
    if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
        return _INVALID, _NO_MESSAGE
    return None


@contextlib.contextmanager
def standard_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield where messages come from and go to, with both taken out of the way of everything else."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Not closed: a read that was left behind may still wait on it.
    try:
        yield os.fdopen(source, "rb", closefd=False), os.fdopen(sink, "wb", closefd=False)
    finally:
        os.dup2(sink, 1)
