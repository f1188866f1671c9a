"""Rules about a server under a load generator, and about what disturbs any run.

Not here: rules that need to know the program or its profile (``cpu`` and the others).
"""

from collections.abc import Sequence

from steelyard.analyze.checks import CONSTANTS
from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.foreign import Foreign
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.headline import Headline
from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.pressure.traffic_shaping import Shaper
from steelyard.analyze.rules.disk import IOWAIT_RATIO
from steelyard.analyze.rules.findings import (
    Evidence,
    Finding,
    above,
    at_most,
    percent,
    rule,
    threshold_rule,
    time_text,
    without_wait,
    without_work,
)
from steelyard.analyze.services import CacheUse, GeneratorUse

# The bounds below are where a resource is commonly said to shape the result. They sort attention, they do
# not decide validity, and every finding shows its value beside its bound.
CPU_SATURATED_RATIO = 0.90
CPU_UNUSED_RATIO = 0.60
NOTHING_SERVED_RATIO = 0.01
"""Servers that use less of their CPUs did no work to speak of."""
KERNEL_HEAVY_RATIO = 0.40
LINK_BUSY_RATIO = 0.70
DISK_BUSY_RATIO = 0.70
PRESSURE_RATIO = 0.10
DISK_STIRRED_RATIO = 0.10
MEMORY_LOW_RATIO = 0.05
STEAL_RATIO = 0.02
TAIL_FACTOR = 10.0
SLOW_WAIT_RATIO = 0.5
LITTLE_TOLERANCE_RATIO = 0.25


@rule(
    "server-cpus-saturated",
    "Do the server's CPUs limit the throughput?",
    area="cpu",
    explains="time",
    cause="CPUs",
    threshold="utilisation above which queues grow fast: at 0.9 a random arrival waits nine services"
    " (M/M/1, L. Kleinrock, 1975)",
)
def _server_saturated(cpus: Cpus, has_load: bool, foreign: Foreign, usage: Usage) -> Finding | None:
    use = cpus.server.use
    if use is None or use.busy_ratio < CPU_SATURATED_RATIO or cpus.shared:
        return None
    if not has_load:
        return None
    used = usage.server_ratio
    if foreign.is_objected or used is None or used < CPU_SATURATED_RATIO:
        # Others' work is in the figure too, and the verdict says so; what bounds the server is then unknown.
        return None
    return Finding(
        f"The servers use {percent(used)} of their CPUs, which limit the throughput.",
        (Evidence("server CPU", used, "ratio", CPU_SATURATED_RATIO),),
        "Look at kernel and user time below, or give the server more CPUs: --server-cpus.",
        used,
        gain="throughput grows nearly in proportion to added CPUs or saved instructions, until another"
        " resource is the limit",
        part="cpu",
    )


@rule(
    "server-cpus-unused",
    "Are the server's CPUs idle at peak load?",
    area="load",
    threshold="convention of this project; it affects only the order of findings",
)
def _server_unused(
    cpus: Cpus, has_load: bool, generator: GeneratorUse | None, usage: Usage
) -> Finding | None:
    use, used = cpus.server.use, usage.server_ratio
    if use is None or used is None or use.busy_ratio >= CPU_UNUSED_RATIO or not has_load:
        return None
    if used < NOTHING_SERVED_RATIO:
        # The verdict says that nothing was served; there is no work that idle CPUs could have more of.
        return None
    if generator is not None and generator.loop == "open":
        # The rate was chosen, by somebody or by an objective: what is left unused is no missed peak.
        return None
    return Finding(
        f"The server's CPUs are idle {percent(1 - use.busy_ratio)} of the time:"
        " another resource limits the throughput, or the offered load is too low.",
        (Evidence("server CPU busy", use.busy_ratio, "ratio", CPU_UNUSED_RATIO),),
        "Offer more load (connections, depth); check the generator, the slow threads and the network.",
        1 - use.busy_ratio,
        # What others ran on these CPUs is no work of the servers that could grow.
        gain=f"up to {1 + (1 - use.busy_ratio) / used:.1f} x, if every CPU can be kept busy",
    )


