"""What a program's threads did: how many CPUs they used, how long they waited for one, what they slept on.

In: the recording that ``steelyard-probe watch`` made of it. Out: `TargetUse`.

A thread's time is split in three. Running and waiting for a CPU are counted by the kernel (schedstat) and
exact. The rest is sleep. Sleep in which a thread did not run between two looks was spent where the first
found it; the kinds of the other sleep are shared out by where looks found the thread, each standing for the
time since the look before: an estimate whose error is that of the number of looks. What a thread did after
the last look at it is not known.

Not here: looking (``steelyard-probe``), the queries (``thread_readings``), and what the figures amount to
(``rules``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.analyze.values import Quantity
from steelyard.records import Metric

if TYPE_CHECKING:
    from steelyard.analyze.pressure.thread_readings import Looks, ProcessLooks, ThreadLooks

LEAST_LEFT_RATIO = 0.05
"""Share of time without waiting for a CPU below which nothing is said about it."""
_CPU_NEEDED_NS = 200_000_000
"""CPU time below which its split is the rounding of clock ticks (10 ms each)."""
_LOCK_RATIO = 0.25
"""Share of its time asleep on locks from which a thread counts as one that waits for them."""
_PLACES_NAMED = 12
OWN_THREADS = "join or pool"
"""Kind of a futex wait for no lock: a join, or the idleness of a pool's member."""
CPU = "a CPU"
"""Kind of the wait of a thread that could run."""
_WORK = ("running", CPU, "disk")
"""What a thread does in time that other threads of the program cannot spare it."""
RUSAGE = "CPU time of all its processes (getrusage) over the time elapsed"

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
    ("signal", ("do_sigtimedwait", "sigsuspend", "pause")),
    ("child", ("do_wait", "kernel_wait", "kernel_clone")),
)
"""Kind of wait -> beginnings of the kernel functions that a thread sleeps in for it (Linux 4.14 to 6.18)."""


@dataclass(frozen=True)
class TargetUse:
    """The program over the looks. Shares are of its threads' time and sum to 1; ``waits`` are parts of it
    too.

    ``cpus`` is CPU time per time; ``cpu_wait`` the mean number of its threads that wanted a CPU and had none.
    ``busiest_wanted_ratio`` is the largest share of the span in which one thread ran or wanted to.
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
    """Kernel function -> its share of the threads' sleep, where the function is known."""
    lock_switches_per_s: Quantity = field(
        default_factory=lambda: Quantity(None, "1/s", "no thread waits for a lock")
    )
    lock_threads: int = 0
    """Threads that wait for locks: those that ``lock_switches_per_s`` is of."""
    rss_high_bytes: Quantity = field(default_factory=lambda: Quantity(None, "bytes", "not read"))
    rss_gain_bytes_per_s: Quantity = field(default_factory=lambda: Quantity(None, "bytes/s", "not read"))
    minor_faults_per_s: Quantity = field(default_factory=lambda: Quantity(None, "1/s", "not read"))
    major_faults_per_s: Quantity = field(default_factory=lambda: Quantity(None, "1/s", "not read"))
    read_bytes_per_s: Quantity = field(default_factory=lambda: Quantity(None, "bytes/s", "not read"))
    written_bytes_per_s: Quantity = field(default_factory=lambda: Quantity(None, "bytes/s", "not read"))
    kernel_ratio: Quantity = field(default_factory=lambda: Quantity(None, "ratio", "not read"))
    cpus_source: str = ""
    """Where ``cpus`` comes from, where that is not the looks (schedstat)."""
    is_counted: bool = False
    """Whether page faults, bytes and the kernel's share are those that the kernel had counted at its end."""
    unseen_cpus: float = 0.0
    """CPUs that processes used which no two looks found: shares of the threads' time do not hold them."""
    unread: bool = False
    """Whether it had more threads than were looked at."""
    busiest_thread: str | None = None
    """The thread of ``busiest_wanted_ratio``: its process's command and its id."""
    busiest_running_ratio: float | None = None
    """The share of the span in which that thread ran."""
    left: Mapping[str, float] = field(default_factory=dict)
    """Kind of wait (`CPU` for that for a CPU) -> least share of the elapsed time that is left without it."""

    def left_without(self, kind: str) -> float:
        """Return the share of the elapsed time that is left at least if no thread waits for ``kind``."""
        share = (self.waiting_ratio or 0.0) if kind == CPU else self.wait(kind)
        return max(0.01, self.left.get(kind, 1.0 - share))

    @property
    def mostly_unseen(self) -> bool:
        """Whether most of its CPU time is that of processes which ended before a second look."""
        return self.unseen_cpus > (self.cpus.value or 0.0) / 2

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


