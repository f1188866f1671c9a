"""Answers of the engine as numpy arrays, and what they do not load."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.telemetry.deferred import table
from steelyard.telemetry.engine import DuckDB, fetch, floats, integers, keep

GAPS = st.lists(st.none() | st.integers(-(2**53), 2**53), max_size=40)


@given(GAPS, GAPS, st.integers(0, 5))
def test_floats_are_what_arrow_says(first: list[int | None], second: list[int | None], skip: int) -> None:
    column = pa.chunked_array([first, second], pa.int64()).slice(skip)
    expected = [np.nan if value is None else float(value) for value in (first + second)[skip:]]
    np.testing.assert_array_equal(floats(column), np.array(expected, dtype=np.float64))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40), st.integers(0, 5))
def test_integers_are_exact(values: list[int], skip: int) -> None:
    column = pa.chunked_array([values[:7], values[7:]], pa.int64()).slice(skip)
    assert integers(column).tolist() == values[skip:]


def test_an_integer_cannot_be_missing() -> None:
    with pytest.raises(ValueError, match="missing"):
        integers(pa.chunked_array([[1, None]], pa.int64()))


def test_what_is_kept_is_computed_once() -> None:
    engine = DuckDB()
    readings = pa.table({"a": [1, 2, 3]})
    engine.connection.register("readings", readings)
    rows = table(engine, "readings", readings.schema)
    kept = keep(rows.mutate(b=rows.a * 2))
    engine.connection.unregister("readings")
    assert fetch(kept.order_by("a")).to_pydict() == {"a": [1, 2, 3], "b": [2, 4, 6]}


def test_numbers_come_without_pandas() -> None:
    script = (
        "import sys, duckdb\n"
        "from steelyard.telemetry.engine import floats, integers\n"
        "query = 'select range::ubigint a, nullif(range, 2)::double b from range(5)'\n"
        "rows = duckdb.sql(query).to_arrow_table()\n"
        "print(integers(rows['a']).sum(), floats(rows['b']))\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "10 [ 0.  1. nan  3.  4.]\n"


INTERRUPTED = """
import os, signal, sys, threading, time
from steelyard.telemetry.engine import duckdb

def end(number, frame):
    raise KeyboardInterrupt

def interrupt():
    while "duckdb" not in sys.modules:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, end)
threading.Thread(target=interrupt).start()
try:
    duckdb()
    time.sleep(10)
except KeyboardInterrupt:
    answer = sys.modules["duckdb"].connect().execute("SELECT 42").fetchone()
    print(answer, signal.getsignal(signal.SIGINT) is end)
"""


def test_an_interrupt_waits_until_duckdb_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("(42,) True\n", "")
