"""Checks of the kernel: its clock, its command line, and what it lets a user measure."""

from __future__ import annotations

import re

from steelyard.machine.checks.rule import (
    Evidence,
    Finding,
    Rule,
    Severity,
    objects,
    passes,
    rule,
    sysctl_should_be_off,
    unknown,
)
from steelyard.records import Machine

FAST_CLOCKS = ("tsc", "arch_sys_counter", "timebase", "itc", "tod", "riscv_clocksource")
"""Counters of the processor, which user programs read without a system call."""

PAGED_CLOCKS = ("kvm-clock", "hyperv_clocksource_tsc_page", "pvclock")
"""Clocks of hypervisors that are read from a page, at the cost of a few more instructions."""


@rule(
    "clocksource",
    "system",
    Severity.HIGH,
    asks="the time can be read without a system call",
    threshold="tsc on x86, the architecture's counter elsewhere",
    source="Linux, Documentation/timers/timekeeping.rst; clock_gettime(2) through the vDSO",
    advice="boot with tsc=reliable if the TSC is stable; look in the kernel log for why it was rejected",
)
def clocksource(machine: Machine) -> Finding:
    """Object to clocks that are slow to read."""
    clock, others = machine.kernel.clocksource, machine.kernel.clocksources
    if clock is None:
        return unknown(machine, "kernel.clocksource")
    evidence: Evidence = {"kernel.clocksource": clock, "kernel.clocksources": " ".join(others)}
    if clock in FAST_CLOCKS:
        return passes(f"the clock is {clock}", evidence)
    if clock in PAGED_CLOCKS:
        claim = f"the clock is the hypervisor's {clock}: slower than tsc, but no system call"
        return objects(claim, evidence, severity=Severity.LOW)
    return objects(f"the clock is {clock}: each read is a system call or a device access", evidence)


_RESTRICTING = (
    (r"(?:max|nr|possible)_?cpus=\S+", "limits the CPUs"),
    (r"mem=\S+", "limits memory"),
    (r"nosmp", "leaves one CPU"),
    (r"numa=off", "hides NUMA nodes"),
    (r"acpi=off", "ignores the firmware's tables"),
    (r"nosmt(?:=force)?", "switches SMT off"),
    (r"slub_debug(?:=\S*)?", "checks every allocation"),
    (r"slab_debug(?:=\S*)?", "checks every allocation"),
    (r"page_poison=(?:1|on)", "overwrites every freed page"),
    (r"debug_pagealloc=on", "unmaps every freed page"),
    (r"init_on_free=1", "clears every freed page"),
    (r"nohugepages|transparent_hugepage=never", "switches huge pages off"),
    (r"idle=(?:poll|halt|nomwait)", "changes what idle CPUs do"),
    (r"nopti|nospectre_v2|mitigations=off", "leaves vulnerabilities open"),
    (r"kasan\S*|kmemleak=on", "checks the kernel's memory"),
    (r"lockdep\S*", "checks every lock"),
)


@rule(
    "command-line",
    "system",
    Severity.LOW,
    asks="the boot command line does not limit the machine",
    threshold="no parameter that limits the machine or debugs the kernel",
    source="Linux, Documentation/admin-guide/kernel-parameters.txt",
    advice="remove it from the boot loader's configuration, or report it with the results",
)
def command_line(machine: Machine) -> Finding:
    """Object to parameters that change what the machine can do."""
    text = machine.kernel.command_line
    if text is None:
        return unknown(machine, "kernel.command_line")
    # What stands behind -- is for the first process.
    words = text.partition(" -- ")[0].split()
    restricting = {
        word: why for word in words for pattern, why in _RESTRICTING if re.fullmatch(pattern, word)
    }
    if not restricting:
        return passes("no parameter limits the machine")
    listed = ", ".join(f"{word} ({why})" for word, why in restricting.items())
    taking = re.compile(
        r"(max|nr|possible)_?cpus=|mem=|nosmp|numa=off|acpi=off|.*debug|kasan|lockdep|kmemleak"
    )
    severity = Severity.MEDIUM if any(taking.match(word) for word in restricting) else None
    return objects(f"booted with {listed}", {"kernel.command_line": " ".join(restricting)}, severity=severity)


@rule(
    "perf-paranoid",
    "system",
    Severity.LOW,
    asks="users can profile the whole machine",
    threshold="kernel.perf_event_paranoid at most 0",
    source="Linux, Documentation/admin-guide/perf-security.rst",
    advice="sysctl kernel.perf_event_paranoid=0 while measuring, or CAP_PERFMON",
)
def perf_paranoid(machine: Machine) -> Finding:
    """Object when only root can measure."""
    text = machine.kernel.sysctl.get("kernel.perf_event_paranoid")
    if text is None or not re.fullmatch(r"-?\d+", text):
        return unknown(machine, "kernel.sysctl.kernel.perf_event_paranoid")
    level = int(text)
    evidence: Evidence = {"kernel.sysctl.kernel.perf_event_paranoid": level}
    if level <= 0:
        return passes(f"perf_event_paranoid is {level}", evidence)
    limits = {1: "only their own processes, not whole CPUs", 2: "only their own processes, not the kernel"}
    return objects(
        f"users can measure {limits.get(level, 'nothing')} (perf_event_paranoid {level})", evidence
    )


@rule(
    "nmi-watchdog",
    "system",
    Severity.LOW,
    asks="all hardware counters are free",
    threshold="kernel.nmi_watchdog = 0",
    source="Linux, Documentation/admin-guide/lockup-watchdogs.rst: it uses one counter on each CPU",
    advice="sysctl kernel.nmi_watchdog=0 while counting",
)
def nmi_watchdog(machine: Machine) -> Finding:
    """Object to the NMI watchdog."""
    claim = "the NMI watchdog uses one hardware counter on each CPU"
    return sysctl_should_be_off(machine, "kernel.nmi_watchdog", claim, "the NMI watchdog is off")


@rule(
    "io-uring",
    "system",
    Severity.LOW,
    asks="programs can use io_uring",
    threshold="kernel.io_uring_disabled = 0",
    source="Linux, Documentation/admin-guide/sysctl/kernel.rst, io_uring_disabled",
    advice="sysctl kernel.io_uring_disabled=0",
)
def io_uring(machine: Machine) -> Finding:
    """Object to disabled io_uring."""
    claim = "io_uring is disabled for users: servers fall back to slower I/O"
    return sysctl_should_be_off(machine, "kernel.io_uring_disabled", claim, "io_uring is enabled")


@rule(
    "resctrl-groups",
    "system",
    Severity.LOW,
    asks="no group of tasks has its own share of cache or bandwidth",
    threshold="only the default group",
    source="Linux, Documentation/arch/x86/resctrl.rst",
    advice="check /sys/fs/resctrl/*/schemata: a program may have less cache than the machine",
)
def resctrl_groups(machine: Machine) -> Finding:
    """Object to divided caches and bandwidth."""
    resctrl = machine.resctrl
    if resctrl is None:
        return unknown(machine, "resctrl")
    if resctrl.groups:
        claim = f"resctrl has {resctrl.groups} groups besides the default one, which may divide cache or"
        " bandwidth"
        return objects(claim, {"resctrl.groups": resctrl.groups})
    return passes("resctrl has only the default group", {"resctrl.groups": 0})


RULES: tuple[Rule, ...] = (clocksource, command_line, perf_paranoid, nmi_watchdog, io_uring, resctrl_groups)
