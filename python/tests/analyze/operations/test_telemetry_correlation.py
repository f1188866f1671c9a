"""What moves with operations: a relation that was put in is found, and unrelated telemetry is not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from steelyard import telemetry
from steelyard.analyze.operations.series_correlation import TimeSeries, correlate
from steelyard.analyze.operations.telemetry_correlation import (
    ALPHA,
    Floats,
    compare,
    correlates_of,
    telemetry_series,
)
from steelyard.stats.surrogates import largest_correlations, surrogates
from tests.telemetry.recordings import SECOND, table_of, write_recording

Make = Callable[[np.random.Generator, int], Floats]


def series(name: str, values: Floats) -> TimeSeries:
    return TimeSeries.of(name, "1", np.arange(len(values)) * SECOND, values)


def memory(phi: float) -> Make:
    def make(rng: np.random.Generator, count: int) -> Floats:
        values = np.zeros(count)
        for at, noise in enumerate(rng.normal(size=count)):
            values[at] = phi * values[at - 1] + noise
        return values

    return make


def bursts(rng: np.random.Generator, count: int) -> Floats:
    """Mostly nothing, now and then much: as flushes and writeback are."""
    return np.asarray((rng.random(count) < 0.03) * rng.exponential(10, count) + 0.01 * rng.random(count))


def on_and_off(rng: np.random.Generator, count: int) -> Floats:
    return np.asarray(np.cumsum(rng.random(count) < 0.1) % 2 + 0.05 * rng.normal(size=count))


def periods(rng: np.random.Generator, count: int) -> Floats:
    period = 6 + 14 * rng.random()
    return np.asarray((np.arange(count) + 20 * rng.random()) % period < period / 2) + 0.1 * rng.normal(
        size=count
    )


def walk(rng: np.random.Generator, count: int) -> Floats:
    return np.cumsum(rng.normal(size=count))


KINDS: dict[str, Make] = {
    "white noise": memory(0.0), "memory": memory(0.9), "a walk": walk, "bursts": bursts,
    "on and off": on_and_off, "periods": periods,
}  # fmt: skip


def test_unrelated_telemetry_is_reported_no_oftener_than_the_confidence_allows() -> None:
    # Each trial looks at 12 series at many lags: without correction nearly every one would report something.
    rng = np.random.default_rng(20)
    trials = wrong = uncorrected = 0
    for name, make in KINDS.items():
        for _ in range(9):
            others = [(name, series(f"{name} {at}", make_other(rng, 80))) for at in range(2)
                      for name, make_other in KINDS.items()]  # fmt: skip
            operations = series("ops", make(rng, 80))
            found = compare(operations, others, span_ns=80 * SECOND)
            assert found.tried == 12
            assert found.lags == 33
            trials += 1
            wrong += bool(found.found)
            lone = [correlate(one, operations, most_lag_ns=16 * SECOND, best_only=True) for _, one in others]
            uncorrected += any(one.best is not None and (one.best.low or -1) > 0 for one in lone)
    # 54 trials at 5 %: more than 7 would come about once in 200 times.
    assert trials * ALPHA < 3
    assert wrong <= 7
    assert uncorrected > 20


@pytest.mark.parametrize("lag", [-4, 0, 3])
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_relation_that_was_put_in_is_found_with_its_sign_and_lag(lag: int, sign: int) -> None:
    rng = np.random.default_rng(7)
    cause = memory(0.5)(rng, 140)
    operations = sign * np.roll(cause, lag)[10:-10] * 50 + 1000 + 20 * rng.normal(size=120)
    others = [("x", series(f"noise {at}", memory(0.5)(rng, 120))) for at in range(15)]
    found = compare(
        series("ops", operations),
        [*others, ("disk", series("disk writing", cause[10:-10]))],
        span_ns=120 * SECOND,
    )
    assert [one.name for one in found.found] == ["disk writing"]
    (one,) = found.found
    assert one.lag_ns == lag * SECOND
    assert np.sign(one.r) == sign
    assert abs(one.r) > 0.8
    assert one.low < one.r < one.high
    assert np.sign(one.low) == np.sign(one.high) == sign
    assert 20 < one.effective_pairs <= one.pairs
    words = {
        (3, -1): "operations fall 3.0 s after disk writing rises",
        (0, 1): "operations rise while disk writing rises",
        (-4, 1): "disk writing rises 4.0 s after operations rise",
    }
    assert one.claim == words.get((lag, sign), one.claim)
    assert "n effective = " in one.text


def test_a_burst_that_stops_operations_is_found() -> None:
    rng = np.random.default_rng(8)
    writes = np.zeros(120)
    for begin in (9, 31, 50, 77, 92, 109):
        writes[begin : begin + 3] = 50 + rng.normal(size=3)
    operations = np.where(np.roll(writes, 2) > 10, 100.0, 1000.0) + 30 * rng.normal(size=120)
    found = compare(
        series("ops", operations), [("disk", series("disk writing", writes))], span_ns=120 * SECOND
    )
    assert [(one.name, one.lag_ns) for one in found.found] == [("disk writing", 2 * SECOND)]
    assert found.found[0].r < -0.9


def test_a_report_that_is_drawn_again_says_the_same() -> None:
    rng = np.random.default_rng(9)
    cause = memory(0.7)(rng, 90)
    operations = series("ops", 0.5 * cause + memory(0.7)(rng, 90))
    one, other = (compare(operations, [("x", series("x", cause))], span_ns=90 * SECOND) for _ in range(2))
    assert one == other


def test_what_does_not_move_is_not_tried() -> None:
    rng = np.random.default_rng(10)
    moving, still = series("a", rng.normal(size=50)), series("b", np.full(50, 3.0))
    empty = series("c", np.full(50, np.nan))
    found = compare(moving, [("x", still), ("x", empty), ("x", moving)], span_ns=50 * SECOND)
    assert (found.tried, found.names) == (1, ("a",))
    assert compare(moving, [("x", still)], span_ns=SECOND).missing == "no telemetry moved during the phase"
    assert "constant" in str(compare(still, [("x", moving)], span_ns=SECOND).missing)
    assert correlates_of(None, None, 0, 1).missing == "no source counts operations"
    assert correlates_of(moving, None, 0, 1).missing == "there is no telemetry"


def test_series_of_a_recording_are_of_the_whole_machine(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    writes = rng.integers(0, 1000, size=60)
    total = np.cumsum(writes)
    cpu = [
        {"time_ns": tick * SECOND, "cpu": number, "user_ns": tick * SECOND // 4, "nice_ns": 0, "system_ns": 0,
         "idle_ns": tick * SECOND * 3 // 4, "iowait_ns": 0, "irq_ns": 0, "softirq_ns": 0, "steal_ns": 0}
        for tick in range(60) for number in range(2)
    ]  # fmt: skip
    disk = [
        {"time_ns": tick * SECOND, "device": device, "written_bytes": int(total[tick]) * share}
        for tick in range(60) for device, share in (("vda", 3), ("vdb", 1))
    ]  # fmt: skip
    write_recording(tmp_path, {"cpu": table_of("cpu", cpu), "disk": table_of("disk", disk)})
    with telemetry.open(tmp_path) as recording:
        found = {one.name: one for _, one in telemetry_series(recording, 0, 59 * SECOND)}
        assert found["CPU use"].value == pytest.approx(np.full(59, 0.25))
        assert found["disk writing"].value == pytest.approx(4 * writes[1:])
        operations = series("ops", 500 - writes[:57] / 4 + rng.normal(size=57))
        # What was written between two readings stands in the middle of them.
        later = TimeSeries(operations.name, "1/s", operations.time_ns + 5 * SECOND // 2, operations.value)
        moving = correlates_of(later, recording, 0, 59 * SECOND)
    assert moving.found[0].name == "disk writing"
    assert moving.found[0].lag_ns == 3 * SECOND


def test_surrogates_have_the_same_values_and_nearly_the_same_spectrum() -> None:
    rng = np.random.default_rng(12)
    for make in KINDS.values():
        values = make(rng, 200)
        found = surrogates(values, 20, rng)
        assert found.shape == (20, 200)
        for row in found:
            assert np.sort(row) == pytest.approx(np.sort(values))

        # Their memory is that of the original.
        def memory_of(row: Floats) -> float:
            return float(np.corrcoef(row[:-1], row[1:])[0, 1])

        # Of a series with two values only it is a little less: few orders have the spectrum.
        assert np.mean([memory_of(row) for row in found]) == pytest.approx(memory_of(values), abs=0.2)
    with pytest.raises(ValueError, match="known values"):
        surrogates(np.array([1.0, 2.0, np.nan, 3.0]), 2, rng)


def test_the_largest_correlation_is_that_of_the_best_lag() -> None:
    values = np.random.default_rng(13).normal(size=300)
    other = np.roll(values, 7)
    assert largest_correlations(values, other, 10)[0] > 0.95
    assert largest_correlations(values, other, 5)[0] < 0.3
    assert largest_correlations(values, np.stack([-other, values]), 10) == pytest.approx(
        [0.97, 1.0], abs=0.03
    )
