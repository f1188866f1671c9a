"""Incidents of CPU interference: what the samples show, what agents recorded, and what capping did.

In: judged episodes (``windows``; by the paper's rule ``suspects``), the store's ``incidents`` and the
effects of caps (``caps``). Out: `Incident`s, the clearest first.

Invariants: an incident that an agent recorded and that the samples show too appears once; nobody is said to
be cappable but batch and best-effort tasks, for latency-sensitive victims.

Not here: capping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard._base.documents import printed
from steelyard.fleet.cpi import caps as cpi_caps
from steelyard.fleet.cpi import suspects as cpi_suspects
from steelyard.fleet.cpi import windows as cpi_windows
from steelyard.fleet.cpi.caps import CapEffect
from steelyard.fleet.cpi.evidence import Bar, Evidence
from steelyard.fleet.cpi.rule import CAP_CPU_RATIO, LATENCY_SENSITIVE, PAPER, Ranked, Rule
from steelyard.fleet.cpi.samples import Guards
from steelyard.fleet.cpi.windows import Judged

MOST_SUSPECTS = 5


@dataclass(frozen=True)
class RankedSuspect:
    """A task that shared the machine, with what speaks against it. Usage in CPU-seconds per second."""

    job: str | None
    """Its job."""
    task: str
    """The task."""
    job_class: str | None
    """Class of its job."""
    correlation: float | None
    """Correlation of its usage and the victim's CPI."""
    pairs: int | None
    """Samples that it is of."""
    usage_mean: float | None
    """Its mean usage."""
    may_be_capped: bool
    """Whether the rule would cap it."""
    evidence: Evidence | None = None
    """What speaks for it (``evidence``); None by the paper's rule, and where only an agent named it."""


@dataclass(frozen=True)
class Recorded:
    """What an agent noted of an incident."""

    incident: str
    """Name of the incident."""
    action: str
    """What the agent did."""
    reason: str
    """Why."""
    antagonist_job: str | None
    """Job that it named."""
    antagonist_task: str | None
    """Task that it named."""
    correlation: float | None
    """Correlation that it found."""
    cap_cpu_ratio: float | None
    """What it left the antagonist."""
    cap_start_unix_s: int | None
    """When the cap was set."""
    cap_end_unix_s: int | None
    """When it ended."""
    undone: bool | None
    """Whether the cap was undone."""
    victim_cpi_after: float | None
    """The victim's CPI afterwards."""


@dataclass(frozen=True)
class Incident:
    """One task that suffered for a while. Times in Unix seconds, CPI in the unit of its source."""

    cluster: str
    """Which cluster."""
    machine: str
    """Which machine."""
    platform: str
    """Which platform."""
    victim_job: str
    """Job of the task that suffered."""
    victim_task: str
    """The task."""
    victim_class: str | None
    """Class of its job."""
    start_unix_s: int
    """Its first anomalous sample."""
    end_unix_s: int | None
    """Its last anomalous sample, None where that is not known."""
    decided_unix_s: int | None
    """Up to when samples were looked at for the ranking."""
    anomalous_samples: int | None
    """How many, None where only an agent knows of it."""
    threshold_cpi: float
    """CPI above which a sample is an outlier."""
    victim_cpi: float
    """Its highest CPI."""
    suspects: tuple[RankedSuspect, ...]
    """Tasks that shared the machine, the most suspicious first."""
    antagonist: RankedSuspect | None
    """The one that is named, None where nobody is."""
    cap: RankedSuspect | None
    """Whom the rule would cap."""
    cap_cpu_ratio: float | None
    """What the rule would leave it."""
    reason: str | None
    """Why the rule would cap nobody."""
    recorded: Recorded | None = None
    """What an agent noted of it."""
    effect: CapEffect | None = None
    """What a cap did, None where none was set."""

    @property
    @printed
    def seen_by(self) -> str:
        """Who knows of it: ``samples``, ``agent`` or ``both``."""
        if self.recorded is None:
            return "samples"
        return "both" if self.anomalous_samples is not None else "agent"


