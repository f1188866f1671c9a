"""What cannot be read or cannot be true is put aside, and changes no result."""

import os
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard._base import RecordError
from steelyard.fleet.store.store import open_store, write_compacted
from steelyard.telemetry.engine import fetch_rows
from tests.fleet.fleet_rows import DAY, FOLDER, NOON, TRUE, read, rows, write


@pytest.fixture
def store(tmp_path):
    """A store with six true rows of the machine m1."""
    write(tmp_path, rows())
    return tmp_path


def rewritten(store, name, change=lambda table: table, metadata=lambda words: words):
    """Put the store's file, changed, beside it under the name ``name``."""
    path = next((store / FOLDER).iterdir())
    table = change(pq.read_table(path, partitioning=None))
    words = metadata(dict(pq.read_schema(path).metadata))
    pq.write_table(table.replace_schema_metadata(words), path.with_name(name))


@pytest.mark.parametrize(
    ("change", "metadata", "reason"),
    [
        (lambda t: t.drop_columns(["cpu_s"]), dict, "lacks the column cpu_s"),
        (
            lambda t: t.set_column(6, "window_s", pa.array(["60"] * 6)),
            dict,
            "the column window_s is string, not double",
        ),
        (
            lambda t: t,
            lambda words: words | {b"steelyard.schema_version": b"3.1"},
            "schema version 3.1 is of a later major version than 2",
        ),
        (lambda t: t, lambda words: words | {b"steelyard.table": b"profiles"}, "is of the table profiles"),
        (lambda t: t, lambda _: {}, "does not name its table"),
        (lambda t: t, lambda words: words | {b"steelyard.schema_version": b"x"}, "version 'x' is none"),
    ],
)
def test_a_file_of_another_shape_is_put_aside(store, change, metadata, reason):
    rewritten(store, "other.parquet", change, metadata)
    got, reasons = read(store)
    assert got == TRUE
    assert reason in reasons["other.parquet"]


def test_a_later_minor_version_is_read_without_what_it_adds(store):
    def added(table):
        only = table.drop_columns(["llc_misses", "cpi"]).slice(0, 2)
        only = only.set_column(3, "task", pa.array(["m2/0", "m2/1"]))
        return only.append_column("new_figure", pa.array([1, 2]))

    rewritten(store, "later.parquet", added, lambda words: words | {b"steelyard.schema_version": b"2.7"})
    got, reasons = read(store)
    assert len(got) == 8
    assert reasons == {}
    with open_store(str(store)) as opened:
        table = opened.table("task_samples")
        later = fetch_rows(table.filter(table.task == "m2/0"))
    assert later[0]["cpi"] is None
    assert "new_figure" not in later[0]


@pytest.mark.parametrize("kept", [0, 1, 4, 100, -9, -1])
def test_a_half_written_file_is_put_aside(store, kept):
    path = next((store / FOLDER).iterdir())
    (store / FOLDER / "half.parquet").write_bytes(path.read_bytes()[:kept])
    got, reasons = read(store)
    assert got == TRUE
    assert reasons["half.parquet"].startswith("unreadable: ")
    assert "\n" not in reasons["half.parquet"]


def test_strays_are_named_and_hidden_files_are_not(store):
    (store / "task_samples" / "notes.txt").write_text("x")
    (store / FOLDER / ".m9.1.parquet.123").write_text("half")
    other = store / "task_samples" / "schema=3" / f"date={DAY}" / "cluster=a"
    other.mkdir(parents=True)
    (other / "x.parquet").write_bytes(b"PAR1")
    for folder in ("date=2026-13-01", "date=yesterday"):
        place = store / "task_samples" / "schema=2" / folder / "cluster=a"
        place.mkdir(parents=True)
        (place / f"{folder}.parquet").write_bytes(b"PAR1")
    got, reasons = read(store)
    assert got == TRUE
    assert reasons == {
        "notes.txt": "no Parquet file by its name",
        "x.parquet": "schema 3 is of a later major version than 2",
        "date=2026-13-01.parquet": "date=2026-13-01 names no day",
        "date=yesterday.parquet": "date=yesterday names no day",
    }


LATE = time.time() + 7_200


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpu_s": -1.0},
        {"cpu_s": float("inf")},
        {"cpu_s": 1e9},
        {"window_s": 0.0},
        {"cpi": 0.0},
        {"cpi": 5_000.0, "cpu_s": 0.0001, "reference_cycles": 5_000, "instructions": 1},
        {"instructions": 0},
        {"instructions": -5},
        {"reference_cycles": 10**18},
        {"numa_score": 1.5},
        {"window_start_unix_s": NOON - 5 * 86_400},
        {"window_start_unix_s": int(LATE)},
        {"latency_mean_s": -0.1},
    ],
)
def test_rows_that_cannot_be_true_do_not_count(store, wrong):
    # Good rows of the same file stay.
    bad = pa.concat_tables(
        [rows("m2", windows=1, tasks=1), rows("m3", windows=1, tasks=1, **wrong)], promote_options="default"
    )
    write(store, bad, machine="m2")
    got, reasons = read(store)
    assert got == sorted([*TRUE, ("m2/0", NOON, 30.0)])
    assert reasons == {}


