"""One Cassandra node of a run: its configuration, start, readiness and end.

In: the settings of a profile, folders, ports. Out: a node that answers CQL.

Not here: what is asked of it.
"""

import resource
import shutil
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError
from steelyard.bench.ports import HOST, check_port, free_port
from steelyard.bench.stack import java as javas
from steelyard.bench.stack.recipe import payload_dir, payload_source
from steelyard.benchmarks.cassandra.stack.profile import MIB, ProfileSetting, value_of
from steelyard.benchmarks.cassandra.stack.recipe import JAVA, PAYLOAD

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session
    from steelyard.records import Check

GC_LOG = "logs/gc.log"
READY_TIMEOUT_S = 180.0
"""Ten seconds on an idle machine; a busy one may take as much longer as it is busy."""
STOP_TIMEOUT_S = 60.0
GRACE_S = 50.0
"""It writes its memtables to disk before it ends: 5 seconds on an idle machine."""
_FRAME = struct.Struct(">BBhBI")
"""Header of CQL's binary protocol, version 4: version, flags, stream, opcode, length of the body."""
_VERSION, _ANSWER, _OPTIONS, _SUPPORTED = 0x04, 0x84, 0x05, 0x06


@dataclass(slots=True)
class Node:
    """A node that has been started."""

    process: "Process"
    port: int
    ready_s: float | None = None
    """Time from start to the first answer."""
    address: str = HOST

    @property
    def target(self) -> str:
        """Return the address of CQL."""
        return f"{self.address}:{self.port}"


def find_java(benchmark: str) -> str:
    """Return the path of a Java that Cassandra runs on. Raises EnvironmentLacksError, which names others."""
    return str(javas.find_java(JAVA, benchmark=benchmark))


def start_node(
    session: "Session",
    cpus: Sequence[int],
    *,
    name: str,
    java: str,
    heap_bytes: int,
    settings: Sequence[ProfileSetting],
    data: Path,
    commit_log: Path | None = None,
    port: int = 0,
    address: str = HOST,
) -> Node:
    """Start a node on ``cpus``; ``data`` and ``commit_log`` are folders of its own.

    Clients find it at ``address``, one of this machine; everything else of it stays on the loopback address.
    """
    cql = port or free_port(address)
    check_port(cql, address)
    storage = free_port()
    configuration = session.directory / name
    configuration.mkdir(exist_ok=True)
    yaml, options = configuration / "profile.yaml", configuration / "java.options"
    yaml.write_text(_yaml(settings), encoding="utf-8")
    collector = value_of(settings, "java", "collector")
    options.write_text(f"{collector}\n" if collector else "", encoding="utf-8")
    files = open_files(settings)
    command = [
        str(payload_source(PAYLOAD) / "serve"),
        *("--jars", str(payload_dir(PAYLOAD)), "--java", java),
        *("--data", str(data), "--address", address),
        *("--port", str(cql), "--storage-port", str(storage)),
        *(["--commit-log", str(commit_log)] if commit_log is not None else []),
        *("--heap", f"{heap_bytes // MIB}M"),
        *("--yaml", str(yaml), "--java-options", str(options)),
        *(["--open-files", str(files.allowed)] if files is not None else []),
        *("--gc-log", str(session.directory / GC_LOG)),
    ]
    process = session.start_process(name, command, cpus=cpus, comm="java", grace_s=GRACE_S)
    return Node(process, cql, address=address)


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """How many files a node may open: what the profile asks for, and what the hard limit allows."""

    asked: int
    allowed: int

    def check(self) -> "Check":
        """Return what there is to say of it; no run of one node comes near either."""
        from steelyard.analyze import checks
        from steelyard.records import Level

        enough = f"the node may open {self.allowed} files"
        claim = enough if self.allowed == self.asked else f"{enough}, not {self.asked}: the hard limit"
        return checks.stated("open-files", Level.VALID, claim, self.allowed)


def open_files(settings: Sequence[ProfileSetting]) -> OpenFiles | None:
    """Return the files that a node may open, None where the profile leaves the limit alone."""
    asked = value_of(settings, "limit", "open_files")
    if asked is None:
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard in (resource.RLIM_INFINITY, -1)
    return OpenFiles(int(asked), int(asked) if unlimited else min(int(asked), hard))


def _yaml(settings: Sequence[ProfileSetting]) -> str:
    lines = [f"# {each.reason}\n{each.name}: {each.value}\n" for each in settings if each.where == "yaml"]
    return "".join(lines)


def wait_until_ready(session: "Session", node: Node, begin_ns: int) -> None:
    """Wait until the node answers CQL; ``begin_ns`` is when it was started."""
    session.wait_for(
        lambda: answers(node.port, node.address),
        READY_TIMEOUT_S,
        what=f"the start of {node.process.name}",
        hint=f"see {node.process.log}",
    )
    node.ready_s = (session.clock.monotonic_ns() - begin_ns) / 1e9


def answers(port: int, address: str = HOST, timeout_s: float = 2.0) -> bool:
    """Return whether a server at ``port`` answers CQL's request OPTIONS, as a node does that serves."""
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as connection:
            connection.sendall(_FRAME.pack(_VERSION, 0, 0, _OPTIONS, 0))
            header = connection.recv(_FRAME.size, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(header) == _FRAME.size and (header[0], header[4]) == (_ANSWER, _SUPPORTED)


def stop_node(session: "Session", node: Node) -> float:
    """Stop the node in order; return how long that took, s."""
    begin_ns = session.clock.monotonic_ns()
    session.stop_process(node.process, STOP_TIMEOUT_S, dies_of_sigterm=True)
    return (session.clock.monotonic_ns() - begin_ns) / 1e9


def check_disk(folder: Path, needed_bytes: int, hint: str) -> None:
    """Raise EnvironmentLacksError when ``folder`` has less room than ``needed_bytes``."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise EnvironmentLacksError(
            f"the data need {needed_bytes >> 20} MiB of disk, and {folder} has {free >> 20} MiB", hint=hint
        )
