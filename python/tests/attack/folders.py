"""Run folders and stores that somebody has tampered with: each command answers or refuses in a line."""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

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
    """Make a copy in which one to three files are tampered with; returns which and how."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy, symlinks=True)
    done = []
    for _ in range(1 + chosen.randrange(3)):
        files = [path for path in sorted(copy.rglob("*")) if path.is_file() and not path.is_symlink()]
        if files:
            path, mutation = chosen.choice(files), chosen.choice(MUTATIONS)
            mutation(path, chosen)
            done.append(f"{mutation.__name__} {path.relative_to(copy)}")
    return ", ".join(done)


def prepare(folder: Path) -> tuple[Path, Path]:
    """Make a run and a store to tamper with."""
    runs, store = folder / "runs", folder / "store"
    made = steelyard("characterize", "--duration", "1s", "--out", runs, "--", "sleep", "5")
    subprocess.run(made, capture_output=True, timeout=300, check=False, cwd=folder)
    simulated = ["--machines", 3, "--jobs", 12, "--days", 1, "--step-s", 600]
    command = steelyard("fleet", "simulate", "--store", store, *simulated)
    subprocess.run(command, capture_output=True, timeout=300, check=True, cwd=folder)
    return next(path for path in runs.iterdir() if path.is_dir()), store


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Tamper and ask until the time is over; limits are relative to what a command takes on what is whole."""
    figures, chosen = Figures(), random.Random(seed)
    original, store = prepare(folder)
    copy = folder / "copies" / original.name
    copied_store = folder / "copied-store"
    of_run = [("report", copy), ("list", "--all", "--runs", copy.parent)]
    of_store = [
        ("fleet", "check"),
        ("fleet", "cpi", "specs"),
        ("fleet", "top"),
        ("fleet", "numa"),
        ("fleet", "rue"),
    ]
    end, number = time.monotonic() + seconds, 0
    limits: dict[tuple[object, ...], float] = {}

    def ask(words: tuple[object, ...], whole: Path, tampered_with: Path, what: str) -> None:
        more = ("--store", tampered_with) if words in of_store else ()
        if words not in limits:
            # What is whole first: a busy machine is no hang.
            begin = time.monotonic()
            run(steelyard(*words, *(("--store", whole) if more else ())), folder, 300)
            limits[words] = ANSWER_S + 5 * (time.monotonic() - begin)
        ended = run(steelyard(*words, *more), folder, limits[words])
        judge(figures, ended, f"{' '.join(map(str, words))} ({what}; seed {seed})")

    shutil.copytree(original, copy, symlinks=True)
    while time.monotonic() < end or number < 2:
        if number % 2 == 0:
            what = tampered(original, copy, chosen)
            for words in of_run:
                ask(words, original, copy, what)
        else:
            what = tampered(store, copied_store, chosen)
            ask(chosen.choice(of_store), store, copied_store, what)
        number += 1
    return figures
