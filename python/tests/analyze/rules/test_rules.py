"""Every rule about a workload speaks of its own trouble, and is silent on a machine without it."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from steelyard.analyze import Conditions, CpuSetUse, CpuUse, explain
from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.disks import DiskUse
from steelyard.analyze.facts.memory import MemoryUse
from steelyard.analyze.facts.network import NetworkUse
from steelyard.analyze.facts.power import Power
from steelyard.analyze.facts.pressure import PressureUse
from steelyard.analyze.facts.scheduler import Scheduler
from steelyard.analyze.facts.span import Span
from steelyard.analyze.operations.stalls import Stalls
from steelyard.analyze.operations.telemetry_correlation import Correlates, Moving
from steelyard.analyze.pressure.disk_limits import GroupLimit, LimitedDisk
from steelyard.analyze.pressure.kernel_activity import Activity, DiskActivity, NodeActivity
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.pressure.traffic_shaping import Shaper
from steelyard.analyze.profiles.figures import ProfileUse
from steelyard.analyze.rules.explain import load_rules
from steelyard.analyze.rules.findings import AREAS, PARTS, RULES, Finding, Rule
from steelyard.analyze.values import Quantity
from steelyard.analyze.workload import pressure_points
from steelyard.records import Machine
from tests.analyze.facts import changed
from tests.report.runs import machine_record

GIB = float(1 << 30)


def q(value: float | None, unit: str = "1") -> Quantity:
    return Quantity.of(value, unit, "not here")


def cpu(**modes: float) -> CpuUse:
    return CpuUse({**modes, "idle": 1 - sum(modes.values())})


def machine(**changes: Any) -> Machine:
    """Return a machine of two CPUs without a second thread a core; ``cpu_*`` changes its processor."""
    record = machine_record(2)
    cpus = {name[4:]: value for name, value in changes.items() if name.startswith("cpu_")}
    others = {name: value for name, value in changes.items() if not name.startswith("cpu_")}
    inner = record.cpu.model_copy(update={"threads_per_core": 1, "governor": "performance", **cpus})
    return record.model_copy(update={"cpu": inner, **others})


DISK = DiskActivity(
    "vda", q(50.0), q(1e5), q(1e5), q(1e5), q(65536.0), q(0.1), q(1.0), q(50.0), q(0.05), rotational=False
)
LIMITED = LimitedDisk(
    GroupLimit("sda", 2e6, "/sys/fs/cgroup/steelyard-1", "set for the run by blkio"),
    q(1.9e6, "bytes/s"),
    q(0.1e6, "bytes/s"),
)
NODES = [
    NodeActivity(0, q(0.02), q(0.0), q(5000.0), q(0.4)),
    NodeActivity(1, q(0.02), q(0.0), q(5000.0), q(0.4)),
]
CARD = NetworkUse("eth0", q(1e4), q(1e4), q(10.0), q(10.0), q(0.0), q(1.25e9), q(0.0))
TARGET = TargetUse(
    looks=50,
    span_ns=10**10,
    commands=("program",),
    processes=1.0,
    threads=2.0,
    threads_high=2,
    cpus=q(0.5),
    cpu_wait=q(0.01),
    busiest_wanted_ratio=q(0.4),
    switches_per_s=q(50.0),
    running_ratio=0.25,
    waiting_ratio=0.01,
    waits={"events": 0.5, "disk": 0.1, "network": 0.14},
    rss_high_bytes=q(1e8),
    rss_gain_bytes_per_s=q(0.0),
    minor_faults_per_s=q(100.0),
    major_faults_per_s=q(0.0),
    read_bytes_per_s=q(0.0),
    written_bytes_per_s=q(0.0),
    kernel_ratio=q(0.1),
)
CALM = Conditions(
    Span(0, 10**10),
    cpus=Cpus(
        {0: cpu(user=0.55, system=0.05), 1: cpu(user=0.55, system=0.05)},
        all=CpuSetUse("all", (0, 1), cpu(user=0.55, system=0.05)),
        server=CpuSetUse("server", (0, 1), cpu(user=0.55, system=0.05)),
    ),
    scheduler=Scheduler(blocked=q(0.0), context_switches_per_s=q(2000.0), waiting_per_cpu=q(0.1)),
    power=Power(throttles=q(0.0)),
    memory=MemoryUse(q(8 * GIB), q(6 * GIB), q(2 * GIB), q(0.0)),
    pressure={"cpu": PressureUse(q(0.2), q(0.0)), "io": PressureUse(q(0.0), q(0.0))},
    network=[CARD],
    disks=[DiskUse("vda", q(1e5), q(1e5), q(0.05))],
    has_load=False,
    activity=Activity(
        vmstat={"pgfault": 1000.0},
        tcp={"sent_segments": 1000.0},
        forks_per_s=q(1.0),
        disks=[DISK],
        nodes=NODES,
        wait_by_cpu={0: 0.1, 1: 0.1},
        dirty_high_bytes=q(1e6),
        page_tables_bytes=q(1e7),
        anonymous_bytes=q(1e8),
        anonymous_huge_bytes=q(0.0),
    ),
    target=TARGET,
    machine=machine(),
)


def busy(conditions: Conditions, **modes: float) -> Conditions:
    use = cpu(**modes)
    sets = {name: replace(getattr(conditions.cpus, name), use=use) for name in ("all", "server")}
    return changed(conditions, by_cpu={0: use, 1: use}, **sets)


def target(conditions: Conditions = CALM, **changes: Any) -> Conditions:
    return replace(conditions, target=replace(TARGET, **changes))


def activity(conditions: Conditions = CALM, **changes: Any) -> Conditions:
    return replace(conditions, activity=replace(CALM.activity, **changes))


futex = partial(target, threads_high=4, waits={"lock": 0.7}, lock_switches_per_s=q(400.0), lock_threads=3)
STALLS = Stalls(
    stretches=((10**9, 2 * 10**9), (5 * 10**9, 6 * 10**9)),
    ratio=0.2,
    usual_per_s=1000.0,
    stalled_per_s=100.0,
    bin_ns=10**8,
    period_ns=None,
)


def moving(name: str, r: float, *, lag_s: float = 0.0) -> Moving:
    return Moving(name, "disk", "1", r, r - 0.1, r + 0.1, int(lag_s * 1e9), 40.0, 100)


def stalling(*found: Moving) -> Conditions:
    return changed(CALM, stalls=STALLS, correlates=Correlates(20, 41, 10**8, found=found))


def event(**events: float) -> Conditions:
    return activity(vmstat={**CALM.activity.vmstat, **events})


def reading(conditions: Conditions) -> Conditions:
    """Return conditions whose program reads files at 30,000 pages a second."""
    assert conditions.target is not None
    return replace(conditions, target=replace(conditions.target, read_bytes_per_s=q(30_000.0 * 4096)))


def disk(conditions: Conditions = CALM, **changes: Any) -> Conditions:
    return activity(conditions, disks=[replace(DISK, **changes)])


def tcp(**counters: float) -> Conditions:
    return activity(tcp={**CALM.activity.tcp, **counters})


def on(**changes: Any) -> Conditions:
    return replace(CALM, machine=machine(**changes))


ALONE = replace(CALM, target=None)
FULL = busy(CALM, user=0.97, system=0.02)
LIMIT = Shaper("veth0", "tbf", 1.25e7, 1.2e7, 0.0, 500.0, 0.0)
SLOW_KERNEL = machine().kernel.model_copy(update={"clocksource": "hpet"})

TROUBLED: dict[str, Conditions] = {
    "cpu-bound": target(FULL, cpus=q(1.9), cpu_wait=q(0.1), busiest_wanted_ratio=q(0.97), waits={}),
    "one-thread": target(cpus=q(0.97), cpu_wait=q(0.02), busiest_wanted_ratio=q(0.98), waits={}),
    "mostly-asleep": target(
        cpus=q(0.05), cpu_wait=q(0.0), running_ratio=0.02, waiting_ratio=0.0, waits={"events": 0.97}
    ),
    "short-lived": target(
        cpus=q(0.98), cpu_wait=q(0.0), running_ratio=0.01, unseen_cpus=0.96, waits={"child": 0.97}
    ),
    "smt-capacity": on(cpu_threads_per_core=2),
    "interrupts-on-one-cpu": changed(CALM, by_cpu={0: cpu(user=0.2, softirq=0.5), 1: cpu(user=0.5)}),
    "hard-interrupts": busy(CALM, user=0.4, irq=0.2),
    "low-clock": changed(on(cpu_frequency_max_hz=3_000_000_000), frequency_hz=q(1.5e9)),
    "uneven-cpus": changed(ALONE, by_cpu={0: cpu(user=0.97), 1: cpu(user=0.05)}),
    "oversubscribed": changed(busy(ALONE, user=0.97), waiting_per_cpu=q(3.0)),
    "cpus-taken": target(cpus=q(0.5), cpu_wait=q(0.3)),
    "lock-contention": futex(cpus=q(1.0)),
    "idle-in-futex": futex(cpus=q(0.01), cpu_wait=q(0.0)),
    "kernel-locks": target(waits={"kernel lock": 0.4}, places={"rwsem_down_read_slowpath": 1.0}),
    "switches": target(switches_per_s=q(60_000.0)),
    "forks": activity(forks_per_s=q(900.0)),
    "cpu-quota": activity(throttled={"/jobs/a": 0.4}),
    "blocked-elsewhere": changed(CALM, blocked=q(3.0)),
    "queue-beside-idle": changed(
        activity(wait_by_cpu={0: 2.5, 1: 0.0}), by_cpu={0: cpu(user=0.99), 1: cpu(user=0.05)}
    ),
    "disk-limited": changed(CALM, blocked=q(60.0), limited_disks=[LIMITED]),
    "waits-for-disk": target(waits={"disk": 0.8}, places={"folio_wait_bit_common": 1.0}),
    "cpus-wait-for-disk": disk(busy(CALM, user=0.3, iowait=0.4), busy_ratio=q(0.5)),
    "disk-slow": disk(latency_ns=q(40e6)),
    "disk-queue": disk(queue=q(30.0), busy_ratio=q(0.9)),
    "small-operations": disk(operation_bytes=q(4096.0), operations_per_s=q(20_000.0), busy_ratio=q(0.6)),
    "flushes": disk(flushes_per_s=q(40.0), busy_ratio=q(0.4)),
    "dirty-limit": replace(
        activity(dirty_high_bytes=q(1.15 * GIB)),
        machine=machine(kernel=machine().kernel.model_copy(update={"sysctl": {"vm.dirty_ratio": "20"}})),
    ),
    "seeks": disk(rotational=True, operations_per_s=q(120.0), operation_bytes=q(8192.0), busy_ratio=q(0.9)),
    "disk-scheduler": replace(
        disk(operations_per_s=q(90_000.0)),
        machine=machine(disks=[machine().disks[0].model_copy(update={"scheduler": "bfq"})]),
    ),
    "swapping": event(pswpin=300.0, pswpout=40.0),
    "direct-reclaim": event(allocstall_normal=12.0, pgscan_direct=900.0),
    "major-faults": target(major_faults_per_s=q(400.0)),
    "minor-faults": target(minor_faults_per_s=q(400_000.0)),
    "huge-pages-refused": event(thp_fault_alloc=10.0, thp_fault_fallback=90.0),
    "small-pages": replace(
        target(rss_high_bytes=q(4 * GIB), cpus=q(1.2)),
        activity=replace(CALM.activity, anonymous_bytes=q(4 * GIB)),
    ),
    "page-tables": activity(page_tables_bytes=q(0.5 * GIB)),
    "killed-for-memory": event(oom_kill=0.1),
    "refaults": reading(event(workingset_refault_file=30_000.0, workingset_activate_file=20_000.0)),
    "compaction": event(compact_stall=50.0),
    "memory-grows": target(rss_gain_bytes_per_s=q(50e6)),
    "link-limited": replace(CALM, shapers=[LIMIT]),
    "limit-drops": replace(CALM, shapers=[replace(LIMIT, sent_bytes_per_s=5e6, drops_per_s=20.0)]),
    "waits-for-network": replace(
        target(waits={"network": 0.8}), network=[replace(CARD, sent_bytes_per_s=q(5e7))]
    ),
    "retransmissions": tcp(retransmitted_segments=50.0),
    "accept-queue-full": tcp(listen_overflows=3.0),
    "tcp-timeouts": tcp(timeouts=5.0),
    "socket-buffers": tcp(udp_receive_buffer_errors=100.0),
    "connection-churn": tcp(passive_opens=5000.0),
    "small-packets": replace(
        CALM, network=[replace(CARD, received_packets_per_s=q(2e5), received_bytes_per_s=q(2e7))]
    ),
    "loopback-heavy": replace(CALM, network=[replace(CARD, interface="lo", sent_bytes_per_s=q(2e9))]),
    "numa-remote": activity(nodes=[NODES[0], replace(NODES[1], remote_ratio=q(0.5))]),
    "numa-miss": activity(nodes=[NODES[0], replace(NODES[1], miss_ratio=q(0.2))]),
    "numa-uneven": activity(nodes=[replace(NODES[0], free_ratio=q(0.01)), NODES[1]]),
    "numa-migrations": event(numa_pages_migrated=9000.0),
    "numa-faults-remote": event(numa_hint_faults=5000.0, numa_hint_faults_local=1000.0),
    "saving-governor": on(cpu_governor="powersave"),
    "boost-off": on(cpu_boost=False),
    "slow-clock-source": on(kernel=SLOW_KERNEL),
    "fewer-cpus": target(
        on(cpu_usable_cpus=1), cpus=q(0.95), cpu_wait=q(0.0), busiest_wanted_ratio=q(0.5), waits={}
    ),
    "quota-reached": on(cpu_quota_cpus=0.5),
    "operations-stall-disk": stalling(moving("disk writing", -0.8, lag_s=1.0)),
    "operations-stall-memory": stalling(moving("direct reclaim", -0.7)),
    "operations-stall-busy": changed(stalling(), stall_cpus=(1.2, 1.25)),
    "operations-stall-periodic": changed(CALM, stalls=replace(STALLS, period_ns=2 * 10**9)),
    "page-table-isolation": replace(
        busy(target(kernel_ratio=q(0.35)), user=0.4, system=0.22),
        machine=machine(cpu_mitigations={"meltdown": "Mitigation: PTI"}),
    ),
}

ALSO: dict[str, set[str]] = {
    "oversubscribed": {"cpu-bound"},
}
"""Rule -> others that rightly speak of the same trouble."""


def workload_rules() -> dict[str, Rule]:
    load_rules()
    areas = ("load", "profiles", "counters", "stages")
    other = tuple(f"steelyard.analyze.rules.{area}" for area in areas)
    return {
        name: each
        for name, each in RULES.items()
        if each.answer.__module__ not in other and each.answer.__module__.startswith("steelyard.")
    }


def test_every_rule_has_a_case_here() -> None:
    assert set(TROUBLED) == set(workload_rules())


@pytest.mark.parametrize("name", sorted(TROUBLED))
def test_a_rule_speaks_of_its_trouble_alone(name: str) -> None:
    found = {finding.id: finding for finding in explain(TROUBLED[name])}
    assert set(found) == {name} | ALSO.get(name, set())
    finding = found[name]
    assert finding.claim.endswith(".")
    assert finding.evidence
    assert finding.next_step
    assert finding.gain
    assert finding.threshold
    assert finding.area in AREAS
    assert finding.part is None or finding.part in PARTS
    assert 0 <= finding.weight <= 1


def test_nothing_is_claimed_of_a_calm_machine_nor_of_an_unknown_one() -> None:
    assert explain(CALM) == []
    assert explain(ALONE) == []
    assert explain(Conditions(Span(0, 1), has_load=False)) == []


NEAR: dict[str, Conditions] = {
    "idle workers of a pool": target(
        threads=8.0, threads_high=8, waits={"lock": 0.9}, lock_switches_per_s=q(3.0), running_ratio=0.05
    ),
    "a program that waits for answers": target(waits={"network": 0.2}),
    "a disk that is asked now and then": disk(latency_ns=q(40e6), operations_per_s=q(1.0)),
    "a pinned server under load": replace(
        TROUBLED["queue-beside-idle"], has_load=True, target=None, activity=CALM.activity
    ),
    "a governor that gives the highest clock all the same": changed(
        on(cpu_governor="powersave", cpu_frequency_max_hz=3_000_000_000), frequency_hz=q(2.95e9)
    ),
    "memory of one node": activity(nodes=[replace(NODES[0], remote_ratio=q(0.9), miss_ratio=q(0.5))]),
    "growth seen for a moment": target(rss_gain_bytes_per_s=q(50e6), span_ns=2 * 10**9),
    "a limit that is far away": replace(CALM, shapers=[replace(LIMIT, sent_bytes_per_s=1e6)]),
    "stalls that nothing goes with": stalling(),
    "stalls while the disk rests": stalling(moving("disk writing", 0.8)),
    "writes that follow operations": stalling(moving("disk writing", -0.8, lag_s=-1.0)),
    "a weak relation": stalling(moving("disk writing", -0.3)),
    "one stretch": changed(
        stalling(moving("disk writing", -0.8)), stalls=replace(STALLS, stretches=STALLS.stretches[:1])
    ),
    "stretches of no weight": changed(
        stalling(moving("disk writing", -0.8)), stalls=replace(STALLS, ratio=0.01, period_ns=10**9)
    ),
    "stalls of a machine that rests in them": changed(stalling(), stall_cpus=(0.4, 1.25)),
    "disk writing without stalls": changed(
        CALM, correlates=Correlates(20, 41, 10**8, found=(moving("disk writing", -0.8),))
    ),
    "few retransmissions": tcp(retransmitted_segments=5.0),
    "a slow clock on an idle machine": replace(busy(CALM, user=0.1), machine=machine(kernel=SLOW_KERNEL)),
}


@pytest.mark.parametrize("name", sorted(NEAR))
def test_what_only_looks_like_trouble_is_none(name: str) -> None:
    assert [finding.id for finding in explain(NEAR[name])] == []


def test_refaults_tell_too_little_memory_from_files_that_no_memory_would_keep() -> None:
    load_rules()

    def refaults(**events: float) -> Finding:
        found = RULES["refaults"].ask(
            replace(reading(event(workingset_refault_file=30_000.0, **events)), machine=limited_machine)
        )
        assert found is not None
        return found

    record = machine()
    limited_memory = record.memory.model_copy(update={"limit_bytes": 1 << 30})
    limited_machine = record.model_copy(update={"memory": limited_memory})
    # Of a program that reads nothing, the refaults are a neighbour's.
    assert RULES["refaults"].ask(event(workingset_refault_file=30_000.0)) is None
    spared = refaults(workingset_activate_file=20_000.0, pgscan_kswapd=9_000.0)
    assert spared.part == "dram_capacity"
    assert "control group" not in spared.claim
    long_ago = refaults(pgscan_kswapd=9_000.0)
    assert long_ago.part is None
    assert "long before" in long_ago.claim
    limited = refaults(workingset_activate_file=20_000.0)
    assert "the limit of a control group, not the machine's memory" in limited.claim
    # How little of the machine's memory cannot be reclaimed says nothing about either.
    (point,) = pressure_points(event(workingset_refault_file=30_000.0), [limited])
    assert (point.part, point.ratio) == ("dram_capacity", None)


def test_without_schedstat_the_run_queue_tells() -> None:
    full = busy(ALONE, user=0.97)
    assert "oversubscribed" in {
        one.id for one in explain(changed(full, waiting_per_cpu=q(None), runnable=q(8.0)))
    }
    assert "oversubscribed" not in {
        one.id for one in explain(changed(full, waiting_per_cpu=q(None), runnable=q(2.0)))
    }


PROFILE = ProfileUse(
    samples=1000,
    own={"work": 0.2, "rest": 0.1},
    total={"work": 0.2},
    categories={"application": 0.9, "unclassified": 0.1},
    unclassified_ratio=0.1,
)


def sampled(conditions: Conditions = CALM, **changes: Any) -> Conditions:
    return replace(conditions, profile=replace(PROFILE, **changes))


def category(**shares: float) -> Conditions:
    return sampled(categories={**PROFILE.categories, **shares}, leaders=dict.fromkeys(shares, "leader"))


PROFILED: dict[str, Conditions] = {
    "hot-function": sampled(own={"work": 0.6}, modules={"work": "program"}),
    "memory-copies": target(
        replace(category(memory=0.7), machine=machine()), cpus=q(0.9), rss_high_bytes=q(GIB)
    ),
    "kernel-spinning": sampled(own={"native_queued_spin_lock_slowpath": 0.12}),
    "futex-calls": sampled(total={"__x64_sys_futex": 0.2}),
    "unresolved": sampled(unclassified_ratio=0.6),
    "tax-compression": category(compression=0.4),
    "tax-serialization": category(serialization=0.4),
    "tax-rpc": category(rpc=0.4),
    "tax-encryption": category(encryption=0.4),
    "tax-hashing": category(hashing=0.4),
    "tax-allocation": category(allocation=0.1, kernel_memory=0.1),
    "tax-logging": category(logging=0.2),
    "kernel-entry": category(kernel_entry=0.2),
    "kernel-faults": category(kernel_page_faults=0.2),
    "kernel-network": category(kernel_network=0.5),
    "kernel-storage": category(kernel_storage=0.5),
    "kernel-scheduling": category(kernel_scheduling=0.3),
    "kernel-processes": category(kernel_process=0.3),
    "garbage-collection": category(runtime_gc=0.3),
    "interpreter": category(runtime_interpreter=0.6),
    "compiler": category(runtime_compiler=0.3),
}


def test_samples_without_a_name_are_reported_by_their_library() -> None:
    unnamed = "[unknown] [libSvtAv1Enc.so.1.4.1]"
    (finding,) = explain(sampled(own={unnamed: 0.42}, modules={unnamed: "libSvtAv1Enc.so.1.4.1"}))
    assert (
        finding.claim
        == "42 % of the CPU time is in libSvtAv1Enc.so.1.4.1, whose functions have no name here."
    )
    assert "debug symbols" in finding.next_step
    (finding,) = explain(
        sampled(categories={"runtime_interpreter": 0.6}, leaders={"runtime_interpreter": unnamed})
    )
    assert finding.claim == "60 % of the CPU time is interpreted application code."


def test_every_rule_about_profiles_has_a_case_here() -> None:
    load_rules()
    assert set(PROFILED) == {
        name for name, one in RULES.items() if one.answer.__module__ == "steelyard.analyze.rules.profiles"
    }


@pytest.mark.parametrize("name", sorted(PROFILED))
def test_a_rule_about_profiles_speaks_of_its_trouble_alone(name: str) -> None:
    (finding,) = explain(PROFILED[name])
    assert finding.id == name
    assert finding.gain
    assert finding.evidence


@pytest.mark.parametrize("name", sorted(PROFILED))
def test_few_samples_say_nothing(name: str) -> None:
    profile = PROFILED[name].profile
    assert profile is not None
    assert explain(replace(PROFILED[name], profile=replace(profile, samples=60))) == []


def test_an_ordinary_profile_is_no_finding() -> None:
    assert explain(sampled()) == []


def test_copies_are_found_also_where_neighbours_take_the_cpus() -> None:
    copying = replace(category(memory=0.7), machine=machine())
    starved = target(copying, cpus=q(0.3), cpu_wait=q(0.6), rss_high_bytes=q(GIB))
    assert "memory-copies" in [finding.id for finding in explain(starved)]
    idle = target(copying, cpus=q(0.3), cpu_wait=q(0.1), rss_high_bytes=q(GIB))
    assert "memory-copies" not in [finding.id for finding in explain(idle)]


def test_copies_of_what_a_cache_holds_are_not_called_bandwidth() -> None:
    small = target(replace(category(memory=0.7), machine=machine()), cpus=q(0.9), rss_high_bytes=q(1e6))
    assert explain(small) == []
