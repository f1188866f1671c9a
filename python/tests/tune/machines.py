"""A made-up machine: /proc, /sys and /dev below a folder, with every knob that a server may have."""

from __future__ import annotations

import struct
from pathlib import Path

CPUS = 4
FILES = {
    "proc/cmdline": "quiet mitigations=off\n",
    "proc/cpuinfo": "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: Made-up 4000\n"
    "flags\t\t: fpu cat_l3 cdp_l3\n",
    "proc/interrupts": "  40:  1  0  0  0  PCI-MSIX  virtio2-config\n"
    "  41:  1  0  0  0  PCI-MSIX  virtio2-input.0\n  42:  1  0  0  0  PCI-MSIX  virtio2-output.0\n",
    "proc/irq/41/smp_affinity_list": "0-3\n",
    "proc/irq/42/smp_affinity_list": "0-3\n",
    "proc/meminfo": "MemTotal: 16777216 kB\nMemFree: 8388608 kB\nMemAvailable: 8388608 kB\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "proc/sys/kernel/sched_autogroup_enabled": "0\n",
    "proc/sys/vm/dirty_ratio": "20\n",
    "proc/sys/vm/dirty_background_ratio": "10\n",
    "sys/devices/system/cpu/online": "0-3\n",
    "sys/devices/system/cpu/smt/control": "on\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    "sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/max_freq_khz": "2200000\n",
    "sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/initial_min_freq_khz": "1200000\n",
    "sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00/initial_max_freq_khz": "2200000\n",
    "sys/fs/resctrl/schemata": "    MB:0=100\nL3CODE:0=7ff\nL3DATA:0=7ff\n",
    "sys/fs/resctrl/info/L3CODE/cbm_mask": "7ff\n",
    "sys/fs/resctrl/info/L3CODE/min_cbm_bits": "1\n",
    "sys/kernel/debug/sched/base_slice_ns": "3000000\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "200\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never\n",
    "sys/class/net/eth0/queues/rx-0/rps_cpus": "0\n",
}
PER_POLICY = {
    "scaling_max_freq": "2200000\n",
    "cpuinfo_min_freq": "1600000\n",
    "cpuinfo_max_freq": "2200000\n",
    "scaling_governor": "powersave\n",
    "scaling_available_governors": "performance powersave\n",
    "energy_performance_preference": "balance_performance\n",
    "energy_performance_available_preferences": "default performance balance_performance power\n",
}


def make_machine(root: Path) -> Path:
    """Write the files of a machine with four CPUs, two cores of two threads, and two nodes."""
    files = dict(FILES)
    for cpu in range(CPUS):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        files[f"{folder}/topology/thread_siblings_list"] = "0,2\n" if cpu % 2 == 0 else "1,3\n"
        if cpu:
            files[f"{folder}/online"] = "1\n"
        for index, name in enumerate(("POLL", "C1", "C6")):
            files[f"{folder}/cpuidle/state{index}/name"] = f"{name}\n"
            files[f"{folder}/cpuidle/state{index}/disable"] = "0\n"
        for name, text in PER_POLICY.items():
            files[f"sys/devices/system/cpu/cpufreq/policy{cpu}/{name}"] = text
    for node in range(2):
        folder = f"sys/devices/system/node/node{node}"
        files[f"{folder}/meminfo"] = f"Node {node} MemTotal: 8388608 kB\nNode {node} MemFree: 4194304 kB\n"
        files[f"{folder}/hugepages/hugepages-2048kB/nr_hugepages"] = "100\n"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for cpu in range(CPUS):
        write_register(root, cpu, 0x1A4, 0x30)
    (root / "sys/devices/virtio2").mkdir(parents=True)
    (root / "sys/class/net/eth0/device").symlink_to("../../../devices/virtio2")
    return root


def write_register(root: Path, cpu: int, register: int, value: int) -> None:
    """Write a model-specific register: the device is a file in which registers are offsets."""
    path = root / f"dev/cpu/{cpu}/msr"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.seek(register)
        file.write(struct.pack("<Q", value))


def register(root: Path, cpu: int, number: int) -> int:
    """Return a register."""
    with (root / f"dev/cpu/{cpu}/msr").open("rb") as file:
        file.seek(number)
        return int(struct.unpack("<Q", file.read(8))[0])


def everything(root: Path) -> dict[str, bytes]:
    """Return every file of a machine, byte by byte."""
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }
