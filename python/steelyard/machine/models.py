"""Names of processors: from /proc/cpuinfo of any architecture, and from numbers where it gives none.

In: a tree. Out: the name of all kinds of processors that a machine has, vendor, architecture, and the
generation that an x86 identifier stands for (clouds show ``AMD EPYC Processor``).

Invariants: a machine of several kinds of cores, or with two processors that differ, names each with its
count.

Not here: how many sockets and cores there are (``topology``), the identifier (``identity``).
Sources: Arm's, Intel's and AMD's documents of part and model numbers; Linux, arch/*/kernel for the fields.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from steelyard.machine.identity import read_identifier
from steelyard.machine.tree import Tree, keyed

ARM_PARTS = {
    ("0x41", "0xd03"): "Arm Cortex-A53",
    ("0x41", "0xd04"): "Arm Cortex-A35",
    ("0x41", "0xd05"): "Arm Cortex-A55",
    ("0x41", "0xd07"): "Arm Cortex-A57",
    ("0x41", "0xd08"): "Arm Cortex-A72",
    ("0x41", "0xd09"): "Arm Cortex-A73",
    ("0x41", "0xd0a"): "Arm Cortex-A75",
    ("0x41", "0xd0b"): "Arm Cortex-A76",
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd0d"): "Arm Cortex-A77",
    ("0x41", "0xd0e"): "Arm Cortex-A76AE",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd41"): "Arm Cortex-A78",
    ("0x41", "0xd42"): "Arm Cortex-A78AE",
    ("0x41", "0xd44"): "Arm Cortex-X1",
    ("0x41", "0xd46"): "Arm Cortex-A510",
    ("0x41", "0xd47"): "Arm Cortex-A710",
    ("0x41", "0xd48"): "Arm Cortex-X2",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4a"): "Arm Neoverse-E1",
    ("0x41", "0xd4b"): "Arm Cortex-A78C",
    ("0x41", "0xd4c"): "Arm Cortex-X1C",
    ("0x41", "0xd4d"): "Arm Cortex-A715",
    ("0x41", "0xd4e"): "Arm Cortex-X3",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0x41", "0xd80"): "Arm Cortex-A520",
    ("0x41", "0xd81"): "Arm Cortex-A720",
    ("0x41", "0xd82"): "Arm Cortex-X4",
    ("0x41", "0xd83"): "Arm Neoverse-V3AE",
    ("0x41", "0xd84"): "Arm Neoverse-V3",
    ("0x41", "0xd85"): "Arm Cortex-X925",
    ("0x41", "0xd87"): "Arm Cortex-A725",
    ("0x41", "0xd8e"): "Arm Neoverse-N3",
    ("0x43", "0x0af"): "Cavium ThunderX2",
    ("0x46", "0x001"): "Fujitsu A64FX",
    ("0x48", "0xd01"): "HiSilicon TaiShan v110 (Kunpeng 920)",
    ("0x4e", "0x004"): "NVIDIA Carmel",
    ("0x6d", "0xd49"): "Microsoft Azure Cobalt 100 (Arm Neoverse-N2)",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1A",
}
"""Names of cores by MIDR implementer and part, as the vendors' reference manuals give them."""

ARM_VENDORS = {
    "0x41": "Arm",
    "0x43": "Cavium",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x51": "Qualcomm",
    "0x61": "Apple",
    "0x6d": "Microsoft",
    "0x70": "Phytium",
    "0xc0": "Ampere",
}

_PRODUCTS = (
    # Core, words in the machine's DMI vendor or its system on a chip's number, the processor's name.
    ("Arm Neoverse-N1", "Amazon EC2", "AWS Graviton2"),
    ("Arm Neoverse-V1", "Amazon EC2", "AWS Graviton3"),
    ("Arm Neoverse-V2", "Amazon EC2", "AWS Graviton4"),
    ("Arm Neoverse-V2", "Google", "Google Axion"),
    ("Arm Neoverse-N3", "Google", "Google Axion"),
    ("Arm Neoverse-V2", "jep106:036b", "NVIDIA Grace"),
    ("Arm Neoverse-V2", "NVIDIA", "NVIDIA Grace"),
    ("Arm Neoverse-N1", "jep106:0a16", "Ampere Altra"),
)

_X86 = {
    ("GenuineIntel", 6): (
        (0x2D, 0x2D, "Sandy Bridge-EP"),
        (0x3E, 0x3E, "Ivy Bridge-EP"),
        (0x3F, 0x3F, "Haswell-EP"),
        (0x4F, 0x4F, "Broadwell-EP"),
        (0x56, 0x56, "Broadwell-DE"),
        (0x6A, 0x6A, "Ice Lake-SP"),
        (0x6C, 0x6C, "Ice Lake-D"),
        (0x8F, 0x8F, "Sapphire Rapids"),
        (0xAD, 0xAE, "Granite Rapids"),
        (0xAF, 0xAF, "Sierra Forest"),
        (0xCF, 0xCF, "Emerald Rapids"),
        (0xDD, 0xDD, "Clearwater Forest"),
    ),
    ("AuthenticAMD", 0x17): ((0x01, 0x01, "Naples"), (0x30, 0x3F, "Rome")),
    ("AuthenticAMD", 0x19): ((0x00, 0x0F, "Milan"), (0x10, 0x1F, "Genoa"), (0xA0, 0xAF, "Bergamo, Siena")),
    ("AuthenticAMD", 0x1A): ((0x00, 0x0F, "Turin"), (0x10, 0x1F, "Turin Dense")),
}
"""Server processors by vendor and family: first and last model, generation."""