@rule(
    "shared-cpus",
    "Do server and load compete for the same CPUs?",
    area="load",
    threshold="convention of this project; it affects only the order of findings",
)
def _shared(cpus: Cpus, foreign: Foreign, usage: Usage) -> Finding | None:
    shared, use = cpus.shared, cpus.all.use
    own = usage.own_cpus
    count = len(cpus.all.cpus)
    if not shared or use is None or (own is None and foreign.is_objected):
        return None
    # What neighbours did on the shared CPUs, neither takes from the other.
    used = use.busy_ratio if own is None or not count else min(1.0, own / count)
    if used < CPU_UNUSED_RATIO:
        return None
    return Finding(
        f"Server and load share {len(shared)} CPU{'s' if len(shared) > 1 else ''} and use {percent(used)} of"
        " their time: they take CPU time from each other.",
        (Evidence("CPU of server and load", used, "ratio", CPU_UNUSED_RATIO),),
        "Use a machine with enough CPUs for both, or separate them: --server-cpus, --load-cpus.",
        used,
        gain="a result for the server alone; the size depends on the load generator's share",
    )


@rule(
    "kernel-heavy",
    "Is the server's time spent in the kernel?",
    area="cpu",
    explains="cpu",
    threshold="S. Kanev et al., ISCA 2015: about a fifth of a fleet's cycles are the kernel's; twice"
    " that is much",
)
def _kernel(
    cpus: Cpus, has_load: bool, cache: CacheUse | None, usage: Usage, headline: Headline
) -> Finding | None:
    use, spent = cpus.server.use, headline.cpu_ratio
    if use is None or use.busy_ratio < 0.1 or not spent or spent < NOTHING_SERVED_RATIO:
        return None
    kernel = usage.kernel_ratio
    if kernel is None or kernel < KERNEL_HEAVY_RATIO:
        return None
    is_served = has_load or usage.counted is not None
    whose = "the program's" if usage.target is not None else "the servers'" if is_served else "the"
    lesson = "packets and system calls cost as much as the work itself"
    if not has_load:
        lesson = "system calls, page faults or switches between threads"
    if cache is not None:
        lesson = "packets and system calls cost more than the cache"
    return Finding(
        f"{percent(kernel)} of {whose} CPU time is in the kernel: {lesson}.",
        (Evidence("kernel share of CPU time", kernel, "ratio", KERNEL_HEAVY_RATIO),),
        "Send more requests per system call: more in flight per connection (--set depth=...)."
        if has_load
        else "Find the system calls: the kernel part of the profile, or `strace -c -f`.",
        kernel * spent * 0.9,
        gain=f"{without_work(headline, kernel)}, without any kernel time (Amdahl)",
    )


@rule(
    "generator-busy",
    "Does the load generator limit the throughput?",
    area="load",
    explains="time",
    threshold="bound of the check generator-bound (data/checks.json)",
)
def _generator(generator: GeneratorUse) -> Finding | None:
    if not above(generator.busy_max_ratio, CONSTANTS.generator_busy_ratio):
        return None
    busy = generator.busy_max_ratio.value or 0.0
    return Finding(
        f"A load generator thread is busy {percent(busy)} of the time: the server may be able to do more.",
        (Evidence("busiest generator thread", busy, "ratio", CONSTANTS.generator_busy_ratio),),
        "Give the load generator more CPUs or threads: --load-cpus, --set load_threads=...",
        busy,
        gain="unknown until the generator has idle time",
    )


@rule(
    "closed-loop-queue",
    "Is the latency only queueing in a closed loop?",
    area="load",
    threshold="J. D. C. Little, 1961, with a tolerance of 25 %",
)
def _closed_loop(generator: GeneratorUse) -> Finding | None:
    """Little's law: requests in flight = throughput x mean time in the system (J. D. C. Little, 1961)."""
    if generator.loop != "closed" or not generator.response_mean_ns.value:
        return None
    flying, mean = generator.connections * generator.depth, generator.response_mean_ns.value
    if generator.throughput_per_s <= 0 or flying < 2:
        return None
    expected = flying * 1e9 / generator.throughput_per_s
    if abs(mean / expected - 1) > LITTLE_TOLERANCE_RATIO:
        return None
    lag = generator.lag_mean_ns.value
    where = "queueing time"
    if lag is not None and lag > mean / 20:
        where += f", {percent(min(1.0, lag / mean))} of it in the load generator"
    return Finding(
        f"{flying} requests are always in flight: at this throughput each takes {time_text(expected)}"
        f" (Little's law). The latency (mean {time_text(mean)}) is {where}.",
        (
            Evidence("requests in flight", float(flying), "1"),
            Evidence("in flight / throughput", expected, "ns", mean),
        ),
        "To measure latency below the peak, offer a fixed rate: --set rate=...",
        0.5,
        gain="none in throughput; the measured latency becomes the server's own",
    )


def _slow_share(cache: CacheUse, generator: GeneratorUse | None, miss_ns: float) -> float | None:
    """Return the slow path's share of the mean response time."""
    hits = cache.hit_ratio.value
    mean = generator.response_mean_ns.value if generator is not None else None
    return (1 - hits) * miss_ns / mean if hits is not None and mean else None


