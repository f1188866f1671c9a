"""DuckDB and Spark give the same rows, for tables and for every query."""

import math
import shutil
import socket
import subprocess
import sys
from decimal import Decimal

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.cli.fleet.registry import expressions
from steelyard.cli.main import invoke
from steelyard.fleet.platforms import inventory, work
from steelyard.fleet.store.schema import TABLES
from steelyard.fleet.store.store import open_store, write_rows
from steelyard.telemetry.engine import fetch, fetch_rows
from tests.fleet.fleet_rows import DAY, NOON, rows, write
from tests.fleet.simulated import simulated_store
from tests.fleet.store.spark_cluster import cluster

SPARK_SETTINGS = """
spark.sql.shuffle.partitions 4
spark.executor.memory 640m
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
"""For little data, over which compiling each query would take most of the time."""

OF_DECISIONS = {
    "platforms": lambda store: inventory(store.table("machines")),
    "platforms, work": lambda store: work(store.table("task_samples")),
}
"""Expressions that no fleet query has."""

FLEET = {"machines": 10, "jobs": 4, "days": 2, "platforms": 1, "tasks_per_machine": 3}
FLEET |= {"episodes_per_machine_day": 1.0}
"""A small fleet in which every query finds something: tasks enough for specs, and antagonists for all."""


def spoilt_store(store):
    """Write files that are read in every way that there is: clean, filtered, repeated, late, and short."""
    write(store, rows("m [1]*", pages_per_node=[3, None], labels=[("a", "1"), ("b", "é")]), machine="m [1]*")
    write(store, rows("m [1]*", windows=2, operations=7.0), machine="m [1]*")
    write(store, rows("m2", windows=1, cpi=None, cpu_s=1e9), machine="m2")
    write(store, rows("m3", llc_misses=2**60 + 1, cpu_s=1e2 / 3), machine="m3")
    assert invoke(["fleet", "compact", "--store", str(store), "--from", "2026-01-01"]) == 0
    write(store, rows("m3", windows=4), machine="m3")
    write(store, rows("m4", windows=1), machine="m4")
    machine = {"machine": "m3", "platform": "p", "seen_unix_s": NOON, "threads": 8, "labels": []}
    machine |= {"node_distances": [10.0, 20.0, 20.0, 10.0], "smt_on": True}
    fields = TABLES["machines"].arrow
    import pyarrow as pa

    table = pa.Table.from_pylist([machine], schema=pa.schema([fields.field(name) for name in machine]))
    write_rows(str(store), "machines", table, cluster="rack/1 é", date=DAY, machine="m3")


def plain(value):
    """Return ``value`` as both engines may give it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list | tuple):
        return tuple(plain(one) for one in value)
    if isinstance(value, dict):
        return tuple(sorted((key, plain(one)) for key, one in value.items()))
    return value


def sorted_rows(table):
    """Return the rows, each in the order of the columns, in an order that rounding does not change."""

    def rank(value):
        if isinstance(value, float):
            return (1, 0.0 if math.isnan(value) else float(f"{value:.6g}"), "")
        if isinstance(value, int | bool):
            return (1, float(f"{value:.6g}"), "")
        return (0, 0.0, "") if value is None else (2, 0.0, repr(value))

    names = sorted(table.column_names)
    got = [tuple(plain(row[name]) for name in names) for row in table.to_pylist()]
    return sorted(got, key=lambda row: tuple(rank(value) for value in row))


def same(one, other):
    """Return whether two values are the same, figures to 1e-9."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) or isinstance(other, float):
        if one is None or other is None:
            return one is other
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (one != one and other != other)
    return one == other


def differences(name, expected, got):
    """Say how the answers of two engines differ; nothing when they do not."""
    if sorted(expected.column_names) != sorted(got.column_names):
        return [f"{name}: columns {expected.column_names} and {got.column_names}"]
    ours, theirs = sorted_rows(expected), sorted_rows(got)
    if len(ours) != len(theirs):
        return [f"{name}: {len(ours)} and {len(theirs)} rows"]
    columns = sorted(expected.column_names)
    return [
        f"{name}.{column}: {a!r} and {b!r}"
        for one, other in zip(ours, theirs, strict=True)
        for column, a, b in zip(columns, one, other, strict=True)
        if not same(a, b)
    ][:3]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_spark_cluster_gives_the_rows_that_duckdb_gives(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(SPARK_SETTINGS)
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
    spoilt = folder / "it's [a] store"
    spoilt_store(spoilt)
    found = []
    with cluster(folder) as master, open_store(str(spoilt), master) as spark, open_store(str(spoilt)) as duck:
        for name in TABLES:
            expected, got = fetch(duck.table(name)), fetch(spark.table(name))
            found += differences(name, expected, got)
        assert fetch(spark.table("task_samples")).num_rows == 6 + 2 * 4 + 2
        # A second store beside the first: neither sees the other's tables.
        simulated = str(simulated_store(**FLEET))
        with open_store(simulated, master) as spark_too, open_store(simulated) as duck_too:
            for name, expression in (expressions() | OF_DECISIONS).items():
                try:
                    expected = fetch(expression(duck_too))
                    found += differences(name, expected, fetch(expression(spark_too)))
                    found += [] if len(expected) else [f"{name}: no rows, which shows nothing"]
                except Exception as error:
                    # One query that an engine refuses must not hide the others.
                    found.append(f"{name}: {' '.join(str(error).split())[:300]}")
    assert found == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_spark_in_this_process(tmp_path):
    write(tmp_path, rows())
    script = (
        "import sys; from steelyard.fleet.store.store import open_store;"
        "store = open_store(sys.argv[1], 'spark-local');"
        "from steelyard.telemetry.engine import fetch_rows; table = store.table('task_samples');"
        "print(fetch_rows(table.group_by('job').agg(cpu_s=table.cpu_s.sum()))); store.close()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == "[{'job': 'search', 'cpu_s': 180.0}]\n", done.stderr
    with open_store(str(tmp_path)) as duck:
        table = duck.table("task_samples")
        assert fetch_rows(table.agg(cpu_s=table.cpu_s.sum())) == [{"cpu_s": 180.0}]


def test_an_engine_that_is_not_there_is_reported_in_a_line(tmp_path, monkeypatch):
    write(tmp_path, rows())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        # A machine with neither Java nor Spark gets the message for Java.
        lacks = "no Spark master answers at" if shutil.which("java") else "Spark needs Java 17 or later"
        with pytest.raises(EnvironmentLacksError, match=lacks):
            open_store(str(tmp_path), f"spark://127.0.0.1:{port}")
    with pytest.raises(UsageError, match="no engine is called 'presto'"):
        open_store(str(tmp_path), "presto")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentLacksError, match="PySpark is not installed") as raised:
        open_store(str(tmp_path), "spark-local")
    assert raised.value.exit_code == 3
    assert "steelyard[spark]" in raised.value.hint
