"""A limit on the rate at which an interface sends, by a token bucket of the kernel (``tc``, tbf).

In: an interface, bytes per second. Out: a queueing discipline with a handle of its own at the interface's
root, for as long as the limit is wanted.

Only sending is limited. What is sent on loopback is received there: one bucket holds both directions of every
connection together. Invariants: a discipline that somebody set is never replaced; only one with our own
handle, in the namespace in which it was set, is ever removed.
"""

import os
import secrets
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench import undo
from steelyard.bench.characterize.traffic_shapers import disciplines, traffic_control

KIND = "network limit"
_TIMEOUT_S = 5.0
_LATENCY_MS = 50
"""How long a packet waits at most: longer queues are dropped, as a switch does."""
_BUCKET_S = 0.004
"""Time's worth of tokens: the kernel's timers are coarser than a packet at high rates."""
_BUCKET_BYTES_MIN = 128 << 10
"""Two of the packets that loopback and segmentation offload make, of up to 64 KiB."""


class NetworkLimit:
    """A limit on one interface of this process's network namespace."""

    def __init__(self, interface: str, rate_bytes_per_s: float) -> None:
        self.interface = interface
        self.rate_bytes_per_s = rate_bytes_per_s
        self._change: undo.Change | None = None

    def check(self) -> None:
        """Raise UsageError or EnvironmentLacksError where the limit cannot be set."""
        known = [name for _, name in socket.if_nameindex()]
        if self.interface not in known:
            raise UsageError(
                f"there is no network interface {self.interface}", hint=f"interfaces: {', '.join(known)}"
            )
        traffic_control()
        if os.geteuid() != 0:
            raise EnvironmentLacksError(
                f"the rate of {self.interface} can be set by root only",
                hint="run as root, or state the limit",
            )
        present, why = disciplines(self.interface)
        if why is not None:
            raise EnvironmentLacksError(f"{self.interface}: {why}")
        # The kernel gives those that it makes itself no handle.
        foreign = [each for each in present if each.get("handle") not in (None, "0:")]
        if foreign:
            kinds = ", ".join(f"{each.get('kind')} {each.get('handle')}" for each in foreign)
            raise EnvironmentLacksError(
                f"{self.interface} has a queueing discipline already ({kinds}), which is not replaced",
                hint=f"remove it with `tc qdisc del dev {self.interface} root`, or state its limit",
            )

    def set(self, run_id: str) -> None:
        """Set the limit. Raises UsageError or EnvironmentLacksError where that cannot be done."""
        self.check()
        # Disciplines that nobody named count from 8001: ours is among the lower ones.
        handle = f"{secrets.randbelow(0x7000) + 0x100:x}:"
        details = {"interface": self.interface, "handle": handle, "namespace": _namespace()}
        self._change = undo.Change.begin(f"network-limit-{run_id}", KIND, details)
        rate, bucket = round(self.rate_bytes_per_s * 8), self.bucket_bytes
        words = [*("qdisc", "add", "dev", self.interface, "root", "handle", handle, "tbf")]
        words += ["rate", f"{rate}bit", "burst", f"{bucket}b", "latency", f"{_LATENCY_MS}ms"]
        done = _run([traffic_control(), *words])
        if done.returncode != 0:
            self.undo()
            raise EnvironmentLacksError(
                f"{self.interface}: the kernel refuses a token bucket: {_last_line(done)}",
                hint="use a kernel with CONFIG_NET_SCH_TBF, as root",
            )

    @property
    def bucket_bytes(self) -> int:
        """Return the size of the bucket."""
        return max(_BUCKET_BYTES_MIN, round(self.rate_bytes_per_s * _BUCKET_S))

    def undo(self) -> None:
        """Take the limit back. Harmless when called twice, or before it was set."""
        if self._change is not None:
            self._change.undo()
            self._change = None


def _undo(details: Mapping[str, str]) -> None:
    """Remove our discipline where it still is; raises OSError where that cannot be done."""
    interface, handle = details["interface"], details["handle"]
    enter: list[str] = []
    if details["namespace"] != _namespace():
        place = _place_of(details["namespace"])
        if place is None:
            # A namespace that nothing holds is gone, with its interfaces.
            return
        enter = ["nsenter", f"--net={place}"]
    present, why = disciplines(interface, enter=enter)
    if why is not None and "Cannot find device" not in why:
        raise OSError(why)
    if not any(each.get("handle") == handle and each.get("root") for each in present):
        return
    done = _run([*enter, traffic_control(), "qdisc", "del", "dev", interface, "root", "handle", handle])
    if done.returncode != 0:
        raise OSError(_last_line(done))


undo.register(KIND, _undo)


def _namespace() -> str:
    return Path("/proc/self/ns/net").readlink().name


def _place_of(namespace: str) -> Path | None:
    """Return a file that stands for a network namespace, None where nothing holds it."""
    wanted = int(namespace.partition("[")[2].rstrip("]"))
    for path in (*Path("/run/netns").glob("*"), *Path("/proc").glob("[0-9]*/ns/net")):
        try:
            if path.stat().st_ino == wanted:
                return path
        except OSError:
            continue
    return None


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
