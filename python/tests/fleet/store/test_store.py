import json
import string
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import EnvironmentLacksError, RecordError, UsageError, schemas_dir
from steelyard.cli.main import invoke
from steelyard.fleet.store.layout import Partition, encode, machine_of, partition_of, raw_name
from steelyard.fleet.store.reference import page
from steelyard.fleet.store.schema import ARROW_TYPES, PARTITIONS, TABLES, schema_text
from steelyard.fleet.store.store import open_store, write_compacted, write_rows
from steelyard.telemetry.engine import fetch, fetch_rows

DAY, NOON = "2026-01-01", 1_767_268_800


def samples(count=3, **changed):
    rows = [
        {
            "machine": "web.1",
            "platform": "westmere",
            "job": "search",
            "task": "search/0",
            "job_class": "latency-sensitive",
            "window_start_unix_s": NOON + 60 * number,
            "window_s": 60.0,
            "cpu_s": 30.0 + number,
            "cpi": 1.5,
            "pages_per_node": [number, 2],
            "labels": [("canary", "yes")],
            **changed,
        }
        for number in range(count)
    ]
    schema = TABLES["task_samples"].arrow
    names = list(rows[0])
    return pa.Table.from_pylist(rows, schema=pa.schema([schema.field(name) for name in names]))


def write(store, rows=None, table="task_samples", **options):
    options = {"cluster": "a", "date": DAY, "machine": "web.1", **options}
    return write_rows(str(store), table, samples() if rows is None else rows, **options)


def test_what_is_written_is_read(tmp_path):
    path = write(tmp_path / "store", cluster="rack 1/a%é")
    folder, name = path.rsplit("/", 1)
    assert folder == "task_samples/schema=2/date=2026-01-01/cluster=rack%201%2Fa%25%C3%A9"
    assert name.startswith("web%2E1.1767268800.")
    with open_store(str(tmp_path / "store")) as store:
        table = store.table("task_samples")
        assert fetch(table).column_names == [c.name for c in TABLES["task_samples"].columns] + list(
            PARTITIONS
        )
        rows = fetch_rows(table.order_by("window_start_unix_s"))
        assert store.problems == []
    assert [row["cpu_s"] for row in rows] == [30.0, 31.0, 32.0]
    assert rows[1]["pages_per_node"] == [1, 2]
    assert dict(rows[1]["labels"]) == {"canary": "yes"}
    assert rows[1]["llc_misses"] is None
    assert {(row["date"], row["cluster"]) for row in rows} == {(DAY, "rack 1/a%é")}


def test_the_same_rows_are_the_same_file(tmp_path):
    assert write(tmp_path) == write(tmp_path, samples().take([2, 0, 1]))
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_files_is_empty_and_typed(tmp_path, name):
    write(tmp_path)
    with open_store(str(tmp_path)) as store:
        got = fetch(store.table(name).limit(0))
    for column in TABLES[name].columns:
        assert got.schema.field(column.name).type == ARROW_TYPES[column.type], column.name


def test_a_file_that_a_compacted_one_holds_is_not_read_again(tmp_path):
    raw = write(tmp_path).rsplit("/", 1)[-1]
    write_compacted(str(tmp_path), "task_samples", samples(), cluster="a", date=DAY, inputs=[raw])
    with open_store(str(tmp_path)) as store:
        table = store.table("task_samples")
        assert fetch_rows(table.agg(rows=table.count())) == [{"rows": 3}]
        listing = store.listing("task_samples")
    assert [file.name for file in listing.replaced] == [raw]
    assert listing.problems == []


def test_the_schema_file_is_generated():
    assert (schemas_dir() / "store.json").read_text() == schema_text(), "make schemas"


def test_the_reference_page_is_generated():
    path = Path(__file__).resolve().parents[4] / "docs" / "reference" / "store.md"
    assert path.read_text() == page(), "python -m steelyard.fleet.store.reference"


def test_a_table_answers_expressions(tmp_path):
    write(tmp_path)
    with open_store(str(tmp_path)) as store:
        table = store.table("task_samples")
        mean = table.group_by("job").agg(cpi=table.cpi.mean(), canary=table.labels.get("canary").max())
        assert fetch_rows(mean) == [{"job": "search", "cpi": 1.5, "canary": "yes"}]


def test_errors_of_the_world(tmp_path):
    with pytest.raises(EnvironmentLacksError, match="not a store"):
        open_store(str(tmp_path))
    write(tmp_path)
    with pytest.raises(UsageError, match="no table 'tasks'"):
        open_store(str(tmp_path)).table("tasks")
    with pytest.raises(UsageError, match="is no day"):
        open_store(str(tmp_path), first="2026-02-30")
    with pytest.raises(UsageError, match="no engine"):
        open_store(str(tmp_path), "sqlite")
    (tmp_path / "steelyard-store.json").write_text(
        json.dumps({"kind": "steelyard-store", "schema_version": "3.0"})
    )
    with pytest.raises(RecordError, match=r"schema version 3\.0"):
        open_store(str(tmp_path))


def test_rows_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(UsageError, match="window_s is missing"):
        write(tmp_path, samples().drop_columns(["window_s"]))
    with pytest.raises(UsageError, match="no column 'cpu'"):
        write(tmp_path, samples().append_column("cpu", pa.array([1, 2, 3])))
    with pytest.raises(RecordError, match="1 rows without job"):
        write(tmp_path, samples().set_column(2, "job", pa.array(["a", None, "b"])))
    with pytest.raises(RecordError, match="3 rows in which cpi is no number"):
        write(tmp_path, samples(cpi=float("nan")))


def test_check_names_what_was_put_aside(tmp_path, capsys):
    path = tmp_path / write(tmp_path)
    assert invoke(["fleet", "check", "--store", str(tmp_path)]) == 0
    assert "3 rows" in capsys.readouterr().out
    (path.parent / "half.parquet").write_bytes(path.read_bytes()[:-20])
    assert invoke(["fleet", "check", "--store", str(tmp_path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [problem["path"] for problem in document["problems"]] == [
        "task_samples/schema=2/date=2026-01-01/cluster=a/half.parquet"
    ]
    assert document["tables"]["task_samples"]["rows"] == 3
    assert invoke(["fleet", "check", "--store", str(tmp_path / "none")]) == 3


def test_the_command_line_loads_nothing_heavy_for_help():
    script = (
        "import sys; from steelyard.cli.main import invoke; invoke(['fleet', '--help']);"
        "print([name for name in ('numpy', 'rich', 'ibis', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_any_name_is_one_part_of_a_path_and_comes_back(cluster, machine):
    assert set(encode(cluster)) <= set(string.ascii_letters + string.digits + "-_%")
    name = raw_name(machine, -5, "0" * 64)
    partition = Partition("profiles", "2026-01-31", cluster)
    assert partition_of(f"{partition.path}/{name}") == partition
    assert machine_of(name) == machine
