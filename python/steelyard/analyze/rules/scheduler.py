"""Rules about threads that wait: for a CPU, for a lock, for each other.

Not here: waits for disk and network (``disk``, ``network``).
"""

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.foreign import Foreign
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.facts.scheduler import Scheduler
from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.pressure.disk_limits import LimitedDisk
from steelyard.analyze.pressure.kernel_activity import Activity
from steelyard.analyze.pressure.threads import CPU, TargetUse
from steelyard.analyze.rules.disk import limited_disk
from steelyard.analyze.rules.findings import (
    Evidence,
    Finding,
    at_most,
    held_up,
    percent,
    rule,
    wait_share,
    without,
    without_wait,
)

OVERSUBSCRIBED_FACTOR = 1.5
WAITING_PER_CPU = 0.75
TAKEN_RATIO = 0.15
LOCK_RATIO = 0.30
LOCK_SWITCHES_PER_S = 4.0
HOLDER_CPUS = 0.5
"""CPUs used or wanted from which somebody works who may hold a lock: where nobody works it is held asleep, or
the threads wait for work."""
KERNEL_LOCK_RATIO = 0.10
SWITCHES_PER_CPU_S = 50_000.0
SWITCH_COST_S = 2e-6
FORKS_PER_CPU_S = 200.0
THROTTLED_RATIO = 0.05
IDLE_DISK_RATIO = 0.30


@rule(
    "oversubscribed",
    "Are there more runnable threads than CPUs?",
    area="scheduler",
    threshold="convention: 1.5 runnable threads per CPU; below it, waits are mostly chance",
)
def _oversubscribed(
    cpus: Cpus,
    scheduler: Scheduler,
    pressure: dict[str, PressureUse],
    has_load: bool,
    target: TargetUse | None,
    usage: Usage,
) -> Finding | None:
    use, count = cpus.all.use, len(cpus.all.cpus)
    if use is None or not count or has_load or use.busy_ratio < 0.9:
        return None
    demand, waiting = usage.demand, scheduler.waiting_per_cpu.value
    if demand is not None:
        if demand < OVERSUBSCRIBED_FACTOR * count:
            return None
        claim = f"The program's threads want {demand:.1f} CPUs at a time, of {count}"
        evidence = Evidence("CPU demand over CPUs", demand / count, "1", OVERSUBSCRIBED_FACTOR)
        share = (target.cpu_wait.value or 0.0) / demand if target is not None else 1 - count / demand
    else:
        if waiting is None and scheduler.runnable.value is not None:
            # Without schedstat: tasks that run or want to, beyond one for each CPU. Readings are of moments.
            waiting = scheduler.runnable.value / count - 1
        if waiting is None or waiting < WAITING_PER_CPU:
            return None
        claim = f"{waiting:.1f} tasks wait for each CPU on average"
        evidence = Evidence("tasks waiting per CPU", waiting, "1", WAITING_PER_CPU)
        share = waiting / (1 + waiting)
    stalls = pressure.get("cpu")
    some = stalls.some_ratio.value if stalls else None
    return Finding(
        f"{claim}: they wait for a CPU {percent(share)} of the time in which they could run.",
        (evidence, *(() if some is None else (Evidence("CPU pressure (some)", some, "ratio"),))),
        "Run one thread per CPU, and compare throughput and latency.",
        min(0.95, 0.6 + 0.4 * share),
        gain="much in latency, since the waits disappear; little in throughput (fewer switches, warmer"
        " caches)",
        part="scheduler",
        explained_ratio=share,
    )


