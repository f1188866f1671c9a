"""Rules about block devices and the tasks that wait for them.

Not here: paging to and from disks (``memory``).
"""

from collections.abc import Callable

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.pressure.disk_limits import LimitedDisk
from steelyard.analyze.pressure.kernel_activity import Activity, DiskActivity
from steelyard.analyze.pressure.threads import TargetUse, kind_of
from steelyard.analyze.rules.findings import (
    Evidence,
    Finding,
    held_up,
    percent,
    rule,
    time_text,
    wait_share,
    without_wait,
)
from steelyard.records import Machine

WAIT_RATIO = 0.30
IOWAIT_RATIO = 0.20
FULL_RATIO = 0.5
"""Share of the time from which large operations meet a disk's bandwidth rather than its latency."""
LARGE_BYTES = 128 * 1024
SLOW_NS, SLOW_ROTATIONAL_NS = 10e6, 30e6
QUEUE = 8.0
SMALL_BYTES = 8 * 1024
SMALL_PER_S = 1000.0
SEVERAL = 2.0
"""Operations in flight below which the next one waits for the one before."""
FLUSH_RATIO = 0.2
DIRTY_RATIO = 0.90
FAST_PER_S = 50_000.0
LIMIT_RATIO = 0.80
_MEGABYTE = 1e6


def _worst(activity: Activity, figure: Callable[[DiskActivity], float | None]) -> DiskActivity | None:
    """Return the disk with the largest ``figure`` among those that did something."""
    known = [disk for disk in activity.disks if figure(disk) is not None]
    return max(known, key=lambda disk: figure(disk) or 0.0, default=None)


def _part(disk: DiskActivity | None) -> str:
    """Return which limit of a disk such operations meet: large ones that keep it busy its bandwidth, others
    its latency."""
    size = disk.operation_bytes.value if disk is not None else None
    busy = disk.busy_ratio.value if disk is not None else None
    is_full = size is not None and size >= LARGE_BYTES and busy is not None and busy >= FULL_RATIO
    return "disk_bandwidth" if is_full else "disk_latency"


def limited_disk(limited_disks: list[LimitedDisk]) -> LimitedDisk | None:
    """Return the disk whose limit was reached, the nearest to it of several."""
    nearest = max(limited_disks, key=lambda disk: disk.used_ratio.value or 0.0, default=None)
    return nearest if nearest is not None and (nearest.used_ratio.value or 0.0) >= LIMIT_RATIO else None


@rule(
    "disk-limited",
    "Is a rate limit on a disk reached?",
    area="disk",
    explains="time",
    cause="waits for a disk",
    threshold="the limit itself (blkio); 80 % of it is convention: a limit holds the mean of short bursts",
)
def _limited(
    pressure: dict[str, PressureUse], limited_disks: list[LimitedDisk], target: TargetUse | None
) -> Finding | None:
    disk = limited_disk(limited_disks)
    if disk is None:
        return None
    ratio = disk.used_ratio.value or 0.0
    read, written = (disk.read_bytes_per_s.value or 0.0, disk.written_bytes_per_s.value or 0.0)
    does, way = ("read", "from") if read >= written else ("write", "to")
    rate = disk.limit.rate_bytes_per_s / _MEGABYTE
    stalls = pressure.get("io")
    stalled = stalls.some_ratio.value if stalls is not None else None
    # Where it is not known how long tasks waited, the limit is taken to explain all of the time.
    costs = () if stalled is None else (Evidence("time in which tasks waited for a disk", stalled, "ratio"),)
    waits = target.held_by("disk") if target else None
    detail = "" if waits is None else f"; the threads wait {percent(waits)} of the time for a disk"
    return Finding(
        f"The run's processes may {does} {rate:,.3g} MB/s {way} {disk.limit.device}"
        f" (a limit {disk.limit.source}) and {does} {percent(min(ratio, 1.0))} of that{detail}.",
        (
            *costs,
            Evidence(f"nearer of both over the limit of {disk.limit.device}", ratio, "ratio", LIMIT_RATIO),
            Evidence("read", read, "bytes/s"),
            Evidence("written", written, "bytes/s"),
        ),
        "Raise the limit, or move fewer bytes: cache, compress, batch.",
        min(0.98, 0.6 + 0.4 * min(1.0, ratio) * (waits if waits is not None else 0.5)),
        gain="in proportion to the limit, until another one is reached",
        part="disk_bandwidth",
    )


