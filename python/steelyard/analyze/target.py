"""What a program's threads did: how many CPUs they used, how long they waited for one, what they slept on.

In: the raw looks of ``target.jsonl``. Out: `TargetUse`.

A thread's time is split in three. Running and waiting for a CPU are counted by the kernel (schedstat) and
exact. The rest is sleep, and its kinds are shared out by how often a look found the thread asleep on each:
an estimate whose error is that of its number of looks. What a thread did after the last look at it is not
known.

Not here: looking (``bench.watch``), and what the figures amount to (``rules_*``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard._base import RecordError
from steelyard.analyze.values import Quantity

_KIND = "target_looks"
_MAJOR = "1"
LEAST_LEFT_RATIO = 0.05
"""Share of time without waiting for a CPU below which nothing is said about it."""
_CPU_NEEDED_NS = 200_000_000
"""CPU time below which its split is the rounding of clock ticks (10 ms each)."""

WAITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lock", ("futex_", "do_futex")),
    ("kernel lock", ("rwsem_", "mutex_", "__mutex", "rt_mutex", "down_", "percpu_rwsem", "pipe_lock")),
    ("timer", ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep")),
    (
        "disk",
        (
            *(
                "io_schedule",
                "folio_",
                "wait_on_page",
                "__iomap",
                "iomap_",
                "blk",
                "__blk",
                "submit_bio",
                "dio_",
            ),
            *(
                "jbd2",
                "ext4",
                "xfs",
                "btrfs",
                "rq_qos",
                "wbt_",
                "balance_dirty",
                "do_get_request",
                "read_events",
            ),
            *("wait_for_completion_io", "__wait_on_buffer", "bit_wait_io", "fuse_", "nfs_", "rpc_wait"),
        ),
    ),
    ("network", ("sk_", "sock_", "inet_", "tcp_", "__skb_", "unix_stream", "unix_wait", "wait_woken")),
    ("events", ("ep_poll", "do_epoll", "do_poll", "do_sys_poll", "poll_", "do_select", "io_cqring")),
    ("pipe", ("pipe_", "anon_pipe")),
    ("child", ("do_wait", "kernel_wait", "do_sigtimedwait", "sigsuspend", "pause")),
)
"""Kind of wait -> beginnings of the kernel functions that a thread sleeps in for it (Linux 4.14 to 6.18)."""


@dataclass(frozen=True)
class TargetUse:
    """The program over the looks. Shares are of its threads' time and sum to 1; ``waits`` are parts of it
    too.

    ``cpus`` is CPU time per time; ``cpu_wait`` the mean number of its threads that wanted a CPU and had none.
    ``busiest_wanted_ratio`` is the largest share of its time in which one thread ran or wanted to.
    """

    looks: int
    span_ns: int
    commands: tuple[str, ...]
    processes: float
    threads: float
    threads_high: int
    cpus: Quantity
    cpu_wait: Quantity
    busiest_wanted_ratio: Quantity
    switches_per_s: Quantity
    running_ratio: float | None
    waiting_ratio: float | None
    waits: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, float] = field(default_factory=dict)
    """Kernel function -> share of the looks at sleeping threads that found it."""
    lock_switches_per_s: Quantity = field(
        default_factory=lambda: Quantity(None, "1/s", "no thread waits for a lock")
    )
    rss_high_bytes: Quantity = field(default_factory=lambda: Quantity(None, "bytes", "not read"))
    rss_gain_bytes_per_s: Quantity = field(default_factory=lambda: Quantity(None, "bytes/s", "not read"))
    minor_faults_per_s: Quantity = field(default_factory=lambda: Quantity(None, "1/s", "not read"))
    major_faults_per_s: Quantity = field(default_factory=lambda: Quantity(None, "1/s", "not read"))
    read_bytes_per_s: Quantity = field(default_factory=lambda: Quantity(None, "bytes/s", "not read"))
    written_bytes_per_s: Quantity = field(default_factory=lambda: Quantity(None, "bytes/s", "not read"))
    kernel_ratio: Quantity = field(default_factory=lambda: Quantity(None, "ratio", "not read"))
    unread: bool = False
    """Whether it had more threads than were looked at."""

    def wait(self, *kinds: str) -> float:
        """Return the share of the threads' time that is spent asleep on ``kinds``."""
        return sum(self.waits.get(kind, 0.0) for kind in kinds)

    def held_by(self, *kinds: str) -> float:
        """Return the same share of the time in which the threads did not wait for a CPU.

        On a busy machine every sleep ends in such a wait, which hides what the sleep was for. 0 where next to
        nothing is left.
        """
        left = 1.0 - (self.waiting_ratio or 0.0)
        return min(1.0, self.wait(*kinds) / left) if left >= LEAST_LEFT_RATIO else 0.0


