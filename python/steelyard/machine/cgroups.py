"""The control groups of this process, and the limits that they set: CPU time, CPUs, and memory.

Both hierarchies are read: version 1 has one tree per controller, version 2 one tree for all. A limit of any
ancestor binds, so that the smallest on the way up to the mount is what counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from steelyard._base import parse_cpu_list
from steelyard.machine.tree import Tree

UNLIMITED_BYTES = 1 << 60
"""Version 1 says "no limit" by the largest page-aligned number; nobody limits to an exbibyte."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted tree of control groups and where this process is in it."""

    version: int
    controllers: frozenset[str]
    """Of version 1, its controllers; of version 2, those that the process's group has enabled."""
    mount: str
    """Mount point below the root, without the leading slash."""
    groups: tuple[str, ...]
    """Folders from the process's group up to the mount, below the root."""


def hierarchies(tree: Tree) -> list[Hierarchy]:
    """Return the mounted hierarchies that this process is a member of."""
    paths = own_paths(tree)
    mounted: list[Hierarchy] = []
    seen: set[tuple[int, frozenset[str]]] = set()
    # Of several mounts of one tree, a recording may hold one only, and not the first.
    mounts = sorted(_mounts(tree), key=lambda each: not tree.exists(each[3]))
    for version, controllers, mounted_root, mount in mounts:
        path = paths.get("" if version == 2 else ",".join(sorted(controllers)))
        if path is None or (version, controllers) in seen:
            continue
        seen.add((version, controllers))
        groups = tuple(_ancestors(mount, _below(path, mounted_root)))
        if version == 2:
            controllers = frozenset((tree.text(f"{groups[0]}/cgroup.controllers") or "").split())
        mounted.append(Hierarchy(version, controllers, mount, groups))
    return mounted


def memory_groups(tree: Tree) -> list[tuple[int, str]]:
    """Return version and folder of each group that may limit the memory of the process, version 1 first."""
    return [
        (hierarchy.version, group)
        for hierarchy in sorted(hierarchies(tree), key=lambda hierarchy: hierarchy.version)
        if hierarchy.version == 2 or "memory" in hierarchy.controllers
        for group in hierarchy.groups
    ]


def quota_cpus(tree: Tree) -> float | None:
    """Return the CPUs' worth of time that the process may use, ``None`` when nothing limits it."""
    limits = []
    for hierarchy in hierarchies(tree):
        for group in hierarchy.groups:
            if hierarchy.version == 2:
                words = (tree.text(f"{group}/cpu.max") or "").split()
                quota, period = [*words, "", ""][:2]
            elif "cpu" in hierarchy.controllers:
                quota = tree.text(f"{group}/cpu.cfs_quota_us") or ""
                period = tree.text(f"{group}/cpu.cfs_period_us") or ""
            else:
                continue
            if quota.isdigit() and period.isdigit() and int(period) > 0:
                limits.append(int(quota) / int(period))
    return min(limits, default=None)


def cpuset_cpus(tree: Tree) -> list[int] | None:
    """Return the CPUs that the process's group may use, ``None`` when no control group says."""
    return _cpuset(tree, "cpus")


def cpuset_memory_nodes(tree: Tree) -> list[int] | None:
    """Return the NUMA nodes whose memory the process's group may use, ``None`` when no group says."""
    return _cpuset(tree, "mems")


def _cpuset(tree: Tree, kind: str) -> list[int] | None:
    for hierarchy in hierarchies(tree):
        if hierarchy.version == 2:
            names: tuple[str, ...] = (f"cpuset.{kind}.effective",)
        elif "cpuset" in hierarchy.controllers:
            # Mounted with `noprefix`, as the older cpuset file system was, the files have no prefix.
            names = (f"cpuset.effective_{kind}", f"cpuset.{kind}", f"effective_{kind}", kind)
        else:
            continue
        for group in hierarchy.groups:
            # An empty list of version 1 allows nothing to run there, and none of version 2 is effective.
            text = tree.first_text(*(f"{group}/{name}" for name in names))
            if text:
                return parse_cpu_list(text)
    return None


def memory_limit_bytes(tree: Tree) -> int | None:
    """Return the memory that the process may use, ``None`` when nothing limits it."""
    names = {1: "memory.limit_in_bytes", 2: "memory.max"}
    limits = (tree.number(f"{group}/{names[version]}") for version, group in memory_groups(tree))
    return min((limit for limit in limits if limit is not None and limit < UNLIMITED_BYTES), default=None)


def own_paths(tree: Tree) -> dict[str, str]:
    """Return the process's path by controllers (sorted, joined by commas; empty for version 2)."""
    paths = {}
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, mark, path = rest.partition(":")
        if mark and (names or number == "0"):
            paths[",".join(sorted(names.split(",")))] = path
    # Older kernels, and recordings of them, tell the cpuset alone.
    cpuset = tree.text("proc/self/cpuset")
    if cpuset:
        if "cpuset" not in {name for names in paths for name in names.split(",")}:
            paths.setdefault("", cpuset)
        paths.setdefault("cpuset", cpuset)
    return paths


_VERSION_1_OPTIONS = {
    "rw",
    "ro",
    "relatime",
    "nosuid",
    "nodev",
    "noexec",
    "xattr",
    "clone_children",
    "noprefix",
}


def _mounts(tree: Tree) -> Iterator[tuple[int, frozenset[str], str, str]]:
    """Yield version, controllers, the group that is mounted, and the mount point below the root."""
    for line in (tree.text("proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) >= 5 and len(kinds) >= 3:
            yield from _mount(kinds[0], kinds[2], fields[3], fields[4])
    if not tree.exists("proc/self/mountinfo"):
        for line in (tree.text("proc/mounts") or "").splitlines():
            fields = line.split()
            if len(fields) >= 4:
                yield from _mount(fields[2], fields[3], "/", fields[1])


def _mount(kind: str, options: str, root: str, point: str) -> Iterator[tuple[int, frozenset[str], str, str]]:
    if kind == "cgroup2":
        yield 2, frozenset(), root, point.lstrip("/")
    elif kind == "cpuset":
        # The file system that was there before control groups, usually at /dev/cpuset.
        yield 1, frozenset({"cpuset"}), root, point.lstrip("/")
    elif kind == "cgroup":
        words = [word for word in options.split(",") if "=" not in word or word.startswith("name=")]
        yield 1, frozenset(words) - _VERSION_1_OPTIONS, root, point.lstrip("/")


def _below(path: str, mounted_root: str) -> str:
    """Return the process's path relative to the group that is mounted (in a container, not the top one)."""
    if mounted_root != "/" and (path == mounted_root or path.startswith(mounted_root + "/")):
        path = path[len(mounted_root) :]
    elif mounted_root != "/":
        # The path is outside of the mounted group, which is all that can be seen.
        path = ""
    return path.strip("/")


def _ancestors(mount: str, path: str) -> Iterator[str]:
    group = PurePosixPath(path)
    while str(group) not in ("", "."):
        if ".." not in group.parts:
            yield f"{mount}/{group}"
        group = group.parent
    yield mount
