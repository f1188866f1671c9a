"""Top-down trees: against the formulas that perf prints for foreign CPUs, against hand-made slots, and with
gaps."""

import math
import os
import re
import shutil
import subprocess
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.counters.topdown import Model, top_down
from steelyard.analyze.counters.topdown_models import (
    ICE_LAKE,
    MODELS,
    NEOVERSE_N2,
    NEOVERSE_N2_R0P0,
    NEOVERSE_V1,
    NEOVERSE_V2,
    SAPPHIRE_RAPIDS,
    ZEN_4,
    ZEN_5,
    skylake,
)
from steelyard.records import Level

ZEN_COUNTS: dict[str, float | None] = {
    # 6 slots a clock, 1000 slots.
    "ls_not_halted_cyc": 1000 / 6,
    "de_no_dispatch_per_slot.no_ops_from_frontend": 200,
    "cpu@de_no_dispatch_per_slot.no_ops_from_frontend,cmask=0x6@": 20,
    "de_no_dispatch_per_slot.backend_stalls": 350,
    "de_no_dispatch_per_slot.smt_contention": 50,
    "de_src_op_disp.all": 400,
    "ex_ret_ops": 300,
    "ex_ret_ucode_ops": 30,
    "ex_ret_brn_misp": 9,
    "resyncs_or_nc_redirects": 1,
    "ex_no_retire.load_not_complete": 80,
    "ex_no_retire.not_complete": 100,
}


def ratios(model: Model, counts: dict[str, float | None]) -> dict[str, float | None]:
    tree = top_down(model, counts)
    return {each.name: each.ratio for top in tree.level_1 for each in (top, *top.children)}


def test_amd_pipeline_utilisation_by_hand() -> None:
    assert ratios(ZEN_4, ZEN_COUNTS) == pytest.approx(
        {
            "frontend_bound": 0.2,
            "frontend_latency": 0.12,
            "frontend_bandwidth": 0.08,
            "bad_speculation": 0.1,
            "branch_mispredicts": 0.09,
            "pipeline_restarts": 0.01,
            "backend_bound": 0.35,
            "memory_bound": 0.28,
            "core_bound": 0.07,
            "smt_contention": 0.05,
            "retiring": 0.3,
            "microcode": 0.03,
            "fastpath": 0.27,
        }
    )
    tree = top_down(ZEN_4, ZEN_COUNTS)
    assert tree.slots == pytest.approx(1000)
    assert {check.level for check in tree.checks} == {Level.VALID}
    assert [node.name for node in tree.path] == ["backend_bound", "memory_bound"]
    assert "28 % of the slots" in tree.next_step
    assert "ibs_op//" in tree.next_step


def test_amd_slots_that_do_not_sum_are_suspect() -> None:
    tree = top_down(ZEN_4, {**ZEN_COUNTS, "de_no_dispatch_per_slot.backend_stalls": 250})
    [check] = [check for check in tree.checks if check.level is not Level.VALID]
    assert check.claim == "the parts of level 1 sum to 0.900 of 1.000"


def test_a_missing_event_withholds_its_nodes_and_bounds_them() -> None:
    reason = "this hypervisor does not offer it"
    lacking = {**ZEN_COUNTS, "de_no_dispatch_per_slot.backend_stalls": None}
    tree = top_down(ZEN_4, lacking, missing={"de_no_dispatch_per_slot.backend_stalls": reason})
    backend = tree.node("backend_bound")
    assert backend.ratio is None
    assert backend.missing == f"de_no_dispatch_per_slot.backend_stalls was not counted: {reason}"
    # Alone missing, it has all that the others leave.
    assert (backend.low, backend.high) == pytest.approx((0.35, 0.35))
    memory = tree.node("memory_bound")
    assert (memory.low, memory.high) == pytest.approx((0, 0.35))
    assert memory.missing == "backend_bound is not known"
    assert tree.node("frontend_latency").ratio == pytest.approx(0.12)
    assert not any(check.id == "top-down-level-1" for check in tree.checks)


def test_two_missing_nodes_share_what_is_left() -> None:
    lacking = {
        name: count for name, count in ZEN_COUNTS.items() if "stalls" not in name and "smt" not in name
    }
    tree = top_down(ZEN_4, lacking)
    for name in ("backend_bound", "smt_contention"):
        node = tree.node(name)
        assert (node.low, node.high) == pytest.approx((0, 0.4))


def test_nothing_counted_is_a_tree_of_reasons_and_says_what_to_count() -> None:
    for model in MODELS.values():
        tree = top_down(model, {})
        assert tree.slots is None
        assert all(node.ratio is None and node.missing for node in tree.level_1)
        assert all((node.low, node.high) == (0, 1) for node in tree.level_1)
        assert tree.path == ()
        assert "was not counted" in tree.next_step


