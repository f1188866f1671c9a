"""The answer of ``steelyard colocate``.

In: its record. Out: an `Answer`: slow-downs beside what was predicted, the values of every run, what both
use of the same limits, and the runs.

Not here: its words (``words``), what the figures mean (``analyze.colocation``).
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from steelyard.records import Colocation, ColocationWorkload, Condition
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Chart,
    Column,
    Figure,
    Mark,
    Notes,
    Section,
    Series,
    Tile,
    measured,
    table,
)
from steelyard.report.characterize.table import PART_WORDS
from steelyard.report.colocation.words import (
    error_text,
    notes,
    predicted_text,
    slowdown_text,
)

_OBJECTIONS = 8
_WORDS = {Condition.FIRST: "alone", Condition.SECOND: "alone", Condition.TOGETHER: "together"}


def answer(record: Colocation, directory: Path) -> Answer:
    """Return the answer; ``directory`` has its runs."""
    first, second = record.workloads
    level = record.level.value if record.level is not None else "incomplete"
    objections = record.objections[:_OBJECTIONS]
    more = len(record.objections) - len(objections)
    return Answer(
        "Co-location",
        _heading(record),
        [_cost(record), _values(record), _limits(record), _runs(record)],
        lines=(f"{first.name} beside {second.name} · {record.tier} · {record.colocation_id}",),
        cautions=[
            *([f"incomplete: {record.status_reason}"] if record.status_reason is not None else []),
            *objections,
            *([f"and {more} more in {directory}"] if more > 0 else []),
        ],
        tiles=[
            Tile(f"{each.name}, slowdown", slowdown_text(each), each.missing or "median alone over together")
            for each in record.workloads
        ],
        level=level,
        verdict=level,
        eyebrow=f"co-location · {record.tier} · {record.repeats} blocks",
        command=shlex.join(record.command),
        command_title="Measured by",
        source=f"the runs in {directory}",
    )


def _heading(record: Colocation) -> str:
    parts = [
        f"{each.name} takes {each.slowdown:.2f} times as long" if each.slowdown is not None else None
        for each in record.workloads
    ]
    known = [part for part in parts if part is not None]
    return ", ".join(known) if known else "No slowdown was measured"


def _cost(record: Colocation) -> Section:
    names = [each.name for each in record.workloads]
    chart = Chart(
        "slowdown",
        "Slowdown, measured and predicted",
        (
            Series(
                "measured",
                names,
                [each.slowdown for each in record.workloads],
                kind="bar",
                role="blue",
                low=[each.slowdown_low for each in record.workloads],
                high=[each.slowdown_high for each in record.workloads],
            ),
            Series(
                "predicted",
                names,
                [_predicted(each) for each in record.workloads],
                kind="bar",
                role="orange",
            ),
        ),
        x_kind="name",
        y_title="times as long as alone",
        from_zero=True,
        marks=(Mark("y", 1.0, "alone"),),
        note="Whiskers are 95 % intervals of the measured slowdown.",
        missing="" if any(each.slowdown for each in record.workloads) else "no slowdown was measured",
    )
    columns = (
        "workload",
        Column("metric", is_text=True, rank=1),
        Column("alone", rank=1),
        Column("together", rank=1),
        Column("slowdown", is_answer=True),
        "predicted",
        "prediction off by",
        Column("scarce", is_text=True, rank=2),
    )
    rows = [
        (
            each.name,
            each.metric.replace("_", " "),
            _median(each.alone, each.unit),
            _median(each.together, each.unit),
            Cell(
                slowdown_text(each),
                repr(each.slowdown),
                figure=Figure(
                    each.slowdown, each.slowdown_low, each.slowdown_high, each.missing or "", "ratio"
                ),
            ),
            Cell(predicted_text(each), figure=Figure(_predicted(each), unit="ratio")),
            Cell(error_text(each), is_text=True),
            _scarce(each),
        )
        for each in record.workloads
    ]
    shown = table(columns, rows)
    intro = (
        "How many times as long the same work takes beside the other. Predicted: where both together want"
        " more of a resource than there is, each gets the same share of what it had alone."
    )
    return Section("cost", "Cost of sharing the machine", (chart, shown, Notes(tuple(notes(record)))), intro)


def _median(values: Sequence[float], unit: str | None) -> Cell | None:
    """Return the median of the runs, in the metric's own unit."""
    return None if not values else measured(float(median(values)), unit)


