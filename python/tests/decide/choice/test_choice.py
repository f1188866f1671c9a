"""Properties of a choice, break-evens that are exact, demands within limits, and input that is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.decide.choice.economics import Power, cost_of, planned_power
from steelyard.decide.choice.making import choose, improve
from steelyard.decide.choice.request import ChooseRequest, share_in, span_in
from steelyard.decide.choice.results import Choice, Criterion, Order
from steelyard.decide.tables import MachineTable, read_table
from tests.decide.choice.tables import csv_table, of_section_4_6, priced

MACHINES = Path(__file__).resolve().parents[5] / "shared/data/servers/machines.csv"
THREE = {"A": [100.0, 101.0, 99.0], "B": [140.0, 138.0, 141.0], "C": [90.0, 91.0, 92.0]}
PRICES = {"A": 5000.0, "B": 8000.0, "C": 4000.0}
WATTS = {"A": 200.0, "B": 350.0, "C": 150.0}
REQUEST = ChooseRequest(power_price=0.15, baseline="A")


def three(**changes: float) -> MachineTable:
    return priced(THREE, {**PRICES, **changes}, WATTS)


def order_and_scores(choice: Choice) -> list[tuple[str, float]]:
    return [(one.name, one.scores[choice.criterion].overall or 0.0) for one in choice.machines]


def best(table: MachineTable, request: ChooseRequest) -> dict[str, float]:
    return dict(order_and_scores(choose(table, request)))


@given(st.floats(0.01, 100.0))
@settings(max_examples=25, deadline=None)
def test_another_currency_changes_no_order_and_no_score(rate: float) -> None:
    prices = {name: price * rate for name, price in PRICES.items()}
    table = priced(THREE, prices, WATTS, currency="EUR")
    other = choose(table, replace(REQUEST, power_price=0.15 * rate))
    for (name, score), (own, value) in zip(
        order_and_scores(other), order_and_scores(choose(three(), REQUEST)), strict=True
    ):
        assert name == own
        assert score == pytest.approx(value)


@given(st.floats(1e-3, 1e3))
@settings(max_examples=25, deadline=None)
def test_another_unit_of_the_result_changes_no_score(factor: float) -> None:
    scaled = {name: [value * factor for value in values] for name, values in THREE.items()}
    found = best(priced(scaled, PRICES, WATTS), REQUEST)
    assert found == pytest.approx(best(three(), REQUEST))


@given(st.permutations(list(THREE)))
@settings(max_examples=10, deadline=None)
def test_the_order_of_rows_changes_nothing(names: list[str]) -> None:
    table = priced({name: THREE[name] for name in names}, PRICES, WATTS)
    assert order_and_scores(choose(table, REQUEST)) == order_and_scores(choose(three(), REQUEST))


@given(st.floats(1000, 20_000), st.floats(1.01, 5))
@settings(max_examples=25, deadline=None)
def test_a_higher_price_never_helps(price: float, factor: float) -> None:
    cheap, dear = (best(three(B=each), REQUEST)["B"] for each in (price, price * factor))
    assert dear < cheap


@pytest.mark.parametrize("parameter", ["power_price", "pue", "years", "price"])
def test_machines_are_equal_at_a_break_even_and_change_places_beyond(parameter: str) -> None:
    results = {"A": [100.0], "B": [104.0]}
    prices, watts = {"A": 8000.0, "B": 7600.0}, {"A": 300.0, "B": 420.0}
    request = ChooseRequest(power_price=0.1, pue=1.2, years=4)
    choice = choose(priced(results, prices, watts), request)
    (found,) = (one for one in choice.break_evens if one.parameter == parameter)
    for factor, is_flipped in ((1.0, None), (0.999, found.at < found.now), (1.001, found.at > found.now)):
        at = found.at * factor
        if parameter == "price":
            changed = choose(priced(results, {**prices, found.first: at}, watts), request)
        else:
            changed = choose(priced(results, prices, watts), replace(request, **{parameter: at}))
        ratio = changed.orders[0].ratio
        if is_flipped is None:
            assert ratio == pytest.approx(1.0, rel=1e-6)
        else:
            assert changed.machines[0].name == (found.second if is_flipped else found.first)


def test_weights_have_an_exact_break_even() -> None:
    table = csv_table("machine,web_per_s,batch_per_s\nA,100,50\nB,130,35\n")
    choice = choose(table, ChooseRequest(baseline="A"))
    by_workload = {one.workload: one for one in choice.break_evens}
    web, batch = by_workload["web_per_s"], by_workload["batch_per_s"]
    assert web.at == pytest.approx(1 - batch.at)
    request = ChooseRequest(baseline="A", weights={"web_per_s": str(web.at), "batch_per_s": str(1 - web.at)})
    assert choose(table, request).orders[0].ratio == pytest.approx(1.0)


def test_no_break_even_where_one_machine_is_better_in_everything() -> None:
    table = priced({"A": [100.0], "B": [90.0]}, {"A": 5000.0, "B": 6000.0}, {"A": 200.0, "B": 300.0})
    assert {one.parameter for one in choose(table, REQUEST).break_evens} == {"price"}


def test_a_machine_that_is_worse_in_everything_is_not_on_the_front() -> None:
    table = priced(
        {"A": [100.0], "B": [90.0], "C": [80.0]},
        {"A": 5000.0, "B": 6000.0, "C": 2000.0},
        {"A": 200.0, "B": 300.0, "C": 100.0},
    )
    choice = choose(table, REQUEST)
    assert {one.name: one.is_on_front for one in choice.machines} == {"A": True, "B": False, "C": True}
    assert choice.machine("B").beaten_by == "A"


def test_a_demand_counts_servers_racks_and_megawatts() -> None:
    table = csv_table(
        "machine,budgeted_power_w,rack_units,price_usd,web_per_s,batch_per_s\nA,500,2,9000,1000,10\n"
        "B,400,1,8000,600,10\n"
    )
    request = ChooseRequest(
        power_price=0.1,
        pue=1.25,
        headroom="20%",
        rack_kw=10.0,
        demands={"web_per_s": "10000", "batch_per_s": "25"},
    )
    demand = choose(table, request).demand
    assert demand is not None
    found = {one.machine: one for one in demand.choices}
    assert found["A"].by_workload == {"web_per_s": 12, "batch_per_s": 3}
    assert found["A"].servers == 15
    assert (found["A"].per_rack, found["A"].racks) == (20, 1)
    assert found["A"].megawatts == pytest.approx(15 * 500 * 1.25 / 1e6)
    assert found["B"].per_rack == 25


def test_a_demand_beyond_the_site_is_refused_with_the_reason() -> None:
    request = replace(REQUEST, demands={"web_per_s": "1e6"}, site_mw=0.5)
    demand = choose(three(), request).demand
    assert demand is not None
    assert not demand.is_met
    assert all("MW, the site has 0.5 MW" in (one.refused or "") for one in demand.choices)


def test_a_server_that_no_rack_holds_is_refused() -> None:
    demand = choose(three(), replace(REQUEST, demands={"web_per_s": "10"}, rack_kw=0.18)).demand
    assert demand is not None
    assert demand.choices[0].machine == "C"
    assert [one.refused for one in demand.choices[1:]] == [
        "a server takes 200 W, a rack has 180 W",
        "a server takes 350 W, a rack has 180 W",
    ]


def test_power_is_measured_under_each_workload_and_planned_as_budgeted() -> None:
    table = csv_table(
        "machine,web_per_s,batch_per_s,web_power_w,batch_per_s_power_w,budgeted_power_w\n"
        "A,10,10,100,200,300\nB,10,10,50,100,\n"
    )
    choice = choose(table, ChooseRequest(baseline="A"))
    scored = choice.machine("B").scores[Criterion.PER_WATT]
    assert scored.by_workload == {"web_per_s": 2.0, "batch_per_s": 2.0}
    assert choice.machine("A").power == Power(300.0, "budgeted")
    assert choice.machine("B").power == Power(100.0, "measured")


def test_tdp_stands_in_with_a_caution() -> None:
    table = csv_table("machine,tdp_w,web_per_s\nA,100,10\nB,150,12\n")
    choice = choose(table, ChooseRequest())
    assert choice.criterion == Criterion.PER_WATT
    assert choice.cautions[0].startswith("The power of A, B is TDP")
    assert planned_power(table.machine("A"), []).source == "TDP"


def test_without_power_and_price_performance_is_answered() -> None:
    choice = choose(csv_table("machine,web_per_s\nA,10\nB,12\n"), ChooseRequest())
    assert choice.criterion == Criterion.PERFORMANCE
    assert "no column power_w" in choice.not_answered["perf-per-watt"]
    assert "no column price or price_per_hour" in choice.not_answered["perf-per-cost"]
    assert choice.machine("A").cost is None
    assert choice.machine("A").power.watts is None


def test_a_rented_machine_has_no_energy_of_its_own() -> None:
    table = csv_table("machine,price_per_hour_usd,power_w,web_per_s\nA,1.5,300,10\n")
    cost, _ = cost_of(table.machine("A"), Power(300.0, "measured"), REQUEST.economics)
    assert cost is not None
    assert (cost.capex, cost.energy) == (0.0, 0.0)
    assert cost.total == pytest.approx(1.5 * 8766 * 4)


def order(a: list[float], b: list[float], **changes: str) -> Order:
    table = priced({"A": a, "B": b}, {"A": 5000.0, "B": 5000.0}, {"A": 200.0, "B": 200.0})
    return choose(table, replace(REQUEST, by="perf", **changes)).orders[0]  # type: ignore[arg-type]


def test_one_run_has_no_probability_unless_the_noise_is_stated() -> None:
    found = order([100.0], [110.0])
    assert found.probability is None
    assert found.no_interval == "B has one run of web_per_s, 3 are needed: repeat it, or state --noise"
    stated = order([100.0], [110.0], noise="2%")
    assert stated.probability == pytest.approx(0.9996, abs=2e-4)
    assert stated.low is not None
    assert stated.low < stated.ratio < (stated.high or 0)


def test_equal_repeats_show_no_noise() -> None:
    found = order([100.0] * 3, [110.0] * 3)
    assert found.probability is None
    assert found.no_interval == "repeats of both are all the same: they show no noise"


def test_the_probability_falls_with_the_noise_and_grows_with_the_difference() -> None:
    def probability(gap: float, noise: float) -> float:
        a = [100 * (1 + noise * each) for each in (-1, 0, 1)]
        found = order(a, [value * (1 + gap) for value in a]).probability
        assert found is not None
        return found

    assert probability(0.02, 0.01) > probability(0.02, 0.03) > 0.5
    assert probability(0.05, 0.02) > probability(0.01, 0.02)


def test_sessions_are_the_replicates() -> None:
    rows = [
        f"{name},{session},{level * day * run!r}"
        for name, level in (("A", 100.0), ("B", 103.0))
        for session, day in (("mon", 0.96), ("tue", 1.0), ("wed", 1.05))
        for run in (0.999, 1.0, 1.001)
    ]
    with_sessions = choose(csv_table("\n".join(["machine,session,web_per_s", *rows])), ChooseRequest())
    flat = choose(
        csv_table("\n".join(["machine,web_per_s", *(",".join(row.split(",")[::2]) for row in rows)])),
        ChooseRequest(),
    )
    assert (with_sessions.orders[0].probability or 0) < (flat.orders[0].probability or 0)


def test_the_first_is_also_compared_with_a_baseline_further_down() -> None:
    choice = choose(three(), replace(REQUEST, baseline="C", by="perf"))
    assert [(one.first, one.second) for one in choice.orders] == [("B", "A"), ("B", "C"), ("A", "C")]
    assert all((one.probability or 0) > 0.99 for one in choice.orders)


def test_a_duplicate_has_no_probability() -> None:
    table = csv_table(
        "machine,web_per_s,batch_per_s,db_per_s\n"
        + "".join(
            f"{name},{10 + run},{20 + run},{30 + run}\n" for name in ("A", "A again") for run in range(3)
        )
    )
    found = choose(table, ChooseRequest()).orders[0]
    assert found.probability is None
    assert "one machine under two names" in (found.no_interval or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("machine,web_per_s\nA,10\n", "one machine only"),
        ("machine,price,web_per_s\nA,-5,10\nB,5,10\n", "A: price is -5"),
        ("machine,price,web_per_s\nA,1e12,10\nB,5,10\n", "A: price is 1e\\+12"),
        ("machine,power_w,web_per_s\nA,0,10\nB,5,10\n", "A: power_w is 0"),
        ("machine,currency,price,web_per_s\nA,EUR,5,10\nB,USD,5,10\n", "prices are in EUR \\(A\\) and USD"),
        ("machine,web_per_s,db_per_s\nA,10,\nB,,5\n", "no machine has all 2 results"),
    ],
)
def test_bad_tables_are_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        choose(csv_table(text), ChooseRequest())
    assert raised.value.hint


@pytest.mark.parametrize(
    "request_",
    [
        ChooseRequest(by="price"),
        ChooseRequest(by="perf-per-cost"),
        ChooseRequest(baseline="Z"),
        ChooseRequest(workloads=("nothing",)),
        ChooseRequest(weights={"web_per_s": "-1"}),
        ChooseRequest(weights={"web_per_s": "0"}),
        ChooseRequest(demands={"web_per_s": "0"}),
        ChooseRequest(noise="0%"),
        ChooseRequest(suites={"S": "web_per_s"}, workloads=("web_per_s",)),
    ],
)
def test_bad_requests_are_refused(request_: ChooseRequest) -> None:
    with pytest.raises(UsageError):
        choose(csv_table("machine,web_per_s\nA,10\nB,12\n"), request_)


def test_a_demand_is_for_rates_only() -> None:
    table = csv_table("machine,latency_ms,web_per_s\nA,10,5\nB,12,6\n")
    with pytest.raises(UsageError, match="less of it is better"):
        choose(table, ChooseRequest(demands={"latency_ms": "5"}))


def test_an_empty_cell_is_no_absent_column() -> None:
    table = csv_table("machine,x_per_s,price,power_w\nA,1,5,9\nB,2,5,\nC,3,,9\n")
    choice = choose(table, ChooseRequest(power_price=0.1))
    reasons = {one.name: one.scores[Criterion.PER_COST].missing for one in choice.machines}
    assert reasons["B"] == "no cost of B: no energy: power_w: the cell is empty"
    assert reasons["C"] == "no cost of C: price: the cell is empty"
    assert not any("on no machine" in caution for caution in choice.cautions)


def test_a_machine_without_a_result_has_a_reason_and_no_score() -> None:
    table = csv_table("machine,web_per_s,db_per_s\nA,10,5\nB,12,0\nC,9,4\n")
    found = choose(table, ChooseRequest()).machine("B")
    assert found.rank is None
    assert found.scores[Criterion.PERFORMANCE].overall is None
    assert found.scores[Criterion.PERFORMANCE].missing == "withheld: db_per_s: 0 is no result"


@given(st.integers(1, 10**7), st.floats(-0.5, 5.0))
@settings(max_examples=100, deadline=None)
def test_saved_servers_are_never_more_than_the_work_allows(servers: int, improvement: float) -> None:
    (saving,) = improve(None, ChooseRequest(improvement=f"{improvement!r}", fleets=(str(servers),))).fleets
    left = servers - saving.saved
    assert left * (1 + improvement) >= servers * (1 - 1e-8)
    assert (left - 1) * (1 + improvement) < servers


def test_an_improvement_has_power_money_and_an_interval() -> None:
    request = replace(REQUEST, improvement="1%", interval="0.4%..1.6%", fleets=("100000",), baseline="A")
    found = improve(three(), request)
    (saving,) = found.fleets
    assert (saving.saved_low, saving.saved, saving.saved_high) == (398, 990, 1574)
    assert saving.megawatts == pytest.approx(990 * 200 * 1.3 / 1e6)
    assert saving.cost is not None
    assert saving.cost_low is not None
    assert saving.cost_low < saving.cost < (saving.cost_high or 0)


@pytest.mark.parametrize(
    ("improvement", "interval"),
    [("many", None), ("1%", "2%..3%"), ("1%", "2%"), ("1%", "2%..1%"), ("-95%", None)],
)
def test_bad_improvements_are_refused(improvement: str, interval: str | None) -> None:
    with pytest.raises(UsageError):
        improve(None, ChooseRequest(improvement=improvement, interval=interval))


def test_shares_have_bounds() -> None:
    assert share_in("1 %", "--x") == 0.01
    assert span_in("-1%..2%", "--x") == (-0.01, 0.02)
    with pytest.raises(UsageError, match="not a share from 0% to 100%"):
        share_in("101%", "--x")


def test_suites_beside_each_other_keep_their_members() -> None:
    request = ChooseRequest(
        suites={"web": "mediawiki,django", "other": "spark"}, baseline="SKU4", by="perf-per-watt"
    )
    choice = choose(of_section_4_6(), request)
    assert [suite.members for suite in choice.suites] == [("mediawiki", "django"), ("spark",)]
    assert {each.name for each in choice.workloads} == {"mediawiki", "django"}


@pytest.mark.skipif(not MACHINES.exists(), reason="../shared/data/servers is not here")
def test_1214_machines_with_prices_are_put_in_order() -> None:
    table = read_table([MACHINES])
    stated = {
        machine.name: {"price_per_hour": 0.05 * (machine.number("cpus") or 1)} for machine in table.machines
    }
    request = ChooseRequest(workloads=("web_1k_per_s",), demands={"web_1k_per_s": "1e7"})
    choice = choose(table.with_attributes(stated), request)
    assert choice.criterion == Criterion.PER_COST
    ranks = [one.rank for one in choice.machines if one.rank is not None]
    assert ranks == list(range(1, len(ranks) + 1))
    assert len(ranks) > 1000
    assert choice.demand is not None
    assert choice.demand.is_met
    front = [one for one in choice.machines if one.is_on_front]
    assert 1 < len(front) < 200
