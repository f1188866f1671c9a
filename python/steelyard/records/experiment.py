"""An experiment: arms, the order in which they were tried, and what each trial gave."""

from typing import ClassVar, Self

from pydantic import Field, JsonValue, model_validator

from steelyard.records.io import Record
from steelyard.records.run import Orchestrator, RunStatus
from steelyard.records.values import Clock, Count, Value


class ExperimentCpus(Value):
    """The CPUs of a step of a scaling curve."""

    listed: str = Field(description="Which, as 0-3,8")
    shares_cores: bool = Field(description="Whether some of them are threads of one core")
    nodes: Count | None = Field(description="NUMA nodes that they are of, null where the kernel tells none")


class ExperimentPlacement(Value):
    """Where a trial of a NUMA scenario has its threads and its memory."""

    scenario: Count = Field(description="From 1 to 6, as published")
    cpus: str = Field(description="CPUs of the workload, as a list")
    memory_nodes: str = Field(description="Nodes that its memory is bound to, as a list")
    local_ratio: float = Field(description="Share of its memory that is local to its CPUs")
    score: float | None = Field(default=None, description="Its NUMA score by the firmware's distances")
    caches: Count | None = Field(
        default=None, description="Last-level caches that its CPUs are of, null where they are not known"
    )
    co_runner: str | None = Field(default=None, description="Command or benchmark beside it, null when alone")
    co_runner_cpus: str | None = Field(default=None, description="CPUs of the co-runner, null when alone")


class ExperimentArm(Value):
    """One level of the factor."""

    name: str = Field(description="Its name: `a`, `b`, or the level of a sweep")
    settings: dict[str, str] = Field(description="Parameters of the benchmark that differ from its defaults")
    command: list[str] = Field(description="The command of a trial; empty where a benchmark is run")
    knobs: dict[str, str] = Field(
        default_factory=dict, description="Knobs of the machine that a trial changes, and puts back, by name"
    )
    cpus: ExperimentCpus | None = Field(
        default=None, description="The only CPUs of a trial, null where it has all that are usable"
    )
    placement: ExperimentPlacement | None = Field(
        default=None, description="Where a trial runs, null where that is left to the kernel or the benchmark"
    )
    levels: dict[str, str] = Field(
        default_factory=dict, description="Its level of each factor, where arms are their combinations"
    )


class ExperimentMetric(Value):
    """What is compared."""

    name: str = Field(description="Its name")
    unit: str = Field(description="Its unit, empty until the first trial")
    better: str = Field(description="`higher` or `lower`")
    pattern: str | None = Field(
        default=None, description="Regular expression that finds it in the output of the command"
    )
    is_series: bool = Field(
        default=False,
        description="Whether each match is an interval of one trial; its value is the mean once they settled",
    )


class ExperimentGuard(Value):
    """A metric that must not get worse than a margin."""

    name: str = Field(description="Its name")
    margin_ratio: float = Field(description="By how much it may get worse, 0.05 for 5 %")
    better: str = Field(description="`higher` or `lower`, empty until the first trial")
    unit: str = Field(default="", description="Its unit, empty until the first trial")
    pattern: str | None = Field(
        default=None, description="Regular expression that finds it in the output of the command"
    )


class ExperimentPlan(Value):
    """What was decided before the first trial."""

    seed: Count = Field(description="Of the order within blocks")
    blocks: Count = Field(description="Most blocks; each holds one trial of every arm")
    budget_s: float | None = Field(
        default=None, description="No block begins after this time, null: no limit"
    )
    least_effect_ratio: float = Field(description="Smallest effect that matters, 0.01 for 1 %")
    confidence: float = Field(description="Of all intervals together")
    stop_early: bool = Field(description="Whether it ends when every arm has an answer")
    timeout_s: float = Field(description="Longest time of one command")
    pairs: list[tuple[str, str]] = Field(
        default_factory=list,
        description="Arms that are compared, base and other; empty: each with the first arm",
    )
    guards: list[ExperimentGuard] = Field(
        default_factory=list, description="Metrics that must not get worse than a margin"
    )
    blocks_in_order: bool = Field(
        default=True,
        description="Whether blocks are numbered in the order of time; false where they only have names",
    )


class ExperimentLive(Value):
    """A running service that trials look at; they start and end none of it."""

    sources: list[str] = Field(description="What is read of it, as `--ops` takes it; metrics by their names")
    window_s: float = Field(description="How long a trial looks, after its command has ended")


class ExperimentPilot(Value):
    """The experiment that a pilot is for: the pilot itself tries its first arm twice in each block."""

    arms: list[ExperimentArm] = Field(description="Its arms")
    plan: ExperimentPlan = Field(description="Its plan")


class ExperimentReadBack(Value):
    """Where the kernel says that threads and pages of a trial were."""

    looks: Count = Field(description="How often it was looked at while it ran")
    threads: Count = Field(description="Most threads seen at once")
    cpus: str = Field(description="CPUs on which threads were seen, as a list")
    bytes_per_node: dict[str, int] = Field(
        description="Its own pages by node, at the look that saw most: anonymous and shared memory, no files"
    )


