"""The formulas of top-down trees, one `Model` for each family of processors.

Each formula is the vendor's, in the events' own names; where a vendor publishes a formula for one node and
defines its sibling as the rest, so does this table. Event names are as ``perf`` lists them.

Sources. Intel: A. Yasin, "A Top-Down Method ..." (ISPASS 2014), and the TMA metrics of
github.com/intel/perfmon, which ``PERF_CPUID=GenuineIntel-6-8F-4 perf list --details metrics`` prints; the
tests compare with that where perf is installed. AMD: Processor Programming Reference for Family 19h Model
11h (55901), Table "Guidance for Pipeline Utilization Analysis Statistics", and for Family 1Ah. Arm: "Arm
CPU Telemetry Solution: Topdown Methodology Specification" (109542) and its data
(gitlab.arm.com/telemetry-solution), as in perf's ``neoverse-*/metrics.json``.

Not here: which model a machine has, and evaluation (``topdown``).
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.analyze.counters.topdown import Counts, Definition, Formula, Model

_FRONTEND = "the front end (fetch, decode) does not supply operations"
_BAD = "operations are issued and thrown away"
_BACKEND = "the back end (units, caches, memory) does not take operations"
_RETIRING = "operations that retire: more speed needs fewer or wider instructions"
_LATENCY = "nothing is fetched: instruction cache and TLB misses, resteers after mispredictions"
_BANDWIDTH = "less is fetched than could be issued: decoders, operation cache"
_MISPREDICTS = "mispredicted branches"
_CLEARS = "machine clears: memory ordering, self-modifying code"
_MEMORY = "loads and stores wait for caches or memory"
_CORE = "execution units or dependencies, not memory"

_INTEL_SAMPLES = {
    "frontend_bound": ("FRONTEND_RETIRED.LATENCY_GE_4:pp",),
    "fetch_latency": ("FRONTEND_RETIRED.LATENCY_GE_16:pp", "FRONTEND_RETIRED.L1I_MISS:pp"),
    "fetch_bandwidth": ("FRONTEND_RETIRED.LATENCY_GE_2_BUBBLES_GE_1:pp",),
    "bad_speculation": ("BR_MISP_RETIRED.ALL_BRANCHES:pp",),
    "branch_mispredicts": ("BR_MISP_RETIRED.ALL_BRANCHES:pp",),
    "machine_clears": ("MACHINE_CLEARS.COUNT",),
    "backend_bound": ("cycles:pp",),
    "memory_bound": ("MEM_LOAD_RETIRED.L3_MISS:pp", "MEM_LOAD_RETIRED.L2_MISS:pp"),
    "core_bound": ("cycles:pp",),
    "retiring": ("INST_RETIRED.PREC_DIST:pp",),
    "heavy_operations": ("cycles:pp",),
}
_AMD_SAMPLES = {
    **dict.fromkeys(("frontend_bound", "frontend_latency", "frontend_bandwidth"), ("ibs_fetch//",)),
    **dict.fromkeys(("bad_speculation", "branch_mispredicts"), ("ex_ret_brn_misp",)),
    **dict.fromkeys(("backend_bound", "memory_bound", "core_bound", "retiring"), ("ibs_op//",)),
}
_ARM_SAMPLES = {
    "frontend_bound": ("l1i_cache_refill", "itlb_walk"),
    "bad_speculation": ("br_mis_pred_retired",),
    "backend_bound": ("arm_spe_0/load_filter=1,min_latency=60/",),
    "retiring": ("inst_retired",),
}

_NOTABLE = {
    # "Threshold" of Intel's TMA metrics.
    "frontend_bound": 0.15,
    "bad_speculation": 0.15,
    "backend_bound": 0.20,
    "retiring": 0.70,
    "fetch_latency": 0.10,
    "frontend_latency": 0.10,
    "branch_mispredicts": 0.10,
    "machine_clears": 0.10,
    "core_bound": 0.10,
    "heavy_operations": 0.10,
}


def _node(
    samples: Mapping[str, tuple[str, ...]], name: str, parent: str | None, meaning: str, formula: Formula
) -> Definition:
    return Definition(name, parent, formula, meaning, samples.get(name, ()), _NOTABLE.get(name, 0.20))


def _rest(parent: str, *siblings: str) -> Formula:
    """What ``siblings`` leave of their parent."""
    return lambda c: max(0.0, c.node(parent) - sum(c.node(name) for name in siblings))


_INTEL_TREE = (
    ("fetch_latency", "frontend_bound", _LATENCY),
    ("branch_mispredicts", "bad_speculation", _MISPREDICTS),
    ("memory_bound", "backend_bound", _MEMORY),
    ("heavy_operations", "retiring", "instructions of several operations, and microcode"),
)
"""Nodes of level 2 that have formulas of their own; the sibling of each is the rest."""

_INTEL_RESTS = {
    "fetch_latency": ("fetch_bandwidth", _BANDWIDTH),
    "branch_mispredicts": ("machine_clears", _CLEARS),
    "memory_bound": ("core_bound", _CORE),
    "heavy_operations": ("light_operations", "instructions of one operation"),
}


def _intel_level_2(formulas: dict[str, Formula]) -> list[Definition]:
    definitions = []
    for name, parent, meaning in _INTEL_TREE:
        sibling, sibling_meaning = _INTEL_RESTS[name]
        definitions.append(_node(_INTEL_SAMPLES, name, parent, meaning, formulas[name]))
        definitions.append(_node(_INTEL_SAMPLES, sibling, parent, sibling_meaning, _rest(parent, name)))
    return definitions


def _mispredicts(c: Counts) -> float:
    missed = c("BR_MISP_RETIRED.ALL_BRANCHES")
    flushes = missed + c("MACHINE_CLEARS.COUNT")
    return c.node("bad_speculation") * c.over(missed, flushes, "branch mispredictions and machine clears")


def _memory_bound(c: Counts) -> float:
    """Stalls on loads and stores over all stalls of execution."""
    stores = c("EXE_ACTIVITY.BOUND_ON_STORES")
    few = c("EXE_ACTIVITY.1_PORTS_UTIL") + c.node("retiring") * c("EXE_ACTIVITY.2_PORTS_UTIL")
    stalls = c("CYCLE_ACTIVITY.STALLS_TOTAL") + few + stores
    memory = c("CYCLE_ACTIVITY.STALLS_MEM_ANY") + stores
    return c.node("backend_bound") * c.over(memory, stalls, "stalled clocks")


def skylake(*, smt_on: bool) -> Model:
    """Return the model of Skylake, Cascade Lake and Cooper Lake servers: four slots a clock of a core.

    With SMT on, CPU_CLK_UNHALTED.THREAD_ANY and INT_MISC.RECOVERY_CYCLES_ANY count a core's clock for each of
    its threads, so that half of their sums over threads is the core's.
    """

    def slots(c: Counts) -> float:
        clocks = c("CPU_CLK_UNHALTED.THREAD_ANY") / 2 if smt_on else c("CPU_CLK_UNHALTED.THREAD")
        if clocks <= 0:
            c.over(1.0, clocks, "clocks of cores")
        return 4 * clocks

    def recovery(c: Counts) -> float:
        return c("INT_MISC.RECOVERY_CYCLES_ANY") / 2 if smt_on else c("INT_MISC.RECOVERY_CYCLES")

    def bad(c: Counts) -> float:
        wasted = c("UOPS_ISSUED.ANY") - c("UOPS_RETIRED.RETIRE_SLOTS") + 4 * recovery(c)
        return wasted / slots(c)

    def backend(c: Counts) -> float:
        return 1 - c.node("frontend_bound") - (c("UOPS_ISSUED.ANY") + 4 * recovery(c)) / slots(c)

    level_2: dict[str, Formula] = {
        "fetch_latency": lambda c: 4 * c("IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE") / slots(c),
        "branch_mispredicts": _mispredicts,
        "memory_bound": _memory_bound,
        "heavy_operations": lambda c: (
            (c("UOPS_RETIRED.RETIRE_SLOTS") + c("UOPS_RETIRED.MACRO_FUSED") - c("INST_RETIRED.ANY"))
            / slots(c)
        ),
    }
    level_1: tuple[tuple[str, str, Formula], ...] = (
        ("frontend_bound", _FRONTEND, lambda c: c("IDQ_UOPS_NOT_DELIVERED.CORE") / slots(c)),
        ("bad_speculation", _BAD, bad),
        ("retiring", _RETIRING, lambda c: c("UOPS_RETIRED.RETIRE_SLOTS") / slots(c)),
        ("backend_bound", _BACKEND, backend),
    )
    return Model(
        "intel-skylake",
        f"Intel Skylake to Cooper Lake, SMT {'on' if smt_on else 'off'}",
        "Intel TMA metrics (github.com/intel/perfmon, SKX); Yasin, ISPASS 2014",
        slots,
        (
            *(_node(_INTEL_SAMPLES, name, None, meaning, f) for name, meaning, f in level_1),
            *_intel_level_2(level_2),
        ),
        rest_of_level_1="backend_bound",
    )


_METRICS = ("topdown-fe-bound", "topdown-bad-spec", "topdown-retiring", "topdown-be-bound")


def _metric(event: str) -> Formula:
    """A field of the PERF_METRICS register over the sum of its four of level 1."""
    return lambda c: c.over(c(event), sum(c(each) for each in _METRICS), "the sum of the topdown events")


def _dropped(c: Counts) -> float:
    """Slots whose operations were dropped on the way, which the register counts as the front end's."""
    return c.over(c("INT_MISC.UOP_DROPPING"), c("TOPDOWN.SLOTS"), "TOPDOWN.SLOTS")