def test_the_next_step_names_the_events_of_the_part_that_lacks() -> None:
    level_1 = {name: count for name, count in ZEN_COUNTS.items() if not name.startswith("ex_no_retire")}
    tree = top_down(ZEN_4, level_1)
    assert [node.name for node in tree.path] == ["backend_bound"]
    assert "count the events of its parts: ex_no_retire.load_not_complete was not counted" in tree.next_step


def test_counts_of_different_times_are_withheld_and_not_cut() -> None:
    tree = top_down(ZEN_4, {**ZEN_COUNTS, "ex_ret_ops": 900})
    bad = tree.node("bad_speculation")
    assert bad.ratio is None
    assert bad.missing == "bad_speculation comes out as -0.50: its events were not counted over the same time"
    broken = top_down(ZEN_4, {**ZEN_COUNTS, "ls_not_halted_cyc": 0, "ex_ret_ops": math.nan})
    assert all(node.ratio is None for node in broken.level_1)


ARM_COUNTS: dict[str, float | None] = {
    "cpu_cycles": 1000,
    "stall_slot_frontend": 1500,
    "stall_slot_backend": 1000,
    "stall_slot": 2500,
    "op_retired": 2000,
    "op_spec": 2500,
    "br_mis_pred": 10,
}


def test_arm_moves_the_clocks_after_mispredictions_to_bad_speculation() -> None:
    # 5 slots a clock: half of them stalled, and four fifths of what was issued retired.
    assert ratios(NEOVERSE_N2, ARM_COUNTS) == pytest.approx(
        {
            "frontend_bound": 0.3 - 0.01,
            "backend_bound": 0.2 - 0.03,
            "bad_speculation": 0.1 + 0.04,
            "retiring": 0.4,
        }
    )
    erratum: dict[str, float | None] = {**ARM_COUNTS, "stall_slot_frontend": 2500, "stall_slot": 3500}
    assert ratios(NEOVERSE_N2_R0P0, erratum) == pytest.approx(ratios(NEOVERSE_N2, ARM_COUNTS))
    wide: dict[str, float | None] = {
        name: count and count * (1.6 if "slot" in name else 1) for name, count in ARM_COUNTS.items()
    }
    assert ratios(NEOVERSE_V2, wide) == pytest.approx(ratios(NEOVERSE_N2, ARM_COUNTS))
    assert ratios(NEOVERSE_V1, wide)["frontend_bound"] == pytest.approx(0.3 - 0.04)
    for model in (NEOVERSE_N2, NEOVERSE_V1, NEOVERSE_V2):
        assert [
            check.level for check in top_down(model, wide if "V" in model.name else ARM_COUNTS).checks
        ] == ([Level.VALID])


# What perf prints for foreign CPUs.


