"""The servers of DjangoBench: Cassandra with the network's data, memcached, uWSGI.

In: settings, the folder of the installed stack. Out: servers that answer; their end in order.

Not here: the node (``cassandra.node``), the application (``workloads/django``).
"""

import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import WorkloadFailedError
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.ports import HOST, backlog_of, check_port, free_port, wait_for_port
from steelyard.bench.stack.recipe import payload_dir, payload_source, program
from steelyard.bench.stack.tuning import flags, read_tuning
from steelyard.benchmarks.cassandra.stack.node import Node, start_node, stop_node, wait_until_ready
from steelyard.benchmarks.cassandra.stack.profile import load_profile
from steelyard.benchmarks.django.stack.recipe import PAYLOAD

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session

READY_TIMEOUT_S = 120.0
USERS_PER_S_AT_LEAST = 5
"""Slowest fill that is waited for."""
UWSGI_STOP_TIMEOUT_S = 30.0
GRACE_S = 20.0
"""Workers have 3 seconds to finish their requests."""
_DIED = re.compile(r"worker (\d+) \(pid: \d+\) died(?:, killed by signal (\d+))?")


@dataclass(slots=True)
class Servers:
    """The servers of one run, in the order of their start."""

    node: Node
    memcached: "Process"
    memcached_target: str
    uwsgi: "Process | None" = None
    target: str = ""
    fill_s: float | None = None
    rows: int | None = None
    ready_s: float | None = None
    """From the start of uWSGI to the first answer that needs store and cache."""

    def processes(self) -> dict[str, int]:
        """Return the ids of the supervisors by name."""
        known = {"cassandra": self.node.process, "memcached": self.memcached, "uwsgi": self.uwsgi}
        return {name: process.pid for name, process in known.items() if process is not None}


def start_stores(session: "Session", java: str, data: Path) -> Servers:
    """Start Cassandra and memcached, and wait until both answer."""
    settings = session.settings
    profile = load_profile("stock")
    begin_ns = session.clock.monotonic_ns()
    node = start_node(
        session,
        session.placement.server,
        name="cassandra",
        java=java,
        heap_bytes=settings.count("heap"),
        settings=profile.resolved(settings.count("heap"), 0),
        data=data,
    )
    port = free_port()
    workers = settings.count("processes") * settings.count("threads")
    values = {"cache_mib": str(settings.count("memory") >> 20), "connections": str(max(1024, workers + 16))}
    command = [program("memcached", PAYLOAD), "-l", HOST, "-p", str(port), "-U", "0"]
    # memcached runs as root only with `-u root`.
    command += ["-u", "root", *flags(read_tuning(PAYLOAD)["memcached"], values)]
    memcached = session.start_process("memcached", command, cpus=session.placement.server)
    target = f"{HOST}:{port}"
    wait_for_port(session, memcached, target, READY_TIMEOUT_S)
    wait_until_ready(session, node, begin_ns)
    return Servers(node, memcached, target)


def fill(session: "Session", servers: Servers) -> None:
    """Store the network in Cassandra."""
    stack, settings = payload_dir(PAYLOAD), session.settings
    users = settings.count("users")
    command = [
        *(str(stack / "venv/bin/python"), str(payload_source(PAYLOAD) / "fill")),
        *("--cassandra", servers.node.target),
        *("--users", str(users), "--seed", str(settings.count("data_seed"))),
    ]
    # On all CPUs: no load runs yet.
    cpus = sorted({*session.placement.server, *session.placement.load})
    process = session.start_process("fill", command, cpus=cpus)
    session.join(process, 120.0 + users / USERS_PER_S_AT_LEAST, what="storing the network")
    for _, line in process.lines():
        if line.startswith("{"):
            event = json.loads(line)
            servers.fill_s, servers.rows = float(event["seconds"]), int(event["rows"])
    if servers.rows is None:
        raise WorkloadFailedError(f"fill did not say how many rows it stored (see {process.log})")


def start_application(session: "Session", servers: Servers) -> None:
    """Start uWSGI and wait until the application answers."""
    settings = session.settings
    address = LoadHosts.of(settings).address
    port = settings.count("port") or free_port(address)
    check_port(port, address)
    command = [
        str(payload_source(PAYLOAD) / "serve"),
        *("--stack", str(payload_dir(PAYLOAD)), "--address", address, "--port", str(port)),
        *("--processes", str(settings.count("processes")), "--threads", str(settings.count("threads"))),
        *("--listen", str(backlog_of(settings.count("connections")))),
        *("--cassandra", servers.node.target, "--memcached", servers.memcached_target),
        *("--users", str(settings.count("users")), "--calls", str(settings.count("function_calls"))),
    ]
    begin_ns = session.clock.monotonic_ns()
    servers.uwsgi = session.start_process(
        "uwsgi", command, cpus=session.placement.server, comm="uwsgi", grace_s=GRACE_S
    )
    servers.target = f"{address}:{port}"
    session.wait_for(
        lambda: answers(f"http://{servers.target}/health"),
        READY_TIMEOUT_S,
        what="the start of uwsgi",
        hint=f"see {servers.uwsgi.log}",
    )
    servers.ready_s = (session.clock.monotonic_ns() - begin_ns) / 1e9


def answers(url: str) -> bool:
    """Return whether the application is ready to serve."""
    # The address is one of this machine; a proxy of the environment must not be asked.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10.0) as response:
            return bool(response.read() == b"ready")
    except (urllib.error.URLError, OSError):
        return False


def stop(session: "Session", servers: Servers) -> None:
    """Stop the servers, the application first."""
    if servers.uwsgi is not None:
        session.stop_process(servers.uwsgi, UWSGI_STOP_TIMEOUT_S)
    session.stop_process(servers.memcached)
    stop_node(session, servers.node)


def dead_workers(log: Path) -> list[str]:
    """Return how workers of uWSGI ended that should not have, as its log tells."""
    deaths = []
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = _DIED.search(line)
            if match is not None:
                how = f"was killed by signal {match[2]}" if match[2] else "died"
                deaths.append(f"worker {match[1]} {how}")
    return deaths