def _perf_metrics(
    model_id: str, name: str, source: str, backend: Formula, level_2: dict[str, Formula]
) -> Model:
    frontend, retiring = _metric(_METRICS[0]), _metric(_METRICS[2])

    def bad(c: Counts) -> float:
        return max(0.0, 1 - c.node("frontend_bound") - c.node("backend_bound") - c.node("retiring"))

    level_1: tuple[tuple[str, str, Formula], ...] = (
        ("frontend_bound", _FRONTEND, lambda c: frontend(c) - _dropped(c)),
        ("retiring", _RETIRING, retiring),
        ("backend_bound", _BACKEND, backend),
        ("bad_speculation", _BAD, bad),
    )
    return Model(
        model_id,
        name,
        source,
        lambda c: c("TOPDOWN.SLOTS"),
        (
            *(_node(_INTEL_SAMPLES, each, None, meaning, f) for each, meaning, f in level_1),
            *_intel_level_2(level_2),
        ),
        rest_of_level_1="bad_speculation",
    )


def _ice_lake_backend(c: Counts) -> float:
    """The register leaves out the clock after each recovery."""
    recoveries = 5 * c("cpu@INT_MISC.RECOVERY_CYCLES,cmask=1,edge@")
    return _metric("topdown-be-bound")(c) + c.over(recoveries, c("TOPDOWN.SLOTS"), "TOPDOWN.SLOTS")


