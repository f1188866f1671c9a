"""Disks and network interfaces, from /sys."""

from __future__ import annotations

import re
from collections.abc import Callable

from steelyard._base import parse_cpu_mask
from steelyard.machine.buses import node_of
from steelyard.machine.tree import Tree
from steelyard.records import Disk, Interface, LinkSettings, Machine

SECTOR_BYTES = 512
"""/sys/block/*/size counts these, whatever the device's own sectors are."""

_NO_DISKS = re.compile(r"(loop|ram|zram|fd|sr|nbd)\d+")


_TELLS_NOTHING = re.compile(r"(vd|xvd|nvme|pmem|rbd)")
"""Disks whose queue says nothing of what is behind it: virtio, Xen and network disks call themselves rotating
by default, and NVMe has no arm."""


def rotates(machine: Machine, disk: Disk) -> bool | None:
    """Return whether a disk is known to rotate, so that one arm serves all its operations.

    None where the kernel's flag is no evidence: the block layer sets it unless a driver clears it, and a
    guest's disk has whatever its hypervisor says (Linux, Documentation/ABI/stable/sysfs-block, rotational).
    """
    if disk.rotational and (machine.hypervisor or _TELLS_NOTHING.match(disk.name)):
        return None
    return disk.rotational


def disks(tree: Tree) -> list[Disk]:
    """Return the block devices that hold data: no partitions, no loops, no RAM disks, nothing empty."""
    folder = "sys/block" if tree.exists("sys/block") else "sys/class/block"
    devices = []
    for name in tree.names(folder):
        base = f"{folder}/{name}"
        sectors = tree.number(f"{base}/size")
        if _NO_DISKS.fullmatch(name) or tree.exists(f"{base}/partition") or sectors == 0:
            continue
        if not tree.exists(base):
            continue
        rotational = tree.number(f"{base}/queue/rotational")
        read_ahead = tree.number(f"{base}/queue/read_ahead_kb")
        scheduler = re.search(r"\[(.+?)\]", tree.text(f"{base}/queue/scheduler") or "")
        devices.append(
            Disk(
                name=name,
                model=tree.first_text(f"{base}/device/model", f"{base}/dm/name", f"{base}/md/level"),
                size_bytes=None if sectors is None else sectors * SECTOR_BYTES,
                rotational=None if rotational is None else rotational == 1,
                scheduler=scheduler[1] if scheduler else None,
                hardware_queues=len(tree.names(f"{base}/mq", r"\d+")) or None,
                queue_requests=_count(tree, f"{base}/queue/nr_requests"),
                read_ahead_bytes=None if read_ahead is None or read_ahead < 0 else read_ahead << 10,
                write_cache=tree.text(f"{base}/queue/write_cache"),
                # An NVMe namespace hangs below its controller, which hangs below the PCI device.
                numa_node=_first_node(tree, f"{base}/device", f"{base}/device/device"),
            )
        )
    return devices


def interfaces(
    tree: Tree, missing: dict[str, str], ask: Callable[[str], LinkSettings | str] | None
) -> list[Interface]:
    """Return the interfaces with a device below them, bonds, and the loopback one.

    ``ask`` gives an interface's settings or why there are none, which goes into ``missing``.
    """
    cards: list[Interface] = []
    for name in tree.names("sys/class/net"):
        base = f"sys/class/net/{name}"
        if name != "lo" and not tree.exists(f"{base}/device") and not tree.exists(f"{base}/bonding"):
            continue
        speed = tree.number(f"{base}/speed")
        queues = tree.names(f"{base}/queues", r"rx-\d+")
        driver = tree.link(f"{base}/device/driver")
        settings = ask(name) if ask else "a recorded tree has no answers of ethtool"
        if isinstance(settings, str):
            missing[f"interfaces.{len(cards)}.settings"] = settings
        cards.append(
            Interface(
                name=name,
                # A link that is down, or a virtual one, answers -1 or not at all; -1 also reads as 2^32 - 1.
                speed_bits_per_s=None if speed is None or not 0 < speed < 2**31 else speed * 1_000_000,
                mtu_bytes=tree.number(f"{base}/mtu"),
                driver=driver.rsplit("/", 1)[-1] if driver else None,
                receive_queues=len(queues) or None,
                transmit_queues=len(tree.names(f"{base}/queues", r"tx-\d+")) or None,
                steered_queues=_steered(tree, base, queues),
                state=tree.text(f"{base}/operstate"),
                duplex=_duplex(tree.text(f"{base}/duplex")),
                numa_node=node_of(tree, f"{base}/device"),
                settings=None if isinstance(settings, str) else settings,
            )
        )
    return cards


def _count(tree: Tree, name: str) -> int | None:
    number = tree.number(name)
    return number if number is not None and number >= 0 else None


def _first_node(tree: Tree, *folders: str) -> int | None:
    return next((node for folder in folders if (node := node_of(tree, folder)) is not None), None)


def _steered(tree: Tree, base: str, queues: list[str]) -> int | None:
    masks = [tree.text(f"{base}/queues/{queue}/rps_cpus") for queue in queues]
    known = [mask for mask in masks if mask is not None]
    return sum(bool(parse_cpu_mask(mask)) for mask in known) if known else None


def _duplex(text: str | None) -> str | None:
    return text if text in ("full", "half") else None
