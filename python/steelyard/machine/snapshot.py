"""One record of what a machine is, from /proc and /sys below a root.

In: a root. Out: ``records.Machine``. Every null field has its reason in ``missing``, by its path; what can be
known only to the running system (``uname``) is asked only when the root is ``/``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from steelyard.machine import (
    buses,
    cgroups,
    devices,
    dimms,
    ethtool,
    layout,
    models,
    platform,
    processor,
    system,
    topology,
)
from steelyard.machine.identity import cpu_identifier
from steelyard.machine.tree import Tree, keyed, parse_size
from steelyard.records import Clock, Cpu, Kernel, LinkSettings, Machine, Memory

SYSCTLS = (
    "fs.aio-max-nr",
    "fs.file-max",
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.nmi_watchdog",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.timer_migration",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.compaction_proactiveness",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.max_map_count",
    "vm.min_free_kbytes",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.zone_reclaim_mode",
)
"""Kernel settings that are known to move results of servers."""

_CPU = "sys/devices/system/cpu"
_NO_FREQUENCY = "the kernel has no frequency driver here (no cpufreq in /sys)"

_REASONS = {
    "hostname": "proc/sys/kernel/hostname cannot be read",
    "cpu.model": "proc/cpuinfo does not name it",
    "cpu.vendor": "proc/cpuinfo does not name it",
    "cpu.architecture": "proc/cpuinfo does not report it",
    "cpu.sockets": "the kernel does not number processor packages here",
    "cpu.cores": "the kernel does not report which threads share a core",
    "cpu.threads_per_core": "the kernel does not report which threads share a core",
    "cpu.quota_cpus": "no control group sets a quota",
    "cpu.frequency_min_hz": _NO_FREQUENCY,
    "cpu.frequency_max_hz": _NO_FREQUENCY,
    "cpu.governor": _NO_FREQUENCY,
    "cpu.boost": "no driver reports it (neither cpufreq/boost nor intel_pstate/no_turbo)",
    "cpu.microcode": "neither /sys nor proc/cpuinfo reports it",
    "memory.limit_bytes": "no control group sets a limit",
    "memory.transparent_huge_pages": "the kernel has no such setting (sys/kernel/mm/transparent_hugepage)",
    "memory.huge_pages": "the kernel has no such setting (HugePages_Total in proc/meminfo)",
    "kernel.release": "neither proc/sys/kernel/osrelease nor proc/version can be read",
    "kernel.version": "proc/sys/kernel/version cannot be read",
    "kernel.command_line": "proc/cmdline cannot be read",
    "kernel.clocksource": "the kernel does not report it (sys/devices/system/clocksource)",
    "kernel.boot_id": "proc/sys/kernel/random/boot_id cannot be read",
    "distribution": "no etc/os-release",
    "model": "the device does not report it",
    "size_bytes": "the device does not report it",
    "rotational": "the device has no request queue",
    "scheduler": "the device has no I/O scheduler",
    "speed_bits_per_s": "the driver does not report it, as for virtual interfaces and links that are down",
    "mtu_bytes": "the kernel does not report it",
    "driver": "no device is below it, or no driver is bound to it",
    "receive_queues": "the kernel does not list queues here",
    "instances": "the kernel does not report which CPUs share it",
    "memory_bytes": "the node's meminfo cannot be read",
    "cpu.offline_cpus": f"the kernel does not list the CPUs that are present ({_CPU}/present)",
    "cpu.isolated_cpus": f"the kernel does not list isolated CPUs ({_CPU}/isolated)",
    "cpu.smt": f"the kernel does not control SMT ({_CPU}/smt/control)",
    "cpu.frequency_driver": _NO_FREQUENCY,
    "cpu.frequency_limit_hz": _NO_FREQUENCY,
    "cpu.frequency_limited_cpus": _NO_FREQUENCY,
    "cpu.energy_preference": "the frequency driver knows no energy-performance preference",
    "cpu.idle_driver": f"the kernel does not report it ({_CPU}/cpuidle/current_driver)",
    "cpu.idle_governor": f"the kernel does not report it ({_CPU}/cpuidle/current_governor)",
    "cpu.thermal_throttles": f"the kernel does not count them here ({_CPU}/cpu*/thermal_throttle)",
    "cpu.steal_ratio": "proc/stat does not report it",
    "cpu.identifier": "proc/cpuinfo names no family and model, and no main ID register is shown",
    "exit_latency_ns": "the driver does not report it",
    "residency_ns": "the driver does not report it",
    "is_enabled": "the kernel does not report it",
    "memory.swap_used_bytes": "proc/meminfo has no SwapFree",
    "memory.transparent_huge_page_defrag": "the kernel has none (sys/kernel/mm/transparent_hugepage)",
    "memory.corrected_errors": "no driver watches the memory controllers (sys/devices/system/edac)",
    "memory.uncorrected_errors": "no driver watches the memory controllers (sys/devices/system/edac)",
    "free_pages": "the kernel does not report it",
    "access": "the firmware has no HMAT for this node (access0, access1)",
    "hardware_queues": "the kernel does not list queues here (mq)",
    "queue_requests": "the device has no request queue",
    "read_ahead_bytes": "the device has no request queue",
    "write_cache": "the device has no request queue",
    "numa_node": "the kernel does not tie the device to a node",
    "transmit_queues": "the kernel does not list queues here",
    "steered_queues": "the kernel does not list queues here, or keeps rps_cpus from this user",
    "state": "the kernel does not report it",
    "duplex": "the driver does not report it, as for virtual interfaces and links that are down",
    "vendor_id": "the device does not report it",
    "device_id": "the device does not report it",
    "link": "the device has no link of PCI Express",
}
"""Why a field is null, by its path or, inside lists, by its name."""

_FROM_ELSEWHERE = {
    "settings.": "the driver does not report it to ethtool",
    "access.": "HMAT does not have it",
    "dimms.": "the firmware does not report it",
    "link.": "the device does not report it",
    "firmware.": "DMI does not report it (sys/class/dmi/id)",
    "side_caches.": "the kernel does not report it",
}
"""Why a field is null, by a part of its path where neither path nor name has a reason in ``_REASONS``."""


def snapshot(
    root: Path | str = "/",
    *,
    clock: Clock | None = None,
    ask_link: Callable[[str], LinkSettings | str] | None = None,
) -> Machine:
    """Return what the machine below ``root`` is; ``clock`` is when it was taken, now unless given.

    ``ask_link`` gives an interface's settings, or why there are none; by default the kernel is asked when the
    root is ``/``, and nobody otherwise.
    """
    tree = Tree(root)
    fields = topology.cpuinfo(tree)
    hypervisor, hypervisor_evidence = platform.hypervisor(tree, fields.get("flags", ""))
    container, container_evidence = platform.container(tree)
    if ask_link is None and tree.is_live:
        ask_link = ethtool.settings
    missing: dict[str, str] = {}
    interrupts, no_interrupts = buses.interrupts(tree)
    resctrl, no_resctrl = system.resctrl(tree, fields.get("flags", ""))
    machine = Machine(
        clock=clock or Clock.now(),
        hostname=tree.text("proc/sys/kernel/hostname"),
        cpu=_cpu(tree, fields, missing),
        memory=_memory(tree, missing),
        numa_nodes=topology.numa_nodes(tree),
        disks=devices.disks(tree),
        interfaces=devices.interfaces(tree, missing, ask_link),
        kernel=_kernel(tree),
        distribution=keyed(tree.first_text("etc/os-release", "usr/lib/os-release"), "=").get("PRETTY_NAME"),
        hypervisor=hypervisor,
        container=container,
        pci_devices=buses.pci_devices(tree),
        interrupts=interrupts,
        resctrl=resctrl,
        firmware=system.firmware(tree),
        missing={},
    )
    reasons = {
        **_REASONS,
        "hypervisor": hypervisor_evidence,
        "container": container_evidence,
        "interrupts": no_interrupts,
        "resctrl": no_resctrl,
    }
    missing.update(_empty_slots(machine))
    for path in null_paths(machine):
        if path not in missing:
            missing[path] = _reason(path, reasons)
    missing.update({path: reason for path, reason in _absent(machine, tree) if path not in missing})
    return machine.model_copy(update={"missing": dict(sorted(missing.items()))})


def null_paths(model: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the path of every null field, members of lists by their index: ``disks.0.model``."""
    for name in type(model).model_fields:
        value = getattr(model, name)
        path = f"{prefix}{name}"
        if value is None:
            yield path
        elif isinstance(value, BaseModel):
            yield from null_paths(value, f"{path}.")
        elif isinstance(value, list):
            for index, member in enumerate(value):
                if isinstance(member, BaseModel):
                    yield from null_paths(member, f"{path}.{index}.")


