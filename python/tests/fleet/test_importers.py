"""Small files in the published layouts: every column that comes through, with the unit that it has."""

import contextlib
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard._base import RecordError, SteelyardError, UsageError
from steelyard.cli.main import invoke
from steelyard.fleet.importers import alibaba, google, mapping, prometheus
from steelyard.fleet.store.store import open_store
from steelyard.telemetry.engine import fetch_rows
from tests import prometheus_server

START_2011, START_2019 = 1_304_290_200, 1_556_693_400


def table(store, name="task_samples", order=("task", "window_start_unix_s")):
    with open_store(str(store)) as opened:
        rows = fetch_rows(opened.table(name).order_by(list(order)))
        assert opened.problems == []
    return [row | {"labels": dict(row["labels"])} for row in rows]


@pytest.fixture
def google_2011(tmp_path):
    """Two parts of task_usage: the second of version 2.0, without the sampled CPU rate."""
    folder = tmp_path / "clusterdata-2011-2"
    usage = folder / "task_usage"
    usage.mkdir(parents=True)
    first = (
        "600000000,900000000,3418309,0,4155527081,0.001562,0.06787,0.07568,0.001156,0.001503,0.06787,"
        "2.861e-06,0.0001869,0.03967,0.0003567,2.445,0.007243,0,1,0\n"
        "600000000,900000000,3418309,1,329150663,0.25,0.05,0.05,0,0,0.05,0,0,0.5,0,,,0,1,0.1\n"
    )
    (usage / "part-00000-of-00500.csv.gz").write_bytes(gzip.compress(first.encode()))
    second = (
        "86400000000,86700000000,3418314,0,4155527081,0.5,0.1,0.1,0,0,0.1,0,0,0.5,0,1.5,0.01,0,1\n"
        "86400000000,86700000000,3418314,1,,0.5,0.1,0.1,0,0,0.1,0,0,0.5,0,1.5,0.01,0,1\n"
    )
    (usage / "part-00001-of-00500.csv").write_text(second)
    (folder / "machine_events").mkdir()
    (folder / "machine_events" / "part-00000-of-00001.csv").write_text(
        "0,4155527081,0,HofLGzk1Or/8Ildj2+Lqv0UGGvY82NLoni8+J/Yy0RU=,0.5,0.2493\n0,329150663,0,,,\n"
    )
    (folder / "task_events").mkdir()
    (folder / "task_events" / "part-00000-of-00500.csv").write_text(
        "0,2,3418309,0,4155527081,0,user,3,9,0.125,0.07446,0.0004244,0\n"
        "0,2,3418309,1,329150663,0,user,0,1,0.125,0.07446,0.0004244,0\n"
    )
    return folder


