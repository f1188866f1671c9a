"""What each process used: those that were there, and those that began in the span."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard.analyze.process_times import ProcessTime, process_times
from tests.telemetry.recordings import SECOND, table_of, write_recording

BEGIN = 1_000 * SECOND
TICKS_PER_S = 100


def row(at_s: float, pid: int, used_s: float, begun_s: float, command: str = "work") -> dict[str, object]:
    return {
        "time_ns": BEGIN + int(at_s * SECOND),
        "pid": pid,
        "start_ticks": int((1_000 + begun_s) * TICKS_PER_S),
        "command": command,
        "threads": 1,
        "user_ns": int(used_s * 0.75 * SECOND),
        "system_ns": int(used_s * 0.25 * SECOND),
        "rss_bytes": 4096,
        "minor_faults": 0,
        "major_faults": 0,
    }


def found(folder: Path, rows: list[dict[str, object]]) -> dict[int, ProcessTime]:
    write_recording(folder, {"process": table_of("process", rows)})
    with telemetry.open(folder) as recording:
        return {one.pid: one for one in process_times(recording, BEGIN, BEGIN + 10 * SECOND)}


def test_one_that_began_in_the_span_counts_from_its_begin(tmp_path: Path) -> None:
    rows = [row(0.9 + at, 7, 0.8 + at, 0.1) for at in range(5)]
    (one,) = found(tmp_path, rows).values()
    assert (one.user_ns, one.system_ns) == (pytest.approx(3.6e9), pytest.approx(1.2e9))


def test_one_that_was_there_counts_from_its_first_reading(tmp_path: Path) -> None:
    rows = [row(0.5 + at, 7, 100.0 + at, -500.0) for at in range(5)]
    # The clock of starts runs on while a machine sleeps: this one is an hour older than it seems.
    rows += [row(0.5 + at, 8, 100.0 + at, 0.2) for at in range(5)]
    times = found(tmp_path, rows)
    assert [times[pid].total_ns for pid in (7, 8)] == [pytest.approx(4e9), pytest.approx(4e9)]


def test_a_process_that_becomes_another_program_is_one(tmp_path: Path) -> None:
    rows = [
        row(0.5, 7, 0.1, 0.1, "steelyard-exec"),
        row(1.5, 7, 1.0, 0.1, "gzip"),
        row(2.5, 7, 2.0, 0.1, "gzip"),
    ]
    (one,) = found(tmp_path, rows).values()
    assert (one.command, one.total_ns) == ("gzip", pytest.approx(2e9))


def test_without_readings_there_is_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, [row(20.0, 7, 1.0, 0.1)]) == {}
    write_recording(tmp_path / "none", {})
    with telemetry.open(tmp_path / "none") as recording:
        assert process_times(recording, BEGIN, BEGIN + SECOND) == []