def _ice_lake_fetch_latency(c: Counts) -> float:
    idle = 5 * c("IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE")
    return c.over(idle - c("INT_MISC.UOP_DROPPING"), c("TOPDOWN.SLOTS"), "TOPDOWN.SLOTS")


def _ice_lake_heavy(c: Counts) -> float:
    sequencer = c.node("retiring") * c.over(c("IDQ.MS_UOPS"), c("UOPS_ISSUED.ANY"), "UOPS_ISSUED.ANY")
    alone = c("UOPS_DECODED.DEC0") - c("cpu@UOPS_DECODED.DEC0,cmask=1@")
    return sequencer + c.node("retiring") * c.over(alone, c("IDQ.MITE_UOPS"), "IDQ.MITE_UOPS")


ICE_LAKE = _perf_metrics(
    "intel-icelake",
    "Intel Ice Lake server",
    "Intel TMA metrics (github.com/intel/perfmon, ICX); level 1 by the PERF_METRICS register (SDM vol. 3B)",
    _ice_lake_backend,
    {
        "fetch_latency": _ice_lake_fetch_latency,
        "branch_mispredicts": _mispredicts,
        "memory_bound": _memory_bound,
        "heavy_operations": _ice_lake_heavy,
    },
)

SAPPHIRE_RAPIDS = _perf_metrics(
    "intel-sapphirerapids",
    "Intel Sapphire Rapids to Granite Rapids",
    "Intel TMA metrics (github.com/intel/perfmon, SPR); both levels by PERF_METRICS (SDM vol. 3B)",
    _metric("topdown-be-bound"),
    {
        "fetch_latency": lambda c: _metric("topdown-fetch-lat")(c) - _dropped(c),
        "branch_mispredicts": _metric("topdown-br-mispredict"),
        "memory_bound": _metric("topdown-mem-bound"),
        "heavy_operations": _metric("topdown-heavy-ops"),
    },
)


