"""Knobs of memory: transparent and static huge pages, NUMA balancing, dirty pages."""

from __future__ import annotations

from steelyard.machine.tree import Tree, keyed, parse_size
from steelyard.tune.knobs.knob import FilesKnob, Found, Knob, Lacking, Risk, choices, unwritable

_THP = "sys/kernel/mm/transparent_hugepage"
_VM = "proc/sys/vm"
_POOLS = "sys/kernel/mm/hugepages"
_NODES = "sys/devices/system/node"
_SHARES = (0.0, 1 / 16, 1 / 8, 1 / 4)
"""Of free memory, for static huge pages."""
_NODE_PATTERN = r"node\d+"


def _words(tree: Tree, name: str, about: str, path: str, wanted: tuple[str, ...]) -> Knob | Lacking:
    if (why := unwritable(tree, [path])) is not None:
        return Lacking(name, about, why)
    offered = choices(tree, path)
    # A recorded tree keeps what was written last, without the other choices.
    levels = tuple(word for word in wanted if len(offered) < 2 or word in offered)
    return FilesKnob(name, about, (tree.path(path),), levels)


def huge_pages(tree: Tree) -> Found:
    """Transparent huge pages, and pools of static ones by size and node."""
    found: list[Knob | Lacking] = [
        _words(
            tree,
            "thp_enabled",
            "transparent huge pages: for all memory, on request (madvise), or never",
            f"{_THP}/enabled",
            ("always", "madvise", "never"),
        ),
        _words(
            tree,
            "thp_defrag",
            "whether a page fault waits for memory to be compacted into a huge page",
            f"{_THP}/defrag",
            ("always", "defer", "defer+madvise", "madvise", "never"),
        ),
    ]
    nodes = tree.names(_NODES, _NODE_PATTERN)
    pools = tree.names(_POOLS, r"hugepages-\d+kB")
    if not pools:
        return [*found, Lacking("huge_pages", "static huge pages", f"/{_POOLS} holds no pool")]
    for pool in pools:
        size = parse_size(pool.removeprefix("hugepages-")) or 0
        name = f"huge_pages_{_size_text(size)}"
        found.append(_pool(tree, name, f"{_POOLS}/{pool}", size, _free_bytes(tree, "proc/meminfo")))
        if len(nodes) > 1:
            found += [
                _pool(
                    tree,
                    f"{name}_{node}",
                    f"{_NODES}/{node}/hugepages/{pool}",
                    size,
                    _free_bytes(tree, f"{_NODES}/{node}/meminfo"),
                )
                for node in nodes
            ]
    return found


def _pool(tree: Tree, name: str, folder: str, size: int, free_bytes: int | None) -> Knob | Lacking:
    about = f"static huge pages of {_size_text(size)} in the pool"
    path = f"{folder}/nr_hugepages"
    if (why := unwritable(tree, [path])) is not None:
        return Lacking(name, about, why)
    if free_bytes is None or size == 0:
        return Lacking(name, about, "free memory is not known")
    present = tree.number(path) or 0
    most = present + free_bytes // 2 // size
    counts = {present, *(int(present + share * free_bytes / size) for share in _SHARES), 0}
    levels = tuple(str(count) for count in sorted(counts) if count <= most)
    if len(levels) < 2:
        return Lacking(name, about, f"free memory holds no page of {_size_text(size)}")
    return FilesKnob(
        name,
        about,
        (tree.path(path),),
        levels,
        risk=Risk.MEDIUM,
        minimum=0,
        maximum=most,
        is_ordered=True,
    )


def _free_bytes(tree: Tree, name: str) -> int | None:
    text = tree.text(name)
    # Of a node: "Node 0 MemFree:  123 kB".
    values = keyed(
        "\n".join(line.partition("Mem")[1] + line.partition("Mem")[2] for line in (text or "").splitlines())
    )
    kilobytes = values.get("MemAvailable") or values.get("MemFree")
    return None if kilobytes is None else parse_size(kilobytes)


def _size_text(size: int) -> str:
    return (
        f"{size >> 30}GiB"
        if size >= 1 << 30
        else f"{size >> 20}MiB"
        if size >= 1 << 20
        else f"{size >> 10}KiB"
    )


def numa_balancing(tree: Tree) -> Found:
    """Moving of pages to the nodes that use them."""
    name, about, path = (
        "numa_balancing",
        "moving of pages and threads between nodes",
        "proc/sys/kernel/numa_balancing",
    )
    if len(tree.names(_NODES, _NODE_PATTERN)) < 2:
        return [Lacking(name, about, "the machine has one node")]
    if (why := unwritable(tree, [path])) is not None:
        return [Lacking(name, about, why)]
    return [FilesKnob(name, about, (tree.path(path),), ("0", "1"))]


def dirty_limits(tree: Tree) -> Found:
    """Shares of memory that writers may dirty before they wait, and before writing starts."""
    found: list[Knob | Lacking] = []
    for name, about, levels in (
        ("dirty_ratio", "share of memory with unwritten pages at which writers wait, %", ("10", "20", "40")),
        ("dirty_background_ratio", "share at which writing starts in the background, %", ("2", "5", "10")),
    ):
        path = f"{_VM}/{name}"
        why = unwritable(tree, [path])
        if why is None and tree.number(path.replace("_ratio", "_bytes")):
            why = f"vm.{name.replace('_ratio', '_bytes')} is set, which takes its place"
        found.append(
            Lacking(name, about, why)
            if why is not None
            else FilesKnob(name, about, (tree.path(path),), levels, minimum=1, maximum=90, is_ordered=True)
        )
    return found
