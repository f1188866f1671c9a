"""Checks of disks, network cards, interrupts and PCI Express links."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.machine.checks.rule import Evidence, Finding, Rule, Severity, objects, passes, rule, unknown
from steelyard.machine.devices import rotates
from steelyard.records import Interface, Machine

FAST_BITS_PER_S = 10_000_000_000
FEW_DESCRIPTORS = 1024
ENOUGH_QUEUES = 8
BUSIEST_RATIO = 0.9
FEWEST_INTERRUPTS = 10_000
SMALL_BACKLOG = 4096


def _cards(machine: Machine) -> Iterator[tuple[int, Interface]]:
    """Yield the cards that carry traffic of other machines, with their place in the record."""
    for index, card in enumerate(machine.interfaces):
        if card.name != "lo" and card.driver is not None and card.state != "down":
            yield index, card


def _first_unknown(machine: Machine, field: str) -> Finding:
    """Return why ``field`` is unknown for all cards."""
    for index, _ in _cards(machine):
        for path in (f"interfaces.{index}.{field}", f"interfaces.{index}.{field.split('.')[0]}"):
            if path in machine.missing:
                return unknown(machine, path)
    path = "interfaces"
    return unknown(machine, path) if path in machine.missing else passes("no network card is up")


@rule(
    "disk-scheduler",
    "disk",
    Severity.LOW,
    asks="fast disks have no I/O scheduler",
    threshold="none for NVMe; mq-deadline or none for other disks that do not rotate",
    source="Linux, Documentation/block/switching-sched.rst; multi-queue devices schedule requests themselves",
    advice="echo none > /sys/block/NAME/queue/scheduler",
)
def disk_scheduler(machine: Machine) -> Finding:
    """Object to I/O schedulers on disks that need none."""
    known = [disk for disk in machine.disks if disk.scheduler is not None]
    if not known:
        return unknown(machine, "disks.0.scheduler" if machine.disks else "disks")
    bad = [
        disk
        for disk in known
        if (disk.name.startswith("nvme") and disk.scheduler != "none")
        or (disk.rotational is False and disk.scheduler in ("bfq", "cfq", "kyber"))
    ]
    if not bad:
        return passes("schedulers suit the disks", {f"disks.{disk.name}": disk.scheduler for disk in known})
    listed = ", ".join(f"{disk.name}: {disk.scheduler}" for disk in bad)
    severity = Severity.MEDIUM if any(disk.scheduler in ("bfq", "cfq") for disk in bad) else None
    claim = f"fast disks have an I/O scheduler ({listed}), which costs CPU time per request"
    return objects(claim, {f"disks.{disk.name}": disk.scheduler for disk in bad}, severity=severity)


@rule(
    "disk-rotates",
    "disk",
    Severity.LOW,
    asks="data is on solid-state disks",
    threshold="no rotating disk, except in guests, where this is unknown",
    source="a random read takes about 10 ms on a rotating disk and 100 µs on a solid-state one",
    advice="measure on another disk, or expect this disk to be the limit",
)
def disk_rotates(machine: Machine) -> Finding:
    """Object to rotating disks."""
    known = [disk for disk in machine.disks if disk.rotational is not None]
    if not known:
        return unknown(machine, "disks.0.rotational" if machine.disks else "disks")
    rotating = [disk.name for disk in known if rotates(machine, disk)]
    if rotating:
        return objects(f"rotating disks: {', '.join(rotating)}", {"disks": ", ".join(rotating)})
    return passes("no disk is known to rotate", {"disks": ", ".join(disk.name for disk in known)})


@rule(
    "ring-small",
    "network",
    Severity.MEDIUM,
    asks="receive rings are large enough for bursts",
    threshold=f"at least {FEW_DESCRIPTORS} descriptors, if the driver allows them, on cards of"
    f" {FAST_BITS_PER_S // 10**9} Gbit/s or more or of unknown speed",
    source="ethtool(8), -g; 1,024 full packets take 1.3 ms at 10 Gbit/s and 0.13 ms at 100 Gbit/s, about as"
    " long as a busy CPU delays packets",
    advice="ethtool -G NAME rx 4096, and watch rx_missed_errors in /sys/class/net/NAME/statistics",
)
def ring_small(machine: Machine) -> Finding:
    """Object to small receive rings on fast cards."""
    known, small = False, {}
    for _, card in _cards(machine):
        now = card.settings.receive_ring if card.settings else None
        most = card.settings.receive_ring_max if card.settings else None
        if now is None or most is None:
            continue
        known = True
        is_fast = card.speed_bits_per_s is None or card.speed_bits_per_s >= FAST_BITS_PER_S
        if is_fast and now < min(FEW_DESCRIPTORS, most):
            small[card.name] = f"{now} of {most}"
    if small:
        listed = ", ".join(f"{name} has {rings} descriptors" for name, rings in small.items())
        return objects(f"receive rings are small ({listed}): bursts of packets are dropped", small)
    if known:
        return passes("receive rings are large enough")
    return _first_unknown(machine, "settings.receive_ring")


@rule(
    "queues-few",
    "network",
    Severity.MEDIUM,
    asks="several CPUs can receive packets in parallel",
    threshold=f"as many receive queues as CPUs (at most {ENOUGH_QUEUES}), or RPS",
    source="Linux, Documentation/networking/scaling.rst",
    advice="ethtool -L NAME combined N (in a VM: more virtio queues); or RPS: a mask in"
    " /sys/class/net/NAME/queues/rx-0/rps_cpus",
)
def queues_few(machine: Machine) -> Finding:
    """Object to cards with few receive queues."""
    known, few = False, {}
    target = min(machine.cpu.logical_cpus, ENOUGH_QUEUES)
    for _, card in _cards(machine):
        queues = card.receive_queues
        if card.settings and card.settings.channels is not None:
            # /sys lists what the driver made room for, ethtool what is in use.
            queues = card.settings.channels
        if queues is None:
            continue
        known = True
        if queues < target and not card.steered_queues:
            few[card.name] = queues
    if few:
        listed = ", ".join(f"{name}: {queues}" for name, queues in few.items())
        cpus = machine.cpu.logical_cpus
        return objects(f"few receive queues for {cpus} CPUs ({listed}), and RPS is off", few)
    return passes("there are enough receive queues") if known else _first_unknown(machine, "receive_queues")


@rule(
    "link-slow",
    "network",
    Severity.LOW,
    asks="network links are fast",
    threshold=f"at least {FAST_BITS_PER_S // 10**9} Gbit/s, full duplex",
    source="ethtool(8); half duplex means that negotiation failed",
    advice="check cable, transceiver and switch port, or expect the network to be the limit",
)
def link_slow(machine: Machine) -> Finding:
    """Object to slow links; half duplex is a fault."""
    cards = [card for _, card in _cards(machine) if card.speed_bits_per_s is not None]
    if not cards:
        return _first_unknown(machine, "speed_bits_per_s")
    half = [card.name for card in cards if card.duplex == "half"]
    if half:
        claim = f"half duplex on {', '.join(half)}: negotiation of the link failed"
        return objects(claim, {"duplex": "half", "interface": half[0]}, severity=Severity.HIGH)
    best = max(cards, key=lambda card: card.speed_bits_per_s or 0)
    speed = best.speed_bits_per_s or 0
    claim = f"the fastest link ({best.name}) has {speed / 1e9:g} Gbit/s"
    evidence: Evidence = {"interface": best.name, "speed_bits_per_s": speed}
    return passes(claim, evidence) if speed >= FAST_BITS_PER_S else objects(claim, evidence)


_WANTED = ("tx-tcp-segmentation", "rx-gro", "rx-checksum", "tx-scatter-gather")


@rule(
    "offloads-off",
    "network",
    Severity.MEDIUM,
    asks="network cards use their offloads",
    threshold=f"{', '.join(_WANTED)} on, if supported",
    source="Linux, Documentation/networking/segmentation-offloads.rst",
    advice="ethtool -K NAME tso on gro on rx on sg on",
)
def offloads_off(machine: Machine) -> Finding:
    """Object to disabled offloads."""
    known, idle = False, {}
    for _, card in _cards(machine):
        offloads = card.settings.offloads if card.settings else {}
        known = known or bool(offloads)
        off = [name for name in _WANTED if offloads.get(name) == "off"]
        if off:
            idle[card.name] = ", ".join(off)
    if idle:
        listed = "; ".join(f"{name}: {names}" for name, names in idle.items())
        return objects(f"supported offloads are off ({listed}): the CPUs do the work", idle)
    return passes("supported offloads are on") if known else _first_unknown(machine, "settings")


@rule(
    "interrupts-one-cpu",
    "network",
    Severity.MEDIUM,
    asks="device interrupts are spread over CPUs",
    threshold=f"less than {BUSIEST_RATIO:.0%} on one CPU, of at least {FEWEST_INTERRUPTS:,} interrupts",
    source="Linux, Documentation/core-api/irq/irq-affinity.rst; /proc/interrupts",
    advice="run irqbalance, or set /proc/irq/*/smp_affinity_list; add queues if one queue causes them all",
)
def interrupts_one_cpu(machine: Machine) -> Finding:
    """Object when one CPU handles most device interrupts."""
    interrupts = machine.interrupts
    if interrupts is None:
        return unknown(machine, "interrupts")
    evidence: Evidence = {
        "interrupts.busiest_ratio": interrupts.busiest_ratio,
        "interrupts.busiest_cpu": interrupts.busiest_cpu,
        "interrupts.total": interrupts.total,
    }
    claim = (
        f"CPU {interrupts.busiest_cpu} handled {interrupts.busiest_ratio:.0%} of"
        f" {interrupts.total:,} device interrupts"
    )
    if machine.cpu.logical_cpus < 2:
        return passes("there is one CPU", evidence)
    if interrupts.total < FEWEST_INTERRUPTS:
        return passes(f"{claim}: too few to judge", evidence)
    return objects(claim, evidence) if interrupts.busiest_ratio >= BUSIEST_RATIO else passes(claim, evidence)


@rule(
    "link-narrow",
    "network",
    Severity.MEDIUM,
    asks="PCI Express devices have their full link",
    threshold="the device's maximum width and rate, for devices with several lanes; only the width for"
    " display"
    " devices, which lower the rate when idle",
    source="PCI Express Base Specification, Link Status and Link Capabilities; sysfs, current_link_width",
    advice="use a slot with enough lanes, reseat the card, check riser and firmware settings",
)
def link_narrow(machine: Machine) -> Finding:
    """Object to devices with a narrow or slow link."""
    linked = [(device, device.link) for device in machine.pci_devices if device.link]
    if not linked:
        path = "pci_devices.0.link" if machine.pci_devices else "pci_devices"
        return unknown(machine, path)
    narrow = {}
    for device, link in linked:
        width, width_max = link.width, link.width_max
        rate, rate_max = link.transfers_per_s, link.transfers_max_per_s
        is_narrow = width is not None and width_max is not None and width < width_max
        is_slow = rate is not None and rate_max is not None and rate < rate_max and device.type != "display"
        # Parts of the chipset pretend to have one slow lane; nothing that moves much data has one.
        if (is_narrow or is_slow) and width_max != 1:
            narrow[device.address] = f"{_link(rate, width)} of {_link(rate_max, width_max)}"
    if narrow:
        listed = ", ".join(f"{address}: {link}" for address, link in narrow.items())
        return objects(f"PCI Express devices have a reduced link ({listed})", narrow)
    return passes(f"{len(linked)} PCI Express devices have their full link")


def _link(rate: int | None, width: int | None) -> str:
    parts = [f"{rate / 1e9:g} GT/s" if rate else "", f"x{width}" if width else ""]
    return " ".join(part for part in parts if part)


@rule(
    "backlog-small",
    "network",
    Severity.LOW,
    asks="the accept queue can hold a burst of connections",
    threshold=f"net.core.somaxconn at least {SMALL_BACKLOG:,}",
    source="Linux, Documentation/admin-guide/sysctl/net.rst: 4096 since Linux 5.4, 128 before",
    advice=f"sysctl net.core.somaxconn={SMALL_BACKLOG}",
)
def backlog_small(machine: Machine) -> Finding:
    """Object to a short accept queue."""
    text = machine.kernel.sysctl.get("net.core.somaxconn")
    if text is None or not text.isdigit():
        return unknown(machine, "kernel.sysctl.net.core.somaxconn")
    evidence: Evidence = {"kernel.sysctl.net.core.somaxconn": int(text)}
    claim = f"the accept queue holds {int(text):,} connections"
    return passes(claim, evidence) if int(text) >= SMALL_BACKLOG else objects(claim, evidence)


RULES: tuple[Rule, ...] = (
    disk_scheduler,
    disk_rotates,
    ring_small,
    queues_few,
    link_slow,
    offloads_off,
    interrupts_one_cpu,
    link_narrow,
    backlog_small,
)