@rule(
    "slow-queue",
    "Do cache misses wait for slow threads?",
    area="load",
    cause="slow path of the cache",
    threshold="a wait longer than the service time",
)
def _slow_queue(cache: CacheUse, generator: GeneratorUse | None) -> Finding | None:
    if cache.slow_wait_ns.value is None or not cache.slow_service_ns.value:
        return None
    wait, service = cache.slow_wait_ns.value, cache.slow_service_ns.value
    median = generator.response_p50_ns.value if generator else None
    # Against a median in which every request waits longer than that, the queue is no story.
    share = wait / median if median else 1.0
    if wait <= service or share < SLOW_WAIT_RATIO:
        return None
    return Finding(
        f"A cache miss waits {time_text(wait)} for a slow thread, which then needs {time_text(service)}:"
        " misses cause the latency tail.",
        (
            Evidence("mean wait for a slow thread", wait, "ns", service),
            Evidence("longest queue seen", cache.slow_queue_depth_high.value or 0.0, "1"),
        ),
        "Add slow threads if CPUs are idle (--set slow_threads=...), or enlarge the cache to miss less.",
        min(0.95, share),
        gain="the tail of the latency falls by up to the wait",
        explained_ratio=_slow_share(cache, generator, wait + service),
    )


@rule(
    "network-near-line-rate",
    "Is a network link full?",
    area="network",
    explains="time",
    cause="link",
    threshold="convention: bursts saturate a link that is 70 % busy on average",
)
def _network(network: list[NetworkUse], shapers: Sequence[Shaper], has_load: bool) -> Finding | None:
    busy = [card for card in network if above(card.line_ratio, LINK_BUSY_RATIO)]
    if not busy:
        return None
    card = max(busy, key=lambda card: card.line_ratio.value or 0.0)
    if any(shaper.interface == card.interface for shaper in shapers):
        # A limit that was set has its own rule (link-limited).
        return None
    ratio = card.line_ratio.value or 0.0
    return Finding(
        f"{card.interface} carries {percent(ratio)} of its line rate: the link limits the throughput.",
        (Evidence(f"{card.interface} of line rate", ratio, "ratio", LINK_BUSY_RATIO),),
        "Use a faster link or smaller values." if has_load else "Use a faster link or send less.",
        ratio,
        gain=f"at most {1 / ratio:.1f} x on this link",
        part="network",
    )


@rule(
    "network-loss",
    "Does the network drop packets?",
    area="network",
    cause="packets are lost",
    threshold="one lost packet costs a retransmission timeout or a round trip (RFC 6298)",
)
def _loss(network: list[NetworkUse]) -> Finding | None:
    worst = max(network, key=lambda card: card.lost_per_s.value or 0.0, default=None)
    if worst is None or not worst.lost_per_s.value:
        return None
    return Finding(
        f"{worst.interface} drops {worst.lost_per_s.value:.3g} packets per second, each of which delays a"
        " request.",
        (Evidence(f"{worst.interface} packets lost", worst.lost_per_s.value, "1/s", 0.0),),
        "Check the ring sizes and interrupt placement of this interface.",
        0.5,
        gain="tail latency falls by a retransmission timeout (200 ms or more)",
    )


@rule(
    "disk-busy",
    "Is a disk busy?",
    area="disk",
    cause="waits for a disk",
    threshold="convention: requests to a disk with one queue wait noticeably from 70 %",
)
def _disk(disks: list[DiskUse], has_load: bool, target: TargetUse | None) -> Finding | None:
    busy = [disk for disk in disks if above(disk.busy_ratio, DISK_BUSY_RATIO)]
    if not busy:
        return None
    disk = max(busy, key=lambda disk: disk.busy_ratio.value or 0.0)
    ratio = disk.busy_ratio.value or 0.0
    return Finding(
        f"{disk.device} is busy {percent(ratio)} of the time.",
        (Evidence(f"{disk.device} busy", ratio, "ratio", DISK_BUSY_RATIO),),
        "Find the reader or writer: this workload should not need a disk while it is measured."
        if has_load
        else "Find the reader or writer (`pidstat -d 1`) and the size of its operations; compare with the"
        " disk's limits: `steelyard health --part disk`.",
        ratio,
        gain=f"{without_wait(target, 'disk', ratio)}, if nothing waited for this disk",
        part="disk_bandwidth",
    )


