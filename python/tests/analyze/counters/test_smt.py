"""Utilisation and capacity under SMT, against the published cases and against what placement can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.counters.smt import (
    Placement,
    SmtMode,
    SystemUse,
    UtilisationSplit,
    core_cycles,
    effective_frequency,
    ipc_per_core,
    smt_uplift_ratio,
    split_utilisation,
    system_differences,
    used_capacity,
    used_capacity_of_cores,
)
from steelyard.analyze.facts.cpus import CpuUse

SPECJBB_UPLIFT = 1.235 / 1.199 - 1


def split(user: float, system: float) -> UtilisationSplit:
    return UtilisationSplit(user, system, 0.0, 1 - user - system, 0.0)


def test_facts_half_utilisation_was_97_percent_of_capacity() -> None:
    use = used_capacity(
        0.5016, threads_per_core=2, uplift_ratio=SPECJBB_UPLIFT, placement=Placement.SPREAD
    ).quantity
    assert use.value is not None
    assert f"{use.value * 100:.0f}" == "97"
    assert f"{1.199 / 1.235 * 100:.0f}" == "97"
    full = used_capacity(0.9859, threads_per_core=2, uplift_ratio=SPECJBB_UPLIFT, placement=Placement.SPREAD)
    assert full.high == pytest.approx(1, abs=0.005)


def test_facts_specjbb_frequency_is_fixed_at_2_5_ghz() -> None:
    assert effective_frequency(80.256e9, 64 * 0.5016).value == pytest.approx(2.5e9)
    assert effective_frequency(157.744e9, 64 * 0.9859).value == pytest.approx(2.5e9)


def test_facts_systems_a_and_b_at_40_percent_are_distinguished() -> None:
    plain = SystemUse(split(0.35, 0.05), 3.5e9, Placement.SPREAD)
    assert plain.split.total_ratio == pytest.approx(0.40)
    kernel = SystemUse(split(0.25, 0.15), 3.5e9, Placement.SPREAD)
    assert system_differences(plain, kernel) == ["user/system 35/5 against 25/15"]
    slow = SystemUse(split(0.35, 0.05), 2.8e9, Placement.SPREAD)
    assert system_differences(plain, slow) == ["effective frequency 3.50 against 2.80 GHz"]
    packed = SystemUse(split(0.35, 0.05), 3.5e9, Placement.PACKED)
    assert system_differences(packed, plain) == ["threads cores + SMT threads against across cores"]
    assert system_differences(plain, plain) == []


def test_the_same_40_percent_is_another_part_of_capacity() -> None:
    packed = used_capacity(0.4, threads_per_core=2, uplift_ratio=0.2, placement=Placement.PACKED)
    spread = used_capacity(0.4, threads_per_core=2, uplift_ratio=0.2, placement=Placement.SPREAD)
    fast = used_capacity(
        0.4, threads_per_core=2, uplift_ratio=0.2, placement=Placement.SPREAD, frequency_ratio=3.5 / 2.8
    )
    assert packed.low == packed.high == pytest.approx(0.4)
    assert spread.low == spread.high == pytest.approx(0.8 / 1.2)
    assert fast.low == pytest.approx(0.8 / 1.2 * 1.25)


def test_what_is_not_known_widens_the_bounds() -> None:
    use = used_capacity(0.5, threads_per_core=2)
    assert (use.low, use.high) == (0.5, 1.0)
    assert "between 0.5 and 1" in (use.quantity.missing or "")
    assert used_capacity(0.5, threads_per_core=1).quantity.value == 0.5
    assert used_capacity(0.5, threads_per_core=8).low is None
    with pytest.raises(ValueError, match="not a ratio"):
        used_capacity(50.16, threads_per_core=2)


def test_ipc_by_thread_and_by_core() -> None:
    both = core_cycles(157.744e9, SmtMode(2), core_cycles_at_most=32 * 2.5e9)
    assert (both.low, both.high) == (78.872e9, 80e9)
    bounds = ipc_per_core(78.4e9, both)
    assert bounds.low == pytest.approx(0.98)
    # Bound to one thread a core, every clock is a core's, though it slightly exceeds the nominal frequency.
    alone = core_cycles(80.256e9, SmtMode(2, 1), core_cycles_at_most=32 * 2.5e9)
    assert (alone.low, alone.high) == (80.256e9, 80.256e9)
    assert core_cycles(None, SmtMode(2)).missing
    assert core_cycles(1e9, None).missing
    assert ipc_per_core(None, both).missing


def test_uplift_needs_both_rates() -> None:
    assert smt_uplift_ratio(None, 5).value is None
    assert smt_uplift_ratio(1.199, 1.235).value == pytest.approx(0.030, abs=0.0005)


def test_modes_of_the_kernel_by_use() -> None:
    use = CpuUse(
        {
            "user": 0.2,
            "nice": 0.1,
            "system": 0.05,
            "irq": 0.01,
            "softirq": 0.04,
            "iowait": 0.3,
            "idle": 0.25,
            "steal": 0.05,
        }
    )
    found = split_utilisation(use)
    assert (found.user_ratio, found.system_ratio, found.wait_ratio) == pytest.approx((0.3, 0.1, 0.3))
    assert (
        found.user_ratio + found.system_ratio + found.wait_ratio + found.idle_ratio + found.steal_ratio
        == (pytest.approx(1))
    )
    assert found.total_ratio == pytest.approx(0.4)


def test_a_mode_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        SmtMode(2, 3)


ratios = st.floats(min_value=0, max_value=1)


@given(ratios, st.floats(min_value=-0.2, max_value=1))
def test_capacity_lies_within_the_bounds_of_unknown_placement(utilisation: float, uplift: float) -> None:
    unknown = used_capacity(utilisation, threads_per_core=2, uplift_ratio=uplift)
    assert unknown.low is not None
    assert unknown.high is not None
    for placement in (Placement.SPREAD, Placement.PACKED):
        known = used_capacity(utilisation, threads_per_core=2, uplift_ratio=uplift, placement=placement)
        assert known.low is not None
        assert unknown.low - 1e-12 <= known.low <= unknown.high + 1e-12


@given(st.lists(st.tuples(ratios, ratios), min_size=1, max_size=8), st.floats(min_value=0, max_value=1))
def test_capacity_of_cores_is_a_ratio_and_monotonic_bounds(
    cores: list[tuple[float, float]], uplift: float
) -> None:
    use = used_capacity_of_cores(cores, uplift_ratio=uplift)
    assert use.low is not None
    assert use.high is not None
    assert -1e-9 <= use.low <= use.high + 1e-12
    assert use.high <= 1 + 1e-9
    unsure = used_capacity_of_cores(cores)
    assert unsure.low is not None
    assert unsure.high is not None
    assert unsure.low <= use.low + 1e-9
    assert use.high <= unsure.high + 1e-9


def test_cores_without_siblings_or_with_too_many() -> None:
    assert used_capacity_of_cores([(0.25,), (0.75,)]).low == 0.5
    assert used_capacity_of_cores([]).missing
    assert used_capacity_of_cores([(0.1, 0.1, 0.1, 0.1)]).missing
