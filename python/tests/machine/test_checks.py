"""Each rule on a small machine at which it objects and on one that passes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, SteelyardError, UsageError
from steelyard.machine import snapshot
from steelyard.machine.checks import registry
from steelyard.machine.checks.reference import PAGE, page
from steelyard.machine.checks.registry import all_rules, built_in, check
from steelyard.machine.checks.rule import Finding, Outcome, Rule, RuleAnswer, Severity
from steelyard.records import LinkSettings, Machine

from .trees import memory_device, write_tree

Files = dict[str, str]
CPU, NODE, NET = "sys/devices/system/cpu", "sys/devices/system/node", "sys/class/net/eth0"
SYSCTL = "proc/sys"


def cpus(count: int, *, online: str | None = None) -> Files:
    files = {f"{CPU}/present": f"0-{count - 1}", f"{CPU}/online": online or f"0-{count - 1}"}
    return files | {"proc/self/status": f"Cpus_allowed_list:\t0-{count - 1}\n"}


def frequency(count: int = 2, **values: str) -> Files:
    wanted = {"cpuinfo_max_freq": "3000000", "scaling_max_freq": "3000000", **values}
    return cpus(count) | {
        f"{CPU}/cpu{cpu}/cpufreq/{name}": text for cpu in range(count) for name, text in wanted.items()
    }


def threads(*groups: str, online: str, present: str = "0-3") -> Files:
    """CPUs 0, 1 ... with the lists of their cores' threads."""
    files = {f"{CPU}/present": present, f"{CPU}/online": online}
    return files | {f"{CPU}/cpu{cpu}/topology/core_cpus_list": text for cpu, text in enumerate(groups)}


def nodes(*sizes_kib: int | None, cpu_lists: tuple[str, ...] = ("0", "1", "2")) -> Files:
    files: Files = {}
    for index, size in enumerate(sizes_kib):
        files[f"{NODE}/node{index}/cpulist"] = cpu_lists[index]
        files[f"{NODE}/node{index}/distance"] = " ".join(
            "10" if index == other else "21" for other in range(len(sizes_kib))
        )
        if size is not None:
            files[f"{NODE}/node{index}/meminfo"] = f"Node {index} MemTotal:  {size} kB\n"
    return files


def l1(*sizes: str) -> Files:
    files = cpus(len(sizes))
    for cpu, size in enumerate(sizes):
        base = f"{CPU}/cpu{cpu}/cache/index0"
        files |= {f"{base}/level": "1", f"{base}/type": "Data", f"{base}/size": size}
        files[f"{base}/shared_cpu_list"] = str(cpu)
    return files


def slots(*devices: tuple[str, int, int, int]) -> Files:
    """Memory devices: locator, GiB, rated and configured MT/s; latin-1 so that bytes come through."""
    raw = b"".join(memory_device(*device) for device in devices)
    return {"sys/firmware/dmi/tables/DMI": raw.decode("latin-1")}


def memory(**fields: str) -> Files:
    return {"proc/meminfo": "MemTotal: 1048576 kB\n" + "".join(f"{k}: {v}\n" for k, v in fields.items())}


def card(count: int = 4, **files: str) -> Files:
    base = {f"{NET}/device/vendor": "0x1", f"{NET}/operstate": "up", f"{NET}/speed": "25000"}
    return cpus(count) | base | {f"{NET}/{name.replace('__', '/')}": text for name, text in files.items()}


def disk(name: str, scheduler: str, rotational: str = "0") -> Files:
    base = f"sys/block/{name}"
    queue = {"scheduler": scheduler, "rotational": rotational}
    return {f"{base}/size": "2048"} | {f"{base}/queue/{key}": text for key, text in queue.items()}


