"""What ``steelyard compare --json`` prints."""

from typing import ClassVar

from pydantic import Field, JsonValue

from steelyard.analyze.comparison import ResultDifference
from steelyard.analyze.counters.comparison import EventDifference, MetricDifference
from steelyard.analyze.suite_comparison import MemberSide
from steelyard.analyze.values import Quantity
from steelyard.records import Record
from steelyard.records.values import Count, Value

Pair = tuple[JsonValue, JsonValue]


class LawTerm(Value):
    """One term of the iron law in both runs."""

    name: str = Field(description="The term")
    before: Quantity = Field(description="In A")
    after: Quantity = Field(description="In B")
    factor: Quantity = Field(description="What this term alone does to operations per second")
    share: Quantity = Field(description="Its part of the logarithm of the ratio")
    change_ratio: Quantity = Field(description="B over A, less 1")


class LawComparison(Value):
    """The iron law of both runs."""

    before: dict[str, JsonValue] = Field(description="The terms of A by name, each null with a reason")
    after: dict[str, JsonValue] = Field(description="The terms of B")
    ratio: Quantity = Field(description="Operations per second of B over those of A")
    terms: list[LawTerm] = Field(description="What each term does")
    main_term: str | None = Field(description="The term that moved furthest, null where one is missing")
    is_per_core: bool = Field(description="Whether clocks and IPC are those of physical cores")


class SlotEntry(Value):
    """The share of the slots that a top-down node has in both runs."""

    name: str = Field(description="The node")
    level: Count = Field(description="Its level in the tree, from 1")
    a_ratio: float = Field(description="Share in A")
    b_ratio: float = Field(description="Share in B")
    difference_ratio: float = Field(description="B less A")


class CountersEntry(Value):
    """What counters say of the difference."""

    iron_law: LawComparison | None = Field(description="The iron law, null with a reason")
    iron_law_missing: str | None = Field(description="Why it is not compared")
    slots: list[SlotEntry] = Field(description="Top-down nodes that differ")
    slots_missing: str | None = Field(description="Why they are not compared")
    metrics: list[MetricDifference] = Field(description="Metrics that differ")
    events: list[EventDifference] = Field(description="Events that differ")
    work_per_cpu_second: tuple[Quantity, Quantity] | None = Field(description="Of A and B")
    work_per_joule: tuple[Quantity, Quantity] | None = Field(description="Of A and B")
    apart: list[str] = Field(description="How the CPU time differs, in words")
    cautions: list[str] = Field(description="Cautions")


class MachineChange(Value):
    """One value of the machines that differs."""

    what: str = Field(description="The value in words")
    a: JsonValue = Field(description="Of A's machine")
    b: JsonValue = Field(description="Of B's machine")
    effect: str = Field(description="Likely effect")


class ProfileChange(Value):
    """A share of the profile that differs by more than independent samples of one profile would."""

    by: str = Field(description="Kind of the row: a function, a category, ...")
    name: str = Field(description="Its name")
    a_ratio: float = Field(description="Share in A")
    b_ratio: float = Field(description="Share in B")
    difference_ratio: float = Field(description="B less A")


class Compared(Value):
    """What differs between two runs."""

    differences: list[ResultDifference] = Field(
        description="Results that differ, the largest difference first"
    )
    headline: ResultDifference | None = Field(
        default=None,
        description="The metric that the runs are about, also where it is the same; null where one lacks it",
    )
    same: list[str] = Field(description="Results within 1 % of each other")
    only_a: list[str] = Field(description="Results that only A has")
    only_b: list[str] = Field(description="Results that only B has")
    conditions: dict[str, Pair] = Field(description="Tier, CPUs, hooks and version where they differ")
    parameters: dict[str, Pair] = Field(description="Parameters that differ, by name")
    machine: list[MachineChange] = Field(description="What differs between the machines")
    findings_gone: list[str] = Field(description="Findings that only A has")
    findings_new: list[str] = Field(description="Findings that only B has")
    pressure: tuple[list[str], list[str]] = Field(description="Pressure points of A and of B")
    profile: list[ProfileChange] = Field(
        description="Shares of the profile that stand out against the noise of its samples"
    )
    cautions: list[str] = Field(description="Cautions")
    counters: CountersEntry | None = Field(description="Comparison of counters, null without counts")


class ComparisonDocument(Record, Compared):
    """What differs between two runs of one benchmark: `steelyard compare --json`."""

    KIND: ClassVar[str] = "comparison"

    a: str = Field(description="The one run")
    b: str = Field(description="The other")
    report: str | None = Field(description="The page, null where none was requested")


class MemberEntry(Value):
    """One benchmark of both suites."""

    benchmark: str = Field(description="Which benchmark")
    metric: str = Field(description="The metric that it is scored by")
    unit: str | None = Field(description="Unit of the metric")
    a: MemberSide = Field(description="Median and runs in A")
    b: MemberSide = Field(description="Median and runs in B")
    ratio: float | None = Field(description="B over A, null where one has no value")
    better: bool | None = Field(
        description="Whether B is better, null where there is no interval or it holds 1"
    )
    ratio_low: float | None = Field(
        default=None, description="Lower end of the 95 % interval of the ratio, null below 3 runs of either"
    )
    ratio_high: float | None = Field(default=None, description="Upper end of it")
    comparison: Compared | None = Field(description="The runs of it, null where one has none")


class SuiteComparisonDocument(Record):
    """What differs between two suites: `steelyard compare --json` of two suites."""

    KIND: ClassVar[str] = "suite_comparison"

    a: str = Field(description="The one suite")
    b: str = Field(description="The other")
    members: list[MemberEntry] = Field(description="Benchmarks that both have")
    only_a: list[str] = Field(description="Benchmarks that only A has")
    only_b: list[str] = Field(description="Benchmarks that only B has")
    conditions: dict[str, Pair] = Field(description="Suite, tier, repeats and version where they differ")
    cautions: list[str] = Field(description="Cautions")
    report: str | None = Field(description="The page, null where none was requested")
