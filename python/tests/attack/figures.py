"""What an attack counts, and how it runs what it attacks."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MEMORY_BYTES_MAX = 2 << 30
ANSWER_S = 10.0
CRASHES = (b"Traceback (most recent call last)", b"internal error", b"panicked at")


@dataclass
class Figures:
    """Counts of one part; ``notes`` say what happened, so that it can be done again."""

    tried: int = 0
    crashed: int = 0
    hung: int = 0
    orphaned: int = 0
    lost: int = 0
    doubled: int = 0
    leaked: int = 0
    notes: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the counts by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "notes"}

    def has_failed(self) -> bool:
        """Return whether anything but ``tried`` was counted."""
        return any(count for name, count in self.counts().items() if name != "tried")

    def note(self, kind: str, text: str, count: int = 1) -> None:
        """Count ``count`` of a kind, with what happened."""
        setattr(self, kind, getattr(self, kind) + count)
        self.notes.append(f"{kind}: {text}")

    def add(self, other: "Figures") -> None:
        """Add the counts and notes of ``other``."""
        for name, count in other.counts().items():
            setattr(self, name, getattr(self, name) + count)
        self.notes += other.notes


@dataclass
class Ended:
    """How a command ended; ``code`` is None where it had to be killed."""

    code: int | None
    output: bytes
    rss_bytes: int


def executable(name: str) -> str:
    """Return the path of one of the data plane's executables."""
    folders = [
        os.environ.get("STEELYARD_BIN_DIR", ""),
        Path(sys.executable).parent,
        ROOT / "target" / "release",
    ]
    for folder in folders:
        if folder and (Path(folder) / name).exists():
            return str(Path(folder) / name)
    raise SystemExit(f"attack: {name} is not built: run `make build`")


def steelyard(*arguments: object) -> list[str]:
    """Return the command line of the control plane, of this checkout."""
    start = "from steelyard.cli.start import main; main()"
    return [sys.executable, "-c", start, *map(str, arguments)]


def run(command: list[str], folder: Path, timeout_s: float, env: dict[str, str] | None = None) -> Ended:
    """Run a command to its end, or kill it and its group after ``timeout_s``."""
    log = folder / "output.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env=env,
            cwd=folder,
        )
        end, code, rss = time.monotonic() + timeout_s, None, 0
        while code is None and time.monotonic() < end:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                code, rss = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
                process.returncode = code
            else:
                time.sleep(0.02)
        if code is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ended(code, log.read_bytes(), rss)


def judge(figures: Figures, ended: Ended, what: str) -> None:
    """Count what a command did that none may do."""
    figures.tried += 1
    if ended.code is None:
        figures.note("hung", what)
    elif any(sign in ended.output for sign in CRASHES) or ended.code < 0:
        lines = [line for line in ended.output.decode(errors="replace").splitlines() if line.strip()]
        figures.note("crashed", f"{what}: {ended.code}: {lines[-1] if lines else ''}")
    elif ended.rss_bytes > MEMORY_BYTES_MAX:
        figures.note("crashed", f"{what}: {ended.rss_bytes >> 20} MiB of memory")
