"""Tables and Prometheus servers, read after a run."""

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.analyze.operations.files import read_sources
from steelyard.analyze.operations.operations import OperationSource
from steelyard.bench.operations import afterwards, exposition, selector
from steelyard.bench.operations.afterwards import Span
from steelyard.bench.operations.sources import parse
from steelyard.records import Clock
from tests import prometheus_server
from tests.analyze.operations.test_operations import run_record

SECOND = 1_000_000_000
BEGIN, WALL = 500 * SECOND, 1_795_314_434
CLOCK = Clock(monotonic_ns=BEGIN, realtime_ns=WALL * SECOND)
SPAN = Span(
    BEGIN,
    BEGIN + 10 * SECOND,
    CLOCK,
    Clock(monotonic_ns=BEGIN + 10 * SECOND, realtime_ns=(WALL + 10) * SECOND),
)


def collected(tmp_path: Path, text: str, span: Span = SPAN) -> OperationSource:
    folder = tmp_path / "operations"
    folder.mkdir(exist_ok=True)
    afterwards.collect(parse(text), folder / "0.jsonl", span, tmp_path)
    (found,) = read_sources(folder, run_record(BEGIN, BEGIN + 10 * SECOND))
    return found


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_running_total_is_a_counter(tmp_path: Path) -> None:
    path = table(tmp_path, "ts,n", *(f"{WALL + at},{at * 50}" for at in range(-5, 20)))
    found = collected(tmp_path, f"csv,time=ts,value=n,as=counter:{path}")
    assert found.total is not None
    assert found.total.per_s(BEGIN, SPAN.end_ns).value == pytest.approx(50)
    # What lies far outside of the run is not kept.
    assert len(found.total.value) < 16


def test_rates_and_series_by_a_column(tmp_path: Path) -> None:
    rows = (f"{WALL + at};{at % 2 * 10 + 5};{'ab'[at % 2]}" for at in range(11))
    path = table(tmp_path, "ts;per s;kind", *rows)
    found = collected(tmp_path, f"csv,time=ts,value=per s,as=rate,by=kind:{path}")
    assert {one.name: one.per_s(BEGIN, SPAN.end_ns).value for one in found.series} == {
        'kind="a"': pytest.approx(5),
        'kind="b"': pytest.approx(15),
    }
    assert found.total is not None
    assert found.total.per_s(BEGIN + SECOND, SPAN.end_ns - SECOND).value == pytest.approx(20)


def test_rows_are_operations_of_their_moment(tmp_path: Path) -> None:
    # JMeter's: milliseconds since 1970, in the order of their end.
    rows = [f"{(WALL + second) * 1000 + part * 100},ok" for second in range(-2, 12) for part in range(10)]
    rows[40], rows[41] = rows[41], rows[40]
    path = table(tmp_path, "timeStamp,label", *rows)
    found = collected(tmp_path, f"csv,time=timeStamp:{path}")
    assert found.total is not None
    assert found.total.per_s(BEGIN, SPAN.end_ns).value == pytest.approx(10)
    assert found.notes == ("1 rows are older than the row before: sorted",)


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (["ts,n", "2026-11-22 02:27:14,1"], "value=n,as=rate", "no time zone: add zone=UTC"),
        (["ts,n", "soon,1"], "value=n,as=rate", "none of its 1 rows has a time"),
        (["ts,n", "100,1"], "value=n,as=rate", "before it \\(wrong time zone"),
        (["ts,n"], "value=n,as=rate", "it has no rows"),
        (["ts,m", "1,1"], "value=n,as=rate", "no column 'n'"),
        (["ts,n", f"{WALL},NaN", f"{WALL + 1},-3"], "value=n,as=counter", "none of its 2 rows has a number"),
    ],
)
def test_a_table_that_tells_nothing_says_why(
    tmp_path: Path, lines: list[str], options: str, said: str
) -> None:
    found = collected(tmp_path, f"csv,time=ts,{options}:{table(tmp_path, *lines)}")
    assert found.total is None
    assert found.missing is not None
    assert re.search(said, found.missing), found.missing


