"""Readers of files: each reads what is valid, refuses what is no file, and what fuzzing found stays found."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard._base import SteelyardError
from tests.attack.readers import all_readers, workers
from tests.attack.readers.mutations import MUTATIONS
from tests.attack.readers.reader import Reader, holding
from tests.attack.readers.workers import HungError, fuzz_one, try_bounded

READERS = {reader.name: reader for reader in all_readers()}
LONG = "9" * 5000
DEEP = "a=" + "[" * 3000


@pytest.fixture(autouse=True)
def _raising(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_DEBUG", "1")


def test_no_two_readers_have_one_name() -> None:
    assert len(READERS) == len(all_readers())


@pytest.mark.parametrize("name", [name for name in READERS if not name.startswith("fleet ")])
def test_a_reader_reads_what_is_valid(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    READERS[name].make(folder)
    assert READERS[name].files(folder)
    READERS[name].read(folder)
    said = capsys.readouterr().err
    # An experiment that is complete is not resumed.
    assert "steelyard: " not in said or name == "experiment --resume"


FOUND = (
    ("experiment of factors", "x.toml", "blocks = 10", f"blocks = {LONG}"),
    ("experiment of factors", "x.toml", "benchmark", DEEP + "benchmark"),
    ("knobs", "x.toml", "minimum = 4", f"minimum = {LONG}"),
    ("knobs", "x.toml", "[[knob]]", DEEP),
    ("soft SKU", "x.toml", 'level = "performance"', f"level = {LONG}"),
    ("soft SKU", "x.toml", "[confirmed]", DEEP),
    ("tax rules", "x.toml", 'only = "leaf"', f"only = {LONG}"),
    ("mapping", "x.toml", "value = 60.0", f"value = {LONG}"),
    ("mapping", "x.toml", "[columns]", DEEP),
    ("mapping", "x.toml", "[labels]\n", "[[labels]]\n"),
    ("mapping of prometheus", "x.toml", "[queries]", DEEP),
    ("mapping of prometheus", "x.toml", "[queries]\n", "[[queries]]\n"),
    ("mapping", "x.toml", 'machine = "host"', 'machine = "host"\n' + "a." * 20_000 + "a = 1"),
    ("perf stat json", "x", '"interval" : 1.001', '"interval" : 1e308'),
    ("perf stat json", "x", '"cpu" : "0"', f'"cpu" : "{LONG}"'),
    ("perf stat json", "x", '"cpu" : "0"', '"cpu" : "²"'),
    ("perf stat text", "x", "0.052345678", LONG),
    ("curve of CPUs", "x", "1,100,1,1e9,2e9,10", "1,1e308,1,1e9,2e9,1e308"),
    ("figures of scenarios", "x", "\n1,", f"\n{'²' * 5},"),
    ("figures of scenarios", "x", "\n1,", f"\n{LONG},"),
    ("figures of scenarios", "x", "scenario,co_runner", "scenario,\rco_runner"),
    ("numa experiment --from", "x", "\n2,,1,99", "\n2,,1,5e-324"),
    ("log of db_bench", "x", "3200615 operations", f"{LONG} operations"),
    ("log of db_bench", "x", "P50: 5.31", "P50: 5.3.1"),
    ("log of pauses", "x", "[5000000ns]", f"[{LONG}ns]"),
    ("events of Spark", "x", '"Launch Time":1795314434000', '"Launch Time":Infinity'),
    ("events of Spark", "x", '{"Event":"SparkListenerLogStart"', '{"x":' + "[" * 100_000),
    ("events of Spark", "x", '[{"Name":"internal.metrics.input.bytesRead","Value":"1000"},', "[1.5,"),
    ("times of stacks", "x.times", "100000000 1\n", f"100000000 {2**63 - 1}\n"),
    ("times of stacks", "x.times", "100000000 1\n", "100000000 9000000000\n"),
    ("times of stacks", "x.times", "100000000 1\n", f"100000000 {2**70}\n"),
    ("times of children", "x.times", "CLOCK_MONOTONIC 1000000000000", f"CLOCK_MONOTONIC {LONG}"),
    ("times of children", "x.times", "100000000 1\n", f"100000000 {2**63 - 1}\n"),
    ("experiment --from", "x", "256,3,1042.0,", "256,3,1e308,"),
    ("experiment DIR", "experiment.json", '"arm": "', '"arm": "x'),
    ("scale --from", "x", "\n4,350,1,", "\n4,5e-324,1,"),
    ("scale DIR", "experiment.json", '"cpu_s": 0.05', '"cpu_s": 1e308, "x": 0.05'),
    ("scale DIR", "experiment.json", '"name": "1"', '"name": "#"'),
    ("record numa_score", "x.json", '"schema_version": "1.', f'"schema_version": "{LONG}.'),
    ("report of a co-location", "colocation.json", '"workload": 1', '"workload": 7'),
    ("report of a co-location", "colocation.json", '"workloads": [', '"workloads": [], "x": ['),
    ("files of operations", "operations/0.jsonl", '"counts": {"a": 10, "b": 96}', '"counts": 5'),
    ("files of operations", "operations/0.jsonl", '"counts": {"a": 10, "b": 96}', '"counts": {"a": {}}'),
    ("files of operations", "operations/0.jsonl", '"time_ns": 96000000000', f'"time_ns": {2**70}'),
    ("files of operations", "operations/1.jsonl", '"values": {"": 480.0, "x=\\"y\\"": 3}', '"values": "x"'),
    ("definitions of events", "mapfile.csv", "/SPR/events/spr.json", "/" + "a" * 5000),
    ("definitions of events", "mapfile.csv", "/SPR/events/spr.json", "/a\0b"),
    ("definitions of events", "mapfile.csv", ",core", ",co\rre"),
    ("undo journal", "steelyard/undo/x.json", '"steelyard.tune.changes"', '""'),
    ("undo journal", "steelyard/undo/x.json", '"steelyard.tune.changes"', '"../../x"'),
    ("undo journal", "steelyard/undo/x.json", '"steelyard.tune.changes"', f'"{"a." * 3000}"'),
    ("undo journal", "steelyard/undo/x.json", '"pid": 1', '"pid": 1e400'),
    ("fleet numa", "store/steelyard-store.json", "{", "[" * 200_000),
    ("import google-2019", "instance_usage-0.json", '"sample_rate"', '\n"sample_rate"'),
    ("import alibaba-2018", "machine_usage.csv", "m_2556,386650", "\udcff\udcfe,386650"),
    ("import csv", "table.csv", "1767268800500", "9" * 18),
    ("import prometheus", "answer.json", '"metric"', '"metrics"'),
    ("import prometheus", "answer.json", '"data"', '"date"'),
    ("import prometheus", "answer.json", '"result"', '"results"'),
    ("import prometheus", "answer.json", '"12.5"]', '"12.5", 1]'),
    ("import prometheus", "answer.json", '"12.5"', '"1e300"'),
    ("import prometheus", "answer.json", "1767229200", "1e17"),
)
"""Reader, file, and what stood where; each of these was an internal error, a hang, or broke memory."""


@pytest.mark.parametrize(("name", "file", "old", "new"), FOUND, ids=lambda value: str(value)[:30])
def test_what_fuzzing_found_is_read_or_refused(
    name: str, file: str, old: str, new: str, tmp_path: Path
) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    READERS[name].make(folder)
    content = (folder / file).read_bytes()
    before, after = old.encode(), new.encode("utf-8", "surrogateescape")
    assert before in content
    (folder / file).write_bytes(content.replace(before, after, 1))
    try_bounded(READERS[name], folder)


def fill(folder: Path, table: str, column: str, value: int) -> None:
    """Give every row of a table in a store the same value."""
    for path in (folder / "store" / table).rglob("*.parquet"):
        rows = pq.read_table(path, partitioning=None)
        place = rows.schema.get_field_index(column)
        values = pa.array([value] * len(rows), pa.int64())
        pq.write_table(rows.set_column(place, rows.schema.field(place), values), path)


def test_samples_beyond_64_bits_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    READERS["fleet top by category"].make(folder)
    fill(folder, "profiles", "samples", 2**63 - 1)
    try_bounded(READERS["fleet top by category"], folder)
    assert "add up to more than 64 bits hold" in capsys.readouterr().err


def test_a_cap_that_never_ends_is_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    READERS["fleet cpi incidents"].make(folder)
    fill(folder, "incidents", "cap_end_unix_s", 2**63 - 1)
    try_bounded(READERS["fleet cpi incidents"], folder)


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("instead", [fifo, endless, loop, Path.mkdir], ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    "name", ["mapping", "mapping of prometheus", "knobs", "soft SKU", "tax rules", "experiment of factors"]
)
def test_what_is_no_file_is_refused(name: str, instead: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    instead(folder / "x.toml")
    with pytest.raises(SteelyardError, match=r"x\.toml"):
        READERS[name].read(folder)
    try_bounded(READERS[name], folder)


@pytest.mark.parametrize("change", dict.fromkeys(MUTATIONS), ids=lambda change: change.__name__)
def test_each_change_changes(change: Callable[[bytes, random.Random], bytes]) -> None:
    text = b'{"kind": "run", "phases": [{"name": "measure", "begin_ns": 5}]}\nb,2\nc,3\n'
    assert any(change(text, random.Random(seed)) != text for seed in range(20))


def test_a_crash_and_a_hang_are_counted_once_with_their_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(folder: Path) -> None:
        raise (
            SteelyardError("as it should")
            if (folder / "x").stat().st_size % 2
            else KeyError("as it should not")
        )

    def hangs(folder: Path) -> None:
        while True:
            pass

    monkeypatch.setattr(workers, "ARTIFACTS", workers.ROOT / "fuzz" / "artifacts" / f"test-{os.getpid()}")
    try:
        for read, kind, answer_s in ((fails, "crashed", workers.ANSWER_S), (hangs, "hung", 0.05)):
            monkeypatch.setattr(workers, "ANSWER_S", answer_s)
            own = tmp_path / kind
            fuzz_one(Reader(kind, holding({"x": "one two 3"}), read), own, 0.3, 1)
            found = workers.read_figures(own)
            assert found.tried >= workers.FEWEST
            assert {name: count for name, count in found.counts().items() if count} == {
                "tried": found.tried,
                kind: 1,
            }
            (kept,) = (workers.ARTIFACTS / kind).iterdir()
            assert (kept / "x").exists()
    finally:
        shutil.rmtree(workers.ARTIFACTS, ignore_errors=True)
    with pytest.raises(HungError):
        try_bounded(Reader("hangs", holding({}), hangs), tmp_path)


def test_the_input_that_ended_its_process_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import os, pathlib, sys; case = pathlib.Path(sys.argv[1], 'all-wrong', 'case');"
        "case.mkdir(parents=True); (case / 'x').write_text('why'); os.kill(os.getpid(), 11)"
    )

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return popen([sys.executable, "-c", program, command[command.index("--fuzz") + 1]], **options)

    popen = subprocess.Popen
    monkeypatch.setattr(workers, "ARTIFACTS", workers.ROOT / "fuzz" / "artifacts" / f"test-{os.getpid()}")
    monkeypatch.setattr(workers.subprocess, "Popen", start)
    try:
        found = workers.fuzz_all(["all wrong"], tmp_path, 1.0, 1)
        assert found.crashed == 1
        assert "all wrong: its process ended with -11 (fuzz/artifacts/" in found.notes[0]
        (kept,) = (workers.ARTIFACTS / "all-wrong").iterdir()
        assert (kept / "x").read_text() == "why"
    finally:
        shutil.rmtree(workers.ARTIFACTS, ignore_errors=True)
