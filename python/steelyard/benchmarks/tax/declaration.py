"""What belongs to the datacenter tax."""

from steelyard.bench.declaration import Declaration
from steelyard.bench.parameters.ranges import SearchRange
from steelyard.bench.tiers import TIERS

CATEGORIES = (
    "allocation",
    "compression",
    "concurrency",
    "encryption",
    "hashing",
    "kernel",
    "memory",
    "rpc",
    "serialization",
)
"""As `steelyard-tax list` names them."""

DECLARATION = Declaration(
    name="tax",
    title="Datacenter tax",
    doc="microbenchmarks: compression, hashing, encryption and the like",
    benchmark="steelyard.benchmarks.tax.benchmark:TaxBench",
    headline=(
        "operations_per_s",
        "operations_one_per_s",
        "scaling_ratio",
        "score_interval_ratio",
        "disturbed_ratio",
    ),
    metric_names={
        "operations_one_per_s": "operations on one core",
        "score_interval_ratio": "score's 95 % interval, half",
        "scaling_ratio": "scaling of what also runs on one core",
        "disturbed_ratio": "batches interrupted by others",
    },
    search=(
        SearchRange("only", choices=CATEGORIES, moves=("tax_categories", "functions")),
        SearchRange("cores", choices=("one", "all", "both"), moves=("cpu_idle_ratio", "cpu_user_ratio")),
    ),
    parts=tuple(f"{category}_per_s" for category in CATEGORIES),
    suites=(*TIERS, "dcperf"),
    order=3,
    sections="steelyard.benchmarks.tax.section:sections",
)