@rule(
    "cpus-taken",
    "Do other processes take the CPUs that the program needs?",
    area="scheduler",
    explains="time",
    threshold="convention: 15 % of the time in which the program could run",
)
def _taken(cpus: Cpus, target: TargetUse, usage: Usage) -> Finding | None:
    count = len(cpus.all.cpus)
    demand = usage.demand
    if not demand or not count or demand > count:
        return None
    lost = (target.cpu_wait.value or 0.0) / demand
    others = usage.blame.neighbours or 0.0
    if lost < TAKEN_RATIO or demand < 0.2 or others < 0.2:
        return None
    waiting = lost if target.waiting_ratio is None else target.waiting_ratio
    used = target.cpus.value or 0.0
    # More than all of its CPUs a program cannot use, and one thread's own CPU time stays.
    cost = min(wait_share(target, CPU, lost), 1.0 - used / count, 1.0 - (target.busiest_running_ratio or 0.0))
    return Finding(
        f"The program's threads could use {demand:.2f} CPUs and got {used:.2f}, though there are {count}:"
        f" other processes use {others:.1f} CPUs.",
        (
            Evidence("threads' time waiting for a CPU", waiting, "ratio"),
            Evidence("CPU wait over runnable time", lost, "ratio", TAKEN_RATIO),
            Evidence("CPUs used by others", others, "1"),
        ),
        "Look at the busiest processes in the report; give the program dedicated CPUs or a larger weight.",
        min(0.9, 0.3 + lost),
        gain=f"{at_most(cost)}, with dedicated CPUs",
        blame="neighbours",
        explained_ratio=cost,
    )


def _sleeps_in_futex(target: TargetUse) -> bool:
    """Return whether several threads sleep in futex for much of the time, and are often woken.

    One thread alone contends with nobody: it waits for work.
    """
    if target.threads_high < 2 or target.lock_threads < 2:
        return False
    switches = target.lock_switches_per_s.value
    often = switches is not None and switches >= LOCK_SWITCHES_PER_S
    return often and target.held_by("lock") >= LOCK_RATIO


def _futex_sleep(target: TargetUse) -> tuple[str, tuple[Evidence, ...]]:
    """Return who sleeps in futex and how often they run, in words and figures."""
    switches, cpus = target.lock_switches_per_s.value or 0.0, target.cpus.value or 0.0
    of_all = target.wait("lock")
    words = (
        f"{target.lock_threads} of {max(target.threads_high, target.lock_threads)} threads sleep in futex"
        " time and again,"
        f" {percent(of_all)} of the time of all threads, and are put on a CPU {switches:,.0f} times per"
        f" second each, while the program uses {cpus:.2g} CPUs"
    )
    return words, (
        Evidence("threads' time asleep in futex", of_all, "ratio"),
        Evidence(
            "the same of their time without waits for a CPU", target.held_by("lock"), "ratio", LOCK_RATIO
        ),
        Evidence("times on a CPU of each such thread", switches, "1/s", LOCK_SWITCHES_PER_S),
        Evidence("CPUs used", cpus, "1"),
    )


@rule(
    "lock-contention",
    "Do threads wait for locks?",
    area="scheduler",
    explains="time",
    cause="locks",
    threshold="convention: 30 % of the threads' time asleep in futex, two or more threads that are put on a"
    " CPU 4 or more times per second each, and half a CPU used or wanted by those who may hold the lock",
)
def _locks(cpus: Cpus, target: TargetUse, usage: Usage) -> Finding | None:
    if not _sleeps_in_futex(target) or (usage.demand or 0.0) < HOLDER_CPUS:
        return None
    words, evidence = _futex_sleep(target)
    used, of_all = target.cpus.value or 0.0, target.wait("lock")
    most = min(target.threads, len(cpus.all.cpus) or 1) / max(used, 0.1)
    bound = 1.0 / target.left_without("lock")
    return Finding(
        f"{words}: likely they wait for the same lock{held_up(target, 'lock', of_all)}.",
        evidence,
        "Find the lock from the stacks of sleeping threads (`perf trace -s -e futex`, or a wall-time"
        " profile).",
        min(0.93, 0.45 + 0.5 * target.held_by("lock")),
        gain=f"at most {max(1.0, min(most, bound)):.1f} x on this machine, without the waits",
        part="locks",
        sure=False,
        explained_ratio=wait_share(target, "lock", of_all),
    )


