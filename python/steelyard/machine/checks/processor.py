"""Checks of the processors: frequency, idle states, SMT, mitigations, and what a guest is given of them."""

from __future__ import annotations

import re

from steelyard._base import parse_cpu_list
from steelyard.machine.checks.rule import Evidence, Finding, Rule, Severity, objects, passes, rule, untold
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
        return untold(machine, "cpu.governor")
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
        claim = f"{cpu.frequency_driver} chooses the frequency with preference {preference or 'not told'}"
        if preference in ("performance", "balance_performance"):
            return passes(claim, evidence)
        severity = Severity.LOW if preference is None else Severity.MEDIUM
        return objects(claim, evidence, severity=severity)
    if slow == {"powersave"} and cpu.frequency_driver is None:
        claim = "the governor is powersave; which driver obeys it is not told"
        return objects(claim, evidence)
    if "powersave" in slow:
        claim = f"the governor powersave of {cpu.frequency_driver} keeps CPUs at their lowest frequency"
        return objects(claim, evidence, severity=Severity.HIGH)
    claim = f"the governor {', '.join(sorted(slow))} raises the frequency only after load has lasted"
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
        return untold(machine, "cpu.governors")
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
        return untold(machine, "cpu.boost")
    if machine.cpu.boost:
        return passes("boost is on", {"cpu.boost": True})
    return objects("boost is off: no CPU exceeds its base frequency", {"cpu.boost": False})


@rule(
    "frequency-limit",
    "processor",
    Severity.MEDIUM,
    asks="no setting holds CPUs below the frequency that they can reach",
    threshold="scaling_max_freq = cpuinfo_max_freq on every CPU",
    source=_CPUFREQ,
    advice="cpupower frequency-set -u MAX, and look for the daemon that lowered it (tuned, thermald)",
)
def frequency_limit(machine: Machine) -> Finding:
    """Object to limits below what the processor can do."""
    cpu = machine.cpu
    if cpu.frequency_limited_cpus is None or cpu.frequency_limit_hz is None:
        return untold(machine, "cpu.frequency_limit_hz")
    evidence: Evidence = {
        "cpu.frequency_limit_hz": cpu.frequency_limit_hz,
        "cpu.frequency_limited_cpus": cpu.frequency_limited_cpus,
    }
    if cpu.frequency_limited_cpus == 0:
        return passes("no CPU is held below its highest frequency", evidence)
    claim = (
        f"{cpu.frequency_limited_cpus} CPUs are held below their highest frequency,"
        f" down to {cpu.frequency_limit_hz / 1e9:g} GHz"
    )
    return objects(claim, evidence)


@rule(
    "deep-idle",
    "processor",
    Severity.LOW,
    asks="waking an idle CPU takes little beside a request",
    threshold=f"exit latency below {DEEP_EXIT_NS // 1000} µs in every enabled state",
    source="Linux, Documentation/admin-guide/pm/cpuidle.rst; a small request over a local network takes about"
    " 100 µs, so that such a wake-up doubles it",
    advice="cpupower idle-set -D 99 (disables states slower than 99 µs), or hold a limit in"
    " /dev/cpu_dma_latency; costs power, and may cost boost of other cores",
)
def deep_idle(machine: Machine) -> Finding:
    """Object to enabled idle states from which waking takes long."""
    states = machine.cpu.idle_states
    if not states:
        return untold(machine, "cpu.idle_states")
    deep = [
        one
        for one in states
        if one.is_enabled is not False
        and one.exit_latency_ns is not None
        and one.exit_latency_ns >= DEEP_EXIT_NS
    ]
    if not deep:
        known = max((one.exit_latency_ns or 0 for one in states), default=0)
        return passes(f"no enabled idle state is slow to leave (of all, {known / 1000:g} µs at most)")
    worst = max(deep, key=lambda one: one.exit_latency_ns or 0)
    claim = f"idle CPUs may sleep so deep that waking takes {(worst.exit_latency_ns or 0) / 1000:g} µs"
    return objects(
        f"{claim} ({worst.name})", {"cpu.idle_states": worst.name, "exit_latency_ns": worst.exit_latency_ns}
    )


