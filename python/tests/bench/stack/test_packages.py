"""Packages come and go without harm to others: the real apt and dpkg, on machines that are folders."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError
from steelyard.bench import undo
from steelyard.bench.progress import Silence
from steelyard.bench.stack import claims, installation
from steelyard.bench.stack import install as installing
from steelyard.bench.stack.install import Options, install, uninstall
from steelyard.bench.stack.packages import _is_unfinished
from steelyard.bench.stack.recipe import Packages, Recipe
from steelyard.bench.stack.transaction import Plan, removable
from tests.bench import sample_benchmarks
from tests.bench.stack.apt import Source, System, deb
from tests.bench.stack.test_install import with_recipe

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb"))), reason="this system has no apt"
)
SERVICE = """
code=0
if [ -e {folder}/policy-rc.d ]; then {folder}/policy-rc.d || code=$?; fi
[ "$code" = 101 ] || touch {folder}/service-was-started
touch {folder}/configuring
while [ ! -e {folder}/go ]; do sleep 0.05; done
"""
"""Configures as a server's package does: it asks whether services may start, and takes its time."""
DRIVER = """
import sys
from pathlib import Path
from tests.bench.stack.apt import System
from steelyard.bench.stack import claims
from steelyard.cli import main
folder, name = Path(sys.argv[1]), sys.argv[2]
main.signal.signal(main.signal.SIGTERM, main._end_in_order)
system = System(folder)
claim = lambda packages: claims.add("spin", "apt", packages)
print(system.manager().install([name], cache=None, offline=False, claim=claim))
"""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "journal"))
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


@pytest.fixture
def source(tmp_path):
    made = Source(tmp_path / "source")
    deb(made.folder, "libspin1", "1.0")
    deb(made.folder, "spinner", "1.0", "libspin1 (>= 1.0)")
    deb(made.folder, "other", "1.0", "libspin1")
    deb(made.folder, "alone", "1.0")
    made.publish()
    return made


@pytest.fixture
def system(tmp_path, source):
    folder = tmp_path / "system"
    folder.mkdir()
    return System(folder, source)


def by_hand(system, *words):
    """Do what somebody does beside Steelyard."""
    done = system([*words], {"DEBIAN_FRONTEND": "noninteractive"})
    assert done.returncode == 0, done.stderr


def spin(monkeypatch, system, name="spinner"):
    with_recipe(monkeypatch, Recipe(Packages(apt=(name,))))
    return install("spin", Options(smoke=False), progress=Silence(), manager=system.manager)


def test_what_somebody_else_installs_meanwhile_is_not_claimed(monkeypatch, system):
    class Busy(System):
        def __call__(self, command, environment, *, undisturbed=False):
            if undisturbed:
                super().__call__(["apt-get", "-qq", "install", "--yes", "alone"], environment)
            return super().__call__(command, environment, undisturbed=undisturbed)

    system.__class__ = Busy
    record = spin(monkeypatch, system)
    system.__class__ = System
    assert record.packages_added == ["libspin1", "spinner"]
    assert claims.load("spin").packages == {"libspin1": "1.0", "spinner": "1.0"}
    removal = uninstall("spin", packages=True, manager=system.manager)
    assert removal.packages == ("libspin1", "spinner")
    assert set(system.versions()) == {"alone"}
    assert claims.load("spin") is None


def test_what_others_need_and_what_somebody_wants_stays_and_is_named(monkeypatch, system):
    spin(monkeypatch, system)
    by_hand(system, "apt-get", "-qq", "install", "--yes", "other")
    removal = uninstall("spin", packages=True, manager=system.manager)
    assert removal.packages == ("spinner",)
    assert removal.kept == ("libspin1: other needs it",)
    assert set(system.versions()) == {"libspin1", "other"}
    # The claim lasts until it has gone.
    by_hand(system, "apt-get", "-qq", "purge", "--yes", "other")
    assert uninstall("spin", packages=True, manager=system.manager).packages == ("libspin1",)
    assert system.versions() == {}
    with pytest.raises(UsageError, match="not installed"):
        uninstall("spin", packages=True, manager=system.manager)


@pytest.mark.parametrize("words", [("apt-mark", "manual"), ("apt-get", "-qq", "install", "--yes")])
def test_what_is_marked_as_wanted_stays_with_what_it_needs(monkeypatch, system, words):
    spin(monkeypatch, system)
    by_hand(system, *words, "spinner")
    removal = uninstall("spin", packages=True, manager=system.manager)
    assert removal.packages == ()
    assert removal.kept == (
        "spinner: it was marked as installed manually since",
        "libspin1: spinner needs it",
    )
    assert set(system.versions()) == {"libspin1", "spinner"}


def test_packages_that_only_together_take_others_with_them_stay():
    def simulate(names):
        return Plan({}, (), (*names, *(["either"] if {"a", "b"} <= set(names) else [])))

    going, kept = removable(["a", "b"], simulate)
    assert going == ()
    assert [f"{one.name}: {one.why}" for one in kept] == ["a: either needs it", "b: either needs it"]


