"""A cache of Debian packages: the real apt and dpkg, with a source and systems of the test."""

import os
import shutil
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.bench.stack import archive
from tests.bench.stack.apt import Source, System, deb

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb"))), reason="this system has no apt"
)


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "journal"))


@pytest.fixture
def source(tmp_path):
    made = Source(tmp_path / "source")
    deb(made.folder, "libspin1", "1.0")
    deb(made.folder, "spinner", "1.0", "libspin1 (>= 1.0)")
    made.publish()
    return made


def system(tmp_path, name, source=None):
    folder = tmp_path / name
    folder.mkdir()
    return System(folder, source)


def test_another_machine_gets_what_this_one_had_already(tmp_path, source):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache of mine"
    # The dependency is here before anything is kept.
    assert mine.manager().install(["libspin1"], cache=None, offline=False) == ["libspin1"]
    assert mine.manager().install(["spinner"], cache=cache, offline=False) == ["spinner"]
    other = system(tmp_path, "other")
    added = other.manager().install(["spinner"], cache=cache, offline=True)
    assert added == ["libspin1", "spinner"]
    assert (other.root / "usr/share/libspin1/version").read_text() == "1.0"
    # Where everything is installed and kept, apt is not asked for anything.
    mine.calls.clear()
    assert mine.manager().install(["spinner"], cache=cache, offline=False) == []
    assert [call[0] for call in mine.calls] == ["dpkg-query"]


def test_without_root_packages_that_are_here_can_be_kept(tmp_path, source):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    mine.manager().install(["spinner"], cache=None, offline=False)
    mine.calls.clear()
    assert mine.manager(may_install=False).install(["spinner"], cache=cache, offline=False) == []
    assert not any("update" in call for call in mine.calls)
    assert archive.versions(cache / "apt") == {"libspin1": "1.0", "spinner": "1.0"}


@pytest.mark.parametrize("scheme", ["copy", "file"])
def test_a_newer_version_replaces_the_kept_one(tmp_path, source, scheme):
    source.scheme = scheme
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    mine.manager().install(["spinner"], cache=cache, offline=False)
    deb(source.folder, "spinner", "1.1", "libspin1 (>= 1.0)")
    source.publish()
    mine.manager().install(["spinner"], cache=cache, offline=False, refresh=True)
    assert archive.versions(cache / "apt") == {"libspin1": "1.0", "spinner": "1.1"}
    assert sorted(path.name for path in (cache / "apt").glob("*.deb")) == [
        "libspin1_1.0_all.deb",
        "spinner_1.1_all.deb",
    ]


def test_nothing_is_fetched_for_nothing(tmp_path, source):
    mine = system(tmp_path, "mine", source)
    assert mine.manager().install([], cache=tmp_path / "cache", offline=False) == []
    assert not (tmp_path / "cache").exists()


def test_a_newer_dependency_of_the_other_machine_stays(tmp_path, source):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    mine.manager().install(["spinner"], cache=cache, offline=False)
    later = Source(tmp_path / "later")
    deb(later.folder, "libspin1", "2.0")
    later.publish()
    other = system(tmp_path, "other", later)
    other.manager().install(["libspin1"], cache=None, offline=False)
    assert other.manager().install(["spinner"], cache=cache, offline=True) == ["spinner"]
    assert other.versions() == {"libspin1": "2.0", "spinner": "1.0"}


def test_a_damaged_file_is_not_installed(tmp_path, source):
    cache = tmp_path / "cache"
    system(tmp_path, "mine", source).manager().install(["spinner"], cache=cache, offline=False)
    [path] = (cache / "apt").glob("spinner_*.deb")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    other = system(tmp_path, "other")
    with pytest.raises(EnvironmentLacksError, match="apt-get failed"):
        other.manager().install(["spinner"], cache=cache, offline=True)
    assert "spinner" not in other.versions()


@pytest.mark.parametrize("indexed", [False, True])
def test_a_file_that_is_not_the_one_of_apts_lists_is_fetched_again(tmp_path, source, indexed):
    """A flipped bit, or a file of the same size that somebody put there, before or after it was indexed."""
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    mine.manager().install(["spinner"], cache=cache, offline=False)
    [path] = (cache / "apt").glob("spinner_*.deb")
    right = path.read_bytes()
    wrong = bytearray(right)
    wrong[len(wrong) // 2] ^= 1
    path.write_bytes(wrong)
    if not indexed:
        (cache / "apt" / archive.INDEX).unlink()
    mine.manager().install(["spinner"], cache=cache, offline=False)
    assert path.read_bytes() == right
    other = system(tmp_path, "other")
    assert other.manager().install(["spinner"], cache=cache, offline=True) == ["libspin1", "spinner"]


@pytest.mark.parametrize("which", ["folder", "index", "file", "owner"])
def test_a_folder_that_others_may_write_is_no_source(tmp_path, source, which, monkeypatch):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    mine.manager().install(["spinner"], cache=cache, offline=False)
    folder = cache / "apt"
    path = {
        "folder": folder,
        "index": folder / archive.INDEX,
        "file": next(folder.glob("*.deb")),
        "owner": folder,
    }[which]
    if which == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(path, 12345, -1)
    else:
        path.chmod(path.stat().st_mode | 0o002)
    other = system(tmp_path, "other")
    with pytest.raises(EnvironmentLacksError, match="may be written by others") as raised:
        other.manager().install(["spinner"], cache=cache, offline=True)
    assert "chmod" in raised.value.hint
    assert other.versions() == {}
    if which == "owner":
        monkeypatch.setenv("SUDO_UID", "12345")
        assert other.manager().install(["spinner"], cache=cache, offline=True) == ["libspin1", "spinner"]


def test_a_file_that_went_is_fetched_again(tmp_path, source):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    mine.manager().install(["spinner"], cache=cache, offline=False)
    assert archive.holds(cache / "apt", ["spinner"])
    assert not archive.holds(cache / "apt", ["spinner", "libspin1"])
    (cache / "apt/libspin1_1.0_all.deb").unlink()
    assert not archive.holds(cache / "apt", ["spinner"])
    mine.manager().install(["spinner"], cache=cache, offline=False)
    assert archive.holds(cache / "apt", ["spinner"])


def test_a_package_that_there_is_not_is_named(tmp_path, source):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    with pytest.raises(EnvironmentLacksError, match="Unable to locate package absent"):
        mine.manager().install(["absent"], cache=cache, offline=False)
    assert not archive.holds(cache / "apt", ["absent"])


def test_the_first_package_that_there_is_is_taken(tmp_path, source):
    mine, cache = system(tmp_path, "mine", source), tmp_path / "cache"
    # Its lists are empty: they are updated once.
    assert mine.manager().first_available(["absent", "spinner"], cache=None, offline=False) == "spinner"
    assert mine.manager().first_available(["absent"], cache=None, offline=False) is None
    mine.manager().install(["spinner"], cache=cache, offline=False)
    other = system(tmp_path, "other")
    assert other.manager().first_available(["absent", "libspin1"], cache=cache, offline=True) == "libspin1"
    assert other.manager().first_available(["absent"], cache=cache, offline=True) is None
    with pytest.raises(EnvironmentLacksError, match="holds no packages"):
        other.manager().first_available(["absent"], cache=Path(tmp_path / "nowhere"), offline=True)