@dataclass
class _Thread:
    first_ns: int
    last_ns: int
    first: tuple[int, int, int] | None
    last: tuple[int, int, int] | None
    looks: int = 0
    asleep: dict[str, int] = field(default_factory=dict)
    born: bool = False
    """Whether it began after the first look, so that all its counts are of the span."""

    def whole(self, part: int) -> int | None:
        """Return what it gained in the span, also before it was first seen where it began in the span."""
        return self.last[part] if self.born and self.last is not None else self.gain(part)

    def gain(self, part: int) -> int | None:
        """Return what it gained while it was looked at."""
        if self.first is None or self.last is None:
            return None
        return max(0, self.last[part] - self.first[part])


def kind_of(where: str | None, state: str, call: int | None = None) -> str:
    """Return what a thread in ``state`` waits for that sleeps in the kernel function ``where``.

    >>> kind_of("futex_do_wait", "S"), kind_of("io_schedule", "D"), kind_of("0", "S")
    ('lock', 'disk', 'unknown')
    """
    if not where or where == "0":
        return "disk" if state == "D" else "stopped" if state in ("T", "t") else "unknown"
    for kind, beginnings in WAITS:
        if where.startswith(beginnings):
            return kind
    return "disk" if state == "D" else "other"


def read_looks(path: Path) -> list[dict[str, Any]]:
    """Return the looks of a file; a last line that was cut off is left out.

    Raises RecordError when the file is absent or of another kind or version.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror}") from error
    looks: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if number == 0:
            if not isinstance(told, dict) or told.get("kind") != _KIND:
                raise RecordError(f"{path}: not a file of looks at a program")
            if str(told.get("schema_version", "")).partition(".")[0] != _MAJOR:
                raise RecordError(f"{path}: schema version {told.get('schema_version')} is not known")
        elif isinstance(told, dict) and {"time_ns", "threads", "processes"} <= set(told):
            looks.append(told)
    return looks


def observe_target(looks: Sequence[Mapping[str, Any]], begin_ns: int, end_ns: int) -> TargetUse | None:
    """Return what the program did between two times; None without two looks at it in that time."""
    inside = [look for look in looks if begin_ns <= look["time_ns"] <= end_ns and look["threads"]]
    if len(inside) < 2 or inside[-1]["time_ns"] <= inside[0]["time_ns"]:
        return None
    span_ns = inside[-1]["time_ns"] - inside[0]["time_ns"]
    threads = _threads(inside)
    places: dict[str, int] = {}
    for look in inside:
        for _, _, state, where, *_ in look["threads"]:
            if state != "R" and where and where != "0":
                places[where] = places.get(where, 0) + 1
    asleep = sum(places.values())
    run, wait, slices = (_total(threads, part) for part in range(3))
    split = _split(threads)
    return TargetUse(
        looks=len(inside),
        span_ns=span_ns,
        commands=_commands(inside),
        processes=sum(len(look["processes"]) for look in inside) / len(inside),
        threads=sum(len(look["threads"]) for look in inside) / len(inside),
        threads_high=max(len(look["threads"]) + look.get("unread", 0) for look in inside),
        cpus=_rate(run, span_ns, "1", 1e-9),
        cpu_wait=_rate(wait, span_ns, "1", 1e-9),
        busiest_wanted_ratio=_busiest(threads, span_ns),
        switches_per_s=_rate(slices, span_ns, "1/s"),
        running_ratio=split.pop("running", None),
        waiting_ratio=split.pop("waiting", None),
        waits=dict(sorted(split.items(), key=lambda item: -item[1])),
        places={
            name: count / asleep for name, count in sorted(places.items(), key=lambda item: -item[1])[:12]
        },
        lock_switches_per_s=_lock_switches(threads, span_ns),
        **_process_figures(inside, span_ns),
        unread=any(look.get("unread") for look in inside),
    )


def _threads(looks: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], _Thread]:
    found: dict[tuple[int, int], _Thread] = {}
    before_ns = None
    for look in looks:
        for pid, tid, state, where, call, run, wait, slices in look["threads"]:
            counts = None if run is None else (run, wait, slices)
            thread = found.get((pid, tid))
            if thread is not None and thread.last and counts and counts[0] < thread.last[0]:
                # The id was given to another thread: what is known of the first ends here.
                found[pid, -tid - len(found)] = thread
                thread = None
            if thread is None:
                thread = found[pid, tid] = _Thread(look["time_ns"], look["time_ns"], counts, counts)
                # One that ran longer than since the look before is older, and joined the group later.
                gap_ns = 0 if before_ns is None else look["time_ns"] - before_ns
                thread.born = run is not None and run <= gap_ns
            thread.last_ns, thread.last = look["time_ns"], counts
            thread.looks += 1
            if state != "R":
                kind = kind_of(where, state, call)
                thread.asleep[kind] = thread.asleep.get(kind, 0) + 1
        before_ns = look["time_ns"]
    return found


def _total(threads: Mapping[tuple[int, int], _Thread], part: int) -> int | None:
    gains = [gain for thread in threads.values() if (gain := thread.whole(part)) is not None]
    return sum(gains) if gains else None


def _rate(total: float | None, span_ns: int, unit: str, scale: float = 1.0) -> Quantity:
    if total is None:
        return Quantity(None, unit, "the kernel does not tell it (schedstat)")
    return Quantity(total * scale * 1e9 / span_ns, unit)


def _split(threads: Mapping[tuple[int, int], _Thread]) -> dict[str, float]:
    """Return the shares of the threads' time: running, waiting for a CPU, and asleep by kind."""
    parts: dict[str, float] = {}
    whole = 0.0
    for thread in threads.values():
        run, wait = thread.gain(0), thread.gain(1)
        lasted = thread.last_ns - thread.first_ns
        if run is None or wait is None or lasted <= 0:
            continue
        whole += lasted
        # The two clocks are read apart: a busy thread may come out above its time by that little.
        busy = min(1.0, lasted / (run + wait)) if run + wait else 1.0
        parts["running"] = parts.get("running", 0.0) + run * busy
        parts["waiting"] = parts.get("waiting", 0.0) + wait * busy
        rest = lasted - (run + wait) * busy
        seen = sum(thread.asleep.values())
        for kind, count in thread.asleep.items():
            parts[kind] = parts.get(kind, 0.0) + rest * count / seen
        if not seen and rest > 0:
            # Never found asleep: its sleeps are shorter than the looks are apart.
            parts["unknown"] = parts.get("unknown", 0.0) + rest
    return {kind: time / whole for kind, time in parts.items()} if whole else {}


