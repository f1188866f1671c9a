"""Rules about memory on several NUMA nodes. They give no finding on a machine with one node.

Not here: the gain of another placement, which needs an experiment.
"""

from steelyard.analyze.pressure.kernel_activity import Activity
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rule, threshold_rule

REMOTE_RATIO = 0.20
ALLOCATED_PER_S = 1000.0
MISS_RATIO = 0.05
FULL_RATIO, ROOM_RATIO = 0.05, 0.25
MIGRATED_PER_S = 1000.0
REMOTE_HINT_RATIO = 0.40


@rule(
    "numa-remote",
    "Is memory allocated on remote nodes?",
    area="numa",
    cause="remote memory",
    threshold="convention: 20 % of the pages of a node that allocates 1,000 per second; remote memory has 1.3"
    " to 2 times the latency",
)
def _remote(activity: Activity) -> Finding | None:
    nodes = [
        node
        for node in activity.nodes
        if node.remote_ratio.value is not None and (node.allocated_per_s.value or 0.0) >= ALLOCATED_PER_S
    ]
    node = max(nodes, key=lambda candidate: candidate.remote_ratio.value or 0.0, default=None)
    if len(activity.nodes) < 2 or node is None or (node.remote_ratio.value or 0.0) < REMOTE_RATIO:
        return None
    ratio = node.remote_ratio.value or 0.0
    return Finding(
        f"{percent(ratio)} of the pages allocated on node {node.node} are for tasks on other nodes.",
        (Evidence(f"remote allocations on node {node.node}", ratio, "ratio", REMOTE_RATIO),),
        "Compare with the program bound to one node (`numactl --cpunodebind --membind`), or its"
        " memory interleaved.",
        0.4 + 0.4 * ratio,
        gain="0 to 40 % of CPI, depending on memory stalls (published: 1.15 x the CPI at 50 % locality)",
    )


@rule(
    "numa-miss",
    "Do allocations fall back to another node?",
    area="numa",
    cause="remote memory",
    threshold="Linux, Documentation/admin-guide/numastat.rst; 5 % is convention",
)
def _miss(activity: Activity) -> Finding | None:
    nodes = [node for node in activity.nodes if node.miss_ratio.value is not None]
    node = max(nodes, key=lambda candidate: candidate.miss_ratio.value or 0.0, default=None)
    if len(activity.nodes) < 2 or node is None or (node.miss_ratio.value or 0.0) < MISS_RATIO:
        return None
    ratio = node.miss_ratio.value or 0.0
    return Finding(
        f"{percent(ratio)} of the pages allocated on node {node.node} were meant for another, full node.",
        (Evidence(f"misses on node {node.node}", ratio, "ratio", MISS_RATIO),),
        "Find what fills the other node (`numastat -m`): often the page cache.",
        0.5,
        gain="these pages become local",
        part="dram_capacity",
    )


@rule(
    "numa-uneven",
    "Is one node full while another has free memory?",
    area="numa",
    threshold="convention: below 5 % free on one, above 25 % on another",
)
def _uneven(activity: Activity) -> Finding | None:
    free = {node.node: node.free_ratio.value for node in activity.nodes if node.free_ratio.value is not None}
    if len(free) < 2:
        return None
    full, empty = min(free, key=lambda node: free[node]), max(free, key=lambda node: free[node])
    if free[full] >= FULL_RATIO or free[empty] < ROOM_RATIO:
        return None
    return Finding(
        f"Node {full} has {percent(free[full])} of its memory free, node {empty} {percent(free[empty])}:"
        " the first one reclaims pages or falls back to others.",
        (
            Evidence(f"free on node {full}", free[full], "ratio", FULL_RATIO),
            Evidence(f"free on node {empty}", free[empty], "ratio", ROOM_RATIO),
        ),
        "Interleave large allocations (`numactl --interleave=all`), or place the programs evenly.",
        0.45,
        gain="no reclaim on the full node",
        part="dram_capacity",
    )


threshold_rule(
    "numa-migrations",
    "Does the kernel migrate many pages between nodes?",
    lambda activity: activity.event("numa_pages_migrated"),
    ("pages migrated", "1/s", MIGRATED_PER_S),
    "The kernel migrates {rate} pages per second between nodes.",
    "Compare with kernel.numa_balancing=0 and the program bound to nodes: permanent migration does not pay.",
    0.45,
    gain="a few microseconds of CPU time per page, and the hinting faults",
    area="numa",
    threshold="convention: 1,000 pages per second; each is copied, and its mappings are flushed",
)


@rule(
    "numa-faults-remote",
    "Do tasks access memory of other nodes?",
    area="numa",
    cause="remote memory",
    threshold="convention: 40 % of the NUMA hinting faults, by which the kernel samples accesses",
)
def _hints(activity: Activity) -> Finding | None:
    all_faults, local = activity.event("numa_hint_faults"), activity.event("numa_hint_faults_local")
    if all_faults < 100 or 1 - local / all_faults < REMOTE_HINT_RATIO:
        return None
    ratio = 1 - local / all_faults
    return Finding(
        f"{percent(ratio)} of the sampled accesses were to memory of another node.",
        (Evidence("remote hint faults", ratio, "ratio", REMOTE_HINT_RATIO),),
        "Check the location of the program's pages (`numastat -p PID`), and bind CPUs and memory together.",
        0.4 + 0.4 * ratio,
        gain="0 to 40 % of CPI, depending on memory stalls",
    )
