"""Data of the wiki: its name, when it counts as there, and disks that are too small."""

import contextlib
import json
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.benchmarks.mediawiki import prepare
from tests.benchmarks.mediawiki.test_servers import PROGRAMS


class _Session:
    """As much of a session as a folder of it needs."""

    def __init__(self, directory):
        self.directory = directory
        self.endings = contextlib.ExitStack()


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    return _Session(tmp_path / "run-1")


def test_data_is_kept_by_seed_size_content_and_versions(session, tmp_path, monkeypatch):
    first = prepare.prepared(PROGRAMS, seed=1, articles=30)
    assert first.folder.parent == tmp_path / "stacks" / "prepared" / "mediawiki"
    assert first == prepare.prepared(PROGRAMS, seed=1, articles=30)
    others = [
        prepare.prepared(PROGRAMS, seed=2, articles=30),
        prepare.prepared(PROGRAMS, seed=1, articles=31),
        prepare.prepared(
            SimpleNamespace(versions={**PROGRAMS.versions, "mariadb": "11"}), seed=1, articles=30
        ),
    ]
    monkeypatch.setattr(prepare.content, "VERSION", prepare.content.VERSION + 1)
    others.append(prepare.prepared(PROGRAMS, seed=1, articles=30))
    assert len({first.folder, *(other.folder for other in others)}) == 5


def test_partial_data_does_not_count(session):
    wanted = prepare.prepared(PROGRAMS, seed=1, articles=30)
    assert not prepare.is_ready(wanted)
    wanted.database.mkdir(parents=True)
    wanted.messages.mkdir()
    assert not prepare.is_ready(wanted)
    (wanted.folder / "prepared.json").write_text("{")
    assert not prepare.is_ready(wanted)
    (wanted.folder / "prepared.json").write_text(json.dumps({"pages": 3}))
    assert prepare.is_ready(wanted)
    shutil.rmtree(wanted.database)
    assert not prepare.is_ready(wanted)


def test_a_disk_that_is_too_small_is_named_with_both_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=300 << 20))
    prepare.check_disk(tmp_path / "not" / "there", 40 << 20)
    with pytest.raises(EnvironmentLacksError, match="300 MiB are free, and the wiki needs 356 MiB") as raised:
        prepare.check_disk(tmp_path / "not" / "there", 100 << 20)
    assert str(tmp_path) in raised.value.message
    assert "STEELYARD_STACKS" in raised.value.hint


def test_sockets_get_a_path_that_is_short_enough(session, tmp_path, monkeypatch):
    short = Path(tempfile.mkdtemp(prefix="s")) / "run"
    assert prepare.socket_folder(session, short, "sockets") == short
    assert short.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(short.parent)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = prepare.socket_folder(session, tmp_path / ("long" * 30) / "run", "sockets")
    assert found.parent == tmp_path
    assert found.stat().st_mode & 0o777 == 0o700
    # It goes with the run.
    session.endings.close()
    assert not found.exists()