@rule(
    "waits-for-disk",
    "Does the program wait for a disk?",
    area="disk",
    explains="time",
    cause="waits for a disk",
    threshold="convention: 30 % of the threads' time asleep in the block layer or a file system",
)
def _waits(activity: Activity, target: TargetUse) -> Finding | None:
    share = target.held_by("disk")
    if share < WAIT_RATIO:
        return None
    disk = _worst(activity, lambda use: use.busy_ratio.value)
    where = next((name for name in target.places if kind_of(name, "D") == "disk"), "an unknown place")
    detail = ""
    of_all = target.wait("disk")
    evidence = [Evidence("threads' time asleep for a disk", of_all, "ratio")]
    if share > of_all:
        evidence.append(
            Evidence("the same of their time without waits for a CPU", share, "ratio", WAIT_RATIO)
        )
    if disk is not None and disk.latency_ns.value is not None and disk.operation_bytes.value is not None:
        detail = (
            f" {disk.device} takes {time_text(disk.latency_ns.value)} for an operation of"
            f" {disk.operation_bytes.value / 1024:.0f} KiB on average."
        )
        evidence.append(Evidence(f"{disk.device} mean latency", disk.latency_ns.value, "ns"))
        evidence.append(Evidence(f"{disk.device} mean size", disk.operation_bytes.value, "bytes"))
        evidence.append(Evidence(f"{disk.device} busy", disk.busy_ratio.value or 0.0, "ratio"))
    busy = disk.busy_ratio.value if disk is not None else None
    # Whoever waits for operations keeps the disk busy: most of these waits are for something else.
    is_idle = busy is not None and busy < of_all / 2
    if is_idle:
        detail += (
            f" The disk is busy {percent(busy or 0.0)} of the time: most of the waits are for something else"
            " (a limit, a lock of the file system, storage that is no disk of this machine)."
        )
    # Of a program that waits for something else for most of its time the disk is no limit.
    part = None if is_idle or of_all < WAIT_RATIO / 2 else _part(disk)
    return Finding(
        f"The program's threads wait {percent(of_all)} of their time for a disk (asleep in {where})"
        f"{held_up(target, 'disk', of_all)}.{detail}",
        tuple(evidence),
        "Move fewer bytes (compress, cache), or spread them over more disks; compare the rate with the disk's"
        " limit (`steelyard health --part disk`)."
        if part == "disk_bandwidth"
        else "Compare the latency with the disk's limits (`steelyard health --part disk`); overlap operations"
        " (more threads, io_uring), make them larger, or keep the data in memory.",
        min(0.97, 0.5 + 0.5 * share),
        gain=f"{without_wait(target, 'disk', share)}, if nothing waited",
        part=part,
        explained_ratio=wait_share(target, "disk", of_all),
    )


@rule(
    "cpus-wait-for-disk",
    "Are CPUs idle because tasks wait for a disk?",
    area="disk",
    explains="time",
    cause="waits for a disk",
    threshold="convention: 20 % of the CPU time; Linux counts I/O wait on the CPU where a task began to wait",
)
def _iowait(cpus: Cpus, activity: Activity, target: TargetUse | None) -> Finding | None:
    use = cpus.all.use
    share = use.modes.get("iowait", 0.0) if use else 0.0
    disk = _worst(activity, lambda use: use.busy_ratio.value)
    if share < IOWAIT_RATIO or disk is None or (disk.busy_ratio.value or 0.0) < 0.1:
        return None
    return Finding(
        f"CPUs are idle {percent(share)} of the time while tasks wait for a disk ({disk.device} is busy"
        f" {percent(disk.busy_ratio.value or 0.0)}).",
        (
            Evidence("idle, waiting for a disk", share, "ratio", IOWAIT_RATIO),
            Evidence(f"{disk.device} busy", disk.busy_ratio.value or 0.0, "ratio"),
        ),
        "Find the waiting task (`pidstat -d 1`), and keep more operations in flight.",
        0.4 + 0.5 * share,
        gain=f"{without_wait(target, 'disk', share)}, if the CPUs could work during the waits",
        part=_part(disk),
    )


