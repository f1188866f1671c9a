"""Processes that fuzz readers, one on each CPU: a reader that dies or hangs costs the others nothing.

A worker takes its readers one after the other, and writes each input to the reader's folder before it is
read, and counts to ``figures.json`` beside. Who waits for it tells a crash of a library by its signal, a hang
by a folder that no longer changes, and then starts another worker with the readers that are left.
"""

import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from tests.attack.figures import ANSWER_S, MEMORY_BYTES_MAX, ROOT, Figures

from .reader import Reader

ARTIFACTS = ROOT / "fuzz" / "artifacts" / "readers"
DEAF_S = 120.0
"""A worker that has read nothing for so long hangs in a library, where no signal of Python reaches it."""
FEWEST = 3
"""Inputs of a reader, however short the time."""
DONE = "done"
"""A file in a reader's folder, once its time is over."""


class HungError(BaseException):
    """A reader took too long. No Exception, so that no reader takes it for one of its own."""


_interrupted: list[int] = []
"""Signals of the two clocks since the latest reading began."""


def _too_long(number: int, _frame: object) -> None:
    _interrupted.append(number)
    raise HungError


def try_bounded(reader: Reader, folder: Path) -> None:
    """Read once, for at most `ANSWER_S` of CPU time, which neighbours do not lengthen, and `DEAF_S` / 2."""
    _interrupted.clear()
    clocks = (
        (signal.ITIMER_PROF, signal.SIGPROF, ANSWER_S),
        (signal.ITIMER_REAL, signal.SIGALRM, DEAF_S / 2),
    )
    for clock, number, seconds in clocks:
        signal.signal(number, _too_long)
        signal.setitimer(clock, seconds)
    try:
        reader.try_once(folder)
    except Exception:
        if _interrupted:
            # What a library made of it.
            raise HungError from None
        raise
    finally:
        for clock, _, _ in clocks:
            signal.setitimer(clock, 0)


def fuzz_each(readers: Sequence[Reader], folder: Path, seconds: float, seed: int) -> None:
    """Fuzz one reader after the other; the work of a worker."""
    for reader in readers:
        fuzz_one(reader, folder / _folder_name(reader.name), seconds, seed)


def fuzz_one(reader: Reader, folder: Path, seconds: float, seed: int) -> None:
    """Read changed inputs for so long; ``folder`` is the reader's own."""
    chosen = random.Random(f"{seed} {reader.name}")
    valid, case = folder / "valid", folder / "case"
    valid.mkdir(parents=True)
    reader.make(valid)
    shutil.copytree(valid, case)
    contents = {path: path.read_bytes() for path in reader.files(case)}
    kept = _Kept(folder, reader)
    end = time.monotonic() + seconds
    with (folder / "said").open("w", errors="replace") as said, redirect_stdout(said), redirect_stderr(said):
        while time.monotonic() < end or kept.figures.tried < FEWEST:
            path = chosen.choice(list(contents))
            reader.tamper(path, chosen)
            _try(reader, case, path, kept)
            _restore(case, contents)
            said.seek(0)
            said.truncate()
            if kept.figures.tried % 100 == 0:
                kept.save()
    if (bytes_used := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024) > MEMORY_BYTES_MAX:
        kept.figures.note("crashed", f"{reader.name}: {bytes_used >> 20} MiB of memory")
    kept.save()
    (folder / DONE).touch()


class _Kept:
    """What a worker has found; each place in the code once."""

    def __init__(self, folder: Path, reader: Reader) -> None:
        self.folder, self.reader = folder, reader
        self.figures = Figures()
        self.places: set[str] = set()

    def save(self) -> None:
        partial = self.folder / "figures.partial"
        partial.write_text(json.dumps(vars(self.figures)))
        partial.rename(self.folder / "figures.json")

    def note(self, kind: str, error: BaseException, path: Path) -> None:
        """Note where it happened, and keep the input."""
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "/steelyard/" in frame.filename
        ]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside of Steelyard"
        what = f"{type(error).__name__} at {place}"
        if what not in self.places:
            self.places.add(what)
            said = re.sub(r"\s+", " ", str(error))[:100]
            where = keep(self.reader.name, path.parents[len(path.relative_to(self.folder).parts) - 2], kind)
            self.figures.note(kind, f"{self.reader.name}: {what}: {said!a} ({where})")


