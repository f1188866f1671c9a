"""Rates cover the phase only, never turn negative, and do not depend on how rows were batched."""

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard import telemetry
from steelyard.telemetry import Rates, Series
from steelyard.telemetry.tables import mostly_within
from tests.telemetry.recordings import SECOND, table_of, write_recording

FOREVER = 2**62
slow = settings(max_examples=12, deadline=None)


def derive(
    rows: list[dict[str, object]],
    *,
    source: str = "network",
    begin: int = 0,
    end: int = FOREVER,
    killed: bool = False,
    splits: tuple[int, ...] = (),
    points: int = 7,
) -> tuple[Rates, Series]:
    with TemporaryDirectory() as folder:
        path = write_recording(
            Path(folder), {source: table_of(source, rows)}, killed=killed, splits=splits, interval_ns=1
        )
        with telemetry.open(path) as recording:
            times = [int(str(row["time_ns"])) for row in rows]
            first, last = (min(times), max(times) + 1) if end == FOREVER else (begin, end)
            return (
                recording.rates(source, begin, end),
                recording.series(source, first, last, points=points),
            )


# Readings of one counter: positive gaps in time, and values anywhere in the 64 bits a counter has.
readings = st.lists(
    st.tuples(st.integers(1, 5 * SECOND), st.one_of(st.none(), st.integers(0, 2**64 - 1))),
    min_size=2,
    max_size=30,
)


def rows_of(values: list[tuple[int, int | None]], interface: str = "eth0") -> list[dict[str, object]]:
    times = np.cumsum([gap for gap, _ in values]).tolist()
    return [
        {"time_ns": time, "interface": interface, "received_bytes": value, "sent_bytes": 3}
        for time, (_, value) in zip(times, values, strict=True)
    ]


@slow
@given(readings)
def test_increments_add_up_and_resets_are_never_negative(values: list[tuple[int, int | None]]) -> None:
    rates, series = derive(rows_of(values))
    rate = rates.entities[0].rates["received_bytes"]
    known = [
        (then, now, gap)
        for (_, then), (gap, now) in itertools.pairwise(values)
        if then is not None and now is not None
    ]
    good = [(now - then, gap) for then, now, gap in known if now >= then]
    assert rate.resets == len(known) - len(good)
    if good:
        assert rate.increment == sum(gain for gain, _ in good)
        assert rate.covered_ns == sum(gap for _, gap in good)
        assert rate.per_s == pytest.approx(rate.increment * 1e9 / rate.covered_ns)
    else:
        assert (rate.per_s, rate.increment) == (None, None)
        assert rate.missing
    band = series.entities[0].bands["received_bytes"] if series.entities else None
    if band is not None:
        seen = ~np.isnan(band.mean)
        assert (band.low[seen] >= 0).all()
        assert (band.low[seen] <= band.mean[seen] * (1 + 1e-9)).all()
        assert (band.mean[seen] <= band.high[seen] * (1 + 1e-9)).all()


@slow
@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**9)), min_size=2, max_size=30))
def test_a_counter_without_resets_gains_its_last_less_its_first(steps: list[tuple[int, int]]) -> None:
    totals = np.cumsum([step for _, step in steps]).tolist()
    rates, _ = derive(rows_of([(gap, total) for (gap, _), total in zip(steps, totals, strict=True)]))
    assert rates.entities[0].rates["received_bytes"].increment == totals[-1] - totals[0]


@slow
@given(readings, st.lists(st.integers(0, 30), max_size=4))
def test_rates_do_not_depend_on_batches(values: list[tuple[int, int | None]], splits: list[int]) -> None:
    rows = rows_of(values)
    whole, bands = derive(rows)
    inside = tuple(split for split in splits if split <= len(rows))
    again, rebuilt_bands = derive(rows, killed=True, splits=inside)
    assert again.entities == whole.entities
    for one, other in zip(bands.entities, rebuilt_bands.entities, strict=True):
        np.testing.assert_array_equal(one.bands["received_bytes"].mean, other.bands["received_bytes"].mean)


