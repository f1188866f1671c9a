"""Readers of perf stat's output: real output of the perf that is here, and the shapes that it cannot make."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import RecordError
from steelyard.telemetry.counters import CounterSeries
from steelyard.telemetry.perf_stat.output import PerfStat, parse_perf_stat, read_perf_stat

EVENTS = "task-clock,context-switches,page-faults,cycles"
SOFTWARE = ["task-clock", "context-switches", "page-faults"]
FORMS = {"plain": [], "csv": ["-x,"], "csv;": ["-x;"], "csv|": ["-x", "\\|"], "json": ["-j"]}


@pytest.fixture(scope="module")
def perf() -> str:
    found = shutil.which("perf")
    if found is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    probe = subprocess.run([found, "stat", "-e", "page-faults", "true"], capture_output=True, text=True)
    if "<not supported>" in probe.stderr or probe.returncode:
        pytest.skip(f"perf stat cannot count software events here: {probe.stderr.strip()[:200]}")
    return found


def run(perf: str, *arguments: str, command: tuple[str, ...] = ("sleep", "0.05")) -> str:
    done = subprocess.run([perf, "stat", *arguments, *command], capture_output=True, text=True)
    if "o permission" in done.stderr or "No access" in done.stderr:
        pytest.skip("perf may not count system-wide here")
    return done.stderr


def counts(found: PerfStat, event: str) -> list[float | None]:
    return [value for series in found.series for value in series.events[event].count]


def only(found: PerfStat) -> CounterSeries:
    assert len(found.series) == 1
    return found.series[0]


@pytest.mark.parametrize("form", FORMS)
def test_a_command_as_perf_tells_it_in_every_form(perf: str, form: str) -> None:
    text = run(perf, *FORMS[form], "-e", EVENTS)
    found = parse_perf_stat(text)
    series = only(found)
    assert found.form == form.rstrip(";|")
    assert (series.scope, series.entity) == ("process", "")
    assert (found.unread, found.outputs) == (0, 1)
    # What perf printed, found another way: by its own words.
    faults = re.search(r'"counter-value" : "(\d+)\.0+", "unit" : "", "event" : "page-faults"', text)
    faults = faults or re.search(r"(?m)^\s*(\d+)\W+page-faults", text)
    assert faults is not None
    assert counts(found, "page-faults") == [float(faults[1])]
    clock = re.search(r"([\d.]+)\W+(?:unit\W+)?msec\W", text)
    assert clock is not None
    assert counts(found, "task-clock") == [pytest.approx(float(clock[1]) * 1e6)]
    assert series.events["task-clock"].unit == "ns"
    if "<not supported>" in text:
        assert series.missing["cycles"].startswith("not supported (perf)")
    if form == "plain":
        assert found.target == "sleep 0.05"
        assert found.duration_s is not None
        assert 0.05 <= found.duration_s < 5
        assert series.begin_ns == 0
    else:
        assert found.duration_s is None
        assert series.begin_ns is None


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
@pytest.mark.parametrize(
    ("options", "scope", "entity"),
    [
        (("-A",), "cpu", "cpu0"),
        (("--per-core",), "core", "S0-D0-C0"),
        (("--per-die",), "die", "S0-D0"),
        (("--per-socket",), "socket", "S0"),
        (("--per-node",), "node", "N0"),
    ],
)
def test_parts_of_the_machine(
    perf: str, form: str, options: tuple[str, ...], scope: str, entity: str
) -> None:
    text = run(perf, *FORMS[form], "-e", EVENTS, "-a", *options)
    found = parse_perf_stat(text)
    assert {series.scope for series in found.series} == {scope}
    assert entity in [series.entity for series in found.series]
    assert found.unread == 0
    for series in found.series:
        assert list(series.events)[:3] == SOFTWARE
    if scope == "socket":
        # Every CPU's clock ran all the time.
        seconds = sum(value or 0.0 for value in counts(found, "task-clock")) / 1e9
        assert seconds > 0.05


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
def test_intervals_add_up_to_their_summary(perf: str, form: str) -> None:
    text = run(
        perf,
        *FORMS[form],
        "-e",
        "page-faults,cycles",
        "-I",
        "20",
        "--summary",
        command=("sh", "-c", "cat /proc/self/maps >/dev/null; sleep 0.1; cat /proc/self/maps >/dev/null"),
    )
    found = parse_perf_stat(text)
    series = only(found)
    assert len(series.time_ns) >= 3
    assert list(series.time_ns) == sorted(series.time_ns)
    assert found.duration_s == pytest.approx(series.time_ns[-1] / 1e9)
    summary = [line for line in text.splitlines() if "page-faults" in line][-1]
    total = re.search(r'(?:"counter-value" : "|summary\W+|^\s+)(\d+)', summary)
    assert total is not None
    assert sum(value or 0.0 for value in series.events["page-faults"].count) == float(total[1])
    # Nothing ran while it slept: a gain of 0, which perf writes as <not counted>.
    assert None not in series.events["page-faults"].count


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
def test_repeats(perf: str, form: str) -> None:
    found = parse_perf_stat(run(perf, *FORMS[form], "-e", EVENTS, "-r", "3", command=("true",)))
    assert list(only(found).events)[-3:] == SOFTWARE or set(SOFTWARE) <= set(only(found).events)
    assert found.variation_ratio.get("task-clock", 0.0) < 5
    assert "task-clock" in found.variation_ratio
    if form == "plain":
        assert found.runs == 3


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
def test_threads(perf: str, form: str) -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as spinning:
        try:
            pid = str(spinning.pid)
            # perf counts until this ends: when the loop has had a CPU for 50 ms, however long that takes.
            used = f"cut -d' ' -f14 /proc/{pid}/stat"
            wait = f"begin=$({used}); until [ $({used}) -ge $((begin + 5)) ]; do sleep 0.01; done"
            text = run(
                perf, *FORMS[form], "-e", EVENTS, "--per-thread", "-p", pid, command=("sh", "-c", wait)
            )
        finally:
            spinning.kill()
    series = only(parse_perf_stat(text))
    assert (series.scope, series.entity) == ("thread", f"sh-{spinning.pid}")
    clock = series.events["task-clock"].count[0]
    assert clock is not None
    assert clock > 1e6


def cgroup_folder() -> Path | None:
    """Where perf looks for cgroups of perf_event or of version 2."""
    for line in Path("/proc/mounts").read_text().splitlines():
        fields = line.split()
        if fields[2] == "cgroup2" or (fields[2] == "cgroup" and "perf_event" in fields[3]):
            return Path(fields[1])
    return None


@pytest.fixture
def group() -> Iterator[str]:
    home = cgroup_folder()
    if home is None:
        pytest.skip("no cgroup in which perf counts is mounted")
    folder = home / "steelyard-perf-stat-test"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"{folder} cannot be made: {error.strerror}")
    try:
        yield folder.name
    finally:
        folder.rmdir()


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
def test_control_groups(perf: str, form: str, group: str) -> None:
    text = run(perf, *FORMS[form], "-e", EVENTS, "-a", "--for-each-cgroup", f"/,{group}")
    if "no access to cgroup" in text:
        pytest.skip(text.strip().splitlines()[0])
    found = parse_perf_stat(text)
    named = {series.entity: series for series in found.series}
    assert set(named) == {"/", group}
    assert {series.scope for series in found.series} == {"cgroup"}
    assert list(named["/"].events) == SOFTWARE
    # Nothing runs in a group without processes.
    assert "no process to count ran" in named[group].missing["page-faults"]


def test_a_file_with_a_header_and_several_outputs(perf: str, tmp_path: Path) -> None:
    for name, form in (("a.txt", []), ("a.csv", ["-x,"]), ("a.json", ["-j"])):
        path = tmp_path / name
        for _ in range(2):
            run(perf, *form, "-o", str(path), "--append", "-e", "page-faults", command=("true",))
        found = read_perf_stat(path)
        assert (found.outputs, found.unread) == (2, 0), name
        assert len(only(found).time_ns) == 1


def test_json_among_what_the_program_says(perf: str) -> None:
    said = 'echo "{ not json" >&2; echo "{\\"event\\": \\"mine\\"}" >&2; echo "1,2,3,4" >&2'
    found = parse_perf_stat(run(perf, "-j", "-e", "page-faults", command=("sh", "-c", said)))
    assert found.form == "json"
    assert list(only(found).events) == ["page-faults"]


# Shapes of processors with counters, which the perf here cannot make: after perf-stat(1).

PLAIN = """
# started on Sun Nov 22 02:30:14 2026


 Performance counter stats for './db_bench --benchmarks=readrandom' (5 runs):

         22,334.56 msec task-clock:u                     #    0.998 CPUs utilized            ( +-  0.12% )
   171,717,420,118      cycles:u                  #    7.689 GHz                ( +-  0.20% )  (83.33%)
    22,625,805,888      instructions:u                   #    0.13  insn per cycle
                                                  #    5.21  stalled cycles per insn  ( +-  0.01% )  (66.67%)
     <not counted>      LLC-load-misses                                                         (0.00%)
   <not supported>      L1-dcache-prefetch-misses
            214.72 Joules power/energy-pkg/
         26,700.50 MiB  unc_m_cas_count.rd [uncore_imc_0]
        TopdownL1                 #     31.7 %  tma_backend_bound
                                                  #     12.5 %  tma_frontend_bound     (66.70%)

           22.3801 +- 0.0214 seconds time elapsed  ( +-  0.10% )

