"""Incidents added up: one group for each job that suffered and job that made it suffer.

In: `Incident`s. Out: `IncidentGroup`s, those with most incidents that may be capped first.

Invariants: every incident is in exactly one group; one in which no suspect reached the floor is in a group
without an antagonist; what no incident of a group tells is None.

Not here: single incidents (``incidents``), drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from steelyard.fleet.cpi.incidents import Incident


@dataclass(frozen=True)
class IncidentGroup:
    """Incidents of one victim job with one antagonist job. Times in Unix seconds."""

    victim_job: str
    antagonist_job: str | None
    """None where no suspect reached the correlation."""
    antagonist_class: str | None
    incidents: int
    victim_tasks: int
    machines: int
    first_unix_s: int
    last_unix_s: int
    """The last anomalous sample of any of them, or its start where the end is not known."""
    highest_correlation: float | None
    highest_cpi_ratio: float | None
    """The highest CPI of a victim, relative to its threshold."""
    may_be_capped: int
    """Incidents in which the rule would cap somebody."""
    cap_cpu_ratio: float | None
    """The least that it would leave them, in CPU-seconds per second."""
    reason: str | None
    """Why it would cap nobody in the others: the most frequent reason."""
    capped_by_agents: int

    def document(self) -> dict[str, Any]:
        """Return the group for ``--json``."""
        return asdict(self)


def group_incidents(found: Iterable[Incident]) -> list[IncidentGroup]:
    """Return the groups of ``found``."""
    groups: dict[tuple[str, str | None], list[Incident]] = {}
    for one in found:
        antagonist = None if one.antagonist is None else one.antagonist.job
        groups.setdefault((one.victim_job, antagonist), []).append(one)
    made = [_group(*key, group) for key, group in groups.items()]
    return sorted(
        made,
        key=lambda one: (
            -one.may_be_capped,
            one.antagonist_job is None,
            -one.incidents,
            one.victim_job,
            one.antagonist_job or "",
        ),
    )


def _group(victim: str, antagonist: str | None, incidents: Sequence[Incident]) -> IncidentGroup:
    correlations = [
        suspect.correlation
        for one in incidents
        for suspect in (one.suspects[:1] if one.antagonist is None else (one.antagonist,))
        if suspect.correlation is not None
    ]
    ratios = [one.victim_cpi / one.threshold_cpi for one in incidents if one.threshold_cpi > 0]
    caps = [one.cap_cpu_ratio for one in incidents if one.cap is not None and one.cap_cpu_ratio is not None]
    reasons = Counter(one.reason for one in incidents if one.cap is None and one.reason)
    classes = Counter(one.antagonist.job_class for one in incidents if one.antagonist is not None)
    return IncidentGroup(
        victim_job=victim,
        antagonist_job=antagonist,
        antagonist_class=classes.most_common(1)[0][0] if classes else None,
        incidents=len(incidents),
        victim_tasks=len({(one.cluster, one.machine, one.victim_task) for one in incidents}),
        machines=len({(one.cluster, one.machine) for one in incidents}),
        first_unix_s=min(one.start_unix_s for one in incidents),
        last_unix_s=max(one.start_unix_s if one.end_unix_s is None else one.end_unix_s for one in incidents),
        highest_correlation=max(correlations, default=None),
        highest_cpi_ratio=max(ratios, default=None),
        may_be_capped=sum(one.cap is not None for one in incidents),
        cap_cpu_ratio=min(caps, default=None),
        reason=reasons.most_common(1)[0][0] if reasons else None,
        capped_by_agents=sum(one.effect is not None for one in incidents),
    )