@cache
def printed_formulas(cpuid: str) -> dict[str, str]:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    found = subprocess.run(
        ["perf", "list", "--details", "metrics"],
        env={**os.environ, "PERF_CPUID": cpuid},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    metrics = re.findall(r"(?m)^  (\w+)\n +\[.*\]\n +\[(.*)\]$", found)
    if not metrics:
        pytest.skip(f"this perf prints no formulas for {cpuid}")
    return dict(metrics)


TOKEN = re.compile(r"cpu@[^@]+@|#\w+|[A-Za-z_](?:\\-|[\w.])*")
"""An event with modifiers, a literal, or a name of an event or another metric."""


class Printed:
    """Evaluates formulas as perf writes them, over counts by event."""

    def __init__(self, formulas: dict[str, str], counts: dict[str, float | None], *, smt_on: bool) -> None:
        self.formulas, self.counts, self.smt_on = formulas, counts, smt_on
        self.events: set[str] = set()

    def value(self, token: str) -> float:
        name = token.replace("\\", "")
        if name == "#SMT_on":
            return float(self.smt_on)
        if name == "#core_wide":
            return 1.0
        if name in self.formulas:
            return self.metric(name)
        self.events.add(name)
        count = self.counts[name]
        assert count is not None
        return count

    def metric(self, name: str) -> float:
        text = TOKEN.sub(
            lambda found: found[0] if found[0] in ("if", "else", "max", "min") else f"value({found[0]!r})",
            self.formulas[name],
        )
        return float(eval(text, {"value": self.value, "max": max, "min": min, "__builtins__": {}}))


TMA_NODES = (
    *("frontend_bound", "bad_speculation", "retiring", "backend_bound", "fetch_latency", "fetch_bandwidth"),
    *("branch_mispredicts", "machine_clears", "memory_bound", "core_bound"),
    *("heavy_operations", "light_operations"),
)

SKYLAKE_COUNTS: dict[str, float | None] = {
    "CPU_CLK_UNHALTED.THREAD": 1000,
    "CPU_CLK_UNHALTED.THREAD_ANY": 1600,
    "IDQ_UOPS_NOT_DELIVERED.CORE": 700,
    "IDQ_UOPS_NOT_DELIVERED.CYCLES_0_UOPS_DELIV.CORE": 90,
    "UOPS_ISSUED.ANY": 1400,
    "UOPS_RETIRED.RETIRE_SLOTS": 1200,
    "UOPS_RETIRED.MACRO_FUSED": 150,
    "INST_RETIRED.ANY": 1200,
    "INT_MISC.RECOVERY_CYCLES": 25,
    "INT_MISC.RECOVERY_CYCLES_ANY": 30,
    "BR_MISP_RETIRED.ALL_BRANCHES": 12,
    "MACHINE_CLEARS.COUNT": 3,
    "CYCLE_ACTIVITY.STALLS_TOTAL": 400,
    "CYCLE_ACTIVITY.STALLS_MEM_ANY": 300,
    "EXE_ACTIVITY.BOUND_ON_STORES": 20,
    "EXE_ACTIVITY.1_PORTS_UTIL": 100,
    "EXE_ACTIVITY.2_PORTS_UTIL": 150,
}
METRICS_COUNTS: dict[str, float | None] = {
    "TOPDOWN.SLOTS": 6000,
    "topdown-fe-bound": 1500,
    "topdown-bad-spec": 400,
    "topdown-retiring": 2000,
    "topdown-be-bound": 2100,
    "topdown-fetch-lat": 900,
    "topdown-br-mispredict": 300,
    "topdown-mem-bound": 1300,
    "topdown-heavy-ops": 250,
    "INT_MISC.UOP_DROPPING": 40,
}
ICE_LAKE_COUNTS: dict[str, float | None] = {
    **SKYLAKE_COUNTS,
    **METRICS_COUNTS,
    "cpu@INT_MISC.RECOVERY_CYCLES,cmask=1,edge@": 5,
    "UOPS_DECODED.DEC0": 500,
    "cpu@UOPS_DECODED.DEC0,cmask=1@": 450,
    "IDQ.MITE_UOPS": 900,
    "IDQ.MS_UOPS": 60,
}


@pytest.mark.parametrize(
    ("cpuid", "model", "counts", "smt_on"),
    [
        ("GenuineIntel-6-55-4", skylake(smt_on=False), SKYLAKE_COUNTS, False),
        ("GenuineIntel-6-55-4", skylake(smt_on=True), SKYLAKE_COUNTS, True),
        ("GenuineIntel-6-6A-4", ICE_LAKE, ICE_LAKE_COUNTS, True),
        ("GenuineIntel-6-8F-4", SAPPHIRE_RAPIDS, METRICS_COUNTS, True),
    ],
    ids=["skylake", "skylake-smt", "icelake", "sapphirerapids"],
)
def test_intel_trees_equal_what_perf_prints(
    cpuid: str, model: Model, counts: dict[str, float | None], smt_on: bool
) -> None:
    printed = Printed(printed_formulas(cpuid), counts, smt_on=smt_on)
    ours = ratios(model, counts)
    assert set(ours) == set(TMA_NODES)
    for name in TMA_NODES:
        assert ours[name] == pytest.approx(printed.metric(f"tma_{name}"), abs=1e-12), name
    # Perf needs no event that our tree does without: each one left out withholds something.
    for event in printed.events:
        fewer = ratios(model, {name: count for name, count in counts.items() if name != event})
        assert None in fewer.values(), event


def test_every_model_cites_its_source_and_samples_what_it_names() -> None:
    for model in MODELS.values():
        assert "perf" in model.source or "Intel" in model.source
        assert {node.parent for node in model.nodes} - {None} <= {node.name for node in model.nodes}
        for root in (node for node in model.nodes if node.parent is None):
            assert root.next_events or root.name == "smt_contention"


amounts = st.floats(min_value=0, max_value=1e6)


@given(st.dictionaries(st.sampled_from(sorted(ZEN_COUNTS)), amounts), st.sampled_from([ZEN_4, ZEN_5]))
def test_any_counts_give_ratios_within_their_bounds(counts: dict[str, float | None], model: Model) -> None:
    for top in top_down(model, counts).level_1:
        for node in (top, *top.children):
            assert 0 <= node.low <= node.high <= 1
            if node.ratio is None:
                assert node.missing
            else:
                assert node.low == node.ratio == node.high