def _try(reader: Reader, case: Path, path: Path, kept: _Kept) -> None:
    kept.figures.tried += 1
    try:
        try_bounded(reader, case)
    except HungError as error:
        kept.note("hung", error, path)
    except (Exception, RecursionError, MemoryError) as error:
        kept.note("crashed", error, path)


def _restore(case: Path, contents: dict[Path, bytes]) -> None:
    for path, content in contents.items():
        if not path.is_file() or path.stat().st_size != len(content) or path.read_bytes() != content:
            path.write_bytes(content)


def _folder_name(name: str) -> str:
    return name.replace(" ", "-")


def keep(name: str, case: Path, kind: str) -> Path:
    """Copy an input to where git ignores it; return where."""
    content = b"".join(path.read_bytes() for path in sorted(case.rglob("*")) if path.is_file())
    target = ARTIFACTS / _folder_name(name) / f"{kind}-{hashlib.sha256(content).hexdigest()[:12]}"
    shutil.copytree(case, target, dirs_exist_ok=True)
    return target.relative_to(ROOT)


def read_figures(folder: Path) -> Figures:
    """Return what was counted of a reader so far."""
    with suppress(OSError, ValueError):
        return Figures(**json.loads((folder / "figures.json").read_text()))
    return Figures()


def fuzz_all(names: Sequence[str], folder: Path, seconds: float, seed: int) -> Figures:
    """Fuzz the readers of these names; one that ends or deafens its worker is counted, and its input kept."""
    count = len(os.sched_getaffinity(0))
    workers = [
        _Worker(names[at::count], folder / f"{at}", seconds, seed) for at in range(min(count, len(names)))
    ]
    try:
        while any(not worker.is_over() for worker in workers):
            time.sleep(0.05)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
    total = Figures()
    for worker in workers:
        total.add(worker.figures)
    return total


class _Worker:
    """A process and the readers that it has still to try."""

    def __init__(self, names: Sequence[str], folder: Path, seconds: float, seed: int) -> None:
        self.names, self.folder = list(names), folder
        self.options = [str(folder), str(seconds), str(seed)]
        self.figures = Figures()
        self._start()

    def _start(self) -> None:
        self.latest, self.seen = time.monotonic(), 0.0
        command = [sys.executable, "-m", __package__, "--fuzz", *self.options, *self.names]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def is_over(self) -> bool:
        """Take what has been found; start again where a reader has ended the process."""
        code = self.process.poll()
        while self.names and (self.folder / _folder_name(self.names[0]) / DONE).exists():
            self._take(self.names.pop(0))
            self.latest = time.monotonic()
        if not self.names:
            return code is not None
        case = self.folder / _folder_name(self.names[0]) / "case"
        with suppress(OSError, ValueError):
            # Every input is written anew, and its file's time with it.
            seen = max(path.stat().st_mtime for path in case.rglob("*"))
            if seen != self.seen:
                self.seen, self.latest = seen, time.monotonic()
        is_deaf = time.monotonic() - self.latest > DEAF_S
        if code is None and not is_deaf:
            return False
        self.process.kill()
        self.process.wait()
        name = self.names.pop(0)
        kind = "hung" if is_deaf else "crashed"
        where = keep(name, case, kind) if case.is_dir() else "at its start"
        self._take(name)
        self.figures.note(kind, f"{name}: its process ended with {self.process.returncode} ({where})")
        if self.names:
            self._start()
        return not self.names

    def _take(self, name: str) -> None:
        folder = self.folder / _folder_name(name)
        figures = read_figures(folder)
        self.figures.add(figures)
        print(f"  {name}: {figures.tried} inputs", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