CALLS: Mapping[str, tuple[str, ...]] = {
    "lock": ("futex",),
    "timer": ("nanosleep", "clock_nanosleep"),
    "disk": ("fsync", "fdatasync", "sync", "syncfs", "io_getevents"),
    "network": ("accept", "accept4", "connect", "recvfrom", "recvmsg", "sendto", "sendmsg"),
    "events": (
        *("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"),
        "io_uring_enter",
    ),
    "signal": ("rt_sigtimedwait", "rt_sigsuspend", "pause"),
    "child": ("wait4", "waitid"),
}
"""Kind of wait -> system calls that identify it by themselves; a read may be of anything."""


@lru_cache(maxsize=4096)
def kind_of(where: str | None, state: str, call: str | None = None) -> str:
    """Return what a thread in ``state`` waits for that sleeps in the kernel function ``where``.

    Where the kernel does not report the function, the system call ``call`` may.

    >>> kind_of("futex_do_wait", "S"), kind_of("io_schedule", "D"), kind_of(None, "S")
    ('lock', 'disk', 'unknown')
    >>> kind_of(None, "S", "epoll_wait"), kind_of(None, "S", "read")
    ('events', 'unknown')
    """
    if not where or where == "0":
        cause = next((kind for kind, calls in CALLS.items() if call in calls), "unknown")
        return "disk" if state == "D" else "stopped" if state in ("T", "t") else cause
    for kind, beginnings in WAITS:
        if where.startswith(beginnings):
            return kind
    return "disk" if state == "D" else "other"


def with_exact_use(target: TargetUse | None, metrics: Mapping[str, Metric]) -> TargetUse | None:
    """Take what a command used from what the kernel counted of all its processes (getrusage).

    Looks miss what a process did before the first and after the last look at it, and processes that were not
    there at any look; with the command's own end, none is missed.
    """
    spent, elapsed = (metrics.get(name) for name in ("cpu_time_s", "elapsed_s"))
    if target is None or spent is None or elapsed is None or spent.value is None or not elapsed.value:
        return target
    cpus = spent.value / elapsed.value
    seen = (target.running_ratio or 0.0) * target.threads
    exact = replace(target, cpus=Quantity(cpus, "1"), cpus_source=RUSAGE, unseen_cpus=max(0.0, cpus - seen))
    if exact.mostly_unseen:
        missing = "most of its CPU time is that of processes which ended before a second look"
        exact = replace(exact, busiest_wanted_ratio=Quantity(None, "ratio", missing), busiest_thread=None)
    if "minor_faults" not in metrics:
        return exact
    counted: dict[str, Any] = {
        f"{name}_per_s": Quantity((metrics[name].value or 0.0) / elapsed.value, "1/s")
        for name in ("minor_faults", "major_faults")
    }
    if "times_on_cpu" in metrics and target.switches_per_s.value is not None:
        counted["switches_per_s"] = Quantity((metrics["times_on_cpu"].value or 0.0) / elapsed.value, "1/s")
    for name in ("read_bytes", "written_bytes"):
        # Without an account of its disk traffic the kernel counts 0; then the looks have no figure either.
        if name in metrics and getattr(target, f"{name}_per_s").value is not None:
            rate = (metrics[name].value or 0.0) / elapsed.value
            counted[f"{name}_per_s"] = Quantity(rate, "bytes/s")
    if (kernel := metrics.get("kernel_ratio")) is not None and kernel.value is not None:
        counted["kernel_ratio"] = Quantity(kernel.value, "ratio")
    return replace(exact, **counted, is_counted=True)


