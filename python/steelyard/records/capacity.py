"""The highest rate that meets an objective, and latency over throughput.

The same shapes as ``crates/record/src/capacity.rs`` and ``crates/record/src/sweep.rs``.
"""

from typing import ClassVar

from pydantic import Field

from steelyard.records.io import Record
from steelyard.records.load import LatencySummary, LoadLatency, LoadRequests, LoadSettings, Tool
from steelyard.records.values import Clock, Count, Value, Verdict


class ClosedLoop(Value):
    """A closed loop that shows about how much the server can do."""

    begin_ns: Count = Field(description="Start of its measure phase")
    end_ns: Count = Field(description="End of its measure phase")
    throughput_per_s: float = Field(description="Completed requests per second")
    busy_ratio: float = Field(description="The busiest generator thread's share of its CPU")


class CapacityCriterion(Value):
    """A bound of the objective and what a probe measured."""

    name: str = Field(description="`p95` and the like, `errors` or `achieved`")
    value: float | None = Field(
        default=None,
        description="Measured value: ns for a percentile, else a share; null without answers",
    )
    bound: float = Field(description="Its bound")
    unit: str = Field(description="`ns` or `ratio`")
    ratio: float = Field(
        description="Share of requests that count against it: slower than the bound, or failed; for"
        " `achieved` the share of the offered rate that was completed"
    )
    met: bool = Field(description="Whether the bound is kept")


class CapacityProbe(Value):
    """One load at one rate."""

    purpose: str = Field(
        description="`unloaded`, `bracket`, `narrow`, `overload` or `return`; in older records also"
        " `confirm-low` and `confirm-high`"
    )
    rate_per_s: float = Field(description="Requested rate")
    warmup_s: float | None = Field(
        default=None, description="Load at this rate before the measure phase, s; null in older records"
    )
    begin_ns: Count = Field(description="Start of its measure phase")
    end_ns: Count = Field(description="End of its measure phase")
    outcome: str = Field(
        description="`met`, `unmet` or `generator` (unmet, and the generator could do no more)"
    )
    met_probability: float = Field(
        description="Probability that the objective is met at this rate but for the probe's own noise"
    )
    criteria: list[CapacityCriterion] = Field(description="One row a bound of the objective")
    requests: LoadRequests = Field(description="Counts over the measure phase")
    offered_per_s: float = Field(description="Requests per second of the schedule")
    throughput_per_s: float = Field(description="Completed requests per second")
    response: LatencySummary = Field(description="Response times, from the intended time")
    busy_ratio: float = Field(description="The busiest generator thread's share of its CPU")
    verdict: Verdict = Field(
        description="Verdict of the generator on this load; `invalid` where the rate is above the server"
        " can do"
    )


class CapacityEdge(Value):
    """Fresh probes of an end of the interval."""

    rate_per_s: float = Field(description="Where: not outside the interval")
    repeats: Count = Field(description="Probes made there after it was chosen")
    agreed: Count = Field(description="Number of them with the result of the end")
    confirmed: bool = Field(description="Whether all of them together confirm it")


class CapacityInterval(Value):
    """Rates between which the capacity lies."""

    low_per_s: float | None = Field(
        default=None, description="Lower end: the objective is met, null when it was not met anywhere"
    )
    high_per_s: float | None = Field(
        default=None,
        description="Upper end: the objective is not met, null when nothing showed the server's limit",
    )
    confidence: float = Field(description="Probability that the capacity is between them")
    low_edge: CapacityEdge | None = Field(
        default=None, description="How the lower end was probed afresh; older records only"
    )
    high_edge: CapacityEdge | None = Field(
        default=None, description="How the upper end was probed afresh; older records only"
    )


class CapacityTried(Value):
    """What the probes of a search showed by themselves."""

    met_per_s: float | None = Field(
        default=None, description="Highest rate at which a probe met the objective, null when none did"
    )
    unmet_per_s: float | None = Field(
        default=None, description="Lowest rate at which a probe did not, null when all did"
    )
    unloaded_met: bool | None = Field(
        default=None,
        description="Whether the server met the objective nearly without load, null when that was not tried",
    )


class CapacityCollapse(Value):
    """A server that completes less under overload than it did before it."""

    held_per_s: float = Field(description="Highest rate that it held before it collapsed")
    lost_per_s: float = Field(description="Lowest rate above it at which it collapsed")
    served_per_s: float = Field(description="Completed requests per second under overload")
    back_per_s: float | None = Field(
        default=None,
        description="Highest rate after which it held what it had held before, null when no probe showed one",
    )


class CapacityChanging(Value):
    """A server whose speed changes under load."""

    slow_per_s: float = Field(description="Completed requests per second while it is slow")
    fast_per_s: float = Field(description="Completed requests per second while it is fast")
    lasts_s: float = Field(description="About how long one speed lasts, s")


