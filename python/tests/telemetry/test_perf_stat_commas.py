"""perf stat -x, in a locale with decimal commas: the same counts as in one with points, or a refusal."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import RecordError
from steelyard.telemetry.perf_stat.output import PerfStat, parse_perf_stat

# What Debian's perf 6.1 printed with LC_ALL=de_DE.UTF-8, and the same row with points.
RECORDED = [
    (
        "1,21,msec,task-clock,1212944,100,00,0,CPUs utilized",
        "1.21,msec,task-clock,1212944,100.00,0.012,CPUs utilized",
    ),
    ("82,,page-faults,1212944,100,00,67,K/sec", "82,,page-faults,1212944,100.00,67.1,K/sec"),
    ("<not supported>,,cycles,0,100,00,,", "<not supported>,,cycles,0,100.00,,"),
    ("0,89,msec,task-clock,2,55%,893288,100,00,0,CPUs", "0.89,msec,task-clock,2.55%,893288,100.00,0.5,CPUs"),
    ("82,,page-faults,0,70%,893288,99,50,96,K/sec", "82,,page-faults,0.70%,893288,99.50,96.1,K/sec"),
    ("CPU0,109,55,msec,task-clock,109554810,100,00,0,CPUs", "CPU0,109.55,msec,task-clock,109554810,100.00,,"),
    ("CPU1,78,,page-faults,113238728,100,00,688,/sec", "CPU1,78,,page-faults,113238728,100.00,,"),
    ("S0,2,207,35,msec,task-clock,207351225,100,00,2,CPUs", "S0,2,207.35,msec,task-clock,207351225,100.00,,"),
    ("S0,2,34,,page-faults,207349403,100,00,10,K/sec", "S0,2,34,,page-faults,207349403,100.00,,"),
    (
        "  0.050532354,0,76,msec,task-clock,755303,100,00,,",
        "  0.050532354,0.76,msec,task-clock,755303,100.00,,",
    ),
    (
        "  0.100718594,<not counted>,msec,task-clock,0,100,00,,",
        "  0.100718594,<not counted>,msec,task-clock,0,100.00,,",
    ),
    ("bash-9479,12,50,msec,task-clock,0,50,00,,", "bash-9479,12.50,msec,task-clock,0,50.00,,"),
]


def same(one: PerfStat, other: PerfStat) -> None:
    assert one.series == other.series
    assert one.variation_ratio == other.variation_ratio


@pytest.mark.parametrize(("commas", "points"), RECORDED)
def test_recorded_rows(commas: str, points: str) -> None:
    found = parse_perf_stat(commas)
    same(found, parse_perf_stat(points))
    assert found.unread == 0
    # perf cut the metrics' numbers at the comma: 0 CPUs would be wrong without a sign of it.
    assert found.metrics == ()
    assert any("metrics are left out" in remark for remark in found.remarks)


def test_metrics_cut_by_perf_are_left_out_with_any_separator() -> None:
    found = parse_perf_stat("1,21;msec;task-clock;1212944;100,00;0;CPUs utilized\n")
    assert found.series[0].events["task-clock"].count == (1_210_000.0,)
    assert found.metrics == ()


def test_a_row_of_two_readings_is_refused_with_what_to_do() -> None:
    # A cgroup named 42 and 50 ns, or an event counted for 42 ns and 50,10 % with a metric of 23,4.
    row = "7,,cycles,42,50,10,23,4,GHz"
    with pytest.raises(RecordError, match="1 lines cannot be understood"):
        parse_perf_stat(row)
    cgroup = "82,,page-faults,/a,1212944,100,00,67,K/sec"
    found = parse_perf_stat(f"{row}\n{cgroup}\n")
    assert [(each.scope, list(each.events)) for each in found.series] == [("cgroup", ["page-faults"])]
    assert found.unread == 1
    assert any("LC_ALL=C" in remark for remark in found.remarks)


def test_a_row_that_has_no_cgroup_tells_that_none_has() -> None:
    found = parse_perf_stat("7,,cycles,42,50,10,23,4,GHz\n82,,page-faults,1212944,100,00,67,K/sec\n")
    assert found.unread == 0
    cycles = found.series[0].events["cycles"]
    assert (cycles.count, cycles.coverage_ratio) == ((7.0,), (0.501,))


@pytest.mark.parametrize(
    ("commas", "points"),
    [
        ("1000,500000,msec,task-clock,9,100,00,,", "1000.500000,msec,task-clock,9,100.00,,"),
        ("1000,500000,,task-clock:u,9,100,00,0,999,CPUs", "1000.5,msec,task-clock:u,9,100.00,,"),
        ("     1,000123456,77,,cycles,9,16,67,,", "     1.000123456,77,,cycles,9,16.67,,"),
    ],
    ids=["six decimals", "no unit", "interval"],
)
def test_rows_of_other_versions(commas: str, points: str) -> None:
    found = parse_perf_stat(commas)
    same(found, parse_perf_stat(points))
    assert found.unread == 0


def test_json_with_decimal_commas_says_what_json_with_points_says() -> None:
    rows = """{"counter-value" : "1000,50", "unit" : "msec", "event" : "task-clock", "event-runtime" : 7,\
 "pcnt-running" : 100,00, "metric-value" : 0,99, "metric-unit" : "CPUs utilized"}
{"counter-value" : "75,000000", "unit" : "", "event" : "page-faults, minor", "event-runtime" : 1,\
 "pcnt-running" : 33,30}"""
    found = parse_perf_stat(rows)
    points = rows.replace("1000,50", "1000.50").replace("75,0", "75.0").replace("100,00", "100.00")
    other = parse_perf_stat(points.replace("0,99", "0.99").replace("33,30", "33.30"))
    assert (found.series, found.metrics, found.unread) == (other.series, other.metrics, 0)
    assert list(found.series[0].events) == ["task-clock", "page-faults, minor"]


_EVENTS = st.sampled_from(
    [
        "cycles",
        "task-clock",
        "cpu/event=0x3c,umask=0x0,cmask=1/",
        "syscalls:sys_enter_read",
        "power/energy-pkg/",
    ]
)
_CENT = st.integers(0, 10_000)


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, str]:
    """A row with points, and the same with commas."""
    prefix = draw(
        st.sampled_from(["", "     1.000123456,", "CPU3,", "S0,2,", "S0-D1-C3,1,", "my prog-77,", "N0,8,"])
    )
    has_unit = draw(st.booleans())
    whole = draw(st.integers(0, 10**15))
    count = f"{whole}.{draw(st.integers(0, 99)):02}" if has_unit else str(whole)
    unit = draw(st.sampled_from(["msec", "Joules", "MiB"])) if has_unit else ""
    fields = [count, unit, draw(_EVENTS)]
    if draw(st.booleans()):
        fields.append(f"{draw(_CENT) / 100:.2f}%")
    fields += [str(draw(st.integers(0, 10**12))), f"{draw(_CENT) / 100:.2f}"]
    metric = draw(st.sampled_from([[], ["", ""], ["3", "GHz"], ["688", "/sec"]]))
    line = prefix + ",".join(fields)
    points = ",".join([line, *metric])
    # The time of an interval has a point in every locale.
    time, rest = (prefix, points[len(prefix) :]) if "." in prefix else ("", points)
    return points, time + rest.replace(".", ",")


@given(st.lists(rows(), min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_rows_with_commas_say_what_rows_with_points_say(pairs: list[tuple[str, str]]) -> None:
    points = parse_perf_stat("\n".join(pair[0] for pair in pairs))
    commas = parse_perf_stat("\n".join(pair[1] for pair in pairs))
    assert commas.unread == 0
    same(commas, points)


@given(
    st.lists(
        st.sampled_from([*"0123", "12", "00", "100", "5%", "msec", "cycles", "", "S0", "CPU1", "a-1"]),
        max_size=14,
    )
)
@settings(max_examples=500, deadline=None)
def test_fields_in_any_order_are_read_or_refused_in_one_line(fields: list[str]) -> None:
    text = f"82,,page-faults,1212944,100,00,67,K/sec\n{','.join(fields)}\n"
    found = parse_perf_stat(text)
    assert found.series