def test_google_2011(google_2011, tmp_path, capsys):
    store = tmp_path / "store"
    command = ["fleet", "import", "google-2011", str(google_2011), "--store", str(store)]
    assert invoke([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rows"] == {"machines": 1, "task_samples": 3}
    assert said["left_out"] == 1
    rows = table(store)
    assert [row["task"] for row in rows] == ["3418309/0", "3418309/1", "3418314/0"]
    one = rows[0]
    assert (one["machine"], one["job"], one["cluster"]) == ("4155527081", "3418309", "google-2011")
    assert one["platform"] == "HofLGzk1Or/8Ildj2+Lqv0UGGvY82NLoni8+J/Yy0RU="
    assert (one["window_start_unix_s"], one["window_s"]) == (START_2011 + 600, 300.0)
    assert one["cpu_s"] == pytest.approx(0.001562 * 300)
    assert (one["cpi"], one["cpi_source"]) == (2.445, "cycles/instructions")
    assert one["labels"] == {"source": "google-2011", "cpu_unit": "share of the largest machine's CPUs"}
    assert (one["memory_bytes"], one["llc_misses"], one["instructions"]) == (None, None, None)
    assert one["date"] == "2011-05-01"
    assert [row["job_class"] for row in rows] == ["latency-sensitive", "best-effort", "batch"]
    assert (rows[1]["platform"], rows[1]["cpi"], rows[1]["cpi_source"]) == ("unknown", None, None)
    # A day of UTC later, and 400 s before midnight.
    assert (rows[2]["date"], rows[2]["window_start_unix_s"]) == ("2011-05-02", START_2011 + 86_400)
    # Again, and scaled: the same windows, once.
    assert invoke(command) == 0
    assert "left out: 1 row" in capsys.readouterr().out
    assert table(store) == rows


def test_google_2011_scaled_to_cpus(google_2011, tmp_path):
    google.import_2011([google_2011 / "task_usage"], str(tmp_path / "s"), cpu_scale=64.0)
    rows = table(tmp_path / "s")
    assert rows[2]["cpu_s"] == pytest.approx(0.5 * 300 * 64)
    assert rows[2]["labels"]["cpu_unit"] == "CPUs, if the largest machine has 64"
    assert {row["platform"] for row in rows} == {"unknown"}


INSTANCE_2019 = {
    "start_time": "600000000",
    "end_time": "900000000",
    "collection_id": "330587238433",
    "instance_index": 12,
    "machine_id": "169799318",
    "collection_type": 0,
    "average_usage": {"cpus": 0.0123, "memory": 0.004},
    "maximum_usage": {"cpus": 0.02, "memory": 0.004},
    "random_sample_usage": {"cpus": 0.01},
    "assigned_memory": 0.005,
    "cycles_per_instruction": 1.25,
    "memory_accesses_per_instruction": 0.002,
    "sample_rate": 0.99,
    "cpu_usage_distribution": [0.001, 0.02],
}


@pytest.mark.parametrize("kind", ["json.gz", "parquet"])
def test_google_2019(tmp_path, kind):
    idle = INSTANCE_2019 | {"instance_index": 13, "cycles_per_instruction": None}
    path = tmp_path / f"instance_usage-000000000000.{kind}"
    if kind == "parquet":
        typed = [row | {"start_time": 600_000_000, "end_time": 900_000_000} for row in (INSTANCE_2019, idle)]
        pq.write_table(pa.Table.from_pylist(typed), path)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in (INSTANCE_2019, idle))
        path.write_bytes(gzip.compress(lines.encode()))
    google.import_2019([path], str(tmp_path / "store"))
    rows = table(tmp_path / "store")
    assert [row["task"] for row in rows] == ["330587238433/12", "330587238433/13"]
    assert rows[0]["window_start_unix_s"] == START_2019 + 600
    assert rows[0]["date"] == "2019-05-01"
    assert rows[0]["cpu_s"] == pytest.approx(0.0123 * 300)
    assert [row["cpi"] for row in rows] == [1.25, None]


def test_alibaba_2017(tmp_path):
    (tmp_path / "container_usage.csv").write_text(
        "39600,4,10.5,42.0,1.5,1.2,1.1,1.0,1.21,2.3,1.5,3.0\n"
        "39900,4,20,42.0,,1.2,1.1,1.0,,,,\n"
        "39600,9088,20,42.0,,1.2,1.1,1.0,1,1,1,1\n"
    )
    (tmp_path / "container_event.csv").write_text(
        "0,Create,4,1001,4,0.08,0.3,0|1|32|33\n0,Create,5,1002,8,0.08,0.3,2|3\n"
    )
    (tmp_path / "server_usage.csv").write_text(
        "39600,1001,31.5,40.0,50.0,10.0,11.0,12.0\n39900,1001,50,40,50,10,11,12\n"
    )
    (tmp_path / "server_event.csv").write_text("0,1001,add,,64,0.69,1\n0,1002,add,,64,0.69,1\n")
    done = alibaba.import_2017([tmp_path], str(tmp_path / "store"))
    assert done.rows == {"task_samples": 2, "machines": 2, "machine_samples": 2}
    # The container 9088 is in no event: the trace says so, and its machine is unknown.
    assert done.left_out == 1
    rows = table(tmp_path / "store")
    begin = 1_501_545_600
    assert [(row["task"], row["machine"], row["window_start_unix_s"]) for row in rows] == [
        ("4", "1001", begin + 39_600),
        ("4", "1001", begin + 39_900),
    ]
    assert [row["cpu_s"] for row in rows] == [pytest.approx(0.105 * 4 * 300), pytest.approx(0.2 * 4 * 300)]
    assert [row["cpi"] for row in rows] == [1.21, None]
    assert rows[0]["labels"]["time"] == "begin taken for 2017-08-01"
    machines = table(tmp_path / "store", "machine_samples", ("machine", "window_start_unix_s"))
    assert [row["cpu_s"] for row in machines] == [pytest.approx(0.315 * 64 * 300), 0.5 * 64 * 300]
    assert [row["threads"] for row in machines] == [64, 64]


def test_alibaba_2018(tmp_path):
    (tmp_path / "container_usage.csv").write_text(
        "c_1,m_2556,386640,6,53,1.17,10.5,2,0.1,0.2,5\n"
        "c_1,m_2556,386650,8,53,,10.5,2,0.1,0.2,-1\n"
        "c_1,m_2556,386660,8,53,0,,,,,101\n"
    )
    (tmp_path / "container_meta.csv").write_text("c_1,m_2556,0,app_5052,started,400,400,1.56\n")
    (tmp_path / "machine_usage.csv").write_text(
        "m_2556,386640,40,90,,,43.3,33.0,4\nm_2556,386650,101,90,,,43.3,33.0,4\n"
    )
    (tmp_path / "machine_meta.csv").write_text("m_2556,0,43,11,96,100,USING\n")
    done = alibaba.import_2018([tmp_path], str(tmp_path / "store"), start="2018-03-01")
    assert done.rows == {"task_samples": 3, "machines": 1, "machine_samples": 1}
    rows = table(tmp_path / "store")
    assert {(row["job"], row["task"], row["machine"]) for row in rows} == {("app_5052", "c_1", "m_2556")}
    assert [row["window_s"] for row in rows] == [10.0] * 3
    assert rows[0]["cpu_s"] == pytest.approx(0.06 * 4 * 10)
    assert [row["cpi"] for row in rows] == [1.17, None, None]
    assert rows[0]["window_start_unix_s"] == 1_519_862_400 + 386_640
    machines = table(tmp_path / "store", "machine_samples", ("machine",))
    assert machines[0]["cpu_s"] == pytest.approx(0.4 * 96 * 10)


MAPPING = """
table = "task_samples"
[columns]
machine = "host"
platform = { value = "epyc" }
job = "service"
task = "pod"
job_class = { value = "batch" }
window_start_unix_s = { column = "when", time = "ms" }
window_s = { value = 60.0 }
cpu_s = { column = "cpu_ms", scale = 0.001 }
operations = "requests"
[labels]
version = "build"
"""


@pytest.mark.parametrize("ending", ["csv", "csv.zst"])
def test_any_csv_by_a_mapping(tmp_path, ending, capsys):
    text = (
        "host,service,pod,when,cpu_ms,requests,build\n"
        '"h,1",web,web-1,1767268800500,1500,12,v2\n'
        "h2,web,web-2,1767268860000,many,,\n"
        "h3,web,web-3,1767268860000,250,NaN,\n"
    )
    path = tmp_path / f"usage.{ending}"
    content = text.encode()
    path.write_bytes(pa.compress(content, codec="zstd", asbytes=True) if ending.endswith("zst") else content)
    (tmp_path / "m.toml").write_text(MAPPING)
    command = ["fleet", "import", "csv", str(path), "--store", str(tmp_path / "s"), "--cluster", "x"]
    assert invoke([*command, "--mapping", str(tmp_path / "m.toml")]) == 0
    said = capsys.readouterr().out
    assert "2 rows" in said
    assert "left out: 1 row" in said
    rows = table(tmp_path / "s")
    assert [(row["machine"], row["window_start_unix_s"], row["cpu_s"]) for row in rows] == [
        ("h,1", 1_767_268_800, 1.5),
        ("h3", 1_767_268_860, 0.25),
    ]
    assert [row["operations"] for row in rows] == [12.0, None]
    assert rows[0]["labels"] == {"version": "v2"}
    assert rows[1]["labels"] == {"version": None}
    assert invoke(command) == 2
    assert "csv needs --mapping" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("machine = ", "machin = "), "no column 'machin'"),
        (('machine = "host"\n', ""), "requires machine"),
        (('"host"', "3"), "machine needs a column or a value"),
        (('time = "ms"', 'time = "min"'), "time is 'min'"),
        (("[columns]", "[column]"), "means nothing"),
        (('"task_samples"', '"tasks"'), "no table 'tasks'"),
        (('"host"', '"'), "no TOML"),
        (('"host"', '"hosts"'), "no column 'hosts'"),
    ],
)
def test_a_wrong_mapping_is_reported(tmp_path, change, said):
    (tmp_path / "m.toml").write_text(MAPPING.replace(*change))
    (tmp_path / "u.csv").write_text("host,service,pod,when,cpu_ms,requests,build\nh,w,p,1,1,1,v\n")
    with pytest.raises(UsageError, match=said):
        mapping.import_csv(
            [tmp_path / "u.csv"], str(tmp_path / "s"), mapping.read_mapping(tmp_path / "m.toml")
        )


