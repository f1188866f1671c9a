"""Checks of the processors: frequency, idle states, SMT, mitigations, and limits of a guest."""

from __future__ import annotations

import re

from steelyard._base import parse_cpu_list
from steelyard.machine.checks.rule import (
    Evidence,
    Finding,
    Rule,
    Severity,
    objects,
    passes,
    rule,
    should_be_off,
    unknown,
)
from steelyard.machine.features import has_hardware_counters
from steelyard.machine.processor import SLOW_GOVERNORS
from steelyard.records import Machine

_CPUFREQ = "Linux, Documentation/admin-guide/pm/cpufreq.rst"
_PSTATE = "Linux, Documentation/admin-guide/pm/intel_pstate.rst"
_AUTONOMOUS = ("intel_pstate", "amd-pstate-epp")

DEEP_EXIT_NS = 100_000
STEAL_RATIO, MUCH_STEAL_RATIO = 0.01, 0.05


@rule(
    "governor",
    "processor",
    Severity.MEDIUM,
    asks="the governor lets CPUs run at full frequency under load",
    threshold="performance or schedutil; powersave of intel_pstate and amd-pstate with an energy preference"
    " towards performance",
    source=f"{_CPUFREQ}; {_PSTATE}",
    advice="cpupower frequency-set -g performance",
)
def governor(machine: Machine) -> Finding:
    """Object to governors that hold CPUs at low frequency, or raise it late."""
    cpu = machine.cpu
    names = set(cpu.governors) or ({cpu.governor} if cpu.governor else set())
    if not names:
        return unknown(machine, "cpu.governor")
    evidence: Evidence = {
        "cpu.governor": ", ".join(sorted(names)),
        "cpu.frequency_driver": cpu.frequency_driver,
        "cpu.energy_preference": cpu.energy_preference,
    }
    slow = names & SLOW_GOVERNORS
    if not slow:
        return passes(f"the governor is {', '.join(sorted(names))}", evidence)
    if slow == {"powersave"} and cpu.frequency_driver in _AUTONOMOUS:
        preference = cpu.energy_preference
        claim = f"{cpu.frequency_driver} sets the frequency with the energy preference"
        f" {preference or 'unknown'}"
        if preference in ("performance", "balance_performance"):
            return passes(claim, evidence)
        severity = Severity.LOW if preference is None else Severity.MEDIUM
        return objects(claim, evidence, severity=severity)
    if slow == {"powersave"} and cpu.frequency_driver is None:
        claim = "the governor is powersave, with an unknown driver"
        return objects(claim, evidence)
    if "powersave" in slow:
        claim = f"the powersave governor of {cpu.frequency_driver} keeps CPUs at their lowest frequency"
        return objects(claim, evidence, severity=Severity.HIGH)
    claim = f"the {', '.join(sorted(slow))} governor raises the frequency late under load"
    return objects(claim, evidence)


@rule(
    "governors-differ",
    "processor",
    Severity.MEDIUM,
    asks="all CPUs have the same governor",
    threshold="one governor",
    source=_CPUFREQ,
    advice="cpupower -c all frequency-set -g performance",
)
def governors_differ(machine: Machine) -> Finding:
    """Object when CPUs are governed differently."""
    counts = machine.cpu.governors
    if not counts:
        return unknown(machine, "cpu.governors")
    listed = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if len(counts) > 1:
        claim = f"CPUs have different governors ({listed}): a thread's speed depends on where it runs"
        return objects(claim, {"cpu.governors": listed})
    return passes(f"all CPUs have {next(iter(counts))}", {"cpu.governors": listed})


