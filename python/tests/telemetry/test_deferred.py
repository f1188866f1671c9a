"""Expressions that are written down: compiled once, then answered without Ibis."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest

from steelyard.telemetry.deferred import ibis, memtable
from steelyard.telemetry.engine import fetch_rows

SCRIPT = """
import sys, pyarrow as pa
from steelyard.telemetry.deferred import ibis, memtable
from steelyard.telemetry.engine import fetch_rows
rows = memtable(pa.table({"job": ["a", "a", "b"], "n": [1, None, 5]}))
few = rows.group_by("job").agg(n=rows.n.sum(), known=rows.count(where=rows.n.notnull())).order_by("job")
print(fetch_rows(few.filter(few.n < float(sys.argv[1]))), "ibis" in sys.modules)
"""


def run(folder, bound: str) -> str:
    environment = os.environ | {"XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-c", SCRIPT, bound]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_the_second_time_ibis_is_not_needed_and_another_question_is_another(tmp_path) -> None:
    first = "[{'job': 'a', 'n': 1, 'known': 1}]"
    assert run(tmp_path, "3") == f"{first} True\n"
    assert run(tmp_path, "3") == f"{first} False\n"
    both = run(tmp_path, "9")
    assert both == "[{'job': 'a', 'n': 1, 'known': 1}, {'job': 'b', 'n': 5, 'known': 1}] True\n"
    kept = list((tmp_path / "steelyard" / "queries").glob("*.json"))
    assert len(kept) == 2
    # What was spoilt is compiled again.
    for path in kept:
        path.write_text(json.dumps({"sql": 5}))
    assert run(tmp_path, "3") == f"{first} True\n"


def test_an_expression_is_neither_true_nor_a_list() -> None:
    rows = memtable(pa.table({"n": [1]}))
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(rows.n > 0)
    with pytest.raises(TypeError, match="no elements"):
        list(rows)
    assert fetch_rows(rows.mutate(m=ibis.greatest(rows.n, 2) + 1)) == [{"n": 1, "m": 3}]
