"""A program's threads: their time adds up, sleeps go to what was seen, and odd input costs nothing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard import telemetry
from steelyard.analyze.pressure.thread_readings import Sleep, ThreadLooks, read_looks
from steelyard.analyze.pressure.threads import CPU, TargetUse, _lock_switches, kind_of, observe_target
from tests.telemetry.recordings import SECOND, table_of, write_recording

Row = dict[str, Any]
Look = list[Row]


def thread(
    tid: int,
    run_s: float | None,
    wait_s: float = 0.0,
    *,
    state: str = "S",
    where: str | None = None,
    call: str | None = None,
    slices: int = 0,
    unmoved_s: float | None = None,
    start: int = 7,
) -> Row:
    known = run_s is not None
    return {
        "pid": 1,
        "tid": tid,
        "start_ticks": start,
        "unmoved_ns": None if unmoved_s is None else int(unmoved_s * SECOND),
        "state": state,
        "sleeps_in": where,
        "system_call": call,
        "run_ns": int((run_s or 0.0) * SECOND) if known else None,
        "wait_ns": int(wait_s * SECOND) if known else None,
        "timeslices": slices if known else None,
    }


def process(**changes: Any) -> Row:
    row = {"pid": 1, "start_ticks": 7, "command": "program", "rss_bytes": 4096, "threads": 1}
    counters = ("user_ns", "system_ns", "minor_faults", "major_faults", "read_bytes", "written_bytes")
    return row | dict.fromkeys(counters, 0) | changes


def recorded(folder: Path, looks: Sequence[Look], processes: Sequence[Row] | None = None) -> Path:
    """Write the recording of looks a second apart, each with the rows of the threads that moved."""

    def at(index: int, row: Row) -> Row:
        return {"time_ns": index * SECOND, **row}

    process_rows = processes or [process() for _ in looks]
    totals = [
        {"processes": 1, "threads": max(1, len(look)), "unread_threads": 0, "rss_bytes": row["rss_bytes"]}
        for look, row in zip(looks, process_rows, strict=True)
    ]
    tables = {
        "target": [at(index, row) for index, row in enumerate(totals)],
        "target_process": [at(index, row) for index, row in enumerate(process_rows)],
        "target_thread": [at(index, row) for index, look in enumerate(looks) for row in look],
    }
    return write_recording(folder, {name: table_of(name, rows) for name, rows in tables.items()})


def observed(
    folder: Path,
    looks: Sequence[Look],
    processes: Sequence[Row] | None = None,
    span: tuple[int, int] = (0, 10**18),
) -> TargetUse | None:
    with telemetry.open(recorded(folder, looks, processes)) as recording:
        return observe_target(read_looks(recording, *span))


def test_running_waiting_and_sleeping_add_up(tmp_path: Path) -> None:
    found = observed(
        tmp_path,
        [
            [thread(1, 0.0, where="futex_do_wait"), thread(2, 0.0, state="R")],
            [thread(1, 0.1, 0.2, where="futex_do_wait", slices=10), thread(2, 1.0, state="R", slices=1)],
            [
                thread(1, 0.2, 0.4, where="io_schedule", state="D", slices=20),
                thread(2, 2.0, state="R", slices=2),
            ],
        ],
    )
    assert found is not None
    assert found.cpus.value == pytest.approx(1.1)
    assert found.cpu_wait.value == pytest.approx(0.2)
    assert found.busiest_wanted_ratio.value == pytest.approx(1.0)
    assert found.busiest_thread == "program (TID 2)"
    assert found.switches_per_s.value == pytest.approx(11.0)
    assert found.running_ratio == pytest.approx(2.2 / 4)
    assert found.waiting_ratio == pytest.approx(0.4 / 4)
    # Thread 1 slept 0.7 s of each second: the look at its end says where.
    assert found.wait("lock") == pytest.approx(0.7 / 4)
    assert found.wait("disk") == pytest.approx(0.7 / 4)
    whole = found.running_ratio + found.waiting_ratio + sum(found.waits.values())
    assert whole == pytest.approx(1.0)
    assert found.places["futex_do_wait"] == pytest.approx(1 / 2)


def test_what_is_left_without_a_wait_is_the_work_of_the_busiest(tmp_path: Path) -> None:
    """Of a pipeline: two stages that wait for a CPU and for each other, and threads that only sleep."""
    looks = [
        [
            thread(1, 0.5 * at, 0.3 * at, where="pipe_read", slices=at),
            thread(2, 0.2 * at, 0.1 * at, where="pipe_write", slices=at),
            *(thread(tid, 0.0, where="futex_do_wait") for tid in range(3, 11) if at == 0),
        ]
        for at in range(4)
    ]
    found = observed(tmp_path, looks)
    assert found is not None
    assert found.waiting_ratio is not None
    assert found.waiting_ratio == pytest.approx(0.2)
    # Some thread waits in 40 % of the time at most, and the first one's work takes half.
    assert found.left_without(CPU) == pytest.approx(0.6)
    assert found.left_without("pipe") == pytest.approx(0.8)
    # A kind that no thread slept in leaves everything.
    assert found.left_without("disk") == 1.0


def test_a_thread_that_did_not_run_slept_where_it_slept(tmp_path: Path) -> None:
    first = thread(1, 1.0, where="ep_poll")
    found = observed(
        tmp_path,
        [
            [first],
            [],
            [],
            # It was found unmoved at 2 s, then ran for a moment and waits for a lock.
            [thread(1, 1.1, 0.1, where="futex_do_wait", unmoved_s=2.0, slices=1)],
        ],
    )
    assert found is not None
    assert found.wait("events") == pytest.approx(2.0 / 3)
    assert found.wait("lock") == pytest.approx(0.8 / 3)
    assert found.cpus.value == pytest.approx(0.1 / 3)


def test_waiting_for_its_own_threads_is_no_contention(tmp_path: Path) -> None:
    """The main thread joins two workers, of which one waits for a lock in short sleeps."""
    joining = thread(1, 0.1, where="futex_do_wait", slices=4)
    still = joining | {"unmoved_ns": 3 * SECOND}
    worker = [thread(2, step * 1.0, state="R", slices=step) for step in range(4)]
    locked = [thread(3, 0.5 * step, where="futex_do_wait", slices=400 * step) for step in range(4)]
    looks = [[joining, worker[0], locked[0]], *([worker[step], locked[step]] for step in range(1, 4))]
    looks[-1].append(still)
    found = observed(tmp_path, looks)
    assert found is not None
    assert found.wait("join or pool") == pytest.approx(1 / 3)
    assert found.wait("lock") == pytest.approx(0.5 / 3)
    assert found.lock_switches_per_s.value == pytest.approx(400)
    # Nobody waits for a lock where all sleep in a join or an idle pool.
    idle = [[joining, worker[0]], *([worker[step]] for step in range(1, 3)), [worker[3], still]]
    found = observed(tmp_path / "idle", idle)
    assert found is not None
    assert found.wait("lock") == 0
    # Until the program had ended, also after the last visit that found it asleep.
    visited = [*idle[:-1], [worker[3], joining | {"unmoved_ns": 2 * SECOND}]]
    found = observed(tmp_path / "visited", visited)
    assert found is not None
    assert found.wait("join or pool") == pytest.approx(1 / 2)
    assert found.wait("lock") == 0
    # Also where it was woken once between two rows, as by the first of several threads that end.
    woken = [*idle[:-1], [worker[3], joining | {"unmoved_ns": 2 * SECOND, "timeslices": 5}]]
    found = observed(tmp_path / "woken", woken)
    assert found is not None
    assert found.wait("join or pool") == pytest.approx(1 / 2)
    # However often it ran before.
    busy = thread(1, 0.1, where="futex_do_wait", slices=400)
    begun = [[thread(1, 0.0, state="R"), worker[0]], [busy, worker[1]]]
    later = observed(tmp_path / "busy", [*begun, [worker[2]], [worker[3], busy | {"unmoved_ns": 3 * SECOND}]])
    assert later is not None
    assert later.wait("join or pool") == pytest.approx(2 / 6)
    assert found.lock_switches_per_s.value is None


def test_long_waits_for_a_lock_are_waits_for_a_lock(tmp_path: Path) -> None:
    """A holder of 50 ms keeps three others asleep over several looks, and they are woken all the same."""
    looks = [
        [
            thread(
                1, step / 100, where="futex_do_wait", slices=6 * step, unmoved_s=step - 0.85 if step else None
            )
        ]
        for step in range(4)
    ]
    found = observed(tmp_path, looks)
    assert found is not None
    assert found.wait("join or pool") == 0
    assert found.wait("lock") == pytest.approx(0.99)


def test_sleep_that_no_look_saw_is_as_that_around_other_looks(tmp_path: Path) -> None:
    running = [thread(1, step / 2, state="R") for step in range(4)]
    found = observed(tmp_path, [*([row] for row in running), [thread(1, 2.0, where="futex_do_wait")]])
    assert found is not None
    assert found.wait("lock") == pytest.approx(0.5)
    # Its function weighs as its kind does, beside a thread whose sleep every look saw.
    still = thread(2, 0.0, where="ep_poll")
    looks = [[row, still] for row in (*running, thread(1, 2.0, where="futex_do_wait"))]
    beside = observed(tmp_path / "beside", looks)
    assert beside is not None
    assert beside.places["futex_do_wait"] == pytest.approx(beside.wait("lock") / sum(beside.waits.values()))
    assert beside.places["futex_do_wait"] == pytest.approx(1 / 3)
    blind = observed(tmp_path / "blind", [[row] for row in running])
    assert blind is not None
    assert blind.wait("unknown") == pytest.approx(0.5)


def test_a_thread_that_began_meanwhile_counts_whole_and_one_that_joined_does_not(tmp_path: Path) -> None:
    still = thread(1, 0.0)
    begun = [[still], [still, thread(2, 0.8)], [still, thread(2, 1.8)]]
    found = observed(tmp_path / "begun", begun)
    assert found is not None
    assert found.cpus.value == pytest.approx(0.9)
    joined = [[still], [still, thread(2, 500.0)], [still, thread(2, 500.5)]]
    found = observed(tmp_path / "joined", joined)
    assert found is not None
    assert found.cpus.value == pytest.approx(0.25)


def test_an_id_that_is_used_again_is_another_thread(tmp_path: Path) -> None:
    used = [[thread(1, 5.0)], [thread(1, 5.5)], [thread(1, 0.1, start=9)], [thread(1, 0.3, start=9)]]
    found = observed(tmp_path, used)
    assert found is not None
    assert found.cpus.value == pytest.approx((0.5 + 0.3) / 3)


def test_counters_of_processes_become_rates(tmp_path: Path) -> None:
    rows = [
        process(rss_bytes=100 << 20),
        process(rss_bytes=160 << 20, minor_faults=500, major_faults=4, read_bytes=1 << 20, user_ns=SECOND),
    ]
    found = observed(tmp_path, [[thread(1, 0.0)], [thread(1, 0.5)]], rows)
    assert found is not None
    assert found.commands == ("program",)
    assert found.rss_high_bytes.value == 160 << 20
    assert found.rss_gain_bytes_per_s.value == 60 << 20
    assert found.minor_faults_per_s.value == 500
    assert found.major_faults_per_s.value == 4
    assert found.read_bytes_per_s.value == 1 << 20
    assert found.kernel_ratio.value == 0.0


def test_what_may_not_be_read_is_missing_with_its_reason(tmp_path: Path) -> None:
    rows = [process(read_bytes=None, written_bytes=None)] * 2
    found = observed(tmp_path, [[thread(1, None)], [thread(1, None)]], rows)
    assert found is not None
    assert found.cpus.value is None
    assert found.cpus.missing
    assert found.read_bytes_per_s.value is None
    assert found.read_bytes_per_s.missing
    assert found.running_ratio is None
    assert found.kernel_ratio.value is None


def test_less_than_two_looks_say_nothing(tmp_path: Path) -> None:
    assert observe_target(None) is None
    assert observed(tmp_path / "one", [[thread(1, 0.0)]]) is None
    two = [[thread(1, 0.0)], [thread(1, 1.0)]]
    assert observed(tmp_path / "two", two, span=(5 * SECOND, 6 * SECOND)) is None


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
        ("kernel_clone", "D", "child"),
        ("something_new", "D", "disk"),
        ("something_new", "S", "other"),
        (None, "S", "unknown"),
        ("0", "D", "disk"),
        ("0", "t", "stopped"),
    ],
)
def test_kernel_functions_name_the_wait(where: str | None, state: str, kind: str) -> None:
    assert kind_of(where, state) == kind


def test_the_system_call_tells_what_the_kernel_function_does_not(tmp_path: Path) -> None:
    rows = [[thread(1, 0.0, call="futex")], [thread(1, 0.1, call="futex", slices=3)]]
    found = observed(tmp_path, rows)
    assert found is not None
    assert found.wait("lock") == pytest.approx(0.9)
    assert found.places == {}
    assert found.lock_switches_per_s.value == pytest.approx(3.0)


@settings(max_examples=25)
@given(
    st.lists(
        st.lists(
            st.tuples(
                st.integers(1, 4),
                st.integers(0, 10**10),
                st.integers(0, 10**10),
                st.sampled_from("RSD"),
                st.none() | st.integers(0, 10**10),
            ),
            max_size=4,
            unique_by=lambda row: row[0],
        ),
        min_size=2,
        max_size=6,
    )
)
def test_shares_stay_shares_whatever_was_seen(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[tuple[int, int, int, str, int | None]]],
) -> None:
    seen = [
        [
            thread(tid, run / SECOND, wait / SECOND, state=state, slices=1) | {"unmoved_ns": unmoved}
            for tid, run, wait, state, unmoved in row
        ]
        for row in rows
    ]
    found = observed(tmp_path_factory.mktemp("looks"), seen)
    if found is None or found.running_ratio is None or found.waiting_ratio is None:
        return
    parts = [found.running_ratio, found.waiting_ratio, *found.waits.values()]
    assert all(-1e-9 <= part <= 1 + 1e-9 for part in parts)
    assert sum(parts) <= 1 + 1e-9


def test_a_thread_that_was_there_for_a_part_of_the_time_is_as_busy_as_its_part(tmp_path: Path) -> None:
    """A script whose gzip ran for 6 of 10 seconds was limited by it "100 % of the time"."""
    looks: list[Look] = [
        [
            thread(1, 0.0, where="do_wait"),
            *([thread(2, float(at - 20), state="R", slices=at)] if 20 <= at < 80 else []),
        ]
        for at in range(100)
    ]
    found = observed(tmp_path, looks)
    assert found is not None
    assert found.busiest_wanted_ratio.value == pytest.approx(0.6, abs=0.03)


def test_a_thread_asleep_on_a_lock_between_looks_is_found_beside_waits_for_a_cpu() -> None:
    """The worker of a mutex on a busy machine: few looks find it asleep, and it waits for a CPU, too."""
    asleep = Sleep("S", "futex_do_wait", None, 0.0, 1.1e9)
    worker = ThreadLooks(
        1, 2, 0, 4_900_000_000, (0, 0, 0), (1_500_000_000, 1_800_000_000, 9_000), [asleep], 0.5e9
    )
    switches, count = _lock_switches([worker])
    assert (count, switches.value) == (1, pytest.approx(9_000 / 4.9))
    # A sixth of its time asleep on a lock, the rest at work, is no thread that waits for one.
    busy = replace(worker, last=(4_000_000_000, 0, 9_000))
    assert _lock_switches([busy])[1] == 0
