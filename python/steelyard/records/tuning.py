"""A tuning: knobs, the experiments that tried them, and the outcome."""

from typing import ClassVar

from pydantic import Field, JsonValue

from steelyard.records.experiment import ExperimentLive, ExperimentMetric
from steelyard.records.io import Record
from steelyard.records.run import Orchestrator, RunStatus
from steelyard.records.values import Clock, Count, Value


class TuningKnob(Value):
    """One knob that was tried, or could have been."""

    name: str = Field(description="Its name")
    about: str = Field(description="What it sets")
    found: str = Field(description="Its value before")
    levels: list[str] = Field(description="Levels to try, that before left out")
    risk: str = Field(description="`low`, `medium` or `high`")
    needs_reboot: bool = Field(description="Whether it can only be changed by a reboot, and is not tried")
    reason: str | None = Field(default=None, description="Why it was not tried, null where it was to be")


class TuningLack(Value):
    """A knob that the machine does not offer."""

    name: str = Field(description="Its name")
    reason: str = Field(description="Why it is not there")


class TuningGuard(Value):
    """A bound that trials keep."""

    name: str = Field(description="Its name")
    source: str = Field(description="`command`, `file` or `metric`")
    words: list[str] = Field(description="The command, the path, or the metric")
    is_most: bool = Field(description="Whether the limit is the greatest value allowed, not the least")
    limit: float = Field(description="The limit")


class TuningPlan(Value):
    """What was decided before the first trial."""

    strategy: str = Field(description="`one-at-a-time`, `hill-climb`, `exhaustive` or `optuna`")
    seed: Count = Field(description="Of the orders of trials")
    blocks: Count = Field(description="Most blocks of one experiment of the search")
    confirm_blocks: Count = Field(description="Blocks of the confirmation")
    budget_s: float | None = Field(default=None, description="Time for all trials, null: no limit")
    least_effect_ratio: float = Field(description="Smallest effect that matters, 0.01 for 1 %")
    confidence: float = Field(
        description="Of all comparisons of the search together, and of the confirmation"
    )
    settle_s: float = Field(description="Time after a change before a trial begins")
    timeout_s: float = Field(description="Longest time of one command")


class TuningEvidence(Value):
    """What an experiment said of one level."""

    experiment: str = Field(description="Folder of the experiment, in that of the tuning")
    purpose: str = Field(description="`search`, `ablate` or `confirm`")
    knob: str | None = Field(default=None, description="The knob, null for whole settings")
    level: str | None = Field(default=None, description="The level, null for whole settings")
    outcome: str = Field(
        description="`better`, `worse`, `equivalent`, `undecided`, or `dropped` or `not-tried` with a reason"
    )
    gain_ratio: float | None = Field(
        default=None, description="By how much it is better: above 1 is better; null without values"
    )
    low: float | None = Field(default=None, description="Lower end of its interval")
    high: float | None = Field(default=None, description="Upper end of it")
    confidence: float | None = Field(default=None, description="Of this interval")
    blocks: Count = Field(description="Blocks with both values")
    reason: str | None = Field(default=None, description="Why it was dropped, or why there is no interval")


class Tuning(Record):
    """One tuning: ``tuning.json``, beside the folders of its experiments."""

    KIND: ClassVar[str] = "tuning"
    VERSION: ClassVar[str] = "1.1"

    schema_version: str = Field(default=VERSION, pattern=r"^\d+\.\d+$")

    tuning_id: str = Field(description="Unique name, also of the directory")
    benchmark: str | None = Field(description="Benchmark of the trials, null for commands or a service")
    tier: str | None = Field(description="Tier of the benchmark, null without one")
    hooks: list[str] = Field(description="Hooks of every run")
    settings: dict[str, str] = Field(description="Parameters of all runs")
    template: list[str] = Field(
        description="The command, with places for levels; empty with a benchmark or a service"
    )
    live: ExperimentLive | None = Field(
        default=None, description="The running service that trials look at, null where they start something"
    )
    metric: ExperimentMetric = Field(description="What is improved")
    root: str = Field(description="Root of the files of the machine")
    knobs: list[TuningKnob] = Field(description="Knobs, in the order in which they are tried")
    lacking: list[TuningLack] = Field(description="Knobs that the machine does not offer")
    guards: list[TuningGuard] = Field(description="Guardrails")
    plan: TuningPlan = Field(description="What was decided before the first trial")
    evidence: list[TuningEvidence] = Field(description="In the order in which it was found")
    chosen: dict[str, str] = Field(description="Levels of the soft SKU; empty where no knob helps")
    outcome: str | None = Field(
        default=None,
        description="`better`: the soft SKU is confirmed; `none`: no knob helps; `undecided`: none is shown"
        " to, and of some it is not known; null: the tuning is not over",
    )
    trials: Count = Field(description="Trials made")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(default=None, description="Why it is incomplete")
    steelyard_version: str = Field(description="Version of Steelyard")
    command: list[str] = Field(description="The exact command")
    request: dict[str, JsonValue] | None = Field(
        default=None,
        description="What was asked, by field of the request, without defaults; null before version 1.1",
    )
    clock: Clock = Field(description="Both clocks at the start")
    orchestrator: Orchestrator = Field(description="The process that drives it, or drove it last")