def test_times_as_text(tmp_path):
    (tmp_path / "m.toml").write_text(MAPPING.replace('time = "ms"', 'time = "iso"'))
    times = ["2026-01-01T12:00:00Z", "2026-01-01 12:01:00", "2026-01-01T14:02:00+02:00"]
    lines = "".join(f"h,w,p,{time},1,1,v\n" for time in times)
    (tmp_path / "u.csv").write_text("host,service,pod,when,cpu_ms,requests,build\n" + lines)
    mapping.import_csv([tmp_path / "u.csv"], str(tmp_path / "s"), mapping.read_mapping(tmp_path / "m.toml"))
    assert [row["window_start_unix_s"] for row in table(tmp_path / "s")] == [
        1_767_268_800,
        1_767_268_860,
        1_767_268_920,
    ]


def test_what_cannot_be_imported_is_reported(tmp_path, capsys):
    store = ["--store", str(tmp_path / "s")]
    assert invoke(["fleet", "import", "google-2011", str(tmp_path / "none"), *store]) == 2
    assert "no such file" in capsys.readouterr().err
    assert invoke(["fleet", "import", "alibaba-2018", str(tmp_path), *store]) == 3
    assert "no container_usage.csv there" in capsys.readouterr().err
    (tmp_path / "container_usage.tar.gz").write_bytes(b"x")
    (tmp_path / "container_meta.csv").write_text("")
    assert invoke(["fleet", "import", "alibaba-2018", str(tmp_path), *store]) == 2
    assert "unpack it first" in capsys.readouterr().err
    assert invoke(["fleet", "import", "google-2012", str(tmp_path), *store]) == 2
    assert "nothing is imported as" in capsys.readouterr().err
    (tmp_path / "x.json").write_text('{"start_time": 1\n')
    with pytest.raises(RecordError):
        google.import_2019([tmp_path / "x.json"], str(tmp_path / "s"))
    assert not (tmp_path / "s" / "task_samples").exists()


