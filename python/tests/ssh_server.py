"""An sshd of our own: on the loopback address, or in a network namespace that a veth pair leads to."""

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SSHD = Path("/usr/sbin/sshd")


@dataclass(frozen=True)
class SshServer:
    """A host that can be reached by ``ssh`` (a command with options)."""

    address: str
    here: str
    """The address of this side, as the host sees it."""
    ssh: str


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@contextlib.contextmanager
def _namespace(name: str, here: str, there: str) -> Iterator[None]:
    """Make a namespace ``name`` with address ``there``, and ``here`` on this side; it goes with its veth."""
    _ip("netns", "add", name)
    try:
        _ip("link", "add", f"v{name}", "type", "veth", "peer", "name", "far", "netns", name)
        _ip("address", "add", f"{here}/30", "dev", f"v{name}")
        _ip("link", "set", f"v{name}", "up")
        _ip("-n", name, "address", "add", f"{there}/30", "dev", "far")
        _ip("-n", name, "link", "set", "far", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, timeout=20)
        subprocess.run(["ip", "link", "del", f"v{name}"], check=False, timeout=20, capture_output=True)


@contextlib.contextmanager
def serving(folder: Path, *, namespace: bool = False) -> Iterator[SshServer]:
    """Run an sshd; skips the test where there is none, or without the right to make namespaces."""
    if not SSHD.exists() or os.geteuid() != 0:
        pytest.skip("sshd needs to be installed and run by root")
    with contextlib.ExitStack() as ending:
        name, here, there = f"sy{os.getpid()}", "127.0.0.1", "127.0.0.1"
        within: list[str] = []
        if namespace:
            third = os.getpid() % 250 + 1
            here, there = f"10.214.{third}.1", f"10.214.{third}.2"
            try:
                ending.enter_context(_namespace(name, here, there))
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"network namespaces cannot be made here: {error}")
            within = ["ip", "netns", "exec", name]
        yield ending.enter_context(_sshd(folder, within, here, there))


@contextlib.contextmanager
def _sshd(folder: Path, within: list[str], here: str, there: str) -> Iterator[SshServer]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for key in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(command, check=True, timeout=20)
    port = 20_000 + os.getpid() % 10_000
    (folder / "sshd_config").write_text(
        f"ListenAddress {there}:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\nPidFile none\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("w") as log:
        sshd = subprocess.Popen(
            [*within, str(SSHD), "-D", "-e", "-f", str(folder / "sshd_config")], stderr=log
        )
    try:
        until = time.monotonic() + 20
        while "Server listening" not in (said := (folder / "sshd.log").read_text()):
            assert time.monotonic() < until, said
            time.sleep(0.02)
        yield SshServer(
            there,
            here,
            f"ssh -F /dev/null -p {port} -i {folder}/user -o UserKnownHostsFile={folder}/known"
            " -o StrictHostKeyChecking=accept-new -o IdentitiesOnly=yes -o LogLevel=ERROR",
        )
    finally:
        sshd.terminate()
        sshd.wait(10)
