"""What ``steelyard scale --json`` prints."""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record, RunStatus
from steelyard.records.values import Count, Value


class ScalingFigure(Value):
    """A figure that may be missing."""

    value: float | None = Field(description="In its base unit, null where `missing` says why")
    missing: str | None = Field(description="Why there is no value")


class ScalingStep(Value):
    """All trials on one number of CPUs."""

    cpus: Count = Field(description="How many")
    listed: str | None = Field(description="Which, null where that is not known")
    shares_cores: bool = Field(description="Whether some of them are threads of one core")
    nodes: Count | None = Field(description="NUMA nodes that they are of, null where that is not known")
    ops_per_s: float | None = Field(
        description="Geometric mean of the throughput, null where `lost` says why"
    )
    by_block: dict[str, float] = Field(description="Throughput by block")
    lost: list[str] = Field(description="Why trials have no throughput")
    efficiency_ratio: float | None = Field(
        description="Throughput of each CPU over that of each at the first step"
    )
    law_ops_per_s: float | None = Field(
        description="Throughput of the model that holds, null where none does"
    )
    busy_ratio: float | None = Field(
        description="Share of the CPUs' time that the workload used, null where it is not known"
    )
    others_ratio: float | None = Field(
        description="Share of the CPUs' time that went to others, null where it was not measured"
    )
    readings: dict[str, float] = Field(
        description="Medians of latency, errors, counts and the numbers of --reading, by name"
    )
    path_length: ScalingFigure = Field(description="Instructions for each operation")
    cpi: ScalingFigure = Field(description="Clocks for each instruction")
    frequency_hz: ScalingFigure = Field(description="Clocks for each second of CPU time")


class ScalingParameter(Value):
    """A figure of the Universal Scalability Law."""

    value: float | None = Field(description="Null where the steps do not determine it, or it is infinite")
    low: float | None = Field(
        description="Lower end of the interval, null without one, or where it is infinite"
    )
    high: float | None = Field(description="Upper end of it, null without one, or where nothing bounds it")
    is_identified: bool = Field(description="Whether the steps determine it")
    reason: str | None = Field(description="Why they do not, or why there is no interval")


class ScalingLaw(Value):
    """The Universal Scalability Law: rate N / (1 + contention (N - 1) + coherency N (N - 1))."""

    rate: ScalingParameter = Field(description="Throughput of one CPU")
    contention: ScalingParameter = Field(description="Share of work that one CPU can do at a time")
    coherency: ScalingParameter = Field(description="What each CPU waits for each other one")
    peak: ScalingParameter = Field(description="CPUs at which throughput is highest")
    peak_throughput: ScalingParameter = Field(description="Throughput there")
    steps: Count = Field(description="Steps that were fitted")
    blocks: Count = Field(description="Blocks in which every step has a value")
    misfit_ratio: float | None = Field(
        description="Largest distance of a step from the curve, null where three steps leave none"
    )
    misfit_p_value: float | None = Field(
        description="Chance of such distances from noise alone, null with one block"
    )
    confidence: float = Field(description="Of each interval")


class ScalingEnds(Value):
    """A figure of a model with its interval."""

    value: float = Field(description="The figure")
    low: float | None = Field(description="Lower end of the interval, null without one")
    high: float | None = Field(description="Upper end of it, null without one")


class ScalingModel(Value):
    """The model that holds."""

    kind: str = Field(
        description="`law`, `siblings` (the law over cores, siblings worth a share), `node` (a NUMA node that"
        " costs something), `ceiling`, `bend` (any of these), or `none`"
    )
    at_cpus: ScalingEnds | None = Field(description="CPUs at which the curve bends, null without a bend")
    worth_ratio: ScalingEnds | None = Field(
        description="What a CPU beyond the bend is worth of one before it; of a level, all throughput"
    )
    node_worth_ratio: ScalingEnds | None = Field(
        description="Of siblings after a second node: what its cores are worth of the first one's"
    )
    is_level: bool = Field(description="Whether all throughput is lower beyond the bend")
    alternatives: list[str] = Field(description="Other models that are as near to the readings")
    nearest: str | None = Field(description="The nearest model, also where none holds; null of one step")
    misfit_ratio: float | None = Field(description="Largest distance of a step from the nearest model")
    cores: Count | None = Field(description="Cores that steps use up before siblings, null if not known")
    node_ends: list[Count] = Field(description="CPUs at which a NUMA node's cores are used up")


