"""Rules about hardware counters: where issue slots go, and what misses cost.

None is asked without counters, and each is silent where the events that it needs were not counted. A share
of slots is a share of what the processor could have done in that time, whether it was busy for long or not:
only where bandwidth was held against its limit does a rule name a part that holds the workload back.

Not here: the tree and the metrics themselves (``counters.topdown``, ``counters.metrics``).
"""

from steelyard.analyze.counters.figures import memory_traffic
from steelyard.analyze.counters.use import CounterUse
from steelyard.analyze.pressure.intensities import DRAM_BANDWIDTH_RATIO, dram_bandwidth
from steelyard.analyze.pressure.limits import Limits
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rule, threshold_rule
from steelyard.records import HealthResult

FRONTEND_RATIO, BACKEND_RATIO, RETIRING_RATIO = 0.15, 0.20, 0.70
MISPREDICT_RATIO, MEMORY_RATIO, CONTENTION_RATIO = 0.10, 0.20, 0.20
L1I_MPKI, ITLB_MPKI, BRANCH_MPKI = 10.0, 0.5, 3.0
WALK_CLOCKS, WALKING_RATIO = 30.0, 0.10
LOW_IPC = 0.3
REMOTE_RATIO, REMOTE_PER_1000 = 0.20, 0.5
REMOTE_EVENTS = (
    ("mem_load_l3_miss_retired.remote_dram", "mem_load_l3_miss_retired.local_dram"),
    ("ls_dmnd_fills_from_sys.dram_io_far", "ls_dmnd_fills_from_sys.dram_io_near"),
    ("ls_refills_from_sys.ls_mabresp_rmt_dram", "ls_refills_from_sys.ls_mabresp_lcl_dram"),
)
"""Loads that another node's memory served, and those that the own one did, as ``data/events`` names them."""
REMOTE_EVENTS_OF_FILES = (
    ("ls_any_fills_from_sys.dram_io_far", "ls_any_fills_from_sys.dram_io_near"),
    ("ls_dmnd_fills_from_sys.mem_io_remote", "ls_dmnd_fills_from_sys.mem_io_local"),
    ("node-load-misses", "node-loads"),
)
"""The same in files of perf stat from other machines; ``node-loads`` counts loads from both nodes."""


def node_ratio(counters: CounterUse, *names: str) -> float | None:
    """Return a node's share of the slots by the first of its names that is known."""
    if counters.top_down is None:
        return None
    for name in names:
        try:
            ratio = counters.top_down.node(name).ratio
        except KeyError:
            continue
        if ratio is not None:
            return ratio
    return None


def metric(counters: CounterUse, name: str) -> float | None:
    """Return a metric of counters, None where it is withheld."""
    value = counters.metrics.get(name)
    return None if value is None else value.value


def _walking_ratio(counters: CounterUse, name: str) -> float | None:
    """Return the share of the clocks that page walks take at most, as if nothing else went on meanwhile."""
    misses, ipc = metric(counters, name), metric(counters, "ipc")
    return None if misses is None or ipc is None else min(1.0, misses / 1000 * WALK_CLOCKS * ipc)


@rule(
    "frontend-bound-code",
    "Is the code too large for the instruction caches?",
    area="cpu",
    threshold="Intel TMA metrics: front-end bound from 15 %; DCPerf: services have 7 to 56 instruction cache"
    " misses per 1000 instructions, SPEC 1 to 9",
)
def _frontend(counters: CounterUse) -> Finding | None:
    bound = node_ratio(counters, "frontend_bound")
    if bound is None or bound < FRONTEND_RATIO:
        return None
    cache, tlb = metric(counters, "l1i_mpki"), metric(counters, "itlb_mpki")
    missing_code = cache is not None and cache >= L1I_MPKI
    missing_pages = tlb is not None and tlb >= ITLB_MPKI
    if not (missing_code or missing_pages):
        return None
    evidence = [Evidence("front-end bound", bound, "ratio", FRONTEND_RATIO)]
    misses_text = []
    if cache is not None:
        evidence.append(Evidence("L1I misses per 1000 instructions", cache, "1", L1I_MPKI))
        misses_text += [f"{cache:.1f} instruction cache misses"] if missing_code else []
    if tlb is not None:
        evidence.append(Evidence("iTLB misses per 1000 instructions", tlb, "1", ITLB_MPKI))
        misses_text += [f"{tlb:.2g} iTLB misses"] if missing_pages else []
    steps = [
        "place hot code together (PGO, BOLT or Propeller, link-time ordering)" if missing_code else "",
        "map the program's text with huge pages" if missing_pages else "",
    ]
    return Finding(
        f"{percent(bound)} of the issue slots wait for instructions, with {' and '.join(misses_text)} per"
        " 1000 instructions: the code is too large for the instruction caches.",
        tuple(evidence),
        f"Compare builds: {'; '.join(step for step in steps if step)}.",
        min(0.9, 0.4 + bound),
        gain=f"at most {percent(bound)} of the slots (published for BOLT or huge text pages: 2 to 15 %)",
    )