def pci(width: str, rate: str = "16.0 GT/s PCIe", code: str = "0x020000") -> Files:
    base = "sys/bus/pci/devices/0000:41:00.0"
    return {
        f"{base}/class": code,
        f"{base}/current_link_width": width,
        f"{base}/max_link_width": "16",
        f"{base}/current_link_speed": rate,
        f"{base}/max_link_speed": "16.0 GT/s PCIe",
    }


def irqs(*counts: int) -> Files:
    names = " ".join(f"CPU{cpu}" for cpu in range(len(counts)))
    line = " ".join(map(str, counts))
    return cpus(len(counts)) | {"proc/interrupts": f" {names}\n 24: {line} PCI-MSI eth0\nLOC: 9 9 Local\n"}


def idle(latency_us: str, disable: str = "0") -> Files:
    base = f"{CPU}/cpu0/cpuidle/state2"
    return cpus(1) | {f"{base}/name": "C6", f"{base}/latency": latency_us, f"{base}/disable": disable}


def sysctl(name: str, value: str) -> Files:
    return {f"proc/sys/{name.replace('.', '/')}": value}


def vulnerable(name: str, state: str) -> Files:
    return {f"{CPU}/vulnerabilities/{name}": state}


def clock(name: str) -> Files:
    return {"sys/devices/system/clocksource/clocksource0/current_clocksource": name}


def group(**files: str) -> Files:
    mount = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
    }
    return cpus(4) | memory() | mount | {f"sys/fs/cgroup/{k.replace('_', '.')}": v for k, v in files.items()}


def stat(steal: int) -> Files:
    return {"proc/stat": f"cpu  100 0 100 {800 - steal} 0 0 0 {steal} 0 0\n"}


def pool(free: int) -> Files:
    base = "sys/kernel/mm/hugepages/hugepages-2048kB"
    return memory() | {f"{base}/nr_hugepages": "400", f"{base}/free_hugepages": str(free)}


def thp(enabled: str, defrag: str) -> Files:
    base = "sys/kernel/mm/transparent_hugepage"
    return {f"{base}/enabled": enabled, f"{base}/defrag": defrag}


EVENTS = "sys/bus/event_source/devices"
EVEN = (("CPU0 Channel A DIMM 0", 32, 4800, 4800), ("CPU1 Channel A DIMM 0", 32, 4800, 4800))
UNEVEN = (("CPU0 Channel A DIMM 0", 32, 4800, 4800), ("CPU1 Channel A DIMM 0", 64, 4800, 4800))
HALF = (("CPU0 Channel A DIMM 0", 32, 4800, 4800), ("CPU0 Channel B DIMM 0", 0, 0, 0))
TWO = nodes(1 << 20, 1 << 20)
SMALL_RING = LinkSettings(receive_ring=512, receive_ring_max=8192)
LARGE_RING = LinkSettings(receive_ring=4096, receive_ring_max=8192)

