"""Telemetry of the hosts that executors are on: ``steelyard-probe`` over ssh, or this run's own.

In: settings that name hosts, a measure phase. Out: figures of each host over the phase, or why there are
none.

A host's clock is its own: the phase is found on it by the wall clocks of both. A probe ends with its ssh,
however that ends, and what it wrote there goes with it. Not here: what executors did (``executors``).
"""

import contextlib
import io
import shlex
import socket
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError
from steelyard.bench.parameters import Parameter, Setting

if TYPE_CHECKING:
    from steelyard.bench.executor import Process
    from steelyard.bench.session import Session
    from steelyard.records import Clock
    from steelyard.telemetry import Recording

FOLDER = "hosts"
"""Of the recordings, in the run's folder."""
_INTERVAL = "100ms"
_SSH_TIMEOUT_S = 30.0
_STOP_S = 30.0
_MOST_BYTES = 1 << 30
_BUSY = ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "steal_ns")
_NOT_BUSY = ("idle_ns", "iowait_ns")

PARAMETERS = (
    Parameter(
        "executor_hosts",
        "text",
        "hosts of executors to record over ssh, separated by spaces: HOST, or HOST=USER@ADDRESS",
        default="",
    ),
    Parameter("ssh", "text", "ssh and its options, for executor_hosts", default="ssh"),
    Parameter("remote_probe", "text", "path of steelyard-probe on those hosts", default="steelyard-probe"),
)


@dataclass(frozen=True, slots=True)
class FarHosts:
    """Hosts that are recorded over ssh: name, as Spark has it, to where ssh finds it."""

    destinations: Mapping[str, str]
    ssh: tuple[str, ...]
    probe: str

    @classmethod
    def of(cls, settings: Mapping[str, Setting]) -> "FarHosts":
        """Return what ``settings`` ask for."""
        words = str(settings["executor_hosts"]).split()
        pairs = [word.partition("=") for word in words]
        return cls(
            {name: address or name for name, _, address in pairs},
            tuple(str(settings["ssh"]).split()),
            str(settings["remote_probe"]),
        )

    def check(self) -> None:
        """Raise UsageError for what is no host, EnvironmentLacksError for one that has no probe."""
        for name, destination in self.destinations.items():
            if not name or destination.startswith("-"):
                raise UsageError(
                    f"executor_hosts={name}={destination}: is no host", hint="HOST, or HOST=USER@ADDRESS"
                )
            if not self.ssh:
                raise UsageError("ssh is empty", hint="name it with its options: --set ssh='ssh -p 2222'")
            command = self._command(destination, f"{shlex.quote(self.probe)} --version")
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=False, timeout=_SSH_TIMEOUT_S
                )
            except OSError as error:
                raise EnvironmentLacksError(f"host {name}: {command[0]}: {error.strerror}") from error
            except subprocess.TimeoutExpired as error:
                raise EnvironmentLacksError(f"host {name}: no answer in {_SSH_TIMEOUT_S:.0f} s") from error
            if done.returncode:
                lines = done.stderr.strip().splitlines()
                raise EnvironmentLacksError(
                    f"host {name}: {lines[-1] if lines else f'ssh ended with {done.returncode}'}",
                    hint="it needs a login without a password, and steelyard-probe: --set remote_probe=PATH",
                )

    def _command(self, destination: str, script: str) -> list[str]:
        options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-T")
        return [*self.ssh, *options, destination, "--", script]

    def start(self, session: "Session") -> "dict[str, tuple[Process, Path]]":
        """Begin to record; return the process of each host, and the file that its recording comes to."""
        started = {}
        for number, (name, destination) in enumerate(self.destinations.items(), 1):
            (session.directory / FOLDER).mkdir(exist_ok=True)
            archive = session.directory / FOLDER / f"{number}.tar"
            # The end of the input, with a line or without, ends the recording.
            script = (
                "d=$(mktemp -d) && trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP TERM INT PIPE;"
                f' {shlex.quote(self.probe)} record --interval {_INTERVAL} --out "$d/telemetry" >&2 & p=$!;'
                ' read -r _; kill -TERM $p; wait $p; tar -C "$d/telemetry" -cf - .'
            )
            command = ["sh", "-c", 'file=$1; shift; exec "$@" >"$file"', "sh", str(archive)]
            process = session.start_process(
                f"telemetry-{number}",
                [*command, *self._command(destination, script)],
                cpus=None,
                is_aside=True,
            )
            # A host without telemetry is reported; the result stands.
            session.expect_end(process)
            started[name] = (process, archive)
        return started


