"""Two workloads side by side."""

import math
from dataclasses import replace

import pytest

from steelyard._base import UsageError
from steelyard.decide.fidelity.comparison import compare
from steelyard.decide.fidelity.workload import Replicate, WorkloadProfile, measurement, mix, repeated

from .profiles import profile


def test_the_overall_distance_is_the_mean_of_the_groups() -> None:
    a = profile("a", {"ipc": 2.0, "llc_mpki": 1.0, "l2_mpki": 4.0, "l1i_mpki": 10.0})
    b = profile("b", {"ipc": 1.0, "llc_mpki": 1.0, "l2_mpki": 4.0, "l1i_mpki": 10.0})
    found = compare(a, b)
    assert found.overall.distance == pytest.approx(math.log(2) / 2)
    assert (found.overall.compared, found.overall.known, found.overall.groups) == (4, 4, 2)
    assert [group.name for group in found.groups] == ["IPC", "misses"]


def test_the_same_profile_is_at_no_distance_and_both_ways_are_as_far() -> None:
    a = profile("a", {"ipc": [2.0, 2.1, 1.9], "cpu_user_ratio": 0.3}, {"copy": 0.5, "parse": 0.2})
    b = profile("b", {"ipc": [1.0, 1.2, 1.1], "cpu_user_ratio": 0.6}, {"copy": 0.1, "hash": 0.2})
    assert compare(a, a).overall.distance == 0
    there, back = compare(a, b), compare(b, a)
    assert there.overall.distance == pytest.approx(back.overall.distance)
    assert there.metrics[0].name == back.metrics[0].name


def test_what_one_side_lacks_counts_in_no_mean_and_says_why() -> None:
    whole = profile("a", {"ipc": 2.0, "throughput_per_s": 100.0})
    part = profile("b", {"throughput_per_s": 200.0}, missing={"ipc": "no counters in this guest"})
    found = compare(whole, part)
    assert found.overall.distance == pytest.approx(math.log(2))
    assert (found.overall.compared, found.overall.known) == (1, 2)
    lacking = found.metric("ipc")
    assert lacking.distance is None
    assert lacking.missing == "B: no counters in this guest"
    assert found.metrics[-1].name == "ipc"
    group = next(group for group in found.groups if group.name == "IPC")
    assert (group.distance, group.compared, group.known) == (None, 0, 1)


def test_what_neither_side_has_is_listed_and_counts_nowhere() -> None:
    found = compare(profile("a", {"ipc": 1.0}), profile("b", {"ipc": 1.0}, missing={"llc_mpki": "hidden"}))
    assert found.overall.known == 1
    assert next(each for each in found.not_measured if each.name == "llc_mpki").missing.endswith("hidden")


def test_one_value_has_no_interval_and_says_so() -> None:
    found = compare(profile("a", {"ipc": [1.0, 1.1, 1.2]}), profile("b", {"ipc": 2.0}))
    one = found.metrics[0]
    assert (one.low, one.high, one.is_distinguishable) == (None, None, None)
    assert one.no_interval == "B: one value"
    assert found.overall.low is None
    assert found.overall.no_interval


def test_repeats_of_one_workload_are_not_distinguishable() -> None:
    a = profile("a", {"throughput_per_s": [100.0, 103.0, 98.0, 101.0]})
    b = profile("b", {"throughput_per_s": [101.0, 99.0, 102.0, 97.0]})
    found = compare(a, b)
    assert found.metrics[0].distance > 0
    assert found.metrics[0].is_distinguishable is False
    assert (found.metrics[0].low, found.overall.low) == (0, 0)
    assert found.overall.noise is not None
    assert found.overall.noise > found.overall.distance


def test_a_single_run_beside_repeats_varies_as_they_do() -> None:
    runs = profile("a", {"throughput_per_s": [100.0, 110.0, 90.0, 105.0]}, source="run")
    windows = [107.0 + at % 2 for at in range(20)]
    single = profile("b", {"throughput_per_s": windows}, source="run", replicate=Replicate.WINDOW)
    found = compare(runs, single)
    assert found.metrics[0].is_distinguishable is False
    assert any("vary as the other's repeats" in said for said in found.cautions)
    away = profile("b", {"throughput_per_s": windows}, replicate=Replicate.WINDOW)
    assert any("not from run to run" in said for said in compare(runs, away).cautions)