def find_incidents(
    samples: Any,
    outliers: Any,
    recorded: Any = None,
    rule: Rule = PAPER,
    guards: Guards | None = None,
    bar: Bar | None = None,
) -> list[Incident]:
    """Return all incidents, the clearest first.

    ``recorded`` is the store's table of incidents. With ``bar`` names take the evidence that it asks for,
    without one the paper's correlation alone.
    """
    from steelyard.telemetry.engine import fetch_rows

    if bar is not None:
        episodes = cpi_windows.find_episodes(outliers, rule)
        incidents = [
            of_judged(judged) for judged in cpi_windows.judge_episodes(samples, episodes, rule, bar, guards)
        ]
    else:
        ranked = cpi_suspects.expression(samples, outliers, rule, guards)
        # Beyond the first few only those that may be capped at all can matter.
        ranked = ranked.filter((ranked["rank"] <= MOST_SUSPECTS) | ranked.is_guilty)
        incidents = of_rows(fetch_rows(ranked), rule)
    if recorded is not None:
        effects = cpi_caps.find_effects(samples, recorded, rule, guards)
        incidents = merge(incidents, fetch_rows(recorded), effects, rule)
    return sorted(incidents, key=_clearness)


def of_judged(judged: Judged) -> Incident:
    """Return the incident of a judged episode."""
    episode, judgement = judged.episode, judged.judgement

    def as_suspect(ranked: Ranked) -> RankedSuspect:
        suspect = ranked.suspect
        return RankedSuspect(
            job=suspect.job,
            task=suspect.task,
            job_class=suspect.job_class,
            correlation=ranked.correlation.value,
            pairs=ranked.correlation.pairs,
            usage_mean=judged.usage_mean[suspect.job, suspect.task],
            may_be_capped=ranked.may_be_capped,
            evidence=ranked.evidence,
        )

    cluster, machine, platform, job, task = episode.key
    return Incident(
        cluster=cluster,
        machine=machine,
        platform=platform,
        victim_job=job,
        victim_task=task,
        victim_class=episode.job_class,
        start_unix_s=episode.start_unix_s,
        end_unix_s=episode.end_unix_s,
        decided_unix_s=judged.decided_unix_s,
        anomalous_samples=len(episode.anomalous_unix_s),
        threshold_cpi=episode.threshold_cpi,
        victim_cpi=episode.victim_cpi,
        suspects=tuple(as_suspect(ranked) for ranked in judgement.order[:MOST_SUSPECTS]),
        antagonist=as_suspect(judgement.antagonist) if judgement.antagonist is not None else None,
        cap=as_suspect(judgement.cap) if judgement.cap is not None else None,
        cap_cpu_ratio=judgement.cap_cpu_ratio,
        reason=judgement.reason,
    )


