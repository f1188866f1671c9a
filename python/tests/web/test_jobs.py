"""Work that takes long is done once, waited for, cancelled, and forgotten."""

import threading
import time

import duckdb
import pytest

from steelyard.web.jobs import BusyError, CancelledError, Job, Jobs, NotYetError, Watch


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def endless(watch: Watch) -> int:
    """A query of hours."""
    connection = duckdb.connect()
    watch.stop = connection.interrupt
    watch.check()
    numbers = "range(1000000000)"
    rows = connection.sql(f"SELECT count(*) FROM {numbers} AS a, {numbers} AS b WHERE a.range = b.range + 1")
    return len(rows.fetchall())


def test_a_query_is_interrupted_where_it_is() -> None:
    jobs = Jobs()
    job = jobs.begin("key", "a query", "/fleet", endless)
    with pytest.raises(NotYetError):
        job.result(0.3)
    assert not job.is_done
    began_s = time.monotonic()
    jobs.cancel(job)
    with pytest.raises(CancelledError):
        job.result(10)
    assert time.monotonic() - began_s < 5
    again = jobs.begin("key", "a query", "/fleet", lambda watch: 7)
    assert again.id != job.id
    assert again.result(5) == 7
    jobs.close()


def test_the_same_question_is_asked_once() -> None:
    jobs, calls = Jobs(), list[int]()

    def work(watch: Watch) -> int:
        calls.append(1)
        return len(calls)

    first = jobs.begin("a", "", "/", work)
    assert first.result(5) == 1
    assert jobs.begin("a", "", "/", work) is first
    assert jobs.begin("b", "", "/", work).result(5) == 2
    assert jobs.find(first.id) is first
    assert jobs.find("nothing") is None
    jobs.close()


def test_an_error_is_not_kept_for_the_next() -> None:
    jobs = Jobs()

    def fail(watch: Watch) -> None:
        raise ValueError("once")

    job = jobs.begin("a", "", "/", fail)
    with pytest.raises(ValueError, match="once"):
        job.result(5)
    assert jobs.begin("a", "", "/", lambda watch: 1).result(5) == 1
    jobs.close()


def test_results_are_forgotten_after_a_while() -> None:
    clock = Clock()
    jobs = Jobs(clock)
    job = jobs.begin("a", "", "/", lambda watch: 1)
    job.result(5)
    clock.now = 59
    assert jobs.begin("a", "", "/", lambda watch: 2) is job
    clock.now = 121
    assert jobs.begin("a", "", "/", lambda watch: 2).result(5) == 2
    jobs.close()


def test_too_many_are_refused_and_stopped_ones_make_room() -> None:
    jobs, go = Jobs(), threading.Event()

    def wait(watch: Watch) -> None:
        go.wait(30)

    made: list[Job] = [jobs.begin(at, "", "/", wait) for at in range(16)]
    with pytest.raises(BusyError):
        jobs.begin("more", "", "/", wait)
    for job in made[8:]:
        jobs.cancel(job)
    assert jobs.begin("more", "", "/", wait)
    go.set()
    jobs.close()
