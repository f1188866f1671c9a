"""Real runs in their own process, as short as they can be, and a search for what they leave behind."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import SteelyardError, executable
from steelyard.bench import runs
from steelyard.bench.stack.recipe import MARK as INSTALLED
from steelyard.bench.stack.recipe import payload_dir
from steelyard.records import Run

MARK = "STEELYARD_TEST_MARK"
LONG_WARMUP = ("warmup_min=20", "warmup_max=20")
"""For who ends a run in its warm-up: longer than any host stalls."""
BUSY = "rate=0"
"""A load that sends as fast as it is answered."""
SHORT = (
    *("memory=8MiB", "warmup_min=0.5", "warmup_max=0.5", "window=0.1", "measure=1"),
    *("connections=4", "rate=1000"),
)
"""The load leaves most of its CPUs to whatever runs beside the test."""


def marked(mark: str) -> dict[int, str]:
    """Return the processes whose environment holds ``mark``: id -> command line."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if wanted in environment and state not in ("Z", "X"):
            found[int(folder.name)] = command
    return found


def until(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    """Return the first true value of ``condition``; fail after ``timeout_s``."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"did not come true within {timeout_s} s")


@dataclass
class Live:
    """A `steelyard run` under way."""

    process: "subprocess.Popen[str]"
    out: Path
    mark: str
    until = staticmethod(until)
    _said: tuple[str, str] | None = None

    @property
    def directory(self) -> Path:
        """The directory of its only run."""
        return next(path.parent for path in self.out.glob("*/run.json"))

    def raw(self) -> dict[str, Any]:
        """The manifest as it stands, {} before there is one."""
        for path in self.out.glob("*/run.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {}

    def run(self) -> Run:
        """The manifest as readers see it."""
        return runs.load(self.directory)

    def in_phase(self, name: str) -> bool:
        """Whether the run has reached phase ``name`` and not left it."""
        phases = self.raw().get("phases", [])
        return bool(phases) and phases[-1]["name"] == name and phases[-1]["end_ns"] is None

    def pid_of(self, name: str) -> int | None:
        """The process that does the work of ``name``: the child of its supervisor."""
        for process in self.raw().get("processes", []):
            if process["name"] == name:
                pid = process["pid"]
                try:
                    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                except OSError:
                    return None
                return int(children[0]) if children else None
        return None

    def finish(self, timeout_s: float = 90.0) -> tuple[int, str, str]:
        """Wait for its end: exit code, standard output, standard error."""
        if self._said is None:
            self._said = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, *self._said

    def complaint(self) -> str:
        """The one line on standard error that is no progress."""
        _, _, stderr = self.finish()
        lines = [line for line in stderr.splitlines() if line.startswith("steelyard: ")]
        assert "Traceback" not in stderr
        assert len(lines) == 1, stderr
        return lines[0]

    def left(self) -> dict[int, str]:
        """Processes of the run that still live."""
        return {pid: command for pid, command in marked(self.mark).items() if pid != self.process.pid}

    def unpacks_elsewhere(self) -> list[str]:
        """Processes of Java of the run that live and would leave files outside its directory when killed."""
        programs = [command for command in self.left().values() if command.split(" ")[0].endswith("/java")]
        assert programs
        own = f"-Djava.io.tmpdir={self.directory.absolute()}/"
        return [command for command in programs if own not in command]


@dataclass
class Runner:
    """Starts runs in ``out``."""

    out: Path
    state: Path
    lives: list[Live] = field(default_factory=list)

    def start(
        self,
        *arguments: str,
        settings: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
        python_path: Path | None = None,
        bin_dir: Path | None = None,
        benchmark: str = "tao",
    ) -> Live:
        """Start `steelyard run tao` with the shortest settings, then ``settings``, then ``arguments``.

        Another ``benchmark`` gets no settings but those.

        ``bin_dir`` holds the data plane's executables, by default those beside this Python.
        """
        short = SHORT if benchmark == "tao" else ()
        chosen = dict(text.split("=", 1) for text in (*short, *settings))
        command = [
            *prefix,
            sys.executable,
            "-m",
            "steelyard.cli.main",
            "run",
            benchmark,
            "--tier",
            "smoke",
            "--json",
        ]
        for name, value in chosen.items():
            command += ["--set", f"{name}={value}"]
        if "--out" not in arguments:
            command += ["--out", str(self.out)]
        mark = uuid.uuid4().hex
        package = str(Path(runs.__file__).parents[2])
        search = os.pathsep.join([package, *([str(python_path)] if python_path else [])])
        environment = {**os.environ, MARK: mark, "PYTHONPATH": search, "XDG_STATE_HOME": str(self.state)}
        if bin_dir is not None:
            environment["STEELYARD_BIN_DIR"] = str(bin_dir)
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        live = Live(process, self.out, mark)
        self.lives.append(live)
        return live


def linked_stacks(folder: Path, *payloads: str) -> Path:
    """Return a folder of stacks of a test's own: installed payloads are in it, prepared data are not."""
    stacks = folder / "stacks"
    stacks.mkdir()
    for payload in payloads:
        installed = payload_dir(payload)
        if not (installed / INSTALLED).is_file():
            pytest.fail(f"the files of {payload} are not installed: scripts/install-test-packages --slow")
        (stacks / payload).symlink_to(installed)
    return stacks


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A runner whose runs are ended, and checked for orphans, when the test is over."""
    try:
        for name in ("steelyard-exec", "steelyard-cache", "steelyard-load", "steelyard-probe"):
            executable(name)
    except SteelyardError as error:
        pytest.fail(f"{error.message}: {error.hint}")
    made = Runner(tmp_path / "runs", tmp_path / "state")
    yield made
    for live in made.lives:
        if live.process.poll() is None:
            live.process.send_signal(signal.SIGKILL)
        live.finish()
        until(lambda live=live: not live.left())
