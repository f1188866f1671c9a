"""Readers of single parts, on any bytes and beside what other programs say of this machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.machine import buses, dimms, ethtool, processor, snapshot
from steelyard.machine.tree import Tree
from steelyard.records import LinkSettings

from .trees import memory_device, write_tree


def dmi(table: bytes) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sys/firmware/dmi/tables/DMI"
        path.parent.mkdir(parents=True)
        path.write_bytes(table)
        return [one.locator for one in dimms.dimms(Tree(folder))[0]]


@given(st.binary(max_size=400) | st.lists(st.binary(max_size=60)).map(lambda parts: b"\x11\x22".join(parts)))
def test_any_bytes_are_a_table(table: bytes) -> None:
    dmi(table)


@given(
    st.lists(st.tuples(st.sampled_from(["A1", "B2"]), st.integers(0, 512)), max_size=6), st.integers(0, 40)
)
def test_modules_are_found_wherever_the_table_is_cut(slots: list[tuple[str, int]], cut: int) -> None:
    parts = [memory_device(name, size, 4800, 4800) for name, size in slots]
    end = bytes([127, 4, 0, 0, 0, 0])
    assert dmi(b"".join(parts) + end + b"\x11garbage") == [name for name, _ in slots]
    found = dmi(b"".join(parts)[: max(0, sum(map(len, parts)) - cut)])
    assert found == [name for name, _ in slots][: len(found)]


def test_sizes_and_rates_in_their_longer_fields(tmp_path: Path) -> None:
    for size_gib in (1, 16, 32, 256):
        folder = tmp_path / str(size_gib)
        path = folder / "sys/firmware/dmi/tables/DMI"
        path.parent.mkdir(parents=True)
        path.write_bytes(memory_device("A1", size_gib, 8800, 6400))
        (one,) = dimms.dimms(Tree(folder))[0]
        assert one.size_bytes == size_gib << 30
        assert (one.rated_transfers_per_s, one.configured_transfers_per_s) == (8_800_000_000, 6_400_000_000)


@given(st.text(max_size=200), st.integers(1, 4))
def test_any_text_is_a_table_of_interrupts(text: str, columns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        header = " ".join(f"CPU{cpu}" for cpu in range(columns))
        path = Path(folder) / "proc/interrupts"
        path.parent.mkdir()
        path.write_text(f"{header}\n{text}", encoding="utf-8")
        found, reason = buses.interrupts(Tree(folder))
        assert (found is None) == bool(reason)
        assert found is None or 0 < found.busiest_ratio <= 1


def test_interrupts_of_devices_only(tmp_path: Path) -> None:
    text = "     CPU0 CPU2\n 9:  1 0 IO-APIC acpi\n 30: 0 99 PCI-MSI eth0-rx\nLOC: 5000 5000 timer\nERR: 0\n"
    found, _ = buses.interrupts(Tree(write_tree(tmp_path, {"proc/interrupts": text})))
    assert found is not None
    assert (found.total, found.busiest_cpu, found.busiest_ratio, found.serving_cpus) == (100, 2, 0.99, 2)


def test_guest_time_is_not_counted_twice(tmp_path: Path) -> None:
    tree = Tree(write_tree(tmp_path, {"proc/stat": "cpu  50 0 0 40 0 0 0 10 50 0\n"}))
    assert processor.steal_ratio(tree) == pytest.approx(0.1)
    (tmp_path / "proc/stat").write_text("cpu  50 0 0 40\n")
    assert processor.steal_ratio(tree) is None


def test_the_kernel_tells_of_its_interfaces_or_why_not() -> None:
    link = ethtool.settings("lo")
    assert isinstance(link, LinkSettings | str)
    if isinstance(link, LinkSettings):
        assert set(link.offloads) <= set(ethtool.OFFLOADS)
        assert set(link.offloads.values()) <= {"on", "off", "on [fixed]", "off [fixed]"}
        # Without a device there are no rings: null, and not the zeros that drivers answer.
        assert link.receive_ring is None
    assert isinstance(ethtool.settings("no-such-card"), str)
    assert isinstance(ethtool.settings("a-name-that-is-too-long"), str)


def test_this_machine_has_the_offloads_that_ethtool_says() -> None:
    if shutil.which("ethtool") is None:
        pytest.skip("ethtool is not installed")
    for card in snapshot().interfaces:
        if card.settings is None or not card.settings.offloads:
            continue
        text = subprocess.run(["ethtool", "-k", card.name], capture_output=True, text=True, check=True).stdout
        said = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line)
        names = {"rx-checksum": "rx-checksumming", "rx-gro": "generic-receive-offload"}
        names |= {"rx-lro": "large-receive-offload", "rx-hashing": "receive-hashing"}
        names |= {"tx-generic-segmentation": "generic-segmentation-offload"}
        for name, state in card.settings.offloads.items():
            assert said[names.get(name, name)].removesuffix(" [requested on]") == state, name
