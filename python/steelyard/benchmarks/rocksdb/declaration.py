"""What belongs to the benchmark of RocksDB."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.stack.recipe import Packages, Recipe

DECLARATION = Declaration(
    name="rocksdb",
    title="RocksDB",
    doc="RocksDB's db_bench: fillseq, readrandom, readwhilewriting",
    benchmark="steelyard.benchmarks.rocksdb.benchmark:RocksDbBench",
    headline=(
        "readrandom_all_per_s",
        "readrandom_one_per_s",
        "readwhilewriting_all_per_s",
        "readwhilewriting_one_per_s",
        "fillseq_per_s",
        "readrandom_all_p99_ns",
        "readrandom_scaling_ratio",
        "server_cpu_ratio",
    ),
    parts=(
        "fillseq_per_s",
        "readrandom_one_per_s",
        "readrandom_all_per_s",
        "readwhilewriting_one_per_s",
        "readwhilewriting_all_per_s",
    ),
    suites=("characterization",),
    sections="steelyard.benchmarks.rocksdb.section:sections",
    order=22,
    metric_names={
        "readrandom_one_per_s": "readrandom, 1 thread",
        "readrandom_all_per_s": "readrandom",
        "readwhilewriting_one_per_s": "readwhilewriting, 1 thread",
        "readwhilewriting_all_per_s": "readwhilewriting",
        "readrandom_scaling_ratio": "scaling of readrandom",
    },
    recipe=Recipe(
        packages=Packages(apt=("rocksdb-tools",), dnf=("rocksdb-tools",)),
        programs=("db_bench",),
        disk_bytes=20 << 20,
    ),
)
