"""``--pin-threads`` of the servers: each thread stays on one CPU of those that the process may use."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from . import servers


def threads_of(pid: int) -> dict[str, set[int]]:
    """Return the CPUs that each thread may use, by its name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except OSError:
            continue  # It has ended.
        fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        cpus: set[int] = set()
        for part in fields["Cpus_allowed_list"].split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
        found[fields["Name"]] = cpus
    return found


CACHE = ["steelyard-cache", "--fast-threads", "3", "--slow-threads", "2", "--mode", "read-through"]
LEAF = ["steelyard-rank", "leaf", "--no-tls", "--io-threads", "2", "--workers", "3"]
CACHE_POOLS, LEAF_POOLS = {"fast": 3, "slow": 2}, {"io": 2, "worker": 3}


@pytest.mark.parametrize(("command", "pools"), [(CACHE, CACHE_POOLS), (LEAF, LEAF_POOLS)])
@pytest.mark.parametrize("is_pinned", [True, False])
def test_threads_of_a_pool_take_the_cpus_in_turn(
    command: list[str], pools: dict[str, int], is_pinned: bool
) -> None:
    usable = sorted(os.sched_getaffinity(0))
    wanted = {
        f"{pool}-{number}": {usable[number % len(usable)]} if is_pinned else set(usable)
        for pool, count in pools.items()
        for number in range(count)
    }
    program = [str(servers.executable(command[0])), *command[1:], "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        [*program, *(["--pin-threads"] if is_pinned else [])], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        # The line comes before the threads do, and a thread has its name before its CPU.
        until_s = time.monotonic() + 60
        found: dict[str, set[int]] = {}
        while found != wanted and time.monotonic() < until_s and process.poll() is None:
            found = {name: cpus for name, cpus in threads_of(process.pid).items() if name in wanted}
        assert found == wanted
    finally:
        process.terminate()
        assert process.wait(30) == 0
        if process.stdout is not None:
            process.stdout.close()