@rule(
    "smt-partly",
    "processor",
    Severity.MEDIUM,
    asks="SMT is on for all cores or for none",
    threshold="the same number of online threads on every core of a kind",
    source="Linux, Documentation/admin-guide/cputopology.rst",
    advice="echo on (or off) > /sys/devices/system/cpu/smt/control",
)
def smt_partly(machine: Machine) -> Finding:
    """Object when some cores run more threads than others because CPUs are offline."""
    counts = machine.cpu.cores_by_threads
    if not counts:
        return untold(machine, "cpu.cores_by_threads")
    listed = ", ".join(f"{cores} cores with {threads} online" for threads, cores in counts.items())
    if len(counts) == 1:
        return passes(f"all cores have {next(iter(counts))} threads online", {"cpu.cores_by_threads": listed})
    if machine.cpu.offline_cpus:
        claim = f"SMT is on for a part of the cores only ({listed}): equal threads get unequal cores"
        return objects(claim, {"cpu.cores_by_threads": listed, "cpu.offline_cpus": machine.cpu.offline_cpus})
    if machine.cpu.offline_cpus is None:
        return untold(machine, "cpu.offline_cpus")
    return passes(
        f"cores of two kinds ({listed}), all of their threads online", {"cpu.cores_by_threads": listed}
    )


@rule(
    "cores-differ",
    "processor",
    Severity.MEDIUM,
    asks="all cores are of one kind",
    threshold="one size of L1 data cache",
    source="hybrid processors have cores of different L1 caches (Intel, 'Performance Hybrid Architecture')",
    advice="bind the program to cores of one kind: taskset, or a cpuset",
)
def cores_differ(machine: Machine) -> Finding:
    """Object to hybrid processors, on which a thread's speed depends on its CPU."""
    sizes = sorted({one.size_bytes for one in machine.cpu.caches if one.level == 1 and one.type == "data"})
    if not sizes:
        return untold(machine, "cpu.caches")
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
    threshold="none offline, beside the second threads of an SMT that is switched off as a whole",
    source="Linux, Documentation/admin-guide/cputopology.rst",
    advice="echo 1 > /sys/devices/system/cpu/cpuN/online",
)
def offline_cpus(machine: Machine) -> Finding:
    """Object to CPUs that are there and not used."""
    offline = machine.cpu.offline_cpus
    if offline is None:
        return untold(machine, "cpu.offline_cpus")
    if not offline:
        return passes("no CPU is offline", {"cpu.offline_cpus": ""})
    count = len(parse_cpu_list(offline) or ())
    if machine.cpu.smt in ("off", "forceoff"):
        claim = f"SMT is off, and with it {count} CPUs ({offline})"
        return passes(claim, {"cpu.offline_cpus": offline, "cpu.smt": machine.cpu.smt})
    noun = "CPU is" if count == 1 else "CPUs are"
    return objects(f"{count} {noun} offline: {offline}", {"cpu.offline_cpus": offline})


@rule(
    "isolated-cpus",
    "processor",
    Severity.LOW,
    asks="the scheduler may use all CPUs",
    threshold="no isolated CPU",
    source="Linux, Documentation/admin-guide/kernel-parameters.txt, isolcpus",
    advice="bind the program to the isolated CPUs, or boot without isolcpus",
)
def isolated_cpus(machine: Machine) -> Finding:
    """Object to CPUs on which nothing runs unless it is put there."""
    isolated = machine.cpu.isolated_cpus
    if isolated is None:
        return untold(machine, "cpu.isolated_cpus")
    if not isolated:
        return passes("no CPU is isolated", {"cpu.isolated_cpus": ""})
    claim = f"CPUs {isolated} are isolated: nothing runs on them unless it is bound to them"
    return objects(claim, {"cpu.isolated_cpus": isolated})


@rule(
    "throttled",
    "processor",
    Severity.MEDIUM,
    asks="no core was slowed for heat",
    threshold="0 events since boot",
    source="Intel SDM volume 3, 'Thermal Monitoring and Protection'; the kernel's thermal_throttle counters",
    advice="look at fans, air flow and the room's temperature; measure again when cool",
)
def throttled(machine: Machine) -> Finding:
    """Object when cores were slowed for heat since boot."""
    count = machine.cpu.thermal_throttles
    if count is None:
        return untold(machine, "cpu.thermal_throttles")
    if count:
        claim = f"cores were slowed for heat {count} times since boot"
        return objects(claim, {"cpu.thermal_throttles": count})
    return passes("no core was slowed for heat since boot", {"cpu.thermal_throttles": 0})


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
    asks="it is known which mitigations cost time",
    threshold="none that works at each entry to the kernel, or at each branch",
    source="Linux, Documentation/admin-guide/hw-vuln/",
    advice="compare machines with the same mitigations only; switch them off for a comparison if the machine"
    " runs nobody else's code (mitigations=off)",
)
def mitigations_cost(machine: Machine) -> Finding:
    """Tell which mitigations of this machine cost time."""
    states = machine.cpu.mitigations
    if not states:
        return untold(machine, "cpu.mitigations")
    found = [name for name, pattern, _ in _COSTLY if re.search(pattern, states.get(name, ""))]
    if not found:
        return passes("no mitigation that costs much is at work")
    effects = list(dict.fromkeys(why for name, _, why in _COSTLY if name in found))
    noun = "mitigation costs" if len(found) == 1 else "mitigations cost"
    claim = f"{len(found)} {noun} time ({', '.join(found)}): {'; '.join(effects)}"
    return objects(claim, {f"cpu.mitigations.{name}": states[name] for name in found})


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
    """Object to holes left open: the machine is faster than one in production may be."""
    states = machine.cpu.mitigations
    if not states:
        return untold(machine, "cpu.mitigations")
    found = [name for name, state in states.items() if state.startswith("Vulnerable")]
    if not found:
        return passes("no vulnerability is left open")
    claim = f"open: {', '.join(found)}; results may be better than production's, where they are mitigated"
    return objects(claim, {f"cpu.mitigations.{name}": states[name] for name in found})


