"""What alerts and what does not: noise, losses, peers, busy machines."""

import math

import pytest

from steelyard.analyze.health import comparison as health
from steelyard.analyze.health.figures import Figure, cache_level, figures, pair_class
from steelyard.records import HealthCpu, HealthResult
from steelyard.report.health.answer import verdict
from tests import health_samples as samples


@pytest.fixture(scope="module")
def base() -> HealthResult:
    steady = samples.shaken(samples.with_curve(samples.golden()), 0, spread=0.0)
    return samples.quiet(samples.with_nodes(steady, 2))


def _check(result: HealthResult, earlier: list[HealthResult]) -> health.Comparison:
    return health.compare(result, earlier, against="earlier checks")


def test_noise_alone_seldom_alerts_and_a_loss_is_found(base: HealthResult) -> None:
    false_alerts = missed = 0
    trials = 60
    for trial in range(trials):
        earlier = [samples.shaken(base, 1000 * trial + index, spread=0.015) for index in range(6)]
        now = samples.shaken(base, 1000 * trial + 99, spread=0.015)
        slow = samples.shaken(base, 1000 * trial + 99, spread=0.015, latency=1.25)
        false_alerts += not _check(now, earlier).is_ok
        missed += [alert.id for alert in _check(slow, earlier).alerts] != ["latency-memory-worse"]
    # Some fifty figures are asked in each check: the floors keep all of them quiet at noise of 1.5 %.
    assert false_alerts <= 1
    assert missed <= 1


def test_a_noisy_history_widens_what_is_tolerated_and_says_so(base: HealthResult) -> None:
    earlier = [samples.shaken(base, index, spread=0.4) for index in range(8)]
    comparison = _check(samples.shaken(base, 77, spread=0.4), earlier)
    assert any("too noisy to watch" in note for note in comparison.notes)
    tight = _check(base, [samples.shaken(base, index, spread=0.01) for index in range(8)])
    assert not any("too noisy" in note for note in tight.notes)


def test_one_earlier_check_counts_its_floor_twice() -> None:
    figure = Figure("x", "x", "bandwidth", "bytes/s", "higher", 100.0, 100.0, 100.0)
    floor = health.FLOORS["bandwidth"]
    assert health.tolerance(figure, [figure]) == pytest.approx((1 + floor) ** 2 - 1)
    assert health.tolerance(figure, [figure] * 5) == pytest.approx(floor)


def test_intervals_of_both_sides_count() -> None:
    wide = Figure("x", "x", "bandwidth", "bytes/s", "higher", 100.0, 50.0, 200.0)
    sure = Figure("x", "x", "bandwidth", "bytes/s", "higher", 100.0, 100.0, 100.0)
    assert health.tolerance(wide, [sure] * 4) == pytest.approx(1.0)
    # Four wide ones tell their middle twice as well as one.
    assert math.log1p(health.tolerance(sure, [wide] * 4)) == pytest.approx(math.log(2) / 2)


def test_direction_decides_between_worse_and_better() -> None:
    def at(value: float, better: str) -> Figure:
        return Figure("x", "x", "bandwidth", "bytes/s", better, value, value, value)

    for better, value, state in (
        ("higher", 80.0, "worse"),
        ("higher", 130.0, "better"),
        ("lower", 80.0, "better"),
        ("lower", 130.0, "worse"),
        ("lower", 101.0, "ok"),
    ):
        found = health.compare_figure(at(value, better), [at(100.0, better)] * 4)
        assert found.state == state, (better, value)
        assert found.change_ratio == pytest.approx(value / 100 - 1)


def test_alert_says_what_expected_by_how_much_and_what_it_may_mean(base: HealthResult) -> None:
    slow = samples.shaken(base, 1, spread=0.0, latency=1.5)
    (alert,) = _check(slow, [base] * 4).alerts
    assert "128 MiB" in alert.claim or "64 MiB" in alert.claim
    assert "instead of" in alert.claim
    assert "+50%" in alert.claim
    assert "+10% is tolerated" in alert.claim
    assert "memory channels" in alert.meaning


