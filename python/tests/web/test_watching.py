"""Runs under way, looked at again and again: what is read, and what it costs their machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.records import Run
from steelyard.records.run import Process
from steelyard.web import watching
from steelyard.web.pages.live import so_far
from steelyard.web.watching import Watched, Watching
from tests.report.runs import load_result, run_record

LOG = "load.log"


def interval(at: int, **more: Any) -> dict[str, Any]:
    """Return a second of a load."""
    return {
        "event": "interval", "phase": "measure", "begin_ns": at * 10**9, "end_ns": (at + 1) * 10**9,
        "completed": 100 + at, "errors": at % 3, "response_p50_ns": 1000 + at, "response_p99_ns": 9000 - at,
        "lag_p99_ns": 50 * at, **more,
    }  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of one load, whose CPUs nobody recorded, that is looked at as often as one likes."""
    monkeypatch.setattr(watching, "_FRESH_S", 0.0)
    return loaded()


def loaded(logs: tuple[str, ...] = (LOG,)) -> Run:
    record = run_record(load_result(), Path("run-1"))
    load = next(process for process in record.processes if process.name == "load")
    named: list[Process] = [load.model_copy(update={"log": log}) for log in logs]
    return record.model_copy(update={"processes": named, "phases": []})


HOSTILE = (
    b"not json", b"{}", b'{"event": "interval"}', b"[" * 3000, b'{"event": "interval", "begin_ns": "x"}',
    b'{"event":"interval","begin_ns":1e999,"end_ns":1,"completed":1,"errors":0}', b"\xff\xfe",
)  # fmt: skip


@given(
    cuts=st.lists(st.integers(0, 4000), max_size=6), hostile=st.lists(st.sampled_from(HOSTILE), max_size=4)
)
def test_a_log_that_grows_by_any_pieces_says_the_same_as_a_whole_one(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], hostile: list[bytes]
) -> None:
    lines = [json.dumps(interval(at)).encode() for at in range(12)]
    text = b"\n".join([*hostile, *lines, b""])
    folder = tmp_path_factory.mktemp("log")
    record = loaded()
    whole, pieces = Watched(folder), Watched(folder)
    for end in [*sorted(min(cut, len(text)) for cut in cuts), len(text)]:
        (folder / LOG).write_bytes(text[:end])
        # Each look is one after a pause.
        pieces._looked_s = float("-inf")
        pieces.look(record)
    whole.look(record)
    assert pieces.seen == whole.seen
    assert len(whole.seen.seconds) == 12
    assert whole.seen.measured == sum(100 + at for at in range(12))
    assert whole.seen.measured_errors == 12
    assert whole.seen.seconds[5].p99_ns == 9000 - 4


def test_loads_are_added_up_and_the_worst_latency_counts(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.log").write_text(json.dumps(interval(3)) + "\n")
    (tmp_path / "b.log").write_text(json.dumps(interval(3, response_p50_ns=None, lag_p99_ns=7000)) + "\n")
    watched = Watched(tmp_path)
    watched.look(loaded(("a.log", "b.log", "../c.log", "absent.log")))
    second = watched.seen.seconds[4]
    assert second.completed_per_s == 206
    assert watched.seen.measured_per_s == {4: 206}
    assert (second.p50_ns, second.lag_p99_ns) == (1003, 7000)


def test_what_was_read_is_not_read_again(tmp_path: Path, run: Run) -> None:
    log = tmp_path / LOG
    log.write_text(json.dumps(interval(1)) + "\n")
    watched = Watched(tmp_path)
    watched.look(run)
    text = log.read_text()
    # As long as before: whoever reads it again finds another second.
    log.write_text(text.replace('"completed": 101', '"completed": 999') + json.dumps(interval(2)) + "\n")
    watched.look(run)
    assert watched.seen.measured == 101 + 102


def test_a_line_without_an_end_is_not_kept(tmp_path: Path, run: Run) -> None:
    log = tmp_path / LOG
    log.write_bytes(b"x" * (watching._LINE_BYTES + 10))
    watched = Watched(tmp_path)
    watched.look(run)
    with log.open("ab") as file:
        file.write(b"\n" + json.dumps(interval(1)).encode() + b"\n")
    watched.look(run)
    assert watched.seen.measured == 101


def test_several_who_watch_cost_no_more_than_one(tmp_path: Path) -> None:
    both = Watching()
    (tmp_path / LOG).write_text(json.dumps(interval(1)) + "\n")
    first = both.look(tmp_path, loaded())
    (tmp_path / LOG).unlink()
    assert both.look(tmp_path, loaded()) is first
    assert first.seen.measured == 101
    for at in range(watching._RUNS):
        both.look(tmp_path / str(at), loaded())
    assert both.look(tmp_path, loaded()) is not first


def test_the_verdict_so_far_is_that_of_the_checks(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_CPU_SHARE", float("inf"))
    log = tmp_path / LOG

    def said(completed: list[int]) -> list[tuple[str, str]]:
        log.write_text("".join(
            json.dumps(interval(at, completed=count, errors=0)) + "\n" for at, count in enumerate(completed)
        ))  # fmt: skip
        watched = Watched(tmp_path)
        watched.look(run)
        return [(one.level, one.text) for one in so_far(watched)]

    assert [level for level, _ in said([100, 101])] == ["valid", ""]
    levels = dict(said([1000 + at % 3 for at in range(30)]))
    assert "valid" in levels
    assert "no level shift" in levels["valid"] or "finished requests" in levels["valid"]
    dropped = said([1000 + at % 3 for at in range(20)] + [400 + at % 3 for at in range(20)])
    assert ("invalid" in [level for level, _ in dropped]) or ("suspect" in [level for level, _ in dropped])
    assert any("throughput over the measure phase" in text for _, text in dropped)
