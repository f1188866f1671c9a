"""A few words with a server of Redis: what a run asks of it beside the load.

In: its address, a command. Out: its answer.

Not here: the load, which is ``steelyard-load``'s.
"""

import socket

from steelyard._base import WorkloadFailedError

_TIMEOUT_S = 120.0
"""Emptying a server of some gigabytes takes seconds."""


def ask(target: str, *words: str, timeout_s: float = _TIMEOUT_S) -> str:
    """Return the answer to a command. Raises WorkloadFailedError for an error, or without an answer."""
    host, _, port = target.rpartition(":")
    command = b"".join(
        [b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words))]
    )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s) as connection:
            connection.sendall(command)
            with connection.makefile("rb") as answer:
                head = answer.readline().decode("utf-8", "replace").rstrip("\r\n")
                if head.startswith("$"):
                    return answer.read(max(0, int(head[1:]))).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise WorkloadFailedError(f"{target} does not answer {words[0]}: {error}") from error
    if not head.startswith(("+", ":")):
        raise WorkloadFailedError(f"{target} refuses {words[0]}: {head.removeprefix('-') or 'no answer'}")
    return head[1:]


def peak_bytes(target: str) -> int:
    """Return the most memory that the server has had allocated since its start."""
    lines = (line.partition(":") for line in ask(target, "INFO", "memory").splitlines())
    found = {name: text for name, _, text in lines}
    try:
        return int(found["used_memory_peak"])
    except (KeyError, ValueError) as error:
        raise WorkloadFailedError(f"{target} does not tell its memory") from error
