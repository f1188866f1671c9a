"""The parameters of the benchmark of Cassandra, declared once."""

from steelyard.bench.load.hosts import HOST_PARAMETERS
from steelyard.bench.load.parameters import length_parameters, port_parameter, rate_parameter, seed_parameter
from steelyard.bench.parameters import Parameter

WORKLOADS = ("a", "b", "c", "d", "e", "f")
PROFILES = ("stock", "tuned")

PARAMETERS = (
    Parameter(
        "workload",
        "choice",
        "YCSB core workload: data/mixes/ycsb-*.toml",
        default="e",
        choices=WORKLOADS,
    ),
    Parameter(
        "profile",
        "choice",
        "configuration: workloads/cassandra/profiles/stock.toml or tuned.toml",
        default="tuned",
        choices=PROFILES,
    ),
    Parameter(
        "records",
        "count",
        "records of 1 kB before the load",
        derived="per tier; full: twice the memory",
        minimum=100,
        maximum=10**11,
    ),
    Parameter(
        "data",
        "text",
        "existing folder for the data, removed after the run; empty for the run's directory",
        default="",
    ),
    Parameter(
        "commit_log",
        "text",
        "existing folder for the commit log, best on a disk of its own; auto: on another disk with room, if"
        " there is one; empty for beside the data",
        default="",
    ),
    Parameter(
        "heap",
        "bytes",
        "heap of the Java virtual machine",
        derived="per profile, memory and tier",
        minimum=256 << 20,
    ),
    Parameter(
        "memtable",
        "bytes",
        "memory for memtables beside the heap; profile tuned only",
        derived="per profile, memory and tier",
        minimum=16 << 20,
    ),
    Parameter(
        "connections",
        "count",
        "connections, each with one request in flight",
        derived="per profile: 32, 200",
        minimum=1,
        maximum=32_768,
    ),
    rate_parameter(),
    Parameter(
        "load_threads",
        "count",
        "load generator threads",
        derived="the load's CPUs",
        minimum=1,
        maximum=1024,
    ),
    *length_parameters(),
    port_parameter("CQL"),
    *HOST_PARAMETERS,
    seed_parameter("keys and values"),
)