def observe_target(looks: "Looks | None") -> TargetUse | None:
    """Return what the program did; None without two looks at it."""
    if looks is None or len(looks.time_ns) < 2:
        return None
    span_ns = int(looks.time_ns[-1] - looks.time_ns[0])
    threads = looks.threads
    split = _split(threads)
    run, wait, slices = (_total(looks, part) for part in range(3))
    lock_switches, lock_threads = _lock_switches(threads)
    busiest, busiest_thread, busiest_ran = _busiest(looks, span_ns)
    return TargetUse(
        looks=len(looks.time_ns),
        span_ns=span_ns,
        commands=looks.commands,
        processes=looks.processes_mean,
        threads=looks.threads_mean,
        threads_high=looks.threads_high,
        cpus=_rate(run, span_ns, "1", 1e-9),
        cpu_wait=_rate(wait, span_ns, "1", 1e-9),
        busiest_wanted_ratio=busiest,
        busiest_thread=busiest_thread,
        busiest_running_ratio=busiest_ran,
        switches_per_s=_rate(slices, span_ns, "1/s"),
        running_ratio=split.pop("running", None),
        waiting_ratio=split.pop("waiting", None),
        waits=dict(sorted(split.items(), key=lambda item: -item[1])),
        places=_places(threads),
        lock_switches_per_s=lock_switches,
        lock_threads=lock_threads,
        rss_high_bytes=Quantity(looks.rss_high_bytes, "bytes"),
        rss_gain_bytes_per_s=Quantity(looks.rss_gain_bytes * 1e9 / span_ns, "bytes/s"),
        **_process_figures(looks.processes, span_ns),
        unread=looks.unread,
        left=_left(threads, span_ns),
    )


def _total(looks: "Looks", part: int) -> int | None:
    gains = []
    for thread in looks.threads:
        gain = _gain(thread, part)
        if gain is None or thread.last[part] is None:
            continue
        # One that ran no longer than since the look before it was found in began after that look, so that
        # all its counts are of the span; another is older and joined the program later.
        at = int(np.searchsorted(looks.time_ns, thread.first_ns, side="right")) - 1
        gap_ns = int(looks.time_ns[at] - looks.time_ns[at - 1]) if at > 0 else 0
        late_ns = thread.first_ns - int(looks.time_ns[max(at, 0)])
        born = at > 0 and (thread.first[0] or 0) <= gap_ns + max(0, late_ns)
        gains.append((thread.last[part] or 0) if born else gain)
    return sum(gains) if gains else None


def _gain(thread: "ThreadLooks", part: int) -> int | None:
    """Return what a thread gained while it was looked at."""
    first, last = thread.first[part], thread.last[part]
    return None if first is None or last is None else max(0, last - first)


def _rate(total: float | None, span_ns: int, unit: str, scale: float = 1.0) -> Quantity:
    if total is None:
        return Quantity(None, unit, "the kernel does not report it (schedstat)")
    return Quantity(total * scale * 1e9 / span_ns, unit)


def _split(threads: "Iterable[ThreadLooks]") -> dict[str, float]:
    """Return the shares of the threads' time: running, waiting for a CPU, and asleep by kind."""
    parts: dict[str, float] = {}
    whole = 0.0
    for thread in threads:
        spent = _spent(thread)
        if spent is None:
            continue
        run, wait, rest = spent
        whole += thread.last_ns - thread.first_ns
        parts["running"] = parts.get("running", 0.0) + run
        parts["waiting"] = parts.get("waiting", 0.0) + wait
        for kind, share in _sleep_kinds(thread).items():
            parts[kind] = parts.get(kind, 0.0) + rest * share
    return {kind: time / whole for kind, time in parts.items()} if whole else {}


