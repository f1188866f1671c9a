"""Gains of counters between moments, and a statistics file that is read while it grows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.bench.server_counters import StatsTail, at, gain, total_gain
from steelyard.records import CacheStats

GOLDEN = records.read(CacheStats, schemas_dir() / "golden" / "cache_stats.json")


def lines(increments: list[int], step_ns: int = 1000) -> list[CacheStats]:
    total, found = 0, []
    for index, increment in enumerate([0, *increments]):
        total += increment
        found.append(GOLDEN.model_copy(update={"monotonic_ns": index * step_ns, "requests": total}))
    return found


rises = st.lists(st.integers(min_value=0, max_value=10**6), min_size=1, max_size=20)


@given(rises, st.data())
def test_gains_of_parts_between_readings_add_up_to_the_whole(
    increments: list[int], data: st.DataObject
) -> None:
    stats = lines(increments)
    end = stats[-1].monotonic_ns
    middle = data.draw(st.sampled_from([one.monotonic_ns for one in stats]))
    first, second = gain(stats, "requests", 0, middle), gain(stats, "requests", middle, end)
    whole = gain(stats, "requests", 0, end)
    assert first is not None
    assert second is not None
    assert first >= 0
    assert second >= 0
    assert whole == sum(increments)
    assert first + second == pytest.approx(whole)


def test_a_load_that_ends_between_readings_has_the_rate_of_those_within() -> None:
    """100 a second until 3.5 s, when the load stops: the reading after it counts no more."""
    stats = lines([100, 100, 100, 50])
    assert gain(stats, "requests", 0, 3500) == pytest.approx(350)
    # As begun at 0.5 s, of which the first second has a half.
    assert gain(lines([50, 100, 100, 100]), "requests", 500, 4000) == pytest.approx(350)
    # Where no two readings lie within, a line is all that is known.
    assert gain(stats, "requests", 1200, 1700) == pytest.approx(50)


def test_between_readings_the_line_counts_and_outside_nothing_is_known() -> None:
    stats = lines([100, 300])
    assert at(stats, "requests", 500) == 50
    assert at(stats, "requests", 1500) == 250
    assert at(stats, "requests", 2001) is None
    assert gain(stats, "requests", 0, 5000) is None
    assert total_gain([stats, stats], "requests", 0, 2000) == 800
    assert total_gain([stats, []], "requests", 0, 2000) is None
    assert total_gain([], "requests", 0, 2000) is None


@given(rises, st.lists(st.integers(min_value=1, max_value=4000), max_size=8))
def test_a_file_that_grows_in_any_pieces_is_read_whole(increments: list[int], cuts: list[int]) -> None:
    stats = lines(increments)
    text = "".join(one.model_dump_json() + "\n" for one in stats).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stats.jsonl"
        tail = StatsTail(path)
        found = tail.read()
        begin = 0
        for end in sorted({min(cut, len(text)) for cut in cuts} | {len(text)}):
            with path.open("ab") as file:
                file.write(text[begin:end])
            begin = end
            found += tail.read()
    assert found == stats
