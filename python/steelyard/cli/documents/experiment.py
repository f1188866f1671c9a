"""What ``steelyard experiment --json`` prints."""

from typing import ClassVar, Literal

from pydantic import Field

from steelyard.records import Record, RunStatus
from steelyard.records.experiment import ExperimentMetric, ExperimentPlan
from steelyard.records.values import Count, Value


class GuardEntry(Value):
    """A guardrail of one arm."""

    name: str = Field(description="Its metric")
    outcome: str = Field(description="`kept`, `breached` or `undecided`")
    ratio: float | None = Field(
        description="Value of the arm over the base's, null without a whole block and where the base's are 0"
    )
    low: float | None = Field(
        description="Lower end of its interval, null where there is none or nothing bounds it"
    )
    high: float | None = Field(description="Upper end of it")
    confidence: float = Field(description="Of this interval; that of all guardrails together is the plan's")
    bound: float | None = Field(
        description="Ratio that it must not pass, upwards where less is better; null while that is not known"
    )
    blocks: Count = Field(description="Blocks in which both arms have a value")
    reason: str | None = Field(description="Why there is no interval, null where there is one")
    mean: float | None = Field(default=None, description="Mean of the arm's values in these blocks")
    base_mean: float | None = Field(default=None, description="That of the base")


class EffectEntry(Value):
    """An effect of the order of trials on a trial's value, as a ratio."""

    ratio: float = Field(description="1 is none")
    low: float = Field(description="Lower end of its interval of 99 %")
    high: float = Field(description="Upper end of it")
    is_taken_out: bool = Field(default=True, description="Whether the answer is without it")


class AnswerEntry(Value):
    """One arm beside the base."""

    arm: str = Field(description="Which arm")
    base: str = Field(description="The arm that it is compared with")
    outcome: str = Field(
        description="`better`, `worse`, `equivalent`, `undecided`, `breached` or `unreliable`"
    )
    ratio: float | None = Field(description="Value of the arm over the base's, null without a whole block")
    low: float | None = Field(
        description="Lower end of the interval of `ratio`, null where `reason` says why"
    )
    high: float | None = Field(description="Upper end of it")
    confidence: float = Field(description="Of this interval; that of all arms together is the plan's")
    holds_at_every_look: bool = Field(description="Whether the interval holds at all looks together")
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
    guards: list[GuardEntry] = Field(
        default_factory=list, description="Metrics that must not get worse than a margin"
    )
    by_metric: str | None = Field(
        default=None,
        description="Outcome by the metric alone where `outcome` is `breached` or `unreliable`, else null",
    )
    caution: str | None = Field(
        default=None, description="What the interval leaves out, null where that is nothing"
    )
    position: EffectEntry | None = Field(
        default=None,
        description="Of a trial made one later within its block, which is taken out of `ratio`; null where"
        " the order is not known",
    )
    carry_over: EffectEntry | None = Field(
        default=None,
        description="Of following a trial of the arm rather than of the base, which is taken out of `ratio`"
        " where it exceeds its error; null where that is not known",
    )
    worst_ratio: float | None = Field(
        default=None, description="The worst of the arm's values over their median, null without values"
    )
    unseen_ratio: float | None = Field(
        default=None,
        description="What happens in fewer of the arm's trials than this may not have been seen, with a"
        " confidence of 95 %; null without values",
    )


class LevelEntry(Value):
    """One point of a response curve."""

    arm: str = Field(description="Which arm")
    level: float = Field(description="Its name as a number")
    mean: float | None = Field(description="Geometric mean of the metric, null without a value")
    beside: dict[str, float | None] = Field(
        description="Geometric mean of each p99, of CPI and of misses of the last cache, null without a value"
    )


