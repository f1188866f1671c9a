"""The load of a run on other hosts: over ssh, with servers that listen on an address that the hosts reach.

In: settings of a benchmark. Out: flags of ``steelyard-load``, whose process here commands those on the hosts
and puts their results together by the clock here; the files that the load reads, on every host for the time
of the run.

Invariant: without hosts everything stays on the loopback address.
Not here: how hosts make one load (``crates/load/src/hosts``).
"""

import contextlib
import shlex
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.parameters import Parameter, Setting
from steelyard.bench.ports import HOST

if TYPE_CHECKING:
    from steelyard.bench.session import Session
    from steelyard.records import Check, LoadResult, Metric

HOSTS = "hosts"
HERE = "localhost"
_SSH_TIMEOUT_S = 30.0

HOST_PARAMETERS = (
    Parameter(
        HOSTS,
        "text",
        "hosts that make the load over ssh, separated by spaces; empty for this machine",
        default="",
    ),
    Parameter(
        "address",
        "text",
        "address of this machine that the servers listen on; empty for the loopback's, with hosts the one"
        " towards the first",
        default="",
    ),
    Parameter("ssh", "text", "ssh and its options, for hosts", default="ssh"),
    Parameter("remote_load", "text", "path of steelyard-load on the hosts", default="steelyard-load"),
)


@dataclass(frozen=True, slots=True)
class LoadHosts:
    """Where the load of a run is made. ``hosts`` is empty for this machine."""

    hosts: tuple[str, ...]
    ssh: tuple[str, ...]
    remote_load: str
    chosen_address: str

    @classmethod
    def of(cls, settings: Mapping[str, Setting]) -> "LoadHosts":
        """Return what ``settings`` ask for."""
        return cls(
            tuple(str(settings.get(HOSTS, "")).split()),
            tuple(str(settings.get("ssh", "ssh")).split()),
            str(settings.get("remote_load", "steelyard-load")),
            str(settings.get("address", "")),
        )

    @property
    def address(self) -> str:
        """Return the address that the servers listen on. Raises UsageError where none leads to the hosts."""
        others = [host for host in self.hosts if host != HERE]
        if self.chosen_address or not others:
            return self.chosen_address or HOST
        name = others[0].rpartition("@")[2]
        try:
            # Connecting a datagram socket sends nothing: the kernel only chooses the way.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((name, 9))
                return str(probe.getsockname()[0])
        except OSError as error:
            raise UsageError(
                f"no address of this machine is known to lead to {name}: {error.strerror or error}",
                hint="name it with --set address=...",
            ) from error

    def check(self) -> None:
        """Raise UsageError for what is no host, or no address."""
        for host in self.hosts:
            if host.startswith("-"):
                raise UsageError(f"host {host!r} is not a host such as user@host")
        if self.hosts and not self.ssh:
            raise UsageError("ssh is empty", hint="name it with its options: --set ssh='ssh -p 2222'")
        address = self.address
        if self.hosts and any(host != HERE for host in self.hosts) and address.startswith("127."):
            raise UsageError(
                f"address={address}: other hosts do not reach the loopback address",
                hint="--set address=... names one that they do",
            )

    def arguments(self, session: "Session", mix: Path) -> list[str]:
        """Return the flags that name hosts and mix, which every host has when this returns."""
        [shared] = self.shared(session, mix)
        return ["--mix", str(shared), *self.flags()]

    def flags(self, processes: int = 0) -> list[str]:
        """Return the flags that name the hosts, in turn for ``processes`` if those are more than hosts."""
        if not self.hosts:
            return []
        named = [self.hosts[at % len(self.hosts)] for at in range(max(processes, len(self.hosts)))]
        flags = [flag for host in named for flag in ("--host", host)]
        return [*flags, "--ssh", " ".join(self.ssh), "--remote-command", self.remote_load]

    def shared(self, session: "Session", *files: Path) -> list[Path]:
        """Return the names by which this host and every other has ``files`` for the time of the run."""
        if not self.hosts or not files:
            return list(files)
        # One name for all, since each process reads a file by the name that this one was given.
        folder = Path(f"/tmp/steelyard-{session.directory.name}")  # noqa: S108 - made anew, for its user only
        for host in (None, *(host for host in dict.fromkeys(self.hosts) if host != HERE)):
            self._put(session, host, folder, files)
        return [folder / file.name for file in files]

    def _put(self, session: "Session", host: str | None, folder: Path, files: Sequence[Path]) -> None:
        """Write ``files`` on ``host``, None for here; they go with the run."""
        place = shlex.quote(str(folder))
        # It may be there already, where hosts share a file system; but nobody else's.
        own = f"mkdir -m 700 {place} 2>/dev/null || {{ [ -O {place} ] && [ ! -L {place} ]; }}"

        def remove() -> None:
            # A host that is gone keeps some small files.
            with contextlib.suppress(EnvironmentLacksError):
                self._run(host, f"rm -rf {place}", b"")

        for file in files:
            text = file.read_bytes()
            self._run(host, f"{{ {own}; }} && cat > {place}/{shlex.quote(file.name)}", text)
            if file is files[0]:
                session.endings.callback(remove)

    def _run(self, host: str | None, script: str, text: bytes) -> None:
        far = [*self.ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T", host or "", "--", script]
        command = ["sh", "-c", script] if host is None else far
        where = "here" if host is None else f"host {host}"
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, check=False, timeout=_SSH_TIMEOUT_S
            )
        except OSError as error:
            raise EnvironmentLacksError(f"{where}: {command[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise EnvironmentLacksError(f"{where}: no answer in {_SSH_TIMEOUT_S:.0f} s") from error
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            why = lines[-1] if lines else f"{command[0]} ended with {done.returncode}"
            raise EnvironmentLacksError(
                f"{where}: {why}", hint="the hosts need a login without a password, and steelyard-load"
            )

    def load_cpus(self, load: "LoadResult", here: int) -> int:
        """Return the CPUs that the load's own use is a share of; on other hosts one for each thread."""
        return max(1, load.settings.threads if self.hosts else here)

    def own_cpu_s(self, load: "LoadResult") -> float:
        """Return the CPU time that the load took of this machine, s."""
        return 0.0 if self.hosts else load.cpu.user_s + load.cpu.system_s

    def share(self, load: "LoadResult", servers_s: float | None, missing: str) -> "Metric":
        """Return the load's share of the CPU time of load and servers; none where it is not beside them."""
        from steelyard.bench.load.metrics import value

        if self.hosts:
            return value(None, "ratio", "lower", f"the load ran on {', '.join(self.hosts)}")
        load_s = self.own_cpu_s(load)
        whole_s = None if servers_s is None else load_s + servers_s
        return value(load_s / whole_s if whole_s else None, "ratio", "lower", missing)

    def share_checks(self, share: "Metric") -> "list[Check]":
        """Return whether the load took little CPU time of this machine."""
        from steelyard.analyze.utilisation import load_share

        return [] if self.hosts else [load_share(share.value)]
