"""What this host can and cannot measure, why, and how to enable it.

In: the machine below a root, what ``steelyard-probe sources --json`` says, and attempts at what only trying
tells. Out: a list of ``Capability``, in the order in which a report shows them. Nothing is changed.

Three questions, one area each beyond the probe's telemetry: which instruments there are (``counters``),
whether a benchmark can be run as it should (``running``), and whether the host is quiet and fixed enough now
for its result to mean something (``conditions``).
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from steelyard._base import REPAIR_HINT
from steelyard.machine import attempts, cgroups
from steelyard.machine.attempts import Refusal
from steelyard.machine.snapshot import snapshot
from steelyard.machine.tree import Tree
from steelyard.records import Machine

WATCH_S = 0.5
"""How long the host's own load is watched."""

BUSY_RATIO, STEAL_RATIO = 0.05, 0.01
"""Shares of CPU time above which other work, or the hypervisor, would show in a result."""

FEWEST_FILES = 4096
"""Open files below which a run with many connections meets the limit."""

FREE_DISK_BYTES, FREE_MEMORY_BYTES = 2 << 30, 2 << 30
"""Room that a quick suite takes at most, with as much again to spare."""


class Status(StrEnum):
    """Whether the host has a capability."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that a host can or cannot do for a measurement."""

    area: str
    """``telemetry``, ``counters``, ``running`` or ``conditions``."""
    name: str
    """What it is called."""
    status: Status
    """Whether the host has it."""
    finding: str
    """The finding, one sentence."""
    enable: str | None = None
    """How to get it, ``None`` where there is nothing to do or nothing can be done."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program of the data plane."""

    name: str
    """Its name."""
    path: str | None
    """Where it is, None where it is missing."""
    hint: str | None
    """How to get it, None where it is there."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a machine can and cannot measure: `steelyard doctor --json`."""

    KIND: ClassVar[str] = "doctor"

    executables: list[Program]
    """Programs of the data plane."""
    capabilities: list[Capability]
    """Capabilities of the host, and how to enable missing ones."""
    sources: list[dict[str, Any]] | None
    """Output of ``steelyard-probe sources`` for each source, None without the program."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """What only trying tells; tests put answers here."""

    io_uring: Callable[[], Refusal | None] = attempts.io_uring
    hardware_counter: Callable[[], Refusal | None] = attempts.hardware_counter
    software_counter: Callable[[], Refusal | None] = attempts.software_counter
    affinity: Callable[[], Refusal | None] = attempts.affinity
    parent_death_signal: Callable[[], Refusal | None] = attempts.parent_death_signal
    wait: Callable[[float], None] = time.sleep


def diagnose(
    *,
    root: Path | str = "/",
    sources: Sequence[Mapping[str, Any]] | None = None,
    runs: Path | None = None,
    trying: Attempts | None = None,
) -> list[Capability]:
    """Return what the host below ``root`` can do.

    ``sources`` is the list ``sources`` of ``steelyard-probe sources --json``, ``None`` where the probe cannot
    be asked; ``runs`` is the folder that runs are written to. For a recorded root, what must be tried is left
    out unless ``trying`` gives the answers.
    """
    tree = Tree(root)
    machine = snapshot(root)
    if trying is None and tree.is_live:
        trying = Attempts()
    capabilities = telemetry(sources)
    if trying is not None:
        capabilities += _counters(tree, trying)
        capabilities += _instruments_of_running(trying)
    capabilities += _placement(machine)
    capabilities += _limits(tree)
    if trying is not None:
        capabilities += _activity(tree, trying.wait)
    capabilities += _settings(machine)
    capabilities += _room(tree, machine, runs)
    return capabilities


def telemetry(sources: Sequence[Mapping[str, Any]] | None) -> list[Capability]:
    """Return one capability for each source of the probe."""
    if sources is None:
        return [Capability("telemetry", "probe", Status.NO, "steelyard-probe is missing", REPAIR_HINT)]
    capabilities = []
    for source in sources:
        name, enable = str(source.get("name")), source.get("enable")
        columns = source.get("columns") or []
        absent = [column for column in columns if column.get("missing")]
        if not source.get("available"):
            capabilities.append(
                Capability("telemetry", name, Status.NO, source.get("reason") or "not available", enable)
            )
        elif absent:
            reasons = dict.fromkeys(str(column["missing"]) for column in absent)
            names = ", ".join(str(column["name"]) for column in absent)
            finding = f"without {names}: {'; '.join(reasons)}"
            capabilities.append(Capability("telemetry", name, Status.PARTLY, finding, enable))
        else:
            finding = source.get("reason") or source.get("about") or f"{len(columns)} columns"
            capabilities.append(Capability("telemetry", name, Status.YES, finding))
    return capabilities


def _counters(tree: Tree, trying: Attempts) -> list[Capability]:
    paranoid = tree.number("proc/sys/kernel/perf_event_paranoid")
    level = f"kernel.perf_event_paranoid is {paranoid}"
    allow = "sysctl kernel.perf_event_paranoid=1, or run with CAP_PERFMON"
    capabilities = []
    for name, attempt, measured in (
        ("hardware counters", trying.hardware_counter, "cycles and instructions"),
        ("profile clock", trying.software_counter, "profiles by cpu-clock"),
    ):
        refusal = attempt()
        if refusal is None:
            status = Status.YES if paranoid is None or paranoid < 2 or os.geteuid() == 0 else Status.PARTLY
            scope = f"{measured} can be measured" + (
                "" if status is Status.YES else f" only for own processes: {level}"
            )
            capabilities.append(
                Capability("counters", name, status, scope, None if status is Status.YES else allow)
            )
        elif refusal.number in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
            finding = (
                "the kernel has no such event here: in virtual machines, the host does not expose its PMU"
            )
            enable = "use bare metal, or an instance type that exposes the PMU"
            capabilities.append(Capability("counters", name, Status.NO, finding, enable))
        else:
            finding = f"perf_event_open failed: {refusal.text} ({level})"
            capabilities.append(Capability("counters", name, Status.NO, finding, allow))
    return capabilities


def _instruments_of_running(trying: Attempts) -> list[Capability]:
    ring = trying.io_uring()
    capabilities = [
        Capability("running", "io_uring", Status.YES, "the load generator can use it")
        if ring is None
        else Capability(
            "running",
            "io_uring",
            Status.PARTLY,
            f"refused ({ring.text}): the load generator falls back to epoll and needs more CPU time",
            "sysctl kernel.io_uring_disabled=0, a seccomp profile that allows it, and Linux 5.19 or newer",
        )
    ]
    for name, refusal, works, without in (
        ("CPU pinning", trying.affinity(), "works", "server and load generator cannot be separated"),
        (
            "orphan protection",
            trying.parent_death_signal(),
            "works",
            "a killed run may leave processes behind",
        ),
    ):
        finding = works if refusal is None else f"refused ({refusal.text}): {without}"
        enable = None if refusal is None else "use a seccomp profile that allows it"
        capabilities.append(
            Capability("running", name, Status.YES if refusal is None else Status.NO, finding, enable)
        )
    files, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = files >= FEWEST_FILES or files == resource.RLIM_INFINITY
    raised = "" if enough or ceiling < FEWEST_FILES else f", up to {ceiling} on request"
    capabilities.append(
        Capability(
            "running",
            "open files",
            Status.YES if enough else Status.PARTLY,
            f"{files} at the same time{raised}",
            None if enough else f"ulimit -n {FEWEST_FILES}, or LimitNOFILE= of the service",
        )
    )
    return capabilities


def _placement(machine: Machine) -> list[Capability]:
    cpu = machine.cpu
    capabilities = []
    if cpu.usable_cpus >= 2:
        finding = f"{cpu.usable_cpus} CPUs: server and load generator get separate ones"
        if cpu.usable_cpus < 4:
            finding += ", but the generator may need more to saturate the server"
        status = Status.YES if cpu.usable_cpus >= 4 else Status.PARTLY
        enable = None if status is Status.YES else "use 4 CPUs or more, or generate load on another machine"
        capabilities.append(Capability("running", "separate CPUs", status, finding, enable))
    else:
        finding = "one CPU: server and load generator share it, so neither is measured alone"
        enable = "use 2 CPUs or more, or a wider affinity mask"
        capabilities.append(Capability("running", "separate CPUs", Status.NO, finding, enable))
    if cpu.quota_cpus is not None and cpu.quota_cpus < cpu.usable_cpus:
        finding = (
            f"{cpu.quota_cpus:g} of {cpu.usable_cpus} CPUs for the control group: throttling affects tail"
            " latency"
        )
        capabilities.append(
            Capability("conditions", "CPU quota", Status.PARTLY, finding, "use a cpuset instead of a quota")
        )
    nodes = len(machine.numa_nodes)
    finding = f"{nodes} node{'' if nodes == 1 else 's'}" + (": no placement to compare" if nodes < 2 else "")
    capabilities.append(Capability("running", "NUMA", Status.YES if nodes > 1 else Status.NO, finding))
    return capabilities


def _limits(tree: Tree) -> list[Capability]:
    capabilities = []
    for controller, purpose in (("cpu", "CPU limit of a run"), ("memory", "memory limit of a run")):
        homes = [group for group in cgroups.hierarchies(tree) if controller in group.controllers]
        if not homes:
            finding, enable = f"no control group with the {controller} controller", "mount cgroup2 with it"
            capabilities.append(Capability("running", purpose, Status.NO, finding, enable))
            continue
        home = homes[0]
        path = tree.path(home.groups[0])
        if os.access(path, os.W_OK):
            finding = f"groups can be created below /{home.groups[0]} (version {home.version})"
            capabilities.append(Capability("running", purpose, Status.YES, finding))
        else:
            finding = f"/{home.groups[0]} is not writable"
            enable = "run as root or in a delegated group: systemd-run --user --scope -p Delegate=yes"
            capabilities.append(Capability("running", purpose, Status.NO, finding, enable))
    return capabilities


def _cpu_times(tree: Tree) -> tuple[int, int, int] | None:
    """Return busy, stolen and all ticks since boot."""
    line = (tree.text("proc/stat") or "").partition("\n")[0].split()
    if len(line) < 9 or line[0] != "cpu":
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, line[1:9])
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + steal + idle + iowait


def _activity(tree: Tree, wait: Callable[[float], None]) -> list[Capability]:
    before = _cpu_times(tree)
    wait(WATCH_S)
    after = _cpu_times(tree)
    if before is None or after is None or after[2] <= before[2]:
        return [Capability("conditions", "other load", Status.PARTLY, "unknown: no data in /proc/stat")]
    passed = after[2] - before[2]
    busy, steal = (after[0] - before[0]) / passed, (after[1] - before[1]) / passed
    return [
        Capability(
            "conditions",
            "other load",
            Status.YES if busy <= BUSY_RATIO else Status.PARTLY,
            f"other work used {busy * 100:.0f} % of CPU time in {WATCH_S:g} s",
            None if busy <= BUSY_RATIO else "stop other work: see `steelyard top`",
        ),
        Capability(
            "conditions",
            "steal time",
            Status.YES if steal <= STEAL_RATIO else Status.PARTLY,
            f"the hypervisor took {steal * 100:.1f} % of CPU time in {WATCH_S:g} s",
            None if steal <= STEAL_RATIO else "use a dedicated host, or measure at another time",
        ),
    ]


def _settings(machine: Machine) -> list[Capability]:
    cpu, memory, kernel = machine.cpu, machine.memory, machine.kernel
    capabilities = []

    def add(name: str, good: bool, finding: str, enable: str) -> None:
        status = Status.YES if good else Status.PARTLY
        capabilities.append(Capability("conditions", name, status, finding, None if good else enable))

    if cpu.governor is None:
        add("frequency", False, "not visible here: changes cannot be detected", "use bare metal")
    else:
        fixed = cpu.governor == "performance"
        add("frequency", fixed, f"governor {cpu.governor}", "cpupower frequency-set -g performance")
    if cpu.boost is not None:
        finding = (
            "on: the frequency depends on temperature and on the number of busy cores" if cpu.boost else "off"
        )
        add("turbo", not cpu.boost, finding, "turn it off to compare code, leave it on to compare machines")
    if memory.swap_bytes:
        add("swap", False, f"{memory.swap_bytes >> 20} MiB: pages may be swapped out", "swapoff -a")
    else:
        add("swap", True, "none", "")
    clock = kernel.clocksource
    if clock is not None:
        fast = clock in ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
        add("clock", fast, f"clock source {clock}", "boot with clocksource=tsc")
    choice = memory.transparent_huge_pages
    if choice is not None:
        finding = f"transparent: {choice}, static: {memory.huge_pages or 0}"
        add("huge pages", choice != "never" or bool(memory.huge_pages), finding, "sysctl vm.nr_hugepages=N")
    return capabilities


def _room(tree: Tree, machine: Machine, runs: Path | None) -> list[Capability]:
    capabilities = []
    available = _available_bytes(tree)
    limit = machine.memory.limit_bytes
    if limit is not None and (available is None or limit < available):
        available = limit
    if available is not None:
        enough = available >= FREE_MEMORY_BYTES
        finding = f"{available / (1 << 30):.1f} GiB available"
        status = Status.YES if enough else Status.PARTLY
        enable = None if enough else "use a smaller cache: --set memory=SIZE"
        capabilities.append(Capability("running", "memory", status, finding, enable))
    if runs is not None:
        capabilities.append(_disk(runs))
    return capabilities


def _available_bytes(tree: Tree) -> int | None:
    for line in (tree.text("proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) << 10
    return None


def _disk(runs: Path) -> Capability:
    folder = runs.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return Capability(
            "running", "runs folder", Status.NO, f"{folder} is not writable", "use --out FOLDER"
        )
    enough = free >= FREE_DISK_BYTES
    return Capability(
        "running",
        "runs folder",
        Status.YES if enough else Status.PARTLY,
        f"{free / (1 << 30):.1f} GiB free in {folder}",
        None if enough else "use --out FOLDER on another disk",
    )
