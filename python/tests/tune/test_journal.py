"""The undo journal on a home that machines, containers and users share, and with entries that are odd."""

import fcntl
import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.bench import undo
from steelyard.cli.main import invoke
from steelyard.tune.session import alone


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made: list[Any] = []
    undo.register("test shared", made.append, on_disk=True)
    return made


@pytest.fixture
def entry(calls: list[Any]) -> dict[str, Any]:
    """Return an entry of a process that has ended."""
    change = undo.Change.begin("first", "test shared", {"path": "/x"})
    found: dict[str, Any] = json.loads(change.path.read_text())
    change.path.unlink()
    change.release()
    ended = subprocess.Popen(["true"])
    ended.wait()
    return {**found, "pid": ended.pid}


def _put(entry: Any, name: str = "one") -> Path:
    path = undo.journal_dir() / f"{name}.json"
    path.write_text(entry if isinstance(entry, str) else json.dumps(entry))
    return path


def test_what_another_machine_or_container_made_is_left_alone(
    entry: dict[str, Any], calls: list[Any]
) -> None:
    elsewhere = {"host": "elsewhere", "boot_id": "another boot"}
    for name, changes, where in (
        ("machine", {**elsewhere, "machine_id": "0" * 32}, "on another machine (elsewhere)"),
        ("unnamed", {**elsewhere, "machine_id": None}, "on another machine (elsewhere)"),
        (
            "container",
            {"host": "box", "pid_namespace": "pid:[1]"},
            "in another container of this machine (box)",
        ),
    ):
        path = _put({**entry, **changes}, name)
        [line] = undo.replay()
        assert where in line
        assert path.exists()
        path.unlink()
    assert calls == []
    # A container that was started again, and an entry of before a reboot, are undone.
    _put({**entry, "pid_namespace": "pid:[1]"})
    _put({**entry, "boot_id": "another boot"}, "two")
    assert len(undo.replay()) == 2
    assert len(calls) == 2


def test_a_maker_that_cannot_be_seen_lives_as_long_as_its_lock(
    entry: dict[str, Any], calls: list[Any]
) -> None:
    change = undo.Change.begin("held", "test shared", {"path": "/x"})
    text = json.dumps({**entry, "pid_namespace": "pid:[1]"})
    # Written in place: the lock is on the file.
    with change.path.open("r+") as file:
        file.write(text)
        file.truncate()
    assert undo.replay() == []
    change.release()
    assert len(undo.replay()) == 1
    assert len(calls) == 1


def test_entries_that_others_wrote_or_may_write_are_not_replayed(
    entry: dict[str, Any], calls: list[Any]
) -> None:
    path = _put(entry)
    path.chmod(0o666)
    [line] = undo.replay()
    assert "may be written by others" in line
    path.chmod(0o600)
    path.parent.chmod(0o777)
    [line] = undo.replay()
    assert "may be written by others" in line
    path.parent.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        [line] = undo.replay()
        assert "belongs to user 12345" in line
        os.chown(path, 0, -1)
    link = path.with_name("link.json")
    link.symlink_to(path)
    assert "is no file" in undo.replay()[0]
    link.unlink()
    assert calls == [{"path": "/x"}]


ODD = (
    "",
    "[]",
    "null",
    "[" * 10_000,
    {"kind": 7},
    {"details": ["a"]},
    {"details": {"path": 7}},
    {"pid": True},
    {"pid": "1"},
    {"boot_id": 1},
    {"module": ["os"]},
    {"start_ticks": 1.5},
)


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_one_odd_entry_does_not_keep_others_from_being_undone(
    odd: Any, entry: dict[str, Any], calls: list[Any]
) -> None:
    bad = _put(odd if isinstance(odd, str) else {**entry, **odd}, "a")
    good = _put(entry, "b")
    lines = undo.replay()
    assert len(lines) == 2
    assert "not undone" in lines[0]
    assert calls == [{"path": "/x"}]
    assert bad.exists()
    assert not good.exists()


def test_a_way_to_undo_that_breaks_does_not_keep_others_from_being_undone(
    entry: dict[str, Any], calls: list[Any]
) -> None:
    def breaks(details: Any) -> None:
        raise AssertionError(details)

    undo.register("test breaks", breaks, on_disk=True)
    _put({**entry, "kind": "test breaks"}, "a")
    _put(entry, "b")
    lines = undo.replay()
    assert "cannot be undone" in lines[0]
    assert len(calls) == 1


def test_a_list_of_moves_moves_nothing_but_entries(entry: dict[str, Any], tmp_path: Path) -> None:
    victim = tmp_path / "precious"
    victim.write_text("x")
    undo.kept_dir().mkdir(parents=True)
    moving = undo.kept_dir() / "000001.moving"
    moving.write_text(json.dumps([[str(victim), str(undo.kept_dir() / "000001-x.json")]]))
    undo.replay()
    assert victim.read_text() == "x"
    assert moving.exists()


def test_a_lock_of_the_root_folder_that_anybody_may_take_keeps_nobody_from_tuning(
    calls: list[Any],
) -> None:
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(root, fcntl.LOCK_EX)
        with alone("/"):
            pass
    finally:
        os.close(root)


def test_two_tunings_of_this_machine_exclude_each_other(calls: list[Any]) -> None:
    with alone("/"), pytest.raises(EnvironmentLacksError, match="another tuning is under way"), alone("/"):
        pass


@pytest.mark.parametrize("home", ["/dev/null", "/proc/nowhere"])
def test_a_home_that_cannot_be_used_is_named(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    assert invoke(["tune", "run", "--knob", "dirty_ratio=30", "--blocks", "4", "--", "true"]) == 3
    err = capsys.readouterr().err
    assert "internal error" not in err
    assert "XDG_STATE_HOME" in err


def test_a_user_without_a_home_has_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert undo.journal_dir() == Path(f"/var/tmp/steelyard-{os.geteuid()}/.local/state/steelyard/undo")
