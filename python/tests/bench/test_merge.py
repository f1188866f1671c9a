"""Several loads as one: percentiles against those of all values together, and sums against sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.bench.merge import merged, quantile, summary
from steelyard.records import LatencySummary, LoadResult, QuantileValue

values = st.lists(st.integers(min_value=1, max_value=10**6), min_size=1, max_size=60)
EVERY = [index / 100 for index in range(101)]
FEW = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0]


def of(sample: list[int], quantiles: list[float]) -> LatencySummary:
    """What a generator tells of ``sample``: at each quantile the least value that covers it."""
    ordered = sorted(sample)

    def at(wanted: float) -> int:
        return ordered[max(math.ceil(wanted * len(ordered) - 1e-9), 1) - 1]

    array = np.array(sample, dtype=np.float64)
    return LatencySummary(
        count=len(sample),
        min_ns=ordered[0],
        max_ns=ordered[-1],
        mean_ns=float(array.mean()),
        stdev_ns=float(array.std()),
        p50_ns=at(0.5),
        p90_ns=at(0.9),
        p95_ns=at(0.95),
        p99_ns=at(0.99),
        p999_ns=at(0.999),
        p9999_ns=at(0.9999),
        curve=[QuantileValue(quantile=q, value_ns=at(q)) for q in quantiles],
    )


@given(st.lists(values, min_size=1, max_size=4))
def test_merged_percentiles_are_never_below_those_of_all_values(samples: list[list[int]]) -> None:
    together = sorted(value for sample in samples for value in sample)
    for points in (FEW, EVERY):
        parts = [of(sample, points) for sample in samples]
        for wanted in (0.5, 0.9, 0.99, 1.0):
            found = quantile(parts, wanted)
            true = together[max(math.ceil(wanted * len(together) - 1e-9), 1) - 1]
            assert found is not None
            assert true <= found <= together[-1]


@given(values, st.integers(min_value=2, max_value=4))
def test_equal_parts_have_the_percentiles_of_each(sample: list[int], parts: int) -> None:
    one = of(sample, FEW)
    whole = summary([one] * parts)
    assert whole.count == parts * one.count
    assert (whole.p50_ns, whole.p90_ns, whole.p99_ns) == (one.p50_ns, one.p90_ns, one.p99_ns)
    assert whole.mean_ns == pytest.approx(one.mean_ns)
    assert whole.stdev_ns == pytest.approx(one.stdev_ns)


@given(st.lists(values, min_size=2, max_size=4))
def test_moments_and_extremes_are_those_of_all_values(samples: list[list[int]]) -> None:
    whole = summary([of(sample, FEW) for sample in samples])
    together = np.array([value for sample in samples for value in sample], dtype=np.float64)
    assert whole.count == len(together)
    assert whole.mean_ns == pytest.approx(float(together.mean()))
    assert whole.stdev_ns == pytest.approx(float(together.std()), rel=1e-6, abs=1e-3)
    assert (whole.min_ns, whole.max_ns) == (int(together.min()), int(together.max()))
    levels = [point.value_ns for point in whole.curve]
    assert levels == sorted(levels)


def test_an_empty_part_changes_nothing() -> None:
    empty = LatencySummary(count=0, curve=[])
    full = of([1, 2, 3], FEW)
    assert summary([empty, full]) == full
    assert summary([empty, empty]) == empty


def test_two_equal_loads_are_twice_one() -> None:
    one = records.read(LoadResult, schemas_dir() / "golden" / "load_result.json")
    whole = merged([one, one])
    assert whole.throughput_per_s == 2 * one.throughput_per_s
    assert whole.requests.completed == 2 * one.requests.completed
    assert whole.sent_bytes == 2 * one.sent_bytes
    assert whole.settings.connections == 2 * one.settings.connections
    assert whole.achieved_ratio == pytest.approx(one.achieved_ratio)
    assert len(whole.threads) == 2 * len(one.threads)
    assert [thread.index for thread in whole.threads] == list(range(len(whole.threads)))
    assert records.parse(LoadResult, whole.model_dump_json(), where="here") == whole
    measured = [row.completed for row in whole.series if row.phase == "measure"]
    assert measured == [2 * row.completed for row in one.series if row.phase == "measure"]
