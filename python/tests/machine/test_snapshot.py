"""The snapshot of recorded machines, of this one, and of nearly nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard import records
from steelyard.machine import snapshot
from steelyard.machine.snapshot import SYSCTLS, null_paths
from steelyard.records import Clock, Machine

from .trees import recorded, write_tree

CLOCK = Clock(monotonic_ns=1, realtime_ns=2)


def caches(machine: Machine) -> list[tuple[int, str, int, int | None]]:
    return [
        (cache.level, cache.type, cache.size_bytes >> 10, cache.instances) for cache in machine.cpu.caches
    ]


def has_every_reason(machine: Machine) -> None:
    for path in null_paths(machine):
        assert machine.missing.get(path), path


# Sockets, cores, logical CPUs, threads per core, nodes, and the first node's distances, as the recordings'
# descriptions and their hwloc outputs give them.
MACHINES = [
    ("128arm-2pa2n8cluster4co", 2, 128, 128, 1, 4, [10, 16, 32, 33]),
    ("16amd64-4n4c-cgroup-distance-merge", 4, 16, 16, 1, 4, [10, 20, 20, 20]),
    ("20em64t-hybrid-1p6c2t+2ca4co1t", 1, 14, 20, 2, 1, [10]),
    ("32em64t-2n8c+dax+nvme+mic+dimms", 2, 16, 16, 1, 2, [10, 21]),
    ("48amd64-4pa2n6c-sparse", 4, 48, 48, 1, 8, [10, 16, 16, 22, 16, 22, 16, 22]),
    ("8em64t-2s2ca2c", 2, 8, 8, 1, 1, [10]),
    ("offline-cpu0-node0", 2, 17, 17, 1, 1, [21, 10]),
]


@pytest.mark.parametrize(
    ("name", "sockets", "cores", "logical", "threads", "nodes", "distances"),
    MACHINES,
    ids=[machine[0] for machine in MACHINES],
)
def test_recorded_machine(
    name: str,
    sockets: int,
    cores: int,
    logical: int,
    threads: int,
    nodes: int,
    distances: list[int],
) -> None:
    machine = snapshot(recorded(name), clock=CLOCK)
    cpu = machine.cpu
    assert (cpu.sockets, cpu.cores, cpu.logical_cpus, cpu.threads_per_core) == (
        sockets,
        cores,
        logical,
        threads,
    )
    assert len(machine.numa_nodes) == nodes
    assert machine.numa_nodes[0].distances == distances
    assert cpu.model
    assert machine.memory.total_bytes > 1 << 30
    has_every_reason(machine)
    # What is said of a recorded machine must not come from the one that reads it.
    assert machine.hostname is None
    assert machine.kernel.boot_id is None
    assert records.parse(Machine, machine.model_dump_json(), where="here") == machine


def test_details_of_recorded_machines() -> None:
    hybrid = snapshot(recorded("20em64t-hybrid-1p6c2t+2ca4co1t"))
    assert caches(hybrid) == [
        (1, "data", 32, 8),
        (1, "data", 48, 6),
        (1, "instruction", 32, 6),
        (1, "instruction", 64, 8),
        (2, "unified", 1280, 6),
        (2, "unified", 2048, 2),
        (3, "unified", 24576, 1),
    ]
    assert (hybrid.cpu.governor, hybrid.cpu.frequency_max_hz) == ("powersave", 5_200_000_000)
    xeon = snapshot(recorded("32em64t-2n8c+dax+nvme+mic+dimms"))
    assert [(disk.name, disk.model) for disk in xeon.disks] == [("sda", "ST9250610NS")]
    eth0 = next(interface for interface in xeon.interfaces if interface.name == "eth0")
    assert (eth0.driver, eth0.speed_bits_per_s) == ("igb", 1_000_000_000)
    arm = snapshot(recorded("128arm-2pa2n8cluster4co"))
    assert (arm.cpu.architecture, arm.cpu.vendor) == ("aarch64", "HiSilicon")
    offline = snapshot(recorded("offline-cpu0-node0"))
    assert (offline.numa_nodes[0].id, offline.cpu.caches[0].size_bytes) == (1, 32768)
    itanium = snapshot(recorded("256ia64-64n2s2c"))
    assert (itanium.cpu.logical_cpus, itanium.cpu.architecture, len(itanium.numa_nodes)) == (256, "ia64", 64)
    assert "cpu.caches" in itanium.missing
    has_every_reason(itanium)


def test_an_empty_root_gives_a_record_full_of_reasons(tmp_path: Path) -> None:
    machine = snapshot(tmp_path)
    assert (machine.cpu.logical_cpus, machine.memory.total_bytes) == (0, 0)
    has_every_reason(machine)
    for path in ("cpu.caches", "numa_nodes", "disks", "memory.total_bytes", f"kernel.sysctl.{SYSCTLS[0]}"):
        assert path in machine.missing


def of_this_machine(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout


def test_this_machine_is_what_lscpu_says() -> None:
    fields = {}

    def collect(rows: list[dict[str, object]]) -> None:
        for row in rows:
            fields[str(row["field"]).rstrip(":")] = str(row.get("data"))
            collect(row.get("children", []))  # type: ignore[arg-type]

    collect(json.loads(of_this_machine("lscpu", "-J"))["lscpu"])
    cpu = snapshot().cpu
    assert cpu.architecture == fields["Architecture"]
    assert cpu.model == fields["Model name"]
    assert cpu.threads_per_core == int(fields["Thread(s) per core"])
    if cpu.sockets is not None and cpu.cores is not None:
        assert cpu.sockets == int(fields["Socket(s)"])
        assert cpu.cores == int(fields["Core(s) per socket"]) * cpu.sockets
    if "NUMA node(s)" in fields:
        assert len(snapshot().numa_nodes) == int(fields["NUMA node(s)"])
    assert len(cpu.mitigations) == sum(name.startswith("Vulnerability") for name in fields)
    has_every_reason(snapshot())


def test_this_machine_is_what_nproc_and_free_say() -> None:
    machine = snapshot()
    assert machine.cpu.usable_cpus == len(os.sched_getaffinity(0))
    assert machine.cpu.usable_cpus == int(of_this_machine("nproc"))
    memory = of_this_machine("free", "-b").splitlines()[1].split()
    assert machine.memory.total_bytes == int(memory[1])
    assert machine.hostname == os.uname().nodename
    assert machine.kernel.release == os.uname().release


def test_fewer_cpus_are_usable_under_an_affinity_mask() -> None:
    # In a child, so that this process keeps all of its own.
    script = "from steelyard.machine import snapshot; print(snapshot().cpu.usable_cpus)"
    only = min(os.sched_getaffinity(0))
    said = of_this_machine("taskset", "-c", str(only), sys.executable, "-c", script)
    assert said.strip() == "1"


VERSION_2 = {
    "proc/self/cgroup": "0::/system.slice/run.scope\n",
    "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
    "sys/fs/cgroup/system.slice/run.scope/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/system.slice/run.scope/cpu.max": "250000 100000\n",
    "sys/fs/cgroup/system.slice/run.scope/memory.max": "max\n",
    "sys/fs/cgroup/system.slice/cpu.max": "400000 100000\n",
    "sys/fs/cgroup/system.slice/memory.max": "1073741824\n",
}


def test_limits_of_version_2_are_those_of_the_tightest_ancestor(tmp_path: Path) -> None:
    machine = snapshot(write_tree(tmp_path, VERSION_2))
    assert (machine.cpu.quota_cpus, machine.memory.limit_bytes) == (2.5, 1 << 30)
    (tmp_path / "sys/fs/cgroup/system.slice/cpu.max").write_text("50000 100000")
    assert snapshot(tmp_path).cpu.quota_cpus == 0.5


def test_version_2_in_a_container_is_read_below_its_mount(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        "sys/fs/cgroup/cpu.max": "100000 100000\n",
        "sys/fs/cgroup/memory.max": "536870912\n",
    }
    machine = snapshot(write_tree(tmp_path, files))
    assert (machine.cpu.quota_cpus, machine.memory.limit_bytes) == (1.0, 1 << 29)


def test_limits_of_version_1_with_joint_controllers_and_a_container_mount(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "9:memory:/docker/abc\n8:cpuacct,cpu:/docker/abc\n1:name=systemd:/\n0::/x\n",
        "proc/self/mountinfo": (
            "40 30 0:1 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
            "41 30 0:2 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        ),
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
    }
    machine = snapshot(write_tree(tmp_path, files))
    assert (machine.cpu.quota_cpus, machine.memory.limit_bytes) == (1.5, 2 << 30)
    assert machine.container == "Docker"


def test_no_limit_of_version_1_is_none_with_a_reason(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/a/b\n1:cpu:/\n",
        "proc/mounts": (
            "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"
        ),
        "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    machine = snapshot(write_tree(tmp_path, files))
    assert (machine.cpu.quota_cpus, machine.memory.limit_bytes) == (None, None)
    assert machine.missing["cpu.quota_cpus"] == "no control group sets a quota"


def guest(tmp_path: Path, flags: str, **files: str) -> str | None:
    tree = {"proc/cpuinfo": f"processor : 0\nflags : lm {flags}\n"}
    tree.update({name.replace("__", "/"): text for name, text in files.items()})
    return snapshot(write_tree(tmp_path, tree)).hypervisor


def test_guests_and_bare_machines_are_distinguished(tmp_path: Path) -> None:
    clock = "sys__devices__system__clocksource__clocksource0__available_clocksource"
    assert guest(tmp_path / "a", "hypervisor", **{clock: "tsc kvm-clock"}) == "KVM"
    assert guest(tmp_path / "b", "hypervisor", sys__class__dmi__id__sys_vendor="VMware, Inc.") == "VMware"
    assert guest(tmp_path / "c", "hypervisor") == "unknown"
    assert guest(tmp_path / "d", "", sys__class__dmi__id__sys_vendor="Microsoft Corporation") is None
    assert guest(tmp_path / "e", "", sys__hypervisor__type="xen") == "Xen"
    assert guest(tmp_path / "f", "") is None


def namespaces(root: Path, pid: int) -> Path:
    folder = root / "proc/self/ns"
    folder.mkdir(parents=True)
    for kind, number in (("pid", pid), ("uts", 4026531838), ("ipc", 4026531839), ("cgroup", 4026531835)):
        (folder / kind).symlink_to(f"{kind}:[{number}]")
    return write_tree(root, {".dockerenv": ""})


def test_a_container_has_namespaces_of_its_own(tmp_path: Path) -> None:
    assert snapshot(namespaces(tmp_path / "inside", 4026532500)).container == "Docker"
    booted = snapshot(namespaces(tmp_path / "booted", 4026531836))
    assert booted.container is None
    assert "namespaces are the machine's own" in booted.missing["container"]


def test_disks_and_interfaces_of_no_account_are_left_out(tmp_path: Path) -> None:
    files = {
        "sys/block/loop0/size": "8",
        "sys/block/zram0/size": "8",
        "sys/block/sdb/size": "0",
        "sys/block/nvme0n1/size": "2048",
        "sys/block/nvme0n1/queue/rotational": "0",
        "sys/block/nvme0n1/queue/scheduler": "[none] mq-deadline",
        "sys/block/nvme0n1/device/model": "Fast Disk  ",
        "sys/class/net/veth12/mtu": "1500",
        "sys/class/net/lo/mtu": "65536",
        "sys/class/net/eth0/device/vendor": "0x1",
        "sys/class/net/eth0/speed": "25000",
        "sys/class/net/eth0/queues/rx-0/rps_cpus": "0",
        "sys/class/net/eth0/queues/rx-1/rps_cpus": "0",
        "sys/class/net/eth1/device/vendor": "0x1",
        "sys/class/net/eth1/speed": "-1",
    }
    machine = snapshot(write_tree(tmp_path, files))
    (disk,) = machine.disks
    assert (disk.name, disk.model, disk.size_bytes, disk.rotational, disk.scheduler) == (
        "nvme0n1",
        "Fast Disk",
        1 << 20,
        False,
        "none",
    )
    assert [interface.name for interface in machine.interfaces] == ["eth0", "eth1", "lo"]
    assert (machine.interfaces[0].speed_bits_per_s, machine.interfaces[0].receive_queues) == (
        25_000_000_000,
        2,
    )
    assert machine.interfaces[1].speed_bits_per_s is None
    assert "links that are down" in machine.missing["interfaces.1.speed_bits_per_s"]
