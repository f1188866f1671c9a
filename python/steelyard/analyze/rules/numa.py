"""Rules about memory of several nodes. All are silent on a machine with one.

Not here: whether placing a program differently pays, which an experiment tells.
"""

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.rules.findings import Evidence, Finding, percent, rate_text, rule

REMOTE_RATIO = 0.20
ALLOCATED_PER_S = 1000.0
MISS_RATIO = 0.05
FULL_RATIO, ROOM_RATIO = 0.05, 0.25
MIGRATED_PER_S = 1000.0
REMOTE_HINT_RATIO = 0.40


@rule(
    "numa-remote",
    "Is memory allocated on nodes far from the task?",
    area="numa",
    cause="remote memory",
    threshold="convention: a fifth of the pages of a node that gives 1,000 a second; remote memory is"
    " 1.3 to 2 times as"
    " far",
)
def _remote(conditions: Conditions) -> Finding | None:
    nodes = [
        node
        for node in conditions.activity.nodes
        if node.remote_ratio.value is not None and (node.allocated_per_s.value or 0.0) >= ALLOCATED_PER_S
    ]
    node = max(nodes, key=lambda one: one.remote_ratio.value or 0.0, default=None)
    if len(conditions.activity.nodes) < 2 or node is None or (node.remote_ratio.value or 0.0) < REMOTE_RATIO:
        return None
    ratio = node.remote_ratio.value or 0.0
    return Finding(
        f"{percent(ratio)} of the pages that node {node.node} gives go to tasks on other nodes.",
        (Evidence(f"remote allocations on node {node.node}", ratio, "ratio", REMOTE_RATIO),),
        "Compare with the program bound to one node (`numactl --cpunodebind --membind`), or its"
        " memory interleaved.",
        0.4 + 0.4 * ratio,
        gain="0 to 40 % in time per instruction, by how much it waits for memory (published: CPI 1.15"
        " x at half"
        " local)",
    )


@rule(
    "numa-miss",
    "Could a node not give the memory that was asked of it?",
    area="numa",
    cause="remote memory",
    threshold="Linux, Documentation/admin-guide/numastat.rst; a twentieth is convention",
)
def _miss(conditions: Conditions) -> Finding | None:
    nodes = [node for node in conditions.activity.nodes if node.miss_ratio.value is not None]
    node = max(nodes, key=lambda one: one.miss_ratio.value or 0.0, default=None)
    if len(conditions.activity.nodes) < 2 or node is None or (node.miss_ratio.value or 0.0) < MISS_RATIO:
        return None
    ratio = node.miss_ratio.value or 0.0
    return Finding(
        f"{percent(ratio)} of the pages given by node {node.node} were wanted on another, which had none.",
        (Evidence(f"misses on node {node.node}", ratio, "ratio", MISS_RATIO),),
        "See what fills the wanted node (`numastat -m`), often the page cache.",
        0.5,
        gain="those pages become local",
        part="dram_capacity",
    )


@rule(
    "numa-uneven",
    "Is one node full while another has room?",
    area="numa",
    threshold="convention: below 5 % free on one, above 25 % on another",
)
def _uneven(conditions: Conditions) -> Finding | None:
    free = {
        node.node: node.free_ratio.value
        for node in conditions.activity.nodes
        if node.free_ratio.value is not None
    }
    if len(free) < 2:
        return None
    full, empty = min(free, key=lambda node: free[node]), max(free, key=lambda node: free[node])
    if free[full] >= FULL_RATIO or free[empty] < ROOM_RATIO:
        return None
    return Finding(
        f"Node {full} has {percent(free[full])} of its memory free, node {empty} {percent(free[empty])}:"
        " the first reclaims or spills.",
        (
            Evidence(f"free on node {full}", free[full], "ratio", FULL_RATIO),
            Evidence(f"free on node {empty}", free[empty], "ratio", ROOM_RATIO),
        ),
        "Interleave what is large (`numactl --interleave=all`), or place the programs evenly.",
        0.45,
        gain="no reclaim on the full node",
        part="dram_capacity",
    )


@rule(
    "numa-migrations",
    "Does the kernel move pages between nodes all the time?",
    area="numa",
    threshold="convention: 1,000 pages a second; each is copied and its mappings flushed",
)
def _migrations(conditions: Conditions) -> Finding | None:
    per_s = conditions.activity.event("numa_pages_migrated")
    if per_s < MIGRATED_PER_S:
        return None
    return Finding(
        f"The kernel moves {rate_text(per_s)} pages a second between nodes.",
        (Evidence("pages moved", per_s, "1/s", MIGRATED_PER_S),),
        "Compare with kernel.numa_balancing=0 and the program bound to nodes: moving that never ends"
        " pays nothing.",
        0.45,
        gain="a few microseconds of CPU time a page, and the faults that find them",
    )


@rule(
    "numa-faults-remote",
    "Do tasks find their memory on other nodes?",
    area="numa",
    cause="remote memory",
    threshold="convention: 40 % of the faults by which the kernel samples accesses",
)
def _hints(conditions: Conditions) -> Finding | None:
    activity = conditions.activity
    all_faults, local = activity.event("numa_hint_faults"), activity.event("numa_hint_faults_local")
    if all_faults < 100 or 1 - local / all_faults < REMOTE_HINT_RATIO:
        return None
    ratio = 1 - local / all_faults
    return Finding(
        f"{percent(ratio)} of the sampled accesses were to memory of another node.",
        (Evidence("remote hint faults", ratio, "ratio", REMOTE_HINT_RATIO),),
        "See where the program's pages lie (`numastat -p PID`), and bind CPUs and memory together.",
        0.4 + 0.4 * ratio,
        gain="0 to 40 % in time per instruction, by how much it waits for memory",
    )
