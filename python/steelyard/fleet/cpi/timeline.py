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

    wanted: dict[str, list[Any]] = {}
    for number, one in enumerate(incidents):
        tasks: list[tuple[str | None, str]] = [(one.victim_job, one.victim_task)]
        tasks += [(s.job, s.task) for s in one.suspects[:_SUSPECTS]]
        for place, (job, task) in enumerate(tasks):
            row = {
                "number": number,
                "place": place,
                "cluster": one.cluster,
                "machine": one.machine,
                "job": job,
                "task": task,
                "begin": one.start_unix_s - _AROUND_S,
                "end": (one.end_unix_s or one.start_unix_s) + _AROUND_S,
            }
            for name, value in row.items():
                wanted.setdefault(name, []).append(value)
    both = samples.join(ibis.memtable(pa.table(wanted)), ["cluster", "machine", "job", "task"])
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
        incidents, key=lambda one: (one.antagonist is None, one.effect is None, one.seen_by == "agent")
    )
    for one in order:
        if not one.suspects or len(chosen) == most:
            continue
        key = (one.machine, one.suspects[0].task)
        if key not in seen:
            seen.add(key)
            chosen.append(one)
    if not chosen:
        return []
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in fetch_rows(expression(samples, chosen)):
        rows.setdefault((row["number"], row["place"]), []).append(row)
    found = []
    for number, one in enumerate(chosen):
        lines = [_line(rows[key], key[1] == 0) for key in sorted(rows) if key[0] == number]
        found.append(Timeline(one, tuple(lines)))
    return found


def _line(rows: Sequence[dict[str, Any]], is_victim: bool) -> Line:
    return Line(
        job=rows[0]["job"],
        task=rows[0]["task"],
        is_victim=is_victim,
        time_unix_s=tuple(row["window_start_unix_s"] for row in rows),
        cpi=tuple(row["cpi"] for row in rows),
        usage=tuple(row["usage"] for row in rows),
    )
