"""Knobs that the made-up machine of the other tests lacks: AMD's prefetchers, CAT without CDP, NIC settings,
files of the user; and refusals by a kernel itself."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.bench import undo
from steelyard.tune.cells import FileCell, WholeFile
from steelyard.tune.changes import RefusedError, applied, apply_and_keep
from steelyard.tune.knobs import Knob, application, find
from steelyard.tune.knobs.application import TemplateKnob, TextKnob
from steelyard.tune.knobs.knob import FilesKnob
from steelyard.tune.knobs.network import LinkSetting
from tests.tune.machines import CPUS, everything, make_machine, register

AMD_REGISTER = 0xC0000108


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return make_machine(tmp_path / "machine")


def knob_of(root: Path, name: str) -> Knob:
    return next(knob for knob in find(root)[0] if knob.name == name)


@pytest.mark.parametrize(
    ("level", "bits"), [("none", 0x2F), ("l2-stream", 0x27), ("no-up-down", 0x20), ("no-l1-stream", 0x01)]
)
def test_prefetchers_of_amd(machine: Path, level: str, bits: int) -> None:
    (machine / "proc/cpuinfo").write_text("vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t: fpu\n")
    for cpu in range(CPUS):
        # Bit 4 is reserved, and others' business.
        with (machine / f"dev/cpu/{cpu}/msr").open("r+b") as file:
            file.seek(AMD_REGISTER)
            file.write(struct.pack("<Q", 0x10))
    knob = knob_of(machine, "prefetchers")
    assert knob.read() == "all"
    with applied(knob.writes(level), name="test"):
        assert knob.read() == level
        assert {register(machine, cpu, AMD_REGISTER) for cpu in range(CPUS)} == {0x10 | bits}
        assert {register(machine, cpu, 0x1A4) for cpu in range(CPUS)} == {0x30}, "Intel's stays"
    assert {register(machine, cpu, AMD_REGISTER) for cpu in range(CPUS)} == {0x10}


def test_ways_of_a_cache_without_code_and_data_apart(machine: Path) -> None:
    (machine / "sys/fs/resctrl/schemata").write_text("    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n")
    info = machine / "sys/fs/resctrl/info"
    (info / "L3CODE").rename(info / "L3")
    knob = knob_of(machine, "cache_ways")
    assert (knob.read(), knob.levels[0], knob.levels[-1]) == ("11", "1", "11")
    assert "code_data_ways" not in {one.name for one in find(machine)[0]}
    with applied(knob.writes("4"), name="test"):
        assert knob.read() == "4"
        assert (machine / "sys/fs/resctrl/schemata").read_text() == "    MB:0=100;1=100\nL3:0=f;1=f\n"
    assert knob.read() == "11"
    with pytest.raises(UsageError, match="cache_ways=12: allowed is"):
        knob.check("12")


def test_frequencies_that_a_driver_lists_are_the_only_ones(machine: Path) -> None:
    for cpu in range(CPUS):
        folder = machine / f"sys/devices/system/cpu/cpufreq/policy{cpu}"
        (folder / "scaling_available_frequencies").write_text("2200000 1850000 1600000 \n")
    knob = knob_of(machine, "core_frequency")
    assert knob.levels == ("1600000", "1850000", "2200000")
    with pytest.raises(UsageError, match=r"core_frequency=1800000: allowed is 1600000\|1850000\|2200000"):
        knob.check("1800000")


ETHTOOL = r"""#!/bin/sh
# Prints and keeps settings as ethtool does; a ring takes powers of two alone, and keeps silent of others.
cd "$(dirname "$0")" || exit 1
case "$1" in
-g) printf 'Ring parameters for %s:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nTX:\t\t4096\n' "$2"
    printf 'Current hardware settings:\nRX:\t\t%s\nRX Mini:\tn/a\nTX:\t\t512\n' "$(cat ring)" ;;
-G) case "$4" in
    256 | 512 | 1024) printf %s "$4" > ring ;;
    4096) echo 'netlink error: busy' >&2; exit 80 ;;
    esac ;;
-c) printf 'Coalesce parameters for %s:\nAdaptive RX: off  TX: off\n' "$2"
    printf 'rx-usecs:\t%s\nrx-frames:\t1\n' "$(cat delay)" ;;
