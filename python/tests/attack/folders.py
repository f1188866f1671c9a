"""Run folders and stores that somebody has tampered with: each command answers or refuses in a line."""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from steelyard._base import schemas_dir
from tests.fleet.test_half_empty import QUERIES

from .figures import ANSWER_S, Figures, judge, run, steelyard

# Values that no writer of records means.
ODD = [
    None,
    -1,
    1e308,
    float("nan"),
    "",
    "\x1b[2J<script>",
    "x" * 100_000,
    [],
    {},
    [[]],
    True,
    "../../etc/passwd",
    2**70,
]


def truncate(path: Path, chosen: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chosen.randrange(len(content) + 1)])


def flip(path: Path, chosen: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(min(len(content), 1 + chosen.randrange(20))):
        content[chosen.randrange(len(content))] = chosen.randrange(256)
    path.write_bytes(bytes(content))


def nest(path: Path, chosen: random.Random) -> None:
    path.write_text("[" * 200_000)


def fifo(path: Path, chosen: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path, chosen: random.Random) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def loop(path: Path, chosen: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def sparse(path: Path, chosen: random.Random) -> None:
    os.truncate(path, 20 << 30)


def folder_instead(path: Path, chosen: random.Random) -> None:
    path.unlink()
    path.mkdir()


def odd_field(path: Path, chosen: random.Random) -> None:
    """Put an odd value at a random place of a record; what is no JSON is flipped."""
    try:
        document = json.loads(path.read_text())
    except ValueError:
        flip(path, chosen)
        return
    at = document
    while isinstance(at, dict | list) and at:
        key = chosen.choice(list(at)) if isinstance(at, dict) else chosen.randrange(len(at))
        if chosen.random() < 0.4 or not isinstance(at[key], dict | list) or not at[key]:
            at[key] = chosen.choice(ODD)
            break
        at = at[key]
    path.write_text(json.dumps(document))


MUTATIONS: list[Callable[[Path, random.Random], None]] = [truncate, flip, nest, fifo, endless, loop, sparse]
MUTATIONS += [folder_instead, odd_field, odd_field, odd_field]


def tampered(original: Path, copy: Path, chosen: random.Random) -> str:
    """Make a copy in which one to three files are tampered with; returns which and how.

    No file twice: the second mutation would have to read what the first one made.
    """
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy, symlinks=True)
    files = [path for path in sorted(copy.rglob("*")) if path.is_file() and not path.is_symlink()]
    done = []
    for path in chosen.sample(files, min(len(files), 1 + chosen.randrange(3))):
        mutation = chosen.choice(MUTATIONS)
        mutation(path, chosen)
        done.append(f"{mutation.__name__} {path.relative_to(copy)}")
    return ", ".join(done)


def prepare(folder: Path) -> dict[str, Path]:
    """Make a folder of each kind to tamper with; their names are their kinds."""
    runs, store = folder / "runs", folder / "store"
    _make(folder, "characterize", "--duration", "1s", "--out", runs, "--", "sleep", "5")
    simulated = ["--machines", 3, "--jobs", 12, "--days", 1, "--step-s", 600]
    _make(folder, "fleet", "simulate", "--store", store, *simulated)
    arms = ["--a", "sleep 0", "--b", "sleep 0.01", "--blocks", 4, "--seed", 1]
    _make(folder, "experiment", *arms, "--out", folder / "tried")
    found = {"store": store, "run": _only(runs), "experiment": _only(folder / "tried")}
    # As if it had been stopped: it can be resumed.
    record = json.loads((found["experiment"] / "experiment.json").read_text())
    record |= {"status": "incomplete", "status_reason": "stopped", "trials": record["trials"][:2]}
    (found["experiment"] / "experiment.json").write_text(json.dumps(record))
    for kind in ("tuning", "colocation"):
        found[kind] = folder / kind
        found[kind].mkdir()
        shutil.copy(schemas_dir() / "golden" / f"{kind}.json", found[kind])
    return found


def _make(folder: Path, *words: object) -> None:
    """Run a command; its answer may be no."""
    done = subprocess.run(steelyard(*words), capture_output=True, timeout=300, check=False, cwd=folder)
    assert done.returncode in (0, 1), done.stderr.decode(errors="replace")


def _only(folder: Path) -> Path:
    return next(path for path in sorted(folder.iterdir()) if path.is_dir())


STORE_COMMANDS = (["check"], *QUERIES.values())


def questions(kind: str, copy: Path, original: Path) -> list[list[object]]:
    """Return the commands that read a folder of this kind."""
    listed: list[object] = ["list", "--all", "--runs", copy.parent]
    if kind == "run":
        return [["report", copy], ["compare", copy, original], listed]
    if kind == "experiment":
        return [["experiment", copy], ["experiment", "--resume", copy], ["scale", copy], listed]
    if kind == "tuning":
        return [["tune", "show", copy], listed]
    if kind == "colocation":
        return [["report", copy], listed]
    return [["fleet", *words, "--store", copy] for words in STORE_COMMANDS]


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Tamper and ask until the time is over; limits are relative to what a command takes on what is whole."""
    figures, chosen = Figures(), random.Random(seed)
    originals = prepare(folder)
    end, number = time.monotonic() + seconds, 0
    limits: dict[str, float] = {}
    while time.monotonic() < end or number < len(originals):
        kind, original = list(originals.items())[number % len(originals)]
        copy = folder / "copies" / kind / original.name
        words = chosen.choice(questions(kind, copy, original))
        name = " ".join(map(str, words))
        if name not in limits:
            # What is whole first: a busy machine is no hang.
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(original, copy, symlinks=True)
            begin = time.monotonic()
            run(steelyard(*words), folder, 300)
            limits[name] = ANSWER_S + 5 * (time.monotonic() - begin)
        what = tampered(original, copy, chosen)
        judge(figures, run(steelyard(*words), folder, limits[name]), f"{name} ({what}; seed {seed})")
        number += 1
    return figures
