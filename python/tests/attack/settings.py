"""Journals that somebody has tampered with, and knobs whose tuning is killed: what was there comes back.

Journals: entries of a killed tuning, of which one is torn, flipped, replaced or given away; the next start
ends in time, in a line, with every other change undone, and no file has changed that no whole entry names.

Knobs: files of any bytes and a command's state, tuned and killed at a random time; after the next start, and
after every command of the tuning would have ended, all is as before, to the byte and the mode.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from .figures import ANSWER_S, Figures, executable, judge, run, steelyard
from .folders import MUTATIONS, ODD
from .kills import MARK, look_for_orphans

PLACES = 5
LONGEST_COMMAND_S = 1.0
KNOBS = """
[[knob]]
name = "file"
files = ["{folder}/number"]
levels = ["64", "256"]
risk = "high"

[[knob]]
name = "template"
file = "{folder}/service.conf"
template = "cache = {{value}}\\n"
levels = ["1g", "2g"]
risk = "high"

[[knob]]
name = "command"
apply = ["sh", "-c", "sleep {delay}; echo {{}} >{folder}/state"]
read = ["cat", "{folder}/state"]
levels = ["4", "8"]
risk = "high"
"""


Round = Callable[[Figures, Path, random.Random, str], None]


def journals(folder: Path, seconds: float, seed: int) -> Figures:
    """Tamper with journals until the time is over."""
    return _rounds(_tamper, folder, seconds, seed, least=2 * len(MUTATIONS))


def knobs(folder: Path, seconds: float, seed: int) -> Figures:
    """Kill tunings until the time is over."""
    return _rounds(_kill_a_tuning, folder, seconds, seed, least=3)


def _rounds(play: Round, folder: Path, seconds: float, seed: int, *, least: int) -> Figures:
    figures, chosen = Figures(), random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end or figures.tried < least:
        where = folder / f"round{figures.tried}"
        where.mkdir()
        play(figures, where, chosen, f"seed {seed}, round {figures.tried}")
        shutil.rmtree(where, ignore_errors=True)
    return figures


def _tamper(figures: Figures, folder: Path, chosen: random.Random, what: str) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    journal = folder / "state/steelyard/undo"
    journal.mkdir(parents=True, mode=0o700)
    bystander = folder / "bystander"
    bystander.write_text("mine\n")
    places = [folder / f"place{number}" for number in range(PLACES)]
    entries = []
    for number, place in enumerate(places):
        place.write_text("changed\n")
        entries.append(_entry(journal / f"{number}-knobs.json", place))
    victim = chosen.choice(entries)
    name = _mutate(victim, bystander, chosen)
    ended = run(steelyard("tune", "restore"), folder, ANSWER_S * 3, environment)
    judge(figures, ended, f"restore, {name} ({what})")
    for place, entry in zip(places, entries, strict=True):
        if entry != victim and place.read_text().strip() != "before":
            figures.note("lost", f"{place.name} was not put back beside an entry with {name} ({what})")
    if bystander.read_text() != "mine\n":
        figures.note("doubled", f"a file that no whole entry names was written, {name} ({what})")


def _entry(path: Path, place: Path) -> Path:
    """Write an entry of a process that has ended, as a tuning on this machine does."""
    from steelyard.bench.identity import boot_id
    from steelyard.tune import changes

    entry = {
        "kind": changes.KNOBS,
        "module": changes.__name__,
        "root": "/",
        "pid": 4194304,
        "start_ticks": 1,
        "boot_id": boot_id(),
        "machine_id": None,
        "host": None,
        "pid_namespace": None,
        "details": {f"file:{place}": "before"},
    }
    path.write_text(json.dumps(entry))
    path.chmod(0o600)
    return path


def _mutate(path: Path, bystander: Path, chosen: random.Random) -> str:
    """Do something to an entry; return its name."""
    way = chosen.choice([*MUTATIONS, "odd", "given away", "writable", "aimed"])
    if callable(way):
        way(path, chosen)
        return way.__name__
    entry = json.loads(path.read_text())
    if way == "odd":
        entry[chosen.choice(list(entry))] = chosen.choice(ODD)
        path.write_text(json.dumps(entry))
    elif way == "given away" and os.geteuid() == 0:
        entry["details"] = {f"file:{bystander}": "theirs"}
        path.write_text(json.dumps(entry))
        os.chown(path, 12345, 12345)
    else:
        # An entry that others could have written.
        entry["details"] = {f"file:{bystander}": "theirs"}
        path.write_text(json.dumps(entry))
        path.chmod(0o666)
    return way


def _kill_a_tuning(figures: Figures, folder: Path, chosen: random.Random, what: str) -> None:
    figures.tried += 1
    mark = uuid.uuid4().hex
    environment = {
        **os.environ,
        MARK: mark,
        "XDG_STATE_HOME": str(folder / "state-home"),
        "STEELYARD_BIN_DIR": str(Path(executable("steelyard-exec")).parent),
    }
    noise = chosen.randbytes(chosen.choice([0, 3, 5000, 70_000])).replace(b"\0", b"x")
    contents = {
        "number": chosen.choice([b"128", b"128\n", b" 128 \n", b"[64] 128\n"]),
        "service.conf": chosen.choice([b"cache = 3g", b"# \xe4\xf6\ncache = 3g\r\n", b"cache=3g\n" + noise]),
        "state": b"2\n",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(chosen.choice([0o644, 0o600, 0o640]))
    before = _state(folder, contents)
    delay_s = chosen.uniform(0, LONGEST_COMMAND_S)
    (folder / "mine.toml").write_text(KNOBS.format(folder=folder, delay=f"{delay_s:.2f}"))
    names = [word for name in ("file", "template", "command") for word in ("--knob", name)]
    words = ["tune", "run", "--knobs", folder / "mine.toml", *names, "--risk", "high", "--blocks", "4"]
    process = subprocess.Popen(
        steelyard(*words, "--out", folder / "runs", "--", "true"),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    with suppress(subprocess.TimeoutExpired):
        process.wait(chosen.uniform(0.5, 8))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    ended = run(steelyard("tune", "restore"), folder, ANSWER_S * 6, environment)
    if ended.code != 0:
        figures.note("lost", f"restore ended with {ended.code}: {ended.output[-200:]!r} ({what})")
    # A command that outlived the kill would have written by then.
    time.sleep(LONGEST_COMMAND_S + 0.3)
    look_for_orphans(figures, mark, what)
    for name, now in _state(folder, contents).items():
        was = before[name]
        if was != now:
            difference = f"{now[0][:40]!r} {now[1]:o}, not {was[0][:40]!r} {was[1]:o}"
            figures.note("lost", f"{name} is {difference} ({what})")


def _state(folder: Path, names: Iterable[str]) -> dict[str, tuple[bytes, int]]:
    """Return bytes and modes."""
    found = {}
    for name in names:
        path = folder / name
        found[name] = (path.read_bytes() if path.exists() else b"(gone)", path.stat().st_mode & 0o777)
    return found
