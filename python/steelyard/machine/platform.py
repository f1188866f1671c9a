"""Whether the machine is a guest, and whether this process is in a container."""

from __future__ import annotations

import re

from steelyard.machine.cgroups import own_paths
from steelyard.machine.tree import Tree, keyed

# Values of DMI's sys_vendor, product_name and bios_vendor, as systemd-detect-virt and lscpu also read them.
_DMI_NAMES = (
    ("Amazon EC2", "Amazon EC2 (Nitro)"),
    ("Google", "Google Compute Engine (KVM)"),
    ("KVM", "KVM"),
    ("OpenStack", "OpenStack"),
    ("QEMU", "QEMU"),
    ("VMware", "VMware"),
    ("innotek", "VirtualBox"),
    ("VirtualBox", "VirtualBox"),
    ("Xen", "Xen"),
    ("Bochs", "Bochs"),
    ("Parallels", "Parallels"),
    ("BHYVE", "bhyve"),
    ("Microsoft Corporation", "Hyper-V"),
)

# Clock sources that only a guest of that hypervisor has.
_CLOCKS = {"kvm-clock": "KVM", "hyperv_clocksource_tsc_page": "Hyper-V", "xen": "Xen"}

# The initial namespaces have fixed inode numbers (include/linux/proc_ns.h).
_INITIAL = {"pid": 0xEFFFFFFC, "uts": 0xEFFFFFFE, "ipc": 0xEFFFFFFF, "cgroup": 0xEFFFFFFB}

_GROUP_NAMES = (
    ("kubepods", "Kubernetes"),
    ("docker", "Docker"),
    ("libpod", "Podman"),
    ("containerd", "containerd"),
    ("lxc", "LXC"),
    ("machine.slice", "systemd-nspawn"),
)


def hypervisor(tree: Tree, flags: str) -> tuple[str | None, str]:
    """Return the hypervisor's name or ``None``, and what the answer rests on."""
    kind = tree.text("sys/hypervisor/type")
    if kind:
        return kind.capitalize(), "sys/hypervisor/type"
    below = _of_s390(tree)
    if below is not None:
        return below, "proc/sysinfo"
    is_guest = "hypervisor" in flags.split()
    for name in ("sys_vendor", "product_name", "bios_vendor"):
        value = tree.first_text(f"sys/class/dmi/id/{name}", f"sys/devices/virtual/dmi/id/{name}") or ""
        for mark, meaning in _DMI_NAMES:
            # Microsoft, Google and Amazon also sell or run bare machines: the processor must agree.
            if mark in value and (is_guest or mark not in ("Microsoft Corporation", "Google", "Amazon EC2")):
                return meaning, f"DMI {name}"
    clocks = (tree.text("sys/devices/system/clocksource/clocksource0/available_clocksource") or "").split()
    for clock, meaning in _CLOCKS.items():
        if clock in clocks:
            return meaning, "its clock source"
    if is_guest:
        return "unknown", "the processor's hypervisor flag"
    if not flags:
        return None, "neither DMI nor a clock source names one, and the processor has no flag for it"
    return None, "the processor does not report one"


def _of_s390(tree: Tree) -> str | None:
    """Return what an IBM Z runs Linux under: the innermost control program, else its own partitions."""
    facts = keyed(tree.text("proc/sysinfo"))
    program = facts.get("VM00 Control Program")
    if program:
        return "KVM" if program.startswith("KVM") else " ".join(program.split())
    return "LPAR" if facts.get("LPAR Name") or facts.get("LPAR Number") else None


def container(tree: Tree) -> tuple[str | None, str]:
    """Return the container runtime's name or ``None``, and what the answer rests on."""
    name, evidence = _marker(tree)
    if name is None:
        return None, "no container runtime has left a mark"
    apart = [kind for kind in _INITIAL if _is_apart(tree, kind)]
    if not apart and all(tree.link(f"proc/self/ns/{kind}") for kind in _INITIAL):
        # A machine that was booted from a container's image carries its marks.
        return None, f"{evidence} is there, but all namespaces are the machine's own"
    return name, evidence


def _is_apart(tree: Tree, kind: str) -> bool:
    match = re.fullmatch(rf"{kind}:\[(\d+)\]", tree.link(f"proc/self/ns/{kind}") or "")
    return match is not None and int(match[1]) != _INITIAL[kind]


def _marker(tree: Tree) -> tuple[str | None, str]:
    named = tree.text("run/systemd/container")
    if named:
        return named, "/run/systemd/container"
    if tree.exists("run/.containerenv"):
        return "Podman", "/run/.containerenv"
    if tree.exists(".dockerenv"):
        return "Docker", "/.dockerenv"
    paths = own_paths(tree).values()
    for mark, meaning in _GROUP_NAMES:
        if any(mark in path for path in paths):
            return meaning, "/proc/self/cgroup"
    return None, ""
