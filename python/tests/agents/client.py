"""The SDK's own client on a server that really runs, and messages as nobody's client sends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

STEELYARD = str(Path(sys.executable).with_name("steelyard"))


class Agent:
    """A client; each call is held to what every answer of the server promises."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers: list[str] = []

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the whole answer of a tool, which must not fail."""
        document, failed = await self.ask(tool, arguments)
        assert not failed, document
        return document

    async def data(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the data of an answer."""
        data: dict[str, Any] = (await self.call(tool, **arguments))["data"]
        return data

    async def error(self, tool: str, /, **arguments: Any) -> str:
        """Return what a failed call says."""
        document, failed = await self.ask(tool, arguments)
        assert failed, document
        assert set(document) == {"note", "error"}
        assert set(document["error"]) <= {"message", "hint"}
        return " | ".join(document["error"].values())

    async def ask(self, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return an answer, and whether it is an error."""
        found = await self.client.call_tool(tool, arguments)
        (block,) = found.content
        self.answers.append(block.text)
        document = json.loads(block.text)
        assert found.structured_content == document
        assert set(document) <= {"note", "data", "next_cursor", "error"}
        return document, found.is_error

    async def pages(self, tool: str, rows: str, /, **arguments: Any) -> list[dict[str, Any]]:
        """Return the rows of all pages."""
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            given = arguments if cursor is None else {**arguments, "cursor": cursor}
            document = await self.call(tool, **given)
            assert document["data"][rows] or cursor is None
            found += document["data"][rows]
            cursor = document.get("next_cursor")
            if cursor is None:
                return found


def converse(*arguments: str | Path, say: Callable[[Agent], Awaitable[None]]) -> list[str]:
    """Start a server, let ``say`` ask it, and return the texts of all answers."""

    async def talk() -> list[str]:
        parameters = StdioServerParameters(command=STEELYARD, args=["mcp", *map(str, arguments)])
        failure: BaseException | None = None
        async with Client(stdio_client(parameters)) as client:
            agent = Agent(client)
            try:
                await say(agent)
            except Exception as error:
                # Outside of the client's tasks, which would wrap it.
                failure = error
        if failure is not None:
            raise failure
        return agent.answers

    # In a thread of its own: a browser of another test may keep a loop in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, asyncio.wait_for(talk(), 100)).result()


class Raw:
    """A server that gets any bytes."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [STEELYARD, "mcp", *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        client = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        assert self.ask(method="initialize", params=client)["result"]["serverInfo"]["name"] == "steelyard"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def send(self, message: Any) -> None:
        """Send a message, or bytes as they are."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def read(self) -> Any:
        """Return the next message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), "the server has left"
        return json.loads(line)

    def ask(self, **message: Any) -> Any:
        """Send a request and return its answer."""
        self.send({"jsonrpc": "2.0", "id": 1, **message})
        return self.read()

    def tool(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool and return its result."""
        return self.ask(method="tools/call", params={"name": name, "arguments": arguments})["result"]
