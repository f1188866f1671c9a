"""Incidents added up: one group for each job that suffered and job that made it suffer.

In: `Incident`s. Out: `IncidentGroup`s, those with most incidents that may be capped first.

Invariants: every incident is in exactly one group; one in which no suspect reached the floor is in a group
without an antagonist; what no incident of a group tells is None.

Not here: single incidents (``incidents``), drawing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.fleet.cpi.incidents import Incident


@dataclass(frozen=True)
class IncidentGroup:
    """Incidents of one victim job with one antagonist job. Times in Unix seconds."""

    victim_job: str
    """Job that suffered."""
    antagonist_job: str | None
    """None where no suspect reached the correlation."""
    antagonist_class: str | None
    """Class of the antagonist's job."""
    incidents: int
    """How many."""
    victim_tasks: int
    """Tasks that suffered."""
    machines: int
    """Machines that they were on."""
    first_unix_s: int
    """Begin of the first."""
    last_unix_s: int
    """The last anomalous sample of any of them, or its start where the end is not known."""
    highest_correlation: float | None
    """The highest of any."""
    highest_cpi_ratio: float | None
    """The highest CPI of a victim, relative to its threshold."""
    may_be_capped: int
    """Incidents in which the rule would cap somebody."""
    cap_cpu_ratio: float | None
    """The least that it would leave them, in CPU-seconds per second."""
    reason: str | None
    """Why it would cap nobody in the others: the most frequent reason."""
    capped_by_agents: int
    """Incidents in which an agent capped somebody."""


def group_incidents(incidents: Iterable[Incident]) -> list[IncidentGroup]:
    """Return the groups of ``incidents``."""
    groups: dict[tuple[str, str | None], list[Incident]] = {}
    for incident in incidents:
        antagonist = None if incident.antagonist is None else incident.antagonist.job
        groups.setdefault((incident.victim_job, antagonist), []).append(incident)
    made = [_group(*key, group) for key, group in groups.items()]
    return sorted(
        made,
        key=lambda group: (
            -group.may_be_capped,
            group.antagonist_job is None,
            -group.incidents,
            group.victim_job,
            group.antagonist_job or "",
        ),
    )


def _group(victim: str, antagonist: str | None, incidents: Sequence[Incident]) -> IncidentGroup:
    correlations = [
        suspect.correlation
        for incident in incidents
        for suspect in (incident.suspects[:1] if incident.antagonist is None else (incident.antagonist,))
        if suspect.correlation is not None
    ]
    ratios = [
        incident.victim_cpi / incident.threshold_cpi for incident in incidents if incident.threshold_cpi > 0
    ]
    caps = [
        incident.cap_cpu_ratio
        for incident in incidents
        if incident.cap is not None and incident.cap_cpu_ratio is not None
    ]
    reasons = Counter(incident.reason for incident in incidents if incident.cap is None and incident.reason)
    classes = Counter(
        incident.antagonist.job_class for incident in incidents if incident.antagonist is not None
    )
    return IncidentGroup(
        victim_job=victim,
        antagonist_job=antagonist,
        antagonist_class=classes.most_common(1)[0][0] if classes else None,
        incidents=len(incidents),
        victim_tasks=len(
            {(incident.cluster, incident.machine, incident.victim_task) for incident in incidents}
        ),
        machines=len({(incident.cluster, incident.machine) for incident in incidents}),
        first_unix_s=min(incident.start_unix_s for incident in incidents),
        last_unix_s=max(
            incident.start_unix_s if incident.end_unix_s is None else incident.end_unix_s
            for incident in incidents
        ),
        highest_correlation=max(correlations, default=None),
        highest_cpi_ratio=max(ratios, default=None),
        may_be_capped=sum(incident.cap is not None for incident in incidents),
        cap_cpu_ratio=min(caps, default=None),
        reason=reasons.most_common(1)[0][0] if reasons else None,
        capped_by_agents=sum(incident.effect is not None for incident in incidents),
    )