@rule(
    "branch-mispredicts",
    "Do mispredicted branches cost much?",
    area="cpu",
    threshold="Intel TMA metrics: from 10 % of the slots",
)
def _mispredicts(counters: CounterUse) -> Finding | None:
    lost = node_ratio(counters, "branch_mispredicts", "bad_speculation")
    missed = metric(counters, "branch_mpki")
    if lost is None or lost < MISPREDICT_RATIO or missed is None or missed < BRANCH_MPKI:
        return None
    return Finding(
        f"{percent(lost)} of the issue slots are lost to mispredicted branches: {missed:.1f} per 1000"
        " instructions.",
        (
            Evidence("slots lost to mispredicted branches", lost, "ratio", MISPREDICT_RATIO),
            Evidence("mispredicted branches per 1000 instructions", missed, "1", BRANCH_MPKI),
        ),
        "Find the branches (perf record -e branch-misses:pp); sort or batch their input, or use branchless"
        " code.",
        min(0.85, 0.35 + lost),
        gain=f"at most {percent(lost)} of the slots, and the fetches after them",
    )


@rule(
    "memory-bound-slots",
    "Do loads and stores wait for caches or memory?",
    area="memory",
    threshold="Intel TMA metrics: from 20 % of the slots",
)
def _memory(health: HealthResult | None, counters: CounterUse) -> Finding | None:
    bound = node_ratio(counters, "memory_bound")
    if bound is None or bound < MEMORY_RATIO:
        return None
    pressed = dram_bandwidth(memory_traffic(counters), Limits(), health)
    full = pressed.ratio is not None and pressed.ratio >= DRAM_BANDWIDTH_RATIO
    misses = metric(counters, "llc_mpki")
    evidence = [Evidence("memory bound", bound, "ratio", MEMORY_RATIO)]
    evidence += [] if misses is None else [Evidence("last-level misses per 1000 instructions", misses, "1")]
    if pressed.ratio is not None:
        evidence.append(Evidence("memory bandwidth", pressed.ratio, "ratio", DRAM_BANDWIDTH_RATIO))
    claim = f"{percent(bound)} of the issue slots wait for loads and stores"
    if full:
        claim += (
            f", and memory runs at {percent(pressed.ratio or 0.0)} of its bandwidth: bandwidth is the limit."
        )
        step = "Move fewer bytes: smaller types, blocking for the caches, non-temporal stores, less copying."
    elif pressed.ratio is not None:
        claim += f", and memory runs at {percent(pressed.ratio)} of its bandwidth: latency is the limit."
        step = "Sample the loads (perf mem record) and look for pointer chasing; store data that is used"
        " together"
        step += " side by side, or prefetch it."
    else:
        claim += "; memory bandwidth was not measured, so the cause may be latency or bandwidth."
        step = "Measure memory traffic (uncore events) and `steelyard health`; sample the loads (perf mem"
        " record)."
    return Finding(
        claim,
        tuple(evidence),
        step,
        min(0.92, 0.4 + bound),
        gain=f"at most {percent(bound)} of the slots",
        part="dram_bandwidth" if full else None,
    )


@rule(
    "dtlb-walks",
    "Do loads and stores wait for page walks?",
    area="memory",
    threshold="30 cycles per page walk that hits caches (Intel's optimization manual: 20 to 40); 10 % of the"
    " cycles is convention",
)
def _walks(counters: CounterUse) -> Finding | None:
    ratio, misses = _walking_ratio(counters, "dtlb_mpki"), metric(counters, "dtlb_mpki")
    if ratio is None or misses is None or ratio < WALKING_RATIO:
        return None
    return Finding(
        f"{misses:.1f} loads and stores per 1000 instructions miss the TLB: page walks take up to"
        f" {percent(ratio)} of the cycles.",
        (
            Evidence("page walks", ratio, "ratio", WALKING_RATIO),
            Evidence("dTLB misses per 1000", misses, "1"),
        ),
        "Compare with huge pages for the data: transparent_hugepage=always, or madvise in the allocator.",
        min(0.8, 0.3 + ratio),
        gain=f"at most {percent(ratio)} of the cycles",
        sure=False,
    )