-C) printf %s "$4" > delay ;;
esac
"""


@pytest.fixture
def nic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of ethtool: no virtual NIC has rings and delays in every kernel."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ethtool").write_text(ETHTOOL)
    (folder / "ethtool").chmod(0o755)
    (folder / "ring").write_text("512")
    (folder / "delay").write_text("8")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


RING = LinkSetting("eth0", "ring", "rx", 512, "ring_eth0", "a ring", ("256", "512", "1000", "1024", "4096"))
DELAY = LinkSetting("eth0", "coalesce", "rx-usecs", 8, "coalesce_eth0", "a delay", ("0", "8", "64"))


@pytest.mark.parametrize(
    ("knob", "level", "file"), [(RING, "1024", "ring"), (DELAY, "64", "delay"), (DELAY, "0", "delay")]
)
def test_settings_of_a_nic_are_taken_and_put_back(
    nic: Path, knob: LinkSetting, level: str, file: str
) -> None:
    found = knob.read()
    assert found == str(knob.present)
    with applied(knob.writes(level), name="test"):
        assert knob.read() == level
        assert (nic / file).read_text() == level
    assert (nic / file).read_text() == found
    # Whoever finds the journal of a killed tuning needs the address alone.
    apply_and_keep(knob.writes(level), name="kept", root=Path("/"))
    assert len(undo.undo_kept()) == 1
    assert knob.read() == found


@pytest.mark.parametrize(
    ("level", "why"), [("1000", "refuses '1000' silently: it reads '512'"), ("4096", "netlink error: busy")]
)
def test_a_ring_that_is_refused_stays(nic: Path, level: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why), applied(RING.writes(level), name="test"):
        pytest.fail("it was not refused")
    assert RING.read() == "512"
    assert not list(undo.journal_dir().glob("*.json"))


def test_what_the_kernel_changes_silently_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel keeps 15 characters of a thread's name, and says nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = Path("/proc/self/comm")
    name = path.read_text().strip()
    knob = FilesKnob("name", "a name", (path,), ("short", "longer than a name may be"))
    with applied(knob.writes("short"), name="test"):
        assert knob.read() == "short"
    long = knob.writes("longer than a name may be")
    with (
        pytest.raises(RefusedError, match="silently: it reads 'longer than a n'"),
        applied(long, name="test"),
    ):
        pytest.fail("it was not refused")
    assert path.read_text().strip() == name


def two_places(folder: Path) -> tuple[TextKnob, TemplateKnob]:
    (folder / "one").write_text("64")
    (folder / "two").write_text("128")
    (folder / "service.conf").write_text("# by hand\ncache = 1g\n\n")
    (folder / "service.conf").chmod(0o640)
    numbers = TextKnob("numbers", "two files", (folder / "one", folder / "two"), ("64", "256"))
    return numbers, TemplateKnob(
        "cache", "a file", folder / "service.conf", "cache = {value}\n", ("1g", "2g")
    )


def test_two_files_that_differ_and_a_whole_one_get_their_own_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The two files stand for some of the kernel.
    monkeypatch.setattr(application, "is_ordinary", lambda path: False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "machine"
    folder.mkdir()
    numbers, cache = two_places(folder)
    before = everything(folder)
    assert (numbers.read(), cache.read()) == ("64,128", "as found")
    with applied([*numbers.writes("256"), *cache.writes("2g")], name="test"):
        assert (numbers.read(), cache.read()) == ("256", "2g")
        # What outlives a reboot has an entry of its own.
        kinds = {json.loads(path.read_text())["kind"] for path in undo.journal_dir().glob("*.json")}
        assert kinds == {"knobs", "files of knobs"}
    assert everything(folder) == before
    assert (folder / "service.conf").stat().st_mode & 0o777 == 0o640


def test_after_a_reboot_files_are_put_back_and_the_kernel_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The two files stand for some of the kernel.
    monkeypatch.setattr(application, "is_ordinary", lambda path: False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "machine"
    folder.mkdir()
    numbers, cache = two_places(folder)
    before = everything(folder)
    whole = applied([*numbers.writes("256"), *cache.writes("2g")], name="test")
    whole.__enter__()
    # The reboot: the kernel begins anew, the file stays as it was, the journal is of another boot.
    (folder / "one").write_text("32")
    (folder / "two").write_text("32")
    for path in undo.journal_dir().glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "boot_id": "another"}))
    lines = undo.replay()
    assert [line for line in lines if str(folder / "service.conf") in line] == lines
    assert (folder / "service.conf").read_bytes() == before["service.conf"]
    assert (numbers.read(), len(lines)) == ("32", 1)
    assert not list(undo.journal_dir().glob("*.json"))


def test_an_entry_is_on_disk_with_its_name_before_a_change_is_made(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power keeps what was synchronised: the content, and then the folder that has its name."""
    seen: list[str] = []
    sync, rename, write = os.fsync, Path.rename, FileCell.write

    def synchronise(descriptor: int) -> None:
        seen.append(f"sync {os.readlink(f'/proc/self/fd/{descriptor}')}")
        sync(descriptor)

    def name(path: Path, target: Path) -> Path:
        seen.append(f"name {target}")
        return rename(path, target)

    def change(cell: FileCell, text: str) -> None:
        seen.append(f"write {cell.path}")
        write(cell, text)

    monkeypatch.setattr(os, "fsync", synchronise)
    monkeypatch.setattr(Path, "rename", name)
    monkeypatch.setattr(FileCell, "write", change)
    folder = undo.journal_dir()
    knob = knob_of(machine, "dirty_ratio")
    with applied(knob.writes("40"), name="test"):
        # The folder is new with those above it: their own names have to be on disk too.
        assert seen == [
            *(f"sync {above}" for above in list(folder.parents)[:3]),
            f"sync {folder / 'test-knobs.partial'}",
            f"name {folder / 'test-knobs.json'}",
            f"sync {folder}",
            f"write {machine / 'proc/sys/vm/dirty_ratio'}",
        ]


def test_a_whole_file_longer_than_the_journal_takes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "long"
    path.write_text("x" * (1 << 17))
    with pytest.raises(RefusedError, match="longer than"), applied([(WholeFile(path), "short")], name="test"):
        pytest.fail("it was not refused")
    assert path.stat().st_size == 1 << 17


def test_a_program_in_the_place_of_ethtool_speaks_as_it_does() -> None:
    """The labels that the knobs look for are those of the real one, where it has an interface to ask."""
    words = ["sh", "-c", "ethtool -g eth0 && ethtool -c eth0"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no ethtool, or no eth0 that answers it")
    assert "Current hardware settings:" in done.stdout
    assert "\nRX:" in done.stdout
    assert "\nrx-usecs:" in done.stdout