class CapacityPoint(Value):
    """A point of the curve that was fitted: the share of requests beyond the bound."""

    rate_per_s: float = Field(description="Offered rate")
    ratio: float = Field(description="Share that is as likely too high as too low")
    low_ratio: float = Field(description="5 % point of it")
    high_ratio: float = Field(description="95 % point of it")


class CapacityResult(Record):
    """The highest offered rate at which a server meets an objective: ``capacity.json``."""

    KIND: ClassVar[str] = "capacity_result"

    tool: Tool = Field(description="The program that wrote it")
    command: list[str] = Field(description="Its command line")
    clock: Clock = Field(description="Both clocks at the start")
    settings: LoadSettings = Field(description="Settings; the rate is null, since it is the result")
    slo: str = Field(description="The objective, such as `p95<=500ms,errors<=0.001,achieved>=0.99`")
    begin_ns: Count = Field(description="Start of the search")
    end_ns: Count = Field(description="End of the search")
    interrupted: bool = Field(description="Whether the search was stopped before its time")
    closed_loop: ClosedLoop | None = Field(
        default=None,
        description="The closed loop that the search began with, null when a start rate was given",
    )
    probes: list[CapacityProbe] = Field(description="Every probe, in order")
    time_s: float | None = Field(
        default=None, description="Time that the search was given for all loads, s; null in older records"
    )
    tried: CapacityTried | None = Field(
        default=None,
        description="Direct results of the probes, without the model; null in older records",
    )
    curve: list[CapacityPoint] = Field(
        default=[], description="The curve behind the interval, lowest rate first; empty without one"
    )
    collapse: CapacityCollapse | None = Field(
        default=None,
        description="How the server collapses under overload, null where it does not; the interval then"
        " reaches from where it comes back to where it collapsed",
    )
    changing: CapacityChanging | None = Field(
        default=None,
        description="How the server's speed changes under load, null where it does not; the interval then"
        " reaches down to the slower speed",
    )
    interval: CapacityInterval | None = Field(
        default=None,
        description="Interval of the capacity, null when the objective was met nowhere or the probes cannot"
        " give an interval",
    )
    estimate_per_s: float | None = Field(
        default=None,
        description="The rate that the capacity is as likely above as below, or the highest that was held"
        " where the server collapses; null without one rate that met the objective and one that did not",
    )
    spread_ratio: float | None = Field(
        default=None,
        description="Expected standard deviation of the capacity from run to run, as a share of it, null"
        " without an estimate",
    )
    answer: str = Field(
        description="`interval`, `at-least` (nothing showed the server's limit), `never` (the objective was"
        " not met at any rate) or `unknown` (the search was stopped, or its probes cannot give an interval)"
    )
    ended: str = Field(description="Why the search ended, one sentence")
    verdict: Verdict = Field(description="Whether the answer may be believed")


class SweepPoint(Value):
    """One load at one rate."""

    position: Count = Field(description="Place in the order of time, from 0")
    rate_per_s: float = Field(description="Requested rate")
    begin_ns: Count = Field(description="Start of its measure phase")
    end_ns: Count = Field(description="End of its measure phase")
    requests: LoadRequests = Field(description="Counts over the measure phase")
    offered_per_s: float = Field(description="Requests per second of the schedule")
    throughput_per_s: float = Field(description="Completed requests per second")
    achieved_ratio: float = Field(description="Completed over offered")
    latency: LoadLatency = Field(description="Distributions")
    busy_ratio: float = Field(description="The busiest generator thread's share of its CPU")
    verdict: Verdict = Field(
        description="Verdict of the generator on this load; `invalid` where the rate is above the server"
        " can do"
    )


class SweepResult(Record):
    """Latency over throughput: ``sweep.json``."""

    KIND: ClassVar[str] = "sweep_result"

    tool: Tool = Field(description="The program that wrote it")
    command: list[str] = Field(description="Its command line")
    clock: Clock = Field(description="Both clocks at the start")
    settings: LoadSettings = Field(description="Settings; the rate is null, since each point has its own")
    order: str = Field(description="`shuffled` or `ascending`: the order in which the rates were offered")
    begin_ns: Count = Field(description="Start of the sweep")
    end_ns: Count = Field(description="End of the sweep")
    interrupted: bool = Field(description="Whether the sweep was stopped before its time")
    closed_loop_per_s: float | None = Field(
        default=None,
        description="Completed requests per second of the closed loop that the rates were chosen by, null"
        " when they were given",
    )
    points: list[SweepPoint] = Field(description="One row a rate that was offered, lowest first")
    verdict: Verdict = Field(description="Whether the curve may be believed")
