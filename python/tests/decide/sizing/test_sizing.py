"""Sizes for a demand: lower ends, limits, edges, costs, real curves, and input that is refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.cli.decide.curves import measured_in
from steelyard.decide.sizing.curves import LoadSweep, MemorySweep, SizeCurve, of_repeats
from steelyard.decide.sizing.making import FITTED, size
from steelyard.decide.sizing.request import SizeRequest, quantity_in
from steelyard.decide.sizing.results import Sizing
from steelyard.decide.sizing.sources import Measured
from steelyard.decide.tables import MachineTable, read_table
from steelyard.stats.scaling.choice import Topology
from tests.decide.choice.tables import csv_table

DATA = Path(__file__).resolve().parents[5] / "shared/data/servers"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="../shared/data/servers is not here")
NOISE = (1.0, 1.01, 0.99)
RATE = SizeRequest(demand="1e5")


def with_siblings(cpus: int, cores: int = 8) -> float:
    base = min(cpus, cores)
    return 1000 * base * (1 - 0.005 * (base - 1)) * (1 + 0.3 * (cpus - base) / cores)


def curve(machine: str = "m", factor: float = 1.0) -> SizeCurve:
    steps = (1, 2, 4, 8, 16)
    return SizeCurve(
        machine,
        {step: [factor * with_siblings(step) * each for each in NOISE] for step in steps},
        Topology(16, 8, 2),
        {"p99": {1: 5e5, 2: 5e5, 4: 6e5, 8: 8e5, 16: 2e6}},
        "curve",
    )


def types(price: float = 5000.0, name: str = "m") -> MachineTable:
    return csv_table(f"machine,cpus,memory_gib,price_usd,budgeted_power_w\n{name},16,64,{price!r},300\n")


def sized(measured: Measured, table: MachineTable | None, request: SizeRequest) -> Sizing:
    found = size(measured, table, request)
    if found.recommended is not None and found.demand_per_s is not None:
        one = found.recommended
        assert one.count is not None
        assert one.refused is None
        least = one.throughput.low if one.throughput.low is not None else one.throughput.ops_per_s
        assert least is not None
        assert one.count * least >= found.demand_per_s * (1 + found.headroom_ratio) * (1 - 1e-8)
        assert (one.count - 1) * least < found.demand_per_s * (1 + found.headroom_ratio)
    return found


@given(st.floats(1e3, 1e8), st.floats(0, 2))
@settings(max_examples=15, deadline=None)
def test_the_lower_ends_meet_the_demand_with_its_headroom(rate: float, headroom: float) -> None:
    request = SizeRequest(demand=repr(rate), headroom=repr(headroom), power_price=0.1)
    found = sized(Measured([curve()]), types(), request)
    assert found.recommended is not None
    assert found.recommended.is_assured
    assert (found.recommended.margin_ratio or 0) >= -1e-8


def test_siblings_are_an_edge_and_all_cpus_are_cheapest() -> None:
    found = sized(Measured([curve()]), types(), replace(RATE, power_price=0.1))
    (edge,) = found.edges
    assert (edge.kind, edge.at.value) == ("siblings", 8)
    assert edge.worth_ratio is not None
    assert edge.worth_ratio.value == pytest.approx(0.3, abs=0.1)
    best = found.recommended
    assert best is not None
    # A part of the machine leaves its siblings idle, and pays for them.
    assert (best.cpus, best.reserved_cpus) == (16, 16)
    assert found.second is not None
    assert (found.second.cost or 0) >= (best.cost or math.inf)
    eight = next(one for one in found.sizes if one.cpus == 8)
    assert eight.reserved_cpus == 16


def test_a_curve_of_one_step_is_that_of_its_repeats() -> None:
    one = SizeCurve("m", {1: [1000.0 * each for each in NOISE]}, Topology(1, 1, 1), source="c")
    found = sized(Measured([one]), None, RATE)
    assert found.recommended is not None
    assert found.recommended.is_assured
    assert found.without_edge == {"m": "one step only"}


def test_a_curve_without_a_name_is_that_of_the_only_machine() -> None:
    found = sized(Measured([curve(machine="")]), types(), replace(RATE, power_price=0.1))
    assert found.recommended is not None
    assert found.recommended.machine == "m"
    assert found.recommended.cost is not None


def test_a_latency_limit_refuses_the_siblings() -> None:
    found = sized(Measured([curve()]), types(), replace(RATE, latency_limit="1ms", power_price=0.1))
    assert found.recommended is not None
    assert (found.recommended.cpus or 0) <= 8
    refused = next(one for one in found.sizes if one.cpus == 16)
    assert refused.refused == "p99 is 2 ms, the limit 1 ms"


def test_a_size_without_a_latency_is_refused_where_there_is_a_limit() -> None:
    found = sized(Measured([replace(curve(), latency_ns={})]), types(), replace(RATE, latency_limit="1ms"))
    assert found.recommended is None
    assert {one.refused for one in found.sizes} == {"no p99 latency was measured"}


def test_latency_is_interpolated_between_steps_and_never_beyond() -> None:
    one = curve()
    latency, how = one.latency_at("p99", 12)
    assert latency is not None
    assert 8e5 < latency < 2e6
    assert how == "between 8 and 16 CPUs"
    assert one.latency_at("p99", 32)[0] is None
    assert one.latency_at("p50", 8)[0] is None


def test_memory_that_a_part_lacks_refuses_it() -> None:
    found = sized(Measured([curve()]), types(), replace(RATE, memory="20GiB"))
    assert {one.cpus for one in found.sizes if one.refused} == {1, 2}
    assert next(one for one in found.sizes if one.cpus == 1).refused == (
        "it has 8 GiB of memory, 20 GiB are needed"
    )


def test_a_rented_type_is_taken_whole() -> None:
    table = csv_table("machine,cpus,price_per_hour_usd\nm,16,0.8\n")
    found = sized(Measured([curve()]), table, RATE)
    assert [one.cpus for one in found.sizes] == [16]
    assert {one.cpus for one in found.points} == {1, 2, 4, 8, 16}


@given(st.floats(100, 1e6), st.floats(1.01, 10))
@settings(max_examples=15, deadline=None)
def test_a_higher_price_costs_more_for_the_same_machines(price: float, factor: float) -> None:
    request = replace(RATE, power_price=0.1, whole=True)
    cheap, dear = (
        sized(Measured([curve()]), types(each), request).recommended for each in (price, price * factor)
    )
    assert cheap is not None
    assert dear is not None
    assert cheap.count == dear.count
    assert (cheap.cost or 0) < (dear.cost or 0)


@given(st.floats(1e-2, 1e3))
@settings(max_examples=10, deadline=None)
def test_the_unit_of_work_changes_no_size(factor: float) -> None:
    whole = replace(RATE, whole=True)
    plain = sized(Measured([curve()]), None, whole).recommended
    scaled = sized(
        Measured([curve(factor=factor)]), None, replace(whole, demand=repr(1e5 * factor))
    ).recommended
    assert plain is not None
    assert scaled is not None
    assert (plain.cpus, plain.count) == (scaled.cpus, scaled.count)


def test_without_a_price_the_order_is_by_cpus_and_says_so() -> None:
    found = sized(Measured([curve()]), None, RATE)
    assert found.ranked_by == "cpus"
    assert found.recommended is not None
    assert found.recommended.cost is None
    assert found.cautions[0].startswith("No costs (the machine is in no table")


def test_more_machines_than_may_be_used_are_refused() -> None:
    found = sized(Measured([curve()]), types(), replace(RATE, most_machines=5, whole=True))
    assert found.recommended is None
    assert found.sizes[0].refused == "11 machines are needed, 5 may be used"


def test_beyond_the_steps_siblings_need_their_worth() -> None:
    one = curve()
    cores = SizeCurve("m", {k: v for k, v in one.values.items() if k <= 8}, one.topology, source="c")
    refused = sized(Measured([cores]), None, replace(RATE, whole=True))
    assert refused.recommended is None
    assert "siblings" in (refused.sizes[0].refused or "")
    given_ = sized(Measured([cores]), None, replace(RATE, whole=True, sibling_worth=0.3))
    assert given_.recommended is not None


def test_a_table_with_repeats_is_sized() -> None:
    table = csv_table(
        "machine,cpus,price_per_hour_usd,web_per_s,latency_p99_ms\n"
        + "".join(f"A,4,0.2,{1000 * each},2\nB,8,0.35,{2100 * each},4\n" for each in NOISE)
    )
    found = sized(Measured(), table, RATE)
    assert found.recommended is not None
    assert found.recommended.machine == "B"
    limited = sized(Measured(), table, replace(RATE, latency_limit="3ms"))
    assert limited.recommended is not None
    assert limited.recommended.machine == "A"


def test_one_run_has_no_interval_unless_the_noise_is_stated() -> None:
    table = csv_table("machine,cpus,web_per_s\nA,4,1000\n")
    plain = sized(Measured(), table, RATE)
    assert plain.recommended is not None
    assert not plain.recommended.is_assured
    assert plain.recommended.margin_ratio is None
    assert plain.cautions[0].startswith("No interval of A: one run, 3 are needed")
    stated = sized(Measured(), table, replace(RATE, noise="3%")).recommended
    assert stated is not None
    assert stated.is_assured
    assert (stated.count or 0) > (plain.recommended.count or 0)


def test_equal_repeats_have_no_interval() -> None:
    found = of_repeats([[100.0, 100.0, 100.0]], None)
    assert found.low is None
    assert (found.no_interval or "").startswith("repeats are all the same")


def test_a_sweep_of_load_gives_the_capacity_within_the_limit() -> None:
    sweep = LoadSweep(
        "m",
        [1, 2, 4, 8],
        [[1000.0 * level * each for each in NOISE] for level in (1, 2, 3.6, 3.7)],
        {"p99": [[1e6, 1e6, 1e6], [1.2e6, 1e6, 1e6], [2e6, 1.8e6, 1.9e6], [9e6, 9e6, 9e6]]},
        "sweep",
    )
    free, latency = sweep.capacity("p99", None)
    assert (free.ops_per_s, latency) == (3700.0, 9e6)
    limited, latency = sweep.capacity("p99", 2e6)
    assert (limited.ops_per_s, latency) == (3600.0, 2e6)
    assert sweep.capacity("p99", 1e5)[0].reason == "every load has a latency above the limit"
    assert sweep.capacity("p50", 1e6)[0].reason == "no p50 latency was measured"


GIB = 1 << 30


def test_a_sweep_of_memory_has_an_edge_that_each_machine_needs() -> None:
    sizes = {g * GIB: [500.0 * min(g, 8) * each for each in NOISE] for g in (1, 2, 4, 8, 16, 32)}
    found = sized(Measured([curve()], memories=[MemorySweep("m", sizes, "sweep")]), types(), RATE)
    edge = next(one for one in found.edges if one.kind == "memory")
    assert edge.at.value == pytest.approx(8 * GIB, rel=0.1)
    assert found.memory_source == "the edge of sweep"
    assert (found.memory_bytes or 0) >= edge.at.value
    assert found.recommended is not None
    assert (found.recommended.memory_bytes or 0) >= (found.memory_bytes or 0)


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        ([100.0, 100.0, 101.0], "memory changes nothing between the sizes that were tried"),
        ([100.0, 200.0], "a sweep of memory needs three sizes"),
    ],
)
def test_a_sweep_of_memory_without_an_edge_says_why(rates: list[float], why: str) -> None:
    sweep = MemorySweep("m", {(at + 1) * GIB: [rate] for at, rate in enumerate(rates)}, "sweep")
    assert sweep.edge_bytes() == (None, why)


@pytest.mark.parametrize(
    ("measured", "table", "request_", "said"),
    [
        (Measured(), None, RATE, "nothing says what a machine does"),
        (Measured([curve()]), types(name="other"), RATE, "no machine of the table has a curve: m"),
        (Measured([curve()]), None, SizeRequest(demand="-1"), "--rate '-1': not a number above 0"),
        (Measured([curve()]), None, SizeRequest(latency="p98"), "--latency 'p98' is none of p99"),
        (Measured([curve()]), None, SizeRequest(memory="lots"), "--memory 'lots': not a size"),
        (Measured([curve()]), None, SizeRequest(latency_limit="5GiB"), "not a time"),
        (Measured([curve()]), None, SizeRequest(workload="web"), "--workload web: no table has it"),
        (Measured([curve()]), types(-5.0), RATE, "m: price is -5"),
        (Measured(), csv_table("machine,a_per_s,b_per_s\nA,1,2\n"), RATE, "2 results of the table may be"),
        (
            Measured(),
            csv_table("machine,a_per_s\nA,\n"),
            RATE,
            "no machine has a result",
        ),
        (
            Measured(),
            csv_table("machine,a_per_s,p50_ms\nA,1,2\n"),
            SizeRequest(demand="9", latency_limit="5ms"),
            "the table has no p99 latency",
        ),
        (
            Measured(),
            csv_table("machine,latency_ms,b_per_s\nA,1,2\n"),
            SizeRequest(workload="latency_ms"),
            "less of it is better",
        ),
        (
            Measured(),
            csv_table("machine,geekbench6_multi,b_per_s\nA,2143,2\n"),
            SizeRequest(workload="geekbench6_multi"),
            "it has no unit, and is no rate",
        ),
    ],
)
def test_what_cannot_be_sized_is_refused_with_a_reason(
    measured: Measured, table: MachineTable | None, request_: SizeRequest, said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        size(measured, table, request_)
    assert said in raised.value.message
    assert raised.value.hint


def test_a_latency_of_the_table_may_have_a_short_name() -> None:
    table = csv_table("machine,a_per_s,p99_ms\nA,5,2\nB,5,9\n")
    found = size(Measured(), table, SizeRequest(demand="9", latency_limit="5ms"))
    assert [(one.machine, one.refused) for one in found.sizes] == [
        ("A", None),
        ("B", "p99 is 9 ms, the limit 5 ms"),
    ]
    assert found.cautions[-1].endswith("the order is by machines.")


def test_a_machine_without_a_cost_is_named() -> None:
    table = csv_table("machine,a_per_s,price_per_hour\nA,5,2\nB,5,\n")
    found = size(Measured(), table, SizeRequest(demand="9"))
    assert found.cautions[-1] == "No cost of B, listed last: price_per_hour: the cell is empty."


def test_times_and_sizes_have_units() -> None:
    assert quantity_in("1.5 ms", "--x", "s", "5ms") == pytest.approx(0.0015)
    assert quantity_in("24GiB", "--x", "bytes", "1GiB") == 24 * GIB
    for text in ("5", "ms", "-1ms", "1e999s", "0ms"):
        with pytest.raises(UsageError, match="not a time"):
            quantity_in(text, "--x", "s", "5ms")


@needs_data
def test_real_curves_are_sized_with_the_types_beside_them() -> None:
    measured = measured_in([str(DATA / "curves.csv")])
    assert len(measured.curves) == 1210
    few = {"aws/c7g.4xlarge", "aws/m6i.4xlarge", "aws/c6a.4xlarge"}
    chosen = [each for each in measured.curves if each.machine in few]
    assert len(chosen) == 3
    table = read_table([DATA / "machines.csv"])
    stated = {machine.name: {"price_per_hour": 0.6} for machine in table.machines}
    found = sized(Measured(chosen), table.with_attributes(stated), replace(RATE, demand="1e6"))
    assert found.recommended is not None
    assert found.recommended.machine in few
    assert found.recommended.is_assured
    kinds = {edge.machine: edge.kind for edge in found.edges}
    # Arm's cores have no siblings; those of the others do, and their curves bend there.
    assert kinds.get("aws/m6i.4xlarge") == "siblings"
    assert kinds.get("aws/c7g.4xlarge") != "siblings"


@needs_data
def test_of_many_curves_the_cheapest_are_fitted() -> None:
    measured = measured_in([str(DATA / "curves.csv")])
    few = Measured(measured.curves[: FITTED + 6])
    found = size(few, None, replace(RATE, whole=True))
    assert len({one.machine for one in found.sizes}) == FITTED
    assert any(f"{FITTED} of {FITTED + 6} curves were fitted" in said for said in found.cautions)


@needs_data
def test_a_table_of_1214_machines_is_sized_by_a_result() -> None:
    table = read_table([DATA / "machines.csv"])
    request = SizeRequest(workload="web_1k_per_s", demand="1e7", noise="3%")
    found = sized(Measured(), table, request)
    assert found.recommended is not None
    assert len(found.sizes) == 1214
    assert all(one.refused for one in found.sizes if one.throughput.ops_per_s is None)
