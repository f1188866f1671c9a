"""Histograms against the recordings that they were built from."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import telemetry
from steelyard.analyze.pressure.vmstat_histograms import MOST_BINS, Histogram, histogram, vmstat_histograms
from tests.telemetry.recordings import SECOND, SPECS, table_of, write_recording

INTERRUPTS = [
    ("time_ns", "time", "u64", "ns"),
    ("irq", "label", "str", None),
    ("name", "label", "str", None),
    ("cpu", "label", "i32", None),
    ("count", "counter", "u64", "1"),
]


def found_in(folder: Path, begin_s: int, end_s: int) -> dict[str, Histogram]:
    with telemetry.open(folder) as recording:
        return {each.name: each for each in vmstat_histograms(recording, begin_s * SECOND, end_s * SECOND)}


def test_run_queue_and_switches_by_reading(tmp_path: Path) -> None:
    queue = [1, 1, 1, 1, 9, 1, 1, 1, 1, 40]
    rows = [
        {"time_ns": tick * SECOND, "runnable": runnable, "blocked": 0, "context_switches": tick * tick * 100}
        for tick, runnable in enumerate(queue)
    ]
    write_recording(
        tmp_path, {"scheduler": table_of("scheduler", rows)}, absent={"interrupts": "no /proc/interrupts"}
    )
    found = found_in(tmp_path, 0, 9)
    runnable = found["runnable"]
    assert (runnable.readings, runnable.low, runnable.high, runnable.p50) == (10, 1, 40, 1)
    assert runnable.mean == pytest.approx(5.7)
    assert dict(zip(runnable.edges, runnable.counts, strict=False))[0.0] == 8
    assert sum(runnable.counts) == 10
    assert found["blocked"].counts == (10,)
    switches = found["context_switches"]
    assert (switches.readings, switches.low, switches.high) == (9, 100, 1700)
    assert found["interrupts"].missing == "no /proc/interrupts"
    assert found["user"].missing == "this source was not recorded"
    assert found_in(tmp_path, 50, 60)["runnable"].missing == "no reading falls within this interval"


def test_shares_of_all_cpus_in_each_interval(tmp_path: Path) -> None:
    # CPU 0 computes for 5 s, then waits for a disk; CPU 1 idles, but was offline at one reading.
    rows = []
    for tick in range(11):
        busy, waiting = min(tick, 5), max(0, tick - 5)
        rows.append(
            {
                "time_ns": tick * SECOND,
                "cpu": 0,
                "user_ns": busy * 8 * SECOND // 10,
                "softirq_ns": busy * 2 * SECOND // 10,
                "iowait_ns": waiting * SECOND,
            }
            | dict.fromkeys(("nice_ns", "system_ns", "irq_ns", "idle_ns", "steal_ns"), 0)
        )
        if tick != 8:
            rows.append(
                {"time_ns": tick * SECOND, "cpu": 1, "idle_ns": tick * SECOND}
                | dict.fromkeys(
                    ("user_ns", "nice_ns", "system_ns", "irq_ns", "softirq_ns", "iowait_ns", "steal_ns"), 0
                )
            )
    write_recording(tmp_path, {"cpu": table_of("cpu", rows)})
    found = found_in(tmp_path, 0, 10)
    assert found["user"].readings == 10
    assert found["user"].high == pytest.approx(0.4)
    assert found["system"].high == pytest.approx(0.1)
    assert found["wait"].mean == pytest.approx((3 * 0.5 + 1 + 1 / 3) / 10)
    assert found["idle"].low == 0
    assert found["steal"].counts[0] == 10
    means = sum(found[name].mean or 0 for name in ("user", "system", "wait", "idle", "steal"))
    assert means == pytest.approx(1)


def test_interrupts_add_up_over_lines_that_are_silent_for_a_while(tmp_path: Path) -> None:
    rows = [
        {"time_ns": tick * SECOND, "irq": "LOC", "name": "timer", "cpu": 0, "count": tick * 250}
        for tick in range(9)
    ]
    # A disk that interrupts at seconds 2 and 6 only: its rows are far apart, its gains are not spread.
    rows += [
        {"time_ns": tick * SECOND, "irq": "24", "name": "nvme", "cpu": 0, "count": count}
        for tick, count in ((0, 10), (2, 60), (6, 1060))
    ]
    write_recording(tmp_path, {"interrupts": table_of("interrupts", rows, INTERRUPTS)})
    whole = found_in(tmp_path, 0, 8)["interrupts"]
    assert (whole.readings, whole.low, whole.high) == (8, 250, 1250)
    assert whole.mean == pytest.approx(250 + (50 + 1000) / 8)
    # From second 4 on the disk's gain counts though its row before is from second 2.
    late = found_in(tmp_path, 4, 8)["interrupts"]
    assert (late.readings, late.high) == (4, 1250)


def test_the_kernels_sum_of_interrupts_is_taken_where_it_was_recorded(tmp_path: Path) -> None:
    spec = [*SPECS["scheduler"], ("interrupts", "counter", "u64", "1")]
    rows = [
        {"time_ns": tick * SECOND, "runnable": 1, "blocked": 0, "context_switches": 0, "interrupts": tick**2}
        for tick in range(5)
    ]
    lines = [
        {"time_ns": tick * SECOND, "irq": "LOC", "name": "timer", "cpu": 0, "count": 0} for tick in range(5)
    ]
    write_recording(
        tmp_path,
        {
            "scheduler": table_of("scheduler", rows, spec),
            "interrupts": table_of("interrupts", lines, INTERRUPTS),
        },
    )
    found = found_in(tmp_path, 0, 4)["interrupts"]
    assert (found.readings, found.low, found.high, found.mean) == (4, 1, 7, 4)


values = st.lists(st.floats(min_value=0, max_value=1e9), min_size=1, max_size=60)


@given(values, st.sampled_from(["1/s", "ratio", "1"]))
def test_every_reading_is_in_one_bin_as_numpy_counts(numbers: list[float], unit: str) -> None:
    if unit == "ratio":
        numbers = [number / 1e9 for number in numbers]
    elif unit == "1":
        numbers = [float(round(number)) for number in numbers]
    # A value at the edge of a bin may fall to either side of it by a rounding of the division.
    found = histogram([*numbers, np.nan], "x", unit)
    assert sum(found.counts) == found.readings == len(numbers)
    assert len(found.counts) <= MOST_BINS
    assert found.edges[0] <= min(numbers) <= max(numbers) <= found.edges[-1]
    assert found.mean == pytest.approx(np.mean(numbers))
    expected, _ = np.histogram(numbers, bins=np.array(found.edges))
    assert np.abs(np.cumsum(expected) - np.cumsum(found.counts)).max() <= sum(
        min(abs(number - edge) for edge in found.edges) <= 1e-9 * max(1.0, found.edges[-1])
        for number in numbers
    )