def test_another_workloads_repeats_say_nothing_of_a_single_run() -> None:
    runs = profile("a", {"throughput_per_s": [100.0, 110.0, 90.0, 105.0]}, source="run")
    windows = [107.0 + at % 2 for at in range(20)]
    single = profile("b", {"throughput_per_s": windows}, source="run", replicate=Replicate.WINDOW)
    other = replace(single, benchmark="other")
    assert any("not from run to run" in said for said in compare(runs, other).cautions)


def test_shares_are_at_most_the_whole_apart() -> None:
    a = WorkloadProfile("a", "file", mixes={"functions": mix("functions", {"copy": 0.95}, samples=6)})
    b = WorkloadProfile("b", "file", mixes={"functions": mix("functions", {"parse": 0.95}, samples=6)})
    found = compare(a, b)
    assert found.metrics[0].high == found.groups[0].high == 1


def test_top_down_shares_are_a_mix() -> None:
    """A quarter of the slots moved from backend to frontend: a quarter apart, not the mean of four."""
    slots = ("retiring_ratio", "bad_speculation_ratio", "frontend_ratio", "backend_ratio")
    a = profile("a", dict(zip(slots, (0.25, 0.05, 0.2, 0.5), strict=True)))
    b = profile("b", dict(zip(slots, (0.25, 0.05, 0.45, 0.25), strict=True)))
    assert compare(a, b).groups[0].distance == pytest.approx(0.25)
    # Backend unknown on one side: it is the rest, which is as far apart.
    known = {name: each for name, each in b.metrics.items() if name != "backend_ratio"}
    part = WorkloadProfile("b", "file", known)
    found = compare(a, part)
    assert found.groups[0].distance == pytest.approx(0.25)
    assert (found.overall.compared, found.overall.known) == (3, 4)


def test_sides_without_metrics_or_without_common_ones_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing has no metric with a value"):
        compare(profile("a", {"ipc": 1.0}), profile("nothing", missing={"ipc": "no counters"}))
    with pytest.raises(UsageError, match="no metric in common"):
        compare(profile("a", {"ipc": 1.0}), profile("b", {"llc_mpki": 1.0}))


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ipc", -1.0, "negative"),
        ("ipc", math.nan, "no number"),
        ("ipc", math.inf, "no number"),
        ("cpu_user_ratio", 1.5, "more than the whole"),
    ],
)
def test_an_impossible_value_is_missing_by_name(name: str, value: float, why: str) -> None:
    bad = WorkloadProfile(
        "b", "file", {name: measurement(name, value), "llc_mpki": measurement("llc_mpki", 1)}
    )
    found = compare(profile("a", {name: 0.5, "llc_mpki": 1.0}), bad)
    assert found.metric(name).distance is None
    assert why in (found.metric(name).missing or "")


def test_units_that_differ_are_not_compared() -> None:
    a = WorkloadProfile(
        "a", "file", {"depth": measurement("depth", 1.0, unit="s"), "ipc": measurement("ipc", 1)}
    )
    b = WorkloadProfile(
        "b", "file", {"depth": measurement("depth", 1.0, unit="bytes"), "ipc": measurement("ipc", 1)}
    )
    assert compare(a, b).metric("depth").missing == "A is in s, B in bytes"


def test_a_mix_of_more_than_the_whole_is_none() -> None:
    assert not mix("functions", {"a": 0.7, "b": 0.7}).parts
    assert mix("functions", {"a": 0.7, "b": 0.31}).parts.keys() == {"a", "b"}
    assert mix("functions", {"a": 0.7}).parts["all others"] == pytest.approx(0.3)


def test_repeats_are_one_profile_with_a_value_each() -> None:
    runs = [profile(f"run-{at}", {"ipc": 1.0 + at / 10}, {"copy": 0.5 + at / 100}) for at in range(4)]
    whole = repeated(runs)
    assert whole.metrics["ipc"].values == (1.0, 1.1, 1.2, 1.3)
    assert len(whole.mixes["functions"].windows) == 4
    assert repeated(runs[:2]) is runs[0]
    assert compare(whole, whole).metric("functions").low == 0


def test_names_of_what_moves_a_metric_are_those_of_the_benchmark() -> None:
    a, b = profile("a", {"ipc": 1.0, "llc_mpki": 1.0}), profile("b", {"ipc": 2.0, "llc_mpki": 1.0})
    found = compare(a, b, moves={"ipc": "depth"})
    assert found.metric("ipc").moved_by == "depth"
    assert "memory" in found.metric("llc_mpki").moved_by