def stop(started: "Mapping[str, tuple[Process, Path]]", session: "Session") -> dict[str, Path | str]:
    """End the recordings; return the folder of each host's, or why there is none."""
    found: dict[str, Path | str] = {}
    for process, _ in started.values():
        with contextlib.suppress(OSError, SteelyardError):
            process.write("end\n")
    for name, (process, archive) in started.items():
        try:
            session.join(process, _STOP_S, what=f"the telemetry of {name}")
            found[name] = _unpacked(archive)
        except (SteelyardError, OSError, tarfile.TarError) as error:
            found[name] = f"{process.last_line() or error}"
        archive.unlink(missing_ok=True)
    return found


def _unpacked(archive: Path) -> Path:
    """Return the folder with the files of a recording; those of another host are not trusted."""
    folder = archive.with_suffix("")
    folder.mkdir()
    left = _MOST_BYTES
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        for member in packed:
            name = Path(member.name).name
            source = packed.extractfile(member) if member.isfile() else None
            if source is not None and name and member.size <= left:
                left -= member.size
                (folder / name).write_bytes(source.read())
    return folder


def is_here(host: str) -> bool:
    """Return whether a host, as Spark names it, is this machine.

    >>> is_here("127.0.0.2"), is_here("10.255.255.1")
    (True, False)
    """
    return host.startswith("127.") or host in ("localhost", "::1", socket.gethostname(), "driver")


def telemetry_of(
    host: str, found: Mapping[str, Path | str], run: Path, span: tuple[int, int], clock: "Clock"
) -> dict[str, float | None] | str:
    """Return what ``host`` did over ``span``, or why that is not known.

    ``found`` is what `stop` returned; ``clock`` this machine's two, read at one moment. A host that is this
    machine and was not named has the telemetry of the ``run``.
    """
    from steelyard import telemetry

    folder = found.get(host, run if is_here(host) else f"--set executor_hosts={host} records it over ssh")
    if isinstance(folder, str):
        return folder
    try:
        with telemetry.open(folder) as recording:
            theirs = recording.metadata.clock
            # 0 for this machine's own but for what reading two clocks takes.
            moved = (clock.realtime_ns - clock.monotonic_ns) - (theirs.realtime_ns - theirs.monotonic_ns)
            moved = 0 if folder == run else moved
            return _figures(recording, (span[0] + moved, span[1] + moved))
    except SteelyardError as error:
        return error.message


def _figures(recording: "Recording", span: tuple[int, int]) -> dict[str, float | None]:
    cpu = recording.rates("cpu", *span, [*_BUSY, *_NOT_BUSY])
    busy, idle = (_sum(cpu.total(name) for name in names) for names in (_BUSY, _NOT_BUSY))
    memory = recording.rates("memory", *span, ["available_bytes"]).only()
    disk = recording.rates("disk", *span, ["read_bytes", "written_bytes"])
    network = recording.rates("network", *span, ["received_bytes", "sent_bytes"])
    # A partition's operations are its disk's too.
    whole = [each for each in disk.entities if not _is_part(str(each.entity["device"]), disk.entities)]
    outside = [each for each in network.entities if each.entity["interface"] != "lo"]
    return {
        "cpu_ratio": None if busy is None or idle is None or not busy + idle else busy / (busy + idle),
        "least_available_bytes": None if memory is None else memory.gauges["available_bytes"].low,
        "disk_read_bytes_per_s": disk.total("read_bytes", whole),
        "disk_written_bytes_per_s": disk.total("written_bytes", whole),
        "network_received_bytes_per_s": network.total("received_bytes", outside),
        "network_sent_bytes_per_s": network.total("sent_bytes", outside),
    }


def _is_part(device: str, entities: Iterable[Any]) -> bool:
    names = {str(each.entity["device"]) for each in entities}
    shorter = device.rstrip("0123456789")
    return device != shorter and (shorter in names or shorter.removesuffix("p") in names)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