def test_a_zone_is_applied(tmp_path: Path) -> None:
    rows = (f"2026-11-22 03:27:{14 + at},7" for at in range(11))
    path = table(tmp_path, "ts,n", *rows)
    found = collected(tmp_path, f"csv,time=ts,value=n,as=rate,zone=Europe/Berlin:{path}")
    assert found.total is not None
    assert found.total.per_s(BEGIN, SPAN.end_ns).value == pytest.approx(7)


def test_a_clock_that_was_set_is_reported(tmp_path: Path) -> None:
    path = table(tmp_path, "ts,n", *(f"{WALL + at},{at}" for at in range(11)))
    after = Clock(monotonic_ns=BEGIN + 10 * SECOND, realtime_ns=(WALL + 12) * SECOND)
    found = collected(
        tmp_path, f"csv,time=ts,value=n,as=counter:{path}", Span(BEGIN, SPAN.end_ns, CLOCK, after)
    )
    assert "the wall clock was set by +2.000 s" in found.notes[0]


def past() -> Iterator[str]:
    """Return two series of known rates around the run, and one whose values are none."""
    yield "# TYPE x counter"
    for job, each in (("a", 30.5), ("b", 9.5)):
        for at in range(-60, 61):
            yield f'x_total{{job="{job}"}} {each * (at + 60)} {WALL + at}'
    yield "# TYPE strange gauge"
    yield f'strange{{job="c"}} NaN {WALL}'
    yield f'strange{{job="c"}} +Inf {WALL + 1}'
    for at in range(2, 20):
        yield f'strange{{job="c"}} 5 {WALL + at}'


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    with prometheus_server.prometheus(folder, past(), prefix="prom") as address:
        yield address


@pytest.mark.slow
def test_a_query_is_asked_for_the_time_of_the_run(tmp_path: Path, prometheus: str) -> None:
    found = collected(tmp_path, f"prometheus-query:{prometheus}/#rate(x_total[5s])")
    assert found.total is not None
    assert found.total.per_s(BEGIN, SPAN.end_ns).value == pytest.approx(40)
    assert [one.name for one in found.series] == ['job="a"', 'job="b"']
    assert found.notes == ()


@pytest.mark.slow
def test_values_that_are_no_numbers_are_left_out_and_counted(tmp_path: Path, prometheus: str) -> None:
    found = collected(tmp_path, f"prometheus-query:{prometheus}#strange")
    assert "2 values are not numbers: left out" in found.notes
    assert found.total is not None
    assert found.total.per_s(BEGIN + 3 * SECOND, SPAN.end_ns).value == pytest.approx(5)


@pytest.mark.slow
def test_a_query_without_an_answer_says_so(tmp_path: Path, prometheus: str) -> None:
    assert "no values for the time" in str(
        collected(tmp_path, f"prometheus-query:{prometheus}#absent").missing
    )
    found = collected(tmp_path, f"prometheus-query:{prometheus}#sum(")
    assert "refuses the query: 1:5: parse error" in str(found.missing)
    with pytest.raises(UsageError, match="parse error"):
        afterwards.ask(parse(f"prometheus-query:{prometheus}#sum("), "query", {"query": "sum("})
    with pytest.raises(EnvironmentLacksError, match="nothing listens"):
        afterwards.ask(parse("prometheus-query:http://127.0.0.1:9#x"), "query", {"query": "x"})


@pytest.mark.slow
def test_a_real_servers_own_metrics_are_read(prometheus: str) -> None:
    with urllib.request.urlopen(f"{prometheus}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    exposed = exposition.read(page, selector.parse("prometheus_http_requests_total", where="test"))
    assert (exposed.unreadable, exposed.left_out, exposed.meaning) == (0, 0, "counter")
    lines = sum(line.startswith("prometheus_http_requests_total{") for line in page.split("\n"))
    assert len(exposed.values) == lines > 0
    assert {"go_goroutines", "prometheus_tsdb_blocks_loaded"} <= set(exposition.names(page))
