"""Rules about memory: paging, reclaim, page faults, huge pages.

Not here: NUMA (``numa``), and bandwidth, which only a profile or counters can tell (``profiles``).
"""

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.facts.span import Span
from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.pressure.intensities import MEMORY_STALL_RATIO
from steelyard.analyze.pressure.kernel_activity import Activity
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.rules.findings import (
    Evidence,
    Finding,
    percent,
    rate_text,
    rule,
    threshold_rule,
    without,
)
from steelyard.records import Machine

MAJOR_FAULTS_PER_S = 50.0
SWAPS_PER_S = 10.0
STALLS_PER_S = 1.0
FAULTS_PER_CPU_S = 100_000.0
FAULT_COST_S = 0.7e-6
FALLBACK_RATIO = 0.5
LARGE_BYTES = 1 << 30
SHORT_RATIO = 0.8
"""Share of memory in use below which a kill is due to a limit, not to the machine\'s memory."""
PAGE_TABLES_RATIO = 0.02
REFAULTS_PER_S = 1000.0
COMPACTIONS_PER_S = 10.0
GROWTH_BYTES_PER_S = 1 << 20
FULL_WITHIN_S = 3600.0


threshold_rule(
    "swapping",
    "Is memory swapped?",
    lambda activity: activity.event("pswpin") + activity.event("pswpout"),
    ("pages swapped", "1/s", SWAPS_PER_S),
    "{value:,.0f} pages per second are swapped in or out: memory is too small for the workload.",
    "Find the swapped processes (VmSwap in /proc/PID/status); add memory, or use less.",
    0.92,
    gain="a page from memory takes 0.1 µs, from a disk 100 µs or more",
    part="dram_capacity",
    area="memory",
    cause="memory is short",
    threshold="convention: ten pages per second, in or out; each page in waits for the disk",
)


@rule(
    "direct-reclaim",
    "Do allocations wait for memory reclaim?",
    area="memory",
    cause="memory is short",
    threshold="Linux, mm/vmscan.c: a stall is an allocation that has to free memory itself; one per second"
    " is convention",
)
def _reclaim(activity: Activity) -> Finding | None:
    stalls = sum(activity.event(f"allocstall_{zone}") for zone in ("normal", "movable", "dma32"))
    if stalls < STALLS_PER_S:
        return None
    return Finding(
        f"{rate_text(stalls)} allocations per second stalled in direct reclaim.",
        (
            Evidence("allocation stalls", stalls, "1/s", STALLS_PER_S),
            Evidence("pages scanned by them", activity.event("pgscan_direct"), "1/s"),
        ),
        "Look at memory pressure in the report; free memory, or raise vm.watermark_scale_factor so that"
        " kswapd starts earlier.",
        0.7,
        gain="the stalls, each from microseconds to many milliseconds",
        part="dram_capacity",
    )


def _major_faults_per_s(activity: Activity, target: TargetUse | None) -> float | None:
    return target.major_faults_per_s.value if target else activity.vmstat.get("pgmajfault")


threshold_rule(
    "major-faults",
    "Do page faults read from a disk?",
    _major_faults_per_s,
    ("major page faults", "1/s", MAJOR_FAULTS_PER_S),
    "{rate} page faults per second read from a disk: mapped files or swapped memory are read page by page.",
    "Find the mapping (`perf trace -F maj`); read ahead (madvise, larger read_ahead_kb), or lock it in"
    " memory.",
    0.65,
    gain="one disk wait per fault",
    part="disk_latency",
    area="memory",
    threshold="convention: 50 per second; each waits for a disk",
)


@rule(
    "minor-faults",
    "Do page faults take much CPU time?",
    area="memory",
    threshold="convention: 100,000 per busy CPU-second; at 0.7 µs or more each, 7 % of the time or more",
)
def _minor(activity: Activity, target: TargetUse | None, usage: Usage) -> Finding | None:
    per_s = target.minor_faults_per_s.value if target else activity.vmstat.get("pgfault")
    busy = target.cpus.value or 0.0 if target else usage.busy_cpus
    if per_s is None or busy < 0.2 or per_s / busy < FAULTS_PER_CPU_S:
        return None
    cost = min(0.9, per_s * FAULT_COST_S / busy)
    return Finding(
        f"{per_s:,.0f} page faults per second: at 0.7 µs each they take at least {percent(cost)} of the"
        f" CPU time.",
        (Evidence("page faults per busy CPU-second", per_s / busy, "1/s", FAULTS_PER_CPU_S),),
        "Find the callers (`perf trace -s -e mmap,munmap,madvise`); reuse memory, or use huge pages.",
        0.35 + 0.5 * cost,
        gain=f"about {without(cost)}",
        sure=False,
    )


