"""The manifest of one execution of a suite."""

from typing import ClassVar

from pydantic import Field, JsonValue

from steelyard.records.io import Record
from steelyard.records.run import Orchestrator, RunStatus
from steelyard.records.values import Check, Clock, Count, Level, Value

SCHEMA_VERSION = "1.4"
"""1.1 added what stands beside a score: why it has no interval, spreads, the baseline's runs, parts.
1.2 added when it was resumed. 1.3 added of how many sessions an interval has the spread.
1.4 added what was asked."""


class SuitePart(Value):
    """A part of a score: a category of a benchmark, or a member of the suite."""

    name: str = Field(description="Its metric, or the benchmark")
    score: float = Field(description="Its score against the baseline")


class SuiteBaseline(Value):
    """What the baseline's figure for one benchmark rests on."""

    date: str = Field(description="When it was measured, such as 2026-11-21")
    runs: Count = Field(description="Runs of which it is the median")
    suspect_runs: Count = Field(description="How many of them are suspect")
    lowest: float = Field(description="Score of the worst of them")
    highest: float = Field(description="Score of the best of them")


class SuiteRun(Value):
    """One run of a member, in short; the whole is in the run's own directory."""

    run_id: str = Field(description="Name of the run and of its directory, which is in the suite's")
    index: Count = Field(description="Number of the repeat, from 1")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(default=None, description="Why it is incomplete, null otherwise")
    level: Level | None = Field(default=None, description="Its verdict, null while running or incomplete")
    reasons: list[Check] = Field(description="The checks that object")


class SuiteMember(Value):
    """One benchmark of a suite with what its runs amount to."""

    benchmark: str = Field(description="Which benchmark")
    runs: list[SuiteRun] = Field(
        description="Its runs in the order in which they were made; empty before the first began"
    )
    refused: str | None = Field(default=None, description="Why it was not run, null otherwise")
    metric: str = Field(description="The metric that it is scored by")
    value: float | None = Field(
        default=None, description="Median of the metric over the runs that count, null when there is none"
    )
    unit: str | None = Field(default=None, description="Unit of `value`")
    score: float | None = Field(
        default=None, description="Score against the baseline, null when there is none"
    )
    score_low: float | None = Field(
        default=None, description="Lower end of the interval for the score, null below 3 runs of either side"
    )
    score_high: float | None = Field(default=None, description="Upper end of it")
    no_score: str | None = Field(default=None, description="Why there is no score, null otherwise")
    no_interval: str | None = Field(
        default=None, description="Why the score has no interval, null where it has one or there is no score"
    )
    sessions: Count | None = Field(
        default=None,
        description="Earlier sessions of the machine whose spread the interval has, null where it is of this"
        " one alone",
    )
    spread_ratio: float | None = Field(
        default=None, description="Largest minus smallest run over their median, null below two runs"
    )
    worst_part: SuitePart | None = Field(
        default=None, description="The part with the smallest score, null where the result has no parts"
    )
    best_part: SuitePart | None = Field(default=None, description="The part with the largest score")
    baseline: SuiteBaseline | None = Field(
        default=None, description="Runs behind the baseline's value, null where there is no score"
    )


class SuiteOverall(Value):
    """The geometric mean of the members' scores."""

    score: float | None = Field(default=None, description="The mean, null when it is withheld")
    score_low: float | None = Field(
        default=None, description="Lower end of the interval for the score, null below 3 runs of either side"
    )
    score_high: float | None = Field(default=None, description="Upper end of it")
    no_interval: str | None = Field(
        default=None, description="Why the score has no interval, null where it has one or is withheld"
    )
    sessions: Count | None = Field(
        default=None,
        description="Earlier sessions of the machine whose spread the interval has, null where it is of this"
        " one alone",
    )
    worst: SuitePart | None = Field(default=None, description="The member with the smallest score")
    best: SuitePart | None = Field(default=None, description="The member with the largest score")
    withheld: str | None = Field(default=None, description="Why it is withheld, null otherwise")
    suspect: list[str] = Field(description="Members whose result is suspect: the score rests on them too")
    baseline: str | None = Field(default=None, description="Name of the baseline, null when there is none")
    baseline_title: str | None = Field(
        default=None, description="Title of the baseline's machine, null when there is none"
    )


class Suite(Record):
    """One execution of a suite: ``suite.json``, beside the directories of its members' runs."""

    KIND: ClassVar[str] = "suite"

    schema_version: str = Field(default=SCHEMA_VERSION, pattern=r"^\d+\.\d+$")
    suite_id: str = Field(description="Unique name, also of the directory")
    suite: str = Field(description="Which suite")
    tier: str = Field(description="`smoke`, `quick`, `standard` or `full`")
    repeats: Count = Field(description="Requested number of runs of each member")
    status: RunStatus = Field(description="Status")
    status_reason: str | None = Field(default=None, description="Why it is incomplete, null otherwise")
    steelyard_version: str = Field(description="Version of Steelyard")
    command: list[str] = Field(description="The exact command")
    request: dict[str, JsonValue] | None = Field(
        default=None,
        description="What was asked, by field of the request, without defaults; null before version 1.4",
    )
    clock: Clock = Field(description="Both clocks at the start")
    resumed: list[Clock] = Field(
        default=[], description="Both clocks at each time that it went on after an interruption"
    )
    end_ns: Count | None = Field(default=None, description="When the last member ended, null before")
    orchestrator: Orchestrator = Field(
        description="The process that drives the suite: one that says `running` and whose process is gone"
        " was killed"
    )
    members: list[SuiteMember] = Field(description="Benchmarks in the order in which they run")
    overall: SuiteOverall | None = Field(
        default=None, description="The overall score, null before the last member ended"
    )