class KneeEntry(Value):
    """Where the curve goes on much more flatly, or steeply."""

    at: float | None = Field(description="In the unit of the levels, null where `reason` says why")
    low: float | None = Field(description="Lower end of its interval, null without a knee")
    high: float | None = Field(description="Upper end of it")
    confidence: float = Field(description="Of this interval")
    p_value: float | None = Field(
        description="Chance of such a bend where the curve has no knee, null where it could not be asked"
    )
    is_log: bool = Field(description="Whether the lines are straight over the logarithm of the levels")
    before: float | None = Field(
        description="Change of the metric over its mean, at the slope before, over the whole range of levels;"
        " null without a bend"
    )
    after: float | None = Field(description="The same at the slope after")
    reason: str | None = Field(description="Why there is no knee, null where there is one")
    side: Literal["at or below", "at or above"] | None = Field(
        default=None,
        description="Side of `at` on which the knee is, if between the first two or last two levels",
    )
    is_gradual: bool = Field(
        default=False, description="Whether two straight lines do not fit: the curve bends around `at`"
    )
    correlation: float | None = Field(
        default=None,
        description="Of a level's value with that of the block before, as the interval allows for it;"
        " null where blocks have no order",
    )


class ResponseEntry(Value):
    """The metric over levels that are numbers."""

    levels: list[LevelEntry] = Field(description="Ascending")
    unit: str = Field(description="Of the levels: `1`, `bytes` or `s`")
    knee: KneeEntry = Field(description="Its knee")


class NeedEntry(Value):
    """What it takes to see an effect in 4 of 5 experiments."""

    effect_ratio: float = Field(description="The effect, 0.01 for 1 %")
    blocks: Count = Field(description="Blocks in all")
    seconds: float | None = Field(description="Time of their trials, null where that of one is not known")


class ExperimentPlanDocument(Record):
    """What ``steelyard experiment --plan --json`` and ``--pilot N --json`` print."""

    KIND: ClassVar[str] = "experiment_plan"

    directory: str | None = Field(default=None, description="Folder of the pilot, null without one")
    benchmark: str | None = Field(description="Benchmark of the trials, null where they are commands")
    factor: str = Field(description="What differs between the arms")
    arms: list[str] = Field(description="Their names; the first is the base")
    metric: ExperimentMetric = Field(description="What is compared")
    plan: ExperimentPlan = Field(description="What is decided before the first trial")
    earlier: list[str] = Field(description="Experiments that the noise is known from")
    blocks: Count = Field(description="Their whole blocks")
    deviation: float | None = Field(
        description="Standard deviation of the log-ratio of one block, null where `reason` says why"
    )
    trial_s: float | None = Field(description="Mean time of a trial, null where none was made")
    needs: list[NeedEntry] = Field(description="Blocks by effect, empty without a deviation")
    reason: str | None = Field(description="Why nothing is known, null where something is")


class ExperimentAnswerDocument(Record):
    """What an experiment says."""

    KIND: ClassVar[str] = "experiment_answer"

    experiment_id: str | None = Field(
        description="Name of the experiment and of its folder, null where it was measured elsewhere"
    )
    directory: str | None = Field(
        description="Its folder, which holds experiment.json, null where it was measured elsewhere"
    )
    benchmark: str | None = Field(description="Benchmark of the trials, null where they are commands")
    factor: str = Field(description="What differs between the arms")
    metric: ExperimentMetric = Field(description="What is compared")
    plan: ExperimentPlan = Field(description="What was decided before the first trial")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(description="Why it is incomplete, or ended early")
    base: str = Field(description="The arm that the others are compared with")
    answers: list[AnswerEntry] = Field(description="One for each arm after the base")
    response: ResponseEntry | None = Field(
        default=None, description="The curve, null where the arms are not at least three numbers"
    )
    by_factor: dict[str, list[AnswerEntry]] = Field(
        default_factory=dict,
        description="Levels of each factor beside its first, over all levels of the others; empty without"
        " combinations of factors",
    )
    report: str | None = Field(description="The page that was written, null without one")
