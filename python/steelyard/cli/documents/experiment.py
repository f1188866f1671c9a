"""What ``steelyard experiment --json`` prints."""

from typing import ClassVar

from pydantic import Field

from steelyard.records import Record, RunStatus
from steelyard.records.experiment import ExperimentMetric, ExperimentPlan
from steelyard.records.values import Count, Value


class AnswerEntry(Value):
    """One arm beside the base."""

    arm: str = Field(description="Which arm")
    base: str = Field(description="The arm that it is compared with")
    outcome: str = Field(description="`better`, `worse`, `equivalent` or `undecided`")
    ratio: float | None = Field(description="Value of the arm over the base's, null without a whole block")
    low: float | None = Field(
        description="Lower end of the interval of `ratio`, null where `reason` says why"
    )
    high: float | None = Field(description="Upper end of it")
    confidence: float = Field(description="Of this interval; that of all arms together is the plan's")
    holds_at_every_look: bool = Field(description="Whether the interval holds however often it is looked at")
    blocks: Count = Field(description="Blocks in which both arms have a value")
    lost: dict[str, Count] = Field(description="Trials without a value, by arm")
    mean: float | None = Field(description="Geometric mean of the arm's values in these blocks")
    base_mean: float | None = Field(description="That of the base")
    blocks_needed: Count | None = Field(
        description="Blocks that find the smallest effect that matters with a probability of 0.8, null where"
        " the answer is known or the noise is not"
    )
    correlation: float | None = Field(description="Likeness of successive blocks, null where there is none")
    reason: str | None = Field(description="Why there is no interval, null where there is one")


class ExperimentAnswerDocument(Record):
    """What an experiment says."""

    KIND: ClassVar[str] = "experiment_answer"

    experiment_id: str = Field(description="Name of the experiment and of its folder")
    directory: str = Field(description="Its folder, which holds experiment.json")
    benchmark: str | None = Field(description="Benchmark of the trials, null where they are commands")
    factor: str = Field(description="What differs between the arms")
    metric: ExperimentMetric = Field(description="What is compared")
    plan: ExperimentPlan = Field(description="What was decided before the first trial")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(description="Why it is incomplete, or ended early")
    base: str = Field(description="The arm that the others are compared with")
    answers: list[AnswerEntry] = Field(description="One for each arm after the base")
    report: str | None = Field(description="The page that was written, null without one")
