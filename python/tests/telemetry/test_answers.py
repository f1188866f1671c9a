"""Answers kept beside a recording are those that its files give, and none where anything differs."""

import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard import telemetry
from steelyard.telemetry import answers
from steelyard.telemetry import recording as recordings
from steelyard.telemetry.engine import DuckDB
from tests.telemetry.recordings import SECOND, table_of, write_recording
from tests.telemetry.test_recording import ticks

BEGIN, END = 1000 * SECOND, 1100 * SECOND
MODES = ["user_ns", "idle_ns"]


@pytest.fixture(autouse=True)
def _save_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(answers, "_LEAST_BYTES", 0)
    forget()
    yield
    forget()


def forget() -> None:
    """Make this process one that asked nothing yet."""
    answers._OPEN.clear()
    recordings._ANSWERS.clear()


def record(folder: Path, steps: list[int] | None = None) -> Path:
    """Write a recording of two CPUs, whose counters rise by ``steps``, and of the scheduler."""
    rows, counter = [], 0
    for at, step in enumerate(steps or [7, 9, 11, 3]):
        counter = max(0, counter + step)
        for cpu in (0, 1):
            time_ns = BEGIN + at * SECOND + cpu
            rows.append({"time_ns": time_ns, "cpu": cpu, "user_ns": counter, "idle_ns": at * SECOND})
    tables = {"cpu": table_of("cpu", rows), "scheduler": table_of("scheduler", ticks(5))}
    return write_recording(folder, tables)


def ask(folder: Path) -> list[Any]:
    """Return what rates, series and a query over kept rows say."""
    with telemetry.open(folder) as recording:
        rates = [recording.rates(source, BEGIN, END) for source in ("cpu", "scheduler")]
        series = recording.series("cpu", BEGIN, END, MODES, points=3)
        again = recording.series("cpu", BEGIN, END, MODES, points=2)
    bands = [
        (entity.entity, entity.time_ns.tolist(), name, *(values.tolist() for values in band_of(entity, name)))
        for one in (series, again)
        for entity in one.entities
        for name in MODES
    ]
    return [*rates, bands]


