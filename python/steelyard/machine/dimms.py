"""Memory modules as the firmware describes them, and the errors that the memory controllers counted.

In: a tree; of a running machine DMI's tables are readable by root only. Out: slots, and why there are none.
The layout is SMBIOS's type 17, "Memory Device" (DMTF DSP0134, section 7.18). Serial numbers are not read.
Bytes that do not fit the layout end the reading; they are no error: firmware is often wrong.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

from steelyard.machine.tree import Tree
from steelyard.records import Dimm

_TABLE = "sys/firmware/dmi/tables/DMI"
_ENTRIES = "sys/firmware/dmi/entries"
_EDAC = "sys/devices/system/edac/mc"
_MEMORY_DEVICE, _END = 17, 127
_LARGEST_TABLE_BYTES = 1 << 20

_TYPES = {
    0x12: "DDR",
    0x13: "DDR2",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x1F: "non-volatile",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
"""DSP0134, table "Memory Device: Type"; types that no server has are left out."""


def dimms(tree: Tree) -> tuple[list[Dimm], str]:
    """Return the slots in the firmware's order, and why there are none where the list is empty."""
    table = _bytes(tree.path(_TABLE))
    if isinstance(table, bytes):
        modules = [dimm for dimm in map(_dimm, _structures(table)) if dimm is not None]
        return modules, "the firmware describes no memory modules"
    entries = tree.names(_ENTRIES, rf"{_MEMORY_DEVICE}-\d+")
    raw = [_bytes(tree.path(f"{_ENTRIES}/{name}/raw")) for name in entries]
    modules = [
        dimm
        for data in raw
        if isinstance(data, bytes)
        for dimm in map(_dimm, _structures(data))
        if dimm is not None
    ]
    if modules:
        return modules, ""
    if isinstance(table, PermissionError) or any(isinstance(answer, PermissionError) for answer in raw):
        return [], "only root may read DMI's tables"
    return [], f"the kernel has no DMI tables here ({_TABLE})"


def errors(tree: Tree) -> tuple[int | None, int | None]:
    """Return the corrected and the uncorrected memory errors since boot, over all memory controllers."""
    controllers = tree.names(_EDAC, r"mc\d+")
    totals = []
    for name in ("ce_count", "ue_count"):
        counts = [tree.number(f"{_EDAC}/{controller}/{name}") for controller in controllers]
        known = [count for count in counts if count is not None]
        totals.append(sum(known) if known else None)
    return totals[0], totals[1]


def _bytes(path: Path) -> bytes | OSError:
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        with path.open("rb") as file:
            return file.read(_LARGEST_TABLE_BYTES)
    except OSError as error:
        return error


def _structures(table: bytes) -> Iterator[tuple[bytes, list[str]]]:
    """Yield each structure's formatted part and its strings."""
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        if length < 4 or at + length > len(table):
            return
        end = table.find(b"\0\0", at + length)
        if end < 0:
            return
        strings = [text.decode("ascii", "replace") for text in table[at + length : end].split(b"\0")]
        yield table[at : at + length], strings
        if kind == _END:
            return
        at = end + 2


def _dimm(structure: tuple[bytes, list[str]]) -> Dimm | None:
    data, strings = structure
    if data[0] != _MEMORY_DEVICE or len(data) < 0x15:
        return None

    def word(offset: int, size: int = 2) -> int | None:
        field = data[offset : offset + size]
        return int.from_bytes(field, "little") if len(field) == size else None

    def string(offset: int) -> str | None:
        number = data[offset] if offset < len(data) else 0
        text = strings[number - 1].strip() if 0 < number <= len(strings) else ""
        return text if text and text.lower() not in ("unknown", "not specified", "none", "no dimm") else None

    ranks = (data[0x1B] & 0x0F) if len(data) > 0x1B else 0
    size = _size_bytes(word(0x0C), word(0x1C, 4))
    has_module = size != 0
    return Dimm(
        locator=string(0x10) or "unnamed",
        bank=string(0x11),
        size_bytes=size,
        type=_TYPES.get(data[0x12]) if has_module else None,
        rated_transfers_per_s=_rate(word(0x15), word(0x54, 4)) if has_module else None,
        configured_transfers_per_s=_rate(word(0x20), word(0x58, 4)) if has_module else None,
        ranks=ranks or None if has_module else None,
        manufacturer=string(0x17) if has_module else None,
        part=string(0x1A) if has_module else None,
    )


def _size_bytes(size: int | None, extended_mib: int | None) -> int | None:
    """Return the bytes: 0 an empty slot, 0xFFFF unknown, 0x7FFF given in the longer field, bit 15 KiB."""
    if size is None or size == 0xFFFF:
        return None
    if size == 0x7FFF:
        return None if extended_mib is None else (extended_mib & 0x7FFFFFFF) << 20
    return (size & 0x7FFF) << 10 if size & 0x8000 else size << 20


def _rate(rate: int | None, extended: int | None) -> int | None:
    """Return transfers per second from MT/s: 0 unknown, 0xFFFF given in the longer field."""
    if rate == 0xFFFF:
        rate = extended
    return rate * 1_000_000 if rate else None
