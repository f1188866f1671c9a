"""What a co-location says, in words: slow-downs, predictions, limits that both use.

In: its record. Out: text. Not here: tables and charts (``answer``).
"""

from steelyard.records import Colocation, ColocationWorkload
from steelyard.report import format as fmt
from steelyard.report.characterize.table import PART_WORDS


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
