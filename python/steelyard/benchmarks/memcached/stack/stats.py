"""The counters that a memcached keeps of itself.

In: its address. Out: counters by name, as text.

Not here: what they gained between two moments.
"""

import socket

from steelyard._base import WorkloadFailedError

_TIMEOUT_S = 10.0


def read_stats(target: str) -> dict[str, str]:
    """Return the server's own counters (``stats``). Raises WorkloadFailedError when it does not answer."""
    host, _, port = target.rpartition(":")
    text = b""
    try:
        with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection:
            connection.sendall(b"stats\r\n")
            while not text.endswith(b"END\r\n"):
                part = connection.recv(65_536)
                if not part:
                    raise WorkloadFailedError(
                        f"{target} ended the connection before it answered stats",
                        hint="it does so beyond its limit of connections",
                    )
                text += part
    except OSError as error:
        raise WorkloadFailedError(f"{target} does not answer stats: {error}") from error
    words = (line.split(maxsplit=2) for line in text.decode("ascii", "replace").splitlines())
    return {row[1]: row[2] for row in words if len(row) == 3 and row[0] == "STAT"}
