"""What the queries of ``steelyard fleet cpi`` answer, with the settings that they were asked with.

In: what the other modules of this folder find. Out: the results that ``--json`` prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from steelyard._base.documents import INLINE, printed
from steelyard.fleet.cpi.anomalies import Anomalies
from steelyard.fleet.cpi.distribution import Distribution
from steelyard.fleet.cpi.evidence import Bar
from steelyard.fleet.cpi.incident_groups import IncidentGroup
from steelyard.fleet.cpi.incidents import Incident
from steelyard.fleet.cpi.rule import Rule
from steelyard.fleet.cpi.specs import Spec, SpecSettings
from steelyard.fleet.cpi.throughput import Following
from steelyard.fleet.cpi.truth import Point


@dataclass(frozen=True)
class SpecsResult:
    """Everything that ``steelyard fleet cpi specs`` answers."""

    KIND: ClassVar[str] = "fleet_cpi_specs"

    settings: SpecSettings
    """How they were made."""
    gev_quantile: float | None
    """Quantile of the fitted tail, None where none was fitted."""
    specs: Sequence[Spec]
    """What is normal, by job and platform."""
    written: str | None
    """Where they were stored for agents, None where they were not."""


@dataclass(frozen=True)
class OutlierSettings:
    """What makes a task anomalous."""

    used: Rule = field(metadata=INLINE)
    specs: str
    """Source of the thresholds, in words."""


@dataclass(frozen=True)
class OutliersResult:
    """Everything that ``steelyard fleet cpi outliers`` answers."""

    KIND: ClassVar[str] = "fleet_cpi_outliers"

    settings: OutlierSettings
    """What makes a task anomalous."""
    anomalies: Anomalies = field(metadata=INLINE)


@dataclass(frozen=True)
class IncidentSettings:
    """What makes a task anomalous, and what it takes to be named for it."""

    used: Rule = field(metadata=INLINE)
    specs: str
    """Source of the thresholds, in words."""
    bar: Bar | None = field(metadata=INLINE)
    """What it takes to be named, None by the paper's rule."""

    @property
    @printed
    def rule(self) -> Literal["paper", "tested"]:
        """Return by which rule antagonists are named."""
        return "paper" if self.bar is None else "tested"


@dataclass(frozen=True)
class IncidentsResult:
    """Everything that ``steelyard fleet cpi incidents`` answers."""

    KIND: ClassVar[str] = "fleet_cpi_incidents"

    settings: IncidentSettings
    """What was asked."""
    groups: Sequence[IncidentGroup]
    """By job of the victim and of the antagonist."""
    incidents: Sequence[Incident]
    """The clearest first."""
    truth_curve: Sequence[Point] | None
    """How right the paper's rule is at each floor, None for a store that was not simulated."""
    truth: Point | None
    """How right the rule in use is, None for a store that was not simulated."""


@dataclass(frozen=True)
class DistributionResult:
    """Everything that ``steelyard fleet cpi distribution`` answers."""

    KIND: ClassVar[str] = "fleet_cpi_distribution"

    distributions: Sequence[Distribution]
    """CPI by job and platform."""
    gev_quantile: float
    """Quantile of the fitted tail."""
    throughput: Sequence[Following]
    """Whether CPI follows throughput, by job and platform."""
    warnings: Sequence[str]
    """What to know before believing it."""
