"""Sentences that say why a number came out as it did, each with its evidence.

In: `Conditions`. Out: `Finding`s, the weightiest first. A rule is a function registered under a stable id; it
answers with a finding or None, and None too when what it needs was not measured: silence is not "all well",
which is why `Conditions.missing` is reported beside the findings.

Not here: whether the result may be believed (``verdict``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.values import Quantity


@dataclass(frozen=True)
class Evidence:
    """A measured value and the bound it was held against; ``bound`` is None where there is none."""

    metric: str
    value: float
    unit: str
    bound: float | None = None


@dataclass(frozen=True)
class Finding:
    """What a rule concluded. ``weight`` (0..1) orders findings: how much of the result it may explain."""

    id: str
    claim: str
    evidence: tuple[Evidence, ...]
    next_step: str
    weight: float


@dataclass(frozen=True)
class Rule:
    """A question that is asked of every run."""

    id: str
    question: str
    answer: Callable[[Conditions], Finding | None]


RULES: dict[str, Rule] = {}
"""Every rule by its id, in the order of registration."""

Answer = Callable[[Conditions], Finding | None]


def rule(rule_id: str, question: str) -> Callable[[Answer], Answer]:
    """Register a rule. Raises ValueError when the id is taken."""

    def register(answer: Answer) -> Answer:
        if rule_id in RULES:
            raise ValueError(f"the rule {rule_id} is registered already")
        RULES[rule_id] = Rule(rule_id, question, answer)
        return answer

    return register


def explain(conditions: Conditions, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """Return what the rules (all registered ones by default) conclude, the weightiest first."""
    asked = RULES.values() if rules is None else rules
    found = [finding for each in asked if (finding := each.answer(conditions)) is not None]
    return sorted(found, key=lambda finding: (-finding.weight, finding.id))


def _percent(ratio: float) -> str:
    """Write a share with as many digits as tell it from 0 and 100 %.

    >>> _percent(0.983), _percent(0.004)
    ('98 %', '0.4 %')
    """
    return f"{ratio * 100:.1f} %" if ratio < 0.1 else f"{ratio * 100:.0f} %"


def _time(ns: float) -> str:
    """Write a time span.

    >>> _time(95_000), _time(3.1e6)
    ('95 µs', '3.1 ms')
    """
    size, unit = next((pair for pair in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if ns >= pair[0]), (1.0, "ns"))
    return f"{ns / size:.3g} {unit}"


def _above(quantity: Quantity | None, bound: float) -> bool:
    return quantity is not None and quantity.value is not None and quantity.value >= bound


# The bounds below are where a resource is commonly said to shape the result. They sort attention, they do
# not decide validity, and every finding shows its value beside its bound.
CPU_SATURATED_RATIO = 0.90
CPU_UNUSED_RATIO = 0.60
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


@rule("server-cpus-saturated", "Do the server's CPUs bound the throughput?")
def _server_saturated(conditions: Conditions) -> Finding | None:
    use = conditions.server_cpus.use
    if use is None or use.busy_ratio < CPU_SATURATED_RATIO or conditions.shared_cpus:
        return None
    if not conditions.has_load:
        return None
    if conditions.foreign_load:
        # Others' work is in the figure too, and the verdict says so; what bounds the server is then unknown.
        return None
    return Finding(
        "server-cpus-saturated",
        f"The server's CPUs are busy {_percent(use.busy_ratio)} of the time: they bound the throughput.",
        (Evidence("server CPU busy", use.busy_ratio, "ratio", CPU_SATURATED_RATIO),),
        "See where the time goes (kernel or user below), or give the server more CPUs: --server-cpus.",
        use.busy_ratio,
    )


@rule("server-cpus-unused", "Are the server's CPUs idle while the run is called a peak?")
def _server_unused(conditions: Conditions) -> Finding | None:
    use = conditions.server_cpus.use
    if use is None or use.busy_ratio >= CPU_UNUSED_RATIO or not conditions.has_load:
        return None
    if conditions.generator is not None and conditions.generator.loop == "open":
        # The rate was chosen, by somebody or by an objective: what is left unused is no missed peak.
        return None
    return Finding(
        "server-cpus-unused",
        f"The server's CPUs are busy only {_percent(use.busy_ratio)} of the time:"
        " something else bounds the throughput, or the load asked for less.",
        (Evidence("server CPU busy", use.busy_ratio, "ratio", CPU_UNUSED_RATIO),),
        "Offer more load (connections, depth), and look at the generator, the slow threads and the network.",
        1 - use.busy_ratio,
    )


@rule("shared-cpus", "Do server and load compete for the same CPUs?")
def _shared(conditions: Conditions) -> Finding | None:
    shared, use = conditions.shared_cpus, conditions.all_cpus.use
    if not shared or use is None or use.busy_ratio < CPU_UNUSED_RATIO:
        return None
    return Finding(
        "shared-cpus",
        f"Server and load share {len(shared)} CPU{'s' if len(shared) > 1 else ''},"
        f" which are busy {_percent(use.busy_ratio)} of the time: each takes time from the other.",
        (Evidence("CPU busy", use.busy_ratio, "ratio", CPU_UNUSED_RATIO),),
        "Use a machine with CPUs for both sides, or separate them: --server-cpus, --load-cpus.",
        use.busy_ratio,
    )


@rule("kernel-heavy", "Is the server's time spent in the kernel?")
def _kernel(conditions: Conditions) -> Finding | None:
    use = conditions.server_cpus.use
    if use is None or use.busy_ratio < 0.1:
        return None
    kernel = use.kernel_ratio
    if kernel is None or kernel < KERNEL_HEAVY_RATIO:
        return None
    softirq = use.modes.get("softirq", 0.0) / use.busy_ratio
    return Finding(
        "kernel-heavy",
        f"{_percent(kernel)} of the busy time on the server's CPUs is kernel time"
        f" ({_percent(softirq)} soft interrupts): the packets and system calls weigh more than the cache.",
        (
            Evidence("kernel share of busy time", kernel, "ratio", KERNEL_HEAVY_RATIO),
            Evidence("soft interrupts' share of busy time", softirq, "ratio"),
        ),
        "More requests in flight per connection (--set depth=...) share one system call.",
        kernel * use.busy_ratio * 0.9,
    )


@rule("generator-busy", "Does the load generator bound the throughput?")
def _generator(conditions: Conditions) -> Finding | None:
    generator = conditions.generator
    if generator is None or not _above(generator.busy_max_ratio, CPU_SATURATED_RATIO):
        return None
    busy = generator.busy_max_ratio.value or 0.0
    return Finding(
        "generator-busy",
        f"A generator thread is busy {_percent(busy)} of the time: the server might do more.",
        (Evidence("busiest generator thread", busy, "ratio", CPU_SATURATED_RATIO),),
        "Give the load more CPUs or threads: --load-cpus, --set load_threads=...",
        busy,
    )


@rule("closed-loop-queue", "Is the latency only the queue that a closed loop builds?")
def _closed_loop(conditions: Conditions) -> Finding | None:
    """Little's law: requests in flight = throughput x mean time in the system (J. D. C. Little, 1961)."""
    generator = conditions.generator
    if generator is None or generator.loop != "closed" or not generator.response_mean_ns.value:
        return None
    flying, mean = generator.connections * generator.depth, generator.response_mean_ns.value
    if generator.throughput_per_s <= 0 or flying < 2:
        return None
    expected = flying * 1e9 / generator.throughput_per_s
    if abs(mean / expected - 1) > LITTLE_TOLERANCE_RATIO:
        return None
    return Finding(
        "closed-loop-queue",
        f"With {flying} requests always in flight, a request takes {_time(expected)} at this throughput"
        f" whatever the server does: the latency (mean {_time(mean)}) is the queue.",
        (
            Evidence("requests in flight", float(flying), "1"),
            Evidence("in flight / throughput", expected, "ns", mean),
        ),
        "For the latency at a load below the peak, offer a rate: --set rate=...",
        0.5,
    )