def test_a_stand_in_for_cpi_has_bounds_of_its_own(store):
    stand_in = rows(
        "m2", cpi=4_000.0, cpi_source="cpu time per operation", reference_cycles=None, instructions=None
    )
    write(store, stand_in, machine="m2")
    assert len(read(store)[0]) == 12


def test_a_window_that_came_twice_counts_once(store):
    # The agent was killed before it knew that the upload had worked, and sent an overlapping batch.
    write(store, rows(windows=5))
    got, _ = read(store)
    assert got == sorted((f"m1/{task}", NOON + 60 * window, 30.0) for window in range(5) for task in range(2))


def test_of_two_rows_with_one_key_the_one_with_more_to_say_counts(store):
    write(store, rows(windows=1, cpu_s=31.0))
    write(store, rows(windows=1, cpu_s=31.0, operations=5.0))
    with open_store(str(store)) as opened:
        table = opened.table("task_samples")
        got = fetch_rows(table.filter(table.window_start_unix_s == NOON).order_by("task"))
    assert [(row["task"], row["cpu_s"], row["operations"]) for row in got] == [
        ("m1/0", 31.0, 5.0),
        ("m1/1", 31.0, 5.0),
    ]


def test_a_late_upload_beside_a_compacted_file_counts_once(store):
    raw = next((store / FOLDER).iterdir())
    write_compacted(str(store), "task_samples", rows(), cluster="a", date=DAY, inputs=[raw.name])
    content = raw.read_bytes()
    raw.unlink()
    write(store, rows(windows=4))
    expected = sorted((f"m1/{task}", NOON + 60 * window, 30.0) for window in range(4) for task in range(2))
    assert read(store)[0] == expected
    # The same bytes once more, days later.
    raw.write_bytes(content)
    assert read(store)[0] == expected


def test_one_machine_that_floods_the_store_is_put_aside(store):
    for number in range(2, 8):
        write(store, rows(f"m{number}"), machine=f"m{number}")
    flood = write(store, rows("m9", windows=2, tasks=9_000), machine="m9")
    got, reasons = read(store)
    assert len(got) == 7 * 6
    assert reasons[flood.name].startswith("m9 floods the store: 9000 rows a minute, the median is 2")


def test_a_large_machine_is_no_flood(store):
    for number in range(2, 8):
        write(store, rows(f"m{number}"), machine=f"m{number}")
    write(store, rows("m9", windows=2, tasks=300), machine="m9")
    got, reasons = read(store)
    assert len(got) == 7 * 6 + 600
    assert reasons == {}


def test_what_may_not_be_read_is_named(store):
    if os.geteuid() != 0:
        pytest.skip("another user is needed, which only root can become")
    write(store, rows("m2"), machine="m2").chmod(0)
    locked = store / "task_samples" / "schema=2" / "date=2026-01-02"
    locked.mkdir()
    locked.chmod(0)
    for folder in [store, *store.parents]:
        if folder.stat().st_uid == 0 and len(folder.parts) > 2:
            folder.chmod(0o755)
    # What a query imports is imported before the user changes, who may not read this interpreter.
    script = (
        "import os, sys, webbrowser; import ibis, ibis.backends.duckdb;"
        "from steelyard.fleet.store.store import open_store;"
        "from steelyard.telemetry.engine import fetch_rows; store = open_store(sys.argv[1]);"
        "fetch_rows(store.table('machines')); os.setuid(65534); table = store.table('task_samples');"
        "print(len(fetch_rows(table)), sorted(problem.reason for problem in store.problems))"
    )
    # Without SQL from earlier runs, so that the first table loads all that the second needs.
    environment = os.environ | {"XDG_CACHE_HOME": str(store / "cache")}
    command = [sys.executable, "-c", script, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    denied = "unreadable: Permission denied"
    assert done.stdout == f"6 {[denied, denied]}\n", done.stderr


@pytest.mark.parametrize(
    ("breakage", "reason"),
    [
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    ],
    ids=["named pipe", "link to itself"],
)
def test_what_is_no_file_is_put_aside_and_not_waited_for(store, breakage, reason):
    breakage(store / FOLDER / "other.parquet")
    # In a process of its own, since no signal ends an opening that waits for a writer.
    script = (
        "import sys; from steelyard.fleet.store.store import open_store;"
        "from steelyard.telemetry.engine import fetch_rows; store = open_store(sys.argv[1]);"
        "print(len(fetch_rows(store.table('task_samples'))), *(found.reason for found in store.problems))"
    )
    command = [sys.executable, "-c", script, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"6 unreadable: {reason}\n", done.stderr


def test_a_marker_without_end_is_refused(store):
    os.truncate(store / "steelyard-store.json", 20 << 30)
    with pytest.raises(RecordError, match=r"steelyard-store\.json: larger than 268,435,456 bytes"):
        open_store(str(store))
