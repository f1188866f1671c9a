"""PCI devices that move data, and where devices' interrupts are served."""

from __future__ import annotations

import re

from steelyard.machine.tree import Tree
from steelyard.records import Interrupts, PciDevice, PciLink

_PCI = "sys/bus/pci/devices"

_TYPES = {0x01: "storage", 0x02: "network", 0x03: "display", 0x12: "accelerator"}
"""PCI base classes (PCI Code and ID Assignment Specification) whose devices move much data."""

SERVING_RATIO = 0.01
"""Share of the interrupts from which on a CPU counts as one that serves them."""


def pci_devices(tree: Tree) -> list[PciDevice]:
    """Return the devices by address: storage, network, display and accelerators."""
    devices = []
    for address in tree.names(_PCI):
        base = f"{_PCI}/{address}"
        code = _hexadecimal(tree.text(f"{base}/class"))
        kind = None if code is None else _TYPES.get(code >> 16)
        if kind is None:
            continue
        driver = tree.link(f"{base}/driver")
        devices.append(
            PciDevice(
                address=address,
                type=kind,
                vendor_id=_identity(tree, f"{base}/vendor"),
                device_id=_identity(tree, f"{base}/device"),
                driver=driver.rsplit("/", 1)[-1] if driver else None,
                numa_node=node_of(tree, base),
                link=_link(tree, base),
            )
        )
    return devices


def node_of(tree: Tree, device: str) -> int | None:
    """Return the NUMA node that a device's folder names; the kernel writes -1 for none."""
    node = tree.number(f"{device}/numa_node")
    return node if node is not None and node >= 0 else None


def interrupts(tree: Tree) -> tuple[Interrupts | None, str]:
    """Return where the devices' interrupts were served since boot, or why that is unknown.

    Lines of /proc/interrupts that begin with a number are devices'; those with letters (timers, reschedules)
    belong to each CPU by their nature.
    """
    text = tree.text("proc/interrupts")
    if text is None:
        return None, "proc/interrupts cannot be read"
    lines = text.splitlines()
    cpus = [int(number) for number in re.findall(r"CPU(\d+)", lines[0] if lines else "")]
    counts = [0] * len(cpus)
    for line in lines[1:]:
        label, mark, rest = line.partition(":")
        if not mark or not label.strip().isdigit():
            continue
        for index, word in enumerate(rest.split()[: len(cpus)]):
            if not word.isdigit():
                break
            counts[index] += int(word)
    total = sum(counts)
    if total == 0:
        return None, "no device has sent an interrupt"
    busiest = max(range(len(cpus)), key=counts.__getitem__)
    return Interrupts(
        total=total,
        serving_cpus=sum(count >= SERVING_RATIO * total for count in counts),
        busiest_cpu=cpus[busiest],
        busiest_ratio=counts[busiest] / total,
    ), ""


def _hexadecimal(text: str | None) -> int | None:
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _identity(tree: Tree, name: str) -> str | None:
    number = _hexadecimal(tree.text(name))
    return None if number is None else f"{number:04x}"


def _link(tree: Tree, base: str) -> PciLink | None:
    widths = [tree.number(f"{base}/{which}_link_width") for which in ("current", "max")]
    rates = [_rate(tree.text(f"{base}/{which}_link_speed")) for which in ("current", "max")]
    # Devices inside a package (width 0, or 255 for "not known") have no link that could be narrow.
    width, width_max = (width if width and 0 < width < 255 else None for width in widths)
    if width is None and width_max is None and rates == [None, None]:
        return None
    return PciLink(transfers_per_s=rates[0], transfers_max_per_s=rates[1], width=width, width_max=width_max)


def _rate(text: str | None) -> int | None:
    """Return transfers per second.

    >>> _rate("16.0 GT/s PCIe"), _rate("2.5 GT/s"), _rate("Unknown speed"), _rate(None)
    (16000000000, 2500000000, None, None)
    """
    match = re.match(r"([\d.]+) GT/s", text or "")
    try:
        return round(float(match[1]) * 1e9) if match else None
    except ValueError:
        return None