def test_only_readings_within_the_phase_count() -> None:
    # The counter runs at 100 a second within the phase and at 10^6 outside.
    rows = rows_of(
        [(SECOND, 0), (SECOND, 10**6), (SECOND, 10**6 + 100), (SECOND, 10**6 + 200), (SECOND, 10**7)]
    )
    rates, _ = derive(rows, begin=2 * SECOND, end=4 * SECOND + SECOND // 2)
    rate = rates.entities[0].rates["received_bytes"]
    assert (rate.per_s, rate.covered_ns) == (100.0, 2 * SECOND)


def test_a_phase_with_one_reading_is_missing_not_zero() -> None:
    rates, _ = derive(rows_of([(SECOND, 0), (SECOND, 5)]), begin=SECOND * 7 // 4, end=3 * SECOND)
    rate = rates.entities[0].rates["received_bytes"]
    assert rate.per_s is None
    assert rate.missing == "fewer than two readings in this interval"
    empty, _ = derive(rows_of([(SECOND, 0), (SECOND, 5)]), begin=9 * SECOND, end=10 * SECOND)
    assert empty.entities == []
    assert empty.missing == "no reading falls within this interval"


def test_a_burst_at_the_end_of_a_phase_counts_though_the_next_reading_is_after_it() -> None:
    rows = rows_of([(SECOND, 0), (SECOND, 0), (SECOND, 1000)])
    for end, expected in ((3 * SECOND, 1000), (3 * SECOND - 1, 1000), (2 * SECOND + SECOND * 2 // 5, 0)):
        rates, series = derive(rows, begin=SECOND, end=end)
        assert rates.entities[0].rates["received_bytes"].increment == expected
        bands = series.entities[0].bands["received_bytes"]
        assert np.nanmax(bands.high) == expected


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=20),
    st.lists(st.integers(0, 1000), min_size=1, max_size=4),
)
def test_neighbouring_spans_share_no_interval_and_lose_none(lengths: list[int], cuts: list[int]) -> None:
    times = np.cumsum([0, *lengths])
    ends = [0, *sorted({cut for cut in cuts if 0 < cut < times[-1]}), int(times[-1])]
    for begin, end in itertools.pairwise(times.tolist()):
        of = [mostly_within(begin, end, *span) for span in itertools.pairwise(ends)]
        # An interval that is cut into three may have no half in any of them.
        assert sum(of) <= 1
        assert sum(of) == 1 or sum(begin < cut < end for cut in ends) >= 2


def test_entities_come_and_go() -> None:
    rows = [
        {"time_ns": tick * SECOND, "cpu": cpu, "user_ns": tick * SECOND // 2, "idle_ns": tick * SECOND // 2}
        for tick in range(1, 10)
        for cpu in range(3)
        if cpu != 1 or tick < 4 or tick > 6
    ]
    rates, series = derive(rows, source="cpu")
    assert [entity.entity["cpu"] for entity in rates.entities] == [0, 1, 2]
    assert all(entity.rates["user_ns"].per_s == 5e8 for entity in rates.entities)
    assert len(series.entities) == 3
    middles, grid = series.grid("user_ns")
    assert grid.shape == (3, len(middles))


def test_a_counter_with_a_range_wraps_and_others_reset() -> None:
    def rows(energy_range: int | None) -> list[dict[str, object]]:
        return [
            {
                "time_ns": i * SECOND,
                "domain": "package-0",
                "energy_uj": energy,
                "energy_max_uj": energy_range,
            }
            for i, energy in enumerate([900, 960, 20, 80], start=1)
        ]

    wrapped, _ = derive(rows(1000), source="power")
    assert wrapped.entities[0].rates["energy_uj"].increment == 180
    for unusable in (None, 500):
        reset, _ = derive(rows(unusable), source="power")
        rate = reset.entities[0].rates["energy_uj"]
        assert (rate.increment, rate.covered_ns, rate.resets) == (120, 2 * SECOND, 1)
    assert wrapped.entities[0].gauges["power_uw"].mean is None
    assert wrapped.entities[0].gauges["power_uw"].missing


def test_a_peak_survives_thinning() -> None:
    rows = rows_of([(SECOND // 100, 1000 * i + (500_000 if i > 777 else 0)) for i in range(3000)])
    _, series = derive(rows, points=30)
    band = series.entities[0].bands["received_bytes"]
    assert len(band.mean) <= 30
    assert np.nanmax(band.high) == pytest.approx(501_000 * 100)
    assert np.nanmedian(band.mean) == pytest.approx(1000 * 100)
    assert series.entities[0].time_ns.max() <= series.end_ns