@rule(
    "disk-slow",
    "Does a disk have a high latency?",
    area="disk",
    threshold="convention: 10 ms for solid state, 30 ms for other disks (a seek and half a rotation take"
    " 10 to 15 ms)",
)
def _slow(activity: Activity) -> Finding | None:
    disk = _worst(
        activity, lambda use: use.latency_ns.value if (use.operations_per_s.value or 0.0) >= 10 else None
    )
    if disk is None or disk.latency_ns.value is None:
        return None
    bound = SLOW_NS if disk.rotational is False else SLOW_ROTATIONAL_NS
    if disk.latency_ns.value < bound:
        return None
    return Finding(
        f"An operation on {disk.device} takes {time_text(disk.latency_ns.value)} on average"
        f" ({disk.operations_per_s.value or 0.0:,.0f} per second, {disk.queue.value or 0.0:.1f} in flight).",
        (
            Evidence(f"{disk.device} mean latency", disk.latency_ns.value, "ns", bound),
            Evidence("operations under way", disk.queue.value or 0.0, "1"),
        ),
        "Look at the operations in flight: with few the device is slow, with many it is saturated or"
        " limited.",
        0.6,
        gain="latency falls by up to that time per operation",
        part=_part(disk),
    )


@rule(
    "disk-queue",
    "Do operations queue at a disk?",
    area="disk",
    threshold="J. Little, 1961: with eight operations at a busy disk, each waits for seven others",
)
def _queue(activity: Activity) -> Finding | None:
    disk = _worst(activity, lambda use: use.queue.value if (use.busy_ratio.value or 0.0) >= 0.7 else None)
    if disk is None or (disk.queue.value or 0.0) < QUEUE:
        return None
    return Finding(
        f"{disk.queue.value:.0f} operations are in flight at {disk.device} on average, which is busy"
        f" {percent(disk.busy_ratio.value or 0.0)} of the time: they queue.",
        (Evidence(f"{disk.device} queue", disk.queue.value or 0.0, "1", QUEUE),),
        "Check whether throughput still rises with the queue depth (`fio --iodepth`); if not, reduce it.",
        0.65,
        gain="latency falls in proportion to the queue; throughput needs a faster disk or less data",
        part=_part(disk),
    )


@rule(
    "small-operations",
    "Is a disk busy with small operations?",
    area="disk",
    threshold="convention: 1,000 operations per second of at most 8 KiB, at a disk that is half busy",
)
def _small(activity: Activity) -> Finding | None:
    disk = _worst(
        activity, lambda use: use.operations_per_s.value if (use.busy_ratio.value or 0.0) >= 0.5 else None
    )
    if disk is None or disk.operation_bytes.value is None or disk.operation_bytes.value > SMALL_BYTES:
        return None
    if (disk.operations_per_s.value or 0.0) < SMALL_PER_S:
        return None
    queue = disk.queue.value or 0.0
    limit = (
        f"one after another ({queue:.1f} in flight): their latency is the limit, not bandwidth"
        if queue < SEVERAL
        else "it is limited by their number, not by bandwidth"
    )
    advice = "Merge them: larger blocks, read-ahead, a write buffer."
    return Finding(
        f"{disk.device} does {disk.operations_per_s.value:,.0f} operations per second of"
        f" {disk.operation_bytes.value / 1024:.1f} KiB{': ' if queue >= SEVERAL else ', '}{limit}.",
        (
            Evidence("mean size", disk.operation_bytes.value, "bytes", SMALL_BYTES),
            Evidence("operations", disk.operations_per_s.value or 0.0, "1/s", SMALL_PER_S),
        ),
        advice if queue >= SEVERAL else f"Keep several in flight (threads, io_uring). {advice}",
        0.5,
        gain="at most the ratio of the disk's bandwidth to the present one",
        part="disk_latency",
    )


