"""CPI of victims and usage of suspects over time, for the incidents that are drawn.

In: ``task_samples`` and incidents. Out: `Timeline`s, from half an hour before to half an hour after each.

Not here: drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.fleet.cpi.incidents import Incident
from steelyard.telemetry.deferred import ibis

MOST = 6
_AROUND_S = 1800
_SUSPECTS = 3


@dataclass(frozen=True)
class Line:
    """One task over time. Times in Unix seconds, usage in CPU-seconds per second; None is missing."""

    job: str
    task: str
    is_victim: bool
    time_unix_s: tuple[int, ...]
    cpi: tuple[float | None, ...]
    usage: tuple[float | None, ...]


@dataclass(frozen=True)
class Timeline:
    """An incident with the tasks in it, the victim first."""

    incident: Incident
    lines: tuple[Line, ...]


def expression(samples: Any, incidents: Sequence[Incident]) -> Any:
    """Return the samples around each of the incidents, of the victim and its first suspects."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    for number, incident in enumerate(incidents):
        tasks: list[tuple[str | None, str]] = [(incident.victim_job, incident.victim_task)]
        tasks += [(s.job, s.task) for s in incident.suspects[:_SUSPECTS]]
        for place, (job, task) in enumerate(tasks):
            row = {
                "number": number,
                "place": place,
                "cluster": incident.cluster,
                "machine": incident.machine,
                "job": job,
                "task": task,
                "begin": incident.start_unix_s - _AROUND_S,
                "end": (incident.end_unix_s or incident.start_unix_s) + _AROUND_S,
            }
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
    both = samples.join(ibis.memtable(pa.table(columns)), ["cluster", "machine", "job", "task"])
    start = both.window_start_unix_s
    both = both.filter((start >= both.begin) & (start <= both.end))
    return both.select(
        "number",
        "place",
        "job",
        "task",
        "window_start_unix_s",
        "cpi",
        usage=both.cpu_s / both.window_s.nullif(0.0),
    ).order_by("number", "place", "window_start_unix_s")


def find_timelines(samples: Any, incidents: Sequence[Incident], most: int = MOST) -> list[Timeline]:
    """Return the timelines of the clearest incidents, of each antagonist one."""
    from steelyard.telemetry.engine import fetch_rows

    chosen: list[Incident] = []
    seen: set[tuple[str, str]] = set()
    order = sorted(
        incidents,
        key=lambda incident: (
            incident.antagonist is None,
            incident.effect is None,
            incident.seen_by == "agent",
        ),
    )
    for incident in order:
        if not incident.suspects or len(chosen) == most:
            continue
        key = (incident.machine, incident.suspects[0].task)
        if key not in seen:
            seen.add(key)
            chosen.append(incident)
    if not chosen:
        return []
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in fetch_rows(expression(samples, chosen)):
        rows.setdefault((row["number"], row["place"]), []).append(row)
    timelines = []
    for number, incident in enumerate(chosen):
        lines = [_line(rows[key], key[1] == 0) for key in sorted(rows) if key[0] == number]
        timelines.append(Timeline(incident, tuple(lines)))
    return timelines


def _line(rows: Sequence[dict[str, Any]], is_victim: bool) -> Line:
    return Line(
        job=rows[0]["job"],
        task=rows[0]["task"],
        is_victim=is_victim,
        time_unix_s=tuple(row["window_start_unix_s"] for row in rows),
        cpi=tuple(row["cpi"] for row in rows),
        usage=tuple(row["usage"] for row in rows),
    )