@rule(
    "boost",
    "processor",
    Severity.MEDIUM,
    asks="boost is on",
    threshold="on",
    source=f"{_CPUFREQ}, 'Frequency Boost Support'",
    advice="echo 1 > /sys/devices/system/cpu/cpufreq/boost (or echo 0 > .../intel_pstate/no_turbo);"
    " off is right where repeatable results matter more than fast ones",
)
def boost(machine: Machine) -> Finding:
    """Object when the processor may not exceed its base frequency."""
    if machine.cpu.boost is None:
        return unknown(machine, "cpu.boost")
    if machine.cpu.boost:
        return passes("boost is on", {"cpu.boost": True})
    return objects("boost is off: no CPU exceeds its base frequency", {"cpu.boost": False})


@rule(
    "frequency-limit",
    "processor",
    Severity.MEDIUM,
    asks="no setting limits CPUs below their highest frequency",
    threshold="scaling_max_freq = cpuinfo_max_freq on every CPU",
    source=_CPUFREQ,
    advice="cpupower frequency-set -u MAX, and check daemons that lower it (tuned, thermald)",
)
def frequency_limit(machine: Machine) -> Finding:
    """Object to limits below what the processor can do."""
    cpu = machine.cpu
    if cpu.frequency_limited_cpus is None or cpu.frequency_limit_hz is None:
        return unknown(machine, "cpu.frequency_limit_hz")
    evidence: Evidence = {
        "cpu.frequency_limit_hz": cpu.frequency_limit_hz,
        "cpu.frequency_limited_cpus": cpu.frequency_limited_cpus,
    }
    if cpu.frequency_limited_cpus == 0:
        return passes("no CPU is limited below its highest frequency", evidence)
    claim = (
        f"{cpu.frequency_limited_cpus} CPUs are limited below their highest frequency,"
        f" down to {cpu.frequency_limit_hz / 1e9:g} GHz"
    )
    return objects(claim, evidence)


@rule(
    "deep-idle",
    "processor",
    Severity.LOW,
    asks="waking an idle CPU is short compared with a request",
    threshold=f"exit latency below {DEEP_EXIT_NS // 1000} µs in every enabled state",
    source="Linux, Documentation/admin-guide/pm/cpuidle.rst; a small request over a local network takes about"
    " 100 µs, which such a wake-up doubles",
    advice="cpupower idle-set -D 99 (disables states slower than 99 µs), or set a limit in"
    " /dev/cpu_dma_latency; this costs power, and may lower the boost of other cores",
)
def deep_idle(machine: Machine) -> Finding:
    """Object to enabled idle states with long wake-ups."""
    states = machine.cpu.idle_states
    if not states:
        return unknown(machine, "cpu.idle_states")
    deep = [
        state
        for state in states
        if state.is_enabled is not False
        and state.exit_latency_ns is not None
        and state.exit_latency_ns >= DEEP_EXIT_NS
    ]
    if not deep:
        known = max((state.exit_latency_ns or 0 for state in states), default=0)
        return passes(f"no enabled idle state has a long wake-up (at most {known / 1000:g} µs)")
    worst = max(deep, key=lambda state: state.exit_latency_ns or 0)
    claim = f"deep idle states take {(worst.exit_latency_ns or 0) / 1000:g} µs to wake up"
    return objects(
        f"{claim} ({worst.name})", {"cpu.idle_states": worst.name, "exit_latency_ns": worst.exit_latency_ns}
    )


@rule(
    "smt-partly",
    "processor",
    Severity.MEDIUM,
    asks="SMT is on for all cores or for none",
    threshold="the same number of online threads on all cores of a kind",
    source="Linux, Documentation/admin-guide/cputopology.rst",
    advice="echo on (or off) > /sys/devices/system/cpu/smt/control",
)
def smt_partly(machine: Machine) -> Finding:
    """Object when some cores run more threads than others because CPUs are offline."""
    counts = machine.cpu.cores_by_threads
    if not counts:
        return unknown(machine, "cpu.cores_by_threads")
    listed = ", ".join(f"{cores} cores with {threads} online" for threads, cores in counts.items())
    if len(counts) == 1:
        return passes(f"all cores have {next(iter(counts))} threads online", {"cpu.cores_by_threads": listed})
    if machine.cpu.offline_cpus:
        claim = f"SMT is on for some cores only ({listed}): a thread's speed depends on its core"
        return objects(claim, {"cpu.cores_by_threads": listed, "cpu.offline_cpus": machine.cpu.offline_cpus})
    if machine.cpu.offline_cpus is None:
        return unknown(machine, "cpu.offline_cpus")
    return passes(
        f"cores of two kinds ({listed}), all of their threads online", {"cpu.cores_by_threads": listed}
    )