def test_what_was_measured_and_is_not_any_more_alerts_with_its_reason(base: HealthResult) -> None:
    gone = base.model_copy(update={"loopback": None, "missing": {"loopback": "CPU 1: Invalid argument"}})
    (alert,) = _check(gone, [base] * 4).alerts
    assert alert.id == "loopback-gone"
    assert "CPU 1: Invalid argument" in alert.claim
    # A part that nobody asked for is not missed.
    asked = gone.settings.model_copy(update={"parts": ["memory_latency", "memory_bandwidth"]})
    assert _check(gone.model_copy(update={"settings": asked}), [base] * 4).is_ok


def test_without_earlier_checks_everything_is_new(base: HealthResult) -> None:
    comparison = _check(base, [])
    assert comparison.is_ok
    assert {row.state for row in comparison.figures} == {"new"}


def test_a_busy_machine_is_said_to_be(base: HealthResult) -> None:
    busy = base.conditions["disk"].model_copy(update={"foreign_busy_ratio": 0.4})
    comparison = _check(base.model_copy(update={"conditions": {**base.conditions, "disk": busy}}), [base])
    assert not comparison.is_quiet
    assert "40%" in comparison.notes[0]
    assert "disk" in comparison.notes[0]
    assert verdict(comparison).startswith("disturbed: other work had the machine")
    first = health.compare(base, [], against="nothing: no earlier check")
    assert verdict(first) == "first check here, nothing to compare with: no earlier check"


def test_a_node_unlike_its_peers_alerts_without_any_history(base: HealthResult) -> None:
    (alert,) = _check(samples.with_nodes(base, 4, slow=2), []).alerts
    assert alert.id == "node-2-unlike-peers"
    assert "-34%" in alert.claim
    assert _check(samples.with_nodes(base, 4), []).is_ok


def test_a_cpu_unlike_its_peers_alerts_without_any_history(base: HealthResult) -> None:
    def place(cpu: int) -> HealthCpu:
        return HealthCpu(id=cpu, core=cpu, last_level_cache=0, socket=0, node=0)

    slow = samples.with_matrix(base, samples.matrix(8, lambda a, b: 90.0 if 5 in (a, b) else 30.0), place)
    (alert,) = _check(slow, []).alerts
    assert alert.claim.startswith("CPU 5 takes 90 ns to CPUs of the same cache, where its like take 30 ns")
    like = samples.with_matrix(base, samples.matrix(8, lambda a, b: 30.0 + a + b), place)
    assert _check(like, []).is_ok


def test_figures_of_another_disk_engine_are_not_expected(base: HealthResult) -> None:
    assert base.disk is not None
    other = base.model_copy(update={"disk": base.disk.model_copy(update={"engine": "built-in"})})
    comparison = _check(other, [base] * 4)
    assert comparison.is_ok
    assert {row.state for row in comparison.figures if row.figure.family == "disk"} == {"new"}


def test_ids_are_unique_and_every_family_has_its_words(base: HealthResult) -> None:
    found = figures(base)
    assert len({figure.id for figure in found}) == len(found)
    assert {figure.family for figure in found} <= set(health.FLOORS) == set(health.MEANINGS)


def test_pairs_are_classed_by_the_nearest_thing_they_share() -> None:
    def cpu(core: int, cache: int, node: int, socket: int) -> HealthCpu:
        return HealthCpu(id=core, core=core, last_level_cache=cache, node=node, socket=socket)

    one = cpu(0, 0, 0, 0)
    assert pair_class(one, cpu(0, 0, 0, 0)) == "same core"
    assert pair_class(one, cpu(1, 0, 0, 0)) == "same cache"
    assert pair_class(one, cpu(2, 2, 0, 0)) == "same node"
    assert pair_class(one, cpu(2, 2, 1, 0)) == "same socket"
    assert pair_class(one, cpu(2, 2, 2, 1)) == "other socket"
    assert pair_class(HealthCpu(id=0), HealthCpu(id=1)) == "unplaced"


def test_working_sets_are_of_the_smallest_cache_that_holds_them(base: HealthResult) -> None:
    caches = base.machine.caches
    assert [cache_level(size, caches) for size in (4096, 33 << 10, 32 << 20, 33 << 20)] == [
        "L1",
        "L2",
        "L3",
        "memory",
    ]
