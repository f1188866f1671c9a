"""A co-location on a terminal.

In: its record. Out: a table of both workloads, lines on the limits that they share and on what objects.
"""

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from steelyard.records import Colocation, ColocationWorkload, Level
from steelyard.report import format as fmt
from steelyard.report.characterize.table import PART_WORDS
from steelyard.report.terminal import report_line

_STYLES = {Level.VALID: "green", Level.SUSPECT: "yellow", Level.INVALID: "red"}
_OBJECTIONS_AT_MOST = 6


def render(record: Colocation, directory: Path, page: Path | None = None) -> RenderableType:
    """Return what a co-location says."""
    names = " beside ".join(each.name for each in record.workloads)
    title = Text(f"{names} · {record.tier} · {record.colocation_id}", style="bold")
    lines: list[RenderableType] = [title]
    if record.status_reason is not None:
        lines.append(Text(f"incomplete: {record.status_reason}", style="red"))
    if record.level is not None:
        lines.append(Text(record.level, style=_STYLES[record.level]))
    shown = record.objections[:_OBJECTIONS_AT_MOST]
    lines += [Text(f"  {objection}") for objection in shown]
    if len(record.objections) > len(shown):
        lines.append(Text(f"  and {len(record.objections) - len(shown)} more in {directory}", style="dim"))
    table = Table(box=None, pad_edge=False)
    for column in ("workload", "metric", "alone", "together", "slowdown", "predicted", "prediction off by"):
        table.add_column(column, header_style="dim", justify="left" if column in _TEXT else "right")
    for workload in record.workloads:
        table.add_row(*(Text(cell) for cell in row(workload)))
    lines += ["", table, "", *(Text(line, style="dim") for line in notes(record))]
    if page is not None:
        lines.append(report_line(page))
    return Group(*lines)


_TEXT = ("workload", "metric")


def row(workload: ColocationWorkload) -> tuple[str, ...]:
    """Return a workload's cells."""
    return (
        workload.name,
        workload.metric.replace("_", " "),
        _median(workload.alone, workload.unit),
        _median(workload.together, workload.unit),
        slowdown_text(workload),
        predicted_text(workload),
        error_text(workload),
    )


def _median(values: list[float], unit: str | None) -> str:
    if not values:
        return fmt.MISSING
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return fmt.plain(fmt.quantity(median, unit or "1"))


def slowdown_text(workload: ColocationWorkload) -> str:
    """Return the measured slow-down with its interval: ``1.62x (1.55 to 1.70)``."""
    if workload.slowdown is None:
        return fmt.MISSING
    text = f"{workload.slowdown:.2f}x"
    if workload.slowdown_low is not None and workload.slowdown_high is not None:
        text += f" ({workload.slowdown_low:.2f} to {workload.slowdown_high:.2f})"
    return text


def predicted_text(workload: ColocationWorkload) -> str:
    """Return the prediction and what it is about: ``2.00x (CPU)``."""
    prediction = workload.prediction
    if prediction is None or prediction.slowdown is None:
        return fmt.MISSING
    scarce = prediction.resource
    about = f" ({PART_WORDS.get(scarce, scarce)})" if scarce is not None else ""
    if prediction.slowdown_low is not None and prediction.slowdown_high is not None:
        about = f" ({prediction.slowdown_low:.2f} to {prediction.slowdown_high:.2f}, from earlier pairs)"
    return f"{prediction.slowdown:.2f}x{about}"


def error_text(workload: ColocationWorkload) -> str:
    """Return how far the prediction was off."""
    prediction = workload.prediction
    if prediction is None or prediction.error_ratio is None:
        return fmt.MISSING
    within = {True: ", within the interval", False: ", outside the interval", None: ""}
    return f"{prediction.error_ratio:+.0%}{within[prediction.is_within_interval]}"


def _of_sessions(record: Colocation) -> list[str]:
    """Return of which sessions the intervals are."""
    known = [workload for workload in record.workloads if workload.slowdown_low is not None]
    alone = [workload.name for workload in known if workload.sessions is None]
    lines = []
    if alone:
        lines.append(
            f"intervals of {' and '.join(alone)} are within one session: another day may differ by more"
        )
    lines += [
        f"{workload.name}: the interval has the spread of {workload.sessions} earlier sessions of this pair"
        for workload in known
        if workload.sessions is not None
    ]
    return lines


def notes(record: Colocation) -> list[str]:
    """Return lines on what both use of the same limits, and on what is missing."""
    lines = []
    for workload, other in zip(record.workloads, reversed(record.workloads), strict=True):
        parts = [
            f"{PART_WORDS.get(name, name)} {share:.0%} + {beside:.0%}"
            for name, share in workload.use.items()
            if share is not None and (beside := workload.beside.get(name)) is not None
        ]
        if parts:
            lines.append(f"{workload.name} alone, and {other.name} on the same: {', '.join(parts)}")
        if workload.missing is not None:
            lines.append(f"{workload.name}: {workload.missing}")
        if workload.prediction is not None and workload.prediction.missing is not None:
            lines.append(f"{workload.name}: not predicted: {workload.prediction.missing}")
    lines += _of_sessions(record)
    if record.over:
        past = ", ".join(
            f"{PART_WORDS.get(name, name)} ({record.together[name]:.0%})" for name in record.over
        )
        lines.append(f"past the threshold together: {past}")
    overlaps = [
        run.overlap_ratio for block in record.blocks for run in block.runs if run.overlap_ratio is not None
    ]
    if overlaps:
        lines.append(f"together, at least {min(overlaps):.0%} of each measure phase was beside the other's")
    return lines
