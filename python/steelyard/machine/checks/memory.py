"""Checks of memory and NUMA: modules, channels, errors, swap, huge pages, nodes and their balance."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from steelyard.machine.checks.rule import (
    Evidence,
    Finding,
    Rule,
    Severity,
    objects,
    passes,
    rule,
    sysctl_should_be_off,
    unknown,
    unknown_because,
)
from steelyard.records import Dimm, Machine

UNEVEN_RATIO = 0.1
"""Share by which nodes' memory may differ: firmware and kernel take some from the first."""

IDLE_POOL_RATIO = 0.1


_SOCKET = r"(?:CPU|PROC|NODE|SOCKET|(?<![A-Z])P)[ _]?(\d+)"
_CHANNEL = r"(?:CHANNEL|CHAN|CH)[ _]?([A-Z]|\d+)(?![A-Z])"
_LETTERED = r"(?:DIMM)?[ _]?([A-Z])\d+"


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot, and where its name says that it is."""

    size_bytes: int
    socket: str | None
    channel: str | None


def _slots(machine: Machine) -> list[_Slot]:
    """Return the slots whose size is reported, empty ones included.

    Some boards name slots by a letter and a number only: the letter is the socket where there are as many
    letters as sockets (A1, B1), and the channel where there is one socket.
    """
    dimms = [dimm for dimm in machine.memory.dimms if dimm.size_bytes is not None]
    letters = [re.fullmatch(_LETTERED, dimm.locator) for dimm in dimms]
    different = {match[1] for match in letters if match}
    sockets = machine.cpu.sockets if all(letters) and len(different) > 1 else None
    slots = []
    for dimm, match in zip(dimms, letters, strict=True):
        socket, channel = _named(dimm, _SOCKET), _named(dimm, _CHANNEL)
        if socket is None and match and sockets == len(different):
            socket = match[1]
        elif channel is None and match and sockets == 1:
            channel = match[1]
        slots.append(_Slot(dimm.size_bytes or 0, socket, channel))
    return slots


def _named(dimm: Dimm, pattern: str) -> str | None:
    for name in (dimm.locator, dimm.bank or ""):
        match = re.search(pattern, name, flags=re.IGNORECASE)
        if match:
            return match[1].upper()
    return None


def _modules(machine: Machine) -> list[Dimm]:
    return [dimm for dimm in machine.memory.dimms if dimm.size_bytes]


def _no_modules(machine: Machine) -> Finding | None:
    """Return why nothing can be said of modules, ``None`` where something can."""
    if machine.hypervisor is not None:
        return unknown_because("memory.dimms", f"the modules of a guest of {machine.hypervisor} are made up")
    return None if _modules(machine) else unknown(machine, "memory.dimms")


@rule(
    "dimms-unbalanced",
    "memory",
    Severity.HIGH,
    asks="memory modules are spread evenly over sockets and channels",
    threshold="the same amount of memory, in the same number of modules of one size and rate, on every"
    " socket and"
    " channel in the names of slots",
    source="vendors' rules for populating memory: accesses interleave over channels with equal memory",
    advice="move modules so that all channels of all sockets have the same; steelyard health shows each"
    " node's"
    " bandwidth",
)
def dimms_unbalanced(machine: Machine) -> Finding:
    """Object to modules that differ, and to sockets and channels that have more than others."""
    nothing = _no_modules(machine)
    if nothing is not None:
        return nothing
    modules = _modules(machine)
    complaints = []
    for name, counts in (
        ("sizes", Counter(f"{(dimm.size_bytes or 0) >> 30} GiB" for dimm in modules)),
        (
            "rates",
            Counter(f"{rate / 1e6:g} MT/s" for dimm in modules if (rate := dimm.rated_transfers_per_s)),
        ),
    ):
        if len(counts) > 1:
            complaints.append(f"{name} differ ({_listed(counts)})")
    sockets: Counter[str] = Counter()
    channels: Counter[str] = Counter()
    for slot in _slots(machine):
        if slot.socket is not None:
            sockets[slot.socket] += slot.size_bytes
        if slot.channel is not None:
            channels[f"{slot.socket or ''}/{slot.channel}"] += slot.size_bytes
    if len(set(sockets.values())) > 1:
        sizes = ", ".join(f"{name}: {size >> 30} GiB" for name, size in sorted(sockets.items()))
        complaints.append(f"sockets differ ({sizes})")
    used = {size for size in channels.values() if size}
    if len(used) > 1:
        complaints.append(f"channels have between {min(used) >> 30} and {max(used) >> 30} GiB")
    evidence: Evidence = {"memory.dimms": len(modules)}
    if complaints:
        return objects(f"{len(modules)} memory modules: {'; '.join(complaints)}", evidence)
    known = [name for name, counts in (("sockets", sockets), ("channels", channels)) if len(counts) > 1]
    spread = f"spread evenly over {' and '.join(known)}" if known else "in slots without known positions"
    return passes(f"{len(modules)} memory modules, all alike, {spread}", evidence)


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(counts.items()))


@rule(
    "channels-empty",
    "memory",
    Severity.MEDIUM,
    asks="every memory channel has a module",
    threshold="no channel, by the names of slots, without a module",
    source="vendors' rules for populating memory: bandwidth is proportional to the channels in use",
    advice="fill at least one slot of each channel",
)
def channels_empty(machine: Machine) -> Finding:
    """Object to channels without a module, which add no bandwidth."""
    nothing = _no_modules(machine)
    if nothing is not None:
        return nothing
    filled: dict[tuple[str | None, str], bool] = {}
    for slot in _slots(machine):
        if slot.channel is not None:
            key = (slot.socket, slot.channel)
            filled[key] = filled.get(key, False) or slot.size_bytes > 0
    if not filled:
        return unknown_because("memory.dimms", "the slots' names do not identify channels")
    empty = sum(not used for used in filled.values())
    if empty:
        claim = f"{empty} of {len(filled)} memory channels have no module: their bandwidth is lost"
        return objects(claim, {"channels": len(filled), "channels_empty": empty})
    return passes(f"all {len(filled)} memory channels have a module", {"channels": len(filled)})


@rule(
    "dimm-rate",
    "memory",
    Severity.MEDIUM,
    asks="memory runs at the rate that its modules allow",
    threshold="configured rate = rated rate",
    source="SMBIOS (DMTF DSP0134) 7.18: Speed and Configured Memory Speed",
    advice="check the firmware's settings; two modules per channel or a slower processor lower the rate",
)
def dimm_rate(machine: Machine) -> Finding:
    """Object to modules that run slower than they can."""
    nothing = _no_modules(machine)
    if nothing is not None:
        return nothing
    known = [
        (dimm.configured_transfers_per_s, dimm.rated_transfers_per_s)
        for dimm in _modules(machine)
        if dimm.configured_transfers_per_s and dimm.rated_transfers_per_s
    ]
    if not known:
        return unknown_because("memory.dimms", "the firmware does not report the modules' rates")
    slow = [(now, rated) for now, rated in known if now < rated]
    if slow:
        now, rated = min(slow)
        claim = (
            f"{len(slow)} of {len(known)} modules run at {now / 1e6:g} MT/s, below the rated {rated / 1e6:g}"
        )
        return objects(claim, {"configured_transfers_per_s": now, "rated_transfers_per_s": rated})
    return passes(f"memory runs at its rated {min(known)[0] / 1e6:g} MT/s")


@rule(
    "memory-errors",
    "memory",
    Severity.MEDIUM,
    asks="memory has no errors",
    threshold="0 since boot",
    source="Linux, Documentation/driver-api/edac.rst",
    advice="find the module (/sys/devices/system/edac/mc/mc*/dimm*) and replace it: corrections take time",
)
def memory_errors(machine: Machine) -> Finding:
    """Object to memory errors that the controllers counted."""
    corrected, uncorrected = machine.memory.corrected_errors, machine.memory.uncorrected_errors
    if corrected is None and uncorrected is None:
        return unknown(machine, "memory.corrected_errors")
    evidence: Evidence = {"memory.corrected_errors": corrected, "memory.uncorrected_errors": uncorrected}
    if uncorrected:
        claim = f"{uncorrected} memory errors could not be corrected since boot"
        return objects(claim, evidence, severity=Severity.HIGH)
    if corrected:
        return objects(f"{corrected} memory errors were corrected since boot", evidence)
    return passes("no memory error since boot", evidence)


@rule(
    "swap",
    "memory",
    Severity.LOW,
    asks="memory is not swapped",
    threshold="no swap space; more severe when it is in use",
    source="Linux, Documentation/admin-guide/sysctl/vm.rst, swappiness",
    advice="swapoff -a while measuring, or find what uses the memory",
)
def swap(machine: Machine) -> Finding:
    """Object to swap space, more when it is in use."""
    if "memory.swap_bytes" in machine.missing:
        return unknown(machine, "memory.swap_bytes")
    size, used = machine.memory.swap_bytes, machine.memory.swap_used_bytes
    evidence: Evidence = {"memory.swap_bytes": size, "memory.swap_used_bytes": used}
    if size == 0:
        return passes("there is no swap space", evidence)
    if used:
        claim = f"{used / 2**30:.2f} GiB of swap are in use: memory ran short"
        return objects(claim, evidence, severity=Severity.MEDIUM)
    claim = f"there are {size / 2**30:.1f} GiB of swap: pages go to disk when memory runs short"
    return objects(claim, evidence)


@rule(
    "huge-pages-transparent",
    "memory",
    Severity.LOW,
    asks="programs get transparent huge pages on request, without waiting in page faults",
    threshold="madvise; or always with defrag other than always",
    source="Linux, Documentation/admin-guide/mm/transhuge.rst",
    advice="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (and defer+madvise > .../defrag)",
)
def huge_pages_transparent(machine: Machine) -> Finding:
    """Object to settings that cost TLB misses or waits."""
    choice, defrag = machine.memory.transparent_huge_pages, machine.memory.transparent_huge_page_defrag
    if choice is None:
        return unknown(machine, "memory.transparent_huge_pages")
    evidence: Evidence = {
        "memory.transparent_huge_pages": choice,
        "memory.transparent_huge_page_defrag": defrag,
    }
    if choice == "never":
        claim = "transparent huge pages are off: large heaps have more TLB misses"
        return objects(claim, evidence)
    if choice == "always" and defrag == "always":
        claim = "page faults may wait for memory compaction to get a huge page (defrag always)"
        return objects(claim, evidence, severity=Severity.MEDIUM)
    return passes(f"transparent huge pages: {choice}, defrag {defrag or 'unknown'}", evidence)


@rule(
    "huge-pages-idle",
    "memory",
    Severity.MEDIUM,
    asks="reserved huge pages are used",
    threshold=f"free huge pages below {IDLE_POOL_RATIO:.0%} of memory",
    source="Linux, Documentation/admin-guide/mm/hugetlbpage.rst: pages in the pool have no other use",
    advice="lower vm.nr_hugepages (and nr_hugepages of other sizes), or let the program use them",
)
def huge_pages_idle(machine: Machine) -> Finding:
    """Object to unused reserved huge pages."""
    pools, total = machine.memory.huge_page_pools, machine.memory.total_bytes
    if not pools or not total:
        return unknown(machine, "memory.huge_page_pools")
    idle = sum(pool.size_bytes * (pool.free_pages or 0) for pool in pools)
    if idle >= IDLE_POOL_RATIO * total:
        share = f"{idle / 2**30:.1f} GiB, {idle / total:.0%} of memory,"
        claim = f"{share} are reserved as huge pages and unused"
        return objects(claim, {"free_bytes": idle, "memory.total_bytes": total})
    return passes(
        f"{idle / 2**30:.1f} GiB of free huge pages", {"free_bytes": idle, "memory.total_bytes": total}
    )


@rule(
    "memory-limit",
    "memory",
    Severity.LOW,
    asks="no limit is below the machine's memory",
    threshold="none",
    source="Linux, Documentation/admin-guide/cgroup-v2.rst, memory.max",
    advice="raise memory.max of the group or the container's limit; or size the workload by the limit",
)
def memory_limit(machine: Machine) -> Finding:
    """Object to a limit below the machine's memory."""
    limit, total = machine.memory.limit_bytes, machine.memory.total_bytes
    if limit is None or limit >= total:
        return passes("no control group limits memory", {"memory.limit_bytes": limit})
    claim = f"a control group allows {limit / 2**30:.1f} of {total / 2**30:.1f} GiB"
    return objects(claim, {"memory.limit_bytes": limit, "memory.total_bytes": total})


