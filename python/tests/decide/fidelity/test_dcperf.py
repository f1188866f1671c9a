"""Figures 4 to 12 of the DCPerf paper: its suite is nearer to production than SPEC is.

Figures 9 and 10 have one number for each suite; of Figures 5, 6 and 7 the ranges over workloads, whose ends
are compared here.
"""

import math

import pytest

from steelyard.decide.fidelity.comparison import compare

from .profiles import profile

PRODUCTION = profile("production", {"frequency_hz": 1.94e9, "power_of_design_ratio": 0.87})
DCPERF = profile("DCPerf", {"frequency_hz": 1.92e9, "power_of_design_ratio": 0.84})
SPEC = profile("SPEC", {"frequency_hz": 2.12e9, "power_of_design_ratio": 0.78})

ENDS = {
    "memory_bytes_per_s": ((19e9, 36e9), (17e9, 33e9), (0.3e9, 68e9)),
    "core_ipc": ((1.0, 2.6), (1.0, 2.6), (0.6, 3.3)),
}
"""Metric -> lowest and highest of the workloads of production, DCPerf and SPEC."""


def test_frequency_and_power_say_that_dcperf_is_nearer_than_spec() -> None:
    near, far = compare(DCPERF, PRODUCTION), compare(SPEC, PRODUCTION)
    assert near.metric("frequency_hz").distance == pytest.approx(math.log(1.94 / 1.92))
    assert far.metric("frequency_hz").distance == pytest.approx(math.log(2.12 / 1.94))
    assert near.metric("power_of_design_ratio").distance == pytest.approx(0.03)
    assert far.metric("power_of_design_ratio").distance == pytest.approx(0.09)
    assert near.overall.distance == pytest.approx((math.log(1.94 / 1.92) + 0.03) / 2)
    assert far.overall.distance > 4 * near.overall.distance


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("end", [0, 1])
def test_ranges_of_bandwidth_and_ipc_say_so_too(name: str, end: int) -> None:
    production, dcperf, spec = (profile("range", {name: ends[end]}) for ends in ENDS[name])
    near = compare(dcperf, production).overall.distance
    assert near < compare(spec, production).overall.distance


def test_instruction_misses_of_spec_are_a_seventh_of_those_of_production() -> None:
    for production, spec in ((7.0, 1.0), (56.0, 9.0)):
        found = compare(profile("SPEC", {"l1i_mpki": spec}), profile("production", {"l1i_mpki": production}))
        assert found.overall.distance == pytest.approx(math.log(production / spec), rel=0.01)
        assert "code" in found.metrics[0].moved_by


def test_cpu_time_of_the_cache_tier_is_a_third_in_the_kernel() -> None:
    """A benchmark that never leaves user mode is 30 points from a cache of production."""
    cache = profile("cache", {"cpu_user_ratio": 0.5, "cpu_kernel_ratio": 0.3, "cpu_idle_ratio": 0.2})
    loop = profile("loop", {"cpu_user_ratio": 0.8, "cpu_kernel_ratio": 0.0, "cpu_idle_ratio": 0.2})
    assert compare(loop, cache).groups[0].distance == pytest.approx(0.3)


def test_a_benchmark_without_the_datacenter_tax_is_as_far_as_production_pays_for_it() -> None:
    """18 to 82 % of the cycles at Meta are tax."""
    for tax in (0.18, 0.82):
        production = profile("production", functions={"application": 1 - tax, "serialization": tax})
        pure = profile("pure", functions={"application": 1.0})
        assert compare(pure, production).overall.distance == pytest.approx(tax)