@rule(
    "few-instructions-per-clock",
    "Do running threads stall?",
    area="cpu",
    threshold="DCPerf: production services have an IPC of 1.0 to 2.6 per core; a contended cache line, as in"
    " RocksDB's statistics at 160 threads, gives 0.13",
)
def _low_ipc(counters: CounterUse) -> Finding | None:
    ipc = metric(counters, "ipc")
    used = counters.law.used_cpus.value
    if ipc is None or ipc >= LOW_IPC or used is None or used < 0.5:
        return None
    return Finding(
        f"A thread retires {ipc:.2f} instructions per cycle: most of the time it stalls on memory, or on"
        " cache lines that other cores write.",
        (Evidence("instructions per cycle", ipc, "1", LOW_IPC), Evidence("CPUs used", used, "1")),
        "Repeat with one thread and compare (`steelyard compare`): IPC recovers if contention is the cause"
        " (perf c2c names the line), and stays low if memory is.",
        0.8,
        gain="with contention, up to the IPC of one thread (20 x in the published case)",
    )


@rule(
    "remote-memory-loads",
    "Do loads access memory of another node?",
    area="numa",
    cause="remote memory",
    threshold="convention: 20 % of the loads from memory, and one per 2000 instructions; remote memory has"
    " 1.3"
    " to 2 times the latency",
)
def _remote(counters: CounterUse) -> Finding | None:
    if counters.counts.instructions is None or counters.counts.instructions <= 0:
        return None
    for far_name, near_name in REMOTE_EVENTS + REMOTE_EVENTS_OF_FILES:
        far, near = counters.events.values.get(far_name), counters.events.values.get(near_name)
        if far is None or near is None:
            continue
        whole = max(near, far) if near_name == "node-loads" else near + far
        ratio = far / whole if whole > 0 else 0.0
        per_1000 = far * 1000 / counters.counts.instructions
        if ratio < REMOTE_RATIO or per_1000 < REMOTE_PER_1000:
            return None
        return Finding(
            f"{percent(ratio)} of the loads from memory access another node.",
            (
                Evidence("remote loads", ratio, "ratio", REMOTE_RATIO),
                Evidence("remote loads per 1000 instructions", per_1000, "1", REMOTE_PER_1000),
            ),
            "Compare with the program bound to one node (`numactl --cpunodebind --membind`), or one instance"
            " per node.",
            min(0.85, 0.4 + ratio / 2),
            gain="0 to 40 % of CPI (published: 1.15 x the CPI at 50 % locality)",
        )
    return None


threshold_rule(
    "smt-contention",
    "Do the two threads of a core compete for issue slots?",
    lambda counters: node_ratio(counters, "smt_contention"),
    ("SMT contention", "ratio", CONTENTION_RATIO),
    "The core's other thread used {percent} of the issue slots.",
    "Compare throughput and latency with one thread per core; keep batch work off the siblings of"
    " latency-sensitive threads.",
    lambda lost: min(0.7, 0.2 + lost),
    gain="the latency of a thread, rarely throughput: the slots were used",
    area="cpu",
    threshold="AMD, pipeline utilisation; 20 % is convention, as for the other losses",
)


@rule(
    "retiring-bound",
    "Are most issue slots useful?",
    area="cpu",
    threshold="Intel TMA metrics: retiring from 70 % of the slots",
)
def _retiring(counters: CounterUse) -> Finding | None:
    retiring = node_ratio(counters, "retiring")
    if retiring is None or retiring < RETIRING_RATIO:
        return None
    return Finding(
        f"{percent(retiring)} of the issue slots retire operations: caches, memory and branches cost little.",
        (Evidence("retiring", retiring, "ratio", RETIRING_RATIO),),
        "Reduce instructions: a better algorithm, vector instructions, a newer compiler; compare path"
        " lengths.",
        0.6,
        gain=f"at most {1 / retiring:.2f} x from fewer stalls; more in proportion to saved instructions",
    )