@rule(
    "cpu-quota",
    "processor",
    Severity.MEDIUM,
    asks="no quota takes CPU time away",
    threshold="no quota below the CPUs that may be used",
    source="Linux, Documentation/scheduler/sched-bwc.rst",
    advice="raise cpu.max (cpu.cfs_quota_us) of the group or the container's CPU limit, or measure with it on"
    " purpose",
)
def cpu_quota(machine: Machine) -> Finding:
    """Object to a quota of CPU time below the CPUs that may be used."""
    quota, usable = machine.cpu.quota_cpus, machine.cpu.usable_cpus
    if quota is None:
        return passes(machine.missing.get("cpu.quota_cpus", "no quota"), {"cpu.quota_cpus": None})
    if quota < usable:
        claim = f"a quota allows {quota:g} of {usable} CPUs: beyond it all threads stop until the next period"
        return objects(claim, {"cpu.quota_cpus": quota, "cpu.usable_cpus": usable})
    return passes(f"the quota of {quota:g} CPUs is no less than the {usable} that may be used")


@rule(
    "cpu-affinity",
    "processor",
    Severity.LOW,
    asks="this process may use all online CPUs",
    threshold="usable = online",
    source="Linux, sched_setaffinity(2), cpuset(7)",
    advice="look at taskset -p $$ and the group's cpuset.cpus",
)
def cpu_affinity(machine: Machine) -> Finding:
    """Object when fewer CPUs may be used than there are."""
    usable, online = machine.cpu.usable_cpus, machine.cpu.logical_cpus
    if "cpu.usable_cpus" in machine.missing or online == 0:
        return untold(machine, "cpu.usable_cpus")
    if usable < online:
        claim = f"this process may use {usable} of {online} CPUs"
        return objects(claim, {"cpu.usable_cpus": usable, "cpu.logical_cpus": online})
    return passes(f"all {online} CPUs may be used", {"cpu.usable_cpus": usable, "cpu.logical_cpus": online})


@rule(
    "steal",
    "processor",
    Severity.MEDIUM,
    asks="the hypervisor gives the guest the time that it wants",
    threshold=f"steal below {STEAL_RATIO:.0%} of CPU time since boot; severe from {MUCH_STEAL_RATIO:.0%}",
    source="proc_stat(5); the verdict of Steelyard's runs uses the same bound",
    advice="use a host without neighbours, or dedicated CPUs; measure repeats over hours",
)
def steal(machine: Machine) -> Finding:
    """Object when the hypervisor ran others while this guest wanted to run."""
    ratio = machine.cpu.steal_ratio
    if ratio is None:
        return untold(machine, "cpu.steal_ratio")
    claim = f"{ratio:.2%} of CPU time since boot was stolen"
    if ratio < STEAL_RATIO:
        return passes(claim, {"cpu.steal_ratio": ratio})
    severity = Severity.HIGH if ratio >= MUCH_STEAL_RATIO else None
    return objects(f"{claim}: the hypervisor ran others", {"cpu.steal_ratio": ratio}, severity=severity)


@rule(
    "no-counters",
    "processor",
    Severity.MEDIUM,
    asks="the processor's counters can be read",
    threshold="perf knows a processor's events",
    source="/sys/bus/event_source/devices; perf_event_open(2)",
    advice="ask for a virtual PMU (QEMU: -cpu host,pmu=on; in clouds: metal or whole-socket sizes), or"
    " measure on bare metal; without it IPC, misses and top-down are null",
)
def no_counters(machine: Machine) -> Finding:
    """Object to machines, mostly guests, on which nothing can be counted."""
    found = has_hardware_counters(machine)
    if found is None:
        return untold(machine, "cpu.performance_monitors")
    listed = ", ".join(machine.cpu.performance_monitors)
    if found:
        return passes("the processor's counters are there", {"cpu.performance_monitors": listed})
    where = f"this guest of {machine.hypervisor}" if machine.hypervisor else "this machine"
    claim = f"{where} has no hardware counters: why a program is slow can be told in part only"
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
