"""Disks and network interfaces, from /sys."""

from __future__ import annotations

import re

from steelyard.machine.tree import Tree
from steelyard.records import Disk, Interface

SECTOR_BYTES = 512
"""/sys/block/*/size counts these, whatever the device's own sectors are."""

_NO_DISKS = re.compile(r"(loop|ram|zram|fd|sr|nbd)\d+")


def disks(tree: Tree) -> list[Disk]:
    """Return the block devices that hold data: no partitions, no loops, no RAM disks, nothing empty."""
    folder = "sys/block" if tree.exists("sys/block") else "sys/class/block"
    found = []
    for name in tree.names(folder):
        base = f"{folder}/{name}"
        sectors = tree.number(f"{base}/size")
        if _NO_DISKS.fullmatch(name) or tree.exists(f"{base}/partition") or sectors == 0:
            continue
        if not tree.exists(base):
            continue
        rotational = tree.number(f"{base}/queue/rotational")
        scheduler = re.search(r"\[(.+?)\]", tree.text(f"{base}/queue/scheduler") or "")
        found.append(
            Disk(
                name=name,
                model=tree.first_text(f"{base}/device/model", f"{base}/dm/name", f"{base}/md/level"),
                size_bytes=None if sectors is None else sectors * SECTOR_BYTES,
                rotational=None if rotational is None else rotational == 1,
                scheduler=scheduler[1] if scheduler else None,
            )
        )
    return found


def interfaces(tree: Tree) -> list[Interface]:
    """Return the interfaces with a device below them, bonds, and the loopback one."""
    found = []
    for name in tree.names("sys/class/net"):
        base = f"sys/class/net/{name}"
        if name != "lo" and not tree.exists(f"{base}/device") and not tree.exists(f"{base}/bonding"):
            continue
        speed = tree.number(f"{base}/speed")
        queues = tree.names(f"{base}/queues", r"rx-\d+")
        driver = tree.link(f"{base}/device/driver")
        found.append(
            Interface(
                name=name,
                # A link that is down, or a virtual one, answers -1 or not at all; -1 also reads as 2^32 - 1.
                speed_bits_per_s=None if speed is None or not 0 < speed < 2**31 else speed * 1_000_000,
                mtu_bytes=tree.number(f"{base}/mtu"),
                driver=driver.rsplit("/", 1)[-1] if driver else None,
                receive_queues=len(queues) or None,
            )
        )
    return found