def _predicted(workload: ColocationWorkload) -> float | None:
    return None if workload.prediction is None else workload.prediction.slowdown


def _scarce(workload: ColocationWorkload) -> str:
    prediction = workload.prediction
    if prediction is None or prediction.slowdown is None:
        return fmt.MISSING if prediction is None else prediction.missing or fmt.MISSING
    scarce = prediction.resource
    return "nothing" if scarce is None else PART_WORDS.get(scarce, scarce)


def _values(record: Colocation) -> Section:
    charts = []
    for number, each in enumerate(record.workloads):
        series = []
        for words, role in (("alone", "green"), ("together", "red")):
            points = [
                (block.index, run.value)
                for block in record.blocks
                for run in block.runs
                if run.workload == number
                and run.refused is None
                and run.value is not None
                and _WORDS[run.condition] == words
            ]
            series.append(
                Series(
                    words,
                    [f"block {at}" for at, _ in points],
                    [value for _, value in points],
                    kind="points",
                    role=role,
                )
            )
        charts.append(
            Chart(
                f"values-{number}",
                f"{each.name}: {each.metric.replace('_', ' ')}",
                tuple(series),
                x_kind="name",
                y_unit=each.unit or "1",
                from_zero=True,
                height=240,
            )
        )
    return Section("values", "Every run", tuple(charts), "The blocks ran one after the other.", grid=True)


def _limits(record: Colocation) -> Section:
    rows = []
    for each, other in zip(record.workloads, reversed(record.workloads), strict=True):
        for name, share in each.use.items():
            beside = each.beside.get(name)
            total = share + beside if share is not None and beside is not None else None
            rows.append(
                (
                    f"{each.name}: {PART_WORDS.get(name, name)}",
                    Figure(missing="not measured, or without a limit") if share is None else share,
                    other.name,
                    Figure(missing="not measured, or without a limit") if beside is None else beside,
                    Figure(missing="one of them is missing") if total is None else total,
                )
            )
    shown = table(
        (
            "limit",
            Column("used alone", "ratio"),
            Column("the other", is_text=True),
            Column("used by the other alone", "ratio"),
            Column("together", "ratio", is_answer=True),
        ),
        rows,
    )
    intro = "Of CPUs, those of its servers or of its load that would be fuller with both."
    return Section("limits", "Limits that both use", (shown,), intro, on_terminal=False)


def _runs(record: Colocation) -> Section:
    rows = [
        (
            f"{block.index}",
            record.workloads[run.workload].name,
            _WORDS[run.condition],
            measured(run.value, record.workloads[run.workload].unit or "1"),
            run.overlap_ratio,
            Cell("no" if run.refused else "yes", run.refused or "", "invalid" if run.refused else "valid"),
            Cell(run.refused or "; ".join(check.claim for check in run.objections), is_text=True),
            run.run_id or fmt.MISSING,
        )
        for block in record.blocks
        for run in block.runs
    ]
    columns = (
        "block",
        Column("workload", is_text=True),
        Column("ran", is_text=True),
        "value",
        Column("overlap", "ratio"),
        "counts",
        Column("objections", is_text=True),
        Column("run", is_text=True),
    )
    return Section(
        "runs",
        "Runs",
        (table(columns, rows),),
        "Each run has a report of its own: steelyard report DIRECTORY/RUN.",
        on_terminal=False,
    )
