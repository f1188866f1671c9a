"""What co-location costs two workloads."""

from enum import StrEnum
from typing import ClassVar, Self

from pydantic import Field, model_validator

from steelyard.records.io import Record
from steelyard.records.run import Orchestrator, RunStatus
from steelyard.records.values import Check, Clock, Count, Level, Value

SCHEMA_VERSION = "1.1"


class Condition(StrEnum):
    """What ran in a turn of a block."""

    FIRST = "first"
    SECOND = "second"
    TOGETHER = "together"


class ColocationRun(Value):
    """One run of a workload, alone or beside the other; the whole is in the run's own directory."""

    workload: Count = Field(description="Which of the two, 0 or 1")
    condition: Condition = Field(description="`first` or `second` alone, or both `together`")
    run_id: str | None = Field(
        default=None, description="Name of the run and of its directory, null where none was begun"
    )
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(default=None, description="Why it is incomplete, null otherwise")
    value: float | None = Field(default=None, description="The workload's metric, null without a result")
    overlap_ratio: float | None = Field(
        default=None,
        description="Share of its measure phase in which the other was in its own, null for a run alone",
    )
    objections: list[Check] = Field(
        description="Checks of its verdict that object, without the load of the other workload"
    )
    refused: str | None = Field(default=None, description="Why it does not count, null where it does")


class ColocationBlock(Value):
    """Each condition once, in random order."""

    index: Count = Field(description="Number of the block, from 1")
    order: list[Condition] = Field(description="The order of the conditions")
    runs: list[ColocationRun] = Field(description="The runs made so far")


class ColocationPrediction(Value):
    """What was expected of a workload, from how hard both press on the machine alone."""

    slowdown: float | None = Field(
        default=None, description="How many times as long work takes, null when not predicted"
    )
    slowdown_low: float | None = Field(
        default=None, description="Lower end of its interval, null for a prediction without observed pairs"
    )
    slowdown_high: float | None = Field(default=None, description="Upper end of it")
    method: str | None = Field(
        default=None, description="`shared limits` or `observed pairs`, null when not predicted"
    )
    resource: str | None = Field(
        default=None, description="The resource that is expected to be short, null for none"
    )
    missing: str | None = Field(default=None, description="Why nothing is predicted, null otherwise")
    error_ratio: float | None = Field(
        default=None, description="Predicted over measured slowdown less 1, null without one of them"
    )
    is_within_interval: bool | None = Field(
        default=None, description="Whether it is within the interval of the measured one, null without that"
    )


class ColocationWorkload(Value):
    """One of the two workloads."""

    name: str = Field(description="What it is called: the benchmark, or the program of a command")
    benchmark: str = Field(description="Which benchmark")
    parameters: dict[str, str] = Field(description="Parameters that were asked for")
    metric: str = Field(description="The metric that is compared")
    unit: str | None = Field(default=None, description="Its unit, null before the first result")
    better: str | None = Field(default=None, description="`higher` or `lower`, null before the first result")
    alone: list[float] = Field(description="Values that count, alone")
    together: list[float] = Field(description="Values that count, beside the other")
    slowdown: float | None = Field(
        default=None, description="Median alone over median together, or the reverse where lower is better"
    )
    slowdown_low: float | None = Field(
        default=None, description="Lower end of its 95 % interval, null below 3 values of either side"
    )
    slowdown_high: float | None = Field(default=None, description="Upper end of it")
    sessions: Count | None = Field(
        default=None,
        description="Earlier sessions of the same pair whose spread the interval has, null where it is of"
        " this one alone (from 1.1)",
    )
    missing: str | None = Field(default=None, description="Why there is no slowdown or no interval")
    use: dict[str, float | None] = Field(
        description="Share of each limit of the machine that it used alone, mean over its runs; null unknown"
    )
    beside: dict[str, float | None] = Field(
        description="What the other used alone of the same limits: on the same CPUs for `cpu`"
    )
    prediction: ColocationPrediction | None = Field(default=None, description="Null before the last run")


class Colocation(Record):
    """Two workloads alone and together: ``colocation.json``, beside the directories of their runs."""

    KIND: ClassVar[str] = "colocation"

    schema_version: str = Field(default=SCHEMA_VERSION, pattern=r"^\d+\.\d+$")
    colocation_id: str = Field(description="Unique name, also of the directory")
    tier: str = Field(description="`smoke`, `quick`, `standard` or `full`")
    repeats: Count = Field(description="Requested number of blocks")
    measure_s: float | None = Field(
        default=None,
        description="Length of the measure phases that was asked for, null where the tier decides; the"
        " shorter one is made longer",
    )
    seed: Count = Field(description="Of the order of the conditions")
    limits: list[str] = Field(description="Limits that were set for all runs, such as lo=1Gbit")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(default=None, description="Why it is incomplete, null otherwise")
    steelyard_version: str = Field(description="Version of Steelyard")
    command: list[str] = Field(description="The exact command")
    clock: Clock = Field(description="Both clocks at the start")
    end_ns: Count | None = Field(default=None, description="When the last run ended, null before")
    orchestrator: Orchestrator = Field(
        description="The process that drives it: one that says `running` and whose process is gone was killed"
    )
    workloads: list[ColocationWorkload] = Field(description="The two workloads")
    blocks: list[ColocationBlock] = Field(description="Blocks in the order in which they ran")
    together: dict[str, float] = Field(
        description="Share of each limit that both would use together, by their runs alone"
    )
    over: list[str] = Field(description="Resources that they would press past the threshold together")
    level: Level | None = Field(default=None, description="The verdict, null before the end")
    objections: list[str] = Field(description="Why it is not valid")

    @model_validator(mode="after")
    def _is_of_what_it_lists(self) -> Self:
        if len(self.workloads) != 2:
            raise ValueError("a co-location has two workloads")
        if (other := next((name for name in self.over if name not in self.together), None)) is not None:
            raise ValueError(f"{other[:40]!r} is over, and nothing says how far")
        if any(run.workload >= len(self.workloads) for block in self.blocks for run in block.runs):
            raise ValueError("a run is of a workload that is not listed")
        return self
