"""The servers of TaoBench: command line, readiness, and the memory that one item takes.

In: settings. Out: commands, and addresses that answer.
"""

import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import executable
from steelyard.bench.parameters import Settings

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

ITEM_OVERHEAD_BYTES = 40
"""Bookkeeping of steelyard-cache for one item, which counts as stored; a test compares it with a server."""


def mean_item_bytes(folder: Path) -> float:
    """Return the mean memory of one stored item with the distributions in ``folder``."""
    from steelyard.stats import distribution

    objects = distribution.load(folder / "object-sizes.json").mean()
    keys = distribution.load(folder / "key-sizes.json").mean()
    return objects + keys + ITEM_OVERHEAD_BYTES


def our_server(settings: Settings, *, port: int, stats: Path, sizes: str) -> list[str]:
    """Return the command line of one steelyard-cache."""
    memory = settings.count("memory") // settings.count("instances")
    return [
        str(executable("steelyard-cache")),
        *("--listen", f"127.0.0.1:{port}"),
        *("--fast-threads", str(settings.count("fast_threads"))),
        *("--slow-threads", str(settings.count("slow_threads"))),
        *("--memory", f"{memory}B"),
        *("--mode", "read-through"),
        *("--max-connections", str(settings.count("connections") + 16)),
        *("--backend-delay", settings.text("backend_delay")),
        *("--object-sizes", sizes),
        *("--seed", str(settings.count("seed"))),
        *("--stats-out", str(stats)),
        *("--stats-interval", f"{settings.number('window') * 1e3:.0f}ms"),
    ]


def wait_until_ready(session: "Session", server: "Process", timeout_s: float) -> str:
    """Return the address that a server of ours says it listens on."""
    address: list[str] = []

    def announced() -> bool:
        for stream, line in server.lines():
            if stream == "stdout" and line.startswith("{"):
                event = json.loads(line)
                if event.get("event") == "ready":
                    address.append(str(event["listen"]))
        return bool(address)

    session.wait_for(announced, timeout_s, what=f"the start of {server.name}", hint=f"see {server.log}")
    return address[0]


def wait_for_port(session: "Session", server: "Process", target: str, timeout_s: float) -> None:
    """Wait until some other server accepts connections."""
    host, _, port = target.rpartition(":")

    def accepts() -> bool:
        try:
            with socket.create_connection((host, int(port)), timeout=0.5):
                return True
        except OSError:
            return False

    session.wait_for(accepts, timeout_s, what=f"the start of {server.name}", hint=f"see {server.log}")
