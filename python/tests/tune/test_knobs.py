"""Knobs of a made-up machine: what is found, written, read back and put back; what is lacking, and why."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.bench import undo
from steelyard.tune import changes
from steelyard.tune.cells import CommandCell, FileCell, cell_at
from steelyard.tune.changes import RefusedError, applied, apply_and_keep
from steelyard.tune.knobs import Knob, find
from steelyard.tune.trials import writes_of
from tests.tune.machines import everything, make_machine, register, write_register


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return make_machine(tmp_path / "machine")


def knobs_of(root: Path) -> dict[str, Knob]:
    return {knob.name: knob for knob in find(root)[0]}


def values(text: bytes) -> bytes:
    """Return the content without what a kernel does not keep: a newline, a list of choices, leading zeros."""
    return text.strip()


def test_every_knob_of_the_paper_is_found(machine: Path) -> None:
    knobs = knobs_of(machine)
    of_the_paper = {
        "core_frequency",
        "uncore_frequency",
        "cpus",
        "code_data_ways",
        "prefetchers",
        "thp_enabled",
    }
    of_the_paper |= {"huge_pages_2MiB", "huge_pages_2MiB_node0"}
    assert of_the_paper <= set(knobs)
    beyond = {"governor", "energy_preference", "boost", "idle_limit", "smt", "numa_balancing", "base_slice"}
    assert beyond | {"interrupt_cpus_eth0", "rps_eth0", "dirty_ratio", "online_cpus", "thp_defrag"} <= set(
        knobs
    )
    assert knobs["prefetchers"].read() == "all"
    assert knobs["code_data_ways"].read() == "11+11"
    assert "6+5" in knobs["code_data_ways"].levels
    assert knobs["idle_limit"].read() == "C6"
    assert knobs["cpus"].levels == ("1", "2", "3", "4")
    # What the hardware keeps: the driver would write 1400000 for 1450000, and the read-back would differ.
    assert knobs["uncore_frequency"].levels == ("1200000", "1400000", "1700000", "2000000", "2200000")
    assert knobs["core_frequency"].levels == ("1600000", "1800000", "1900000", "2000000", "2200000")
    assert {name for name, knob in knobs.items() if knob.needs_reboot} == {
        "boot_mitigations",
        "boot_default_hugepagesz",
        "boot_idle",
    }
    assert knobs["boot_mitigations"].read() == "off"


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("thp_enabled", "always"),
        ("huge_pages_2MiB", "300"),
        ("prefetchers", "none"),
        ("prefetchers", "l1-ip"),
        ("core_frequency", "1800000"),
        ("uncore_frequency", "1400000"),
        ("uncore_frequency", "2100000"),
        ("code_data_ways", "6+5"),
        ("governor", "performance"),
        ("energy_preference", "performance"),
        ("boost", "off"),
        ("idle_limit", "C1"),
        ("smt", "off"),
        ("online_cpus", "2"),
        ("rps_eth0", "all"),
        ("interrupt_cpus_eth0", "spread"),
        ("base_slice", "1500000"),
        ("dirty_ratio", "15"),
        ("dirty_background_ratio", "5"),
        ("thp_defrag", "defer+madvise"),
        ("numa_balancing", "0"),
        ("huge_pages_2MiB_node1", "164"),
        ("sched_autogroup", "1"),
    ],
)
def test_a_knob_takes_its_level_and_gets_its_value_back(machine: Path, name: str, level: str) -> None:
    knob = knobs_of(machine)[name]
    assert knob.check(level) == level
    before, found = everything(machine), knob.read()
    with applied(knob.writes(level), name="test"):
        # A made-up file holds what was written; the kernel's would show all choices.
        assert knob.read() == level
        assert everything(machine) != before
        assert list(undo.journal_dir().glob("*.json"))
    assert knob.read() == found
    after = everything(machine)
    assert {path for path in before if values(before[path]) != values(after[path])} <= {
        "sys/kernel/mm/transparent_hugepage/enabled",
        "sys/kernel/mm/transparent_hugepage/defrag",
    }
    assert not list(undo.journal_dir().glob("*.json"))


def test_other_bits_of_a_register_stay(machine: Path) -> None:
    with applied(knobs_of(machine)["prefetchers"].writes("none"), name="test"):
        assert {register(machine, cpu, 0x1A4) for cpu in range(4)} == {0x3F}
    assert {register(machine, cpu, 0x1A4) for cpu in range(4)} == {0x30}


def test_cores_differ_and_each_gets_its_own_value_back(machine: Path) -> None:
    paths = [machine / f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor" for cpu in range(4)]
    paths[3].write_text("performance\n")
    knob = knobs_of(machine)["governor"]
    assert knob.read() == "powersave,performance"
    with applied(knob.writes("performance"), name="test"):
        assert knob.read() == "performance"
    assert [path.read_text().strip() for path in paths] == ["powersave"] * 3 + ["performance"]


def test_code_and_data_share_no_way_in_a_split(machine: Path) -> None:
    with applied(knobs_of(machine)["code_data_ways"].writes("6+5"), name="test"):
        assert (
            machine / "sys/fs/resctrl/schemata"
        ).read_text() == "    MB:0=100\nL3CODE:0=7c0\nL3DATA:0=3f\n"


@pytest.mark.parametrize(
    ("name", "level", "allowed"),
    [
        ("thp_enabled", "sometimes", "always|madvise|never"),
        ("core_frequency", "9000000", "1600000..2200000"),
        ("core_frequency", "1850000", "1600000..2200000 in steps of 100000"),
        ("uncore_frequency", "1450000", "1200000..2200000 in steps of 100000"),
        ("huge_pages_2MiB", "-1", "0.."),
        ("cpus", "5", "1..4"),
        ("prefetchers", "l3", "all|none"),
        ("dirty_ratio", "95", "1..90"),
    ],
)
def test_a_level_out_of_range_is_refused(machine: Path, name: str, level: str, allowed: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={level}: allowed is") as caught:
        knobs_of(machine)[name].check(level)
    assert allowed in caught.value.message


def reasons(root: Path) -> dict[str, str]:
    return {lack.name: lack.reason for lack in find(root)[1]}


def test_what_is_lacking_says_why(machine: Path) -> None:
    assert reasons(machine)["cache_ways"] == "resctrl is mounted with cdp"
    (machine / "sys/fs/resctrl/schemata").unlink()
    assert reasons(machine)["code_data_ways"].startswith("resctrl is not mounted: mount -t resctrl")
    (machine / "proc/cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t: fpu\n")
    assert reasons(machine)["cache_ways"] == "the processor's flags have no cat_l3"
    (machine / "sys/kernel/debug/sched/base_slice_ns").unlink()
    assert "debugfs is not mounted" in reasons(machine)["base_slice"]
    (machine / "sys/devices/system/cpu/smt/control").write_text("notsupported\n")
    assert "control: notsupported" in reasons(machine)["smt"]


def test_a_register_that_cannot_be_read_is_lacking(machine: Path) -> None:
    for cpu in range(4):
        (machine / f"dev/cpu/{cpu}/msr").write_bytes(b"")
    assert reasons(machine)["prefetchers"].startswith("register 0x1a4 cannot be read")
    (machine / "proc/cpuinfo").write_text("vendor_id\t: GenuineArm\n")
    assert "known for Intel and AMD" in reasons(machine)["prefetchers"]


def test_an_empty_machine_has_no_knobs(tmp_path: Path) -> None:
    knobs, lacking = find(tmp_path)
    assert knobs == []
    assert all(lack.reason for lack in lacking)


def test_a_silent_refusal_is_noticed_and_everything_put_back(machine: Path) -> None:
    knob = knobs_of(machine)["dirty_ratio"]
    # It takes a value and keeps its own, as a kernel does that refuses silently.
    stubborn = CommandCell(("true", "{}"), ("echo", "old"))
    with (
        pytest.raises(RefusedError, match="refuses 'new' silently: it reads 'old'"),
        applied([*knob.writes("40"), (stubborn, "new")], name="test"),
    ):
        pass
    assert knob.read() == "20"


def test_hotplug_that_is_refused_leaves_the_machine_as_it_was(machine: Path) -> None:
    knob = knobs_of(machine)["online_cpus"]
    last = machine / "sys/devices/system/cpu/cpu3/online"
    last.unlink()
    last.symlink_to("/proc/self/mem")
    before = knob.writes("1")
    assert len(before) == 3
    with pytest.raises(RefusedError, match="cpu3/online"), applied(before, name="test"):
        pass
    for cpu in (1, 2):
        assert (machine / f"sys/devices/system/cpu/cpu{cpu}/online").read_text().strip() == "1"


@pytest.mark.skipif(not os.access("/dev/full", os.W_OK), reason="no /dev/full")
def test_a_write_that_fails_names_the_place(machine: Path) -> None:
    with (
        pytest.raises(RefusedError, match="/dev/full refuses '1'"),
        applied([(FileCell(Path("/dev/full")), "1")], name="test"),
    ):
        pass


def test_what_was_kept_is_restored_the_last_first(machine: Path) -> None:
    knobs = knobs_of(machine)
    before = everything(machine)
    apply_and_keep(writes_of(knobs, {"dirty_ratio": "40", "prefetchers": "none"}), name="one", root=machine)
    apply_and_keep(writes_of(knobs, {"dirty_ratio": "15"}), name="two", root=machine)
    assert undo.replay() == []
    assert knobs["dirty_ratio"].read() == "15"
    lines = undo.undo_kept()
    assert len(lines) == 2
    assert all(line.startswith(undo.UNDID) for line in lines)
    assert {path: values(text) for path, text in everything(machine).items()} == {
        path: values(text) for path, text in before.items()
    }
    assert undo.undo_kept() == []


def test_an_address_leads_back_to_its_cell(machine: Path) -> None:
    for knob in knobs_of(machine).values():
        for level in knob.levels[:1]:
            for cell, _ in knob.writes(level):
                if cell.outlives:
                    assert cell_at(cell.address) == cell
    with pytest.raises(OSError, match="no place that this version"):
        cell_at("tape:/dev/st0")


def test_a_register_that_changed_its_mind_is_reported(machine: Path) -> None:
    knob = knobs_of(machine)["prefetchers"]
    with (
        pytest.raises(changes.WorkloadFailedError, match="cannot be put back"),
        applied(knob.writes("none"), name="x"),
    ):
        shutil.rmtree(machine / "dev/cpu")
    assert list(undo.journal_dir().glob("*.json")), "the entry stays for another try"
    for cpu in range(4):
        write_register(machine, cpu, 0x1A4, 0x3F)
    entry = next(undo.journal_dir().glob("*.json"))
    entry.write_text(entry.read_text().replace(f'"pid": {os.getpid()}', '"pid": 4194303'))
    assert len(undo.replay()) == 1
    assert register(machine, 0, 0x1A4) == 0x30
