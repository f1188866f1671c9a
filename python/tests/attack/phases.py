"""kill -9 in every phase of every command that runs or changes something: at a call, not at a time.

A command is run once whole, and its functions are listed in the order of their first calls. Then it is run
again and again in a process that kills itself at one of them, evenly spread from the first to the last: five
of each command in the first round, and twice as many in each round after it.

After each death nothing of it may run on (orphaned), no file may be half under its final name, and after the
next start every setting and every row is as before (lost, doubled).
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.conftest import SHORT
from tests.fleet.half_empty import Shape, make
from tests.interrupting import invoke_interrupted, moments_of, spread
from tests.tune.machines import everything, make_machine

from .figures import Figures, executable, judge, run, steelyard
from .kills import MARK, look_for_orphans

FIRST_ROUND = 5
LONGEST_S = 300.0
LONG_S = 300.0
"""An attack from which the first round is whole."""
SHAPE = Shape(samples=20, jobs=2, machines=4, tasks=2)


@dataclass(frozen=True)
class Command:
    """What is killed. ``words`` is made of the folder that it works in."""

    words: Callable[[Path], list[str]]
    prepare: Callable[[Path], object] = lambda folder: None
    restart: Callable[[Path], list[str]] = lambda folder: ["list", "--runs", str(folder / "out")]
    """The next start, which puts things right."""


def _out(*words: str) -> Callable[[Path], list[str]]:
    """Return a command line whose results go to ``out``."""

    def line(folder: Path) -> list[str]:
        at = words.index("--") if "--" in words else len(words)
        return [*words[:at], "--out", str(folder / "out"), *words[at:]]

    return line


def _tune(folder: Path) -> list[str]:
    words = ["tune", "run", "--root", str(folder / "machine"), "--knob", "dirty_ratio=40", "--seed", "1"]
    return _out(*words, "--blocks", "4", "--confirm-blocks", "4", "--", "sleep", "0.01")(folder)


def _compact(folder: Path) -> list[str]:
    return ["fleet", "compact", "--store", str(folder / "store")]


RUN = ("run", "tao", "--tier", "smoke", *(word for text in SHORT for word in ("--set", text)))
LOOK = ("characterize", "--no-counters", "--hz", "0", "--interval", "50ms", "--duration", "300ms")
PAIR = ("colocate", "sleep 0.05", "sleep 0.06", "--repeats", "1", "--duration", "0.2s", "--seed", "1")
COMMANDS: dict[str, Command] = {
    "run": Command(_out(*RUN)),
    "suite": Command(_out("run", "smoke")),
    "health": Command(_out("health", "--quick", "--part", "core_to_core", "--accept")),
    "characterize": Command(_out(*LOOK, "--", "sleep", "30")),
    "experiment": Command(
        _out("experiment", "--a", "sleep 0", "--b", "sleep 0.03", "--blocks", "4", "--seed", "1")
    ),
    "tune": Command(_tune, lambda folder: make_machine(folder / "machine"), lambda _: ["tune", "restore"]),
    "colocate": Command(_out(*PAIR)),
    "compact": Command(_compact, lambda folder: make(folder / "store", SHAPE), _compact),
}


def rows(folder: Path) -> int:
    """Return how many rows a store's tables have, that of a file which a compaction replaced not counted."""
    return sum(pq.read_metadata(path).num_rows for path in (folder / "store").rglob("[!._]*.parquet"))


def half_written(folder: Path) -> list[str]:
    """Return the files that have their final name and not their whole content."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file() or "partial" in path.name or path.name.startswith("."):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".parquet":
                pq.read_metadata(path)
            elif path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
                found.append(path.name)
        except (ValueError, pa.ArrowException):
            found.append(path.name)
    return found


def settled(folder: Path) -> dict[str, str]:
    """Return the settings of the made-up machine; a list of choices becomes the choice where it is set."""
    machine = folder / "machine"
    made = everything(machine) if machine.exists() else {}
    return {name: content.decode(errors="replace").strip() for name, content in made.items()}


def environment_of(folder: Path, mark: str) -> dict[str, str]:
    """Return the environment of a command: its state and its mark are its own."""
    own = {MARK: mark, "XDG_STATE_HOME": str(folder / "state")}
    return {**os.environ, **own, "STEELYARD_BIN_DIR": str(Path(executable("steelyard-exec")).parent)}


def moments(command: Command, folder: Path) -> list[str]:
    """Run a command whole; return its functions in the order of their first calls."""
    folder.mkdir(parents=True)
    command.prepare(folder)
    listed = folder / "moments.json"
    line = [sys.executable, "-m", __name__, "list", str(listed), *command.words(folder)]
    run(line, folder, LONGEST_S, environment_of(folder, "whole"))
    found: list[str] = json.loads(listed.read_text())
    return found


def kill_at(figures: Figures, name: str, moment: str, folder: Path) -> None:
    """Run a command until it kills itself at a moment, look at what is left, and start again."""
    command, mark = COMMANDS[name], uuid.uuid4().hex
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command.prepare(folder)
    before, stored = settled(folder), rows(folder)
    environment = environment_of(folder, mark)
    line = [sys.executable, "-m", __name__, "kill", moment, *command.words(folder)]
    ended = run(line, folder, LONGEST_S, environment)
    what = f"{name} killed in {moment.removeprefix('steelyard.')}"
    if ended.code is None:
        figures.note("hung", f"{name} until {moment}")
    look_for_orphans(figures, mark, what)
    for half in half_written(folder):
        figures.note("lost", f"{half} is half there: {what}")
    restart = run(steelyard(*command.restart(folder)), folder, LONGEST_S, environment)
    judge(figures, restart, f"the next start after {what}")
    if name == "compact":
        left = rows(folder)
        if left != stored:
            figures.note("lost" if left < stored else "doubled", f"{stored} rows became {left}: {what}")
    if settled(folder) != before:
        changed = [key for key, text in settled(folder).items() if before.get(key) != text]
        figures.note("lost", f"{', '.join(changed)} stayed changed: {what}")


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Kill each command at moments that are spread evenly, finer in every round, until the time is over."""
    figures, chosen = Figures(), random.Random(seed)
    known: dict[str, list[str]] = {}
    end, count = time.monotonic() + seconds, FIRST_ROUND
    while True:
        planned = [(at, name) for at in range(count) for name in COMMANDS]
        # The first round is always the same; of a short attack a seed decides what there is time for.
        if count > FIRST_ROUND or seconds < LONG_S:
            chosen.shuffle(planned)
        for at, name in planned:
            if figures.tried and time.monotonic() >= end:
                return figures
            if name not in known:
                known[name] = moments(COMMANDS[name], folder / name / "whole")
            kill_at(figures, name, spread(known[name], count)[at], folder / name / "killed")
        count *= 2


def main(arguments: list[str]) -> None:
    """Be the process that is listed or killed."""
    what, where, *words = arguments
    if what == "list":
        Path(where).write_text(json.dumps(moments_of(words)[1]))
    else:
        invoke_interrupted(where, words, sent=signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