DAY_S, NEW_YEAR, SCRAPED_S = 86_400, 1_767_225_600, 15
OF_CART = 'instance="n1",namespace="shop",pod="cart-7f9c-x",container="cart"'
CADVISOR = {
    ("container_cpu_usage_seconds", "counter"): lambda at: at * 0.25,
    ("container_memory_working_set_bytes", "gauge"): lambda at: 1_048_576 + at // 3_600,
    ("container_fs_reads_bytes", "counter"): lambda _: "NaN",
    ("container_fs_writes_bytes", "counter"): lambda _: "NaN",
    ("container_memory_failures", "counter"): lambda at: at * 2,
}


def of_cadvisor():
    """Return a day of one container as cAdvisor reports it, and rows that are no container."""
    for (name, kind), value in CADVISOR.items():
        yield f"# TYPE {name} {kind}"
        labels = OF_CART + (',failure_type="pgfault",scope="container"' if "failures" in name else "")
        suffix = "_total" if kind == "counter" else ""
        for at in range(0, DAY_S + 1, SCRAPED_S):
            yield f"{name}{suffix}{{{labels}}} {value(at)} {NEW_YEAR + at}"
            if "cpu" in name:
                yield f'{name}{suffix}{{instance="n1",container="POD"}} {at} {NEW_YEAR + at}'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with prometheus_server.prometheus(tmp_path_factory.mktemp("prometheus"), of_cadvisor()) as address:
        yield address