@rule(
    "flushes",
    "Do flushes limit writes?",
    area="disk",
    threshold="convention: one flush per five writes, and 20 per second; each waits for the medium",
)
def _flushes(activity: Activity, target: TargetUse | None) -> Finding | None:
    disk = _worst(activity, lambda use: use.flushes_per_s.value)
    if disk is None or (disk.flushes_per_s.value or 0.0) < 20 or not disk.writes_per_s.value:
        return None
    ratio = (disk.flushes_per_s.value or 0.0) / disk.writes_per_s.value
    waits = target.wait("disk") if target else 0.0
    if ratio < FLUSH_RATIO or ((disk.busy_ratio.value or 0.0) < 0.3 and waits < WAIT_RATIO):
        return None
    return Finding(
        f"{disk.device} is flushed {disk.flushes_per_s.value:,.0f} times per second,"
        f" {percent(min(ratio, 1.0))} as often as it is written to.",
        (Evidence("flushes over writes", ratio, "1", FLUSH_RATIO),),
        "Commit several changes with one fsync (group commit); find the caller with"
        " `perf trace -s -e fsync,fdatasync`.",
        0.55,
        gain="changes per second grow nearly in proportion to the changes per commit",
        part="disk_latency",
    )


@rule(
    "dirty-limit",
    "Are writers throttled by the limit on dirty pages?",
    area="disk",
    threshold="Linux, Documentation/admin-guide/sysctl/vm.rst: vm.dirty_ratio of the available memory",
)
def _dirty(memory: MemoryUse, activity: Activity, machine: Machine) -> Finding | None:
    high = activity.dirty_high_bytes.value
    text = machine.kernel.sysctl.get("vm.dirty_ratio", "")
    if high is None or memory.available_low_bytes.value is None or not text.isdigit():
        return None
    limit = int(text) / 100 * memory.available_low_bytes.value
    if limit <= 0 or high < DIRTY_RATIO * limit:
        return None
    return Finding(
        f"{high / 2**20:,.0f} MiB of memory were dirty, {percent(min(high / limit, 1.0))} of the limit"
        f" (vm.dirty_ratio): the kernel throttles writers.",
        (Evidence("dirty memory", high, "bytes", limit),),
        "Compare the write rate with the disk's bandwidth; lower vm.dirty_background_bytes so that"
        " writeback starts earlier.",
        0.6,
        gain="steadier write latency; throughput stays limited by the disk",
        part="disk_bandwidth",
    )


@rule(
    "seeks",
    "Does a rotating disk seek?",
    area="disk",
    threshold="convention: 50 operations per second of at most 64 KiB; a rotating disk does 100 to 200",
)
def _seeks(activity: Activity) -> Finding | None:
    rotating = [disk for disk in activity.disks if disk.rotational and (disk.busy_ratio.value or 0.0) >= 0.5]
    for disk in rotating:
        size, per_s = disk.operation_bytes.value, disk.operations_per_s.value or 0.0
        if size is not None and size <= 64 * 1024 and per_s >= 50:
            return Finding(
                f"{disk.device} is a rotating disk and does {per_s:.0f} operations per second of"
                f" {size / 1024:.0f} KiB: it seeks.",
                (
                    Evidence("mean size", size, "bytes", 64 * 1024.0),
                    Evidence("operations", per_s, "1/s", 50.0),
                ),
                "Move data that is read at random to solid state, or make the operations larger.",
                0.6,
                gain="10 to 100 x the operations per second on solid state",
                part="disk_latency",
            )
    return None


@rule(
    "disk-scheduler",
    "Does an I/O scheduler slow a fast disk?",
    area="disk",
    threshold="convention: 50,000 operations per second; a scheduler's lock costs about a microsecond each",
)
def _scheduler(activity: Activity, machine: Machine) -> Finding | None:
    chosen = {disk.name: disk.scheduler for disk in machine.disks if disk.rotational is False}
    for disk in activity.disks:
        if (disk.operations_per_s.value or 0.0) >= FAST_PER_S and chosen.get(disk.device) not in (
            None,
            "none",
        ):
            return Finding(
                f"{disk.device} does {disk.operations_per_s.value:,.0f} operations per second through"
                f" the {chosen[disk.device]} scheduler.",
                (Evidence("operations", disk.operations_per_s.value or 0.0, "1/s", FAST_PER_S),),
                f"Compare with no scheduler: `echo none > /sys/block/{disk.device}/queue/scheduler`.",
                0.35,
                gain="about a microsecond of CPU time per operation",
            )
    return None
