"""Names of processors that are not here: their /proc/cpuinfo in the kernel's own forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.machine.compare import compare_machines
from steelyard.machine.models import architecture, generation, model_name
from steelyard.machine.platform import hypervisor
from steelyard.machine.snapshot import snapshot
from steelyard.machine.tree import Tree, keyed

from .trees import write_tree

_DMI, _SOC = "sys/class/dmi/id/sys_vendor", "sys/bus/soc/devices/soc0/soc_id"


def _arm(*kinds: tuple[int, str], implementer: str = "0x41") -> str:
    parts = [part for count, part in kinds for _ in range(count)]
    return "\n\n".join(
        f"processor\t: {cpu}\nCPU implementer\t: {implementer}\nCPU architecture: 8\nCPU part\t: {part}"
        for cpu, part in enumerate(parts)
    )


def _x86(*kinds: tuple[int, str, int]) -> str:
    named = [(model, stepping) for count, model, stepping in kinds for _ in range(count)]
    return "\n\n".join(
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: {model}\nstepping\t: {stepping}"
        for cpu, (model, stepping) in enumerate(named)
    )


NAMES = (
    (_arm((10, "0xd85"), (10, "0xd87")), {}, "10 × Arm Cortex-X925 + 10 × Arm Cortex-A725"),
    (
        _arm((2, "0xd46"), (3, "0xd4d"), (2, "0xd47"), (1, "0xd4e")),
        {},
        "2 × Arm Cortex-A510 + 3 × Arm Cortex-A715 + 2 × Arm Cortex-A710 + 1 × Arm Cortex-X3",
    ),
    (_arm((4, "0xd49"), implementer="0x6d"), {}, "Microsoft Azure Cobalt 100 (Arm Neoverse-N2)"),
    (_arm((4, "0xd4f")), {_DMI: "Amazon EC2"}, "AWS Graviton4 (Arm Neoverse-V2)"),
    (_arm((4, "0xd40")), {_DMI: "Amazon EC2"}, "AWS Graviton3 (Arm Neoverse-V1)"),
    (_arm((4, "0xd4f")), {_DMI: "Google"}, "Google Axion (Arm Neoverse-V2)"),
    (_arm((4, "0xd4f")), {_SOC: "jep106:036b:0241"}, "NVIDIA Grace (Arm Neoverse-V2)"),
    (_arm((4, "0xd4f")), {}, "Arm Neoverse-V2"),
    (_arm((4, "0x123")), {}, "implementer 0x41 part 0x123"),
    (_x86((4, "Xeon A", 4)), {}, "Xeon A"),
    (_x86((2, "Xeon A", 4), (2, "Xeon B", 4)), {}, "2 × Xeon A + 2 × Xeon B"),
    (_x86((2, "Xeon A", 4), (2, "Xeon A", 7)), {}, "2 × Xeon A (stepping 4) + 2 × Xeon A (stepping 7)"),
    ("system type : generic\n\nprocessor : 0\nModel Name : Loongson-3C5000L", {}, "Loongson-3C5000L"),
    ("processor : 0\nhart : 1\nisa : rv64imafdc\nmmu : sv39\nuarch : sifive,u74-mc", {}, "sifive,u74-mc"),
    (
        "processor : 0\nisa : rv64imafdcv\nmvendorid : 0x5b7\nmarchid : 0x0\nmimpid : 0x0",
        {},
        "RISC-V, mvendorid 0x5b7 marchid 0x0",
    ),
    (
        "vendor_id : IBM/S390\n# processors : 1\n"
        "processor 0: version = FF,  identification = 1C2AB8,  machine = 8561",
        {},
        "IBM z15 (8561)",
    ),
    ("processor : 0\ncpu : POWER9, altivec supported\nclock : 2.1", {}, "POWER9, altivec supported"),
)  # fmt: skip


@pytest.mark.parametrize(("cpuinfo", "files", "name"), NAMES, ids=[name for *_, name in NAMES])
def test_processors_have_names(cpuinfo: str, files: dict[str, str], name: str, tmp_path: Path) -> None:
    assert model_name(Tree(write_tree(tmp_path, {"proc/cpuinfo": cpuinfo + "\n", **files}))) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor : 0\nisa : rv64imafdc", "riscv64"),
        ("CPU Family : Loongson-64bit\nModel Name : Loongson-3A5000", "loongarch64"),
        ("vendor_id : IBM/S390", "s390x"),
        ("cpu : POWER9 (raw)", "ppc64le"),
        ("flags : fpu lm", "x86_64"),
    ],
)
def test_architectures_follow_from_their_fields(text: str, name: str) -> None:
    assert architecture(keyed(text)) == name


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        ("AuthenticAMD-26-2-1", "Turin"),
        ("AuthenticAMD-26-11-0", "Turin Dense"),
        ("AuthenticAMD-25-11-1", "Genoa"),
        ("AuthenticAMD-23-31-0", "Rome"),
        ("GenuineIntel-6-AD-1", "Granite Rapids"),
        ("GenuineIntel-6-AF-3", "Sierra Forest"),
        ("GenuineIntel-6-55-4", "Skylake-SP"),
        ("GenuineIntel-6-55-B", "Cooper Lake"),
        ("GenuineIntel-6-97-2", None),
        ("0x00000000413fd0c1", None),
        (None, None),
    ],
)
def test_generations_follow_from_model_numbers(identifier: str | None, name: str | None) -> None:
    assert generation(identifier) == name


def test_machines_differ_by_their_second_processor(tmp_path: Path) -> None:
    online = {"sys/devices/system/cpu/online": "0-3"}
    same = write_tree(tmp_path / "a", {**online, "proc/cpuinfo": _x86((4, "Xeon A", 4))})
    other = write_tree(tmp_path / "b", {**online, "proc/cpuinfo": _x86((2, "Xeon A", 4), (2, "Xeon A", 7))})
    found = compare_machines(snapshot(same), snapshot(other))
    assert [one for one in found.differences if "stepping 7" in str(one)]
    revised = {f"sys/devices/system/cpu/cpu{cpu}/microcode/version": f"0x{cpu // 2 + 1}" for cpu in range(4)}
    revised |= {**online, "proc/cpuinfo": _x86((4, "Xeon A", 4))}
    microcode = snapshot(write_tree(tmp_path / "c", revised)).cpu.microcode
    assert microcode == "0x1 (2 CPUs), 0x2 (2 CPUs)"


@pytest.mark.parametrize(
    ("sysinfo", "name"),
    [
        ("Manufacturer: IBM\nLPAR Number: 12\nLPAR Name: LP1\n", "LPAR"),
        ("LPAR Number: 12\nVM00 Name: LNX1\nVM00 Control Program: z/VM    7.3.0  \n", "z/VM 7.3.0"),
        ("LPAR Number: 12\nVM00 Name: guest\nVM00 Control Program: KVM/Linux       \n", "KVM"),
        ("Manufacturer: IBM\n", None),
    ],
)
def test_what_an_ibm_z_runs_under(sysinfo: str, name: str | None, tmp_path: Path) -> None:
    assert hypervisor(Tree(write_tree(tmp_path, {"proc/sysinfo": sysinfo})), "")[0] == name