def _amd(model_id: str, name: str, source: str, width: int, resync: str) -> Model:
    """Return the pipeline utilisation of a processor that dispatches ``width`` operations a clock."""

    def slots(c: Counts) -> float:
        return width * c("ls_not_halted_cyc")

    def of_slots(value: float, c: Counts) -> float:
        return c.over(value, slots(c), "ls_not_halted_cyc")

    def latency(c: Counts) -> float:
        idle = c(f"cpu@de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x{width:x}@")
        return of_slots(width * idle, c)

    def mispredicts(c: Counts) -> float:
        missed = c("ex_ret_brn_misp")
        flushes = missed + c(resync)
        return c.node("bad_speculation") * c.over(missed, flushes, "branch mispredictions and resyncs")

    def memory(c: Counts) -> float:
        waiting = c.over(
            c("ex_no_retire.load_not_complete"), c("ex_no_retire.not_complete"), "ex_no_retire.not_complete"
        )
        return c.node("backend_bound") * waiting

    def microcode(c: Counts) -> float:
        return c.node("retiring") * c.over(c("ex_ret_ucode_ops"), c("ex_ret_ops"), "ex_ret_ops")

    def dispatch(event: str) -> Formula:
        return lambda c: of_slots(c(f"de_no_dispatch_per_slot.{event}"), c)

    rows: tuple[tuple[str, str | None, str, Formula], ...] = (
        ("frontend_bound", None, _FRONTEND, dispatch("no_ops_from_frontend")),
        ("bad_speculation", None, _BAD, lambda c: of_slots(c("de_src_op_disp.all") - c("ex_ret_ops"), c)),
        ("backend_bound", None, _BACKEND, dispatch("backend_stalls")),
        ("smt_contention", None, "the core's other thread had the slots", dispatch("smt_contention")),
        ("retiring", None, _RETIRING, lambda c: of_slots(c("ex_ret_ops"), c)),
        ("frontend_latency", "frontend_bound", _LATENCY, latency),
        ("frontend_bandwidth", "frontend_bound", _BANDWIDTH, _rest("frontend_bound", "frontend_latency")),
        ("branch_mispredicts", "bad_speculation", _MISPREDICTS, mispredicts),
        (
            "pipeline_restarts",
            "bad_speculation",
            "resyncs: memory ordering, exceptions",
            _rest("bad_speculation", "branch_mispredicts"),
        ),
        ("memory_bound", "backend_bound", _MEMORY, memory),
        ("core_bound", "backend_bound", _CORE, _rest("backend_bound", "memory_bound")),
        ("microcode", "retiring", "microcoded instructions", microcode),
        ("fastpath", "retiring", "instructions of one or two operations", _rest("retiring", "microcode")),
    )
    nodes = tuple(_node(_AMD_SAMPLES, each, parent, meaning, f) for each, parent, meaning, f in rows)
    return Model(model_id, name, source, slots, nodes)


