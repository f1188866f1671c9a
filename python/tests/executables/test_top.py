"""``steelyard-top`` as a user has it: on a terminal with keys, in a pipe, and without root."""

import codecs
import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.records.io import parse
from steelyard.records.top import Top

from .servers import executable

TOP = str(executable("steelyard-top"))
ENTER, LEAVE, SHOW = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
PATIENCE_S = 60.0


class Screen:
    """What a terminal shows: cells, as moves of the cursor and text fill them. Colours are passed over."""

    def __init__(self, columns: int, lines: int) -> None:
        self.cells = [[" "] * columns for _ in range(lines)]
        self.row = self.column = 0
        self.rest = ""
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, said: bytes) -> None:
        self.rest += self.decode(said)
        while self.rest:
            if self.rest[0] != "\x1b":
                self.put(self.rest[0])
                self.rest = self.rest[1:]
                continue
            sequence = re.match(r"\x1b\[([?0-9;]*)([A-Za-z])", self.rest)
            if sequence is None:
                # Not whole yet.
                return
            self.rest = self.rest[sequence.end() :]
            self.obey(sequence[1], sequence[2])

    def put(self, letter: str) -> None:
        if letter >= " " and self.row < len(self.cells) and self.column < len(self.cells[0]):
            self.cells[self.row][self.column] = letter
            self.column += 1

    def obey(self, numbers: str, letter: str) -> None:
        if letter == "H":
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "J":
            self.cells = [[" "] * len(line) for line in self.cells]

    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.cells)


