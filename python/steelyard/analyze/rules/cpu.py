"""Rules about who uses the CPUs and how.

Where a program was watched, its demand is what counts: CPU time that it had plus the time in which its
threads wanted a CPU. Demand does not shrink when neighbours take CPUs away, as use does.

Not here: a server under a load generator (``load``).
"""

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.foreign import Foreign
from steelyard.analyze.facts.power import Power
from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.pressure.threads import OWN_THREADS, TargetUse
from steelyard.analyze.rules.findings import (
    Evidence,
    Finding,
    at_most,
    percent,
    rule,
    threshold_rule,
)
from steelyard.records import Machine

CPU_BOUND_RATIO = 0.90
ONE_THREAD_RATIO = 0.90
ASLEEP_RATIO = 0.80
SHORT_LIVED_CPUS = 0.5
SMT_RANGE = (0.50, 0.95)
INTERRUPT_CPU_RATIO = 0.30
INTERRUPT_FACTOR = 4.0
IRQ_RATIO = 0.10
LOW_CLOCK_RATIO = 0.80
UNEVEN_RATIOS = (0.90, 0.30)
LOCKED_RATIO = 0.10
"""Share of the threads' time asleep on locks from which more CPUs may gain nothing."""
WOKEN_PER_CPU_S = 1000.0
"""Wake-ups for locks a second of CPU time from which demand for CPUs is not taken for work."""


def _wakes_for_locks(target: TargetUse | None) -> bool:
    """Return whether the program's threads are woken for locks so often that their demand says little."""
    if target is None or target.threads < 2:
        return False
    if target.wait("lock") >= LOCKED_RATIO:
        return True
    woken = target.lock_switches_per_s.value or 0.0
    return woken * target.threads >= WOKEN_PER_CPU_S * max(1.0, target.cpus.value or 0.0)


@rule(
    "cpu-bound",
    "Do the CPUs limit the workload?",
    area="cpu",
    explains="time",
    cause="CPUs",
    threshold="convention: above 90 % almost no capacity is left",
)
def _cpu_bound(
    cpus: Cpus, has_load: bool, foreign: Foreign, target: TargetUse | None, usage: Usage
) -> Finding | None:
    use, count = cpus.all.use, len(cpus.all.cpus)
    if has_load or use is None or not count:
        return None
    demand, own = usage.demand, usage.own_cpus
    if demand is None and own is None and foreign.is_objected:
        # Others' work is in the figure too, and nobody counted the run's own.
        return None
    # What the hypervisor takes is no work of this machine, what neighbours do none of the program's.
    ratio = use.own_ratio if own is None else own / count
    ratio = ratio if demand is None else demand / count
    if ratio < CPU_BOUND_RATIO or use.busy_ratio < CPU_BOUND_RATIO:
        return None
    claim = f"The {count} CPUs are busy {percent(use.busy_ratio)} of the time: they limit this machine."
    gain = "in proportion to instructions saved, to IPC gained, or to CPUs added (the iron law)"
    if demand is not None:
        claim = (
            f"The program's threads want {demand:.1f} CPUs at a time; there are {count}, busy"
            f" {percent(use.busy_ratio)} of the time."
        )
        if _wakes_for_locks(target):
            # Whoever is woken wants a CPU, and may then find the lock taken: demand is no work.
            claim += " Many of them wait for a lock in turn: more CPUs may gain nothing."
            gain = "not known: threads that wait for a lock want CPUs too, and cannot use them"
    advice = "Check the profile for hot functions, and counters for memory stalls."
    if demand is not None and own is not None and use.busy_ratio * count > 2 * own:
        claim += f" Most of that is other processes' work: the program got {own:.1f}."
        gain = "not known: what it would do alone was not measured"
        advice = "Run it alone, or on CPUs of its own (taskset, a cgroup), before looking for hot functions."
    return Finding(
        claim,
        (
            Evidence("CPU demand over CPUs", ratio, "ratio", CPU_BOUND_RATIO),
            Evidence("CPU busy", use.busy_ratio, "ratio", CPU_BOUND_RATIO),
        ),
        advice,
        0.9 * min(1.0, ratio),
        gain=gain,
        part="cpu",
    )


