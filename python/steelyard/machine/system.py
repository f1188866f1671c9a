"""Firmware, huge pages, control of cache and bandwidth, and what the firmware says of memory's speed."""

from __future__ import annotations

import re

from steelyard.machine.tree import Tree, parse_size
from steelyard.records import Firmware, HugePagePool, MemoryAccess, Resctrl, SideCache

_RESCTRL = "sys/fs/resctrl"
_RESCTRL_FLAGS = {"rdt_a", "cat_l3", "cat_l2", "mba", "cqm", "cqm_llc", "cqm_mbm_total"}
_DMI = ("sys/class/dmi/id", "sys/devices/virtual/dmi/id")


def firmware(tree: Tree) -> Firmware:
    """Return the names in DMI that any user may read; serial numbers stay where they are."""

    def name(*fields: str) -> str | None:
        texts = (tree.first_text(*(f"{folder}/{field}" for folder in _DMI)) for field in fields)
        return " ".join(text.strip() for text in texts if text) or None

    return Firmware(
        vendor=name("sys_vendor"),
        product=name("product_name"),
        board=name("board_vendor", "board_name"),
        bios_vendor=name("bios_vendor"),
        bios_version=name("bios_version"),
        bios_date=name("bios_date"),
    )


def huge_page_pools(tree: Tree) -> list[HugePagePool]:
    """Return the pools of huge pages, smallest pages first."""
    base = "sys/kernel/mm/hugepages"
    pools = []
    for name in tree.names(base, r"hugepages-\d+kB"):
        size = parse_size(name.removeprefix("hugepages-"))
        pages = tree.number(f"{base}/{name}/nr_hugepages")
        free = tree.number(f"{base}/{name}/free_hugepages")
        if size is not None and pages is not None and pages >= 0:
            pools.append(HugePagePool(size_bytes=size, pages=pages, free_pages=free))
    return pools


def resctrl(tree: Tree, flags: str) -> tuple[Resctrl | None, str]:
    """Return what can be divided between groups of tasks, or why nothing can."""
    resources = tree.names(f"{_RESCTRL}/info", r"[A-Z]\w*")
    if resources:
        groups = [
            name
            for name in tree.names(_RESCTRL)
            if name not in ("info", "mon_groups", "mon_data") and tree.exists(f"{_RESCTRL}/{name}/schemata")
        ]
        return Resctrl(resources=resources, groups=len(groups)), ""
    offered = sorted(_RESCTRL_FLAGS & set(flags.split()))
    if offered:
        return None, (
            f"the processor can ({', '.join(offered)}), but {_RESCTRL} is not mounted:"
            " mount -t resctrl resctrl /sys/fs/resctrl"
        )
    return None, "neither the processor's flags nor sys/fs/resctrl show it"


def memory_access(tree: Tree, node: str) -> MemoryAccess | None:
    """Return what HMAT says of a node's folder ``node``, seen from its nearest initiator.

    Source: Documentation/admin-guide/mm/numaperf.rst: latencies in ns, bandwidths in MB/s. ``access1`` counts
    CPUs only as initiators and is better where it is there; ``access0`` may mean a device.
    """
    for name in ("access1", "access0"):
        base = f"{node}/{name}/initiators"
        values = {
            field: tree.number(f"{base}/{field}")
            for field in ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth")
        }
        # The kernel writes 0 for what the firmware did not tell.
        known = {field: value for field, value in values.items() if value}
        if known:
            read, write = known.get("read_bandwidth"), known.get("write_bandwidth")
            return MemoryAccess(
                read_latency_ns=known.get("read_latency"),
                write_latency_ns=known.get("write_latency"),
                read_bytes_per_s=None if read is None else read * 1_000_000,
                write_bytes_per_s=None if write is None else write * 1_000_000,
            )
    return None


def side_caches(tree: Tree, node: str) -> list[SideCache]:
    """Return the caches in front of a node's memory, the one next to it first."""
    base = f"{node}/memory_side_cache"
    caches = []
    for name in tree.names(base, r"index\d+"):
        size = tree.text(f"{base}/{name}/size") or ""
        caches.append(SideCache(level=int(re.sub(r"\D", "", name)), size_bytes=parse_size(size) or None))
    return caches