@rule(
    "cores-differ",
    "processor",
    Severity.MEDIUM,
    asks="all cores are of the same kind",
    threshold="one size of L1 data cache",
    source="hybrid processors have cores of different L1 caches (Intel, 'Performance Hybrid Architecture')",
    advice="bind the program to cores of one kind (taskset, cpuset)",
)
def cores_differ(machine: Machine) -> Finding:
    """Object to hybrid processors, on which a thread's speed depends on its CPU."""
    sizes = sorted(
        {cache.size_bytes for cache in machine.cpu.caches if cache.level == 1 and cache.type == "data"}
    )
    if not sizes:
        return unknown(machine, "cpu.caches")
    listed = ", ".join(f"{size >> 10} KiB" for size in sizes)
    if len(sizes) > 1:
        claim = f"cores differ (L1 data caches of {listed}): a thread's speed depends on where it runs"
        return objects(claim, {"cpu.caches": listed})
    return passes(f"all cores have the same L1 data cache ({listed})", {"cpu.caches": listed})


@rule(
    "offline-cpus",
    "processor",
    Severity.MEDIUM,
    asks="all CPUs are online",
    threshold="none offline, except second threads where SMT is off",
    source="Linux, Documentation/admin-guide/cputopology.rst",
    advice="echo 1 > /sys/devices/system/cpu/cpuN/online",
)
def offline_cpus(machine: Machine) -> Finding:
    """Object to unused CPUs."""
    offline = machine.cpu.offline_cpus
    if offline is None:
        return unknown(machine, "cpu.offline_cpus")
    if not offline:
        return passes("no CPU is offline", {"cpu.offline_cpus": ""})
    count = len(parse_cpu_list(offline) or ())
    if machine.cpu.smt in ("off", "forceoff"):
        claim = f"SMT is off: {count} CPUs are offline ({offline})"
        return passes(claim, {"cpu.offline_cpus": offline, "cpu.smt": machine.cpu.smt})
    noun = "CPU is" if count == 1 else "CPUs are"
    return objects(f"{count} {noun} offline: {offline}", {"cpu.offline_cpus": offline})


@rule(
    "isolated-cpus",
    "processor",
    Severity.LOW,
    asks="the scheduler can use all CPUs",
    threshold="no isolated CPU",
    source="Linux, Documentation/admin-guide/kernel-parameters.txt, isolcpus",
    advice="bind the program to the isolated CPUs, or boot without isolcpus",
)
def isolated_cpus(machine: Machine) -> Finding:
    """Object to isolated CPUs."""
    isolated = machine.cpu.isolated_cpus
    claim = f"CPUs {isolated} are isolated: only tasks bound to them run there"
    return should_be_off(machine, "cpu.isolated_cpus", isolated, claim, "no CPU is isolated")


@rule(
    "throttled",
    "processor",
    Severity.MEDIUM,
    asks="no core was throttled by heat",
    threshold="0 events since boot",
    source="Intel SDM volume 3, 'Thermal Monitoring and Protection'; the kernel's thermal_throttle counters",
    advice="check fans, air flow and room temperature; measure again when cool",
)
def throttled(machine: Machine) -> Finding:
    """Object to thermal throttling since boot."""
    count = machine.cpu.thermal_throttles
    claim, otherwise = (
        f"cores were throttled by heat {count} times since boot",
        "no core was throttled by heat",
    )
    return should_be_off(machine, "cpu.thermal_throttles", count, claim, otherwise)


