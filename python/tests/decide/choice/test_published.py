"""Figures of the papers: DCPerf's section 4.6, and the table of resource usage effectiveness."""

import math

import pytest

from steelyard.decide.choice.making import choose
from steelyard.decide.choice.request import ChooseRequest
from steelyard.decide.choice.results import Criterion
from steelyard.decide.choice.savings import needed_improvement, saved_servers
from steelyard.decide.choice.scores import same_mix
from steelyard.report.decide.choose import answer
from steelyard.report.format import plain
from tests.decide.choice.tables import DCPERF, csv_table, of_section_4_6

BY_WATT = {"by": "perf-per-watt", "baseline": "SKU4"}
SUITES = {"DCPerf": DCPERF, "SPEC 2017": "spec2017"}


def test_sku_a_has_25_percent_more_for_a_watt_and_92_percent_in_spark() -> None:
    found = choose(of_section_4_6(), ChooseRequest(suites=SUITES, **BY_WATT)).machine("SKU-A")
    scored = found.scores[Criterion.PER_WATT]
    assert scored.overall == pytest.approx(1.25, abs=0.005)
    assert scored.by_workload["spark"] == pytest.approx(1.92)
    assert max(scored.by_workload, key=lambda name: scored.by_workload[name] or 0) == "spark"


def test_sku_b_has_57_percent_less_and_fails_on_the_web() -> None:
    choice = choose(of_section_4_6(), ChooseRequest(suites=SUITES, **BY_WATT))
    assert choice.machine("SKU-B").scores[Criterion.PER_WATT].overall == pytest.approx(0.43, abs=0.005)
    (hidden,) = choice.hidden
    worst, second = hidden.members[:2]
    assert (worst.workload, second.workload) == ("django", "mediawiki")
    assert worst.score == pytest.approx(0.15)
    assert second.score == pytest.approx(0.37)
    lines = [plain(line) for line in answer(choice).lines]
    assert lines[0].startswith("SKU-B: Perf/W -57 % overall, -85 % on django, -63 % on mediawiki")


def test_spec_2017_misleads_and_is_shown_beside() -> None:
    choice = choose(of_section_4_6(), ChooseRequest(suites=SUITES, **BY_WATT))
    spec = next(suite for suite in choice.suites if suite.suite == "SPEC 2017")
    per_watt = spec.overall[Criterion.PER_WATT]
    assert per_watt["SKU-A"] == pytest.approx(1.8)
    assert per_watt["SKU-B"] == pytest.approx(1.6)
    (wrong,) = (one for one in choice.disagreements if one.criterion == Criterion.PER_WATT)
    assert (wrong.suite, wrong.machine) == ("SPEC 2017", "SKU-B")
    lines = [plain(line) for line in answer(choice).lines]
    assert "SPEC 2017 misleads: it says 1.60x Perf/W of SKU-B, DCPerf says 0.43x." in lines


def test_spec_alone_would_choose_almost_at_random() -> None:
    choice = choose(of_section_4_6(), ChooseRequest(workloads=("spec2017",), **BY_WATT))
    assert [one.name for one in choice.machines] == ["SKU-A", "SKU-B", "SKU4"]
    assert choice.orders[0].ratio == pytest.approx(1.8 / 1.6)


def test_absolute_performance_says_the_opposite_of_performance_for_a_watt() -> None:
    found = choose(of_section_4_6(), ChooseRequest(suites=SUITES, **BY_WATT)).machine("SKU-A")
    assert found.scores[Criterion.PERFORMANCE].overall < 1 < found.scores[Criterion.PER_WATT].overall  # type: ignore[operator]


def test_performance_for_the_cost_is_that_over_capex_and_opex() -> None:
    table = csv_table(
        "machine,price_usd,budgeted_power_w,maintenance_per_year_usd,web_per_s\n"
        "X,10000,500,300,1000\nY,8000,700,100,900\n"
    )
    request = ChooseRequest(power_price=0.1, pue=1.5, years=5, baseline="X")
    choice = choose(table, request)
    hours = 8766 * 5
    totals = {
        "X": 10000 + 5 * 300 + 0.5 * 1.5 * hours * 0.1,
        "Y": 8000 + 5 * 100 + 0.7 * 1.5 * hours * 0.1,
    }
    for name, total in totals.items():
        cost = choice.machine(name).cost
        assert cost is not None
        assert cost.total == pytest.approx(total)
    scored = choice.machine("Y").scores[Criterion.PER_COST]
    assert scored.overall == pytest.approx((900 / totals["Y"]) / (1000 / totals["X"]))
    assert choice.currency == "USD"


RUE = (
    "machine,result,value,better\n"
    "config 1,total,885,lower\nconfig 2,total,815,lower\n"
    "config 1,group 1,1289,lower\nconfig 2,group 1,1484,lower\n"
    "config 1,group 2,428,lower\nconfig 2,group 2,434,lower\n"
    "config 1,group 3,550,lower\nconfig 2,group 3,655,lower\n"
)
SHARES = (
    "config 1,group 1_share_ratio,0.501,higher\n"
    "config 1,group 2_share_ratio,0.315,higher\n"
    "config 1,group 3_share_ratio,0.174,higher\n"
)
MEMBERS = ("group 1", "group 2", "group 3")


def test_an_aggregate_whose_members_all_say_the_opposite_is_refused() -> None:
    choice = choose(csv_table(RUE + SHARES), ChooseRequest(aggregates={"total": ",".join(MEMBERS)}))
    (found,) = choice.contradictions
    assert found.score == pytest.approx(1.09, abs=0.005)
    assert [round(found.members[name], 2) for name in MEMBERS] == [0.87, 0.99, 0.84]
    assert "total" not in {each.name for each in choice.workloads}
    assert choice.machine("config 2").scores[Criterion.PERFORMANCE].overall < 1  # type: ignore[operator]
    line = plain(answer(choice).lines[0])
    said = "total is refused: it says +9 % of config 2, and all its 3 members say the opposite"
    assert line.startswith(said)


def test_the_aggregate_at_the_shares_of_the_baseline_is_088() -> None:
    table = csv_table(RUE + SHARES)
    one, two = table.machine("config 1"), table.machine("config 2")
    found = same_mix(table, "total", MEMBERS, two, one)
    assert found == pytest.approx(0.88, abs=0.005)
    weights = (0.501, 0.315, 0.174)
    values = [two.results[name].value for name in MEMBERS]
    mean = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)
    assert mean == pytest.approx(1004, abs=1)


def test_an_aggregate_that_agrees_with_a_member_is_not_refused() -> None:
    table = csv_table(RUE.replace("config 2,group 2,434", "config 2,group 2,400"))
    assert choose(table, ChooseRequest(aggregates={"total": ",".join(MEMBERS)})).contradictions == ()


def test_to_save_1000_servers_takes_10_percent_of_10000_and_1_percent_of_100000() -> None:
    # The tutorial's percents are of the work: 10 % less of it is 11.1 % more throughput of a server.
    assert needed_improvement(10_000, 1000) == pytest.approx(0.10 / (1 - 0.10))
    assert needed_improvement(100_000, 1000) == pytest.approx(0.01 / (1 - 0.01))
    assert saved_servers(10_000, 0.10 / (1 - 0.10)) == 1000
    assert saved_servers(100_000, 0.01 / (1 - 0.01)) == 1000
    assert saved_servers(100_000, 0.01) == 990
