"""How much memory the servers take: what they are sent in the longest step, amply.

In: settings. Out: bytes; the longest measure phase whose data a machine holds.

A closed loop stores as much as the server takes in, so that memory follows from time and speed. Every step
begins with empty servers.
"""

import math
from collections.abc import Mapping

from steelyard.bench.parameters import Setting

FASTEST_PER_S = 250_000
"""Requests per second that one thread of Redis answers at most without pipelining, amply: on a disturbed
machine the step that pushes may be slow and the one that pops fast."""
PIPELINED_RATIO = 7.0
"""Times as many with several requests of a connection in flight."""
REQUEST_BYTES = 150
"""What a request leaves in memory, amply: a value of 128 bytes; a member of a sorted set with its two
indexes; four values of 32 bytes that are written before one is popped."""
EMPTY_BYTES = 64 << 20
"""A server without data, with buffers of its clients."""
SNAPSHOT_RATIO = 2.0
"""Times the data while a snapshot is written: its process keeps pages as they were, whichever are changed."""
MEMORY_RATIO = 0.75
"""Share of the machine's memory that the servers get at most: load and system need some, too."""


def _bytes_per_s(settings: Mapping[str, Setting]) -> float:
    """Return by how much all servers together grow in a second of a step."""
    fastest = FASTEST_PER_S * min(PIPELINED_RATIO, float(settings["depth"]))
    snapshots = SNAPSHOT_RATIO if settings["profile"] == "stock" else 1.0
    return int(settings["instances"]) * fastest * REQUEST_BYTES * snapshots


def needed_bytes(settings: Mapping[str, Setting], step_s: float) -> int:
    """Return the memory of all servers after a step of ``step_s``, its warm-up included, at the most."""
    return int(int(settings["instances"]) * EMPTY_BYTES + _bytes_per_s(settings) * step_s)


def longest_step_s(settings: Mapping[str, Setting], memory_bytes: int) -> float:
    """Return how long a step may be, its warm-up included, on a machine with ``memory_bytes``."""
    spare = MEMORY_RATIO * memory_bytes - int(settings["instances"]) * EMPTY_BYTES
    growth = _bytes_per_s(settings)
    return max(0.0, spare / growth) if growth else math.inf
