"""Rules about how the machine is set, asked only where it was busy: a setting that nothing felt is no
finding.

Not here: checks of a machine as such (``steelyard machine check``).
"""

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.rules.cpu import busy_cpus, wanted_cpus
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rule
from steelyard.machine.processor import SLOW_GOVERNORS

BUSY_RATIO = 0.50
FAST_CLOCKS = frozenset(
    {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen", "timebase", "tod"}
)
QUOTA_RATIO = 0.90
PTI_KERNEL_RATIO = 0.30


def _busy_ratio(conditions: Conditions) -> float:
    use = conditions.all_cpus.use
    return 0.0 if use is None else use.busy_ratio


@rule(
    "saving-governor",
    "Does the frequency governor hold busy CPUs back?",
    area="machine",
    threshold="convention: the machine is half busy, and the governor is one that holds CPUs back or raises"
    " their frequency late (Linux, Documentation/admin-guide/pm/cpufreq.rst)",
)
def _governor(conditions: Conditions) -> Finding | None:
    machine, busy = conditions.machine, _busy_ratio(conditions)
    if machine is None or machine.cpu.governor not in SLOW_GOVERNORS or busy < BUSY_RATIO:
        return None
    now, high = conditions.frequency_hz.value, machine.cpu.frequency_max_hz
    if now is not None and high and now >= 0.95 * high:
        # It gave the highest clock all the same, as intel_pstate's powersave does under load.
        return None
    return Finding(
        f"CPUs are busy {percent(busy)} of the time under the governor {machine.cpu.governor}.",
        (Evidence("CPU busy", busy, "ratio", BUSY_RATIO),),
        "Compare with performance: `cpupower frequency-set -g performance`.",
        0.4,
        gain="up to the highest clock over the one it ran at; most for short bursts of work",
        sure=now is not None,
    )


@rule(
    "boost-off",
    "Is boost off on a busy machine?",
    area="machine",
    threshold="convention: half busy, and the kernel says that boost is off",
)
def _boost(conditions: Conditions) -> Finding | None:
    machine, busy = conditions.machine, _busy_ratio(conditions)
    if machine is None or machine.cpu.boost is not False or busy < BUSY_RATIO:
        return None
    return Finding(
        f"CPUs are busy {percent(busy)} of the time and boost is off.",
        (Evidence("CPU busy", busy, "ratio", BUSY_RATIO),),
        "Compare with boost on; leave it off where figures must repeat.",
        0.35,
        gain="10 to 30 % where few cores are busy, less where all are",
    )


@rule(
    "slow-clock-source",
    "Is reading the time a system call?",
    area="machine",
    threshold="Linux: only clock sources with a vDSO are read without the kernel",
)
def _clock(conditions: Conditions) -> Finding | None:
    machine, busy = conditions.machine, _busy_ratio(conditions)
    source = machine.kernel.clocksource if machine else None
    if source is None or source in FAST_CLOCKS or busy < 0.2:
        return None
    return Finding(
        f"The clock source is {source}: every reading of the time is a system call and a slow device.",
        (Evidence("CPU busy", busy, "ratio", 0.2),),
        "See in the kernel's log why tsc was refused; measure `steelyard-tax run --only clock`.",
        0.5,
        gain="a reading takes 25 ns by tsc, 0.5 to 5 µs by hpet or acpi_pm",
    )


@rule(
    "fewer-cpus",
    "May the program use only some of the CPUs?",
    area="machine",
    threshold="the affinity that this process was given; the program wants nine tenths of it",
)
def _fewer(conditions: Conditions) -> Finding | None:
    machine, wanted = conditions.machine, wanted_cpus(conditions)
    if machine is None or wanted is None or conditions.has_load:
        return None
    usable, whole = machine.cpu.usable_cpus, machine.cpu.logical_cpus
    if usable >= whole or wanted < 0.9 * usable:
        return None
    return Finding(
        f"The program wants {wanted:.1f} CPUs and may use {usable} of the machine's {whole}.",
        (Evidence("CPUs wanted", wanted, "1", 0.9 * usable),),
        "Look at the cpuset and the affinity it was started with (`taskset -p`).",
        0.6,
        gain=f"at most {whole / usable:.1f} x, with all CPUs",
        part="cpu",
    )


@rule(
    "quota-reached",
    "Does the program use all that its CPU quota allows?",
    area="machine",
    explains="time",
    cause="quota",
    threshold="nine tenths of the quota (cpu.max, cpu.cfs_quota_us)",
)
def _quota(conditions: Conditions) -> Finding | None:
    machine, target = conditions.machine, conditions.target
    quota = machine.cpu.quota_cpus if machine else None
    used = target.cpus.value if target else busy_cpus(conditions)
    if quota is None or used is None or used < QUOTA_RATIO * quota:
        return None
    return Finding(
        f"{used:.1f} CPUs are used of the {quota:.1f} that the control group's quota allows.",
        (Evidence("CPUs used over quota", used / quota, "ratio", QUOTA_RATIO),),
        "Raise the quota, or count threads by it and not by the machine's CPUs.",
        0.7,
        gain="in proportion to the quota",
        part="cpu",
    )


@rule(
    "page-table-isolation",
    "Do system calls pay for a mitigation?",
    area="machine",
    threshold="convention: 30 % of busy time in the kernel, with page table isolation on",
)
def _isolation(conditions: Conditions) -> Finding | None:
    machine, use = conditions.machine, conditions.all_cpus.use
    kernel = use.kernel_ratio if use else None
    state = machine.cpu.mitigations.get("meltdown", "") if machine else ""
    if kernel is None or "PTI" not in state or kernel < PTI_KERNEL_RATIO or _busy_ratio(conditions) < 0.2:
        return None
    return Finding(
        f"{percent(kernel)} of the busy time is the kernel's, and every system call changes page"
        f" tables (meltdown:"
        f" {state}).",
        (Evidence("kernel share of busy time", kernel, "ratio", PTI_KERNEL_RATIO),),
        "Count system calls (`perf stat -e raw_syscalls:sys_enter`); fewer and larger ones pay it"
        " less often.",
        0.35,
        gain="0.1 to 0.4 µs for each system call that is saved",
        sure=False,
    )