@rule(
    "node-without-memory",
    "numa",
    Severity.HIGH,
    asks="every node with CPUs has memory",
    threshold="more than 0 bytes",
    source="Linux, Documentation/mm/numa.rst",
    advice="add modules to that socket; until then bind programs to CPUs of nodes with memory",
)
def node_without_memory(machine: Machine) -> Finding:
    """Object to nodes with CPUs and without memory."""
    nodes = [node for node in machine.numa_nodes if node.cpus]
    if not nodes:
        return unknown(machine, "numa_nodes")
    if any(node.memory_bytes is None for node in nodes):
        index = next(i for i, node in enumerate(machine.numa_nodes) if node.memory_bytes is None)
        return unknown(machine, f"numa_nodes.{index}.memory_bytes")
    empty = [str(node.id) for node in nodes if node.memory_bytes == 0]
    if empty:
        claim = f"nodes {', '.join(empty)} have CPUs but no memory: all their accesses are remote"
        return objects(claim, {"nodes": ", ".join(empty)})
    return passes("every node with CPUs has memory", {"nodes": len(nodes)})


@rule(
    "numa-uneven",
    "numa",
    Severity.MEDIUM,
    asks="nodes with CPUs have the same amount of memory",
    threshold=f"the smallest has at least {1 - UNEVEN_RATIO:.0%} of the largest",
    source="vendors' rules for populating memory: the same in every channel of every socket",
    advice="spread the modules evenly; until then interleave memory over nodes (numactl --interleave)",
)
def numa_uneven(machine: Machine) -> Finding:
    """Object to nodes whose memory differs."""
    sizes = [node.memory_bytes for node in machine.numa_nodes if node.cpus and node.memory_bytes]
    if len(machine.numa_nodes) == 1:
        return passes("there is one node")
    if len(sizes) < 2:
        return unknown(machine, "numa_nodes") if not sizes else passes("one node has memory")
    low, high = min(sizes), max(sizes)
    evidence: Evidence = {"smallest_bytes": low, "largest_bytes": high}
    if low < (1 - UNEVEN_RATIO) * high:
        claim = f"nodes have between {low / 2**30:.1f} and {high / 2**30:.1f} GiB: the smallest fills first"
        return objects(claim, evidence)
    return passes(f"nodes have between {low / 2**30:.1f} and {high / 2**30:.1f} GiB", evidence)