class Terminal:
    """A pseudo-terminal with a program on it."""

    def __init__(self, *arguments: str, columns: int = 80, lines: int = 24, **environment: str) -> None:
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        self.said = b""
        self.screen = Screen(columns, lines)
        self.process = subprocess.Popen(
            [TOP, *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            env={**plain, "TERM": "xterm-256color", **environment},
        )

    def read(self) -> bool:
        """Take what the program has written; False when nothing came for a while."""
        ready, _, _ = select.select([self.master], [], [], 0.1)
        if not ready:
            return False
        try:
            said = os.read(self.master, 1 << 16)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.said += said
        self.screen.feed(said)
        return True

    def until(self, *texts: str) -> None:
        """Wait until all of these are on the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(text in self.screen.text() for text in texts):
            assert time.monotonic() < deadline, f"{texts} in\n{self.screen.text()}"
            came = self.read()
            assert came or self.process.poll() is None, self.said[-3000:]

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Wait for the program's end, and return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < deadline, "it does not end"
        while self.read():
            pass
        return self.process.returncode

    def is_given_back(self) -> bool:
        """Whether lines, echo, the screen and the cursor are as they were."""
        return (
            termios.tcgetattr(self.slave) == self.before
            and LEAVE in self.said
            and self.said.rfind(SHOW) >= self.said.rfind(LEAVE)
        )


@contextlib.contextmanager
def terminal(*arguments: str, **settings: Any) -> Iterator[Terminal]:
    opened = Terminal(*arguments, **settings)
    try:
        yield opened
    finally:
        if opened.process.poll() is None:
            opened.process.kill()
            opened.process.wait()
        os.close(opened.master)
        os.close(opened.slave)


@contextlib.contextmanager
def busy() -> Iterator[int]:
    """Run a process that uses a CPU, and return its id."""
    program = "while True: pass  # a name that may be looked for: steelyard_busy"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def once(*arguments: str, prefix: tuple[str, ...] = (), program: str = TOP) -> dict[str, Any]:
    command = [*prefix, program, "--once", "--json", "--interval", "500ms", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document: dict[str, Any] = json.loads(done.stdout)
    record = parse(Top, done.stdout, where="top")
    # The schema knows every key: what it does not know, it leaves out of what it reads.
    assert set(document) == set(record.model_dump(exclude_unset=True))
    for row, read in zip(document["rows"], record.rows, strict=True):
        assert row == read.model_dump(exclude_unset=True)
    return document


def test_keys_steer_it_and_q_leaves_the_terminal_as_it_was() -> None:
    with busy() as pid, terminal("--interval", "250ms", columns=120) as screen:
        screen.until("steelyard top", "COMMAND", "top itself", "▼CPU")
        assert ENTER in screen.said
        screen.press("w")
        screen.until("▼WAIT%")
        screen.press("h")
        screen.until("Help", "this help")
        screen.press("\x1b")
        screen.until("COMMAND")
        screen.press("/steelyard_busy\r")
        screen.until("filter: steelyard_busy", str(pid), " -c ")
        screen.press("\r")
        screen.until(str(pid), "state", "running or waiting")
        screen.press("q")
        assert screen.end() == 0
        assert screen.is_given_back()


def test_colours_where_they_are_wanted() -> None:
    with terminal("--interval", "250ms") as coloured, terminal(NO_COLOR="1") as plain:
        for screen in (coloured, plain):
            screen.until("NUMA", "top itself")
            screen.press("q")
            assert screen.end() == 0
        assert b"\x1b[38;5;6" in coloured.said
        assert b"\x1b[38;" not in plain.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(number: signal.Signals) -> None:
    with terminal("--interval", "10s") as screen:
        screen.until("COMMAND")
        screen.process.send_signal(number)
        assert screen.end() == 0
        assert screen.is_given_back()


def test_a_pipe_gets_a_table_without_escape_codes() -> None:
    with busy() as pid:
        # Beside other work it need not be among the busiest.
        command = [TOP, "--interval", "500ms", "--pid", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    headings = next(line for line in lines if "COMMAND" in line).split()
    assert headings[:2] == ["PID", "CPU"]
    assert any(line.split()[0] == str(pid) for line in lines if line.strip())


def test_cpu_time_is_what_the_kernel_counted() -> None:
    tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def used_s(pid: int) -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * tick_s

    with busy() as pid:
        before_s, begin = used_s(pid), time.monotonic()
        document = once("--pid", str(pid), "--no-mix")
        after_s, seconds = used_s(pid), time.monotonic() - begin
    (row,) = document["rows"]
    shown_s = row["used_cpus"] * document["interval_s"]
    assert 0 < shown_s <= after_s - before_s + tick_s
    assert document["interval_s"] <= seconds
    assert row["user_cpus"] + row["system_cpus"] == pytest.approx(row["used_cpus"])


def test_every_null_has_its_reason_and_rows_are_of_what_was_asked_for() -> None:
    for by in ("process", "thread", "cgroup"):
        document = once("--by", by, "--sort", "rss")
        assert document["by"] == by
        assert document["rows"]
        for row in document["rows"]:
            nulls = {key for key, value in row.items() if value is None} & (set(row) - {"command", "user"})
            nulls -= {"uid", "cgroup", "state"}
            assert nulls == set(row["missing"]), row
            assert ("tid" in row) == (by == "thread")


def test_without_root_what_is_missing_has_a_reason(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become somebody else, by setpriv")
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    program = shutil.copy(TOP, tmp_path / "steelyard-top")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
    document = once(prefix=nobody, program=str(program))
    rows = {row["pid"]: row for row in document["rows"]}
    init = rows[1]
    assert init["used_cpus"] is not None, "CPU time is everybody's to see"
    assert init["read_bytes_per_s"] is None
    assert "run as root" in init["missing"]["read_bytes_per_s"]
    assert any("I/O of" in note for note in document["notes"])
    own = [row for row in document["rows"] if row["uid"] == 65534 and row["name"] == "steelyard-top"]
    assert own[0]["read_bytes_per_s"] is not None, "its own may be seen"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--sort", "hats"], 2, "hats is none of cpu, ipc"),
        (["--interval", "1ms"], 2, "not between 100ms and 1h"),
        (["--pid", "4194304"], 2, "process 4194304 does not exist"),
        (["--once", "--count", "2"], 2, "cannot be used with"),
        (["--root", "/nosuch", "--once"], 3, "has no processes"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(arguments: list[str], code: int, message: str) -> None:
    done = subprocess.run([TOP, *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_steelyard_top_is_the_same_program() -> None:
    command = [
        sys.executable,
        "-m",
        "steelyard.cli.main",
        "top",
        "--once",
        "--rows",
        "1",
        "--interval",
        "100ms",
    ]
    environment = {**os.environ, "STEELYARD_BIN_DIR": str(Path(TOP).parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    assert done.returncode == 0, done.stderr
    assert "COMMAND" in done.stdout
    wrong = subprocess.run(
        [*command, "--sort", "hats"], capture_output=True, text=True, timeout=PATIENCE_S, env=environment
    )
    assert wrong.returncode == 2
