"""What ``steelyard numa experiment --json`` prints."""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record, RunStatus
from steelyard.records.experiment import ExperimentMetric, ExperimentPlan
from steelyard.records.values import Count, Value


class BarEntry(Value):
    """One bar of the published figures."""

    arm: str = Field(description="Which arm")
    scenario: Count = Field(description="From 1 to 6")
    ratio: float | None = Field(
        description="Performance over that of scenario 1 alone, above 1 where it is better; null without a"
        " block that has both"
    )


class PairEntry(Value):
    """One scenario beside another."""

    base: str = Field(description="The arm that it is compared with")
    arm: str = Field(description="Which arm")
    outcome: str = Field(description="`better`, `worse`, `equivalent`, `undecided` or `unreliable`")
    ratio: float | None = Field(description="Performance over the base's, above 1 where it is better")
    low: float | None = Field(
        description="Lower end of the interval of `ratio`, null where `reason` says why"
    )
    high: float | None = Field(description="Upper end of it")
    confidence: float = Field(description="Of this interval; that of all pairs together is the plan's")
    blocks: Count = Field(description="Blocks in which both have a value")
    blocks_needed: Count | None = Field(
        description="Blocks that find the smallest effect that matters with a probability of 0.8, null where"
        " the answer is known or the noise is not"
    )
    reason: str | None = Field(description="Why there is no interval, null where there is one")
    is_deciding: bool = Field(description="Whether the verdict follows from this interval")


class PlacedEntry(Value):
    """A placement to take over."""

    scenario: Count = Field(description="From 1 to 6")
    where: str = Field(description="Where threads and memory are")
    command: str | None = Field(description="Command line, null for figures of a file")
    co_runner_command: str | None = Field(description="That of the co-runner, null without one")


class ClusterEntry(Value):
    """Scenarios alone, or beside one co-runner."""

    co_runner: str | None = Field(description="Command or benchmark beside them, null when alone")
    matters: str = Field(
        description="What matters more: `locality`, `cache sharing`, `neither`, `something else`, `undecided`"
    )
    why: str = Field(description="Why, in words")
    bars: list[BarEntry] = Field(description="Normalised performance by scenario")
    pairs: list[PairEntry] = Field(description="Every two scenarios compared")
    best: PlacedEntry | None = Field(
        description="Where the workload should be, null while none is known to be as good as both others"
    )
    without_local: Count | None = Field(
        description="The better scenario where memory cannot all be local, null while that is not known"
    )


class CostEntry(Value):
    """A cost over that with all memory local."""

    ratio: float = Field(description="1.12 is 12 % more")
    low: float | None = Field(description="Lower end of its interval, null where there is none")
    high: float | None = Field(description="Upper end of it")


class AgreementEntry(Value):
    """Production beside laboratory, in one scenario."""

    scenario: Count = Field(description="2 or 3")
    score: float = Field(description="Its NUMA score, at which production is read")
    production: CostEntry = Field(description="What the fleet shows, within platform and load")
    laboratory: CostEntry = Field(description="What the load test shows")
    ratio: float = Field(description="The laboratory's cost over production's")
    low: float | None = Field(description="Lower end of its interval of 95 %, null where one side has none")
    high: float | None = Field(description="Upper end of it")
    agrees: str = Field(description="`agree`, `disagree` or `undecided`")
    why: str = Field(description="Why, in words")


class ProductionEntry(Value):
    """A fleet's finding of the same job."""

    job: str = Field(description="The job")
    metric: str = Field(description="The figure of it, as `steelyard fleet numa` names it")
    agreements: list[AgreementEntry] = Field(description="By scenario with remote memory")


class NumaExperimentDocument(Record):
    """What a NUMA experiment says."""

    KIND: ClassVar[str] = "numa_experiment"

    experiment_id: str = Field(description="Name of the experiment and of its folder, or of the file")
    directory: str | None = Field(description="Its folder, null for figures of a file")
    benchmark: str | None = Field(description="Benchmark of the trials, null where they are commands")
    metric: ExperimentMetric = Field(description="What is compared")
    plan: ExperimentPlan = Field(description="What was decided before the first trial")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(description="Why it is incomplete, or ended early")
    clusters: list[ClusterEntry] = Field(description="Alone, then beside each co-runner")
    production: ProductionEntry | None = Field(description="A fleet's finding, null where none was named")
    report: str | None = Field(description="The page that was written, null without one")