@rule(
    "numa-hidden",
    "numa",
    Severity.MEDIUM,
    asks="the kernel knows the memory of each socket",
    threshold="more than one node on machines with several sockets",
    source="Linux, Documentation/mm/numa.rst; firmware's 'node interleaving' hides nodes",
    advice="on hardware, switch node interleaving off in the firmware and boot without numa=off (old machines"
    " with one bus for all sockets have a single node); in a guest, have the hypervisor show the nodes"
    " (virtual NUMA), or one socket",
)
def numa_hidden(machine: Machine) -> Finding:
    """Object to several sockets in one node: the kernel cannot place memory locally."""
    # A node that is offline has no folder, but a place among the distances of the others.
    places = [len(node.distances) for node in machine.numa_nodes]
    sockets, nodes = machine.cpu.sockets, max([len(machine.numa_nodes), *places])
    if sockets is None:
        return unknown(machine, "cpu.sockets")
    if nodes == 0:
        return unknown(machine, "numa_nodes")
    evidence: Evidence = {"cpu.sockets": sockets, "numa_nodes": nodes}
    if nodes == 1 < sockets:
        claim = f"{sockets} sockets are 1 NUMA node: the kernel cannot place memory locally"
        if machine.hypervisor is not None:
            claim = f"the hypervisor shows {sockets} sockets and 1 NUMA node: memory cannot be placed locally"
        return objects(claim, evidence)
    return passes(f"{sockets} socket{'s' * (sockets > 1)}, {nodes} node{'s' * (nodes > 1)}", evidence)