@rule(
    "one-thread",
    "Does a single thread limit the program?",
    area="cpu",
    explains="time",
    cause="CPUs",
    threshold="G. Amdahl, 1967: a thread that always runs is a serial part",
)
def _one_thread(cpus: Cpus, target: TargetUse, usage: Usage) -> Finding | None:
    count = len(cpus.all.cpus)
    demand = usage.demand
    if demand is None or count < 2 or demand >= CPU_BOUND_RATIO * count:
        return None
    busiest = target.busiest_wanted_ratio.value
    if busiest is None or busiest < ONE_THREAD_RATIO:
        return None
    if (ran := target.busiest_running_ratio) is not None and ran < busiest / 2:
        # It mostly waits for a CPU that others have: a faster one would not be its own either.
        return None
    whose = f" of {target.busiest_thread}" if target.busiest_thread else ""
    return Finding(
        f"One thread{whose} runs or waits for a CPU {percent(busiest)} of the time, and the program could use"
        f" {demand:.1f} of {count} CPUs: the speed of one CPU limits it.",
        (
            Evidence("busiest thread", busiest, "ratio", ONE_THREAD_RATIO),
            Evidence("CPU demand", demand, "1", CPU_BOUND_RATIO * count),
        ),
        "Look at that thread in the profile, and whether its work can run on several threads.",
        0.85 * busiest,
        gain=f"at most {count / max(demand, 1.0):.1f} x on this machine, if all its CPUs can share the work",
        part="cpu",
    )


@rule(
    "short-lived",
    "Do processes that live briefly use the CPU time?",
    area="cpu",
    explains="time",
    cause="CPUs",
    threshold="convention: half of the CPU time in processes that ended before a second look, and half a CPU",
)
def _short_lived(cpus: Cpus, target: TargetUse, usage: Usage) -> Finding | None:
    count = len(cpus.all.cpus)
    demand = usage.demand
    if demand is None or not count or demand >= CPU_BOUND_RATIO * count:
        return None
    used = target.cpus.value or 0.0
    if used < SHORT_LIVED_CPUS or not target.mostly_unseen:
        return None
    unseen = target.unseen_cpus / used
    return Finding(
        f"{percent(unseen)} of the program's CPU time is that of processes which ended before a second look:"
        f" on average {used:.2f} of {count} CPUs ran them.",
        (
            Evidence("CPU time of short-lived processes", unseen, "ratio", 0.5),
            Evidence("CPUs used", used, "1", SHORT_LIVED_CPUS),
        ),
        "See whether it starts them one after another and could start several at once (make -j, xargs -P),"
        " or do their work in one process; the profile names their functions.",
        0.85 * min(1.0, used) * unseen,
        gain=f"at most {count / max(used, 1.0):.1f} x on this machine, if they can run at once",
        part="cpu",
    )


@rule(
    "mostly-asleep",
    "Does the program mostly sleep?",
    area="cpu",
    explains="time",
    threshold="convention: four fifths of the time asleep for timers and events",
)
def _asleep(target: TargetUse) -> Finding | None:
    if target.mostly_unseen and (target.cpus.value or 0.0) > 1 - ASLEEP_RATIO:
        return None
    asleep = target.wait("timer", "events", "signal", "child", "pipe", "stopped", OWN_THREADS)
    active = (target.running_ratio or 0.0) + (target.waiting_ratio or 0.0)
    busiest = target.busiest_wanted_ratio.value
    if asleep < ASLEEP_RATIO or active > 1 - ASLEEP_RATIO or (busiest is not None and busiest > 0.5):
        return None
    kinds = ", ".join(f"{kind} {percent(share)}" for kind, share in target.waits.items() if share >= 0.05)
    return Finding(
        f"The program's threads sleep {percent(asleep)} of the time, waiting for timers, events or each other"
        f" ({kinds}):"
        " no resource of this machine is at its limit.",
        (Evidence("asleep for timers, events and each other", asleep, "ratio", ASLEEP_RATIO),),
        "Give it more work, or look at the program that it waits for.",
        0.6 * asleep,
        gain="none from more CPUs, memory or disks",
    )


@rule(
    "smt-capacity",
    "Is less capacity left than the utilisation suggests?",
    area="cpu",
    threshold="SPECjbb2005 on 64 logical CPUs: at 50 % utilisation 97 % of the throughput (Industry,"
    " table of SMT)",
)
def _smt(cpus: Cpus, machine: Machine) -> Finding | None:
    use = cpus.all.use
    if use is None or (machine.cpu.threads_per_core or 1) < 2:
        return None
    if not SMT_RANGE[0] <= use.busy_ratio < SMT_RANGE[1]:
        return None
    return Finding(
        f"CPUs are busy {percent(use.busy_ratio)} of the time, and {machine.cpu.threads_per_core} of"
        f" them share a core: less capacity is left than the utilisation suggests.",
        (Evidence("CPU busy", use.busy_ratio, "ratio", SMT_RANGE[0]),),
        "Measure throughput with one thread per core and with all: second threads often add only 20 %.",
        0.25,
        gain="none; it limits how far the results can be extrapolated",
    )