ZEN_4 = _amd(
    "amd-zen4",
    "AMD Zen 4",
    'AMD PPR 55901 (Family 19h Model 11h), "Pipeline Utilization Analysis"; perf amdzen4/pipeline.json',
    6,
    "resyncs_or_nc_redirects",
)
ZEN_5 = _amd(
    "amd-zen5",
    "AMD Zen 5",
    'AMD PPR for Family 1Ah, "Pipeline Utilization Analysis"; perf amdzen5/pipeline.json',
    8,
    "bp_redirects.resync",
)


def arm(
    model_id: str,
    name: str,
    width: int,
    *,
    misprediction_clocks: tuple[int, int] = (0, 0),
    whole_clock: bool = False,
) -> Model:
    """Return Arm's first stage for a core with ``width`` slots a clock.

    ``misprediction_clocks`` are the clocks after each mispredicted branch that the stall events of the
    front end and of the back end count and that belong to bad speculation. ``whole_clock`` is for cores whose
    STALL_SLOT and STALL_SLOT_FRONTEND count one slot a clock too many (Neoverse N2 up to r0p2).
    """
    front, back = misprediction_clocks

    def slots(c: Counts) -> float:
        return width * c("cpu_cycles")

    def per_clock(c: Counts, clocks: int) -> float:
        return c.over(clocks * c("br_mis_pred"), c("cpu_cycles"), "cpu_cycles") if clocks else 0.0

    def stalled(c: Counts, event: str, excess: bool) -> float:
        return c.over(c(event) - (c("cpu_cycles") if excess else 0.0), slots(c), "cpu_cycles")

    def issued(c: Counts) -> float:
        return 1 - stalled(c, "stall_slot", whole_clock)

    def retired(c: Counts) -> float:
        return c.over(c("op_retired"), c("op_spec"), "op_spec")

    rows: tuple[tuple[str, str, Formula], ...] = (
        (
            "frontend_bound",
            _FRONTEND,
            lambda c: stalled(c, "stall_slot_frontend", whole_clock) - per_clock(c, front),
        ),
        ("backend_bound", _BACKEND, lambda c: stalled(c, "stall_slot_backend", False) - per_clock(c, back)),
        ("bad_speculation", _BAD, lambda c: (1 - retired(c)) * issued(c) + per_clock(c, front + back)),
        ("retiring", _RETIRING, lambda c: retired(c) * issued(c)),
    )
    nodes = tuple(_node(_ARM_SAMPLES, each, None, meaning, f) for each, meaning, f in rows)
    source = "Arm 109542, Topdown Methodology; gitlab.arm.com/telemetry-solution; perf neoverse-*"
    return Model(model_id, name, source, slots, nodes)


NEOVERSE_V1 = arm("arm-neoverse-v1", "Arm Neoverse V1", 8, misprediction_clocks=(4, 0))
NEOVERSE_N2 = arm("arm-neoverse-n2", "Arm Neoverse N2 from r0p3", 5, misprediction_clocks=(1, 3))
NEOVERSE_N2_R0P0 = arm(
    "arm-neoverse-n2-r0p0", "Arm Neoverse N2 up to r0p2", 5, misprediction_clocks=(1, 3), whole_clock=True
)
NEOVERSE_V2 = arm("arm-neoverse-v2", "Arm Neoverse V2", 8, misprediction_clocks=(1, 3))

MODELS: dict[str, Model] = {
    model.id: model
    for model in (
        skylake(smt_on=False),
        ICE_LAKE,
        SAPPHIRE_RAPIDS,
        ZEN_4,
        ZEN_5,
        NEOVERSE_V1,
        NEOVERSE_N2,
        NEOVERSE_N2_R0P0,
        NEOVERSE_V2,
    )
}
"""Every model by its id; Skylake's with SMT off (see `skylake`)."""
