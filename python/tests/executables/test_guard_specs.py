"""`steelyard-agent` reads specifications of CPI from files of every writer, and survives those of none."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import create_store, write_rows

from . import servers
from .test_hostile import tree

ROWS = 300
NOW = int(time.time())
TODAY = time.strftime("%Y-%m-%d", time.gmtime(NOW))


def specs(jobs: str, count: int = ROWS) -> pa.Table:
    """Return specifications of ``count`` jobs whose names begin with ``jobs``."""
    spec = {"platform": "p", "built_unix_s": NOW, "cpi_source": "cycles/instructions", "samples": 1000}
    spec |= {"tasks": 10, "cpu_usage_mean": 1.0, "cpi_mean": 1.5, "cpi_sd": 0.25}
    spec |= {"threshold_sigmas": 2.0, "threshold_cpi": 2.0}
    rows = [{**spec, "job": f"{jobs} {number}", "tasks": number} for number in range(count)]
    return pa.Table.from_pylist(rows, schema=TABLES["cpi_specs"].arrow)


def by_pyarrow(**options: object) -> Callable[[Path, pa.Table], None]:
    return lambda path, rows: pq.write_table(rows, path, **options)  # type: ignore[arg-type]


def by_duckdb(options: str) -> Callable[[Path, pa.Table], None]:
    def write(path: Path, rows: pa.Table) -> None:
        with duckdb.connect() as connection:
            connection.register("rows", rows)
            connection.sql(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet{options})")

    return write


def with_other_columns(path: Path, rows: pa.Table) -> None:
    """Write columns that the agent has no use for, nested ones among them."""
    count = len(rows)
    others = {
        "labels": pa.array([[("rack", "7")]] * count, pa.map_(pa.string(), pa.string())),
        "lists": pa.array([[{"deep": [1, None]}]] * count),
        "when": pa.array([NOW] * count, pa.timestamp("us", "UTC")),
        "time": pa.array([1] * count, pa.time64("ns")),
        "price": pa.array([None] * count, pa.decimal128(20, 3)),
        "half": pa.array([0.5] * count, pa.float16()),
        "nothing": pa.nulls(count),
        "job.name": pa.array(["x"] * count).dictionary_encode(),
    }
    for name, values in others.items():
        rows = rows.append_column(name, values)
    pq.write_table(rows, path)


TEXTS = ["job", "platform", "cpi_source"]
DELTAS = dict.fromkeys(TEXTS, "DELTA_LENGTH_BYTE_ARRAY") | {"tasks": "DELTA_BINARY_PACKED"}
WRITERS: dict[str, Callable[[Path, pa.Table], None]] = {
    "pyarrow": by_pyarrow(),
    "pyarrow-pages-1-none": by_pyarrow(compression="none", data_page_version="1.0"),
    "pyarrow-pages-2-zstd": by_pyarrow(compression="zstd", data_page_version="2.0"),
    "pyarrow-pages-2-snappy": by_pyarrow(compression="snappy", data_page_version="2.0", use_dictionary=False),
    "pyarrow-groups": by_pyarrow(row_group_size=70, data_page_size=100, write_page_checksum=True),
    "pyarrow-index": by_pyarrow(
        write_page_index=True, sorting_columns=[pq.SortingColumn(0), pq.SortingColumn(1)]
    ),
    "pyarrow-format-1": by_pyarrow(version="1.0", write_statistics=False, store_schema=False),
    "pyarrow-encodings": by_pyarrow(use_dictionary=False, column_encoding=DELTAS),
    "pyarrow-others": with_other_columns,
    "duckdb": by_duckdb(""),
    "duckdb-zstd": by_duckdb(", COMPRESSION zstd, ROW_GROUP_SIZE 2048"),
    "duckdb-none": by_duckdb(", COMPRESSION uncompressed"),
    "duckdb-pages-2": by_duckdb(", PARQUET_VERSION V2"),
}


@contextmanager
def guard(folder: Path, store: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """An agent; yields what waits for the state of its specifications after they were read."""
    config = folder / "agent.toml"
    config.write_text(
        'platform = "p"\nmetrics.listen = ""\nprofiles.minutes_ratio = 0\n'
        "sampling = { period_s = 1, window_s = 0.1 }\n"
    )
    places = ["--root", tree(folder), "--spool", folder / "spool", "--store", store, "--config", config]
    command = [servers.executable("steelyard-agent"), "run", *places]
    process = subprocess.Popen([*map(str, command)], stderr=subprocess.DEVNULL)

    def state() -> dict[str, str]:
        log = folder / "spool" / "guard" / "audit.jsonl"
        end = time.monotonic() + 60
        while time.monotonic() < end:
            assert process.poll() is None
            text = log.read_text() if log.exists() else ""
            for line in text.splitlines(keepends=True):
                said: dict[str, str] = json.loads(line) if line.endswith("\n") else {}
                if said.get("what") == "spec" and "not pulled yet" not in said["outcome"]:
                    return said
            time.sleep(0.02)
        raise AssertionError(f"no specifications were read: {text}")

    try:
        yield state
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / "store"
    create_store(str(place))
    return place


def day_of(store: Path) -> Path:
    folder = store / "cpi_specs" / "schema=1" / f"date={TODAY}" / "cluster=all"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_files_of_every_writer_are_read(tmp_path: Path, store: Path) -> None:
    for name, write in WRITERS.items():
        write(day_of(store) / f"{name}.parquet", specs(name))
    pq.write_table(specs("none", 0), day_of(store) / "empty.parquet")
    write_rows(str(store), "cpi_specs", specs("ours"), cluster="all", date=TODAY, machine="m1")
    with guard(tmp_path, store) as state:
        said = state()
    assert said["why"] == ""
    assert said["outcome"].startswith(f"{(len(WRITERS) + 1) * ROWS} specifications, ")


# The version of the format, and field 20, which no reader knows: a list of 2^31 - 1 booleans without any.
ENDLESS = bytes([0x15, 4, 0x09, 2 * 20, 0xF1, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0])


def test_a_file_that_announces_two_billion_booleans_keeps_nobody_waiting(tmp_path: Path, store: Path) -> None:
    pq.write_table(specs("good"), day_of(store) / "good.parquet")
    endless = b"PAR1" + ENDLESS + len(ENDLESS).to_bytes(4, "little") + b"PAR1"
    (day_of(store) / "endless.parquet").write_bytes(endless)
    with guard(tmp_path, store) as state:
        said = state()
    assert said["outcome"].startswith(f"{ROWS} specifications, ")
    assert "endless.parquet: malformed Parquet: FileMetaData: a collection of 2147483647" in said["why"]