@rule(
    "memory-low",
    "Is memory scarce?",
    area="memory",
    cause="memory is short",
    threshold="Linux reclaims below its watermarks, a few percent of memory (vm.min_free_kbytes,"
    " vm.watermark_scale_factor)",
)
def _memory(memory: MemoryUse, cache: CacheUse | None) -> Finding | None:
    if memory.available_low_bytes.value is None or not memory.total_bytes.value:
        return None
    ratio = memory.available_low_bytes.value / memory.total_bytes.value
    if ratio >= MEMORY_LOW_RATIO:
        return None
    return Finding(
        f"Available memory fell to {percent(ratio)}: the kernel may have reclaimed pages.",
        (Evidence("memory available", ratio, "ratio", MEMORY_LOW_RATIO),),
        "Reduce the cache: --set memory=..." if cache else "Find what uses it: /proc/meminfo.",
        0.8,
        gain="the present cost of reclaim and refaults",
    )


@rule(
    "pressure",
    "Do tasks wait for a resource?",
    area="memory",
    explains="time",
    threshold="Linux, Documentation/accounting/psi.rst: some is the share of time in which a task"
    " waited; a tenth is convention",
)
def _pressure(
    cpus: Cpus, pressure: dict[str, PressureUse], disks: list[DiskUse], target: TargetUse | None
) -> Finding | None:
    # CPU pressure is what a loaded server looks like and has rules of its own.
    # Waiting in io_uring for the network counts as I/O pressure too (it sets in_iowait): only a disk that
    # does something makes it a wait for storage.
    # Of a program that was watched its own waits are known, which the machine's average would dilute.
    stirred = target is None and any(above(disk.busy_ratio, DISK_STIRRED_RATIO) for disk in disks)
    waits = {
        resource: use.some_ratio.value
        for resource, use in pressure.items()
        if resource in (("memory", "io") if stirred else ("memory",)) and use.some_ratio.value is not None
    }
    worst = max(waits, key=lambda resource: waits[resource], default=None)
    if worst is None or waits[worst] < PRESSURE_RATIO:
        return None
    name, share = "memory" if worst == "memory" else "I/O", waits[worst]
    use = cpus.all.use
    if name == "I/O" and use is not None and use.modes.get("iowait", 0.0) >= IOWAIT_RATIO:
        # The rule cpus-wait-for-disk says it, with the disk.
        return None
    # Of a program's waits for a disk, its threads' time is known.
    gain = without_wait(target, "disk", share) if name == "I/O" else f"{at_most(min(0.95, share))}"
    return Finding(
        f"Tasks waited for {name}: its pressure (PSI, some) was {percent(waits[worst])}.",
        (Evidence(f"{name} pressure (some)", waits[worst], "ratio", PRESSURE_RATIO),),
        "Find what uses the memory (/proc/meminfo)."
        if name == "memory"
        else "Find the waiting task (`pidstat -d 1`).",
        waits[worst],
        gain=f"{gain}, if nothing waited for it",
    )


threshold_rule(
    "steal",
    "Does the hypervisor take CPU time?",
    lambda cpus: cpus.all.use.modes.get("steal") if cpus.all.use else None,
    ("stolen CPU time", "ratio", STEAL_RATIO),
    "The hypervisor took {percent} of the CPU time for other guests.",
    "Repeat on dedicated CPUs; compare only runs with a similar share.",
    lambda steal: min(1.0, 0.5 + steal),
    gain="about {without} on dedicated CPUs",
    blame="hypervisor",
    area="machine",
    explains="time",
    threshold="convention: a quiet host takes less than 2 %",
)


threshold_rule(
    "thermal",
    "Was the processor throttled by heat?",
    lambda power: power.throttles.value,
    ("thermal throttling events", "1", 1.0),
    "The processor was throttled by heat {value:.0f} times during the measurement.",
    "Check cooling and power limits, then repeat.",
    0.9,
    gain="the clock frequency of the cool processor",
    area="machine",
    threshold="any event: the processor ran below its clock",
)


@rule(
    "long-tail",
    "Is the tail far from the median?",
    area="load",
    threshold="convention of this project; it affects only the order of findings",
)
def _tail(generator: GeneratorUse) -> Finding | None:
    if not generator.response_p50_ns.value or generator.response_p99_ns.value is None:
        return None
    factor = generator.response_p99_ns.value / generator.response_p50_ns.value
    if factor < TAIL_FACTOR:
        return None
    return Finding(
        f"The 99th percentile of response time is {factor:.0f} times the median: requests are of at least"
        " two kinds.",
        (
            Evidence("p99 response", generator.response_p99_ns.value, "ns"),
            Evidence("p99 over median", factor, "1", TAIL_FACTOR),
        ),
        "Compare the steps of the percentile curve with the miss ratio and the time spent waiting for CPUs.",
        0.3,
        gain="none on average; the 99th percentile falls towards the median",
    )
