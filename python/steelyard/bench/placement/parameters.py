"""The parameters of every benchmark that has instances, declared once."""

from steelyard.bench.parameters import Parameter

BINDING = "memory_binding"
THREADS = "thread_placement"

PLACEMENT_PARAMETERS = (
    Parameter(
        BINDING,
        "choice",
        "memory of servers: bound to the NUMA node of their CPUs, or not",
        default="node",
        choices=("node", "none"),
    ),
    Parameter(
        THREADS,
        "choice",
        "threads of servers: floating over the CPUs of their instance, or pinned to one CPU each",
        default="floating",
        choices=("floating", "pinned"),
    ),
)