class ScalingPrediction(Value):
    """Throughput of a trial at a number of CPUs."""

    cpus: Count = Field(description="How many, or how many threads")
    ops_per_s: float | None = Field(description="Throughput, null where `reason` says why it is not known")
    low: float | None = Field(
        description="Lower end of the interval; without a value what throughput is at least, or null"
    )
    high: float | None = Field(description="Upper end of it; without a value what it is at most, or null")
    basis: str | None = Field(description="What it rests on")
    reason: str | None = Field(description="Why it is not known")


class ScalingLossTerm(Value):
    """One factor of the loss."""

    name: str = Field(
        description="`path length`, `CPI`, `frequency`, `clocks per CPU and second`, `CPU use` or"
        " `CPU time per operation`"
    )
    low: float | None = Field(description="Its figure at the first step")
    high: float | None = Field(description="Its figure at the last step")
    factor: float = Field(description="What it alone costs: above 1 is a loss")
    share: float | None = Field(description="Its part of the logarithm of the loss, null where that is small")


class ScalingLoss(Value):
    """What is lost from the first to the last step."""

    low_cpus: Count = Field(description="CPUs of the first step")
    high_cpus: Count = Field(description="CPUs of the last step")
    factor: float | None = Field(description="Throughput of a CPU at the first step over that at the last")
    terms: list[ScalingLossTerm] = Field(description="Factors that multiply to it; empty without counts")
    cause: str = Field(description="The main cause in words, or why it is not known")
    caveat: str | None = Field(description="What to know before believing it")
    is_clear: bool = Field(default=True, description="Whether more is lost than noise explains")
    noise_factor: float = Field(default=1.0, description="What noise alone makes of no loss")


class ScalingFunction(Value):
    """One function at both ends of the curve."""

    function: str = Field(description="Its name")
    low_ratio: dict[str, float | None] = Field(
        description="Share of samples at the first step by event, null where the report does not list it"
    )
    high_ratio: dict[str, float | None] = Field(description="The same at the last step")
    added_cycles_per_op: float | None = Field(description="Clocks that it added to each operation")
    share_of_change: float | None = Field(description="Its part of all clocks that were added")
    noise_ratio: float | None = Field(
        description="Half width of what sampling alone leaves of the difference"
    )


class ScalingLimit(Value):
    """Something that the workload cannot use."""

    id: str = Field(description="`idle`, `busy`, `others`, `flat` or `errors`")
    from_cpus: Count = Field(description="Step from which it holds")
    claim: str = Field(description="In words")


class ScalingDocument(Record):
    """A scaling curve and what it says."""

    KIND: ClassVar[str] = "scaling"

    source: str = Field(description="Folder of the experiment, or file that was measured elsewhere")
    benchmark: str | None = Field(description="Benchmark of the trials, null for commands and files")
    metric: str = Field(description="What throughput is counted by")
    status: RunStatus = Field(description="Status of the experiment; `complete` for a file")
    status_reason: str | None = Field(description="Why it is incomplete")
    steps: list[ScalingStep] = Field(description="In the order of their CPUs")
    speedup: float | None = Field(description="Throughput of the last step over that of the first")
    law: ScalingLaw | None = Field(description="The law, null without any throughput")
    model: ScalingModel | None = Field(
        default=None, description="The model that holds, null without any throughput"
    )
    predictions: list[ScalingPrediction] = Field(
        default=[], description="Throughput at the numbers of CPUs that were asked for"
    )
    loss: ScalingLoss | None = Field(description="Loss from the first to the last step, null with one")
    limits: list[ScalingLimit] = Field(description="What the workload cannot use")
    functions: list[ScalingFunction] = Field(
        description="Functions by what they added from the first to the last step, the largest first"
    )
    functions_missing: str | None = Field(description="Why no function is named")
    notes: list[str] = Field(description="What to know of the machine and the trials")
    report: str | None = Field(description="The page that was written, null without one")