CASES: dict[str, tuple[Files, Files]] = {
    "governor": (frequency(scaling_governor="ondemand"), frequency(scaling_governor="performance")),
    "governors-differ": (
        frequency(scaling_governor="performance") | {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"},
        frequency(scaling_governor="performance"),
    ),
    "boost": ({f"{CPU}/cpufreq/boost": "0"}, {f"{CPU}/cpufreq/boost": "1"}),
    "frequency-limit": (frequency(scaling_max_freq="2000000"), frequency()),
    "deep-idle": (idle("133"), idle("133", disable="1")),
    "smt-partly": (
        threads("0,2", "1", "0,2", online="0-2"),
        threads("0,2", "1,3", "0,2", "1,3", online="0-3"),
    ),
    "cores-differ": (l1("48K", "32K"), l1("32K", "32K")),
    "offline-cpus": (cpus(4, online="0-2"), cpus(4)),
    "isolated-cpus": ({f"{CPU}/isolated": "2-3"}, {f"{CPU}/isolated": ""}),
    "throttled": (
        cpus(1) | {f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "7"},
        cpus(1) | {f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "0"},
    ),
    "mitigations-cost": (vulnerable("meltdown", "Mitigation: PTI"), vulnerable("meltdown", "Not affected")),
    "unmitigated": (vulnerable("mds", "Vulnerable; SMT off"), vulnerable("mds", "Not affected")),
    "cpu-quota": (group(cpu_max="150000 100000"), group(cpu_max="max 100000")),
    "cpu-affinity": (cpus(4) | {"proc/self/status": "Cpus_allowed_list:\t0-1\n"}, cpus(4)),
    "steal": (stat(20), stat(5)),
    "no-counters": ({f"{EVENTS}/software/type": "1"}, {f"{EVENTS}/cpu/type": "4"}),
    "dimms-unbalanced": (slots(*UNEVEN), slots(*EVEN)),
    "channels-empty": (slots(*HALF), slots(*EVEN)),
    "dimm-rate": (slots(("A1", 32, 5600, 4400)), slots(("A1", 32, 5600, 5600))),
    "memory-errors": (
        {"sys/devices/system/edac/mc/mc0/ce_count": "3", "sys/devices/system/edac/mc/mc0/ue_count": "0"},
        {"sys/devices/system/edac/mc/mc0/ce_count": "0", "sys/devices/system/edac/mc/mc0/ue_count": "0"},
    ),
    "swap": (
        memory(SwapTotal="1048576 kB", SwapFree="1048576 kB"),
        memory(SwapTotal="0 kB", SwapFree="0 kB"),
    ),
    "huge-pages-transparent": (
        thp("always madvise [never]", "always [madvise] never"),
        thp("always [madvise] never", "always [madvise] never"),
    ),
    "huge-pages-idle": (pool(300), pool(10)),
    "memory-limit": (group(memory_max="536870912"), group(memory_max="max")),
    "node-without-memory": (nodes(1 << 20, 0), TWO),
    "numa-uneven": (nodes(1 << 20, 1 << 19), TWO),
    "numa-hidden": (
        cpus(2)
        | {f"{CPU}/cpu0/topology/physical_package_id": "0", f"{CPU}/cpu1/topology/physical_package_id": "1"}
        | nodes(1 << 20, cpu_lists=("0-1",)),
        cpus(2)
        | {f"{CPU}/cpu0/topology/physical_package_id": "0", f"{CPU}/cpu1/topology/physical_package_id": "1"}
        | TWO,
    ),
    "numa-balancing": (
        TWO | sysctl("kernel.numa_balancing", "1"),
        TWO | sysctl("kernel.numa_balancing", "0"),
    ),
    "zone-reclaim": (TWO | sysctl("vm.zone_reclaim_mode", "1"), TWO | sysctl("vm.zone_reclaim_mode", "0")),
    "memory-tiers": (nodes(1 << 20, 1 << 20, cpu_lists=("0-1", "")), TWO),
    "disk-scheduler": (disk("nvme0n1", "none [mq-deadline]"), disk("nvme0n1", "[none] mq-deadline")),
    "disk-rotates": (disk("sda", "[mq-deadline]", "1"), disk("sda", "[mq-deadline]", "0")),
    "ring-small": (card(), card()),
    "queues-few": (
        card(**{"queues__rx-0__rps_cpus": "0"}),
        card(**{f"queues__rx-{queue}__rps_cpus": "0" for queue in range(4)}),
    ),
    "link-slow": (card(speed="1000"), card()),
    "offloads-off": (card(), card()),
    "interrupts-one-cpu": (irqs(99_000, 10, 10), irqs(40_000, 30_000, 30_000)),
    "link-narrow": (pci("8"), pci("16")),
    "backlog-small": (sysctl("net.core.somaxconn", "128"), sysctl("net.core.somaxconn", "4096")),
    "clocksource": (clock("hpet"), clock("tsc")),
    "command-line": ({"proc/cmdline": "ro maxcpus=4"}, {"proc/cmdline": "ro quiet -- mem=1G"}),
    "perf-paranoid": (
        sysctl("kernel.perf_event_paranoid", "2"),
        sysctl("kernel.perf_event_paranoid", "-1"),
    ),
    "nmi-watchdog": (sysctl("kernel.nmi_watchdog", "1"), sysctl("kernel.nmi_watchdog", "0")),
    "io-uring": (sysctl("kernel.io_uring_disabled", "2"), sysctl("kernel.io_uring_disabled", "0")),
    "resctrl-groups": (
        {"sys/fs/resctrl/info/L3/cbm_mask": "fff", "sys/fs/resctrl/batch/schemata": "L3:0=f"},
        {"sys/fs/resctrl/info/L3/cbm_mask": "fff"},
    ),
}

LINKS: dict[str, tuple[LinkSettings, LinkSettings]] = {
    "ring-small": (SMALL_RING, LARGE_RING),
    "offloads-off": (LinkSettings(offloads={"rx-gro": "off"}), LinkSettings(offloads={"rx-gro": "on"})),
}
"""What the kernel would tell of the card, which no tree can hold."""


def machine(root: Path, files: Files, settings: LinkSettings | None = None) -> Machine:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    if f"{NET}/operstate" in files:
        (root / NET / "device/driver").symlink_to("../../../bus/pci/drivers/mlx5_core")
    return snapshot(root, ask_link=lambda name: settings or "nobody was asked")


def answer(id_: str, found: Machine) -> Finding:
    (one,) = [one for one in built_in() if one.id == id_]
    return one.examine(found)


@pytest.mark.parametrize("id_", CASES)
def test_rule_objects_and_passes(id_: str, tmp_path: Path) -> None:
    bad, good = LINKS.get(id_, (None, None))
    objecting = answer(id_, machine(tmp_path / "bad", CASES[id_][0], bad))
    assert objecting.outcome is Outcome.OBJECTS, objecting.claim
    assert objecting.evidence
    passing = answer(id_, machine(tmp_path / "good", CASES[id_][1], good))
    assert passing.outcome is Outcome.PASSES, passing.claim


def test_every_rule_has_a_case_and_says_all() -> None:
    assert list(CASES) == [one.id for one in built_in()]
    for one in built_in():
        assert one.asks
        assert one.threshold
        assert one.source
        assert one.advice


def test_of_nothing_nothing_is_said(tmp_path: Path) -> None:
    for one in check(snapshot(tmp_path), built_in()):
        # Quotas and limits that no file states are absent, and pass; nothing objects, and reasons are words.
        assert one.finding.outcome is not Outcome.OBJECTS, one.rule.id
        assert one.finding.claim
    passed = {
        one.rule.id for one in check(snapshot(tmp_path), built_in()) if one.finding.outcome is Outcome.PASSES
    }
    assert passed == {"cpu-quota", "memory-limit"}


def test_severity_depends_on_what_was_found(tmp_path: Path) -> None:
    def severity(id_: str, name: str, files: Files) -> Severity | None:
        return answer(id_, machine(tmp_path / name, files)).severity

    assert severity("steal", "s1", stat(60)) is Severity.HIGH
    assert severity("steal", "s2", stat(20)) is None
    acpi = frequency(scaling_governor="powersave", scaling_driver="acpi-cpufreq")
    assert severity("governor", "g1", acpi) is Severity.HIGH
    pstate = frequency(scaling_governor="powersave", scaling_driver="intel_pstate")
    assert severity("governor", "g2", pstate) is Severity.LOW
    saving = {f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power"}
    assert severity("governor", "g3", pstate | saving) is Severity.MEDIUM
    swapped = memory(SwapTotal="1048576 kB", SwapFree="1000 kB")
    assert severity("swap", "w", swapped) is Severity.MEDIUM
    assert severity("clocksource", "c", clock("kvm-clock")) is Severity.LOW


def test_no_false_alarm(tmp_path: Path) -> None:
    def passes(id_: str, name: str, files: Files, settings: LinkSettings | None = None) -> None:
        found = answer(id_, machine(tmp_path / name, files, settings))
        assert found.outcome is Outcome.PASSES, found.claim

    smt_off = threads("0", "1", online="0-1") | {f"{CPU}/smt/control": "off"}
    passes("offline-cpus", "smt", smt_off)
    hybrid = threads("0,2", "1", "0,2", online="0-2", present="0-2")
    passes("smt-partly", "hybrid", hybrid)
    autonomous = frequency(
        scaling_governor="powersave",
        scaling_driver="intel_pstate",
        energy_performance_preference="balance_performance",
    )
    passes("governor", "pstate", autonomous)
    passes("queues-few", "rps", card(**{"queues__rx-0__rps_cpus": "f"}))
    passes("interrupts-one-cpu", "few", irqs(90, 0))
    passes("interrupts-one-cpu", "alone", irqs(90_000))
    # A display device lowers its link's rate when it is idle.
    passes("link-narrow", "idle", pci("16", "2.5 GT/s PCIe", "0x030000"))
    passes("ring-small", "most", card(), LinkSettings(receive_ring=256, receive_ring_max=256))
    passes("numa-balancing", "one", nodes(1 << 20) | sysctl("kernel.numa_balancing", "1"))
    guest = {"proc/cpuinfo": "processor : 0\nflags : lm hypervisor\n"}
    passes("disk-rotates", "virtual", guest | disk("vda", "[none]", "1"))
    # A hypervisor that hides leaves the driver's name to tell; a guest's SCSI disk tells no more than virtio.
    passes("disk-rotates", "hidden", disk("vda", "[none]", "1"))
    passes("disk-rotates", "scsi", guest | disk("sda", "[none]", "1"))


def test_order_exit_and_ignoring(tmp_path: Path) -> None:
    files = clock("hpet") | sysctl("kernel.nmi_watchdog", "1") | {f"{CPU}/cpufreq/boost": "0"}
    found = machine(tmp_path, files)
    answers = check(found, built_in())
    assert [(one.rule.id, one.severity) for one in answers if one.objects] == [
        ("clocksource", Severity.HIGH),
        ("boost", Severity.MEDIUM),
        ("nmi-watchdog", Severity.LOW),
    ]
    assert [one.says_no() for one in answers[:3]] == [True, True, False]
    assert answers[2].says_no(strict=True)
    left = check(found, built_in(), ignore=["boost"])
    assert "boost" not in {one.rule.id for one in left}
    with pytest.raises(UsageError, match="unknown check 'bost'"):
        check(found, built_in(), ignore=["bost"])


MINE = Rule(
    id="mine",
    area="mine",
    severity=Severity.LOW,
    asks="all is well",
    threshold="none",
    source="me",
    advice="nothing",
    examine=lambda found: Finding(Outcome.OBJECTS, "it is not", {}),
)


class Point:
    """What stands in for an entry point of an installed package."""

    name, value = "mine", "mine.rules:RULES"

    def __init__(self, found: object) -> None:
        self.found = found

    def load(self) -> object:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def with_package(monkeypatch: pytest.MonkeyPatch, found: object) -> Callable[[], list[Rule]]:
    monkeypatch.setattr(registry, "entry_points", lambda group: [Point(found)])
    return all_rules


def test_packages_bring_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for found in (MINE, [MINE], (MINE,)):
        assert with_package(monkeypatch, found)()[-1] is MINE
    answers = check(snapshot(tmp_path), all_rules())
    assert next(one for one in answers if one.objects) == RuleAnswer(MINE, MINE.examine(snapshot(tmp_path)))


@pytest.mark.parametrize(
    "found", [ImportError("no"), "text", 7, [7], built_in()[0]], ids=lambda one: type(one).__name__
)
def test_a_bad_package_is_one_line(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    with pytest.raises(SteelyardError) as caught:
        with_package(monkeypatch, found)()
    assert isinstance(caught.value, EnvironmentLacksError)
    assert caught.value.hint


def test_a_packages_rule_that_fails_stops_nothing(tmp_path: Path) -> None:
    def fails(found: Machine) -> Finding:
        raise ZeroDivisionError("by zero")

    broken = Rule("broken", "mine", Severity.HIGH, "x", "x", "x", "x", fails)
    (one,) = check(snapshot(tmp_path), [broken])
    assert one.finding.outcome is Outcome.UNKNOWN
    assert "ZeroDivisionError" in one.finding.claim


def test_recorded_memory_is_read_from_dmi(tmp_path: Path) -> None:
    write_tree(tmp_path, {})
    found = machine(tmp_path / "m", slots(*HALF))
    first, second = found.memory.dimms
    assert (first.locator, first.size_bytes, first.type) == ("CPU0 Channel A DIMM 0", 32 << 30, "DDR5")
    assert (first.rated_transfers_per_s, first.ranks) == (4_800_000_000, 2)
    assert (second.size_bytes, second.type) == (0, None)
    assert found.missing["memory.dimms.1.type"] == "the slot is empty"


def test_the_reference_page_is_what_the_rules_say() -> None:
    assert PAGE.read_text() == page(built_in()), "run: python -m steelyard.machine.checks.reference"


def two_sockets() -> Files:
    return cpus(2) | {f"{CPU}/cpu{cpu}/topology/physical_package_id": str(cpu) for cpu in range(2)}


@pytest.mark.parametrize(
    ("id_", "files", "outcome", "says"),
    [
        # Where there are as many letters as sockets, letters are sockets; an empty one has 0 GiB.
        (
            "dimms-unbalanced",
            two_sockets() | slots(("DIMM_A1", 8, 1600, 1600), ("DIMM_B1", 0, 0, 0)),
            Outcome.OBJECTS,
            "sockets differ (A: 8 GiB, B: 0 GiB)",
        ),
        (
            "dimms-unbalanced",
            two_sockets() | slots(("DIMM_A1", 8, 1600, 1600), ("DIMM_B1", 8, 1600, 1600)),
            Outcome.PASSES,
            "spread evenly over sockets",
        ),
        # On one socket they are channels.
        (
            "channels-empty",
            cpus(1)
            | {f"{CPU}/cpu0/topology/physical_package_id": "0"}
            | slots(("A1", 8, 1600, 1600), ("B1", 0, 0, 0)),
            Outcome.OBJECTS,
            "1 of 2 memory channels",
        ),
        (
            "dimms-unbalanced",
            slots(
                ("P0 CHANNEL A", 32, 4800, 4800),
                ("P0 CHANNEL B", 32, 4800, 4800),
                ("P0 CHANNEL B", 32, 4800, 4800),
            ),
            Outcome.OBJECTS,
            "channels have between 32 and 64 GiB",
        ),
        (
            "dimms-unbalanced",
            slots(("DIMM 0", 16, 1, 1), ("DIMM 1", 16, 1, 1)),
            Outcome.PASSES,
            "slots without known positions",
        ),
        ("channels-empty", slots(("DIMM 0", 16, 1, 1)), Outcome.UNKNOWN, "do not identify channels"),
        # A hypervisor cuts its guest's memory into modules as it likes.
        (
            "dimms-unbalanced",
            {"proc/cpuinfo": "flags : lm hypervisor"} | slots(("DIMM 0", 16, 1, 1), ("DIMM 1", 3, 1, 1)),
            Outcome.UNKNOWN,
            "are made up",
        ),
    ],
)
def test_where_modules_are_by_the_names_of_their_slots(
    id_: str, files: Files, outcome: Outcome, says: str, tmp_path: Path
) -> None:
    found = answer(id_, machine(tmp_path, files))
    assert found.outcome is outcome
    assert says in found.claim
