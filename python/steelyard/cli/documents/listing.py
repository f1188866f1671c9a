"""What ``steelyard list --json`` prints."""

from typing import ClassVar

from pydantic import Field, JsonValue

from steelyard.records import Level, Record
from steelyard.records.values import Value


class ParameterEntry(Value):
    """The declaration of a parameter."""

    name: str = Field(description="As in --set NAME=VALUE")
    kind: str = Field(description="`text`, `choice`, `flag`, `count`, `number`, `seconds`, `bytes`, ...")
    unit: str | None = Field(description="Unit, null for none")
    default: JsonValue = Field(description="Value unless another is set, null where it is derived")
    derived: str | None = Field(description="Source of a derived default, null where it is fixed")
    minimum: float | None = Field(description="Smallest value, null for none")
    maximum: float | None = Field(description="Largest value, null for none")
    choices: list[str] = Field(description="The values that a choice has")
    doc: str = Field(description="Description, one line")


class BenchmarkEntry(Value):
    """A benchmark."""

    name: str = Field(description="As in `steelyard run NAME`")
    title: str = Field(description="Title")
    doc: str = Field(description="Description, a sentence or two")
    parameters: list[ParameterEntry] = Field(description="What can be set")


class SuiteEntry(Value):
    """A suite of benchmarks."""

    name: str = Field(description="As in `steelyard run NAME`")
    tier: str = Field(description="How long its members run")
    benchmarks: list[str] = Field(description="Its members, in the order in which they run")


class TierEntry(Value):
    """How long benchmarks run."""

    name: str = Field(description="As in --tier NAME")
    doc: str = Field(description="How long, one line")


class HookEntry(Value):
    """A hook."""

    name: str = Field(description="As in --hook NAME")
    doc: str = Field(description="Description, one line")
    always: bool = Field(description="Whether it is part of every run")
    options: list[ParameterEntry] = Field(description="As in --hook NAME:OPTION=VALUE")


class RunEntry(Value):
    """A run under the folder of runs; of an unreadable one only id, status and reason are given."""

    run_id: str = Field(description="Name of the run and of its folder")
    status: str = Field(description="`running`, `complete`, `incomplete` or `unreadable`")
    status_reason: str | None = Field(description="Why it is not complete, null otherwise")
    directory: str | None = Field(default=None, description="Its folder")
    suite_id: str | None = Field(
        default=None, description="The suite whose folder contains it, null for none"
    )
    benchmark: str | None = Field(default=None, description="Which benchmark")
    tier: str | None = Field(default=None, description="How long it ran")
    verdict: Level | None = Field(default=None, description="Whether its result may be believed")
    metrics: dict[str, float | None] = Field(
        default_factory=dict, description="Its main result, in base units, by the metric's name"
    )


class SuiteRunEntry(Value):
    """A run of a suite; of an unreadable one only id, status and reason are given."""

    suite_id: str = Field(description="Name of the suite's folder")
    status: str = Field(description="`running`, `complete`, `incomplete` or `unreadable`")
    status_reason: str | None = Field(description="Why it is not complete, null otherwise")
    directory: str | None = Field(default=None, description="Its folder")
    suite: str | None = Field(default=None, description="Which suite")
    tier: str | None = Field(default=None, description="How long its members ran")
    members: list[str] = Field(default_factory=list, description="Its benchmarks")
    overall: float | None = Field(default=None, description="Overall score, null when there is none")


class ExperimentEntry(Value):
    """An experiment; of an unreadable one only id, status and reason are given."""

    experiment_id: str = Field(description="Name of its folder")
    status: str = Field(description="`running`, `complete`, `incomplete` or `unreadable`")
    status_reason: str | None = Field(description="Why it is not complete, or ended early, null otherwise")
    directory: str | None = Field(default=None, description="Its folder")
    benchmark: str | None = Field(default=None, description="Benchmark of its trials, null for commands")
    factor: str | None = Field(default=None, description="What differs between its arms")
    metric: str | None = Field(default=None, description="What it compares")
    outcomes: dict[str, str] = Field(
        default_factory=dict, description="What is known of each arm beside the first"
    )


class ListDocument(Record):
    """What there is: `steelyard list WHAT` prints only the parts that WHAT names."""

    KIND: ClassVar[str] = "list"

    benchmarks: list[BenchmarkEntry] = Field(default_factory=list, description="Benchmarks")
    suites: list[SuiteEntry] = Field(default_factory=list, description="Suites")
    tiers: list[TierEntry] = Field(default_factory=list, description="Tiers")
    hooks: list[HookEntry] = Field(default_factory=list, description="Hooks")
    runs: list[RunEntry] = Field(default_factory=list, description="Runs, those of suites included")
    suite_runs: list[SuiteRunEntry] = Field(default_factory=list, description="Runs of suites")
    experiments: list[ExperimentEntry] = Field(default_factory=list, description="Experiments")