def band_of(entity: Any, name: str) -> tuple[Any, ...]:
    band = entity.bands[name]
    return tuple(np.nan_to_num(values, nan=-1.0) for values in (band.mean, band.low, band.high))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the queries that DuckDB is asked from now on."""
    queries: list[str] = []
    run = DuckDB.run

    def noted(self: Any, query: Any) -> Any:
        queries.append(query.sql)
        return run(self, query)

    monkeypatch.setattr(DuckDB, "run", noted)
    return queries


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(-5, 2**40), min_size=1, max_size=8))
def test_saved_answers_are_those_of_the_files(tmp_path_factory: Any, steps: list[int]) -> None:
    forget()
    folder = record(tmp_path_factory.mktemp("one"), steps)
    first = ask(folder)
    answers.save(folder)
    assert (folder / answers.FILE).is_file()
    forget()
    assert ask(folder) == first


def test_what_was_saved_is_not_asked_again(tmp_path: Path, asked: list[str]) -> None:
    folder = record(tmp_path)
    ask(folder)
    assert asked
    answers.save(folder)
    forget()
    asked.clear()
    ask(folder)
    assert asked == []


def test_a_saved_run_is_read_without_the_engine(tmp_path: Path) -> None:
    folder = record(tmp_path / "telemetry").parent
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.telemetry import test_answers as own\n"
        "own.answers._LEAST_BYTES = 0\n"
        "folder = Path(sys.argv[1])\n"
        "own.ask(folder)\n"
        "print('duckdb' in sys.modules)\n"
        "own.answers.save(folder)\n"
    )
    package = Path(answers.__file__).parents[2]
    command = [sys.executable, "-c", code, str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    loaded = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert loaded == ["True\n", "False\n"]


def test_another_recording_has_none_of_the_answers(tmp_path: Path, asked: list[str]) -> None:
    folder, other = record(tmp_path / "one"), record(tmp_path / "other", [7, 9, 11, 4])
    ask(folder)
    answers.save(folder)
    truth = ask(other)
    forget()
    # Of the same size and time: only its bytes differ.
    kept = (folder / "cpu.parquet").stat()
    (folder / "cpu.parquet").write_bytes((other / "cpu.parquet").read_bytes())
    os.utime(folder / "cpu.parquet", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    asked.clear()
    assert ask(folder) == truth
    assert asked
    assert all("scheduler" not in query for query in asked)


def test_answers_go_with_a_recording_that_is_moved(tmp_path: Path, asked: list[str]) -> None:
    folder = record(tmp_path / "one")
    first = ask(folder)
    answers.save(folder)
    folder.rename(tmp_path / "moved")
    asked.clear()
    assert ask(tmp_path / "moved") == first
    assert asked == []


@pytest.mark.parametrize("kind", ["empty", "noise", "text", "folder", "pipe", "link", "large", "other arrow"])
def test_what_is_no_file_of_answers_is_left_alone(tmp_path: Path, kind: str) -> None:
    folder, file = record(tmp_path), tmp_path / answers.FILE
    first = ask(folder)
    forget()
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/dev/zero")
    elif kind == "large":
        with file.open("wb") as sparse:
            sparse.truncate(1 << 40)
    elif kind == "other arrow":
        file.write_bytes(answers._written(table_of("scheduler", ticks(2))))
    else:
        file.write_bytes({"empty": b"", "noise": os.urandom(5000), "text": b"ARROW1\0\0"}[kind])
    assert ask(folder) == first


PLACE = st.floats(0, 1, exclude_max=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> answers.Answers:
    """Return answers of which each is in the file."""
    whole = answers.Answers(record(tmp_path_factory.mktemp("saved")))
    for number in range(4):
        whole.put(bytes([number]) * 32, table_of("scheduler", ticks(5 + number)))
    whole.save()
    return whole


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(PLACE, st.integers(0, 255)), min_size=1, max_size=4), PLACE)
def test_damage_is_noticed(saved: answers.Answers, changes: list[tuple[float, int]], cut: float) -> None:
    file = saved.folder / answers.FILE
    whole = file.read_bytes()
    damaged = bytearray(whole)
    for place, byte in changes:
        damaged[int(place * len(damaged))] = byte
    file.write_bytes(damaged if cut < 0.5 else damaged[: int(cut * len(damaged))])
    try:
        again = answers.Answers(saved.folder)
        for key, rows in saved._new.items():
            assert again.get(key) in (None, rows)
    finally:
        file.write_bytes(whole)


def test_a_claim_to_be_larger_than_any_answer_is_not_believed() -> None:
    assert answers._Packed(0, 1 << 40, None).unpacked() is None
    packed = pa.compress(b"\0" * 100, codec="zstd", asbytes=True)
    data = pa.py_buffer(packed)
    assert answers._Packed(zlib.crc32(packed), 1 << 40, data).unpacked() is None
    # Shorter than it is, and no Arrow at all.
    assert answers._Packed(zlib.crc32(packed), 10, data).unpacked() is None
    assert answers._Packed(zlib.crc32(packed), 100, data).unpacked() is None


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    folder = record(tmp_path)
    first = ask(folder)
    (folder / answers.FILE).mkdir()
    answers.save(folder)
    assert ask(folder) == first


def test_small_runs_have_no_answers_beside_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    folder = record(tmp_path)
    ask(folder)
    answers.save(folder)
    assert not (folder / answers.FILE).exists()


def test_reading_writes_nothing(tmp_path: Path) -> None:
    folder = record(tmp_path)
    names = sorted(path.name for path in folder.iterdir())
    ask(folder)
    assert sorted(path.name for path in folder.iterdir()) == names


def test_a_killed_recording_is_asked_each_time(tmp_path: Path, asked: list[str]) -> None:
    write_recording(tmp_path, {"scheduler": table_of("scheduler", ticks(9))}, killed=True, splits=[3, 6])
    for _ in range(2):
        forget()
        asked.clear()
        with telemetry.open(tmp_path) as recording:
            assert recording.rates("scheduler", 0, 2**62).entities
        assert asked
        answers.save(tmp_path)


def test_threads_ask_at_once(tmp_path: Path) -> None:
    folder = record(tmp_path)
    first = ask(folder)
    forget()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: ask(folder), range(8)))
    assert found == [first] * 8


def test_only_so_much_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [record(tmp_path / str(number)) for number in range(answers._MOST_FOLDERS + 2)]
    for folder in folders:
        ask(folder)
    assert list(answers._OPEN) == [folder.absolute() for folder in folders[2:]]
    monkeypatch.setattr(answers, "_MOST_OF_FOLDER", 1)
    forget()
    ask(folders[0])
    assert answers.answers_of(folders[0])._new == {}