def _left(threads: "Sequence[ThreadLooks]", span_ns: int) -> dict[str, float]:
    """Return for each kind of wait the share of ``span_ns`` that is left at least without it.

    Without the wait the time falls at most by all moments in which some thread waits so: no more than the
    threads' such waits together. And it does not fall below the work of a thread that was there for most of
    the time: what it ran, and what it waited for a CPU or a disk otherwise. Its other sleep may be for
    threads that would be done sooner. Of the threads with at least half of the busiest one's work the least
    counts: which of them holds up the others is not known.
    """
    waits: dict[str, float] = {}
    works = []
    for thread in threads:
        spent = _spent(thread)
        if spent is None:
            continue
        parts = {"running": spent[0], CPU: spent[1]}
        parts |= {kind: spent[2] * share for kind, share in _sleep_kinds(thread).items()}
        for kind, time in parts.items():
            waits[kind] = waits.get(kind, 0.0) + time / span_ns
        lasted = thread.last_ns - thread.first_ns
        if lasted > span_ns / 2:
            works.append({kind: parts.get(kind, 0.0) / span_ns for kind in _WORK})
    most = max((sum(work.values()) for work in works), default=0.0)
    busy = [work for work in works if sum(work.values()) >= most / 2]
    return {
        kind: max(
            1.0 - min(1.0, wait),
            min((sum(work.values()) - work.get(kind, 0.0) for work in busy), default=0.0),
        )
        for kind, wait in waits.items()
        if kind != "running"
    }


def _spent(thread: "ThreadLooks") -> tuple[float, float, float] | None:
    """Return the time in which a thread ran, waited for a CPU and slept, ns; None where that is not known."""
    run, wait = _gain(thread, 0), _gain(thread, 1)
    lasted = thread.last_ns - thread.first_ns
    if run is None or wait is None or lasted <= 0:
        return None
    # The two clocks are read apart: a busy thread may come out above its time by that little.
    busy = min(1.0, lasted / (run + wait)) if run + wait else 1.0
    return run * busy, wait * busy, lasted - (run + wait) * busy


def _sleep_kinds(thread: "ThreadLooks") -> dict[str, float]:
    """Return the shares of a thread's sleep by kind; they sum to 1."""
    exact: dict[str, float] = {}
    seen: dict[str, float] = {}
    for sleep in thread.sleeps:
        kind = kind_of(sleep.where, sleep.state, sleep.call)
        long = (sleep.long_ns, sleep.long_sampled_ns) if kind == "lock" else (0.0, 0.0)
        exact[kind] = exact.get(kind, 0.0) + sleep.exact_ns - long[0]
        seen[kind] = seen.get(kind, 0.0) + sleep.sampled_ns - long[1]
        if any(long):
            exact[OWN_THREADS] = exact.get(OWN_THREADS, 0.0) + long[0]
            seen[OWN_THREADS] = seen.get(OWN_THREADS, 0.0) + long[1]
    # Sleep between two looks neither of which found the thread asleep is as that around other looks.
    sampled = sum(seen.values())
    known = seen if sampled else exact
    share = thread.unseen_ns / sum(known.values()) if sum(known.values()) else 0.0
    weights = {kind: exact[kind] + seen[kind] + share * known[kind] for kind in exact}
    whole = sum(weights.values())
    # Never found asleep: its sleeps are shorter than the looks are apart.
    return {kind: weight / whole for kind, weight in weights.items()} if whole else {"unknown": 1.0}


