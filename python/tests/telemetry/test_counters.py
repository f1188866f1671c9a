"""Counts are scaled by the time that they stand for, sums of instances stay whole, and gaps have reasons."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import telemetry
from steelyard.telemetry.counters import (
    COVERAGE_FLOOR_RATIO,
    CounterSeries,
    EventSeries,
    counter_series,
    gains,
)
from tests.telemetry.recordings import SECOND, table_of, write_recording

Reading = tuple[int | None, int | None, int | None]


def rows(
    event: str, readings: list[Reading], *, pmu: str = "cpu", scope: str = "system", entity: str = ""
) -> list[dict[str, object]]:
    """Rows of one event, a reading each second: count, enabled and running."""
    return [
        {
            "time_ns": second * SECOND,
            "scope": scope,
            "entity": entity,
            "pmu": pmu,
            "event": event,
            "group": 0,
            "count": count,
            "enabled_ns": enabled,
            "running_ns": running,
        }
        for second, (count, enabled, running) in enumerate(readings)
    ]


def series_of(
    path: Path, found: list[dict[str, object]], begin: int = 0, end: int = 100 * SECOND
) -> list[CounterSeries]:
    with telemetry.open(write_recording(path, {"counters": table_of("counters", found)})) as recording:
        return counter_series(recording, begin, end)


def test_a_count_is_scaled_by_the_time_that_it_stands_for(tmp_path: Path) -> None:
    [series] = series_of(tmp_path, rows("cycles", [(100, 0, 0), (600, 1000, 500), (1600, 2000, 1500)]))
    assert series.events["cycles"] == EventSeries((1000.0, 1000.0), (0.5, 1.0))
    assert (series.begin_ns, list(series.time_ns)) == (0, [SECOND, 2 * SECOND])
    found = gains(series)
    assert found.duration_s == 2.0
    assert found.of("CYCLES").value == 2000.0
    assert found.of("cycles").coverage_ratio == pytest.approx(0.75)
    assert gains(series, SECOND, 2 * SECOND).of("cycles").value == 1000.0


def test_windows_within_a_phase_are_those_that_gains_count(tmp_path: Path) -> None:
    readings: list[Reading] = [(100 * second**2, 1000 * second, 1000 * second) for second in range(7)]
    [series] = series_of(tmp_path, rows("cycles", readings))
    # 1.4 s to 4.6 s: the window from 1 s to 2 s lies mostly in it, that from 4 s to 5 s too.
    begin, end = int(1.4 * SECOND), int(4.6 * SECOND)
    part = series.within(begin, end)
    assert (part.begin_ns, list(part.time_ns)) == (SECOND, [2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND])
    assert gains(part) == gains(series, begin, end)
    assert gains(part).duration_s == 4.0
    assert gains(part).of("cycles").value == 2400.0
    nothing = gains(series.within(50 * SECOND, 60 * SECOND))
    assert (nothing.duration_s, nothing.of("cycles").value) == (None, None)


def test_instances_of_one_event_are_summed_and_missing_together(tmp_path: Path) -> None:
    first = rows("cas", [(0, 0, 0), (10, 10, 10), (20, 20, 20)], pmu="uncore_imc_0")
    second = rows("cas", [(0, 0, 0), (5, 10, 5), (None, None, None)], pmu="uncore_imc_1")
    [series] = series_of(tmp_path, first + second)
    assert series.events["cas"] == EventSeries((20.0, None), (0.5, None))


def test_an_event_without_a_counter_is_missing_and_never_0(tmp_path: Path) -> None:
    [series] = series_of(tmp_path, rows("loads", [(0, 0, 0), (0, 1000, 0), (0, 2000, 0)]))
    assert series.events["loads"] == EventSeries((None, None), (0.0, 0.0))
    gain = gains(series).of("loads")
    assert gain.value is None
    assert gain.missing == "no counter was free for it in this time"


def test_a_task_that_did_not_run_gained_nothing(tmp_path: Path) -> None:
    [series] = series_of(
        tmp_path,
        rows("cycles", [(7, 50, 50), (7, 50, 50), (27, 70, 70)], scope="process", entity="12"),
    )
    assert series.events["cycles"] == EventSeries((0.0, 20.0), (None, 1.0))
    assert gains(series).of("cycles").value == 20.0


def test_below_the_floor_a_gain_is_withheld_and_the_floor_is_the_callers() -> None:
    series = CounterSeries("system", "", [SECOND], {"a": EventSeries((500.0,), (0.05,))}, {}, begin_ns=0)
    gain = gains(series).of("a")
    assert gain.value is None
    assert gain.missing == "counted in 5.0 % of the time, less than 10 %"
    assert gain.coverage_ratio == pytest.approx(0.05)
    assert gains(series, floor_ratio=0.01).of("a").value == 500.0


def test_windows_without_a_counter_are_filled_by_the_rate_of_the_others_and_lower_the_coverage() -> None:
    event = EventSeries((100.0, None, 200.0, None), (1.0, 0.0, 1.0, None))
    series = CounterSeries("system", "", [SECOND * n for n in (1, 2, 3, 4)], {"a": event}, {}, begin_ns=0)
    gain = gains(series).of("a")
    assert (gain.value, gain.coverage_ratio) == (600.0, 0.5)


def test_entities_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    found = [
        row
        for cpu in ("cpu10", "cpu9", "cpu1")
        for row in rows("cycles", [(0, 0, 0), (1, 1, 1)], scope="cpu", entity=cpu)
    ]
    assert [series.entity for series in series_of(tmp_path, found)] == ["cpu1", "cpu9", "cpu10"]


def test_an_event_that_was_not_counted_has_its_reason() -> None:
    series = CounterSeries("system", "", [SECOND], {}, {"LLC_MISS": "this PMU has no such event"}, begin_ns=0)
    assert gains(series).of("llc_miss").missing == "this PMU has no such event"
    assert gains(series).of("other").missing == "it was not among the events that were counted"


def test_a_recording_without_counters_has_no_series(tmp_path: Path) -> None:
    table = table_of("cpufreq", [{"time_ns": 0, "cpu": 0, "frequency_hz": 1}])
    with telemetry.open(write_recording(tmp_path, {"cpufreq": table})) as recording:
        assert counter_series(recording, 0, SECOND) == []


def test_a_single_total_without_its_beginning_has_counts_and_no_duration() -> None:
    series = CounterSeries("process", "1", [SECOND], {"a": EventSeries((5.0,), (None,))}, {})
    found = gains(series)
    assert found.of("a").value == 5.0
    assert found.of("a").coverage_ratio is None
    assert found.duration_s is None


windows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(0, 1e15)),
        st.one_of(st.none(), st.floats(0, 1)),
        st.integers(1, 10**12),
    ),
    min_size=1,
    max_size=12,
)


@given(windows)
def test_a_gain_is_a_count_or_a_reason(parts: list[tuple[float | None, float | None, int]]) -> None:
    ends = [sum(length for _, _, length in parts[: index + 1]) for index in range(len(parts))]
    event = EventSeries(tuple(part[0] for part in parts), tuple(part[1] for part in parts))
    gain = gains(CounterSeries("system", "", ends, {"a": event}, {}, begin_ns=0)).of("a")
    assert (gain.value is None) == (gain.missing is not None)
    if gain.value is not None:
        counted = [part[0] for part in parts if part[0] is not None]
        assert gain.value >= sum(counted) * (1 - 1e-9)
        assert gain.coverage_ratio is None or COVERAGE_FLOOR_RATIO <= gain.coverage_ratio <= 1 + 1e-9
    else:
        assert gain.coverage_ratio is None or gain.coverage_ratio < COVERAGE_FLOOR_RATIO
