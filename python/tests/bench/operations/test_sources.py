"""What ``--ops`` may say, and what it says of anything else."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.bench.operations.sources import KINDS, parse


def test_a_log_is_a_path_and_a_pattern() -> None:
    spec = parse(r'log:/var/log/nginx/access.log:" (?P<status>\d)\d\d ')
    assert (spec.kind, spec.path, spec.what) == (
        "log",
        Path("/var/log/nginx/access.log"),
        r'" (?P<status>\d)\d\d ',
    )
    assert (spec.meaning, spec.name) == ("count", "access.log")
    assert parse("log:a.log").what == ""


def test_a_path_with_a_colon_is_found_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a:b.log"
    path.touch()
    assert parse(f"log:{path}:x:y").what == "x:y"
    assert parse(f"log:{path}").path == path


def test_a_csv_names_its_columns() -> None:
    spec = parse("csv,time=ts,value=requests,as=counter,zone=UTC:out/results.csv")
    assert spec.path == Path("out/results.csv")
    assert spec.options == {"time": "ts", "value": "requests", "as": "counter", "zone": "UTC"}
    assert spec.name == "results.csv: requests"
    assert parse("csv,time=timeStamp:a.jtl").meaning == "count"


def test_values_with_commas_and_colons_are_escaped() -> None:
    spec = parse(r"log,format=%d/%b %H\:%M\:%S\,%f,name=a\\b:x.log:(?P<time>.*)")
    assert spec.options == {"format": "%d/%b %H:%M:%S,%f", "name": r"a\b"}
    assert spec.what == "(?P<time>.*)"


def test_an_endpoint_and_a_query_have_an_address_and_what_to_read() -> None:
    spec = parse('prometheus,interval=0.5:http://127.0.0.1:9100/metrics#http_total{code="200",path!~"/h.*"}')
    assert spec.url == "http://127.0.0.1:9100/metrics"
    assert spec.what == 'http_total{code="200",path!~"/h.*"}'
    assert spec.meaning is None
    query = parse("prometheus-query:https://prom.example#sum(rate(x_total[5s])) # 2")
    assert (query.url, query.what, query.meaning) == (
        "https://prom.example",
        "sum(rate(x_total[5s])) # 2",
        "rate",
    )


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_example_is_read(kind: str) -> None:
    example = KINDS[kind].example.removeprefix("--ops ").strip("'")
    assert parse(example).kind == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("access.log", "begins with none of"),
        ("syslog:/x", "begins with none of"),
        ("log:", "is missing after the colon"),
        ("log:/x:(", "the pattern cannot be read"),
        ("log,tz=UTC:/x", "no option of log"),
        ("csv:/x.csv", "time= is missing"),
        ("csv,time=a,time=b:/x", "given twice"),
        ("csv,time=a,value=b:/x", "does not say what b is"),
        ("csv,time=a,value=b,as=sum:/x", "as is one of count, counter, rate, gauge"),
        ("prometheus:http://127.0.0.1:1/metrics", "no # with what to read"),
        ("prometheus:http://127.0.0.1:1#rate(x[1m])", "is no metric's name"),
        ('prometheus:http://127.0.0.1:1#x{a="("', "is no metric's name"),
        ('prometheus:http://127.0.0.1:1#x{a=~"("}', "no regular expression"),
        ("prometheus:http://127.0.0.1:1#x{a>1}", "no condition on a label"),
        ("prometheus:file:///etc/passwd#x", "no address of http or https"),
        ("prometheus:gopher://127.0.0.1/#x", "no address of http or https"),
        ("prometheus:http://me:secret@127.0.0.1/#x", "would be stored in the run's record"),
        ("prometheus:http://127.0.0.1:99999/#x", "no address"),
        ("prometheus,interval=0:http://127.0.0.1/#x", "interval is a number of seconds"),
    ],
)
def test_what_is_wrong_is_reported_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        parse(text)
    assert "\n" not in caught.value.message
    assert "secret" not in caught.value.message


@given(st.text(max_size=60) | st.builds("{}{}".format, st.sampled_from([f"{k}:" for k in KINDS]), st.text()))
def test_any_text_is_a_source_or_an_expected_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(text).kind in KINDS