@rule("slow-queue", "Do misses wait for slow threads?")
def _slow_queue(conditions: Conditions) -> Finding | None:
    cache = conditions.cache
    if cache is None or cache.slow_wait_ns.value is None or not cache.slow_service_ns.value:
        return None
    wait, service = cache.slow_wait_ns.value, cache.slow_service_ns.value
    median = conditions.generator.response_p50_ns.value if conditions.generator else None
    # Against a median in which every request waits longer than that, the queue is no story.
    share = wait / median if median else 1.0
    if wait <= service or share < SLOW_WAIT_RATIO:
        return None
    return Finding(
        "slow-queue",
        f"A miss waits {_time(wait)} for a slow thread that needs {_time(service)} for it:"
        " misses make the tail of the latency.",
        (
            Evidence("mean wait for a slow thread", wait, "ns", service),
            Evidence("longest queue seen", cache.slow_queue_depth_high.value or 0.0, "1"),
        ),
        "More slow threads, if CPUs are idle: --set slow_threads=...; a larger cache has fewer misses.",
        min(0.95, share),
    )


@rule("network-near-line-rate", "Is a network link full?")
def _network(conditions: Conditions) -> Finding | None:
    busy = [card for card in conditions.network if _above(card.line_ratio, LINK_BUSY_RATIO)]
    if not busy:
        return None
    card = max(busy, key=lambda card: card.line_ratio.value or 0.0)
    ratio = card.line_ratio.value or 0.0
    return Finding(
        "network-near-line-rate",
        f"{card.interface} carries {_percent(ratio)} of its line rate: the link bounds the throughput.",
        (Evidence(f"{card.interface} of line rate", ratio, "ratio", LINK_BUSY_RATIO),),
        "Use a faster link, or smaller values.",
        ratio,
    )


