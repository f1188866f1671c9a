"""What microbenchmarks of the datacenter tax measured. The same shape as ``crates/record/src/tax.rs``."""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.load import Tool
from steelyard.records.values import Clock, Count, Value, Verdict


class TaxSettings(Value):
    """What was asked of the microbenchmarks."""

    time_s: float = Field(description="Time for everything, s")
    batch_ns: Count = Field(description="Length that batches were sized for, ns")
    seed: Count = Field(description="Seed of inputs and orders")
    only: list[str] = Field(
        description="Words of which a benchmark's name or category must hold one; all benchmarks when empty"
    )
    cores: str = Field(description="`one`, `all` or `both`")
    cpus: list[Count] = Field(description="CPUs of the run on all cores")
    one_cpu: Count = Field(description="CPU of the run on one core")
    quantile: float = Field(description="Quantile of the rounds' times that stands for a benchmark")
    confidence: float = Field(description="Confidence of every interval")
    wide_bound_ratio: float = Field(
        description="Width of an interval over its value above which a result is `wide`"
    )


class TaxMeasure(Value):
    """What one benchmark did on one core, or on all at once."""

    workers: Count = Field(description="Cores that ran it at the same time")
    operations_per_batch: Count = Field(description="Operations a worker does in a batch")
    time_ns: float = Field(description="Time per operation of one core, ns")
    interval_low_ns: float | None = Field(
        default=None,
        description="Lower end of the interval of `time_ns`, null with too few rounds for the confidence",
    )
    interval_high_ns: float | None = Field(
        default=None,
        description="Upper end of the interval of `time_ns`, null with too few rounds for the confidence",
    )
    width_ratio: float | None = Field(
        default=None, description="Width of the interval over `time_ns`, null without an interval"
    )
    wide: bool = Field(description="Whether the interval is wider than the bound, or there is none")
    rate_per_s: float = Field(description="Operations per second of all workers together")
    rate_bytes_per_s: float | None = Field(
        default=None,
        description="Bytes per second of all workers together, null where operations have no size",
    )
    worker_rates_per_s: list[float] = Field(
        description="Operations per second of each worker, in the order of the CPUs"
    )
    overlap_ratio: float = Field(
        description="Median over rounds of the shortest worker's time over the longest's: 1 when all ran at"
        " the same time throughout"
    )
    batches: Count = Field(description="Batches, one a round and worker")
    disturbed: Count = Field(
        description="Batches in which something else had the CPU; they are part of the result"
    )
    cpu_ratio: float = Field(description="CPU time over wall time of all batches")
    checksum: str | None = Field(
        default=None,
        description="Checksum of what a batch computed, null where batches do not repeat it",
    )


class TaxBenchmark(Value):
    """One benchmark."""

    name: str = Field(description="Its name")
    category: str = Field(description="Its category, such as `hashing`")
    operation: str = Field(description="What one operation is")
    bytes_per_operation: float | None = Field(
        default=None, description="Bytes an operation takes in, null where operations have no size"
    )
    compressed_ratio: float | None = Field(
        default=None,
        description="Size after compression over size before, null where nothing is compressed",
    )
    waits: bool = Field(description="Whether workers sleep as part of their work")
    one: TaxMeasure | None = Field(default=None, description="On one core, null when it was not measured")
    all: TaxMeasure | None = Field(
        default=None, description="On all cores at once, null when it was not measured"
    )
    missing: str | None = Field(
        default=None,
        description="Why `one` or `all` is null although it was requested, null where neither is",
    )
    scaling_ratio: float | None = Field(
        default=None,
        description="Rate on all cores over rate on one core times the number of cores, null without both",
    )


class TaxCategory(Value):
    """One category's part of a score."""

    benchmarks: Count = Field(description="Benchmarks in it")
    rate_per_s: float = Field(description="Geometric mean over them, operations per second")
    interval_low_per_s: float | None = Field(
        default=None, description="Lower end of its interval, null with too few rounds"
    )
    interval_high_per_s: float | None = Field(
        default=None, description="Upper end of its interval, null with too few rounds"
    )


class TaxScore(Value):
    """Rates as one figure. Only its ratio to that of another run of the same benchmarks means anything."""

    rate_per_s: float = Field(description="Geometric mean over categories, operations per second")
    interval_low_per_s: float | None = Field(
        default=None, description="Lower end of its interval, null with too few rounds"
    )
    interval_high_per_s: float | None = Field(
        default=None, description="Upper end of its interval, null with too few rounds"
    )
    categories: dict[str, TaxCategory] = Field(description="By category")


class TaxResult(Record):
    """What microbenchmarks of the datacenter tax measured: ``tax.json``."""

    KIND: ClassVar[str] = "tax_result"

    tool: Tool = Field(description="The program that wrote it")
    command: list[str] = Field(description="Its command line")
    clock: Clock = Field(description="Both clocks at the start")
    settings: TaxSettings = Field(description="Settings")
    begin_ns: Count = Field(description="Start of the first round, after inputs were made and batches sized")
    end_ns: Count = Field(description="End of the last round")
    cpu_user_s: float = Field(description="User CPU time of the program between the two, s")
    cpu_system_s: float = Field(description="System CPU time of the program between the two, s")
    interrupted: bool = Field(
        description="Whether it was stopped before its time; rounds that were complete count all the same"
    )
    rounds: Count = Field(
        description="Rounds that were completed; each ran every benchmark once, in an order of its own"
    )
    benchmarks: list[TaxBenchmark] = Field(description="One row a benchmark, by category and name")
    score_one: TaxScore | None = Field(
        default=None, description="Score on one core, null when it was not measured"
    )
    score_all: TaxScore | None = Field(
        default=None, description="Score on all cores at once, null when it was not measured"
    )
    verdict: Verdict = Field(description="Whether the measuring vouches for the result")
