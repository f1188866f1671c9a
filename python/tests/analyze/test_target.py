"""A program's threads: their time adds up, sleeps go to what was seen, and odd input costs nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import RecordError
from steelyard.analyze.target import kind_of, observe_target, read_looks

SECOND = 10**9


def thread(
    tid: int,
    run_s: float,
    wait_s: float = 0.0,
    *,
    state: str = "S",
    where: str | None = None,
    slices: int = 0,
) -> list[Any]:
    return [1, tid, state, where, None, int(run_s * SECOND), int(wait_s * SECOND), slices]


def process(**changes: Any) -> list[Any]:
    row = {
        "pid": 1,
        "command": "program",
        "start": 7,
        "rss": 4096,
        "minor": 0,
        "major": 0,
        "user": 0,
        "system": 0,
        "read": 0,
        "written": 0,
    }
    return list((row | changes).values())


def looks(*rows: list[list[Any]], processes: list[list[Any]] | None = None) -> list[dict[str, Any]]:
    return [
        {
            "time_ns": index * SECOND,
            "threads": row,
            "processes": [processes[index] if processes else process()],
            "unread": 0,
        }
        for index, row in enumerate(rows)
    ]


def test_running_waiting_and_sleeping_add_up() -> None:
    seen = looks(
        [thread(1, 0.0, where="futex_do_wait"), thread(2, 0.0, state="R")],
        [thread(1, 0.1, 0.2, where="futex_do_wait", slices=10), thread(2, 1.0, state="R", slices=1)],
        [thread(1, 0.2, 0.4, where="io_schedule", state="D", slices=20), thread(2, 2.0, state="R", slices=2)],
    )
    found = observe_target(seen, 0, 2 * SECOND)
    assert found is not None
    assert found.cpus.value == pytest.approx(1.1)
    assert found.cpu_wait.value == pytest.approx(0.2)
    assert found.busiest_wanted_ratio.value == pytest.approx(1.0)
    assert found.switches_per_s.value == pytest.approx(11.0)
    assert found.running_ratio == pytest.approx(2.2 / 4)
    assert found.waiting_ratio == pytest.approx(0.4 / 4)
    # Thread 1 slept 1.4 s of its 2, and two of three looks found it in futex.
    assert found.wait("lock") == pytest.approx(1.4 * 2 / 3 / 4)
    assert found.wait("disk") == pytest.approx(1.4 / 3 / 4)
    whole = found.running_ratio + found.waiting_ratio + sum(found.waits.values())
    assert whole == pytest.approx(1.0)
    assert found.places["futex_do_wait"] == pytest.approx(2 / 3)


def test_a_thread_that_began_meanwhile_counts_whole_and_one_that_joined_does_not() -> None:
    begun = looks([thread(1, 0.0)], [thread(1, 0.0), thread(2, 0.8)], [thread(1, 0.0), thread(2, 1.8)])
    found = observe_target(begun, 0, 2 * SECOND)
    assert found is not None
    assert found.cpus.value == pytest.approx(0.9)
    joined = looks([thread(1, 0.0)], [thread(1, 0.0), thread(2, 500.0)], [thread(1, 0.0), thread(2, 500.5)])
    found = observe_target(joined, 0, 2 * SECOND)
    assert found is not None
    assert found.cpus.value == pytest.approx(0.25)


def test_an_id_that_is_used_again_is_another_thread() -> None:
    seen = looks([thread(1, 5.0)], [thread(1, 5.5)], [thread(1, 0.1)], [thread(1, 0.3)])
    found = observe_target(seen, 0, 3 * SECOND)
    assert found is not None
    assert found.cpus.value == pytest.approx((0.5 + 0.3) / 3)


def test_counters_of_processes_become_rates() -> None:
    rows = [process(rss=100 << 20), process(rss=160 << 20, minor=500, major=4, read=1 << 20, user=SECOND)]
    found = observe_target(looks([thread(1, 0.0)], [thread(1, 0.5)], processes=rows), 0, SECOND)
    assert found is not None
    assert found.rss_high_bytes.value == 160 << 20
    assert found.rss_gain_bytes_per_s.value == 60 << 20
    assert found.minor_faults_per_s.value == 500
    assert found.major_faults_per_s.value == 4
    assert found.read_bytes_per_s.value == 1 << 20
    assert found.kernel_ratio.value == 0.0


def test_what_may_not_be_read_is_missing_with_its_reason() -> None:
    rows = [process(read=None, written=None)] * 2
    blind = [1, 1, "S", None, None, None, None, None]
    found = observe_target(looks([blind], [blind], processes=rows), 0, SECOND)
    assert found is not None
    assert found.cpus.value is None
    assert found.cpus.missing
    assert found.read_bytes_per_s.value is None
    assert found.read_bytes_per_s.missing
    assert found.running_ratio is None
    assert found.kernel_ratio.value is None


def test_less_than_two_looks_say_nothing() -> None:
    assert observe_target([], 0, SECOND) is None
    assert observe_target(looks([thread(1, 0.0)]), 0, SECOND) is None
    assert observe_target(looks([thread(1, 0.0)], [thread(1, 1.0)]), 5 * SECOND, 6 * SECOND) is None


@pytest.mark.parametrize(
    ("where", "state", "kind"),
    [
        ("futex_do_wait", "S", "lock"),
        ("futex_wait_queue", "S", "lock"),
        ("rwsem_down_read_slowpath", "D", "kernel lock"),
        ("hrtimer_nanosleep", "S", "timer"),
        ("folio_wait_bit_common", "D", "disk"),
        ("__iomap_dio_rw", "D", "disk"),
        ("balance_dirty_pages", "D", "disk"),
        ("sk_stream_wait_memory", "S", "network"),
        ("wait_woken", "S", "network"),
        ("ep_poll", "S", "events"),
        ("anon_pipe_read", "S", "pipe"),
        ("do_wait", "S", "child"),
        ("something_new", "D", "disk"),
        ("something_new", "S", "other"),
        (None, "S", "unknown"),
        ("0", "D", "disk"),
        ("0", "t", "stopped"),
    ],
)
def test_kernel_functions_name_the_wait(where: str | None, state: str, kind: str) -> None:
    assert kind_of(where, state) == kind


def test_a_file_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "target.jsonl"
    lines = [{"kind": "target_looks", "schema_version": "1.0"}, *looks([thread(1, 0.0)], [thread(1, 1.0)])]
    text = "\n".join(json.dumps(line) for line in lines)
    path.write_text(text[:-20])
    assert len(read_looks(path)) == 1
    path.write_text('{"kind": "other"}\n')
    with pytest.raises(RecordError, match="not a file of looks"):
        read_looks(path)
    path.write_text('{"kind": "target_looks", "schema_version": "2.0"}\n')
    with pytest.raises(RecordError, match=r"2\.0"):
        read_looks(path)
    with pytest.raises(RecordError):
        read_looks(tmp_path / "none")


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(1, 4), st.integers(0, 10**10), st.integers(0, 10**10), st.sampled_from("RSD")
            ),
            max_size=4,
        ),
        min_size=2,
        max_size=6,
    )
)
def test_shares_stay_shares_whatever_was_seen(rows: list[list[tuple[int, int, int, str]]]) -> None:
    seen = looks(
        *([[1, tid, state, None, None, run, wait, 1] for tid, run, wait, state in row] for row in rows)
    )
    found = observe_target(seen, 0, len(rows) * SECOND)
    if found is None or found.running_ratio is None or found.waiting_ratio is None:
        return
    parts = [found.running_ratio, found.waiting_ratio, *found.waits.values()]
    assert all(-1e-9 <= part <= 1 + 1e-9 for part in parts)
    assert sum(parts) <= 1 + 1e-9
