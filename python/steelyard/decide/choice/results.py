"""What ``steelyard choose`` answers, as data.

In: figures of ``scores``, ``order``, ``sensitivity``, ``demand``. Out: a `Choice`. Descriptions of its
JSON Schema are the texts below the fields.

Not here: computing (``making``), an improvement's worth (``savings``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from steelyard.decide.choice.economics import Cost, Economics, Power


class Criterion(StrEnum):
    """What machines are put in order by."""

    PERFORMANCE = "perf"
    PER_WATT = "perf-per-watt"
    PER_COST = "perf-per-cost"


@dataclass(frozen=True, slots=True)
class Workload:
    """A result that counts."""

    name: str
    """The result."""
    unit: str
    """Its unit."""
    better: str
    """``higher`` or ``lower``."""
    weight: float
    """Its share of the overall score; the weights add up to 1."""
    conditions: str = ""
    """Tier and version under which it was measured."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A machine's scores by one criterion, over the baseline's."""

    overall: float | None
    """Weighted geometric mean over the workloads; None where ``missing`` says why."""
    by_workload: Mapping[str, float | None]
    """Score of each workload, None where the result or its power is missing."""
    missing: str | None = None
    """Why there is no overall score."""


@dataclass(frozen=True, slots=True)
class WeighedMachine:
    """One machine."""

    name: str
    """The machine."""
    rank: int | None
    """Place by the criterion of the order, from 1; None without a score."""
    scores: Mapping[str, Scored]
    """By criterion."""
    performance: Mapping[str, float | None]
    """Result of each workload in its unit; None where it is missing."""
    power: Power
    """What is planned: budgeted, else the largest measured one."""
    cost: Cost | None
    """Its cost over the years; None where ``cost_missing`` says why."""
    cost_missing: str | None
    """Why there is no cost."""
    is_on_front: bool | None
    """Whether no other machine is as good in performance, cost and power and better in one; None where it
    cannot be compared."""
    beaten_by: str | None = None
    """A machine that is better in everything; None on the front."""


@dataclass(frozen=True, slots=True)
class Order:
    """Two machines of which the first has the better score, and how sure that is."""

    first: str
    """The better one."""
    second: str
    """The other one."""
    ratio: float
    """Score of the first over that of the second."""
    low: float | None
    """Lower end of the 95 % interval of the ratio; None where ``no_interval`` says why."""
    high: float | None
    """Upper end of it."""
    probability: float | None
    """Probability that the first is the better one; None where ``no_interval`` says why."""
    no_interval: str | None = None
    """Why there is neither."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """A parameter at which two machines change places."""

    parameter: str
    """``power_price``, ``pue``, ``years``, ``price`` (of the first machine) or ``weight``."""
    first: str
    """The machine that is better as things are."""
    second: str
    """The machine that is better beyond ``at``."""
    now: float
    """The parameter as it is."""
    at: float
    """The parameter at which both are equal."""
    workload: str | None = None
    """Whose weight it is; None for other parameters. Other weights keep their proportions."""


@dataclass(frozen=True, slots=True)
class LowMember:
    """A workload in which a machine is far below the baseline."""

    machine: str
    """The machine."""
    workload: str
    """The workload."""
    score: float
    """Its score, below 1."""


@dataclass(frozen=True, slots=True)
class HiddenMembers:
    """A machine with workloads far below the baseline, which its overall score does not show."""

    machine: str
    """The machine."""
    criterion: str
    """Of the scores."""
    overall: float
    """Its overall score."""
    members: tuple[LowMember, ...]
    """Its workloads below the limit, the worst first."""


@dataclass(frozen=True, slots=True)
class SuiteScores:
    """A suite's overall scores by machine and criterion."""

    suite: str
    """Its name."""
    members: tuple[str, ...]
    """Its results."""
    overall: Mapping[str, Mapping[str, float | None]]
    """By criterion and machine."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A suite that says the opposite of the deciding one of a machine and the baseline."""

    suite: str
    """The suite that misleads."""
    machine: str
    """The machine."""
    criterion: str
    """By what."""
    says: float
    """Its score of the machine."""
    decides: float
    """That of the deciding suite."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An aggregate whose members all say the opposite (Simpson's paradox): it is refused."""

    aggregate: str
    """The result that sums up others."""
    machine: str
    """The machine."""
    score: float
    """What the aggregate says of it, over the baseline."""
    members: Mapping[str, float]
    """What its members say."""
    same_mix: float | None
    """The aggregate with the shares of the baseline; None where no shares are known."""


@dataclass(frozen=True, slots=True)
class Servers:
    """How many servers of one machine type a demand needs."""

    machine: str
    """The machine type."""
    servers: int | None
    """How many; None where ``missing`` says why."""
    by_workload: Mapping[str, int]
    """By workload."""
    racks: int | None
    """Racks; None where a rack's limits are not known."""
    per_rack: int | None
    """Servers in a rack."""
    megawatts: float | None
    """Power of all, with that of the site; None without a power."""
    cost: float | None
    """Cost of all over the years; None without a cost."""
    refused: str | None = None
    """Why it does not fit into the limits; None where it does."""
    missing: str | None = None
    """Why it is not known how many."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A demand, and the servers that it needs."""

    rates: Mapping[str, float]
    """Rate of each workload, without headroom."""
    headroom_ratio: float
    """Share of it that is added."""
    choices: tuple[Servers, ...]
    """Machine types that fit, the cheapest first, then those that do not."""
    is_met: bool
    """Whether any fits into the limits."""


@dataclass(frozen=True)
class Choice:
    """Machines by what they do, for a watt and for their cost: `steelyard choose --json`."""

    KIND: ClassVar[str] = "choice"

    criterion: str
    """What the order is by: ``perf``, ``perf-per-watt`` or ``perf-per-cost``."""
    baseline: str
    """The machine whose scores are 1."""
    currency: str
    """Of all money, empty where it was not named."""
    economics: Economics
    """Prices and years."""
    workloads: tuple[Workload, ...]
    """What counts, with weights."""
    machines: tuple[WeighedMachine, ...]
    """In their order; those without a score last."""
    orders: tuple[Order, ...]
    """Neighbours in the order, from the first on; and the first with the baseline."""
    break_evens: tuple[BreakEven, ...]
    """Where the first machine and others change places."""
    hidden: tuple[HiddenMembers, ...]
    """Machines with workloads far below the baseline."""
    suites: tuple[SuiteScores, ...]
    """Suites beside each other, the deciding one first; empty where none was named."""
    disagreements: tuple[Disagreement, ...]
    """Where another suite says the opposite of the deciding one."""
    contradictions: tuple[Contradiction, ...]
    """Aggregates that are refused."""
    demand: Demand | None
    """Servers for a demand; None where none was requested."""
    not_answered: Mapping[str, str]
    """Criteria that could not be computed for any machine, with the reason."""
    cautions: tuple[str, ...]
    """What to know before believing it."""
    notes: tuple[str, ...] = field(default=())
    """What to know of the data."""

    def machine(self, name: str) -> WeighedMachine:
        """Return the machine called ``name``."""
        return next(one for one in self.machines if one.name == name)