@rule(
    "huge-pages-refused",
    "Do allocations of huge pages fail?",
    area="memory",
    threshold="convention: half of at least ten attempts per second",
)
def _fallback(activity: Activity) -> Finding | None:
    got, refused = (activity.event(f"thp_fault_{kind}") for kind in ("alloc", "fallback"))
    tried = got + refused
    if tried < 10 or refused / tried < FALLBACK_RATIO:
        return None
    return Finding(
        f"{percent(refused / tried)} of the page faults that could use a huge page got small pages:"
        " memory is fragmented or low.",
        (Evidence("faults without a huge page", refused / tried, "ratio", FALLBACK_RATIO),),
        "Compare after `echo 1 > /proc/sys/vm/compact_memory`, or reserve huge pages at boot"
        " (vm.nr_hugepages).",
        0.4,
        gain="fewer page walks; dTLB misses show how many",
    )


@rule(
    "small-pages",
    "Is much busy memory on small pages?",
    area="memory",
    threshold="convention: 1 GiB of anonymous memory, less than 10 % on huge pages; with small pages a"
    " second-level TLB covers a few megabytes",
)
def _small_pages(
    cpus: Cpus, activity: Activity, machine: Machine, target: TargetUse | None, usage: Usage
) -> Finding | None:
    anonymous, huge = (
        activity.anonymous_bytes.value,
        activity.anonymous_huge_bytes.value,
    )
    count = len(cpus.all.cpus)
    if anonymous is None or huge is None or usage.busy_cpus < 0.5 * count:
        return None
    if target is not None and (target.rss_high_bytes.value or 0.0) < LARGE_BYTES:
        # The memory is that of others: the program has not so much.
        return None
    if anonymous < LARGE_BYTES or huge >= 0.1 * anonymous or machine.memory.huge_pages:
        return None
    setting = machine.memory.transparent_huge_pages or "unknown"
    return Finding(
        f"{anonymous / 2**30:.1f} GiB of the machine's memory use small pages"
        f" ({percent(huge / anonymous)} on huge ones; transparent huge pages: {setting}).",
        (Evidence("anonymous memory on huge pages", huge / anonymous, "ratio", 0.1),),
        "Measure dTLB misses, or compare with transparent huge pages set to always.",
        0.35,
        gain="fewer page walks, which take up to a third of the latency of an access that misses all caches"
        " (docs/guides/health.md)",
        sure=False,
    )


@rule(
    "page-tables",
    "Do page tables take much memory?",
    area="memory",
    threshold="convention: 2 % of memory; one table per 2 MiB mapped is 0.2 %",
)
def _page_tables(memory: MemoryUse, activity: Activity) -> Finding | None:
    tables = activity.page_tables_bytes.value
    if tables is None or not memory.total_bytes.value:
        return None
    ratio = tables / memory.total_bytes.value
    if ratio < PAGE_TABLES_RATIO:
        return None
    return Finding(
        f"Page tables take {percent(ratio)} of memory: many processes map the same large memory with"
        f" small pages.",
        (Evidence("page tables over memory", ratio, "ratio", PAGE_TABLES_RATIO),),
        "Compare VmPTE in /proc/PID/status; huge pages make the tables 512 times smaller.",
        0.45,
        gain="the memory of the tables, and shorter page walks",
        part="dram_capacity",
    )


@rule(
    "killed-for-memory",
    "Did the kernel kill a process because memory ran out?",
    area="memory",
    cause="memory is short",
    threshold="any event (oom_kill of /proc/vmstat)",
)
def _killed(span: Span, memory: MemoryUse | None, activity: Activity) -> Finding | None:
    per_s = activity.event("oom_kill")
    if per_s <= 0:
        return None
    count = per_s * span.seconds
    used = memory.used_high_bytes.value if memory is not None else None
    total = memory.total_bytes.value if memory is not None else None
    if used is not None and total and used < SHORT_RATIO * total:
        # The counter is the machine's: with memory left, some control group's own limit was reached.
        return Finding(
            f"The kernel killed a process at the memory limit of a control group: the machine used at most"
            f" {percent(used / total)} of its memory. The counter does not say which group.",
            (Evidence("processes killed", max(1.0, round(count)), "count", 0.0),),
            "Find the process and its group in the kernel log (`dmesg`).",
            0.5,
            gain="the work of the killed process",
            sure=False,
        )
    return Finding(
        "The kernel killed a process during the measurement because memory ran out.",
        (Evidence("processes killed", max(1.0, round(count)), "1", 0.0),),
        "Find the process and the limit in the kernel log (`dmesg`).",
        0.97,
        gain="the work of the killed process",
        part="dram_capacity",
    )


