"""A processor's identifier, from /proc/cpuinfo of x86 and of Arm, and from the ID register."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.machine.identity import CpuIdentity, cpu_identifier, read_identifier
from steelyard.machine.tree import Tree

X86 = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: X\nstepping\t: 8\n"
ARM = (
    "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"
    "CPU revision\t: 1\n\nprocessor\t: 1\nCPU implementer\t: 0x42\n"
)


def identifier_of(root: Path, cpuinfo: str | None, register: str | None = None) -> str | None:
    if cpuinfo is not None:
        (root / "proc").mkdir(parents=True, exist_ok=True)
        (root / "proc/cpuinfo").write_text(cpuinfo, encoding="utf-8", errors="replace")
    if register is not None:
        folder = root / "sys/devices/system/cpu/cpu0/regs/identification"
        folder.mkdir(parents=True)
        (folder / "midr_el1").write_text(register)
    return cpu_identifier(Tree(root))


@pytest.mark.parametrize(
    ("cpuinfo", "register", "expected"),
    [
        (X86, None, "GenuineIntel-6-8F-8"),
        (X86.replace("GenuineIntel", "AuthenticAMD").replace(": 6", ": 25"), None, "AuthenticAMD-25-8F-8"),
        (ARM, None, "0x00000000413fd0c1"),
        (ARM, "0x00000000410fd490\n", "0x00000000410fd490"),
        ("processor : 0\nvendor : GenuineIntel\nfamily : 31\n", None, None),
        (X86.replace("143", "x"), None, None),
        (X86.replace("GenuineIntel", "../../etc"), None, None),
        (ARM.replace("0xd0c", "0xfffff"), None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_identifiers(tmp_path: Path, cpuinfo: str | None, register: str | None, expected: str | None) -> None:
    assert identifier_of(tmp_path, cpuinfo, register) == expected


def test_identifiers_read_back() -> None:
    assert read_identifier("AuthenticAMD-25-11-1") == CpuIdentity("AuthenticAMD", 25, 0x11, 1)
    arm = read_identifier("0x00000000413fd0c1")
    assert arm is not None
    assert (arm.implementer, arm.variant, arm.part, arm.revision) == (0x41, 3, 0xD0C, 1)
    for text in ("", "GenuineIntel", "GenuineIntel-6", "GenuineIntel-6-XY", "0xzz", "0x" + "1" * 17):
        assert read_identifier(text) is None


@given(st.text())
def test_any_text_is_an_identifier_or_none(text: str) -> None:
    read_identifier(text)