def of_rows(rows: Iterable[dict[str, Any]], rule: Rule = PAPER) -> list[Incident]:
    """Return incidents of the rows of ``suspects.expression``."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("cluster", "machine", "job", "task", "episode_start_unix_s"))
        groups.setdefault(key, []).append(row)
    return [_of_group(sorted(group, key=lambda row: row["rank"]), rule) for group in groups.values()]


def _of_group(rows: Sequence[dict[str, Any]], rule: Rule) -> Incident:
    first = rows[0]
    named = [row for row in rows if row["suspect_task"] is not None]
    suspects = [
        RankedSuspect(
            job=row["suspect_job"],
            task=row["suspect_task"],
            job_class=row["suspect_class"],
            correlation=row["correlation"],
            pairs=row["pairs"],
            usage_mean=row["usage_mean"],
            may_be_capped=row["may_be_capped"],
        )
        for row in named
    ]
    guilty = [suspect for suspect, row in zip(suspects, named, strict=True) if row["is_guilty"]]
    cap = next((suspect for suspect in guilty if suspect.may_be_capped), None)
    return Incident(
        cluster=first["cluster"],
        machine=first["machine"],
        platform=first["platform"],
        victim_job=first["job"],
        victim_task=first["task"],
        victim_class=first["job_class"],
        start_unix_s=first["episode_start_unix_s"],
        end_unix_s=first["end_unix_s"],
        decided_unix_s=first["decided_unix_s"],
        anomalous_samples=first["anomalous_samples"],
        threshold_cpi=first["threshold_cpi"],
        victim_cpi=first["victim_cpi"],
        suspects=tuple(suspects[:MOST_SUSPECTS]),
        antagonist=guilty[0] if guilty else None,
        cap=cap,
        cap_cpu_ratio=CAP_CPU_RATIO.get(cap.job_class or "") if cap is not None else None,
        reason=None if cap is not None else _reason(first["job_class"], suspects, guilty, rule),
    )


def _reason(
    victim_class: str, suspects: Sequence[RankedSuspect], guilty: Sequence[RankedSuspect], rule: Rule
) -> str:
    if not suspects:
        return "no suspect shares the machine"
    if not guilty:
        return f"no suspect reaches the correlation of {rule.correlation_floor:g}"
    if victim_class != LATENCY_SENSITIVE:
        return f"the victim is {victim_class}"
    return f"the antagonist is {guilty[0].job_class}"


def merge(
    incidents: Sequence[Incident],
    recorded: Iterable[dict[str, Any]],
    effects: dict[str, CapEffect] | None = None,
    rule: Rule = PAPER,
) -> list[Incident]:
    """Return what the samples show with what agents recorded, each incident once.

    A record belongs to the incident of the same victim whose time it overlaps, or is apart from by less than
    the correlation looks back; of several, to the nearest. A record without one stands for itself.
    """
    # In an order of their own, so that ties are broken alike whatever order the engine gave.
    merged = sorted(incidents, key=_clearness)
    places: dict[tuple[str, str, str, str], list[int]] = {}
    for at, incident in enumerate(merged):
        places.setdefault(
            (incident.cluster, incident.machine, incident.victim_job, incident.victim_task), []
        ).append(at)
    for row in sorted(recorded, key=lambda row: (row["start_unix_s"], row["incident"])):
        effect = (effects or {}).get(row["incident"])
        key = (row["cluster"], row["machine"], row["victim_job"], row["victim_task"])
        near = [
            (distance, at)
            for at in places.get(key, [])
            if merged[at].recorded is None and (distance := _apart(merged[at], row)) < rule.correlation_s
        ]
        if near:
            at = min(near)[1]
            merged[at] = replace(merged[at], recorded=_recorded(row), effect=effect)
        else:
            merged.append(_of_record(row, effect))
    return merged


def _apart(incident: Incident, row: dict[str, Any]) -> int:
    end = row["end_unix_s"] if row["end_unix_s"] is not None else row["start_unix_s"]
    last = incident.end_unix_s if incident.end_unix_s is not None else incident.start_unix_s
    return int(max(0, row["start_unix_s"] - last, incident.start_unix_s - end))


def _recorded(row: dict[str, Any]) -> Recorded:
    return Recorded(**{name: row[name] for name in Recorded.__dataclass_fields__})


def _of_record(row: dict[str, Any], effect: CapEffect | None) -> Incident:
    suspects: tuple[RankedSuspect, ...] = ()
    if row["antagonist_task"] is not None:
        suspects = (
            RankedSuspect(
                job=row["antagonist_job"],
                task=row["antagonist_task"],
                job_class=row["antagonist_class"],
                correlation=row["correlation"],
                pairs=None,
                usage_mean=None,
                may_be_capped=row["antagonist_class"] in CAP_CPU_RATIO,
            ),
        )
    is_capped = row["action"] == "cap"
    return Incident(
        cluster=row["cluster"],
        machine=row["machine"],
        platform=row["platform"],
        victim_job=row["victim_job"],
        victim_task=row["victim_task"],
        victim_class=None,
        start_unix_s=row["start_unix_s"],
        end_unix_s=row["end_unix_s"],
        decided_unix_s=None,
        anomalous_samples=None,
        threshold_cpi=row["threshold_cpi"],
        victim_cpi=row["victim_cpi"],
        suspects=suspects,
        antagonist=suspects[0] if suspects else None,
        cap=suspects[0] if suspects and is_capped else None,
        cap_cpu_ratio=row["cap_cpu_ratio"],
        reason=None if is_capped else row["reason"],
        recorded=_recorded(row),
        effect=effect,
    )


def _clearness(incident: Incident) -> tuple[float, str, str, int, str]:
    best = max((_fit(s) for s in incident.suspects), default=-2.0)
    # Named ones first: by the evidence a high correlation alone names nobody.
    best += 10.0 * (incident.antagonist is not None)
    return (-best, incident.cluster, incident.machine, incident.start_unix_s, incident.victim_task)


def _fit(suspect: RankedSuspect) -> float:
    if suspect.evidence is not None:
        return -2.0 if suspect.evidence.fit is None else suspect.evidence.fit
    return -2.0 if suspect.correlation is None else suspect.correlation