@rule(
    "numa-balancing",
    "numa",
    Severity.MEDIUM,
    asks="the kernel does not migrate pages between nodes during measurements",
    threshold="kernel.numa_balancing = 0 on machines with several nodes",
    source="Linux, Documentation/admin-guide/sysctl/kernel.rst, numa_balancing",
    advice="sysctl kernel.numa_balancing=0 if programs are bound to nodes; otherwise compare both settings",
)
def numa_balancing(machine: Machine) -> Finding:
    """Object to automatic NUMA balancing: it costs page faults and moves pages."""
    if len(machine.numa_nodes) == 1:
        return passes("there is one node", {"numa_nodes": 1})
    if not machine.numa_nodes:
        return unknown(machine, "numa_nodes")
    claim = "NUMA balancing is on: it causes page faults and migrates pages"
    return sysctl_should_be_off(machine, "kernel.numa_balancing", claim, "NUMA balancing is off")


@rule(
    "zone-reclaim",
    "numa",
    Severity.MEDIUM,
    asks="a full node uses memory of others before it reclaims its page cache",
    threshold="vm.zone_reclaim_mode = 0 on machines with several nodes",
    source="Linux, Documentation/admin-guide/sysctl/vm.rst, zone_reclaim_mode",
    advice="sysctl vm.zone_reclaim_mode=0",
)
def zone_reclaim(machine: Machine) -> Finding:
    """Object to reclaiming a node's cache while others have free memory."""
    if len(machine.numa_nodes) == 1:
        return passes("there is one node", {"numa_nodes": 1})
    claim = "a full node reclaims its page cache while others have free memory"
    return sysctl_should_be_off(machine, "vm.zone_reclaim_mode", claim, "nodes use each other's free memory")