class ExperimentTrial(Value):
    """One arm tried once."""

    block: Count = Field(description="From 0")
    arm: str = Field(description="Which")
    begin_ns: Count = Field(description="When it began")
    end_ns: Count = Field(description="When it ended")
    value: float | None = Field(default=None, description="The metric, null where `reason` says why")
    reason: str | None = Field(default=None, description="Why there is no value")
    intervals: list[float] = Field(
        default_factory=list,
        description="Metric of each interval behind the value, in order; means of neighbours where there were"
        " more than 100. Empty where the value is one number",
    )
    readings: dict[str, float] = Field(
        default_factory=dict, description="Other figures of the trial, by name; units are in the names"
    )
    missing: dict[str, str] = Field(
        default_factory=dict, description="Readings that could not be taken, with the reason"
    )
    host: str | None = Field(default=None, description="Where it was made, null: here")
    run_id: str | None = Field(default=None, description="The run behind it, in the folder `runs`")
    is_disturbed: bool = Field(
        default=False,
        description="Whether other processes took so much CPU time that the run alone is invalid",
    )
    read_back: ExperimentReadBack | None = Field(
        default=None, description="Proof of its placement, null where the arm has none"
    )
    co_runner_read_back: ExperimentReadBack | None = Field(
        default=None, description="The same of its co-runner, null when alone"
    )
    ends_arm: bool = Field(
        default=False,
        description="Whether the arm is not tried again: a guardrail was breached, or a value refused",
    )


_ABOVE, _BELOW = 1e-100, 1e100
"""No metric comes near, and a ratio of two is finite."""
FIGURES = "0, or from 1e-100 to 1e100"
"""What a number of a trial is, for messages; its sign is free."""


def is_figure(value: float) -> bool:
    """Return whether a number can be one of a trial, such that means and ratios of two are finite.

    >>> is_figure(0.0), is_figure(-3.5), is_figure(1e308), is_figure(5e-324), is_figure(float("nan"))
    (True, True, False, False, False)
    """
    return value == 0 or _ABOVE < abs(value) < _BELOW


class Experiment(Record):
    """One experiment: ``experiment.json``, beside the folder of its runs."""

    KIND: ClassVar[str] = "experiment"
    VERSION: ClassVar[str] = "1.3"

    schema_version: str = Field(default=VERSION, pattern=r"^\d+\.\d+$")
    experiment_id: str = Field(description="Unique name, also of the directory")
    benchmark: str | None = Field(description="Benchmark of the trials, null where they are commands")
    tier: str | None = Field(description="Tier of the benchmark, null without one")
    hooks: list[str] = Field(description="Hooks of every run, as `--hook` takes them")
    factor: str = Field(description="What differs between the arms")
    arms: list[ExperimentArm] = Field(
        description="In the order in which they were named; the first is the base"
    )
    metric: ExperimentMetric = Field(description="What is compared")
    pilot: ExperimentPilot | None = Field(
        default=None, description="What it is a pilot for, null where its own arms are compared"
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="Two hosts that try an arm each at once and change places in the next block; empty: here",
    )
    ssh: str = Field(default="ssh", description="ssh and its options, for hosts")
    remote_command: str = Field(default="steelyard", description="The steelyard of the hosts, for benchmarks")
    live: ExperimentLive | None = Field(
        default=None, description="The service that is looked at, null where a trial is a run or a command"
    )
    readings: list[ExperimentMetric] = Field(
        default_factory=list, description="Other numbers that are taken from the output of the command"
    )
    units: dict[str, str] = Field(
        default_factory=dict,
        description="Units of what stands beside the metric, by name, where they are known",
    )
    notes: list[str] = Field(
        default_factory=list,
        description="What was found when it began: limits of CPUs, what cannot be counted",
    )
    plan: ExperimentPlan = Field(description="What was decided before the first trial")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(
        default=None, description="Why it is incomplete, or why it ended before the last block"
    )
    steelyard_version: str = Field(description="Version of Steelyard")
    command: list[str] = Field(description="The exact command")
    request: dict[str, JsonValue] | None = Field(
        default=None,
        description="What was asked, by field of the request, without defaults; null before version 1.3",
    )
    clock: Clock = Field(description="Both clocks at the start")
    orchestrator: Orchestrator = Field(description="The process that drives it, or drove it last")
    trials: list[ExperimentTrial] = Field(description="In the order in which they were made")

    def unit_of(self, name: str) -> str:
        """Return the unit of the metric or of what stands beside it; `1` where nobody declared one."""
        declared = {one.name: one.unit for one in self.readings}
        declared |= {one.name: one.unit for one in self.plan.guards}
        return {**declared, self.metric.name: self.metric.unit}.get(name) or self.units.get(name) or "1"

    @model_validator(mode="after")
    def _has_the_arms_of_its_trials(self) -> Self:
        names = {arm.name for arm in self.arms}
        if not names or len(names) < len(self.arms):
            raise ValueError("arms have names that differ, and there is at least one")
        if len({frozenset(arm.levels) for arm in self.arms}) > 1:
            raise ValueError("every arm has a level of the same factors")
        values = (trial.value for trial in self.trials if trial.value is not None)
        if not all(value > 0 and is_figure(value) for value in values):
            raise ValueError("the value of a trial is a positive number below 1e100")
        readings = (value for trial in self.trials for value in trial.readings.values())
        if not all(map(is_figure, readings)):
            raise ValueError(f"a reading of a trial is {FIGURES}")
        if (other := next((trial.arm for trial in self.trials if trial.arm not in names), None)) is not None:
            raise ValueError(f"a trial is of {other[:40]!r}, which is no arm")
        return self