@rule(
    "refaults",
    "Is the page cache too small for the files that are read?",
    area="memory",
    threshold="Linux, mm/workingset.c: a refault reads a page of a file again after it was evicted; it is"
    " activated if slightly more memory would have kept it; 1,000 per second is convention",
)
def _refaults(
    pressure: dict[str, PressureUse], activity: Activity, machine: Machine | None, target: TargetUse | None
) -> Finding | None:
    per_s = activity.event("workingset_refault_file")
    if per_s < REFAULTS_PER_S:
        return None
    if target is not None:
        # A program that reads no file again has nothing to do with the machine's counter.
        pages = (target.read_bytes_per_s.value or 0.0) / 4096 + (target.major_faults_per_s.value or 0.0)
        if pages < REFAULTS_PER_S:
            return None
    # Without both, the pages were dropped so long before that only much more memory would have kept them,
    # as when files larger than memory are read again and again: that is the disk's business.
    kept = activity.event("workingset_activate_file")
    stalls = pressure.get("memory")
    stalled = stalls.some_ratio.value if stalls is not None else None
    pressed = kept >= REFAULTS_PER_S or (stalled or 0.0) >= MEMORY_STALL_RATIO
    # The machine's counters leave out what a control group's limit makes it reclaim (mm/vmscan.c).
    scanned = activity.event("pgscan_direct") + activity.event("pgscan_kswapd")
    is_limited = machine is not None and machine.memory.limit_bytes is not None
    whose = (
        "memory"
        if scanned > 0 or not is_limited
        else "the limit of a control group, not the machine's memory,"
    )
    claim = (
        f"{per_s:,.0f} evicted pages of files are read again per second: {whose} is too small to keep them"
    )
    claim += "." if pressed else "; most were evicted long before."
    evidence = [
        Evidence("refaults", per_s, "1/s", REFAULTS_PER_S),
        Evidence("refaults that slightly more memory would avoid", kept, "1/s", REFAULTS_PER_S),
        Evidence("pages scanned by the machine's reclaim", scanned, "1/s"),
    ]
    if stalled is not None:
        evidence.append(Evidence("tasks waited for memory (PSI)", stalled, "ratio", MEMORY_STALL_RATIO))
    return Finding(
        claim,
        tuple(evidence),
        "Compare with more memory, a higher limit, or fewer files at a time.",
        0.6 if pressed else 0.35,
        gain="the disk reads of these pages",
        part="dram_capacity" if pressed else None,
    )


threshold_rule(
    "compaction",
    "Do allocations wait for memory compaction?",
    lambda activity: activity.event("compact_stall"),
    ("compaction stalls", "1/s", COMPACTIONS_PER_S),
    "{value:,.0f} allocations per second waited for memory compaction.",
    "Compare with /sys/kernel/mm/transparent_hugepage/defrag set to defer or madvise.",
    0.5,
    gain="the stalls, often of milliseconds each",
    area="memory",
    threshold="convention: ten per second; each moves pages before the allocation continues",
)


@rule(
    "memory-grows",
    "Will the program fill the memory soon?",
    area="memory",
    threshold="convention: within an hour at the growth rate of this phase, if it lasts at least 5 s",
)
def _grows(memory: MemoryUse, target: TargetUse) -> Finding | None:
    if memory.available_low_bytes.value is None or target.span_ns < 5e9:
        return None
    rate = target.rss_gain_bytes_per_s.value
    if rate is None or rate < GROWTH_BYTES_PER_S:
        return None
    full_s = memory.available_low_bytes.value / rate
    if full_s > FULL_WITHIN_S:
        return None
    return Finding(
        f"The program's memory grows by {rate / 2**20:,.0f} MiB per second: at this rate the machine's"
        f" memory is full in {full_s / 60:.0f} minutes.",
        (Evidence("growth", rate, "bytes/s", float(GROWTH_BYTES_PER_S)),),
        "Measure for longer (--duration 10m): growth that stops is a warm-up, steady growth is a leak.",
        0.4,
        gain="none at present",
        part="dram_capacity",
        sure=False,
    )
