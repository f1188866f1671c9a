"""Compaction, retention, quarantine, check: a store reads the same whatever was done to it, and when."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard._base import UsageError
from steelyard.cli.main import invoke
from steelyard.fleet.store.check import check_store
from steelyard.fleet.store.compact import compact_store
from steelyard.fleet.store.files import Place
from steelyard.fleet.store.listing import list_table
from steelyard.fleet.store.retention import Removed, expire_store
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import open_store, write_rows
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.fleet_rows import DAY, FOLDER, NOON, TRUE, read, rows, write


@pytest.fixture
def store(tmp_path):
    """A store of three machines with a repeated batch, a false row, and a flood."""
    write(tmp_path, rows())
    write(tmp_path, rows(windows=2), machine="m1")
    write(tmp_path, rows("m2", windows=1), machine="m2")
    write(tmp_path, rows("m3", windows=1, tasks=1, cpu_s=-1.0), machine="m3")
    for number in range(4, 8):
        write(tmp_path, rows(f"m{number}", windows=1, tasks=1), machine=f"m{number}")
    write(tmp_path, rows("m9", windows=1, tasks=9_000), machine="m9")
    return tmp_path


EXPECTED = sorted(
    [*TRUE, ("m2/0", NOON, 30.0), ("m2/1", NOON, 30.0), *((f"m{n}/0", NOON, 30.0) for n in range(4, 8))]
)


def compacted(store, **options):
    with open_store(str(store)) as opened:
        return compact_store(opened, **options)


def names(store):
    return sorted(path.name for path in (store / FOLDER).iterdir())


def test_check_counts_and_names(store):
    write(store, rows("m8", windows=1, job="search"), machine="m8")
    write(store, rows("m8", windows=1, start=NOON + 60, job="search-v2"), machine="m8")
    with open_store(str(store)) as opened:
        found = check_store(opened)
    table = found.tables["task_samples"]
    assert [(bad.machine, bad.reason, bad.rows) for bad in table.bad] == [("m3", "cpu_s is negative", 1)]
    assert (table.repeated.repeated_rows, table.repeated.repeated_by) == (4, ("m1",))
    assert len(found.problems) == 1
    assert found.problems[0].reason.startswith("m9 floods the store")
    assert found.renamed_count == 2
    assert (found.renamed[0].task, found.renamed[0].jobs) == ("m8/0", ("search", "search-v2"))
    assert not found.clean


def test_check_holds_cpu_time_against_the_machine(tmp_path, capsys):
    write(tmp_path, rows(windows=1, cpu_s=500.0))
    schema = TABLES["machines"].arrow
    row = {"machine": "m1", "platform": "p", "seen_unix_s": NOON, "threads": 8, "labels": []}
    machine = pa.Table.from_pylist([row], schema=pa.schema([schema.field(name) for name in row]))
    write_rows(str(tmp_path), "machines", machine, cluster="a", date=DAY, machine="m1")
    assert invoke(["fleet", "check", "--store", str(tmp_path)]) == 0
    write(tmp_path, rows(windows=1, cpu_s=600.0, start=NOON + 60))
    capsys.readouterr()
    assert invoke(["fleet", "check", "--store", str(tmp_path)]) == 1
    assert "doubtful: 2 rows of m1 in task_samples: more CPU time than" in capsys.readouterr().out


def test_check_on_the_command_line(store, capsys):
    assert invoke(["fleet", "check", "--store", str(store)]) == 1
    said = capsys.readouterr().out
    for words in (
        "m9 floods the store: 9000 rows a minute",
        "left out: 1 row of m3 in task_samples: cpu_s is negative",
        "counted once: 4 rows that came again in task_samples, most by m1",
    ):
        assert words in said
    assert invoke(["fleet", "check", "--store", str(store), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["tables"]["task_samples"]["repeated_rows"] == 4
    assert document["clean"] is False


def test_compaction_leaves_one_file_and_the_same_rows(store):
    done = compacted(store)
    one = done.tables["task_samples"]
    assert (one.files_before, one.files_after, one.rows, one.repeated_rows, one.quarantined_rows) == (
        8,
        1,
        12,
        4,
        9_001,
    )
    assert [name[:8] for name in names(store)] == ["compact."]
    assert read(store) == (EXPECTED, {})
    with open_store(str(store)) as opened:
        assert check_store(opened).clean
    table = pq.read_table(store / FOLDER / names(store)[0], partitioning=None)
    assert table.equals(table.sort_by([(name, "ascending") for name in TABLES["task_samples"].sort]))
    # Nothing is left to do.
    assert all(one.files_before == 0 for one in compacted(store).tables.values())


def test_rows_in_quarantine_say_why_and_whence(store):
    compacted(store)
    folder = store / "quarantine" / "task_samples" / f"date={DAY}" / "cluster=a"
    found = {path.name.partition(".")[0]: pq.read_table(path, partitioning=None) for path in folder.iterdir()}
    assert found.keys() == {"m3", "m9"}
    assert found["m3"]["reason"].to_pylist() == ["cpu_s is negative"]
    assert found["m3"]["cpu_s"].to_pylist() == [-1.0]
    assert found["m3"]["origin"][0].as_py().startswith(f"{FOLDER}/m3.")
    assert found["m9"].num_rows == 9_000
    assert found["m9"]["reason"][0].as_py().startswith("m9 floods the store")


class KilledError(BaseException):
    """Stands for a kill: nothing of the program runs after it."""


def test_a_kill_at_any_step_leaves_a_whole_view(store, tmp_path_factory):
    steps = []
    for at in range(1_000):
        here = tmp_path_factory.mktemp("killed") / "store"
        shutil.copytree(store, here)
        count = iter(range(1_000))

        def die(step, at=at, count=count):
            if next(count) == at:
                raise KilledError(step)

        try:
            compacted(here, step=die)
        except KilledError as killed:
            steps.append(str(killed))
        else:
            break
        assert read(here)[0] == EXPECTED, steps
        compacted(here)
        assert read(here) == (EXPECTED, {}), steps
        assert len(names(here)) == 1
        moved = list((here / "quarantine").rglob("*.parquet"))
        assert sum(pq.read_metadata(path).num_rows for path in moved) == 9_001
    assert set(steps) == {"quarantine", "write", "remove"}
    assert len(steps) > 10


def test_late_and_repeated_uploads_after_compactions(store):
    first = next((store / FOLDER).glob("m1.*"))
    name, content = first.name, first.read_bytes()
    compacted(store)
    # A window more, with the old ones again; then the first upload's very bytes.
    write(store, rows(windows=4), machine="m1")
    expected = sorted([*EXPECTED, ("m1/0", NOON + 180, 30.0), ("m1/1", NOON + 180, 30.0)])
    assert read(store) == (expected, {})
    compacted(store)
    assert len(names(store)) == 1
    (store / FOLDER / name).write_bytes(content)
    assert read(store) == (expected, {})
    assert compacted(store).removed_leftovers == 1
    assert len(names(store)) == 1
    assert read(store) == (expected, {})


def test_compacted_files_have_a_size(store):
    done = compacted(store, target_rows=6)
    one = done.tables["task_samples"]
    assert one.files_after == len(names(store)) > 1
    assert read(store) == (EXPECTED, {})
    compacted(store)
    assert len(names(store)) == 1
    assert read(store) == (EXPECTED, {})


def test_two_compactions_at_once(store):
    """The slow one lists the files before the other begins, and writes before the other has removed them."""
    raw = {path: path.read_bytes() for path in (store / FOLDER).iterdir()}
    with open_store(str(store)) as slow:
        slow.look_at_all()
        write(store, rows("m8", windows=1, tasks=1), machine="m8")
        compacted(store)
        for path, content in raw.items():
            path.write_bytes(content)
        compact_store(slow)
    assert [name[:8] for name in names(store)] == ["compact.", "compact."]
    expected = sorted([*EXPECTED, ("m8/0", NOON, 30.0)])
    assert read(store) == (expected, {})
    compacted(store)
    assert read(store) == (expected, {})
    assert len(names(store)) == 1


def test_dry_run_changes_nothing(store, capsys):
    before = names(store)
    assert invoke(["fleet", "compact", "--store", str(store), "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tables"]["task_samples"]["files_before"] == 8
    assert names(store) == before
    assert invoke(["fleet", "compact", "--store", str(store)]) == 0
    assert "8 files became 1: 12 rows, 4 duplicates dropped" in capsys.readouterr().out
    assert invoke(["fleet", "compact", "--store", str(store)]) == 0
    assert capsys.readouterr().out == "Nothing to join.\n"


def incident(**changed):
    schema = TABLES["incidents"].arrow
    row = {
        "incident": "i1",
        "machine": "m1",
        "platform": "westmere",
        "victim_job": "search",
        "victim_task": "m1/0",
        "start_unix_s": NOON,
        "threshold_cpi": 2.0,
        "victim_cpi": 3.0,
        "outliers": 3,
        "action": "cap",
        "reason": "correlation 0.5",
        **changed,
    }
    return pa.Table.from_pylist([row], schema=pa.schema([schema.field(name) for name in row]))


def test_an_incident_that_ended_replaces_the_open_one(tmp_path):
    place = {"cluster": "a", "date": DAY, "machine": "m1"}
    write_rows(str(tmp_path), "incidents", incident(), **place)
    compacted(tmp_path)
    write_rows(str(tmp_path), "incidents", incident(end_unix_s=NOON + 300, undone=True), **place)

    def ends():
        with open_store(str(tmp_path)) as opened:
            return [row["end_unix_s"] for row in fetch_rows(opened.table("incidents"))]

    assert ends() == [NOON + 300]
    compacted(tmp_path)
    assert ends() == [NOON + 300]


def test_expiry_removes_by_day_and_table(tmp_path, capsys):
    for day, start in (("2026-01-01", NOON), ("2026-01-03", NOON + 2 * 86_400)):
        write(tmp_path, rows(start=start), date=day)
        write_rows(
            str(tmp_path), "incidents", incident(start_unix_s=start), cluster="a", date=day, machine="m1"
        )
    spoilt = tmp_path / FOLDER / "spoilt.parquet"
    spoilt.write_bytes(b"x")
    command = ["fleet", "expire", "--store", str(tmp_path), "--keep-days", "2", "--today", "2026-01-03"]
    assert invoke([*command, "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["first_kept"] == "2026-01-02"
    assert {name: one["files"] for name, one in said["removed"].items()} == {
        "machine_samples": 0,
        "task_samples": 2,
        "profiles": 0,
        "incidents": 1,
    }
    assert spoilt.exists()
    assert invoke([*command, "--table", "task_samples"]) == 0
    assert "2 files removed" in capsys.readouterr().out
    assert not spoilt.exists()
    place = Place(str(tmp_path))
    assert [file.partition.date for file in list_table(place, TABLES["task_samples"]).files] == ["2026-01-03"]
    assert len(list_table(place, TABLES["incidents"]).files) == 2
    again = expire_store(place, 2, tables=["task_samples"], today="2026-01-03")
    assert again.removed == {"task_samples": Removed(0, 0)}
    with pytest.raises(UsageError, match="is no day"):
        expire_store(place, 2, today="soon")


def test_a_range_of_days_selects_windows(tmp_path):
    for number in range(4):
        write(tmp_path, rows(start=NOON + number * 86_400), date=f"2026-01-0{number + 1}")
    with open_store(str(tmp_path), first="2026-01-02", last="2026-01-03") as opened:
        table = opened.table("task_samples")
        got = fetch_rows(table.group_by("date").agg(rows=table.count()).order_by("date"))
    assert got == [{"date": "2026-01-02", "rows": 6}, {"date": "2026-01-03", "rows": 6}]


def test_a_compacted_file_vouches_for_its_rows_until_rules_change(store, monkeypatch):
    compacted(store)
    with open_store(str(store)) as opened:
        (file,) = opened.listing("task_samples").files
        assert file.is_vouched
        assert file.suspected is None
    monkeypatch.setattr("steelyard.fleet.store.listing.voucher", lambda table: "other rules")
    monkeypatch.setattr("steelyard.fleet.store.row_checks.voucher", lambda table: "other rules")
    assert not file.is_vouched
    assert file.suspected is not None
    assert read(store) == (EXPECTED, {})