@rule(
    "idle-in-futex",
    "Do threads wait for work, or for a lock whose holder sleeps?",
    area="scheduler",
    threshold="as lock-contention, with less than half a CPU used or wanted: nobody works who may hold one",
)
def _idle_in_futex(target: TargetUse, usage: Usage) -> Finding | None:
    if not _sleeps_in_futex(target) or (usage.demand or 0.0) >= HOLDER_CPUS:
        return None
    words, evidence = _futex_sleep(target)
    return Finding(
        f"{words}: they wait for work (a queue, a pool), or for a lock whose holder sleeps.",
        evidence,
        "See which from the stacks of sleeping threads (`perf trace -s -e futex`, or a wall-time profile).",
        0.4 * target.held_by("lock"),
        gain="none if they wait for work; if for a lock, up to the time that it is held",
    )


@rule(
    "kernel-locks",
    "Do threads wait for locks in the kernel?",
    area="scheduler",
    explains="time",
    threshold="convention: 10 % of the threads' time asleep in a kernel mutex or semaphore",
)
def _kernel_locks(target: TargetUse) -> Finding | None:
    share = target.wait("kernel lock")
    if share < KERNEL_LOCK_RATIO:
        return None
    where = next(
        (name for name in target.places if name.startswith(("rwsem", "mutex", "__mutex", "down"))), None
    )
    inside = f" (in {where})" if where else ""
    return Finding(
        f"The threads wait {percent(share)} of their time for locks in the kernel{inside}"
        f"{held_up(target, 'kernel lock', share)}.",
        (Evidence("asleep in kernel locks", share, "ratio", KERNEL_LOCK_RATIO),),
        "Find the callers (`perf trace -s`, /proc/PID/stack). An rwsem is often mmap_lock: call mmap and"
        " munmap less often.",
        0.4 + 0.5 * share,
        gain=without_wait(target, "kernel lock", share),
        part="locks",
        explained_ratio=wait_share(target, "kernel lock", share),
    )


@rule(
    "switches",
    "Do context switches cost much CPU time?",
    area="scheduler",
    threshold="convention: 50,000 switches per CPU-second cost 10 % of it, at 2 µs each",
)
def _switches(cpus: Cpus, scheduler: Scheduler, target: TargetUse | None) -> Finding | None:
    if target is not None:
        per_s, busy = target.switches_per_s.value, target.cpus.value or 0.0
    else:
        per_s, busy = scheduler.context_switches_per_s.value, cpus.all.busy_cpus
    if per_s is None or busy < 0.2 or per_s / busy < SWITCHES_PER_CPU_S:
        return None
    cost = min(0.9, per_s * SWITCH_COST_S / busy)
    return Finding(
        f"CPUs switch between threads {per_s / busy:,.0f} times per busy CPU-second, which takes about"
        f" {percent(cost)} of their time.",
        (Evidence("switches per busy CPU-second", per_s / busy, "1/s", SWITCHES_PER_CPU_S),),
        "Find the switching threads (`pidstat -w 1`); use larger batches and fewer hand-offs.",
        0.3 + 0.5 * cost,
        gain=f"about {without(cost)}, at 2 µs per switch",
        sure=False,
    )


