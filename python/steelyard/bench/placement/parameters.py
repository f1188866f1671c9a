"""The parameters of every benchmark that has instances, declared once."""

from steelyard.bench.parameters import Parameter

BINDING = "memory_binding"
THREADS = "thread_placement"

PLACEMENT_PARAMETERS = (
    Parameter(
        BINDING,
        "choice",
        "where servers' memory comes from: the NUMA node of their CPUs, or wherever the kernel takes it",
        default="node",
        choices=("node", "none"),
    ),
    Parameter(
        THREADS,
        "choice",
        "servers' threads float over the CPUs of their instance, or are pinned, each to one",
        default="floating",
        choices=("floating", "pinned"),
    ),
)