Some events weren't counted. Try disabling the NMI watchdog:
\techo 0 > /proc/sys/kernel/nmi_watchdog
"""


def test_plain_text_of_a_processor_with_counters() -> None:
    found = parse_perf_stat(PLAIN)
    series = only(found)
    assert series.events["cycles:u"].count == (171_717_420_118.0,)
    assert series.events["cycles:u"].coverage_ratio == pytest.approx((0.8333,))
    assert series.events["instructions:u"].coverage_ratio == (1.0,)
    assert series.events["power/energy-pkg/"].count == (214.72,)
    assert series.events["power/energy-pkg/"].unit == "Joules"
    assert series.events["unc_m_cas_count.rd [uncore_imc_0]"].unit == "MiB"
    assert series.events["task-clock:u"].count == (22_334_560_000.0,)
    assert "NMI watchdog" in series.missing["LLC-load-misses"]
    assert series.missing["L1-dcache-prefetch-misses"].startswith("not supported")
    assert found.runs == 5
    assert found.duration_s == 22.3801
    assert found.variation_ratio["cycles:u"] == pytest.approx(0.002)
    metrics = {metric.name: (metric.value, metric.unit) for metric in found.metrics}
    assert metrics["insn per cycle"] == (0.13, "")
    assert metrics["stalled cycles per insn"] == (5.21, "")
    assert metrics["tma_backend_bound"] == (31.7, "%")
    assert found.unread == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.234.567", 1_234_567.0),  # German
        ("1\u202f234\u202f567", 1_234_567.0),  # French
        ("1\u00a0234\u00a0567", 1_234_567.0),  # French before glibc 2.28, Russian
        ("1'234'567", 1_234_567.0),  # Swiss
        ("1\u2019234\u2019567", 1_234_567.0),
        ("12,34,567", 1_234_567.0),  # Indian
        ("1234567", 1_234_567.0),  # C
        ("1.234", 1234.0),
        ("1,234", 1234.0),
        ("123,50", 123.5),
        ("1.234,50", 1234.5),
        ("1,234.50", 1234.5),
    ],
)
def test_numbers_of_locales(text: str, value: float) -> None:
    found = parse_perf_stat(f"\n Performance counter stats for 'x':\n\n   {text}      branches\n")
    assert only(found).events["branches"].count == (value,)


def test_fields_of_a_processor_with_counters() -> None:
    found = parse_perf_stat(
        "\n".join(
            [
                "# started on Sun Nov 22 02:30:14 2026",
                "",
                "1136230674488,,cycles,250000000000,83.33,3.787,GHz",
                "3129398329928,,instructions,200000000000,66.67,2.75,insn per cycle",
                ",,,,,0.10,stalled cycles per insn",
                "771000,,cpu/event=0x3c,umask=0x0,cmask=1/,0.15%,100,50.00,,",
                "26700.5,MiB,unc_m_cas_count.rd,1000,100.00,,",
                "214.72,Joules,power/energy-pkg/,1000,100.00,,",
                "<not counted>,,LLC-loads,0,0.00,,",
                "<not supported>,,LLC-stores,0,100.00,,",
                "12,,syscalls:sys_enter_read,/system.slice/a.service,1,100.00,,",
            ]
        )
    )
    whole = next(series for series in found.series if series.scope == "process")
    assert whole.events["instructions"].count == (3_129_398_329_928.0,)
    assert whole.events["instructions"].coverage_ratio == pytest.approx((0.6667,))
    assert whole.events["cpu/event=0x3c,umask=0x0,cmask=1/"].count == (771_000.0,)
    assert whole.events["unc_m_cas_count.rd"].unit == "MiB"
    assert "never got a counter" in whole.missing["LLC-loads"]
    group = next(series for series in found.series if series.scope == "cgroup")
    assert group.entity == "/system.slice/a.service"
    assert group.events["syscalls:sys_enter_read"].count == (12.0,)
    assert [metric.name for metric in found.metrics] == ["GHz", "insn per cycle", "stalled cycles per insn"]
    assert found.unread == 0


def test_an_interval_in_which_an_event_got_no_counter_is_missing_there() -> None:
    found = parse_perf_stat(
        "     1.000100000;5;;cycles;1000;100.00;;\n"
        "     2.000200000;<not counted>;;cycles;0;0.00;;\n"
        "     3.000300000;<not counted>;;cycles;0;100.00;;\n"
    )
    series = only(found)
    assert series.events["cycles"].count == (5.0, None, 0.0)
    assert series.events["cycles"].coverage_ratio == (1.0, 0.0, None)
    assert list(series.time_ns) == [1_000_100_000, 2_000_200_000, 3_000_300_000]
    assert series.begin_ns == 0


def test_events_counted_twice_and_parts_of_the_uncore() -> None:
    """Events of a core that several metrics asked for are one; units of the uncore each count their part."""
    found = parse_perf_stat(
        "100,,INST_RETIRED.ANY,10,50.00,,\n102,,INST_RETIRED.ANY,20,99.00,,\n"
        "7,,unc_m_cas_count.rd,10,100.00,,\n8,,unc_m_cas_count.rd,10,100.00,,\n"
    )
    series = only(found)
    assert series.events["INST_RETIRED.ANY"].count == (102.0,)
    assert series.events["unc_m_cas_count.rd"].count == (15.0,)


def test_json_of_several_versions() -> None:
    lines = [
        {"counter-value": "12.000000", "event": "cycles", "event-runtime": 5, "pcnt-running": 41.5},
        {"counter-value": 7, "unit": "", "event": "instructions", "pcnt-running": 100.0},
        {"metric-value": "31.7", "metric-unit": "%  tma_backend_bound", "metric-threshold": "bad"},
        {"cluster": "S0-D0-CLS1", "counters": 4, "counter-value": "1.0", "event": "branches"},
        {"cache": "S0-D0-L3-ID0", "aggregate-number": 8, "counter-value": "2.0", "event": "branches"},
    ]
    found = parse_perf_stat("\n".join(json.dumps(line) for line in lines))
    named = {(series.scope, series.entity): series for series in found.series}
    assert named["process", ""].events["cycles"].coverage_ratio == pytest.approx((0.415,))
    assert named["process", ""].events["instructions"].count == (7.0,)
    assert ("cluster", "S0-D0-CLS1") in named
    assert ("cache", "S0-D0-L3-ID0") in named
    assert [(m.name, m.value, m.unit) for m in found.metrics] == [("tma_backend_bound", 31.7, "%")]


@pytest.mark.parametrize(
    "text",
    [
        "insn per cycle,GHz,\n1.25,3.60,\n",
        '{"insn per cycle" : "1.25", "GHz" : "3.60"}\n',
        " time,insn per cycle,GHz,\n     1.000,1.25,3.60,\n",
        '{}\n{"interval" : 1.000}{"insn per cycle" : "1.25", "GHz" : "3.60"}\n',
    ],
)
def test_metrics_alone(text: str) -> None:
    found = parse_perf_stat(text)
    assert found.series == ()
    assert {metric.name: metric.value for metric in found.metrics} == {"insn per cycle": 1.25, "GHz": 3.6}


def parse_or_refuse(text: str) -> PerfStat | None:
    """Return what a text says, None where it is refused in one line."""
    try:
        return parse_perf_stat(text)
    except RecordError as error:
        if len(error.message.splitlines()) != 1:
            raise AssertionError(error.message) from error
        return None


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
def test_cut_off_anywhere(perf: str, form: str) -> None:
    """A file that was cut off says less, in no other words, or that it is none."""
    text = run(perf, *FORMS[form], "-e", EVENTS, "-I", "20")
    whole = parse_perf_stat(text)
    for length in range(0, len(text), 7):
        found = parse_or_refuse(text[:length])
        if found is None:
            continue
        for series in found.series:
            for event, counted in series.events.items():
                of_whole = only(whole).events.get(event)
                # Only the last line may be cut, within a number or a name.
                assert of_whole is None or counted.count[:-1] == of_whole.count[: len(counted.count) - 1]


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_any_text_raises_nothing_else(text: str) -> None:
    parse_or_refuse(text)


_PIECES = st.sampled_from(
    [
        *("1", "1,234", "0.5", "nan", "-1", "1e999", "9" * 60, "<not counted>", "<not supported>", "", " "),
        *(",", ";", "\t", "\n", "\n", "#", " # ", "100.00", "(50.00%)", "( +- 1% )", "CPU0", "S0", "a-1"),
        *("cycles", "cpu/event=1,umask=2/", "msec", "summary", "1.000000000", "\u202f", "\x1b[31m", "\x00"),
        *("{", "}", '"event" : "a"', '"counter-value" : "1"', '"interval" : []', ":", '"cpu" : "²"'),
        *(" Performance counter stats for 'x':\n", "#           time             counts unit events\n"),
        *("# started on x\n", "1 seconds time elapsed\n", "/", "[", "1.2,", "²", "٣"),
    ]
)


@given(st.lists(_PIECES, max_size=60))
@settings(max_examples=500, deadline=None)
def test_pieces_of_it_in_any_order_raise_nothing_else(pieces: list[str]) -> None:
    for join in ("", " ", ","):
        found = parse_or_refuse(join.join(pieces))
        if found is None:
            continue
        for series in found.series:
            for event in series.events.values():
                assert len(event.count) == len(event.coverage_ratio) == len(series.time_ns)
                assert all(ratio is None or 0 <= ratio <= 1 for ratio in event.coverage_ratio)


def test_what_is_no_such_file(tmp_path: Path) -> None:
    for name, data in {
        "empty": b"",
        "binary": bytes(range(256)) * 64,
        "report": b"# Samples: 10 of event 'cycles'\n    50.00%  a  b  [.] c\n",
        "error": b"event syntax error: 'cyclez'\n                     \\___ parser error\n",
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(RecordError, match="no output of perf stat"):
            read_perf_stat(path)
    with pytest.raises(RecordError, match="No such file"):
        read_perf_stat(tmp_path / "absent")
    with pytest.raises(RecordError, match="not a regular file but a folder"):
        read_perf_stat(tmp_path)


def test_a_large_file_is_read_quickly() -> None:
    """Ten thousand rows of the longest kind take no time that a person would notice."""
    row = (
        "     {:.9f},S0-D0-C{},2,123456,,cpu/event=0x3c,umask=0x{:x}/,/a.slice/b,1.00%,1000,99.00,1.0,K/sec\n"
    )
    text = "".join(row.format(1 + n // 100, n % 10, n % 100 // 10) for n in range(10_000))
    found = parse_perf_stat(text)
    assert sum(len(series.time_ns) * len(series.events) for series in found.series) == 10_000
