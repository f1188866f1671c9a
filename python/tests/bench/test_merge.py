"""Several loads as one, and counters between readings, against plain arithmetic."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import schemas_dir
from steelyard.bench import server_counters as counters
from steelyard.bench.load.merge import merged, summary
from steelyard.records import CacheStats, LatencySummary, LoadResult, QuantileValue, read


def at(ordered, quantile):
    """The least value that covers ``quantile`` of all, as an HDR histogram reports it."""
    return ordered[max(math.ceil(quantile * len(ordered) - 1e-9), 1) - 1]


def exact(values):
    """The summary of a list, with every step of its distribution in the curve."""
    ordered = sorted(values)
    count = len(ordered)
    mean = sum(ordered) / count
    return LatencySummary(
        count=count,
        min_ns=ordered[0],
        max_ns=ordered[-1],
        mean_ns=mean,
        stdev_ns=(sum((value - mean) ** 2 for value in ordered) / count) ** 0.5,
        p50_ns=at(ordered, 0.5),
        p90_ns=at(ordered, 0.9),
        p95_ns=at(ordered, 0.95),
        p99_ns=at(ordered, 0.99),
        p999_ns=at(ordered, 0.999),
        p9999_ns=at(ordered, 0.9999),
        curve=[
            QuantileValue(quantile=(index + 1) / count, value_ns=value) for index, value in enumerate(ordered)
        ],
    )


latencies = st.lists(st.integers(min_value=1, max_value=10**9), min_size=1, max_size=60)


@given(st.lists(latencies, min_size=2, max_size=4))
def test_percentiles_of_parts_are_those_of_the_whole(parts):
    found = summary([exact(part) for part in parts])
    whole = exact([value for part in parts for value in part])
    for name in ("count", "min_ns", "max_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns", "p9999_ns"):
        assert getattr(found, name) == getattr(whole, name), name
    assert found.mean_ns == pytest.approx(whole.mean_ns)
    assert found.stdev_ns == pytest.approx(whole.stdev_ns, rel=1e-6, abs=1e-3)
    values = [point.value_ns for point in found.curve]
    assert values == sorted(values)


def test_a_part_without_answers_changes_nothing():
    empty = exact([1]).model_copy(update={"count": 0, "curve": [], "p50_ns": None})
    one = exact([5, 6, 7])
    assert summary([empty, one]) == one
    assert summary([empty, empty]).count == 0


def test_counts_add_up():
    one = read(LoadResult, schemas_dir() / "golden" / "load_result.json")
    two = merged([one, one])
    assert two.requests.completed == 2 * one.requests.completed
    assert two.throughput_per_s == 2 * one.throughput_per_s
    assert two.latency.response.count == 2 * one.latency.response.count
    assert two.latency.response.p50_ns is not None
    assert two.cpu.requests_per_cpu_s == pytest.approx(
        one.requests.completed / (one.cpu.user_s + one.cpu.system_s)
    )
    assert two.requests.completed_after == 0
    assert one.completed_in_phase == one.requests.completed
    before = one.requests.model_copy(update={"completed_from_before": None})
    assert merged([one, one.model_copy(update={"requests": before})]).requests.completed_from_before is None
    assert [thread.index for thread in two.threads] == list(range(2 * len(one.threads)))
    measured = [row for row in one.series if row.phase == "measure"]
    assert sum(row.completed for row in two.series if row.phase == "measure") == 2 * sum(
        row.completed for row in measured
    )


@pytest.fixture
def stats():
    golden = read(CacheStats, schemas_dir() / "golden" / "cache_stats.json")
    return [
        golden.model_copy(update={"monotonic_ns": moment, "requests": requests})
        for moment, requests in ((1000, 0), (2000, 100), (4000, 500))
    ]


@pytest.mark.parametrize(
    ("begin", "end", "gained"),
    [
        (1000, 4000, 500),
        (1500, 2000, 50),
        (1500, 3000, 250),
        (2000, 2000, 0),
        (999, 2000, None),
        (1000, 4001, None),
    ],
)
def test_gains_are_interpolated_and_never_extrapolated(stats, begin, end, gained):
    assert counters.gain(stats, "requests", begin, end) == gained


def test_a_server_without_readings_leaves_the_total_unknown(stats):
    assert counters.total_gain([stats, stats], "requests", 1000, 4000) == 1000
    assert counters.total_gain([stats, []], "requests", 1000, 4000) is None
    assert counters.total_gain([], "requests", 1000, 4000) is None


def test_a_growing_file_is_followed_line_by_line(tmp_path, stats):
    path = tmp_path / "cache-stats.jsonl"
    tail = counters.StatsTail(path)
    assert tail.read() == []
    lines = [one.model_dump_json() + "\n" for one in stats]
    path.write_text(lines[0] + lines[1][:40])
    assert tail.read() == stats[:1]
    with path.open("a") as file:
        file.write(lines[1][40:] + lines[2])
    assert tail.read() == stats[1:]
    assert tail.read() == []


def test_what_was_completed_in_the_phase_follows_from_counts_or_from_the_rate():
    one = read(LoadResult, schemas_dir() / "golden" / "load_result.json")
    counts = {"completed": 900, "completed_after": 40, "completed_from_before": 7}
    late = one.model_copy(update={"requests": one.requests.model_copy(update=counts)})
    assert late.completed_in_phase == 867
    # Before 1.5 the rate alone said it.
    unknown = one.requests.model_copy(update={"completed_after": None, "completed_from_before": None})
    old = one.model_copy(update={"requests": unknown, "throughput_per_s": 12.5})
    assert old.completed_in_phase == round(12.5 * (one.end_ns - one.begin_ns) / 1e9)
    assert old.model_copy(update={"throughput_per_s": float("inf")}).completed_in_phase == 0
    seconds = (late.end_ns - late.begin_ns) / 1e9
    both = merged([late.model_copy(update={"throughput_per_s": 867 / seconds})] * 2)
    assert both.completed_in_phase == 2 * 867
    assert both.throughput_per_s * seconds == pytest.approx(2 * 867)
