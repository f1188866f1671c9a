"""Sessions as replicates: their spread against closed forms."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.stats.intervals import mean_ratio_interval, ratio_interval
from steelyard.stats.sessions import session_spread

VALUES = st.lists(st.floats(1.0, 1e6), min_size=1, max_size=4)


def test_the_interval_between_two_sessions_is_students_t_of_their_means() -> None:
    sessions = [[100.0], [104.0], [97.0], [101.0]]
    spread = session_spread(sessions)
    assert spread is not None
    logs = [math.log(value) for (value,) in sessions]
    assert spread.variance == pytest.approx(statistics.variance(logs))
    # t of 3 degrees of freedom at 97.5 %, from tables.
    half = 3.182446 * math.sqrt(2 * statistics.variance(logs))
    assert spread.half_width(0.95) == pytest.approx(half, rel=1e-6)
    # Single runs have an interval where single runs of earlier sessions are known.
    found = ratio_interval([110.0], [100.0], between=spread)
    assert found.low is not None
    assert found.high is not None
    assert math.log(found.low) == pytest.approx(math.log(1.1) - half)
    assert math.log(found.high) == pytest.approx(math.log(1.1) + half)
    assert found.sessions == 4
    assert ratio_interval([110.0], [100.0]).low is None


def test_sessions_of_more_runs_say_nothing_of_a_single_run() -> None:
    spread = session_spread([[100.0, 101.0, 99.0], [104.0, 103.0, 102.0], [97.0, 99.0, 98.0]])
    assert spread is not None
    assert spread.runs == 3
    assert ratio_interval([110.0], [100.0, 101.0, 99.0], between=spread).low is None
    assert ratio_interval([110.0, 111.0, 112.0], [100.0, 101.0, 99.0], between=spread).low is not None


@given(st.lists(VALUES, min_size=3, max_size=6))
def test_an_interval_is_never_narrower_for_knowing_sessions(sessions: list[list[float]]) -> None:
    spread = session_spread(sessions)
    assert spread is not None
    above, below = [210.0, 200.0, 190.0], [98.0, 100.0, 102.0]
    alone, wide = ratio_interval(above, below), mean_ratio_interval([(above, below)], 0.95, spread)
    assert alone.low is not None
    assert alone.high is not None
    if wide.low is not None and wide.high is not None:
        assert wide.low <= alone.low
        assert wide.high >= alone.high


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_what_has_no_logarithm_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        session_spread([[1.0], [value], [2.0]])