def _busiest(threads: Mapping[tuple[int, int], _Thread], span_ns: int) -> Quantity:
    shares = []
    for thread in threads.values():
        run, wait = thread.gain(0), thread.gain(1)
        # A thread that lived for a moment says nothing about the span.
        if run is not None and wait is not None and thread.last_ns - thread.first_ns > span_ns / 2:
            shares.append(min(1.0, (run + wait) / (thread.last_ns - thread.first_ns)))
    return (
        Quantity(max(shares), "ratio") if shares else Quantity(None, "ratio", "no thread lived long enough")
    )


def _lock_switches(threads: Mapping[tuple[int, int], _Thread], span_ns: int) -> Quantity:
    """Return how often a second the threads that sleep on locks were put on a CPU, mean of one thread."""
    waiting = [
        thread
        for thread in threads.values()
        if thread.asleep.get("lock", 0) * 4 >= thread.looks and thread.gain(2) is not None
    ]
    lasted = sum(thread.last_ns - thread.first_ns for thread in waiting)
    if not waiting or lasted <= 0:
        return Quantity(None, "1/s", "no thread waits for a lock")
    return Quantity(sum(thread.gain(2) or 0 for thread in waiting) * 1e9 / lasted, "1/s")


def _commands(looks: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for look in looks:
        for process in look["processes"]:
            counts[process[1]] = counts.get(process[1], 0) + 1
    return tuple(sorted(counts, key=lambda name: (-counts[name], name)))


def _process_figures(looks: Sequence[Mapping[str, Any]], span_ns: int) -> dict[str, Quantity]:
    first: dict[tuple[int, int], list[Any]] = {}
    last: dict[tuple[int, int], list[Any]] = {}
    resident = []
    for look in looks:
        resident.append((look["time_ns"], sum(row[3] for row in look["processes"])))
        for row in look["processes"]:
            first.setdefault((row[0], row[2]), row)
            last[row[0], row[2]] = row

    def gain(place: int) -> float | None:
        pairs = [(first[key][place], last[key][place]) for key in first]
        known = [after - before for before, after in pairs if before is not None and after is not None]
        return float(sum(known)) if known else None

    def rate(place: int, unit: str) -> Quantity:
        total = gain(place)
        missing = None if total is not None else "this user may not read it (/proc/PID/io)"
        return Quantity.of(None if total is None else total * 1e9 / span_ns, unit, missing)

    user, system = gain(6) or 0.0, gain(7) or 0.0
    used_ns = user + system
    return {
        "rss_high_bytes": Quantity(float(max(size for _, size in resident)), "bytes"),
        "rss_gain_bytes_per_s": Quantity((resident[-1][1] - resident[0][1]) * 1e9 / span_ns, "bytes/s"),
        "minor_faults_per_s": rate(4, "1/s"),
        "major_faults_per_s": rate(5, "1/s"),
        "read_bytes_per_s": rate(8, "bytes/s"),
        "written_bytes_per_s": rate(9, "bytes/s"),
        "kernel_ratio": Quantity(system / used_ns, "ratio")
        if used_ns >= _CPU_NEEDED_NS
        else Quantity(None, "ratio", "it used too little CPU time to say"),
    }