@pytest.mark.slow
def test_prometheus(server, tmp_path, capsys):
    command = ["fleet", "import", "prometheus", server, "--store", str(tmp_path), "--step", "3600"]
    assert invoke([*command, "--from", "2026-01-01", "--to", "2026-01-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"task_samples": 24}
    rows = table(tmp_path)
    assert [row["window_start_unix_s"] for row in rows] == list(range(NEW_YEAR, NEW_YEAR + DAY_S, 3_600))
    one = rows[3]
    assert (one["machine"], one["job"], one["task"]) == ("n1", "shop/cart", "shop/cart-7f9c-x/cart")
    assert one["cpu_s"] == pytest.approx(900)
    # The last of 241 scrapes from the window's beginning to its end is of the next hour already.
    assert one["memory_bytes"] == pytest.approx(1_048_579 + 1 / 241)
    assert one["page_faults"] == 7_200
    assert (one["storage_bytes"], one["cpi"], one["window_s"]) == (None, None, 3600.0)
    assert one["labels"]["source"] == "prometheus"
    assert invoke(command) == 2
    assert "--from and --to" in capsys.readouterr().err


@pytest.mark.slow
def test_prometheus_by_a_mapping_and_in_pieces(server, tmp_path):
    (tmp_path / "m.toml").write_text(
        '[identity]\nmachine = "{node}-{instance}"\n[queries]\n'
        "cpu_s = \"increase(container_cpu_usage_seconds_total{pod!=''}[${step}])\"\n"
    )
    source = prometheus.read_source(server, tmp_path / "m.toml")
    # More windows than the server gives in one answer.
    done = prometheus.import_range(
        source, str(tmp_path / "s"), begin_unix_s=NEW_YEAR, end_unix_s=NEW_YEAR + 84_000, step_s=30
    )
    finer = prometheus.import_range(
        source, str(tmp_path / "t"), begin_unix_s=NEW_YEAR, end_unix_s=NEW_YEAR + 84_000, step_s=15
    )
    assert done.rows == {"task_samples": 2_800}
    rows = table(tmp_path / "s")
    assert [row["window_start_unix_s"] for row in rows] == list(range(NEW_YEAR, NEW_YEAR + 84_000, 30))
    assert all(row["cpu_s"] == pytest.approx(7.5) for row in rows)
    assert rows[0]["machine"] == "-n1"
    assert finer.rows == {"task_samples": 5_600}
    source.queries["cpu_s"] = "sum("
    with pytest.raises(RecordError, match="parse error"):
        prometheus.import_range(source, str(tmp_path / "s"), begin_unix_s=0, end_unix_s=100, step_s=10)
    for text, said in (("[queries]\nx = 'y'", "'x' cannot be requested"), ("[query]", "means nothing")):
        (tmp_path / "m.toml").write_text(text)
        with pytest.raises(UsageError, match=said):
            prometheus.read_source(source.url, tmp_path / "m.toml")


@settings(max_examples=25)
@given(content=st.binary(max_size=300) | st.text(alphabet='0123456789,."\n-eé', max_size=300).map(str.encode))
def test_whatever_a_file_holds_it_is_imported_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    path = folder / "task_usage.csv"
    path.write_bytes(content)
    with contextlib.suppress(SteelyardError):
        if google.import_2011([path], str(folder / "store")).files:
            with open_store(str(folder / "store")) as opened:
                fetch_rows(opened.table("task_samples"))
                assert opened.problems == []


SAMPLES = """
table = "task_samples"
[columns]
machine = "host"
job = "job"
task = "task"
platform = { value = "p" }
job_class = { value = "batch" }
cpu_s = { column = "cpu_ms", scale = 0.001 }
window_start_unix_s = { column = "when", time = "iso" }
window_s = { value = 60 }
instructions = "ins"
cycles = "cyc"
"""
HEADER = "host,job,task,when,cpu_ms,ins,cyc\n"
GOOD = "h1,j,t,2026-03-01T10:00:00Z,1000,2000000,1000000\n"


def import_samples(tmp_path, content, capsys, **options):
    path = tmp_path / "samples.csv"
    path.write_bytes(content.encode(options.get("codec", "utf-8")))
    (tmp_path / "samples.toml").write_text(SAMPLES)
    command = ["fleet", "import", "csv", str(path), "--store", str(tmp_path / "s"), "--json"]
    code = invoke([*command, "--mapping", str(tmp_path / "samples.toml")])
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


def test_numbers_in_groups_are_named_and_an_import_of_nothing_is_not_0(tmp_path, capsys):
    rows = GOOD.replace("1000,", '"1,000",', 1) + GOOD.replace("1000,", '"1,000",', 1)
    code, found, said = import_samples(tmp_path, HEADER + rows, capsys)
    assert (code, found["rows"], found["left_out"]) == (1, {}, 2)
    assert found["notes"][0].startswith("cpu_ms: 2 values cannot be read, the first is '1,000' (separators")
    assert found["notes"][1].startswith("2 rows have no cpu_s")
    assert "nothing was imported: cpu_ms" in said
    code, found, said = import_samples(tmp_path, HEADER, capsys)
    assert (code, found["rows"]) == (1, {})
    assert "the input has no rows" in said


@pytest.mark.parametrize("odd", ["NaN", "inf", "-Infinity", "1e300", "n/a", "12 kB", "1.234.567"])
def test_one_odd_value_costs_itself(odd, tmp_path, capsys):
    code, found, _ = import_samples(
        tmp_path, HEADER + GOOD + GOOD.replace(":00:00Z", ":01:00Z").replace("2000000", odd), capsys
    )
    assert (code, found["rows"], found["left_out"]) == (0, {"task_samples": 2}, 0)
    [note] = found["notes"]
    assert note.startswith(f"ins: 1 value cannot be read, the first is {odd!r}")


def test_a_file_of_a_spreadsheet_is_read(tmp_path, capsys):
    for codec in ("utf-8-sig", "utf-16"):
        code, found, said = import_samples(tmp_path, HEADER + GOOD, capsys, codec=codec)
        assert (code, found["rows"], found["notes"]) == (0, {"task_samples": 1}, []), said