@rule(
    "interrupts-on-one-cpu",
    "Does one CPU handle most interrupts?",
    area="cpu",
    cause="interrupts",
    threshold="convention: one CPU spends 30 % in interrupts, four times the mean of the others",
)
def _interrupts(cpus: Cpus) -> Finding | None:
    shares = {
        cpu: use.modes.get("irq", 0.0) + use.modes.get("softirq", 0.0) for cpu, use in cpus.by_cpu.items()
    }
    if len(shares) < 2:
        return None
    cpu = max(shares, key=lambda candidate: shares[candidate])
    others = sum(share for other, share in shares.items() if other != cpu) / (len(shares) - 1)
    if shares[cpu] < INTERRUPT_CPU_RATIO or shares[cpu] < INTERRUPT_FACTOR * others:
        return None
    return Finding(
        f"CPU {cpu} spends {percent(shares[cpu])} of its time in interrupts, the others {percent(others)}:"
        " it limits the network or the disk.",
        (
            Evidence(f"interrupts on CPU {cpu}", shares[cpu], "ratio", INTERRUPT_CPU_RATIO),
            Evidence("on the others", others, "ratio"),
        ),
        "Look at /proc/interrupts and the card's queues (`ethtool -l`); spread the interrupts or use RPS.",
        0.7 * shares[cpu],
        gain=f"{at_most(shares[cpu])} for the work on that CPU",
    )


threshold_rule(
    "hard-interrupts",
    "Do hardware interrupts take much CPU time?",
    lambda cpus: cpus.all.use.modes.get("irq") if cpus.all.use else None,
    ("time in interrupts", "ratio", IRQ_RATIO),
    "{percent} of all CPU time is spent in hardware interrupts.",
    "Find the device in /proc/interrupts, and coalesce its interrupts (`ethtool -C`).",
    lambda share: 0.6 * share,
    gain="at most {without}",
    area="cpu",
    explains="time",
    cause="interrupts",
    threshold="convention: 10 % of all CPU time; a device that coalesces interrupts needs about 1 %",
)


@rule(
    "low-clock",
    "Do busy CPUs run below their highest frequency?",
    area="cpu",
    threshold="convention: 80 % of the highest frequency that the kernel reports",
)
def _low_clock(cpus: Cpus, power: Power, machine: Machine) -> Finding | None:
    use, now = cpus.all.use, power.frequency_hz.value
    if use is None or not machine.cpu.frequency_max_hz or now is None:
        return None
    ratio = now / machine.cpu.frequency_max_hz
    if use.busy_ratio < 0.5 or ratio >= LOW_CLOCK_RATIO:
        return None
    return Finding(
        f"The CPUs are busy {percent(use.busy_ratio)} of the time and run at {now / 1e9:.2f} GHz,"
        f" {percent(ratio)} of the highest frequency.",
        (Evidence("frequency over highest frequency", ratio, "ratio", LOW_CLOCK_RATIO),),
        "Check the governor, power and heat limits, and use of wide vector instructions (APERF, MPERF).",
        0.6 * (1 - ratio) + 0.2,
        gain=f"at most {1 / ratio:.2f} x for work that is not bound by memory",
    )


@rule(
    "uneven-cpus",
    "Is one CPU busy while another is idle?",
    area="cpu",
    cause="CPUs",
    threshold="convention: one above 90 %, one below 30 %",
)
def _uneven(cpus: Cpus, has_load: bool, target: TargetUse | None) -> Finding | None:
    if target is not None or has_load or len(cpus.by_cpu) < 2:
        return None
    busy = {cpu: use.busy_ratio for cpu, use in cpus.by_cpu.items()}
    most, least = max(busy, key=lambda cpu: busy[cpu]), min(busy, key=lambda cpu: busy[cpu])
    if busy[most] < UNEVEN_RATIOS[0] or busy[least] > UNEVEN_RATIOS[1]:
        return None
    return Finding(
        f"CPU {most} is busy {percent(busy[most])} of the time and CPU {least} {percent(busy[least])}:"
        " a single thread, a pinned thread or interrupts limit the work.",
        (
            Evidence(f"CPU {most} busy", busy[most], "ratio", UNEVEN_RATIOS[0]),
            Evidence(f"CPU {least} busy", busy[least], "ratio", UNEVEN_RATIOS[1]),
        ),
        "Characterize the busiest process (--pid), and look at its affinity (`taskset -p`).",
        0.5,
        gain=f"at most {busy[most] * len(busy) / max(sum(busy.values()), 0.01):.1f} x, if all CPUs can"
        f" share the work",
    )
