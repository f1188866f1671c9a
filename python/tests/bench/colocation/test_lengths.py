"""Measure phases of the same length."""

import pytest

from steelyard.bench.colocation.lengths import Length, align


def lengths(*seen: tuple[float | None, float]) -> list[Length]:
    return [Length(asked, lasted_s=lasted) for asked, lasted in seen]


def test_the_shorter_phase_becomes_as_long_as_the_other() -> None:
    first, second = lengths((5.0, 12.0), (5.0, 5.0))
    align(first, second)
    assert (first.next_s, second.next_s) == (5.0, pytest.approx(12.0))
    # Seen from the other side it is the same, and nothing changes once they are alike.
    align(second, first)
    assert (first.next_s, second.next_s) == (5.0, pytest.approx(12.0))
    first.lasted_s = 13.0
    align(first, second)
    assert second.next_s == pytest.approx(12.0)
    first.lasted_s = 24.0
    align(first, second)
    assert second.next_s == pytest.approx(24.0)


def test_what_cannot_be_set_stays() -> None:
    first, second = lengths((None, 2.0), (5.0, 5.0))
    align(first, second)
    assert (first.next_s, second.next_s) == (None, 5.0)


def test_nothing_is_known_before_the_first_runs_and_growth_ends() -> None:
    first, second = Length(5.0), Length(5.0, lasted_s=1.0)
    align(first, second)
    assert (first.next_s, second.next_s) == (5.0, 5.0)
    first, second = lengths((1.0, 1.0), (None, 1000.0))
    align(first, second)
    assert first.next_s == 20.0
