"""Stores of earlier versions: files that were recorded in version 1.0, alone and beside those of today.

The recorded store was written by the Steelyard before version 2: by its agent (`agent.1`), by its importers
(`imported.1`), and compacted (`joined.1`), three windows each.
"""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard._base import schemas_dir
from steelyard.fleet.importers.mapping import read_mapping
from steelyard.fleet.importers.prometheus import read_source
from steelyard.fleet.store.check import check_store
from steelyard.fleet.store.compact import compact_store
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import open_store, write_rows
from steelyard.telemetry.engine import fetch_rows

DAY, NOON = "2026-01-01", 1_767_268_800
FIRST = {"agent.1": 0, "imported.1": 100, "joined.1": 200}
"""What distinguishes the machines' counts."""


@pytest.fixture
def recorded(tmp_path):
    shutil.copytree(schemas_dir() / "golden" / "store-1.0", tmp_path / "store")
    return tmp_path / "store"


def cycles(store, engine="duckdb"):
    """Return the cycles of the store's tasks and machines by machine and window."""
    with open_store(str(store), engine) as opened:
        tasks, machines = opened.table("task_samples"), opened.table("machine_samples")
        of_tasks = fetch_rows(tasks.select("machine", "window_start_unix_s", "reference_cycles"))
        of_machines = fetch_rows(
            machines.select("machine", "window_start_unix_s", "core_cycles", "reference_cycles")
        )
        assert opened.problems == []
    return sorted(tuple(row.values()) for row in of_tasks), sorted(tuple(r.values()) for r in of_machines)


def expected(first, reference=60_000_000_000, core=80_000_000_000):
    windows = [(name, NOON + 60 * n, number + n) for name, number in first.items() for n in range(3)]
    tasks = [(name, time, reference + number) for name, time, number in windows]
    # The agent's machine was recorded with 20 G cycles more of each kind.
    more = {"agent.1": 20_000_000_000}
    machines = [
        (name, time, core + number + more.get(name, 0), reference + number + more.get(name, 0))
        for name, time, number in windows
    ]
    return sorted(tasks), sorted(machines)


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark-local", marks=pytest.mark.slow)])
def test_columns_of_version_1_have_the_names_of_today(recorded, engine):
    assert cycles(recorded, engine) == expected(FIRST)


def add_todays(store):
    rows = [
        {"machine": "new.1", "platform": "skylake", "window_start_unix_s": NOON + 60 * n, "window_s": 60.0}
        | {"instructions": 40_000_000_000, "reference_cycles": 60_000_000_300 + n, "labels": []}
        for n in range(3)
    ]
    whose = {"job": "search", "task": "new.1/0", "job_class": "batch", "cpu_s": 30.0}
    whole = [{"threads": 2, "cpu_s": 40.0, "core_cycles": 80_000_000_300 + n} for n in range(3)]
    for table, made in (
        ("task_samples", [row | whose for row in rows]),
        ("machine_samples", [row | of for row, of in zip(rows, whole, strict=True)]),
    ):
        fields = TABLES[table].arrow
        made = pa.Table.from_pylist(made, schema=pa.schema([fields.field(name) for name in made[0]]))
        path = write_rows(str(store), table, made, cluster="rack 1", date=DAY, machine="new.1")
        assert path.startswith(f"{table}/schema=2/")


def test_a_store_may_hold_both_versions_and_compaction_joins_them_in_todays(recorded):
    add_todays(recorded)
    both = expected(FIRST | {"new.1": 300})
    assert cycles(recorded) == both
    with open_store(str(recorded)) as store:
        assert check_store(store).clean
    with open_store(str(recorded)) as store:
        compact_store(store)
    assert cycles(recorded) == both
    for table in ("task_samples", "machine_samples"):
        assert not list((recorded / table / "schema=1").rglob("*.parquet"))
        (path,) = (recorded / table).rglob("*.parquet")
        assert pq.read_metadata(path).metadata[b"steelyard.schema_version"] == b"2.0"
    assert list((recorded / "machines" / "schema=1").rglob("*.parquet"))


def test_a_file_that_waited_in_an_agents_spool_is_read_by_its_own_version(recorded):
    # The agent of today uploads what an earlier one left, into today's folder.
    for table in ("task_samples", "machine_samples"):
        (recorded / table / "schema=1").rename(recorded / table / "schema=2")
    assert cycles(recorded) == expected(FIRST)


def test_rows_of_version_1_are_held_against_the_rules(recorded):
    (path,) = (recorded / "task_samples").rglob("imported*.parquet")
    rows = pq.read_table(path)
    place = rows.schema.get_field_index("cycles")
    wrong = rows.set_column(place, rows.schema.field(place), pa.array([10**18, 60_000_000_101, -1]))
    pq.write_table(wrong.replace_schema_metadata(rows.schema.metadata), path)
    tasks, _ = cycles(recorded)
    assert [task for task in tasks if task[0] == "imported.1"] == [("imported.1", NOON + 60, 60_000_000_101)]


def test_mapping_files_may_name_columns_as_before(tmp_path):
    file = tmp_path / "mapping.toml"
    file.write_text('[queries]\ncpu_s = "a"\ncycles = "b"\n')
    assert read_source("http://127.0.0.1:9090", file).queries == {"cpu_s": "a", "reference_cycles": "b"}
    required = [c.name for c in TABLES["machine_samples"].columns if not c.nullable and c.name != "labels"]
    columns = "".join(f'{name} = "{name}"\n' for name in required)
    file.write_text(f'table = "machine_samples"\n[columns]\n{columns}cycles = "clocks"\n')
    assert read_mapping(file).columns["core_cycles"] == {"column": "clocks"}
