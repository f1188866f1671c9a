"""Ports of this machine, by default of the loopback address: free ones, taken ones, and waiting for a server.

Not here: addresses of other hosts.
"""

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

HOST = "127.0.0.1"
BACKLOG_LEAST = 100
"""Connections that wait to be accepted, by the default of most servers."""


def free_port(host: str = HOST) -> int:
    """Return a port of an address of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def check_port(port: int, host: str = HOST) -> None:
    """Raise EnvironmentLacksError when ``port`` is taken, or ``host`` no address here; 0 stands for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise EnvironmentLacksError(
                f"port {port} of {host} cannot be used: {error.strerror}",
                hint="choose another with --set port=..., or 0 for a free one",
            ) from error


def backlog_of(connections: int, *, root: Path = Path("/")) -> int:
    """Return how many connections a server with ``connections`` clients lets wait to be accepted.

    The kernel bounds it by `net.core.somaxconn`; a server that asks for more gets less, or does not start.
    Raises EnvironmentLacksError where the clients are more: their connections would wait a second, and then
    two, for the next attempt.
    """
    try:
        most = int((root / "proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        return max(BACKLOG_LEAST, connections)
    if connections > most:
        raise EnvironmentLacksError(
            f"connections={connections} are more than the {most} that may wait to be accepted"
            " (net.core.somaxconn)",
            hint=f"sysctl -w net.core.somaxconn={connections}, or fewer with --set connections=...",
        )
    return min(most, max(BACKLOG_LEAST, connections))


def wait_for_port(session: "Session", server: "Process", target: str, timeout_s: float) -> None:
    """Wait until a server accepts connections."""
    host, _, port = target.rpartition(":")

    def accepts() -> bool:
        try:
            with socket.create_connection((host, int(port)), timeout=0.5):
                return True
        except OSError:
            return False

    session.wait_for(accepts, timeout_s, what=f"the start of {server.name}", hint=f"see {server.log}")