def _places(threads: "Iterable[ThreadLooks]") -> dict[str, float]:
    """Return the kernel functions that the threads slept in longest, with their shares of that sleep."""
    times: dict[str, float] = {}
    for thread in threads:
        spent = _spent(thread)
        found = sum(sleep.exact_ns + sleep.sampled_ns for sleep in thread.sleeps)
        if spent is None or not found:
            continue
        # Looks find a part of the sleep; the rest is as what they found, as with the kinds.
        scale = spent[2] / found
        for sleep in thread.sleeps:
            if sleep.where:
                time_ns = (sleep.exact_ns + sleep.sampled_ns) * scale
                times[sleep.where] = times.get(sleep.where, 0.0) + time_ns
    whole = sum(times.values())
    ranked = sorted(times.items(), key=lambda item: -item[1])[:_PLACES_NAMED]
    return {name: time / whole for name, time in ranked} if whole else {}


def _busiest(looks: "Looks", span_ns: int) -> tuple[Quantity, str | None, float | None]:
    """Return the largest share of the span in which one thread ran or wanted to, its name, and for how long.

    A thread that was there for a part of the span limits the program in that part.
    """
    shares = []
    # It may have begun up to a look before its first one, and ended as long after its last one.
    unseen_ns = 2 * float(np.median(np.diff(looks.time_ns)))
    for thread in looks.threads:
        run, wait = _gain(thread, 0), _gain(thread, 1)
        lasted_ns = thread.last_ns - thread.first_ns
        if run is not None and wait is not None and lasted_ns > 0:
            there = min(1.0, (lasted_ns + (unseen_ns if lasted_ns > span_ns / 2 else 0.0)) / span_ns)
            wanted = there * min(1.0, (run + wait) / lasted_ns)
            shares.append((wanted, there * min(1.0, run / lasted_ns), thread.pid, thread.tid))
    if not shares:
        return Quantity(None, "ratio", "no thread was looked at twice"), None, None
    share, ran, pid, tid = max(shares)
    command = looks.command_of.get(pid)
    return Quantity(share, "ratio"), None if command is None else f"{command} (TID {tid})", ran


def _lock_switches(threads: "Iterable[ThreadLooks]") -> tuple[Quantity, int]:
    """Return how often a second each thread that sleeps on locks was put on a CPU, and how many do so."""
    switches, lasted_ns, count = 0, 0, 0
    for thread in threads:
        gain, lasted = _gain(thread, 2), thread.last_ns - thread.first_ns
        spent = _spent(thread)
        if gain is None or spent is None:
            continue
        _, wait, slept = spent
        # Looks between which it slept and ran again count with those that found it asleep, and as in
        # ``held_by`` the time in which it waits for a CPU counts on neither side.
        asleep = _sleep_kinds(thread).get("lock", 0.0) * slept
        if asleep > 0 and asleep >= _LOCK_RATIO * (lasted - wait):
            switches, lasted_ns, count = switches + gain, lasted_ns + lasted, count + 1
    if lasted_ns <= 0:
        return Quantity(None, "1/s", "no thread waits for a lock"), 0
    return Quantity(switches * 1e9 / lasted_ns, "1/s"), count


def _process_figures(processes: "Sequence[ProcessLooks]", span_ns: int) -> dict[str, Any]:
    def gain(column: str) -> float | None:
        pairs = [(process.first[column], process.last[column]) for process in processes]
        # What is deleted before it is stored is taken off what was written.
        known = [
            max(0, after - before) for before, after in pairs if before is not None and after is not None
        ]
        return float(sum(known)) if known else None

    def rate(column: str, unit: str) -> Quantity:
        total = gain(column)
        missing = None if total is not None else "this user may not read it (/proc/PID/io)"
        return Quantity.of(None if total is None else total * 1e9 / span_ns, unit, missing)

    user, system = gain("user_ns") or 0.0, gain("system_ns") or 0.0
    used_ns = user + system
    return {
        "minor_faults_per_s": rate("minor_faults", "1/s"),
        "major_faults_per_s": rate("major_faults", "1/s"),
        "read_bytes_per_s": rate("read_bytes", "bytes/s"),
        "written_bytes_per_s": rate("written_bytes", "bytes/s"),
        "kernel_ratio": Quantity(system / used_ns, "ratio")
        if used_ns >= _CPU_NEEDED_NS
        else Quantity(None, "ratio", "it used too little CPU time"),
    }
