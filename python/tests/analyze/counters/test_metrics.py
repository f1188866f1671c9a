"""Metrics from counts: published figures to the printed digits, and every gap with its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.counters.choice import MachineFacts, model_of
from steelyard.analyze.counters.definitions import definitions
from steelyard.analyze.counters.metrics import metrics_of, top_down_of
from steelyard.analyze.counters.topdown import TopDown, events_of
from steelyard.analyze.counters.topdown_models import MODELS
from steelyard.telemetry.counters import CounterSeries, EventSeries, Gain, Gains, gains

SECOND = 1_000_000_000


def totals(duration_s: float | None, scope: str = "system", **counts: float) -> Gains:
    return Gains(scope, "", duration_s, {name: Gain(count) for name, count in counts.items()})


def named(counts: dict[str, float], scope: str = "system", duration_s: float | None = 10.0) -> Gains:
    return Gains(scope, "", duration_s, {name: Gain(count) for name, count in counts.items()})


@pytest.mark.parametrize(
    ("instructions", "cycles", "printed"),
    [
        # Chow et al., "Software Performance Analysis: Industry Perspectives": db_bench readrandom before
        # and after, at 1 and at 160 threads.
        (3129398329928, 1136230674488, "0.363083"),
        (22625805888251, 171717420118090, "7.589450"),
        (3259113189316, 1124524900793, "0.345040"),
        (194183272380812, 151013619154778, "0.777686"),
    ],
)
def test_cpi_of_published_counts_comes_to_the_printed_digits(
    instructions: int, cycles: int, printed: str
) -> None:
    # As perf stat names them on any machine, and as their processors' own events.
    for id_, names in {
        "generic": ("instructions", "cycles"),
        "intel-sapphirerapids": ("INST_RETIRED.ANY", "cpu/CPU_CLK_UNHALTED.THREAD/"),
        "amd-zen4": ("instructions", "ls_not_halted_cyc"),
        "arm-neoverse-v2": ("inst_retired", "cpu-cycles"),
    }.items():
        counts = {names[0]: float(instructions), names[1]: float(cycles)}
        found = metrics_of(definitions()[id_], named(counts, "process", 300.0))
        assert f"{found['cpi'].value:.6f}" == printed
        assert found["ipc"].value == pytest.approx(instructions / cycles, rel=1e-12)


def test_published_counts_of_both_smt_modes() -> None:
    # Chow et al., "Industry Perspectives", SPECjbb2005: CPI is 1.06 with one thread a core, 2.01 with both.
    for cycles, instructions, printed in ((80.256e9, 75.8e9, "1.06"), (157.744e9, 78.4e9, "2.01")):
        counts = {"cycles": cycles, "instructions": instructions}
        assert f"{metrics_of(definitions()['generic'], named(counts))['cpi'].value:.2f}" == printed


def test_per_core_and_per_thread() -> None:
    # Chow et al., "Industry Perspectives", the 16-core machine with SMT on: 110e9 instructions/s,
    # 96e9 clocks of threads, 48e9 of cores.
    counts = {
        "INST_RETIRED.ANY": 110e9,
        "CPU_CLK_UNHALTED.THREAD": 96e9,
        "CPU_CLK_UNHALTED.THREAD_ANY": 96e9,
    }
    definition = definitions()["intel-skylake-server"]
    found = metrics_of(definition, named(counts), MachineFacts(smt_on=True))
    assert f"{found['ipc'].value:.2f} {found['cpi'].value:.2f}" == "1.15 0.87"
    assert f"{found['core_ipc'].value:.2f}" == "2.29"
    unknown = metrics_of(definition, named(counts))["core_ipc"]
    assert (unknown.value, unknown.missing) == (None, "#smt_on of the machine is not known")
    task = metrics_of(definition, named(counts, "process"), MachineFacts(scope="process", smt_on=True))
    assert task["core_ipc"].missing == "it holds for system only"


def test_units_of_perf_become_ours() -> None:
    definition = definitions()["intel-icelake-server"]
    found = Gains(
        "system",
        "",
        10.0,
        {
            "power/energy-pkg/": Gain(1500.0, unit="Joules"),
            "uncore_imc/cas_count_read/": Gain(1024.0, unit="MiB"),
            "UNC_M_CAS_COUNT.WR": Gain(1e9),
            "power/energy-ram/": Gain(1.0, unit="W"),
        },
    )
    values = metrics_of(definition, found)
    assert values["package_power_w"].value == pytest.approx(150)
    assert values["memory_read_bytes_per_s"].value == pytest.approx(1024 * 2**20 / 10)
    assert values["memory_write_bytes_per_s"].value == pytest.approx(64e8)
    assert "reported in W" in str(values["dram_power_w"].missing)
    raw = named({"power/energy-pkg/": 150 * 10 * 2**32})
    assert metrics_of(definition, raw)["package_power_w"].value == pytest.approx(150)
    clock = Gains("process", "1", 2.0, {"task-clock": Gain(500.0, unit="msec")})
    assert metrics_of(definitions()["software"], clock)["cpus_used"].value == pytest.approx(0.25)


def test_frequency_by_the_first_formula_that_can() -> None:
    definition = definitions()["amd-zen3"]
    counts = {"msr/aperf/": 3.0e9, "msr/mperf/": 2.0e9, "msr/tsc/": 2.45e9 * 10 * 4}
    found = metrics_of(definition, named(counts), MachineFacts(cpus=4))["frequency_hz"]
    assert found.value == pytest.approx(2.45e9 * 1.5)
    assert "counted_cpus" in str(found.formula)
    by_name = metrics_of(definition, named(counts), MachineFacts(cpus=4, tsc_hz=2.4e9))["frequency_hz"]
    assert by_name.value == pytest.approx(3.6e9)
    task = metrics_of(definition, named(counts, "process"), MachineFacts(scope="process", cpus=4))
    assert task["frequency_hz"].missing == (
        "#system_tsc_freq of the machine is not known; it holds for system and cpu only"
    )


def test_a_missing_event_withholds_what_needs_it_and_nothing_else() -> None:
    gained = Gains(
        "system",
        "",
        1.0,
        {"INST_RETIRED.ANY": Gain(1e9), "CPU_CLK_UNHALTED.THREAD": Gain(2e9)},
        {"L2_LINES_IN.ALL": "this hypervisor does not offer it"},
    )
    found = metrics_of(definitions()["intel-icelake-server"], gained)
    assert found["cpi"].value == 2.0
    assert found["l2_mpki"].missing == "L2_LINES_IN.ALL: this hypervisor does not offer it"
    assert found["l1d_mpki"].missing == "L1D.REPLACEMENT: it was not among the events that were counted"
    assert found["frequency_hz"].value is None


def test_a_division_by_0_is_withheld() -> None:
    found = metrics_of(definitions()["generic"], named({"instructions": 0.0, "cycles": 5.0}))
    assert found["cpi"].missing == "instructions is 0, which it divides by"
    assert found["ipc"].value == 0.0


def test_below_the_floor_a_metric_is_withheld_and_above_it_tells_its_coverage() -> None:
    events = {
        "instructions": EventSeries((1e9,), (1.0,)),
        "cycles": EventSeries((1e9,), (1.0,)),
        "branch-misses": EventSeries((1e6,), (0.25,)),
        "cache-misses": EventSeries((1e6,), (0.05,)),
    }
    series = CounterSeries("system", "", [SECOND], events, {}, begin_ns=0)
    found = metrics_of(definitions()["generic"], gains(series))
    assert found["branch_mpki"].value == pytest.approx(1.0)
    assert found["branch_mpki"].coverage_ratio == pytest.approx(0.25)
    assert found["llc_mpki"].missing == "cache-misses: counted in 5.0 % of the time, less than 10 %"


def test_parts_stand_in_for_their_sum() -> None:
    parts = {
        "FP_ARITH_INST_RETIRED.SCALAR_SINGLE": 1e6,
        "FP_ARITH_INST_RETIRED.SCALAR_DOUBLE": 3e6,
        "INST_RETIRED.ANY": 1e8,
    }
    definition = definitions()["intel-icelake-server"]
    assert metrics_of(definition, named(parts))["fp_scalar_ratio"].value == pytest.approx(0.04)
    del parts["FP_ARITH_INST_RETIRED.SCALAR_SINGLE"]
    assert metrics_of(definition, named(parts))["fp_scalar_ratio"].value is None


def test_metrics_that_a_processor_lacks_say_why() -> None:
    for definition in definitions().values():
        found = metrics_of(definition, totals(1.0))
        assert all(each.value is None and each.missing for each in found.values())
    zen = metrics_of(definitions()["amd-zen3"], totals(1.0))
    assert zen["llc_code_mpki"].missing == "L3 does not tell code from data"


@pytest.mark.parametrize("id_", sorted(id_ for id_, each in definitions().items() if each.topdown))
def test_definitions_have_the_events_of_their_trees(id_: str) -> None:
    definition = definitions()[id_]
    for smt_on in (False, True):
        model = model_of(definition, MachineFacts(smt_on=smt_on))
        assert not isinstance(model, str)
        for name in events_of(model):
            event = definition.event(name)
            assert event is not None, name
            assert event.group or event.fixed, f"{name} is in no group"


def test_every_model_is_some_definitions() -> None:
    used = {definition.topdown for definition in definitions().values()}
    assert {model_id.removesuffix("-r0p0") for model_id in MODELS} <= used


def test_a_tree_from_counts_under_any_name() -> None:
    counts = {
        "slots": 6000.0,
        "cpu/topdown-fe-bound/": 1500.0,
        "cpu/topdown-bad-spec/": 400.0,
        "topdown-retiring": 2000.0,
        "topdown-be-bound": 2100.0,
        "INT_MISC.UOP_DROPPING": 60.0,
    }
    tree = top_down_of(definitions()["intel-sapphirerapids"], named(counts))
    assert isinstance(tree, TopDown)
    assert tree.node("frontend_bound").ratio == pytest.approx(0.24)
    assert tree.node("retiring").ratio == pytest.approx(1 / 3)
    memory = tree.node("memory_bound")
    assert memory.ratio is None
    assert "topdown-mem-bound" in str(memory.missing)
    assert top_down_of(definitions()["amd-zen3"], named(counts)) == (
        "this family has no events of pipeline utilisation"
    )
    assert "stall_frontend_ratio" in str(top_down_of(definitions()["arm-neoverse-n1"], named(counts)))


amounts = st.one_of(st.none(), st.floats(0, 1e18))
EVENTS = sorted(definitions()["intel-icelake-server"].events)


@given(
    st.dictionaries(st.sampled_from(EVENTS), amounts), st.sampled_from(["system", "cpu", "process", "cgroup"])
)
def test_any_counts_give_a_value_or_a_reason(counts: dict[str, float | None], scope: str) -> None:
    events = {
        name: Gain(count, missing=None if count is not None else "lost") for name, count in counts.items()
    }
    facts = MachineFacts(scope=scope, smt_on=True, cpus=4, tsc_hz=2e9)
    for each in metrics_of(
        definitions()["intel-icelake-server"], Gains(scope, "", 1.0, events), facts
    ).values():
        assert (each.value is None) == bool(each.missing)
