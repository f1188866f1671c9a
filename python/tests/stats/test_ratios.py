"""Ratios of sums: closed forms, and false-positive rates and coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.stats.ratios import (
    ArmSums,
    Effect,
    arm_variances,
    comparable_strata,
    mix_effect,
    reweighted_effect,
    stratum_effect,
    total_effect,
)


def sums(rows: list[tuple[int, int, int, float, float]]) -> ArmSums:
    arm, stratum, cluster, usage, work = zip(*rows, strict=True)
    return ArmSums.of(
        np.array(arm),
        np.array(stratum),
        np.array(cluster),
        np.array(usage, dtype=np.float64),
        np.array(work, dtype=np.float64),
    )


def test_with_equal_work_the_variance_is_that_of_means() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.lognormal(0, 0.1, 30), rng.lognormal(0.2, 0.1, 12)
    found = total_effect(
        sums(
            [(0, 0, at, value, 1.0) for at, value in enumerate(first)]
            + [(1, 0, 100 + at, value, 1.0) for at, value in enumerate(second)]
        )
    )
    assert found.ratio == pytest.approx(first.mean() / second.mean())
    parts = [one.var(ddof=1) / len(one) / one.mean() ** 2 for one in (first, second)]
    assert found.log_variance == pytest.approx(sum(parts))
    # Welch and Satterthwaite.
    assert found.degrees == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 29 + parts[1] ** 2 / 11))
    assert found.replicates == (30, 12)


def test_samples_of_one_cluster_are_one_replicate() -> None:
    rows = [(0, 0, 0, 2.0, 1.0), (0, 0, 1, 4.0, 1.0), (1, 0, 2, 1.0, 1.0), (1, 0, 3, 2.0, 1.0)]
    whole = total_effect(sums(rows))
    split = total_effect(sums([(a, s, c, u / 50, w / 50) for a, s, c, u, w in rows for _ in range(50)]))
    assert split.log_variance == pytest.approx(whole.log_variance)
    assert split.replicates == whole.replicates == (2, 2)


def test_clusters_with_both_arms_share_what_they_have_in_common() -> None:
    rng = np.random.default_rng(2)
    speed = rng.lognormal(0, 0.5, 40)
    rows = [
        (arm, 0, at, value * (1 + 0.01 * rng.normal()), 1.0)
        for at, value in enumerate(speed)
        for arm in (0, 1)
    ]
    paired = total_effect(sums(rows))
    apart = total_effect(sums([(a, s, c + 100 * a, u, w) for a, s, c, u, w in rows]))
    assert paired.log_variance is not None
    assert apart.log_variance is not None
    assert paired.log_variance < apart.log_variance / 100


def test_one_replicate_has_a_value_and_a_reason() -> None:
    found = total_effect(sums([(0, 0, 0, 2.0, 1.0), (0, 0, 1, 2.0, 1.0), (1, 0, 2, 1.0, 1.0)]))
    assert found.ratio == 2.0
    assert found.interval() is None
    assert found.always_valid() is None
    assert found.missing == "one replicate of configuration 2 in a group has no spread"


def test_re_weighting_is_what_arm_1_would_use_for_the_work_of_arm_0() -> None:
    rows = [
        (0, 0, 0, 30.0, 10.0),
        (0, 0, 1, 30.0, 10.0),
        (0, 1, 0, 8.0, 1.0),
        (0, 1, 1, 8.0, 1.0),
        (1, 0, 2, 2.0, 1.0),
        (1, 0, 3, 2.0, 1.0),
        (1, 1, 2, 100.0, 10.0),
        (1, 1, 3, 100.0, 10.0),
    ]
    found = reweighted_effect(sums(rows))
    assert found.ratio == pytest.approx((60 + 16) / (20 * 2 + 2 * 10))
    assert total_effect(sums(rows)).ratio == pytest.approx((76 / 22) / (204 / 22))
    assert stratum_effect(sums(rows), 1).ratio == pytest.approx(0.8)
    mix = mix_effect(sums(rows))
    assert mix.ratio == pytest.approx(total_effect(sums(rows)).ratio / found.ratio)
    # Nothing scatters within the groups: what the mixes do is known for sure.
    assert mix.log_variance == 0
    assert comparable_strata(sums(rows)).tolist() == [0, 1]
    assert comparable_strata(sums([*rows, (0, 2, 0, 1.0, 1.0)])).tolist() == [0, 1]


values = st.floats(0.1, 10)


@given(st.lists(st.tuples(values, values), min_size=4, max_size=12), st.floats(0.5, 20), st.floats(0.5, 20))
def test_units_do_not_matter(cells: list[tuple[float, float]], usage_unit: float, work_unit: float) -> None:
    rows = [(at % 2, 0, at, usage, work) for at, (usage, work) in enumerate(cells)]
    one = total_effect(sums(rows))
    other = total_effect(sums([(a, s, c, u * usage_unit, w * work_unit) for a, s, c, u, w in rows]))
    assert other.ratio == pytest.approx(one.ratio)
    if one.log_variance is not None:
        assert other.log_variance == pytest.approx(one.log_variance, rel=1e-6, abs=1e-12)


@given(st.lists(st.tuples(values, values, st.integers(0, 2)), min_size=6, max_size=30))
def test_changing_sides_turns_a_groups_effect_over(cells: list[tuple[float, float, int]]) -> None:
    rows = [(at % 2, 0, at, usage, work) for at, (usage, work, _) in enumerate(cells)]
    there = stratum_effect(sums(rows), 0)
    back = stratum_effect(sums([(1 - a, s, c, u, w) for a, s, c, u, w in rows]), 0)
    assert back.ratio == pytest.approx(1 / there.ratio)
    if there.log_variance is not None:
        assert back.log_variance == pytest.approx(there.log_variance)


def simulated(rng: np.random.Generator, machines: tuple[int, int], mixed: bool) -> ArmSums:
    """Return a comparison without a true effect: three groups, machines that differ, uneven work."""
    parts = []
    for arm in (0, 1):
        shares = ((0.6, 0.3, 0.1), (0.2, 0.4, 0.4))[arm] if mixed else (0.4, 0.3, 0.3)
        count = machines[arm]
        group = rng.choice(3, p=shares, size=count)
        speed = rng.lognormal(0, 0.15, count) * (group + 1)
        # Four samples a machine, which have its speed in common.
        work = rng.lognormal(0, 0.4, (4, count))
        usage = work * speed * rng.lognormal(0, 0.05, (4, count))
        cluster = 1000 * arm + np.arange(count)
        parts.append((np.full(count, arm), group, cluster, usage.sum(axis=0), work.sum(axis=0)))
    arms, groups, clusters, used, done = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ArmSums(arms, groups, clusters, used, done)


@pytest.mark.parametrize(("machines", "mixed"), [((60, 60), True), ((300, 30), True), ((40, 12), False)])
def test_false_positives_are_as_rare_as_they_should_be(machines: tuple[int, int], mixed: bool) -> None:
    rng = np.random.default_rng(7)
    trials, wrong, naive = 800, 0, 0
    for _ in range(trials):
        data = simulated(rng, machines, mixed)
        span = reweighted_effect(data.in_strata(comparable_strata(data))).interval(0.95)
        # Where little is known there is no interval, which claims nothing.
        wrong += span is not None and not span[0] <= 1 <= span[1]
        rows = np.arange(len(data.arm))
        alone = total_effect(
            ArmSums(data.arm, np.zeros_like(data.arm), rows, data.usage, data.work)
        ).interval(0.95)
        assert alone is not None
        naive += not alone[0] <= 1 <= alone[1]
    # Nominal is 5 %; the bounds are four standard errors of a proportion wide, and 1 % for small samples.
    assert (
        0.05 - 4 * math.sqrt(0.05 * 0.95 / trials)
        < wrong / trials
        < 0.06 + 4 * math.sqrt(0.05 * 0.95 / trials)
    )
    if mixed:
        # The test can fail: the total of mixed groups is wrong nearly always.
        assert naive / trials > 0.5


def test_looking_daily_is_wrong_often_with_one_interval_and_seldom_with_the_other() -> None:
    rng = np.random.default_rng(11)
    trials, days, machines = 200, 20, 20
    once_wrong = always_wrong = 0
    for _ in range(trials):
        speeds = rng.lognormal(0, 0.05, (2, days * machines))
        once = always = False
        for day in range(1, days + 1):
            count = day * machines
            data = ArmSums(
                np.repeat([0, 1], count),
                np.zeros(2 * count, dtype=np.int64),
                np.arange(2 * count),
                speeds[:, :count].reshape(-1),
                np.ones(2 * count),
            )
            found = total_effect(data)
            for name, span in (
                ("once", found.interval()),
                ("always", found.always_valid(expected_effect=0.01)),
            ):
                assert span is not None
                if not span[0] <= 1 <= span[1]:
                    once, always = once or name == "once", always or name == "always"
        once_wrong += once
        always_wrong += always
    assert once_wrong / trials > 0.15
    assert always_wrong / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_the_delta_method_agrees_with_the_bootstrap_over_clusters() -> None:
    rng = np.random.default_rng(3)
    data = simulated(rng, (80, 80), mixed=False).without_strata()
    found = total_effect(data)
    assert found.log_variance is not None
    resampled = []
    for _ in range(800):
        ratios = []
        for arm in (0, 1):
            clusters = np.unique(data.cluster[data.arm == arm])
            times = np.bincount(rng.choice(clusters, len(clusters)), minlength=3000)[data.cluster]
            here = data.arm == arm
            ratios.append((times * data.usage)[here].sum() / (times * data.work)[here].sum())
        resampled.append(math.log(ratios[0] / ratios[1]))
    assert math.sqrt(found.log_variance) == pytest.approx(float(np.std(resampled)), rel=0.12)


def test_the_arms_share_the_variance() -> None:
    data = simulated(np.random.default_rng(5), (100, 30), mixed=True)
    kept = data.in_strata(comparable_strata(data))
    found, parts = reweighted_effect(kept), arm_variances(kept)
    assert parts is not None
    assert sum(parts) == pytest.approx(found.log_variance)
    assert parts[1] > parts[0]


def test_what_is_no_sum_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        sums([(0, 0, 0, -1.0, 1.0)])
    with pytest.raises(ValueError, match="finite"):
        sums([(0, 0, 0, float("nan"), 1.0)])
    with pytest.raises(ValueError, match="two arms"):
        sums([(2, 0, 0, 1.0, 1.0)])
    with pytest.raises(ValueError, match="do some work"):
        total_effect(sums([(0, 0, 0, 1.0, 1.0), (1, 0, 1, 1.0, 0.0)]))


def test_an_interval_without_end_is_none() -> None:
    effect = Effect(1.1, 0.09, 1.0, (2, 2))
    assert effect.interval(0.95) is not None
    assert effect.interval(0.9999) is None
    assert effect.always_valid(0.9999) is None