_COSTLY = (
    ("meltdown", r"PTI", "page tables change at each entry to the kernel"),
    ("spectre_v2", r"Mitigation:.*(IBRS(?!_FW)|Retpoline)", "indirect branches are slower"),
    ("mds", r"Clear CPU buffers", "buffers are cleared at each return to user mode"),
    ("tsx_async_abort", r"Clear CPU buffers", "buffers are cleared at each return to user mode"),
    ("mmio_stale_data", r"Clear CPU buffers", "buffers are cleared at each return to user mode"),
    ("reg_file_data_sampling", r"Clear Register File", "buffers are cleared at each return to user mode"),
    ("retbleed", r"Mitigation: (untrained return thunk|IBRS|Stuffing)", "returns are slower"),
    ("spec_rstack_overflow", r"Mitigation: (Safe RET|IBPB)", "returns are slower"),
    ("gather_data_sampling", r"Mitigation: Microcode", "gather instructions are slower"),
    ("l1tf", r"VMX: .*cache flushes", "the L1 cache is flushed when a guest is entered"),
    ("indirect_target_selection", r"Mitigation: Aligned", "indirect branches are slower"),
    ("tsa", r"Clear CPU buffers", "buffers are cleared at each return to user mode"),
)


@rule(
    "mitigations-cost",
    "processor",
    Severity.LOW,
    asks="no mitigation costs much time",
    threshold="none that runs at each kernel entry or at each branch",
    source="Linux, Documentation/admin-guide/hw-vuln/",
    advice="compare only machines with the same mitigations; boot with mitigations=off only if the machine"
    " runs"
    " no untrusted code",
)
def mitigations_cost(machine: Machine) -> Finding:
    """Object to mitigations that cost time."""
    states = machine.cpu.mitigations
    if not states:
        return unknown(machine, "cpu.mitigations")
    costly = [name for name, pattern, _ in _COSTLY if re.search(pattern, states.get(name, ""))]
    if not costly:
        return passes("no active mitigation costs much time")
    effects = list(dict.fromkeys(why for name, _, why in _COSTLY if name in costly))
    noun = "mitigation costs" if len(costly) == 1 else "mitigations cost"
    claim = f"{len(costly)} {noun} time ({', '.join(costly)}): {'; '.join(effects)}"
    return objects(claim, {f"cpu.mitigations.{name}": states[name] for name in costly})


@rule(
    "unmitigated",
    "processor",
    Severity.LOW,
    asks="every vulnerability of the processor is mitigated",
    threshold="none 'Vulnerable'",
    source="Linux, Documentation/ABI/testing/sysfs-devices-system-cpu, vulnerabilities",
    advice="boot without mitigations=off; update microcode and kernel",
)
def unmitigated(machine: Machine) -> Finding:
    """Object to unmitigated vulnerabilities: such a machine may be faster than production."""
    states = machine.cpu.mitigations
    if not states:
        return unknown(machine, "cpu.mitigations")
    vulnerable = [name for name, state in states.items() if state.startswith("Vulnerable")]
    if not vulnerable:
        return passes("all vulnerabilities are mitigated")
    claim = f"not mitigated: {', '.join(vulnerable)}; results may be better than in production"
    return objects(claim, {f"cpu.mitigations.{name}": states[name] for name in vulnerable})


@rule(
    "cpu-quota",
    "processor",
    Severity.MEDIUM,
    asks="no quota limits CPU time",
    threshold="no quota below the usable CPUs",
    source="Linux, Documentation/scheduler/sched-bwc.rst",
    advice="raise cpu.max (cpu.cfs_quota_us) of the group or the container's CPU limit, or measure with it on"
    " purpose",
)
def cpu_quota(machine: Machine) -> Finding:
    """Object to a CPU quota below the usable CPUs."""
    quota, usable = machine.cpu.quota_cpus, machine.cpu.usable_cpus
    if quota is None:
        return passes(machine.missing.get("cpu.quota_cpus", "no quota"), {"cpu.quota_cpus": None})
    if quota < usable:
        claim = f"a quota allows {quota:g} of {usable} CPUs: all threads stop when a period's quota is"
        " used up"
        return objects(claim, {"cpu.quota_cpus": quota, "cpu.usable_cpus": usable})
    return passes(f"the quota of {quota:g} CPUs covers the {usable} usable CPUs")


