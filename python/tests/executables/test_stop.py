"""SIGTERM ends every executable within a second, in its running state and in its worst one."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from . import servers
from .rank import SMALL, SMALL_LEAF

# A child that would outlive the test by far.
LONG = ("sleep", "600")
TICK_S = 0.05
ATTEMPTS = 4


class Stage:
    """What a state is made of: a folder, processes, and what is undone at the end."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack

    def start(
        self, name: str, *arguments: object, stdout: int = subprocess.DEVNULL
    ) -> "subprocess.Popen[bytes]":
        command = [str(servers.executable(name)), *map(str, arguments)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.DEVNULL
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def fifo(self, name: str) -> Path:
        """Make a FIFO that nobody writes to."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        return path

    def full_pipe(self) -> int:
        """Return the writing end of a pipe in which there is no more room, and which nobody reads."""
        reader, writer = os.pipe()
        self.stack.callback(os.close, reader)
        self.stack.callback(os.close, writer)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"x")
        os.set_blocking(writer, True)
        return writer

    def hung_peer(self) -> int:
        """Return the port of a server that accepts and never answers."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.stack.callback(listener.close)
        self.stack.callback(listener.shutdown, socket.SHUT_RDWR)
        kept: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    def tree(self, stat: str | None = None) -> Path:
        """Return a root whose proc/stat is a FIFO, or a file with this text."""
        if stat is None:
            self.fifo("root/proc/stat")
        else:
            own = self.folder / "root/proc/1"
            own.mkdir(parents=True)
            for name in ("stat", "status", "statm", "comm", "cmdline"):
                (own / name).write_bytes(Path("/proc/self", name).read_bytes())
            (self.folder / "root/proc/stat").write_text(stat)
            (self.folder / "root/proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1000 kB\n")
        (self.folder / "root/proc/cpuinfo").write_text("")
        (self.folder / "root/sys").mkdir()
        return self.folder / "root"


State = Callable[[Stage], "subprocess.Popen[bytes]"]


def agent(stage: Stage, store: str, more: str = "") -> "subprocess.Popen[bytes]":
    config = stage.folder / "agent.toml"
    config.write_text(f'metrics.listen = ""\n[sampling]\nperiod_s = 1\nwindow_s = 0.1\n{more}')
    folders = ("--spool", stage.folder / "spool", "--store", store, "--create-store")
    return stage.start("steelyard-agent", "run", "--config", config, *folders)


def agent_hung_store(stage: Stage) -> "subprocess.Popen[bytes]":
    names = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu"}
    names["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{stage.hung_peer()}"
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        return agent(stage, "s3://bucket/fleet")
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def agent_fifo(stage: Stage) -> "subprocess.Popen[bytes]":
    stage.fifo("busy.prom")
    more = f'[[telemetry]]\njob = ".*"\nfile = "{stage.folder}/busy.prom"\noperations = "x"\n'
    return agent(stage, str(stage.folder / "store"), more)


def cache(stage: Stage, *arguments: object, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    return stage.start("steelyard-cache", "--listen", "127.0.0.1:0", *arguments, stdout=stdout)


def load(stage: Stage, *arguments: object, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    target = f"127.0.0.1:{stage.hung_peer()}"
    fixed = ("--target", target, "--warmup", "0s", "--keys", 100)
    return stage.start("steelyard-load", *fixed, *arguments, stdout=stdout)


def load_full_stdout(stage: Stage) -> "subprocess.Popen[bytes]":
    arguments = ("--duration", "100ms", "--drain", "0s", "--json", "--progress", "json")
    process = load(stage, *arguments, stdout=stage.full_pipe())
    time.sleep(1)
    return process


def leaf(stage: Stage, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    fixed = ("leaf", "--listen", "127.0.0.1:0", "--no-tls", *SMALL_LEAF)
    return stage.start("steelyard-rank", *fixed, stdout=stdout)


def rank_hung_leaf(stage: Stage) -> "subprocess.Popen[bytes]":
    """Run a root whose leaf accepts and never answers."""
    leaf_address = f"127.0.0.1:{stage.hung_peer()}"
    fixed = ("root", "--listen", "127.0.0.1:0", "--no-tls", "--leaf", leaf_address, *SMALL)
    return stage.start("steelyard-rank", *fixed)


def probe(stage: Stage, *arguments: object, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    return stage.start("steelyard-probe", "record", "--out", stage.folder / "out", *arguments, stdout=stdout)


def stopped_child(stage: Stage, process: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
    """Stop the one child of a process, which must get the signal all the same."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait(lambda: bool(children.read_text().split()))
    child = int(children.read_text().split()[0])
    wait(lambda: "sleep" in Path(f"/proc/{child}/comm").read_text())
    os.kill(child, signal.SIGSTOP)
    wait(lambda: "State:\tT" in Path(f"/proc/{child}/status").read_text())
    return process


def probe_child(stage: Stage) -> "subprocess.Popen[bytes]":
    return stopped_child(stage, probe(stage, "--sources", "memory", "--", *LONG))


def profile_child(stage: Stage) -> "subprocess.Popen[bytes]":
    arguments = ("record", "--output", stage.folder / "out.pb.gz", "--", *LONG)
    return stopped_child(stage, stage.start("steelyard-profile", *arguments))


def exec_child(stage: Stage) -> "subprocess.Popen[bytes]":
    return stopped_child(stage, stage.start("steelyard-exec", "--grace", "600s", "--", *LONG))


def terminal(stage: Stage) -> "subprocess.Popen[bytes]":
    """Run top on a terminal whose other side reads nothing, so that drawing blocks."""
    screen, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
    stage.stack.callback(os.close, screen)
    command = [str(servers.executable("steelyard-top")), "--interval", "100ms", "--no-mix"]
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(command, stdin=program, stdout=program, stderr=program, env=environment)
    os.close(program)
    stage.stack.callback(process.wait)
    stage.stack.callback(process.kill)
    return process


def tax(stage: Stage, *arguments: object, stdout: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    fixed = ("run", "--time", "600s", "--only", "hash", "--cores", "one", "--progress", "none")
    return stage.start("steelyard-tax", *fixed, *arguments, stdout=stdout)


STAT = "cpu  1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nintr 1\nctxt 1\nbtime 1\nprocesses 1\n"


def fifo_later(stage: Stage, name: str, *arguments: object) -> "subprocess.Popen[bytes]":
    """Run what reads a tree again and again, and put a FIFO in the place of a file that it has read."""
    root, said = stage.tree(STAT), stage.folder / "said"
    with said.open("wb") as file:
        process = stage.start(name, *arguments, "--root", root, stdout=file.fileno())
    written = (said, stage.folder / "out" / "memory.arrows")
    wait(lambda: any(path.exists() and path.stat().st_size for path in written) or process.poll() is not None)
    os.replace(stage.fifo("later"), root / "proc/stat")
    # It reads that again in the meantime.
    time.sleep(0.3)
    return process


STATES: dict[str, State] = {
    "agent-running": lambda stage: agent(stage, str(stage.folder / "store")),
    "agent-hung-store": agent_hung_store,
    "agent-fifo": agent_fifo,
    "cache-running": cache,
    "cache-full-stdout": lambda stage: cache(stage, stdout=stage.full_pipe()),
    "cache-fifo-stats": lambda stage: cache(stage, "--stats-out", stage.fifo("stats")),
    "load-hung-peer": lambda stage: load(stage, "--duration", "600s", "--drain", "600s"),
    "load-prefill-of-hung-peer": lambda stage: load(stage, "--prefill=set", "--duration", "600s"),
    "load-full-stdout": load_full_stdout,
    "rank-running": leaf,
    "rank-hung-leaf": rank_hung_leaf,
    "rank-full-stdout": lambda stage: leaf(stage, stage.full_pipe()),
    "tax-running": tax,
    "tax-full-stdout": lambda stage: stage.start("steelyard-tax", "list", stdout=stage.full_pipe()),
    "probe-running": probe,
    "probe-fifo": lambda stage: probe(stage, "--root", stage.tree(), "--sources", "memory,cpu"),
    "probe-fifo-later": lambda stage: fifo_later(
        stage,
        *("steelyard-probe", "record", "--out", stage.folder / "out"),
        *("--sources", "memory,cpu", "--interval", "20ms"),
    ),
    "probe-stopped-child": probe_child,
    "probe-full-stdout": lambda stage: stage.start(
        "steelyard-probe", "sources", "--json", stdout=stage.full_pipe()
    ),
    "profile-running": lambda stage: stage.start(
        "steelyard-profile", "record", "--pid", os.getpid(), "--output", stage.folder / "out.pb.gz"
    ),
    "profile-stopped-child": profile_child,
    "profile-fifo": lambda stage: stage.start("steelyard-profile", "fold", stage.fifo("perf.data")),
    "top-on-a-terminal-that-nobody-reads": terminal,
    "top-full-stdout": lambda stage: stage.start(
        "steelyard-top", "--count", 100, "--json", stdout=stage.full_pipe()
    ),
    "top-fifo": lambda stage: stage.start("steelyard-top", "--once", "--root", stage.tree()),
    "top-fifo-later": lambda stage: fifo_later(
        stage, "steelyard-top", "--json", "--count", 10_000, "--interval", "100ms"
    ),
    "exec-running": lambda stage: stage.start("steelyard-exec", "--grace", "600s", "--", *LONG),
    "exec-stopped-child": exec_child,
}


# No read of a tree waits for a FIFO: one that is there from the start is refused, and nothing is left to end.
REFUSED = {"probe-fifo", "top-fifo"}


def wait(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_ended(process: "subprocess.Popen[bytes]", seconds: int) -> bool:
    """Whether a process ends in so many seconds of waits, each as long as this machine makes it now."""
    for _ in range(round(seconds / TICK_S)):
        if process.poll() is not None:
            return True
        time.sleep(TICK_S)
    return process.poll() is not None


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(folder, stack)


def cpu_ticks(process: "subprocess.Popen[bytes]") -> int:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def settle(process: "subprocess.Popen[bytes]", looks: int = 60) -> None:
    """Let a process come to its state: it has ended, rests, or has worked for some seconds."""
    calm, before = 0, -1
    for _ in range(looks):
        if process.poll() is not None:
            return
        now = cpu_ticks(process)
        calm = calm + 1 if now == before else 0
        before = now
        if calm >= 4:
            return
        time.sleep(TICK_S)


@pytest.mark.parametrize("state", STATES)
def test_sigterm_ends_it_within_a_second(state: str, tmp_path: Path) -> None:
    """Neighbours may make an end late now and then; what needs longer by itself is late each time."""
    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        with staged(folder) as stage:
            process = STATES[state](stage)
            settle(process)
            is_there = process.poll() is None
            assert is_there == (state not in REFUSED), f"{state} ended with {process.returncode}"
            process.terminate()
            if is_ended(process, 1):
                return
            # Kernels were seen that left a thread that could run without a CPU for half a minute.
            assert is_ended(process, 30), f"{state} is still there after half a minute"
    pytest.fail(f"{state} took more than a second, {ATTEMPTS} times")


def test_every_executable_has_its_states() -> None:
    manifests = servers.ROOT / "crates" / "steelyard" / "src" / "bin"
    names = {path.stem.removeprefix("steelyard-") for path in manifests.iterdir()}
    assert names == {state.split("-")[0] for state in STATES}


def test_top_ends_when_its_terminal_is_gone(tmp_path: Path) -> None:
    """A terminal that goes away without a signal, as of a program that is not its session's leader."""
    with staged(tmp_path) as stage:
        screen, program = pty.openpty()
        fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        command = [str(servers.executable("steelyard-top")), "--interval", "100ms", "--no-mix"]
        process = subprocess.Popen(
            command, stdin=program, stdout=program, stderr=program, env={**os.environ, "TERM": "xterm"}
        )
        stage.stack.callback(process.wait)
        stage.stack.callback(process.kill)
        os.close(program)
        seen = b""
        while b"first" not in seen and select.select([screen], [], [], 20)[0]:
            seen += os.read(screen, 4096)
        os.close(screen)
        assert is_ended(process, 5)


def test_an_inherited_mask_keeps_nobody_alive(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            process = stage.start("steelyard-profile", "fold", stage.fifo("perf.data"))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        settle(process)
        process.terminate()
        assert is_ended(process, 2)


def test_a_stopped_recording_is_finished(tmp_path: Path) -> None:
    """The second in which a program must end is not one in which it loses what it has."""
    with staged(tmp_path) as stage:
        process = probe(stage, "--interval", "10ms", "--sources", "memory")
        record = tmp_path / "out" / "telemetry.json"
        wait(lambda: record.exists() and (tmp_path / "out" / "memory.arrows").exists())
        process.terminate()
        assert process.wait(60) == 0
        written = json.loads(record.read_text())
        assert (written["complete"], written["end_reason"]) == (True, "signal")