def test_a_failed_smoke_run_leaves_a_claim_by_which_the_packages_go(monkeypatch, system):
    with_recipe(monkeypatch, Recipe(Packages(apt=("spinner",))))

    def failed(*_):
        raise WorkloadFailedError("no figure")

    monkeypatch.setattr(installing, "_smoke", failed)
    with pytest.raises(WorkloadFailedError):
        install("spin", Options(), progress=Silence(), manager=system.manager)
    assert installation.load("spin") is None
    # As its message tells to: first without, then with the flag.
    kept = uninstall("spin", packages=False, manager=system.manager)
    assert kept.kept == ("2 packages: steelyard uninstall spin --packages removes them",)
    assert set(uninstall("spin", packages=True, manager=system.manager).packages) == {"libspin1", "spinner"}
    assert system.versions() == {}


def test_nothing_is_installed_that_cannot_be_written_down(monkeypatch, tmp_path, system):
    (tmp_path / "file").touch()
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "file/stacks"))
    with pytest.raises(EnvironmentLacksError) as raised:
        spin(monkeypatch, system)
    assert "STEELYARD_STACKS" in raised.value.hint
    with pytest.raises(EnvironmentLacksError, match="nothing was installed"):
        system.manager().install(
            ["alone"], cache=None, offline=False, claim=lambda names: claims.add("spin", "apt", names)
        )
    assert system.versions() == {}


# Interrupts and kills


@pytest.fixture
def slow(system, source, monkeypatch):
    """Publish a server whose configuration waits; replay sees the machine of the test."""
    deb(source.folder, "server", "1.0", "libspin1", postinst=SERVICE.format(folder=system.folder))
    source.publish()
    for name, value in system.environment.items():
        monkeypatch.setenv(name, value)
    return system


def until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.02)


def start(system):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(system.folder), "server"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0,
    )
    until((system.folder / "configuring").exists)
    return process


def state(system):
    return system(["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}", "server"], {}).stdout.strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_lets_dpkg_come_to_its_end(slow, number):
    process = start(slow)
    # As a terminal does: to the whole group.
    os.killpg(process.pid, number)
    time.sleep(0.5)
    assert process.poll() is None
    (slow.folder / "go").touch()
    err = process.communicate(timeout=60)[1]
    assert "the package manager has to come to its end" in err
    assert process.returncode != 0
    assert state(slow) == "ii"
    assert not slow.policy.exists()
    assert undo.replay() == []
    assert set(claims.load("spin").packages) == {"libspin1", "server"}
    assert not (slow.folder / "service-was-started").exists()


@pytest.mark.parametrize("ways", [(signal.SIGINT, signal.SIGINT), (signal.SIGKILL,)])
def test_dpkg_outlives_a_kill_and_services_stay_forbidden_until_its_end(slow, monkeypatch, ways):
    process = start(slow)
    os.killpg(process.pid, ways[0])
    for number in ways[1:]:
        # The second signal comes when the first one has been reported.
        assert "interrupt again" in process.stderr.readline()
        os.killpg(process.pid, number)
    process.communicate(timeout=60)
    monkeypatch.setattr(undo, "_ENDING_S", 0.3)
    [message] = undo.replay()
    assert "still runs" in message
    assert slow.policy.exists()
    (slow.folder / "go").touch()
    until(lambda: state(slow) == "ii")
    monkeypatch.setattr(undo, "_ENDING_S", 60.0)
    assert len(undo.replay()) == 1
    assert not slow.policy.exists()
    assert not (slow.folder / "service-was-started").exists()
    # The record's claim says what the kill left.
    removal = uninstall("spin", packages=True, manager=slow.manager)
    assert set(removal.packages) == {"libspin1", "server"}


def test_the_next_start_configures_what_dpkg_was_killed_in_and_starts_no_service(slow):
    process = start(slow)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    # As a loss of power: apt, dpkg and the script.
    mark = f"DPKG_ROOT={slow.root}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue
    assert _is_unfinished()
    slow.policy.unlink()
    (slow.folder / "go").touch()
    [message] = undo.replay()
    assert message.startswith(undo.UNDID)
    assert not _is_unfinished()
    assert state(slow) == "ii"
    assert not slow.policy.exists()
    assert not (slow.folder / "service-was-started").exists()


def test_a_download_ends_at_once(slow):
    """Its source never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = f"deb [trusted=yes] http://127.0.0.1:{server.getsockname()[1]} ./\n"
        (slow.folder / "sources.list").write_text(source)
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(slow.folder), "server"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stderr=subprocess.PIPE,
        )
        server.settimeout(60)
        server.accept()
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        # The source has 30 s to answer, twice.
        assert time.monotonic() - begun < 20
    assert slow.versions() == {}
