"""``kill -9`` at every step of writing the journal, of a trial's change, of apply and of restore.

A child process does the work and kills itself at its first, second, ... step that touches a file, from the
first entry of the journal on: opening, renaming, removing, synchronising. Whatever it leaves behind, the next
start or a restore puts right.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.bench import undo
from steelyard.cli.tune.deployed import apply_softsku, restore_all
from steelyard.tune.changes import Write, applied, apply_and_keep
from steelyard.tune.knobs.application import TemplateKnob
from tests.tune.machines import everything
from tests.tune.server import knobs_of, make_server

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"}
LEVELS = {"prefetchers": "none", "code_data_ways": "6+5", "governor": "performance", "online_cpus": "2"}
MOST_STEPS = 400


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = make_server(tmp_path / "machine")
    (made / "etc/service.conf").write_text("cache = 1g\n")
    lines = [f'[[knob]]\nname = "{name}"\nlevel = "{level}"\n' for name, level in LEVELS.items()]
    lines.append('[[knob]]\nname = "cache"\nlevel = "2g"\n')
    (tmp_path / "softsku.toml").write_text("".join(lines))
    (tmp_path / "mine.toml").write_text(
        f'[[knob]]\nname = "cache"\nfile = "{made}/etc/service.conf"\ntemplate = "cache = {{value}}\\n"\n'
        'levels = ["1g", "2g"]\n'
    )
    return made


def writes_of(root: Path) -> list[Write]:
    """Return what the soft SKU writes: registers, lines of a file, files of each CPU, a whole file."""
    knobs = knobs_of(root)
    cache = TemplateKnob("cache", "", root / "etc/service.conf", "cache = {value}\n", ("1g", "2g"))
    machine = [write for name, level in LEVELS.items() for write in knobs[name].writes(level)]
    return [*machine, *cache.writes("2g")]


def is_killed(step: int, folder: Path, action: Callable[[], object]) -> bool:
    """Do it in a child that kills itself at this step in ``folder``; return whether it came so far."""
    child = os.fork()
    if child == 0:
        count, synchronise = itertools.count(1), os.fsync

        def die() -> None:
            if next(count) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        entries = (str(undo.journal_dir()), str(undo.kept_dir()))
        begun: list[str] = []

        def look(event: str, words: tuple[object, ...]) -> None:
            path = str(words[0]) if words else ""
            # Before there is an entry, files are only read.
            is_of_change = bool(begun) or path.startswith(entries)
            if event in EVENTS and path.startswith(str(folder)) and is_of_change:
                begun.append(path)
                die()

        def sync(descriptor: int) -> None:
            die()
            synchronise(descriptor)

        code = 1
        try:
            os.fsync = sync
            os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
            os.dup2(1, 2)
            sys.addaudithook(look)
            action()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return os.WIFSIGNALED(status)


def at_every_step(folder: Path, action: Callable[[], object]) -> Iterator[int]:
    """Yield after the death at each step; the last one is whole."""
    step = 0
    while True:
        step += 1
        assert step < MOST_STEPS
        alive = not is_killed(step, folder, action)
        yield step
        if alive:
            return


def test_a_trial_that_is_killed_anywhere_is_undone_by_the_next_start(root: Path, tmp_path: Path) -> None:
    before = everything(root)

    def trial() -> None:
        with applied(writes_of(root), name="test"):
            pass

    changed = 0
    for step in at_every_step(tmp_path, trial):
        changed += everything(root) != before
        lines = undo.replay()
        assert all(line.startswith(undo.UNDID) for line in lines), (step, lines)
        assert everything(root) == before, f"killed at step {step}"
        assert not list(undo.journal_dir().glob("*.json"))
        # What was made before a change is no obstacle for the next one.
        with applied(writes_of(root)[:1], name="test"):
            pass
    assert changed > 20, "most deaths left something to undo"


def test_what_is_kept_is_kept_whole_or_not_at_all(root: Path, tmp_path: Path) -> None:
    """A register of the machine and a file on disk stand in two entries of the journal."""
    writes = [*knobs_of(root)["governor"].writes("performance"), writes_of(root)[-1]]
    before = everything(root)
    apply_and_keep(writes, name="softsku", root=root)
    after = everything(root)
    undo.undo_kept()
    assert everything(root) == before
    found = set()
    for step in at_every_step(tmp_path, lambda: apply_and_keep(writes, name="softsku", root=root)):
        undo.replay()
        now = everything(root)
        assert now in (before, after), f"killed at step {step}"
        found.add(now == after)
        assert bool(undo.kept_roots()) is (now == after)
        undo.undo_kept()
        assert everything(root) == before
        assert not list(undo.journal_dir().glob("*.json"))
        assert not list(undo.kept_dir().glob("*.moving"))
    assert found == {True, False}


@pytest.mark.slow
def test_an_apply_that_is_killed_anywhere_is_put_back_by_restore(root: Path, tmp_path: Path) -> None:
    before = everything(root)

    def apply() -> None:
        apply_softsku(tmp_path / "softsku.toml", tmp_path / "mine.toml", root, as_json=False)

    for step in at_every_step(tmp_path, apply):
        assert restore_all(as_json=True) == 0
        assert everything(root) == before, f"killed at step {step}"
        assert not undo.kept_roots()
        assert not list(undo.journal_dir().glob("*.json"))


@pytest.mark.slow
def test_a_restore_that_is_killed_anywhere_goes_on_with_the_next(root: Path, tmp_path: Path) -> None:
    before = everything(root)
    apply_softsku(tmp_path / "softsku.toml", tmp_path / "mine.toml", root, as_json=False)
    after = everything(root)
    for step in at_every_step(tmp_path, lambda: restore_all(as_json=True)):
        assert restore_all(as_json=True) == 0
        assert everything(root) == before, f"killed at step {step}"
        apply_softsku(tmp_path / "softsku.toml", tmp_path / "mine.toml", root, as_json=False)
        assert everything(root) == after
    restore_all(as_json=True)
