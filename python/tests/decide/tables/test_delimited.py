"""Tables in CSV: what is read, in which unit, and what stands for a cell that holds no result."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.decide.tables.cells import number_in, price_in, year_in
from steelyard.decide.tables.columns import Declarations, kind_of, read_declarations, unit_of
from steelyard.decide.tables.delimited import parse_delimited, read_delimited
from steelyard.decide.tables.model import MachineTable
from steelyard.decide.tables.reading import read_table

MACHINES = Path(__file__).resolve().parents[5] / "shared/data/servers/machines.csv"
needs_data = pytest.mark.skipif(not MACHINES.exists(), reason="../shared/data/servers is not here")


def read(text: str, declarations: Declarations | None = None) -> MachineTable:
    return parse_delimited(text, "t.csv", declarations or Declarations())


def error(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400
    assert caught.value.hint
    return caught.value


def as_values(table: MachineTable) -> dict[tuple[str, str], tuple[float, ...]]:
    return {(m.name, name): found.values for m in table.machines for name, found in m.results.items()}


def test_a_wide_table_has_a_row_a_machine_and_a_long_one_a_row_a_value() -> None:
    wide = read("machine,processor,web_per_s,p99_ms\nA,P,100,5\nA,P,110,6\nB,Q,90,4\n")
    long = read(
        "machine,processor,result,value\nA,P,web_per_s,100\nA,P,web_per_s,110\nA,P,p99_ms,5\nA,P,p99_ms,6\n"
        "B,Q,web_per_s,90\nB,Q,p99_ms,4\n"
    )
    assert (wide.machines, wide.results) == (long.machines, long.results)
    assert wide.machine("A").results["web_per_s"].sessions == ((100.0, 110.0),)
    assert wide.machine("A").results["p99_ms"].values == pytest.approx((0.005, 0.006))
    assert [(c.unit, c.better) for c in wide.results] == [("1/s", "higher"), ("s", "lower")]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_delimiters_and_line_ends(delimiter: str, newline: str) -> None:
    lines = ["machine,cpu,web_per_s", '"A",P,1', " B ,Q , 2.5 ", ""]
    text = newline.join(line.replace(",", delimiter) for line in lines)
    assert as_values(read(text)) == {("A", "web_per_s"): (1.0,), ("B", "web_per_s"): (2.5,)}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_byte_order_marks_and_names_in_any_alphabet(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("machine,x\nмашина,1\n".encode(encoding))
    assert read_table([path]).names == ("машина",)


def test_a_quoted_cell_may_hold_the_delimiter_and_a_number_its_thousands() -> None:
    table = read('machine,"note; or, two",x\n"a, b","x, y","1,234.5"\n')
    assert as_values(table) == {("a, b", "x"): (1234.5,)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its first line names no columns"),
        ("machine\nA\n", "its first line names no columns"),
        ("machine,x\n", "there is no machine in it"),
        ("machine,x\nA,1\nB\n", "t.csv:3: 1 cells under 2 columns"),
        ("machine,x\nA,1,2\n", "t.csv:2: 3 cells under 2 columns"),
        ("machine,x,x\nA,1,2\n", "two columns are called 'x'"),
        ("machine,cpu,processor,x\nA,P,Q,2\n", "two columns are the processor"),
        ("x,y\n1,2\n", "no column names the machines"),
        ("machine,x\n,1\n", "t.csv:2: the machine has no name"),
        ("machine,cpu,x\nA,P,1\nA,Q,2\n", "machine 'A' has two values of processor: 'P' and 'Q'"),
        ("machine,price_usd,price_per_hour_eur,x\nA,1,1,1\n", "two values of currency: 'USD' and 'EUR'"),
        ("machine,date,x\nA,2021-01,1\nA,2021-07,2\n", "two values of year: 2021 and 2021.5"),
        ("machine,benchmark,metric,value\nA,redis,set,2\n", "both benchmark and metric name the result"),
        ("machine,result,value,unit\nA,x,1,parsecs\n", "t.csv:2: unknown unit 'parsecs'"),
        ("machine,result,value,unit\nA,x,1,ms\nB,x,1,1/s\n", "t.csv:3: 'x' is in 1/s (higher is better), b"),
        ("machine,result,value,better\nA,x,1,up\n", "'up' is neither higher nor lower"),
        ("machine,result,value\nA,,1\n", "t.csv:2: the result has no name"),
        ("machine,power_mw,x\nA,1,1\n", "column 'power_mw': mW or MW?"),
        ("machine,x\nA,1\0\n", "NUL bytes"),
        (f"machine,x\nA,{'9' * 200_000}\n", "field larger than field limit"),
        (f"machine,cpu,x\n{'A' * 9000},P,1\n{'A' * 9000},Q,1\n", "has two values of processor"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line_with_a_hint(text: str, words: str) -> None:
    assert words in error(text).message


def test_a_cell_without_a_result_is_missing_with_its_reason_and_a_note() -> None:
    cells = ["5", "0", "-1", "", "n/a", "inf", "nan", "fast", "1e999", "6", "7", "8", "9", "10", "11"]
    table = read("machine,x\n" + "".join(f"m{at},{cell}\n" for at, cell in enumerate(cells)))
    reasons = {m.name: m.why_missing("x") for m in table.machines if "x" not in m.results}
    assert reasons == {
        "m1": "0 is no result",
        "m2": "-1 is no result",
        "m3": "the cell is empty",
        "m4": "the cell is empty",
        "m5": "'inf' is no number",
        "m6": "the cell is empty",
        "m7": "'fast' is no number",
        "m8": "'1e999' is no number",
    }
    assert table.notes == (
        "x: 0 on 1 of 15 machines, taken as missing.",
        "x: a negative value on 1 of 15 machines, taken as missing.",
        "x: no finite number on 3 of 15 machines, taken as missing.",
    )


def test_a_value_that_its_unit_makes_infinite_is_missing() -> None:
    table = read("machine,read_gb_per_s\nA,1e305\nB,1\n")
    assert table.machine("A").why_missing("read_gb_per_s") == "1e305 is no result"


def test_repeats_are_by_session_where_there_is_such_a_column() -> None:
    table = read("machine,session,x\nA,mon,1\nA,mon,2\nA,tue,3\nB,,4\n")
    assert table.machine("A").results["x"].sessions == ((1.0, 2.0), (3.0,))
    assert table.machine("B").results["x"].sessions == ((4.0,),)


def test_a_column_with_no_value_on_any_machine_is_noted() -> None:
    assert read("machine,x,y\nA,1,0\nB,2,0\n").notes[-1] == "y: no machine has a value."


def test_columns_without_a_name_are_skipped() -> None:
    table = read(",machine,x,\n0,A,1,\n1,B,2,\n")
    assert as_values(table) == {("A", "x"): (1.0,), ("B", "x"): (2.0,)}
    assert table.notes == ("Column 1 has no name: skipped.",)


def test_a_column_of_numbers_that_cannot_be_read_is_noted() -> None:
    assert "'12,5' is read as a text" in read('machine,x\nA,"12,5"\nB,"13,5"\n').notes[0]
    assert "'12 MB/s' is read as a text" in read("machine,read\nA,12 MB/s\nB,13 MB/s\n").notes[0]


def test_without_a_column_of_machines_a_row_is_one_and_its_processor_names_it() -> None:
    assert read("cpu,x\nP,1\nP,2\n").names == ("P (line 2)", "P (line 3)")


def test_measured_power_of_repeats_is_their_median_and_stated_power_must_agree() -> None:
    table = read("machine,x,x_power_w,system_power_kw\nA,1,300,0.4\nA,2,310,0.5\nA,3,302,0.4\n")
    assert table.machine("A").attributes == {"x_power_w": 302.0, "system_power_w": 400.0}
    assert table.notes == ("system_power_w, x_power_w: the median of each machine's figures.",)
    assert "two values of tdp_w" in error("machine,x,tdp_w\nA,1,300\nA,2,310\n").message


@pytest.mark.parametrize(
    ("header", "name", "unit", "factor", "better"),
    [
        ("web_per_s", "web_per_s", "1/s", 1, "higher"),
        ("rps", "rps", "1/s", 1, "higher"),
        ("Read (MB/s)", "Read (MB/s)", "bytes/s", 1e6, "higher"),
        ("read_mb_s", "read_mb_s", "bytes/s", 1e6, "higher"),
        ("read GiB/sec", "read GiB/sec", "bytes/s", 2**30, "higher"),
        ("p99 (µs)", "p99 (µs)", "s", 1e-6, "lower"),
        ("p99 [µs]", "p99 [µs]", "s", 1e-6, "lower"),
        ("latency", "latency", "1", 1, "lower"),
        ("errors", "errors", "1", 1, "lower"),
        ("error_ratio", "error_ratio", "ratio", 1, "lower"),
        ("timeouts_per_s", "timeouts_per_s", "1/s", 1, "lower"),
        ("ops_per_joule", "ops_per_joule", "1", 1, "higher"),
        ("cpu_score", "cpu_score", "1", 1, "higher"),
        ("score", "score", "1", 1, "higher"),
        ("kops_per_s", "kops_per_s", "1/s", 1, "higher"),
    ],
)
def test_units_are_read_from_names(header: str, name: str, unit: str, factor: float, better: str) -> None:
    table = read(f"machine;{header}\nA;2\n")
    assert [(c.name, c.unit, c.better) for c in table.results] == [(name, unit, better)]
    assert table.machine("A").results[name].value == pytest.approx(2 * factor)


@pytest.mark.parametrize(
    ("header", "cell", "attribute", "value"),
    [
        ("memory_gib", "16", "memory_bytes", 16 * 2**30),
        ("Memory (GB)", "16", "memory_bytes", 16e9),
        ("memory", "512 GB (16 x 32 GB)", "memory_bytes", 512e9),
        ("clock_ghz", "2.5", "clock_hz", 2.5e9),
        ("MHz", "2500", "clock_hz", 2.5e9),
        ("cpu", "8", "cpus", 8),
        ("cpu", "Xeon", "processor", "Xeon"),
        ("# Cores", "8", "cores", 8),
        ("cpu_count", "8", "cpus", 8),
        ("Rack U", "2", "rack_units", 2),
        ("HW Avail", "Jul-2021", "year", 2021.5),
        ("power_kw", "0.3", "power_w", 300),
        ("generation", "7", "generation", "7"),
        ("os", "Debian", "os", "Debian"),
    ],
)
def test_attributes_are_known_by_their_names(header: str, cell: str, attribute: str, value: object) -> None:
    found = read(f"machine;{header};x\nA;{cell};2\n").machine("A").attributes
    assert found == {attribute: pytest.approx(value) if isinstance(value, int | float) else value}


@pytest.mark.parametrize(
    ("header", "attribute", "currency"),
    [
        ("List price ($)", "price", "USD"),
        ("Purchase cost (EUR)", "price", "EUR"),
        ("$/hour", "price_per_hour", "USD"),
        ("price/h", "price_per_hour", None),
        ("Hourly cost (£)", "price_per_hour", "GBP"),
    ],
)
def test_prices_are_known_by_their_names(header: str, attribute: str, currency: str | None) -> None:
    table = read(f"Server Name,{header},x\nA,12,2\n")
    assert table.machine("A").attributes.get(attribute) == 12
    assert table.machine("A").attributes.get("currency") == currency


def test_a_price_of_which_nothing_says_what_it_buys_is_no_result() -> None:
    note = "Support cost is a price and not counted: call it price or price_per_hour if it is the machine's."
    table = read("machine,Support cost,x,x_per_cost\nA,12,2,3\n")
    assert ([column.name for column in table.results], table.notes) == (["x", "x_per_cost"], (note,))
    long = "machine,result,value{}\nA,Support cost,1{}\nA,x,2{}\n"
    assert read(long.format("", "", "")).notes == (note,)
    stated = read(long.format(",better", ",lower", ",higher"))
    assert [column.better for column in stated.results] == ["lower", "higher"]


def test_sizes_that_cannot_be_are_missing_or_noted() -> None:
    table = read("machine,cpus,memory,x\nA,0,16,1\nB,8,32,2\n")
    assert table.machine("A").number("cpus") is None
    assert table.notes == (
        "cpus: 0 on 1 of 2 machines, taken as missing.",
        "memory_bytes is below 1 MiB on 2 of 2 machines: name the column with its unit, as memory_gib.",
    )


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("MB/s", ("bytes/s", 1e6)), ("GB/s", ("bytes/s", 1e9)), ("MiB/sec", ("bytes/s", 2.0**20)),
        ("req/s", ("1/s", 1.0)), ("kreq/s", ("1/s", 1e3)), ("Mops/s", ("1/s", 1e6)),
        ("queries/s", ("1/s", 1.0)), ("1/s", ("1/s", 1.0)), ("µs", ("s", 1e-6)), ("MW", ("w", 1e6)),
        ("mW", ("w", 1e-3)), ("%", ("ratio", 0.01)),
        ("Gbit/s", ("bits/s", 1e9)),
    ],
)  # fmt: skip
def test_units_as_people_write_them(text: str, unit: tuple[str, float]) -> None:
    found = unit_of(text)
    assert found is not None
    assert (found.name, found.factor) == unit


@pytest.mark.parametrize("text", ["parsec", "apples/s", "s/s", "", "Mbps"])
def test_other_units_are_unknown(text: str) -> None:
    assert unit_of(text) is None or text == ""


def test_a_unit_column_converts() -> None:
    table = read(
        "machine,result,value,unit\nA,read,2000,MB/s\nB,read,2,GB/s\nA,wait,2,ms\nB,wait,0.002,s\n"
        "A,web,3,kreq/s\nB,web,3000,1/s\n"
    )
    for column in table.results:
        first, second = (machine.results[column.name].value for machine in table.machines)
        assert first == pytest.approx(second), column.name


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("2021", 2021), ("2021-07", 2021.5), ("2021-07-15", 2021.5), ("2021/7/1", 2021.5),
        ("Jul-2021", 2021.5),
        ("July 2021", 2021.5), ("15 Jul 2021", 2021.5), ("Thu Jul 15 2021", 2021.5), ("20210715", 2021.5),
        ("15.07.2021", 2021.5), ("07/15/2021", 2021.5), ("7/2021", 2021.5), ("2021-07-15T10:00:00Z", 2021.5),
        ("2021.5", 2021.5), ("Q3 2021", 2021), ("04/05/2021", 2021), ("2021-13", None), ("soon", None),
        ("7", None),
    ],
)  # fmt: skip
def test_dates_in_many_forms(text: str, year: float | None) -> None:
    assert year_in(text) == year


@pytest.mark.parametrize(
    ("header", "cell", "price", "currency"),
    [
        ("price_usd", "1200", 1200, "USD"),
        ("price", "$1,200.50", 1200.5, "USD"),
        ("price", "1200 EUR", 1200, "EUR"),
        ("price", "USD 1200", 1200, "USD"),
        ("price", "80€", 80, "EUR"),
        ("price", "80", 80, None),
    ],
)
def test_prices_and_their_currency(header: str, cell: str, price: float, currency: str | None) -> None:
    machine = read(f"machine;{header};x\nA;{cell};1\n").machine("A")
    assert (machine.number("price"), machine.text("currency")) == (price, currency)
    assert price_in("cheap") is None


def test_a_toml_file_says_what_a_column_is(tmp_path: Path) -> None:
    path, first, second = tmp_path / "c.toml", tmp_path / "a.csv", tmp_path / "b.csv"
    path.write_text(
        '[columns.response]\nunit = "ms"\n[columns.id]\nis = "machine"\n[columns.when]\nis = "session"\n'
        '[columns.junk]\nis = "skip"\n[columns.score]\nunit = "s"\nname = "runtime"\n'
        '[columns.web]\nunit = "kreq/s"\n'
        "[machines.A]\nprice = 100\n[machines.Z]\nprice = 1\n"
    )
    first.write_text("id,when,response,score,junk\nA,1,5,2,7\nA,2,6,2,8\nB,1,7,2,9\n")
    second.write_text("machine,result,value\nA,web,2\nB,web,3\n")
    table = read_table([first, second], path)
    assert [(c.name, c.unit, c.better) for c in table.results] == [
        ("response", "s", "lower"),
        ("runtime", "s", "lower"),
        ("web", "1/s", "higher"),
    ]
    assert table.machine("A").results["response"].sessions == ((0.005,), (0.006,))
    assert table.machine("A").attributes == {"price": 100.0}
    assert table.machine("B").results["web"].value == 3000
    assert table.notes == ("[machines.Z] is not in the table.",)
    path.write_text("[columns.nothing]\nunit = 's'\n")
    with pytest.raises(UsageError, match="there is no column 'nothing'"):
        read_table([second], path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[columns.x]\nunit = 'parsec'", "columns.x.unit: unknown unit 'parsec'"),
        ("[columns.x]\nbetter = 'up'", "'up' is neither higher nor lower"),
        ("[columns.x]\nis = 'thing'", "columns.x.is: 'thing' is none of result, attribute, skip, machine"),
        ("[columns.x]\ncolour = 'red'", "columns.x: unknown key 'colour'"),
        ("[columns]\nx = 1", "columns.x is no table"),
        ("[machines]\nA = 1", "machines.A is no table"),
        ("[machines.A]\nprice = true", "machines.A.price: neither a number nor a text"),
        ("[other]\nx = 1", "unknown key 'other'"),
        ("[columns", "c.toml"),
    ],
)
def test_a_wrong_toml_file_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path, table = tmp_path / "c.toml", tmp_path / "t.csv"
    path.write_text(text)
    table.write_text("machine,x\nA,1\n")
    with pytest.raises(UsageError) as caught:
        read_delimited([table], read_declarations(path))
    assert words in caught.value.message


NUMBER = st.floats(min_value=1e-6, max_value=1e9)
TABLES = st.dictionaries(
    st.sampled_from(["A", "B", "C", "D"]),
    st.fixed_dictionaries(
        {name: st.lists(NUMBER, min_size=1, max_size=3) for name in ("web_per_s", "p99_ms")}
    ),
    min_size=1,
)


def long_rows(data: dict[str, dict[str, list[float]]]) -> list[str]:
    return [
        f"{machine},{name},{value!r}"
        for machine, results in data.items()
        for name, values in results.items()
        for value in values
    ]


def wide_of(data: dict[str, dict[str, list[float]]], names: tuple[str, ...] = ("web_per_s", "p99_ms")) -> str:
    rows = [",".join(("machine", *names))]
    for machine, results in data.items():
        for at in range(max(map(len, results.values()))):
            cells = [repr(results[name][at]) if at < len(results[name]) else "" for name in names]
            rows.append(",".join((machine, *cells)))
    return "\n".join(rows)


@given(TABLES)
def test_both_forms_of_the_same_data_give_the_same_table(data: dict[str, dict[str, list[float]]]) -> None:
    long = read("\n".join(["machine,result,value", *long_rows(data)]))
    wide = read(wide_of(data))
    assert wide.machines == long.machines
    assert {*wide.results} == {*long.results}


@given(TABLES, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_columns_changes_no_value(
    data: dict[str, dict[str, list[float]]], shuffler: random.Random
) -> None:
    rows = long_rows(data)
    plain = as_values(read("\n".join(["machine,result,value", *rows])))
    shuffler.shuffle(rows)
    turned = [",".join((value, machine, name)) for machine, name, value in (row.split(",") for row in rows)]
    mixed = as_values(read("\n".join(["value,machine,result", *turned])))
    assert {key: sorted(values) for key, values in mixed.items()} == {
        key: sorted(values) for key, values in plain.items()
    }
    assert as_values(read(wide_of(data, ("p99_ms", "web_per_s")))) == as_values(read(wide_of(data)))


@given(st.lists(NUMBER, min_size=1, max_size=5), st.sampled_from([("ms", 1e3), ("ns", 1e9), ("s", 1.0)]))
def test_a_value_is_the_same_in_any_unit(values: list[float], unit: tuple[str, float]) -> None:
    name, factor = unit
    plain = read("machine,result,value,unit\n" + "".join(f"A,x,{value!r},s\n" for value in values))
    scaled = read(
        "machine,result,value,unit\n" + "".join(f"A,x,{value * factor!r},{name}\n" for value in values)
    )
    assert as_values(scaled)["A", "x"] == pytest.approx(as_values(plain)["A", "x"])


@settings(max_examples=200)
@given(st.text(alphabet=st.sampled_from('machine,;\t|"\r\n0123.-eE%$ xµ\x00\x1b=@\ufeff'), max_size=200))
def test_any_text_is_a_table_or_refused(text: str) -> None:
    try:
        table = read(text)
    except UsageError as caught:
        if not caught.hint:
            raise
        return
    for machine in table.machines:
        for result in machine.results.values():
            assert all(0 < value < float("inf") for value in result.values)


@given(st.text(max_size=30))
def test_any_cell_is_a_finite_number_or_none(text: str) -> None:
    value = number_in(text)
    assert value is None or value - value == 0
    year = year_in(text)
    assert year is None or 1950 <= year < 2100


@given(st.text(max_size=30), st.booleans())
def test_any_header_is_some_column(header: str, is_number: bool) -> None:
    try:
        assert kind_of(header, is_number=is_number).unit.factor > 0
    except UsageError as caught:
        if "mW or MW?" not in caught.message:
            raise


def test_two_thousand_columns() -> None:
    names = [f"r{at}_per_s" for at in range(2000)]
    text = "\n".join([",".join(("machine", *names)), *(",".join((m, *["1"] * 2000)) for m in "ABCDE")])
    assert len(read(text).results) == 2000


def test_a_hundred_thousand_rows_are_read_in_seconds() -> None:
    rows = [f"m{at % 5000},{at % 7},{at + 1}" for at in range(100_000)]
    began = time.process_time()
    table = read("\n".join(["machine,session,web_per_s", *rows]))
    assert time.process_time() - began < 10  # 0.4 s on a quiet machine
    assert len(table.machines) == 5000


@needs_data
def test_the_data_of_two_cloud_vendors_is_read_as_it_is() -> None:
    table = read_table([MACHINES])
    assert len(table.machines) == 1214
    assert len(table.results) == 18
    assert {"processor", "architecture", "cpus", "l3_bytes", "hypervisor"} <= set(table.attributes)
    assert table.column("memory_latency_ns").better == "lower"
    assert [column.unit for column in table.results].count("bytes/s") >= 6
