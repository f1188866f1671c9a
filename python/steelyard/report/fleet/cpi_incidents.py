"""Incidents of CPU interference as tables, charts and words.

In: results of ``fleet.cpi.incidents``, ``fleet.cpi.timeline`` and ``fleet.cpi.truth``. Out: `Answer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from steelyard.fleet.cpi.evidence import Bar
from steelyard.fleet.cpi.incident_groups import IncidentGroup, group_incidents
from steelyard.fleet.cpi.incidents import Incident
from steelyard.fleet.cpi.results import IncidentSettings, IncidentsResult
from steelyard.fleet.cpi.rule import Rule
from steelyard.fleet.cpi.timeline import Timeline
from steelyard.fleet.cpi.truth import Point
from steelyard.report.answer import (
    Answer,
    Band,
    Block,
    Chart,
    Column,
    Figure,
    Mark,
    Section,
    Series,
    Tile,
    table,
    utc,
)
from steelyard.report.format import several

MOST_ROWS = 100
_ROLES = ("orange", "green", "purple")


def incidents_answer(
    incidents: Sequence[Incident],
    rule: Rule,
    source: str,
    *,
    bar: Bar | None = None,
    curve: Sequence[Point] | None = None,
    right: Point | None = None,
    timelines: Sequence[Timeline] = (),
    each: bool = False,
) -> Answer:
    """Return the incidents by victim and antagonist, what agents did about them, and, for a simulated fleet,
    how right they are: ``right`` by the rule in use, ``curve`` by the paper's at each floor. ``bar`` is the
    threshold for naming an antagonist, ``None`` for the paper's rule. ``each`` shows every incident on a
    terminal, too.
    """
    groups = group_incidents(incidents)
    named = [incident for incident in incidents if incident.antagonist is not None]
    cappable = [incident for incident in incidents if incident.cap is not None]
    by_agents = [incident for incident in named if incident.seen_by == "agent"]
    by_rule = len(named) - len(by_agents)
    names = f"an antagonist named in {by_rule:,}"
    if by_agents:
        names = f"an antagonist named by the rule in {by_rule:,}, by agents alone in {len(by_agents):,} more"
    heading = f"{several(len(incidents), 'incident')}, {names}, {len(cappable):,} may be capped"
    subline = f"{_rule_words(rule, bar)}; {rule.outliers} outliers in {rule.within_s} s above {source}"
    sections = [
        Section("groups", "By victim and antagonist", (_group_table(groups, incidents, each=each),)),
        Section("incidents", "Incidents", (_incident_table(incidents, each=each),), on_terminal=each),
    ]
    if timelines:
        charts: list[Block] = []
        for number, timeline in enumerate(timelines):
            charts += _timeline_charts(number, timeline)
        intro = (
            "The clearest incidents, the victim's CPI above its suspects' usage on the same time axis (UTC)."
        )
        sections.append(Section("timelines", "Over time", tuple(charts), intro, grid=True))
    sections += _cap_sections(incidents)
    if curve:
        sections.append(_curve_section(curve, rule, right))
    settings = IncidentSettings(rule, source, bar)
    result = IncidentsResult(settings, groups, incidents, curve, right)
    tiles = (
        Tile("incidents", f"{len(incidents):,}"),
        Tile("named by the rule", f"{by_rule:,}"),
        Tile("named by agents alone", f"{len(by_agents):,}"),
        Tile("may be capped", f"{len(cappable):,}"),
        Tile("capped by agents", f"{sum(incident.effect is not None for incident in incidents):,}"),
    )
    answer = Answer("CPI incidents", heading, tuple(sections), result, (subline,), tiles=tiles)
    return replace(answer, rows=max(answer.rows, len(incidents))) if each else answer


def _rule_words(rule: Rule, bar: Bar | None) -> str:
    if bar is None:
        return (
            f"the paper's rule: correlation from {rule.correlation_floor:g} over {rule.correlation_s} s,"
            " which is mostly wrong among bursty tasks"
        )
    return f"named with p <= {bar.false_name_ratio:g} over {bar.evidence_s} s, corrected for all suspects"


def _group_table(groups: Sequence[IncidentGroup], incidents: Sequence[Incident], *, each: bool) -> Any:
    columns = (
        Column("victim job", is_text=True),
        Column("antagonist job", is_text=True),
        Column("incidents"),
        Column("to cap", is_text=True, is_answer=True),
        Column("correlation", rank=1),
        Column("CPI, times the threshold", rank=1),
        Column("machines", rank=2),
        Column("class", is_text=True, rank=2),
        Column("from", is_text=True, rank=3),
        Column("to", is_text=True, rank=3),
        Column("capped by agents", rank=2),
    )
    rows = [
        (
            group.victim_job,
            group.antagonist_job
            if group.antagonist_job is not None
            else Figure(missing="no suspect is clear enough"),
            group.incidents,
            _to_cap(group),
            group.highest_correlation
            if group.highest_correlation is not None
            else Figure(missing="every suspect was idle, or there was none"),
            group.highest_cpi_ratio,
            group.machines,
            group.antagonist_class or "",
            utc(group.first_unix_s)[:16],
            utc(group.last_unix_s)[:16],
            group.capped_by_agents,
        )
        for group in groups
    ]
    caption = "Highest correlation and CPI of each group; times are UTC."
    if any(incident.seen_by == "agent" for incident in incidents):
        caption += " What only agents recorded is counted, too, with the name that they gave."
    if groups and not each:
        caption += " --all lists every incident."
    return table(columns, rows, caption=caption)


def _to_cap(group: IncidentGroup) -> str:
    if not group.may_be_capped:
        return f"no: {group.reason}" if group.reason else "no"
    to = "" if group.cap_cpu_ratio is None else f" to {group.cap_cpu_ratio:g} CPU-s/s"
    return f"yes, in {group.may_be_capped:,} of {group.incidents:,}{to}"


def _incident_table(incidents: Sequence[Incident], *, each: bool) -> Any:
    columns = (
        Column("victim", is_text=True),
        Column("machine", is_text=True, rank=2),
        Column("from", is_text=True, rank=1),
        Column("CPI", rank=1),
        Column("threshold", rank=2),
        Column("first suspect", is_text=True),
        Column("class", is_text=True, rank=2),
        Column("correlation", rank=1),
        Column("p value", rank=1),
        Column("share of the excess", "ratio", rank=1),
        Column("to cap", is_text=True, is_answer=True),
        Column("agent", is_text=True, rank=1),
    )
    rows = []
    shown = incidents if each else incidents[:MOST_ROWS]
    for incident in shown:
        first = incident.suspects[0] if incident.suspects else None
        no_correlation = Figure(missing="the suspect was idle, or alone")
        evidence = first.evidence if first else None
        cap = (
            f"{incident.cap.task} to {incident.cap_cpu_ratio:g} CPU-s/s"
            if incident.cap and incident.cap_cpu_ratio
            else incident.reason
        )
        rows.append(
            (
                incident.victim_task,
                incident.machine,
                utc(incident.start_unix_s)[:16],
                incident.victim_cpi,
                incident.threshold_cpi,
                first.task if first else "",
                (first.job_class or "") if first else "",
                first.correlation if first and first.correlation is not None else no_correlation,
                evidence.p_value if evidence else None,
                evidence.explained_ratio if evidence else None,
                cap or "",
                f"{incident.recorded.action}: {incident.recorded.reason}" if incident.recorded else "",
            )
        )
    caption = (
        "Share of the excess: of the CPI that the victim has more then, what the suspect's usage explains."
        " Times are UTC. To cap: whom the rule would cap, or why nobody; agents note what they did."
    )
    weighed = [
        suspect.evidence
        for incident in incidents
        for suspect in incident.suspects
        if suspect.evidence is not None
    ]
    if weighed and all(entry.misses_rise is None for entry in weighed):
        caption += " No cache misses were counted: suspects are tested by usage alone."
    if len(incidents) > len(shown):
        caption += f" The clearest {len(shown):,} of {len(incidents):,}; --all and --json have all."
    return table(columns, rows, caption=caption)


def _timeline_charts(number: int, timeline: Timeline) -> list[Block]:
    incident = timeline.incident
    end = incident.end_unix_s or incident.start_unix_s
    bands = [Band(incident.start_unix_s, end, "anomalous", "red")]
    recorded = incident.recorded
    if recorded is not None and recorded.cap_start_unix_s is not None:
        until = recorded.cap_end_unix_s or recorded.cap_start_unix_s
        # Two labels would overlap; the threshold above explains the red span.
        bands[0] = Band(incident.start_unix_s, end, "", "red")
        bands.append(Band(recorded.cap_start_unix_s, until, "capped", "green"))
    victims = [line for line in timeline.lines if line.is_victim]
    others = [line for line in timeline.lines if not line.is_victim]
    above = Chart(
        f"incident-{number}-cpi",
        f"CPI of {incident.victim_task} on {incident.machine}",
        tuple(Series(line.task, line.time_unix_s, line.cpi, "line", "blue") for line in victims),
        x_kind="time",
        y_title="CPI",
        marks=(Mark("y", incident.threshold_cpi, "threshold", "red"),),
        bands=tuple(bands),
        height=260,
    )
    below = Chart(
        f"incident-{number}-usage",
        f"Usage of {others[0].task}" if len(others) == 1 else "Usage of its suspects",
        tuple(
            Series(line.task, line.time_unix_s, line.usage, "line", role)
            for line, role in zip(others, _ROLES, strict=False)
        ),
        x_kind="time",
        y_title="CPU-s/s",
        from_zero=True,
        bands=tuple(bands),
        height=260,
    )
    return [above, below]


def _cap_sections(incidents: Sequence[Incident]) -> list[Section]:
    capped = [incident for incident in incidents if incident.effect is not None]
    if not capped:
        return []
    columns = (
        Column("victim", is_text=True),
        Column("antagonist", is_text=True),
        Column("CPI before"),
        Column("during"),
        Column("after"),
        Column("CPI kept", "ratio"),
        Column("usage before", rank=1),
        Column("during", rank=1),
        Column("after", rank=1),
        Column("confirmed", is_text=True),
        Column("undone", is_text=True),
    )
    rows = []
    for incident in capped:
        effect, recorded = incident.effect, incident.recorded
        assert effect is not None
        assert recorded is not None
        rows.append(
            (
                incident.victim_task,
                recorded.antagonist_task or "",
                *effect.victim_cpi.values(),
                effect.cpi_ratio,
                *effect.antagonist_usage.values(),
                {True: "yes", False: "no", None: "unclear"}[effect.confirmed],
                {True: "yes", False: "no", None: ""}[recorded.undone],
            )
        )
    known = [
        incident.effect.recovered
        for incident in capped
        if incident.effect and incident.effect.recovered is not None
    ]
    intro = f"In {sum(known)} of {len(known)} caps the victim fell to its threshold or below."
    caption = (
        "Means of the 10 minutes before, of the cap, and of the 10 minutes after. Confirmed: the victim"
        " recovered under the cap and suffered again after it; unclear: it did not suffer again, or there"
        " are too few samples."
    )
    return [Section("caps", "Effect of caps", (table(columns, rows, caption=caption),), intro)]


def _curve_section(curve: Sequence[Point], rule: Rule, right: Point | None) -> Section:
    floors = [point.floor for point in curve]
    chart = Chart(
        "truth",
        "Antagonists named, against the simulation's truth",
        (
            Series("precision", floors, [point.precision for point in curve], "line", "blue"),
            Series("recall of episodes", floors, [point.recall for point in curve], "line", "orange"),
            Series("recall of victims", floors, [point.victim_recall for point in curve], "line", "purple"),
        ),
        x_title="correlation from which a suspect is the antagonist",
        y_unit="ratio",
        y_range=(0.0, 1.0),
        marks=(Mark("x", rule.correlation_floor, "here"),),
    )
    columns = (
        Column("floor"),
        Column("named"),
        Column("right"),
        Column("precision", "ratio"),
        Column("recall of episodes", "ratio"),
        Column("recall of victims", "ratio"),
    )
    rows = [
        (point.floor, point.named, point.right, point.precision, point.recall, point.victim_recall)
        for point in curve
    ]
    intro = "This fleet is simulated: the true antagonists are known (truth.json) and not used above."
    if right is not None and right.precision is not None and right.recall is not None:
        intro += (
            f" Of the {right.named:,} names by the rule above {right.precision:.1%} are right, and"
            f" {right.recall:.1%} of the {right.episodes} episodes were found; names by agents alone do not"
            " count here."
        )
    intro += " Chart and table are of the paper's rule alone, at each floor, whichever rule named above."
    return Section("truth", "Accuracy of names", (chart, table(columns, rows)), intro)
