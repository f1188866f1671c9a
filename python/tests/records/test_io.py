"""Writing records: whole or not at all, and never in a device's place."""

import stat
from pathlib import Path

import pytest

from steelyard._base import WorkloadFailedError
from steelyard.machine import snapshot
from steelyard.records import Machine, read, write


def test_a_device_is_written_into_and_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    write(snapshot(), link)
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)
    assert list(tmp_path.iterdir()) == [link]


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    machine = snapshot()
    write(machine, path)
    write(machine, path)
    assert read(Machine, path) == machine
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WorkloadFailedError, match="cannot be written"):
        write(snapshot(), tmp_path / "nowhere" / "machine.json")
