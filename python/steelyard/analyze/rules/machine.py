"""Rules about how the machine is set, asked only where it was busy: a setting that nothing felt is no
finding.

Not here: checks of a machine as such (``steelyard machine check``).
"""

from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.power import Power
from steelyard.analyze.own_cpu import Usage
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rule
from steelyard.machine.processor import SLOW_GOVERNORS
from steelyard.records import Machine

BUSY_RATIO = 0.50
FAST_CLOCKS = frozenset(
    {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "xen", "timebase", "tod"}
)
QUOTA_RATIO = 0.90
PTI_KERNEL_RATIO = 0.30


@rule(
    "saving-governor",
    "Does the frequency governor slow busy CPUs down?",
    area="machine",
    threshold="convention: the machine is half busy, and the governor keeps frequencies low or raises them"
    " late (Linux, Documentation/admin-guide/pm/cpufreq.rst)",
)
def _governor(cpus: Cpus, power: Power, machine: Machine) -> Finding | None:
    busy = cpus.all.busy_ratio
    if machine.cpu.governor not in SLOW_GOVERNORS or busy < BUSY_RATIO:
        return None
    now, high = power.frequency_hz.value, machine.cpu.frequency_max_hz
    if now is not None and high and now >= 0.95 * high:
        # It gave the highest clock all the same, as intel_pstate's powersave does under load.
        return None
    return Finding(
        f"CPUs are busy {percent(busy)} of the time with the {machine.cpu.governor} governor.",
        (Evidence("CPU busy", busy, "ratio", BUSY_RATIO),),
        "Compare with the performance governor: `cpupower frequency-set -g performance`.",
        0.4,
        gain="at most the ratio of the highest frequency to the present one; most for short bursts",
        sure=now is not None,
    )


@rule(
    "boost-off",
    "Is boost off on a busy machine?",
    area="machine",
    threshold="convention: the machine is half busy, and the kernel reports that boost is off",
)
def _boost(cpus: Cpus, machine: Machine) -> Finding | None:
    busy = cpus.all.busy_ratio
    if machine.cpu.boost is not False or busy < BUSY_RATIO:
        return None
    return Finding(
        f"CPUs are busy {percent(busy)} of the time and boost is off.",
        (Evidence("CPU busy", busy, "ratio", BUSY_RATIO),),
        "Compare with boost on; leave it off where results must repeat.",
        0.35,
        gain="10 to 30 % with few busy cores, less with all cores busy",
    )


@rule(
    "slow-clock-source",
    "Is reading the time a system call?",
    area="machine",
    threshold="Linux: only clock sources with a vDSO are read without a system call",
)
def _clock(cpus: Cpus, machine: Machine) -> Finding | None:
    busy = cpus.all.busy_ratio
    source = machine.kernel.clocksource
    if source is None or source in FAST_CLOCKS or busy < 0.2:
        return None
    return Finding(
        f"The clock source is {source}: every time read is a system call and a slow device access.",
        (Evidence("CPU busy", busy, "ratio", 0.2),),
        "Look in the kernel log for why tsc was rejected; measure with `steelyard-tax run --only clock`.",
        0.5,
        gain="a time read takes 25 ns with tsc, 0.5 to 5 µs with hpet or acpi_pm",
    )


@rule(
    "fewer-cpus",
    "Is the program restricted to some of the CPUs?",
    area="machine",
    threshold="convention: the program demands 90 % of the CPUs in its affinity mask",
)
def _fewer(machine: Machine, has_load: bool, usage: Usage) -> Finding | None:
    demand = usage.demand
    if demand is None or has_load:
        return None
    usable, whole = machine.cpu.usable_cpus, machine.cpu.logical_cpus
    if usable >= whole or demand < 0.9 * usable:
        return None
    return Finding(
        f"The program could use {demand:.1f} CPUs; it may use {usable} of the machine's {whole}.",
        (Evidence("CPU demand", demand, "1", 0.9 * usable),),
        "Check its cpuset and affinity (`taskset -p`).",
        0.6,
        gain=f"at most {whole / usable:.1f} x, with all CPUs",
        part="cpu",
    )


@rule(
    "quota-reached",
    "Does the program use up its CPU quota?",
    area="machine",
    explains="time",
    cause="quota",
    threshold="convention: 90 % of the quota (cpu.max, cpu.cfs_quota_us)",
)
def _quota(machine: Machine, target: TargetUse | None, usage: Usage) -> Finding | None:
    quota = machine.cpu.quota_cpus
    used = target.cpus.value if target else usage.busy_cpus
    if quota is None or used is None or used < QUOTA_RATIO * quota:
        return None
    return Finding(
        f"{used:.1f} CPUs are used, of a quota of {quota:.1f} for the control group.",
        (Evidence("CPUs used over quota", used / quota, "ratio", QUOTA_RATIO),),
        "Raise the quota, or size thread pools by the quota instead of the machine's CPUs.",
        0.7,
        gain="in proportion to the quota",
        part="cpu",
    )


@rule(
    "page-table-isolation",
    "Does page table isolation slow system calls?",
    area="machine",
    threshold="convention: 30 % of busy time in the kernel, with page table isolation on",
)
def _isolation(cpus: Cpus, machine: Machine, usage: Usage) -> Finding | None:
    kernel = usage.kernel_ratio
    state = machine.cpu.mitigations.get("meltdown", "")
    if kernel is None or "PTI" not in state or kernel < PTI_KERNEL_RATIO or cpus.all.busy_ratio < 0.2:
        return None
    return Finding(
        f"{percent(kernel)} of the CPU time is in the kernel, and every system call switches page"
        f" tables (meltdown: {state}).",
        (Evidence("kernel share of CPU time", kernel, "ratio", PTI_KERNEL_RATIO),),
        "Count system calls (`perf stat -e raw_syscalls:sys_enter`), and make fewer, larger ones.",
        0.35,
        gain="0.1 to 0.4 µs per avoided system call",
        sure=False,
    )
