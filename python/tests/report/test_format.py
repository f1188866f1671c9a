"""Numbers keep three significant digits and lose none of their size."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.records import Metric
from steelyard.report import format as fmt
from steelyard.report.metrics import metric_name, metric_text

PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@given(st.floats(1e-6, 1e15, allow_nan=False))
def test_three_digits_say_the_value_within_half_a_percent(value: float) -> None:
    text = fmt.plain(fmt.quantity(value, "1/s"))
    found = re.fullmatch(r"([\d.,]+) ?([kMGT]?)/s", text)
    assert found, text
    assert float(found[1].replace(",", "")) * PREFIXES[found[2]] == pytest.approx(value, rel=0.0051)
    digits = found[1].replace(",", "").replace(".", "").lstrip("0")
    assert len(digits) <= 3 or value >= 1e15 * 0.999


@given(st.floats(1, 1e17, allow_nan=False))
def test_no_step_shows_a_thousand_of_the_smaller_unit(ns: float) -> None:
    assert not fmt.plain(fmt.duration(ns)).startswith("1,000 ")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0 ns"),
        (0, "bytes", "0 B"),
        (1 << 30, "bytes", "1.00 GiB"),
        (999_950, "bytes/s", "1.00 MB/s"),
        (10_000_000_000, "bits/s", "10.0 Gbit/s"),
        (2.4e9, "hz", "2.40 GHz"),
        (1.0, "ratio", "100 %"),
        (0.0, "ratio", "0 %"),
        (0.00004, "ratio", "< 0.01 %"),
        (123456, "1", "123 k"),
        (12, "1", "12"),
        (35.123, "w", "35.1 W"),
        (5, "requests", "5.00 requests"),
        (None, "1/s", "–"),
        (3_661e9, "ns", "1 h 1 min 1 s"),
    ],
)
def test_units(value: float | None, unit: str, text: str) -> None:
    assert fmt.plain(fmt.quantity(value, unit)) == text


@given(st.floats(0, 1))
def test_a_share_below_one_is_never_shown_as_whole(ratio: float) -> None:
    text = fmt.plain(fmt.quantity(ratio, "ratio"))
    assert (text == "100 %") == (ratio == 1.0)


def test_names() -> None:
    assert metric_name("network_received_bytes_per_s") == "network received"
    assert metric_name("slow_wait_mean_ns") == "slow wait mean"
    assert metric_name("rss_bytes") == "resident"
    assert metric_text("hit_ratio", Metric(value=None, unit="ratio", missing="no gets")) == "–"