@rule(
    "cpu-affinity",
    "processor",
    Severity.LOW,
    asks="this process may use all online CPUs",
    threshold="usable = online",
    source="Linux, sched_setaffinity(2), cpuset(7)",
    advice="check taskset -p $$ and the group's cpuset.cpus",
)
def cpu_affinity(machine: Machine) -> Finding:
    """Object to an affinity mask without some CPUs."""
    usable, online = machine.cpu.usable_cpus, machine.cpu.logical_cpus
    if "cpu.usable_cpus" in machine.missing or online == 0:
        return unknown(machine, "cpu.usable_cpus")
    if usable < online:
        claim = f"this process may use {usable} of {online} CPUs"
        return objects(claim, {"cpu.usable_cpus": usable, "cpu.logical_cpus": online})
    return passes(f"all {online} CPUs may be used", {"cpu.usable_cpus": usable, "cpu.logical_cpus": online})


@rule(
    "steal",
    "processor",
    Severity.MEDIUM,
    asks="the hypervisor takes little CPU time",
    threshold=f"steal below {STEAL_RATIO:.0%} of CPU time since boot; severe from {MUCH_STEAL_RATIO:.0%}",
    source="proc_stat(5); the verdict of runs uses the same threshold",
    advice="use a dedicated host or dedicated CPUs; repeat measurements over hours",
)
def steal(machine: Machine) -> Finding:
    """Object to stolen CPU time."""
    ratio = machine.cpu.steal_ratio
    if ratio is None:
        return unknown(machine, "cpu.steal_ratio")
    claim = f"{ratio:.2%} of CPU time since boot was stolen"
    if ratio < STEAL_RATIO:
        return passes(claim, {"cpu.steal_ratio": ratio})
    severity = Severity.HIGH if ratio >= MUCH_STEAL_RATIO else None
    return objects(f"{claim} by the hypervisor", {"cpu.steal_ratio": ratio}, severity=severity)


@rule(
    "no-counters",
    "processor",
    Severity.MEDIUM,
    asks="the processor's counters can be read",
    threshold="the kernel offers a PMU of the processor",
    source="/sys/bus/event_source/devices; perf_event_open(2)",
    advice="ask for a virtual PMU (QEMU: -cpu host,pmu=on; in clouds: metal or whole-socket sizes), or"
    " measure on bare metal; without it IPC, misses and top-down are null",
)
def no_counters(machine: Machine) -> Finding:
    """Object to machines without hardware counters, mostly guests."""
    has_counters = has_hardware_counters(machine)
    if has_counters is None:
        return unknown(machine, "cpu.performance_monitors")
    listed = ", ".join(machine.cpu.performance_monitors)
    if has_counters:
        return passes("the processor's counters are available", {"cpu.performance_monitors": listed})
    where = f"this guest of {machine.hypervisor}" if machine.hypervisor else "this machine"
    claim = f"{where} has no hardware counters: causes of slow code can be found only in part"
    return objects(claim, {"cpu.performance_monitors": listed, "hypervisor": machine.hypervisor})


RULES: tuple[Rule, ...] = (
    governor,
    governors_differ,
    boost,
    frequency_limit,
    deep_idle,
    smt_partly,
    cores_differ,
    offline_cpus,
    isolated_cpus,
    throttled,
    mitigations_cost,
    unmitigated,
    cpu_quota,
    cpu_affinity,
    steal,
    no_counters,
)