@rule("network-loss", "Does the network drop packets?")
def _loss(conditions: Conditions) -> Finding | None:
    worst = max(conditions.network, key=lambda card: card.lost_per_s.value or 0.0, default=None)
    if worst is None or not worst.lost_per_s.value:
        return None
    return Finding(
        "network-loss",
        f"{worst.interface} loses {worst.lost_per_s.value:.3g} packets a second: each costs a wait.",
        (Evidence(f"{worst.interface} packets lost", worst.lost_per_s.value, "1/s", 0.0),),
        "Look at the ring sizes and the interrupt placement of this interface.",
        0.5,
    )


@rule("disk-busy", "Is a disk busy?")
def _disk(conditions: Conditions) -> Finding | None:
    busy = [disk for disk in conditions.disks if _above(disk.busy_ratio, DISK_BUSY_RATIO)]
    if not busy:
        return None
    disk = max(busy, key=lambda disk: disk.busy_ratio.value or 0.0)
    ratio = disk.busy_ratio.value or 0.0
    return Finding(
        "disk-busy",
        f"{disk.device} is busy {_percent(ratio)} of the time.",
        (Evidence(f"{disk.device} busy", ratio, "ratio", DISK_BUSY_RATIO),),
        "See who reads or writes: this workload should not need a disk while it is measured.",
        ratio,
    )


@rule("memory-low", "Is memory scarce?")
def _memory(conditions: Conditions) -> Finding | None:
    memory = conditions.memory
    if memory is None or memory.available_low_bytes.value is None or not memory.total_bytes.value:
        return None
    ratio = memory.available_low_bytes.value / memory.total_bytes.value
    if ratio >= MEMORY_LOW_RATIO:
        return None
    return Finding(
        "memory-low",
        f"Only {_percent(ratio)} of memory was available at the worst moment: pages may have been reclaimed.",
        (Evidence("memory available", ratio, "ratio", MEMORY_LOW_RATIO),),
        "Give the cache less: --set memory=...",
        0.8,
    )


@rule("pressure", "Do tasks wait for a resource?")
def _pressure(conditions: Conditions) -> Finding | None:
    # CPU pressure is what a loaded server looks like and has rules of its own.
    # Waiting in io_uring for the network counts as I/O pressure too (it sets in_iowait): only a disk that
    # does something makes it a wait for storage.
    stirred = any(_above(disk.busy_ratio, DISK_STIRRED_RATIO) for disk in conditions.disks)
    waits = {
        resource: use.some_ratio.value
        for resource, use in conditions.pressure.items()
        if resource in (("memory", "io") if stirred else ("memory",)) and use.some_ratio.value is not None
    }
    worst = max(waits, key=lambda resource: waits[resource], default=None)
    if worst is None or waits[worst] < PRESSURE_RATIO:
        return None
    name = "memory" if worst == "memory" else "I/O"
    return Finding(
        "pressure",
        f"Some task waited for {name} {_percent(waits[worst])} of the time.",
        (Evidence(f"{name} pressure (some)", waits[worst], "ratio", PRESSURE_RATIO),),
        f"Find the waiting task, and free {name} before the next run.",
        waits[worst],
    )


@rule("steal", "Does the hypervisor take CPU time?")
def _steal(conditions: Conditions) -> Finding | None:
    use = conditions.all_cpus.use
    steal = use.modes.get("steal") if use else None
    if steal is None or steal < STEAL_RATIO:
        return None
    return Finding(
        "steal",
        f"The hypervisor took {_percent(steal)} of the CPU time for other guests.",
        (Evidence("stolen CPU time", steal, "ratio", STEAL_RATIO),),
        "Repeat on dedicated CPUs; compare only runs with the same share.",
        min(1.0, 0.5 + steal),
    )


@rule("thermal", "Was the processor slowed for heat?")
def _thermal(conditions: Conditions) -> Finding | None:
    if not _above(conditions.throttles, 1.0):
        return None
    count = conditions.throttles.value or 0.0
    return Finding(
        "thermal",
        f"The processor was slowed for heat {count:.0f} times during the measurement.",
        (Evidence("thermal throttling events", count, "1", 1.0),),
        "Check cooling and power limits, then repeat.",
        0.9,
    )


@rule("long-tail", "Is the tail far from the median?")
def _tail(conditions: Conditions) -> Finding | None:
    generator = conditions.generator
    if generator is None or not generator.response_p50_ns.value or generator.response_p99_ns.value is None:
        return None
    factor = generator.response_p99_ns.value / generator.response_p50_ns.value
    if factor < TAIL_FACTOR:
        return None
    return Finding(
        "long-tail",
        f"The 99th percentile of response time is {factor:.0f} times the median: two kinds of work mix.",
        (
            Evidence("p99 response", generator.response_p99_ns.value, "ns"),
            Evidence("p99 over median", factor, "1", TAIL_FACTOR),
        ),
        "Compare the steps of the percentile curve with the share of misses and with the waits for CPU.",
        0.3,
    )
