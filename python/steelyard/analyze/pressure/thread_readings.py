"""The looks at a program as its recording holds them, summed up for each thread and process.

In: a recording with the tables ``target``, ``target_process`` and ``target_thread`` (``steelyard-probe
watch``) and a phase. Out: `Looks`.

Every query is an Ibis expression. A thread has a row where it had moved since its row before; ``unmoved_ns``
says until when it had not. Between two rows it ran and waited for a CPU as its counters say and slept for the
rest: until ``unmoved_ns`` where the earlier row found it (exact), afterwards where the later row found it, or
the earlier where it runs by then (sampled).

Not here: what a kernel function stands for (``threads``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, fetch_rows, floats, integers
from steelyard.telemetry.tables import within

if TYPE_CHECKING:
    from steelyard.telemetry import Recording

FOLDER = "target"
"""Folder of the recording in a run's directory."""
_SUPERVISOR = "steelyard-exec"
"""What a process of a run is called for a moment, before it becomes its command."""
_COUNTS = ("run_ns", "wait_ns", "timeslices")
_PROCESS = (*("user_ns", "system_ns", "minor_faults", "major_faults", "read_bytes", "written_bytes"),)
_THREAD_KEY = ("pid", "tid", "start_ticks")
_PROCESS_KEY = ("pid", "start_ticks")


LONG_NS = 250_000_000
"""Sleep in one piece from which a thread in futex waits for other threads' work, not for a lock (convention).

Whoever waits for a lock is woken when it is free. ``pthread_join`` and pools' idle members sleep in futex,
too, for as long as other threads work or have none for them.
"""


@dataclass(frozen=True, slots=True)
class Sleep:
    """A thread's sleep in one place."""

    state: str
    where: str | None
    call: str | None
    exact_ns: float
    sampled_ns: float
    long_ns: float = 0.0
    """Of ``exact_ns``, sleeps of `LONG_NS` and more, in one piece."""
    long_sampled_ns: float = 0.0
    """Of ``sampled_ns``, sleep between rows whose sleeps were so long on average, by how often it ran."""


@dataclass(slots=True)
class ThreadLooks:
    """One thread between its first row and its last: counts of `_COUNTS` at both, and its sleep."""

    pid: int
    tid: int
    first_ns: int
    last_ns: int
    first: tuple[int | None, ...]
    last: tuple[int | None, ...]
    sleeps: list[Sleep] = field(default_factory=list)
    unseen_ns: float = 0.0
    """Sleep between rows of which none found it asleep."""


@dataclass(frozen=True, slots=True)
class ProcessLooks:
    """Counters of one process at its first row and at its last."""

    first: Mapping[str, int | None]
    last: Mapping[str, int | None]


@dataclass(frozen=True)
class Looks:
    """All looks of a phase that found the program."""

    time_ns: NDArray[np.int64]
    processes_mean: float
    threads_mean: float
    threads_high: int
    unread: bool
    rss_high_bytes: float
    rss_gain_bytes: float
    """At the slowest rate of the whole time, its last half, quarter and eighth: what fills at the start does
    not grow."""
    commands: tuple[str, ...]
    """Of its processes, the one that was found most often first."""
    command_of: Mapping[int, str]
    """Process id -> command."""
    threads: Sequence[ThreadLooks]
    processes: Sequence[ProcessLooks]


def _lasting_gain(time_ns: NDArray[np.int64], rss: NDArray[np.float64]) -> float:
    """Return what memory gains over all looks at a rate that lasts until the end.

    >>> grows = np.arange(9.0)
    >>> _lasting_gain(np.arange(9), grows), _lasting_gain(np.arange(9), np.minimum(grows, 2))
    (8.0, 0.0)
    """
    span, gains = time_ns[-1] - time_ns[0], []
    for part in (1.0, 0.5, 0.25, 0.125):
        at = min(int(np.searchsorted(time_ns, time_ns[-1] - part * span)), len(rss) - 2)
        gains.append((rss[-1] - rss[at]) * float(span / (time_ns[-1] - time_ns[at])))
    return float(min(gains))


def read_looks(recording: "Recording", begin_ns: int, end_ns: int) -> Looks | None:
    """Return the looks between two times; None without two of them."""
    if any(recording.missing(name) for name in ("target", "target_process", "target_thread")):
        return None

    def inside(name: str) -> Any:
        return within(recording.table(name).rows, begin_ns, end_ns)

    looks = inside("target")
    looks = fetch(looks.filter(looks.threads > 0).order_by("time_ns"))
    if looks.num_rows < 2 or looks["time_ns"][0] == looks["time_ns"][-1]:
        return None
    threads, unread = integers(looks["threads"]), integers(looks["unread_threads"])
    rss = floats(looks["rss_bytes"])
    processes = inside("target_process")
    return Looks(
        time_ns=integers(looks["time_ns"]),
        processes_mean=float(floats(looks["processes"]).mean()),
        threads_mean=float(threads.mean()),
        threads_high=int((threads + unread).max()),
        unread=bool(unread.any()),
        rss_high_bytes=float(rss.max()),
        rss_gain_bytes=_lasting_gain(integers(looks["time_ns"]), rss),
        commands=_commands(processes),
        command_of=_command_of(processes),
        threads=_threads(inside("target_thread")),
        processes=_processes(processes),
    )


