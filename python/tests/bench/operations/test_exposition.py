"""Prometheus' text format: what its documentation shows, what others write, and anything else."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.bench.operations import exposition, selector

TEXT = r"""
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000
http_requests_total_other 7

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find \"FILE\"\nhere"} 1.458255915e9
# TYPE in_flight gauge
in_flight 12.47
something_weird{problem="division by zero"} +Inf -3982045
broken{a="b} 1
nothing NaN

# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{le="0.05"} 24054
http_request_duration_seconds_sum 53423
http_request_duration_seconds_count 144320
# TYPE rpc_duration_seconds summary
rpc_duration_seconds{quantile="0.99"} 76656
rpc_duration_seconds_count 2693
# TYPE foo counter
foo_total{a="x, y } z"} 17.0 1520879607.789 # {trace_id="KOO5S4vxi0o"} 0.67
"""


def read(text: str, name: str = TEXT) -> exposition.Reading:
    return exposition.read(name, selector.parse(text, where="test"))


def test_series_are_identified_by_their_labels() -> None:
    found = read("http_requests_total")
    assert found.values == {'code="200",method="post"': 1027.0, 'code="400",method="post"': 3.0}
    assert found.meaning == "counter"
    assert read('http_requests_total{code="200"}').values == {'code="200",method="post"': 1027.0}
    assert read('http_requests_total{code=~"2..",method!="get",x=""}').values.keys() == {
        'code="200",method="post"'
    }
    assert read('http_requests_total{code!~"[24].."}').values == {}


def test_escapes_and_signs_in_values_are_read() -> None:
    assert list(read("msdos_file_access_time_seconds").values) == [
        'error="Cannot find "FILE"\nhere",path="C:\\DIR\\FILE.TXT"'
    ]
    assert read("foo_total").values == {'a="x, y } z"': 17.0}
    assert read("foo_total").meaning == "counter"


def test_what_is_no_number_is_no_value() -> None:
    assert read("something_weird").values == {}
    assert read("nothing").values == {}
    assert read("broken").unreadable == 1
    assert read("absent").values == {}


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("in_flight", "gauge"),
        ("http_request_duration_seconds_count", "counter"),
        ("http_request_duration_seconds_bucket", "counter"),
        ("rpc_duration_seconds_count", "counter"),
        ("rpc_duration_seconds", "gauge"),
        ("http_requests_total_other", None),
    ],
)
def test_the_type_says_what_values_mean(name: str, meaning: str | None) -> None:
    assert read(name).meaning == meaning


def test_more_series_than_there_is_room_for_are_left_out() -> None:
    text = "\n".join(f'x{{a="{number}"}} 1' for number in range(exposition.SERIES_AT_MOST + 5))
    found = read("x", text)
    assert len(found.values) == exposition.SERIES_AT_MOST
    assert found.left_out == 5


def test_names_of_metrics_are_listed_once() -> None:
    assert list(exposition.names(TEXT))[:3] == [
        "http_requests_total",
        "http_requests_total_other",
        "msdos_file_access_time_seconds",
    ]


@given(st.text(alphabet='x{}="\\,a1 .\n#TYPE', max_size=80))
def test_any_text_is_read_or_passed_over(text: str) -> None:
    found = read("x", "x" + text)
    assert all(isinstance(value, float) for value in found.values.values())


labels = st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), st.text(max_size=8), max_size=3)


@given(labels, st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_written_by_the_rules_is_read_back(names: dict[str, str], value: float) -> None:
    def escape(text: str) -> str:
        return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    inner = ",".join(f'{name}="{escape(text)}"' for name, text in names.items())
    found = read("m", f"m{{{inner}}} {value!r} 123\n")
    assert found.values == {exposition.text_of(names): value}


PAGES = Path(__file__).parent / "pages"
PARSED: dict[str, Any] = json.loads((PAGES / "parsed.json").read_text())
"""What prometheus_client's parsers read in the pages beside it: name, labels, value, type of each sample."""


@pytest.mark.parametrize("page", PARSED["pages"])
def test_pages_are_read_as_the_clients_parser_reads_them(page: str) -> None:
    """Its own pages in both formats, and that of Prometheus' documentation with odd blanks."""
    text = (PAGES / page).read_text()
    expected: dict[str, dict[str, float]] = {}
    types: dict[str, str] = {}
    for name, labels, value, kind in PARSED["pages"][page]:
        number = float(value)
        if math.isfinite(number):
            expected.setdefault(name, {})[exposition.text_of(labels)] = number
        else:
            expected.setdefault(name, {})
        types[name] = kind
    assert len(expected) >= 8
    for name, values in expected.items():
        found = read(name, text)
        assert found.values == values, name
        assert (found.unreadable, found.left_out) == (0, 0)
        if types[name] in ("counter", "gauge"):
            assert found.meaning == types[name], name
    assert set(exposition.names(text)) == expected.keys()