_S390 = {
    "2964": "z13",
    "2965": "z13s",
    "3906": "z14",
    "3907": "z14 ZR1",
    "8561": "z15",
    "8562": "z15 T02",
    "3931": "z16",
    "3932": "z16 A02",
    "9175": "z17",
}
"""Machine types of IBM Z."""

_NAMES = ("model name", "Model Name", "Processor", "cpu model", "cpu", "family", "uarch")
_DMI = ("sys_vendor", "product_name", "board_vendor")


def generation(identifier: str | None) -> str | None:
    """Return the generation of an x86 server processor, by its identifier (``machine.identity``).

    >>> [generation(f"GenuineIntel-6-{model}") for model in ("55-7", "AD-1", "AF-3")]
    ['Cascade Lake', 'Granite Rapids', 'Sierra Forest']
    >>> generation("AuthenticAMD-26-2-1")
    'Turin'
    """
    numbers = read_identifier(identifier) if identifier else None
    if numbers is None:
        return None
    if (numbers.vendor, numbers.family, numbers.model) == ("GenuineIntel", 6, 0x55):
        # One model number, distinguished by steppings.
        stepping = numbers.stepping
        return "Skylake-SP" if stepping < 5 else "Cascade Lake" if stepping < 8 else "Cooper Lake"
    for first, last, name in _X86.get((numbers.vendor, numbers.family), ()):
        if first <= numbers.model <= last:
            return name
    return None


def model_name(tree: Tree) -> str | None:
    """Return the processor's name; where processors or cores differ, each name with its number of CPUs."""
    text = tree.text("proc/cpuinfo") or ""
    shared = keyed(text)
    blocks = [block for part in re.split(r"\n\s*\n", text) if "processor" in (block := keyed(part))]
    if len(blocks) < 2:
        return _name(tree, shared)
    kinds: Counter[tuple[str, str]] = Counter()
    for block in blocks:
        name = _name(tree, block)
        if name is not None:
            kinds[name, block.get("stepping", "")] += 1
    if not kinds:
        return _name(tree, shared)
    names = {name for name, _ in kinds}
    if len(kinds) == 1:
        return next(iter(names))
    if len(names) == 1:
        return " + ".join(f"{count} × {name} (stepping {step})" for (name, step), count in kinds.items())
    merged: Counter[str] = Counter()
    for (name, _), count in kinds.items():
        merged[name] += count
    return " + ".join(f"{count} × {name}" for name, count in merged.items())


def _name(tree: Tree, fields: Mapping[str, str]) -> str | None:
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    for key in _NAMES:
        value = fields.get(key)
        # Old Arm kernels name the instruction set, not the processor.
        if value and not value.isdigit() and not (part and value.startswith(("ARMv", "AArch64"))):
            return value
    if implementer and part:
        core = ARM_PARTS.get((implementer.lower(), part.lower()))
        return _product(tree, core) if core else f"implementer {implementer} part {part}"
    return _s390(fields) or _riscv(fields) or fields.get("arch")


def _product(tree: Tree, core: str) -> str:
    marks = [
        tree.first_text(f"sys/class/dmi/id/{name}", f"sys/devices/virtual/dmi/id/{name}") for name in _DMI
    ]
    marks += [tree.text(f"sys/bus/soc/devices/{name}/soc_id") for name in tree.names("sys/bus/soc/devices")]
    for known, mark, product in _PRODUCTS:
        if known == core and any(mark in text for text in marks if text):
            return f"{product} ({core})"
    return core


def _s390(fields: Mapping[str, str]) -> str | None:
    if not fields.get("vendor_id", "").startswith("IBM"):
        return None
    machine = next(
        (match[1] for text in fields.values() if (match := re.search(r"machine = (\w+)", text))), None
    )
    if machine is None:
        return None
    return f"IBM {_S390[machine]} ({machine})" if machine in _S390 else f"IBM machine type {machine}"


def _riscv(fields: Mapping[str, str]) -> str | None:
    numbers = [fields.get(name) for name in ("mvendorid", "marchid", "mimpid")]
    if fields.get("isa") is None:
        return None
    known = [number for number in numbers if number]
    return f"RISC-V, mvendorid {numbers[0]} marchid {numbers[1]}" if len(known) >= 2 else "RISC-V"


def vendor_name(fields: Mapping[str, str]) -> str | None:
    """Return the vendor as the kernel or the implementer code names it."""
    implementer = fields.get("CPU implementer")
    return fields.get("vendor_id") or fields.get("vendor") or ARM_VENDORS.get(implementer or "", implementer)


def architecture(fields: Mapping[str, str]) -> str | None:
    """Return what ``uname -m`` says on a machine with this /proc/cpuinfo, as far as that tells."""
    if "CPU implementer" in fields:
        return "aarch64" if fields.get("CPU architecture") in ("8", "AArch64") else "arm"
    if fields.get("arch") == "IA-64":
        return "ia64"
    isa = fields.get("isa", "")
    if isa.startswith(("rv64", "rv32")):
        return f"riscv{isa[2:4]}"
    if "loongson" in " ".join((fields.get("CPU Family", ""), fields.get("Model Name", ""))).lower():
        return "loongarch64"
    if fields.get("vendor_id", "").startswith("IBM/S390"):
        return "s390x"
    if fields.get("cpu", "").startswith("POWER"):
        return "ppc64le" if "little" in fields.get("byteorder", "little") else "ppc64"
    flags = fields.get("flags", "").split()
    if flags:
        return "x86_64" if "lm" in flags else "i686"
    return None