def _reason(path: str, reasons: Mapping[str, str]) -> str:
    reason = reasons.get(path)
    if reason is None:
        reason = next((reason for part, reason in _FROM_ELSEWHERE.items() if part in path), None)
    return reason or reasons[path.rsplit(".", 1)[-1]]


def _empty_slots(machine: Machine) -> Iterator[tuple[str, str]]:
    for index, dimm in enumerate(machine.memory.dimms):
        if dimm.size_bytes == 0:
            for path in null_paths(dimm, f"memory.dimms.{index}."):
                if not path.endswith(".bank"):
                    yield path, "the slot is empty"


def _absent(machine: Machine, tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield why lists and tables are empty, which null fields do not tell."""
    if not machine.cpu.caches:
        yield "cpu.caches", f"the kernel does not list caches here ({_CPU}/cpu*/cache)"
    if not machine.cpu.mitigations:
        yield "cpu.mitigations", f"the kernel does not list vulnerabilities here ({_CPU}/vulnerabilities)"
    if not machine.numa_nodes:
        yield "numa_nodes", "the kernel does not list nodes here (sys/devices/system/node)"
    if not machine.disks:
        yield "disks", "no block device that holds data (sys/block)"
    if not machine.interfaces:
        yield "interfaces", "no network interface (sys/class/net)"
    if not machine.pci_devices:
        yield "pci_devices", "no PCI device that moves data (sys/bus/pci/devices)"
    if not machine.cpu.governors:
        yield "cpu.governors", _NO_FREQUENCY
    if not machine.cpu.cores_by_threads:
        yield "cpu.cores_by_threads", _REASONS["cpu.cores"]
    if not machine.cpu.idle_states:
        yield "cpu.idle_states", f"the kernel lists no idle states here ({_CPU}/cpu*/cpuidle)"
    if not machine.cpu.performance_monitors:
        yield "cpu.performance_monitors", "the kernel does not list them here (sys/bus/event_source)"
    if not machine.memory.huge_page_pools:
        yield "memory.huge_page_pools", "the kernel has no such setting (sys/kernel/mm/hugepages)"
    if not machine.kernel.clocksources:
        yield "kernel.clocksources", _REASONS["kernel.clocksource"]
    for name in SYSCTLS:
        if name not in machine.kernel.sysctl:
            why = "this kernel has no such setting, or keeps it from this user"
            yield f"kernel.sysctl.{name}", why if tree.exists("proc/sys") else "there is no proc/sys here"


def _cpu(tree: Tree, fields: dict[str, str], missing: dict[str, str]) -> Cpu:
    online = topology.online_cpus(tree)
    usable, are_recorded = layout.usable_cpus(tree, online)
    if not are_recorded:
        missing["cpu.usable_cpus"] = (
            "the CPUs that a process may use are not recorded: all online ones are taken"
        )
    cores = topology.cores(tree, online)
    low, high = _frequencies(tree)
    first = online[0] if online else 0
    folders = processor.policy_folders(tree, online)
    limit, limited = processor.frequency_limits(tree, folders)
    return Cpu(
        model=models.model_name(tree),
        vendor=models.vendor_name(fields),
        architecture=os.uname().machine if tree.is_live else models.architecture(fields),
        sockets=topology.sockets(tree, online),
        cores=len(cores) or None,
        logical_cpus=len(online),
        usable_cpus=len(usable),
        quota_cpus=cgroups.quota_cpus(tree),
        threads_per_core=max((len(threads) for threads in cores), default=None),
        frequency_min_hz=low,
        frequency_max_hz=high,
        governor=tree.first_text(
            f"{_CPU}/cpu{first}/cpufreq/scaling_governor", f"{_CPU}/cpufreq/policy{first}/scaling_governor"
        ),
        boost=_boost(tree),
        microcode=processor.microcode(tree, online),
        caches=topology.caches(tree, online),
        mitigations={
            name: tree.text(f"{_CPU}/vulnerabilities/{name}") or "unreadable"
            for name in tree.names(f"{_CPU}/vulnerabilities")
        },
        offline_cpus=processor.offline_cpus(tree, online),
        isolated_cpus=tree.text(f"{_CPU}/isolated"),
        smt=tree.text(f"{_CPU}/smt/control"),
        cores_by_threads=processor.cores_by_threads(cores),
        governors=processor.governors(tree, folders),
        frequency_driver=tree.text(f"{folders[first]}/scaling_driver") if first in folders else None,
        frequency_limit_hz=limit,
        frequency_limited_cpus=limited,
        energy_preference=(
            tree.text(f"{folders[first]}/energy_performance_preference") if first in folders else None
        ),
        idle_driver=tree.text(f"{_CPU}/cpuidle/current_driver"),
        idle_governor=tree.first_text(
            f"{_CPU}/cpuidle/current_governor", f"{_CPU}/cpuidle/current_governor_ro"
        ),
        idle_states=processor.idle_states(tree, first),
        thermal_throttles=processor.thermal_throttles(tree, cores, online),
        steal_ratio=processor.steal_ratio(tree),
        performance_monitors=processor.performance_monitors(tree),
        identifier=cpu_identifier(tree),
    )


def _frequencies(tree: Tree) -> tuple[int | None, int | None]:
    """Return the lowest and the highest frequency of any CPU, Hz."""
    folders = [f"{_CPU}/cpufreq/{name}" for name in tree.names(f"{_CPU}/cpufreq", r"policy\d+")]
    if not folders:
        folders = [f"{_CPU}/{name}/cpufreq" for name in tree.names(_CPU, r"cpu\d+")]
    low = [tree.number(f"{folder}/cpuinfo_min_freq") for folder in folders]
    high = [tree.number(f"{folder}/cpuinfo_max_freq") for folder in folders]
    return (
        min((khz * 1000 for khz in low if khz), default=None),
        max((khz * 1000 for khz in high if khz), default=None),
    )


def _boost(tree: Tree) -> bool | None:
    boost = tree.number(f"{_CPU}/cpufreq/boost")
    if boost is not None:
        return boost == 1
    no_turbo = tree.number(f"{_CPU}/intel_pstate/no_turbo")
    return None if no_turbo is None else no_turbo == 0


def _memory(tree: Tree, missing: dict[str, str]) -> Memory:
    fields = keyed(tree.text("proc/meminfo"))
    sizes = {name: parse_size(fields.get(name, "")) for name in ("MemTotal", "SwapTotal", "SwapFree")}
    for name, path in (("MemTotal", "memory.total_bytes"), ("SwapTotal", "memory.swap_bytes")):
        if sizes[name] is None:
            missing[path] = f"proc/meminfo has no {name}: 0 is written because the field cannot be null"
    huge_pages = fields.get("HugePages_Total", "")
    choice = tree.text("sys/kernel/mm/transparent_hugepage/enabled") or ""
    defrag = tree.text("sys/kernel/mm/transparent_hugepage/defrag") or ""
    modules, no_modules = dimms.dimms(tree)
    if not modules:
        missing["memory.dimms"] = no_modules
    corrected, uncorrected = dimms.errors(tree)
    swap, swap_free = sizes["SwapTotal"], sizes["SwapFree"]
    return Memory(
        total_bytes=sizes["MemTotal"] or 0,
        limit_bytes=cgroups.memory_limit_bytes(tree),
        swap_bytes=sizes["SwapTotal"] or 0,
        transparent_huge_pages=choice.partition("[")[2].partition("]")[0] or None,
        huge_pages=int(huge_pages) if huge_pages.isdigit() else None,
        swap_used_bytes=None if swap is None or swap_free is None else max(0, swap - swap_free),
        transparent_huge_page_defrag=defrag.partition("[")[2].partition("]")[0] or None,
        huge_page_pools=system.huge_page_pools(tree),
        dimms=modules,
        corrected_errors=corrected,
        uncorrected_errors=uncorrected,
    )


def _kernel(tree: Tree) -> Kernel:
    values = {name: tree.text("proc/sys/" + name.replace(".", "/")) for name in SYSCTLS}
    return Kernel(
        release=tree.text("proc/sys/kernel/osrelease") or _release(tree.text("proc/version") or ""),
        version=tree.first_text("proc/sys/kernel/version", "proc/version"),
        command_line=tree.text("proc/cmdline"),
        clocksource=tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        clocksources=(
            tree.text("sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
        ).split(),
        boot_id=tree.text("proc/sys/kernel/random/boot_id"),
        sysctl={name: " ".join(value.split()) for name, value in values.items() if value is not None},
    )


def _release(version: str) -> str | None:
    """Return the release in /proc/version, which recordings have more often than /proc/sys.

    >>> _release("Linux version 5.3.0-rc7 (who@where) (gcc version 8.3.0) #1 SMP")
    '5.3.0-rc7'
    """
    words = version.split()
    return words[2] if words[:2] == ["Linux", "version"] and len(words) > 2 else None
