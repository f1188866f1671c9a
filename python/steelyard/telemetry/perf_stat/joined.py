"""Several outputs of ``perf stat`` in one file, as ``--append`` writes them, as one.

A processor counts few events at once, so that one program is often counted several times, each time for other
events, into one file. Outputs of one target and without intervals are joined: an event that one of them
counted is taken from it, of one that several counted the mean is taken, as `perf stat -r` does; so are the
times. Outputs that stand one after the other without a header are separated by their rows, which are the
same each time.

In: what was read of the file. Out: `Joined`. Outputs that cannot be joined (of other targets, with intervals)
leave the last, and the reason. Not here: reading rows, and what counts mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from steelyard.telemetry.perf_stat.rows import UNCORE, Output, PerfMetric, Row


@dataclass(frozen=True)
class Joined:
    """Rows and metrics to take of a file."""

    rows: list[Row]
    metrics: list[PerfMetric]
    section: int
    """The output that target and runs are taken from."""
    elapsed_s: float | None
    cpu_s: float | None
    outputs: int = 1
    """How many outputs the file holds."""
    left_out: str | None = None
    """Why outputs before the last are not in it."""
    repeated: tuple[str, ...] = ()
    """Events that more than one output counted."""


def join(output: Output) -> Joined:
    """Return what to take of a file: intervals before their summary."""
    rows = _separated(output.rows)
    sections = sorted({row.section for row in rows} | {metric.section for metric in output.metrics})
    last = sections[-1] if sections else 0
    why = _why_not(output, sections)
    if len(sections) < 2 or why is not None:
        rows = [row for row in rows if row.section == last]
        metrics = [metric for metric in output.metrics if metric.section == last]
        if _has_intervals(rows) or _has_intervals(metrics):
            rows = [row for row in rows if row.time_s is not None]
            metrics = [metric for metric in metrics if metric.time_s is not None]
        times = (output.elapsed_s.get(last), output.cpu_s.get(last))
        return Joined(rows, metrics, last, *times, outputs=len(sections), left_out=why)
    rows, repeated = _joined_rows(rows)
    return Joined(
        rows,
        _joined_metrics(output.metrics),
        last,
        _mean_of(output.elapsed_s, sections),
        _mean_of(output.cpu_s, sections),
        outputs=len(sections),
        repeated=repeated,
    )


def _separated(rows: list[Row]) -> list[Row]:
    """Return rows in sections of their own where all are the same few, several times in that order."""
    if len({row.section for row in rows}) > 1 or _has_intervals(rows):
        return rows
    keys = [(row.scope, row.entity, row.event) for row in rows]
    length = len(set(keys))
    # Units of the uncore count under one name, each its own part.
    if any(UNCORE.match(event) for _, _, event in keys):
        return rows
    if len(keys) == length or len(keys) % length:
        return rows
    if any(key != keys[number % length] for number, key in enumerate(keys)):
        return rows
    first = rows[0].section
    return [replace(row, section=first + number // length) for number, row in enumerate(rows)]


def _why_not(output: Output, sections: Sequence[int]) -> str | None:
    if len(sections) < 2:
        return None
    if _has_intervals(output.rows) or _has_intervals(output.metrics):
        return "they have intervals"
    if len({output.targets.get(section) for section in sections}) > 1:
        return "they are of different commands"
    return None


def _has_intervals(rows: Iterable[Row | PerfMetric]) -> bool:
    return any(row.time_s is not None for row in rows)


def _mean_of(values: Mapping[int, float], sections: Sequence[int]) -> float | None:
    """Return the mean over the outputs that have it."""
    known = [values[section] for section in sections if section in values]
    return math.fsum(known) / len(known) if known else None


def _joined_rows(rows: Iterable[Row]) -> tuple[list[Row], tuple[str, ...]]:
    """Return one row for each that any output has, and the events that several counted.

    Rows of one name within an output (parts of the uncore) keep their places, so that they are added later.
    """
    groups: dict[tuple[str, str, str, int], list[Row]] = {}
    seen: dict[tuple[int, str, str, str], int] = {}
    for row in rows:
        key = (row.scope, row.entity, row.event)
        place = seen.get((row.section, *key), 0)
        seen[row.section, *key] = place + 1
        groups.setdefault((*key, place), []).append(row)
    repeated = {
        event for (_, _, event, _), group in groups.items() if sum(row.value is not None for row in group) > 1
    }
    return [_mean_row(group) for group in groups.values()], tuple(sorted(repeated))


def _mean_row(group: Sequence[Row]) -> Row:
    known = [row for row in group if row.value is not None]
    if len(known) < 2:
        return known[0] if known else group[0]
    values = [row.value for row in known if row.value is not None]
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    ratios = [row.coverage_ratio for row in known if row.coverage_ratio is not None]
    return replace(
        known[-1],
        value=mean,
        coverage_ratio=min(ratios, default=None),
        variation_ratio=math.sqrt(squares / len(values)) / mean if mean else None,
    )


def _joined_metrics(metrics: Iterable[PerfMetric]) -> list[PerfMetric]:
    groups: dict[tuple[str, str, str, str], list[PerfMetric]] = {}
    for metric in metrics:
        groups.setdefault((metric.scope, metric.entity, metric.event, metric.name), []).append(metric)
    return [
        replace(group[-1], value=math.fsum(metric.value for metric in group) / len(group))
        for group in groups.values()
    ]