def _ends(rows: Any, key: Sequence[str], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each key the times of its first and last row, and ``columns`` at both."""
    figures = {"first_ns": rows.time_ns.min(), "last_ns": rows.time_ns.max()}
    for name in columns:
        figures[f"first_{name}"] = rows[name].argmin(rows.time_ns)
        figures[f"last_{name}"] = rows[name].argmax(rows.time_ns)
    return fetch_rows(rows.group_by(list(key)).aggregate(**figures))


def _commands(rows: Any) -> tuple[str, ...]:
    named = rows.filter(rows.command != _SUPERVISOR)
    counts = named.group_by("command").aggregate(count=named.count())
    ranked = fetch(counts.order_by(ibis.desc("count"), "command"))
    return tuple(ranked["command"].to_pylist())


def _command_of(rows: Any) -> dict[int, str]:
    """Return for each process what it was called when it was last looked at."""
    named = rows.filter(rows.command != _SUPERVISOR)
    last = fetch_rows(named.group_by("pid").aggregate(command=named.command.argmax(named.time_ns)))
    return {int(row["pid"]): str(row["command"]) for row in last}


def _processes(rows: Any) -> list[ProcessLooks]:
    return [
        ProcessLooks(
            {name: row[f"first_{name}"] for name in _PROCESS},
            {name: row[f"last_{name}"] for name in _PROCESS},
        )
        for row in _ends(rows, _PROCESS_KEY, _PROCESS)
    ]


def _threads(rows: Any) -> list[ThreadLooks]:
    threads = {
        tuple(row[name] for name in _THREAD_KEY): ThreadLooks(
            int(row["pid"]),
            int(row["tid"]),
            int(row["first_ns"]),
            int(row["last_ns"]),
            tuple(row[f"first_{name}"] for name in _COUNTS),
            tuple(row[f"last_{name}"] for name in _COUNTS),
        )
        for row in _ends(rows, _THREAD_KEY, _COUNTS)
    }
    for row in _sleeps(rows):
        thread = threads[tuple(row[name] for name in _THREAD_KEY)]
        exact_ns, sampled_ns = float(row["exact_ns"] or 0), float(row["sampled_ns"] or 0)
        long = float(row["long_ns"] or 0), float(row["long_sampled_ns"] or 0)
        if row["state"] is None:
            thread.unseen_ns += sampled_ns
        else:
            thread.sleeps.append(
                Sleep(row["state"], row["sleeps_in"], row["system_call"], exact_ns, sampled_ns, *long)
            )
    return list(threads.values())


_PLACE = ("state", "sleeps_in", "system_call")


def _is_same(pairs: Any, *names: str) -> Any:
    """Return whether the first of the columns that both rows of a pair have is the same."""
    same = (pairs[name] == pairs[f"before_{name}"] for name in names)
    return ibis.coalesce(*same, ibis.literal(value=False))


def _sleeps(rows: Any) -> list[dict[str, Any]]:
    """Return each thread's sleep by place; ``state`` is null where no row found it asleep."""
    each = ibis.window(group_by=list(_THREAD_KEY), order_by=rows.time_ns)
    names = ("time_ns", *_COUNTS, *_PLACE)
    pairs = rows.mutate(**{f"before_{name}": rows[name].lag().over(each) for name in names})
    pairs = pairs.filter(pairs.before_time_ns.notnull())

    def signed(name: str) -> Any:
        return pairs[name].cast("int64")

    zero = ibis.literal(0, "int64")
    lasted = signed("time_ns") - signed("before_time_ns")
    busy = [signed(name) - signed(f"before_{name}") for name in _COUNTS[:2]]
    rest = ibis.greatest(zero, lasted - ibis.coalesce(busy[0], zero) - ibis.coalesce(busy[1], zero))
    # Of the last row of a thread that had not run when it was visited last: until its program had ended.
    rested = signed("unmoved_ns").notnull() & (signed("timeslices") == signed("before_timeslices"))
    still = ibis.ifelse(rested, lasted, signed("unmoved_ns") - signed("before_time_ns"))
    still = ibis.coalesce(still, zero)
    slept_before, sleeps_now = pairs.before_state != "R", pairs.state != "R"
    exact = ibis.ifelse(slept_before, ibis.greatest(zero, ibis.least(still, rest)), zero)
    # It slept at most once more than it was put on a CPU in between.
    sleeps = signed("timeslices") - signed("before_timeslices") + 1
    stayed = slept_before & sleeps_now & _is_same(pairs, "sleeps_in", "system_call")
    is_long = ibis.coalesce(stayed & (rest >= sleeps * LONG_NS), ibis.literal(value=False))
    keys = {name: pairs[name] for name in _THREAD_KEY}
    unmoved = pairs.select(
        **keys,
        **{name: pairs[f"before_{name}"] for name in _PLACE},
        exact_ns=exact,
        sampled_ns=zero,
        is_long=is_long | (exact >= LONG_NS),
    )
    place = {
        name: ibis.cases(
            (sleeps_now, pairs[name]), (slept_before, pairs[f"before_{name}"]), else_=ibis.null("string")
        )
        for name in _PLACE
    }
    moved = pairs.select(**keys, **place, exact_ns=zero, sampled_ns=rest - exact, is_long=is_long)
    parts = ibis.union(unmoved.filter(unmoved.exact_ns > 0), moved.filter(moved.sampled_ns > 0))
    summed = parts.group_by([*_THREAD_KEY, *_PLACE]).aggregate(
        exact_ns=parts.exact_ns.sum(),
        sampled_ns=parts.sampled_ns.sum(),
        long_ns=ibis.ifelse(parts.is_long, parts.exact_ns, zero).sum(),
        long_sampled_ns=ibis.ifelse(parts.is_long, parts.sampled_ns, zero).sum(),
    )
    return fetch_rows(summed)