@rule(
    "forks",
    "Are many processes or threads started?",
    area="scheduler",
    threshold="convention: 200 starts per CPU-second; starting a program costs about 1 ms",
)
def _forks(cpus: Cpus, activity: Activity, foreign: Foreign, target: TargetUse | None) -> Finding | None:
    per_s, busy = activity.forks_per_s.value, cpus.all.busy_cpus
    if per_s is None or busy < 0.2 or per_s / busy < FORKS_PER_CPU_S:
        return None
    # The kernel counts them for the machine alone.
    is_whole = target is None and not foreign.is_objected
    whose = "" if is_whole else " on this machine, those of other programs among them"
    return Finding(
        f"{per_s:,.0f} processes or threads start per second{whose}.",
        (Evidence("starts per busy CPU-second", per_s / busy, "1/s", FORKS_PER_CPU_S),),
        "Find the parent (`perf trace -e clone,execve`); start a pool once instead.",
        0.45,
        gain="the CPU time of starting: about 1 ms for a program, 20 µs for a thread",
        blame="own" if is_whole else "unknown",
    )


@rule(
    "cpu-quota",
    "Does a CPU quota throttle a control group?",
    area="scheduler",
    explains="time",
    cause="quota",
    threshold="Linux, Documentation/scheduler/sched-bwc.rst; 5 % of the time is convention",
)
def _quota(activity: Activity) -> Finding | None:
    throttled = activity.throttled
    path = max(throttled, key=lambda each: throttled[each], default=None)
    if path is None or throttled[path] < THROTTLED_RATIO:
        return None
    return Finding(
        f"The CPU quota of control group {path} throttled it {percent(throttled[path])} of the time.",
        (Evidence("throttled time", throttled[path], "ratio", THROTTLED_RATIO),),
        "Raise the quota (cpu.max), or run fewer threads: all stop when the group's quota is used up.",
        0.5 + 0.4 * throttled[path],
        gain="tail latency falls by up to one period of the quota (100 ms)",
        part="cpu",
    )


@rule(
    "blocked-elsewhere",
    "Do tasks wait for storage that is not a local disk?",
    area="scheduler",
    threshold="convention: one task on average, with every local disk below 30 %",
)
def _blocked(scheduler: Scheduler, disks: list[DiskUse], limited_disks: list[LimitedDisk]) -> Finding | None:
    blocked = scheduler.blocked.value
    busiest = max((disk.busy_ratio.value or 0.0 for disk in disks), default=None)
    if blocked is None or blocked < 1 or busiest is None or busiest >= IDLE_DISK_RATIO:
        return None
    if limited_disk(limited_disks) is not None:
        # Operations that a limit holds back wait before they come to the disk.
        return None
    return Finding(
        f"{blocked:.1f} tasks are blocked on average while local disks are busy {percent(busiest)} at most.",
        (
            Evidence("blocked tasks", blocked, "1", 1.0),
            Evidence("busiest disk", busiest, "ratio", IDLE_DISK_RATIO),
        ),
        "Find what they wait for (`ps -eo state,wchan:30,comm | grep ^D`); the usual cause is a network"
        " file system.",
        0.5,
        gain="the work of the blocked tasks",
        sure=False,
    )


@rule(
    "queue-beside-idle",
    "Do tasks wait for one CPU while another is idle?",
    area="scheduler",
    threshold="convention: one waiting task on average while another CPU is half idle",
)
def _queue_beside_idle(cpus: Cpus, activity: Activity, has_load: bool) -> Finding | None:
    waits = activity.wait_by_cpu
    cpu = max(waits, key=lambda candidate: waits[candidate], default=None)
    idle = min((use.busy_ratio for use in cpus.by_cpu.values()), default=None)
    if cpu is None or waits[cpu] < 1 or idle is None or idle > 0.5 or has_load:
        return None
    return Finding(
        f"{waits[cpu]:.1f} tasks wait for CPU {cpu} while another CPU is busy {percent(idle)} of the time:"
        " they are probably pinned.",
        (
            Evidence(f"tasks waiting for CPU {cpu}", waits[cpu], "1", 1.0),
            Evidence("idlest CPU busy", idle, "ratio", 0.5),
        ),
        "Check the affinity (`taskset -p`) and cpuset of these tasks.",
        0.6,
        gain=f"at most {1 + waits[cpu]:.1f} x for the waiting tasks",
        part="scheduler",
        sure=False,
    )
