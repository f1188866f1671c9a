"""Which processor a machine has, by the numbers that definitions of events are chosen by.

In: a tree. Out: an identifier as perf writes it (``PERF_CPUID``): vendor, family, model and stepping on x86,
the main ID register on Arm. ``CpuIdentity`` reads it back.

Not here: which events a processor has (``analyze.counters.definitions``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from steelyard.machine.tree import Tree, keyed

_MIDR = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"


@dataclass(frozen=True)
class CpuIdentity:
    """A processor's numbers: those of x86, or those of Arm's main ID register."""

    vendor: str = ""
    family: int = 0
    model: int = 0
    stepping: int = 0
    implementer: int | None = None
    part: int | None = None
    variant: int | None = None
    revision: int | None = None


def cpu_identifier(tree: Tree) -> str | None:
    """Return the first processor's identifier, None where the tree does not report it."""
    facts = keyed((tree.text("proc/cpuinfo") or "").split("\n\n")[0])
    vendor, numbers = facts.get("vendor_id"), [facts.get(key) for key in ("cpu family", "model", "stepping")]
    if vendor and vendor.isalnum() and all(number and number.isdecimal() for number in numbers):
        family, model, stepping = (int(number or 0) for number in numbers)
        return f"{vendor}-{family}-{model:X}-{stepping:X}"
    register = tree.text(_MIDR)
    if register and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", register):
        return f"{int(register, 16):#018x}"
    parts = [facts.get(f"CPU {key}") for key in ("implementer", "variant", "part", "revision")]
    try:
        implementer, variant, part, revision = (int(number or "", 0) for number in parts)
    except ValueError:
        return None
    if not (0 <= implementer < 256 and 0 <= variant < 16 and 0 <= part < 4096 and 0 <= revision < 16):
        return None
    # Arm ARM, MIDR_EL1; the architecture field reads 0xf: see the ID registers.
    return f"{implementer << 24 | variant << 20 | 0xF << 16 | part << 4 | revision:#018x}"


def read_identifier(identifier: str) -> CpuIdentity | None:
    """Return the numbers of an identifier, None for any other text.

    >>> intel = read_identifier("GenuineIntel-6-55-7")
    >>> intel.vendor, intel.family, intel.model, intel.stepping
    ('GenuineIntel', 6, 85, 7)
    >>> hex(read_identifier("0x00000000413fd0c1").part)
    '0xd0c'
    """
    match = re.fullmatch(r"(\w+)-([0-9]{1,6})-([0-9A-Fa-f]{1,4})(?:-([0-9A-Fa-f]{1,4}))?", identifier)
    if match:
        return CpuIdentity(match[1], int(match[2]), int(match[3], 16), int(match[4] or "0", 16))
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", identifier):
        register = int(identifier, 16)
        return CpuIdentity(
            implementer=register >> 24 & 0xFF,
            variant=register >> 20 & 0xF,
            part=register >> 4 & 0xFFF,
            revision=register & 0xF,
        )
    return None
