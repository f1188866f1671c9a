"""``steelyard fleet place``: which job on which platform.

In: flags. Out: tables, one JSON document, a page. Not here: figures (``fleet``), what is drawn (``report``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.fleet.options import (
    DUCKDB,
    Engine,
    From,
    Json,
    Report,
    StoreUrl,
    To,
    opened,
    show,
)
from steelyard.cli.output import EXIT_CODES

Cost = Annotated[str, typer.Option("--cost", help="cycles or cpu-s: what is to be saved.")]
Work = Annotated[str, typer.Option("--work", help="instructions or operations: what is to be done.")]
Capacity = Annotated[
    str,
    typer.Option("--capacity", help="used: what platforms do now; machines: what their machines could do."),
]
Utilisation = Annotated[
    float, typer.Option("--utilisation", metavar="RATIO", help="With --capacity machines: how full at most.")
]
Scale = Annotated[
    list[str] | None,
    typer.Option(
        "--scale", metavar="PLATFORM=FACTOR", help="Scale a capacity, 0 closes it; may be repeated."
    ),
]
MoveCost = Annotated[
    float, typer.Option("--move-cost", metavar="CPU_S", help="CPU time that moving a task costs.")
]
Horizon = Annotated[float, typer.Option("--horizon-days", help="The time in which a move is to pay.")]
LeastSamples = Annotated[
    int, typer.Option("--least-samples", help="With fewer samples there a job is not sent to a platform.")
]
AssumeWorst = Annotated[
    float | None,
    typer.Option(
        "--assume-worst",
        metavar="FACTOR",
        help="Let jobs go where they were never seen, at this factor of their worst CPI.",
    ),
]
Jobs = Annotated[
    list[str] | None, typer.Option("--job", metavar="JOB", help="Only this job; may be repeated.")
]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("place", epilog=EXIT_CODES)(place)


def place(
    store: StoreUrl,
    cost: Cost = "cycles",
    work: Work = "instructions",
    capacity: Capacity = "used",
    utilisation: Utilisation = 0.7,
    scale: Scale = None,
    move_cost: MoveCost = 60.0,
    horizon_days: Horizon = 7.0,
    least_samples: LeastSamples = 100,
    assume_worst: AssumeWorst = None,
    jobs: Jobs = None,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    as_json: Json = False,
    report: Report = None,
) -> int:
    """Say which job to run on which platform, and what that saves; 1 where the work does not fit."""
    from steelyard.fleet.placement.inputs import PlaceSettings
    from steelyard.fleet.placement.plan import place as plan
    from steelyard.report.fleet import placement as words
    from steelyard.report.fleet.content import Answer

    settings = PlaceSettings(
        cost=cost,
        work=work,
        capacity=capacity,
        utilisation_ratio=utilisation,
        scale=_scales(scale),
        move_cost_cpu_s=move_cost,
        horizon_days=horizon_days,
        least_samples=least_samples,
        assume_worst_ratio=assume_worst,
        jobs=tuple(jobs or ()),
    )
    with opened(store, engine, first, last) as open_store:
        result = plan(open_store.table("task_samples"), open_store.table("machine_samples"), settings)
        answer = Answer(
            "Placement",
            words.heading(result),
            words.sections(result),
            result.document(),
            words.subline(result),
            words.cautions(result),
        )
        show(open_store, answer, as_json=as_json, report=report)
    return int(not result.is_feasible or result.planned is None)


def _scales(texts: list[str] | None) -> dict[str, float]:
    """Return the factors of ``--scale``.

    >>> _scales(["old=0", "new=1.5"])
    {'old': 0.0, 'new': 1.5}
    """
    from steelyard._base import UsageError

    found = {}
    for text in texts or []:
        name, _, factor = text.rpartition("=")
        try:
            found[name] = float(factor)
        except ValueError:
            found[name] = -1.0
        if not name or not 0 <= found[name] < 1e6:
            raise UsageError(f"--scale {text!r} is not like PLATFORM=0.5")
    return found
