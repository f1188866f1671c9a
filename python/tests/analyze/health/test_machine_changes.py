"""What was lost of a machine alerts, what only changed is noted."""

from typing import Any

import pytest

from steelyard._base import schemas_dir
from steelyard.analyze.health.machine_changes import changes
from steelyard.records import Disk, Interface, Machine, read


@pytest.fixture(scope="module")
def machine() -> Machine:
    found = read(Machine, schemas_dir() / "golden" / "machine.json")
    link = Interface(name="eth9", driver="mlx5_core", speed_bits_per_s=25_000_000_000)
    return found.model_copy(update={"interfaces": [link], "disks": [Disk(name="nvme9n1", model="X")]})


def test_nothing_changed_is_nothing_reported(machine: Machine) -> None:
    assert changes(machine, machine) == ([], [])


def _with(machine: Machine, part: str, **update: Any) -> Machine:
    return machine.model_copy(update={part: getattr(machine, part).model_copy(update=update)})


def test_losses_alert(machine: Machine) -> None:
    cpus = machine.cpu.logical_cpus
    slow = [machine.interfaces[0].model_copy(update={"speed_bits_per_s": 10_000_000_000})]
    for lost, name, words in (
        (
            _with(machine, "cpu", logical_cpus=cpus - 1),
            "machine-logical-cpus",
            f"{cpus - 1}; there were {cpus}",
        ),
        (_with(machine, "memory", total_bytes=machine.memory.total_bytes * 3 // 4), "machine-memory", "GiB"),
        (machine.model_copy(update={"disks": []}), "machine-disk-nvme9n1", "is gone"),
        (machine.model_copy(update={"interfaces": []}), "machine-link-eth9", "is gone"),
        (machine.model_copy(update={"interfaces": slow}), "machine-link-eth9", "10 Gbit/s; it was 25 Gbit/s"),
        (_with(machine, "cpu", model="Another CPU"), "machine-processor", "Another CPU"),
    ):
        alerts, _ = changes(lost, machine)
        assert [alert.id for alert in alerts] == [name]
        assert words in alerts[0].claim
        assert alerts[0].meaning


def test_gains_and_a_kernel_that_reserves_a_little_more_do_not(machine: Machine) -> None:
    more = _with(machine, "cpu", logical_cpus=machine.cpu.logical_cpus + 2)
    assert changes(more, machine)[0] == []
    reserved = _with(machine, "memory", total_bytes=int(machine.memory.total_bytes * 0.99))
    assert changes(reserved, machine)[0] == []


def test_settings_are_notes(machine: Machine) -> None:
    other = _with(machine, "kernel", release="99.1", sysctl={**machine.kernel.sysctl, "vm.swappiness": "1"})
    alerts, notes = changes(other, machine)
    assert alerts == []
    assert any(note.startswith("kernel changed:") and note.endswith("99.1") for note in notes)
    assert any("vm.swappiness" in note for note in notes)
