"""The servers of TaoBench: command line, its check, readiness, and the memory that one item takes.

In: settings. Out: commands, and addresses that answer.
"""

import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError, UsageError, executable
from steelyard.bench.arguments import NOWHERE, check_arguments
from steelyard.bench.parameters import Setting

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


def our_server(settings: Mapping[str, Setting], *, port: int, stats: Path, sizes: str) -> list[str]:
    """Return the command line of one steelyard-cache."""
    memory = int(settings["memory"]) // int(settings["instances"])
    return [
        str(executable("steelyard-cache")),
        *("--listen", f"127.0.0.1:{port}"),
        *("--fast-threads", str(settings["fast_threads"])),
        *("--slow-threads", str(settings["slow_threads"])),
        *("--memory", f"{memory}B"),
        *("--mode", "read-through"),
        *("--max-connections", str(int(settings["connections"]) + 16)),
        *("--backend-delay", str(settings["backend_delay"])),
        *("--object-sizes", sizes),
        *("--seed", str(settings["seed"])),
        *("--stats-out", str(stats)),
        *("--stats-interval", f"{float(settings['window']) * 1e3:.0f}ms"),
        *(["--pin-threads"] if settings["thread_placement"] == "pinned" else []),
    ]


def foreign_server(settings: Mapping[str, Setting], *, port: int) -> list[str]:
    """Return the command line of one server that is not ours. Raises UsageError or EnvironmentLacksError."""
    names = {
        "port": str(port),
        "threads": str(settings["fast_threads"]),
        "memory_mib": str(max(1, (int(settings["memory"]) // int(settings["instances"])) >> 20)),
        "connections": str(int(settings["connections"]) + 16),
    }
    text = f"server_command={settings['server_command']}"
    try:
        command = [part.format(**names) for part in shlex.split(str(settings["server_command"]))]
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise UsageError(f"{text}: {error}", hint=f"names that are replaced: {', '.join(names)}") from error
    if not command:
        raise UsageError(f"{text}: names no program")
    if shutil.which(command[0]) is None:
        raise EnvironmentLacksError(f"{text}: there is no program {command[0]!r} here")
    return command


_SERVER_FLAGS = {
    "--backend-delay": "backend_delay",
    "--memory": "memory",
    "--fast-threads": "fast_threads",
    "--slow-threads": "slow_threads",
}
_LOAD_FLAGS = {
    "--key-distribution": "key_distribution",
    "--keys": "keys",
    "--rate": "rate",
    "--arrival": "arrival",
    "--threads": "load_threads",
    "--connections": "connections",
    "--depth": "depth",
    "--io": "io",
}
"""The parameters behind flags of servers and load."""


def check_programs(settings: Mapping[str, Setting], folder: Path) -> None:
    """Have server and load judge their arguments, with the distributions in ``folder``.

    Raises UsageError or EnvironmentLacksError.
    """
    from steelyard.benchmarks.tao.load import load_command

    keys, objects = str(folder / "key-sizes.json"), str(folder / "object-sizes.json")
    if settings["server_command"]:
        foreign_server(settings, port=int(settings["port"]) or 1)
    else:
        server = our_server(settings, port=0, stats=Path(os.devnull), sizes=objects)
        check_arguments(server, settings, _SERVER_FLAGS)
    load = load_command(settings, target=NOWHERE, key_sizes=keys, value_sizes=objects, seed=1)
    check_arguments(load, settings, _LOAD_FLAGS)


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
