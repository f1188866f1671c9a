"""A cache of Debian packages: the real apt and dpkg, with a source and systems of the test."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.bench.stack import archive
from steelyard.bench.stack.packages import Manager, run_command

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb"))), reason="this system has no apt"
)


def deb(folder, name, version, depends=""):
    """Build a package."""
    tree = folder / f"tree-{name}-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = {
        "Package": name,
        "Version": version,
        "Architecture": "all",
        "Maintainer": "x <x@example.org>",
        **({"Depends": depends} if depends else {}),
        "Description": "a package of the test\n Of several lines.",
    }
    (tree / "DEBIAN/control").write_text("".join(f"{key}: {text}\n" for key, text in fields.items()))
    (tree / f"usr/share/{name}").mkdir(parents=True)
    (tree / f"usr/share/{name}/version").write_text(version)
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    shutil.rmtree(tree)


class Source:
    """A source of packages on the network of the test, which is a folder."""

    def __init__(self, folder, scheme="copy"):
        self.folder = folder
        self.scheme = scheme
        folder.mkdir()

    def publish(self):
        entries = []
        for path in sorted(self.folder.glob("*.deb")):
            command = ["dpkg-deb", "--field", str(path)]
            fields = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            size = path.stat().st_size
            entries.append(f"{fields}Filename: ./{path.name}\nSize: {size}\nSHA256: {digest}\n")
        (self.folder / "Packages").write_text("\n".join(entries))

    def line(self):
        return f"deb [trusted=yes] {self.scheme}:{self.folder} ./\n"


class System:
    """A machine with its own installed packages; runs the real tools on them."""

    def __init__(self, folder, source=None):
        self.root = folder / "root"
        self.admin = self.root / "var/lib/dpkg"
        for path in (self.admin / "info", self.admin / "updates", self.admin / "triggers"):
            path.mkdir(parents=True)
        (self.admin / "status").touch()
        (folder / "lists/partial").mkdir(parents=True)
        (folder / "archives/partial").mkdir(parents=True)
        (folder / "sources.list").write_text("" if source is None else source.line())
        (folder / "apt.conf").write_text(
            f'''
Dir::State::lists "{folder}/lists";
Dir::State::status "{self.admin}/status";
Dir::Cache::archives "{folder}/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::main "{folder}/none";
Dir::Etc::parts "{folder}/none.d";
Dir::State "{folder}/state";
Dir::Log "{folder}/log";
APT::Sandbox::User "root";
DPkg::Options {{ "--root={self.root}"; "--force-not-root"; "--log=/dev/null"; "--force-bad-path"; }};
'''
        )
        (folder / "state").mkdir()
        (folder / "log").mkdir()
        self.environment = {"APT_CONFIG": str(folder / "apt.conf"), "DPKG_ADMINDIR": str(self.admin)}
        self.calls = []
        self.policy = folder / "policy-rc.d"

    def __call__(self, command, environment):
        self.calls.append(list(command))
        return run_command(command, {**environment, **self.environment})

    def manager(self, **more):
        return Manager("apt", self, policy=self.policy, **more)

    def versions(self):
        return self.manager().installed()


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
