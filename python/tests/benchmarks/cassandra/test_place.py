"""Where a node's data and commit log lie: beside each other, or on two disks."""

import os
from functools import partial

from steelyard.bench.stack import disks as disks_module
from steelyard.benchmarks.cassandra import place as place_module
from steelyard.benchmarks.cassandra.benchmark import CassandraBench
from steelyard.benchmarks.cassandra.place import place_of
from tests.benchmarks.cassandra.test_cassandra import ONE, settings


def machine_with_disks(monkeypatch, tmp_path, **disks):
    """Make a tree of /proc and /sys with a file system for each name, whose value is its device in /sys."""
    root = tmp_path / "tree"
    (root / "proc/self").mkdir(parents=True)
    (root / "sys/dev/block").mkdir(parents=True)
    lines = []
    for number, (name, device) in enumerate(disks.items()):
        folder = tmp_path / name.replace("_", " ")
        folder.mkdir()
        place = root / "sys/devices" / device.strip("!")
        place.mkdir(parents=True, exist_ok=True)
        if "/" in device:
            (place / "partition").write_text("1")
        (root / "sys/dev/block" / f"8:{number}").symlink_to(place)
        options = "ro" if device.endswith("!") else "rw"
        point = str(folder).replace(" ", "\\040")
        lines.append(f"{number + 30} 1 8:{number} / {point} {options},relatime shared:1 - ext4 /dev/x rw")
    (root / "proc/self/mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(place_module, "other_disks", partial(disks_module.other_disks, root=root))
    return root


def test_the_log_finds_another_disk(monkeypatch, tmp_path):
    machine_with_disks(
        monkeypatch,
        tmp_path,
        data="sda/sda1",
        same="sda/sda2",
        second_disk="sdb",
        locked="sdc!",
        file="loop3",
    )
    chosen = settings(data=str(tmp_path / "data"))
    beside = place_of(chosen)
    assert beside.folders(tmp_path) == (tmp_path / "data", tmp_path / "data")
    assert [disk.folder for disk in beside.others] == [tmp_path / "second disk"]
    assert "second disk is another disk (sdb): --set commit_log=auto" in beside.advice
    assert CassandraBench.footprint(chosen, placement=ONE).advice == beside.advice
    chosen = settings(data=str(tmp_path / "data"), commit_log="auto")
    auto = place_of(chosen)
    assert auto.folders(tmp_path) == (tmp_path / "data", tmp_path / "second disk")
    assert auto.advice == ""
    data, log = CassandraBench.footprint(chosen, placement=ONE).disks
    assert (data.folder, log.folder) == (tmp_path / "data", tmp_path / "second disk")
    assert log.size_bytes > chosen.count("records") * 1000


def test_disks_of_a_raid_are_no_other_disk(monkeypatch, tmp_path):
    root = machine_with_disks(monkeypatch, tmp_path, data="md0", other="sdb/sdb1")
    slaves = root / "sys/devices/md0/slaves"
    slaves.mkdir()
    (slaves / "sdb2").symlink_to(root / "sys/devices/sdb/sdb2")
    (root / "sys/devices/sdb/sdb2").mkdir()
    (root / "sys/devices/sdb/sdb2/partition").write_text("2")
    auto = place_of(settings(data=str(tmp_path / "data"), commit_log="auto"))
    assert auto.others == ()
    assert auto.folders(tmp_path) == (tmp_path / "data", tmp_path / "data")
    assert "no other disk has room for the log" in auto.check(tmp_path).claim


def test_a_log_beside_the_data_is_on_their_disk(tmp_path):
    """Not on that of the run's directory, which may be another."""
    place = place_of(settings(data=str(tmp_path / "data"), commit_log=""), tmp_path / "run")
    assert place.folders(tmp_path / "run") == (tmp_path / "data", tmp_path / "data")
    own = place_of(settings(commit_log=str(tmp_path / "log")), tmp_path / "run")
    assert own.folders(tmp_path / "run") == (tmp_path / "run", tmp_path / "log")
    assert place_of(settings(records="90000000000")).commit_log_bytes == 8 << 30


def test_this_machine_can_be_asked(tmp_path):
    for disk in disks_module.other_disks(tmp_path, 1):
        assert disk.folder.is_dir()
        assert os.stat(disk.folder).st_dev != os.stat(tmp_path).st_dev