@rule(
    "memory-tiers",
    "numa",
    Severity.LOW,
    asks="all memory is on nodes with CPUs",
    threshold="no node with memory but without CPUs",
    source="Linux, Documentation/admin-guide/mm/numaperf.rst",
    advice="bind programs to memory nodes (numactl --membind), and check the distances: such memory is slower"
    " (CXL, persistent) or faster (HBM)",
)
def memory_tiers(machine: Machine) -> Finding:
    """Object to memory of another kind, on nodes without CPUs."""
    if not machine.numa_nodes:
        return unknown(machine, "numa_nodes")
    far = [node for node in machine.numa_nodes if not node.cpus and node.memory_bytes]
    if not far:
        return passes("no node has memory without CPUs")
    size = sum(node.memory_bytes or 0 for node in far)
    names = ", ".join(str(node.id) for node in far)
    claim = f"nodes {names} have {size / 2**30:.1f} GiB but no CPUs: memory of another speed"
    return objects(claim, {"nodes": names, "memory_bytes": size})


RULES: tuple[Rule, ...] = (
    dimms_unbalanced,
    channels_empty,
    dimm_rate,
    memory_errors,
    swap,
    huge_pages_transparent,
    huge_pages_idle,
    memory_limit,
    node_without_memory,
    numa_uneven,
    numa_hidden,
    numa_balancing,
    zone_reclaim,
    memory_tiers,
)
