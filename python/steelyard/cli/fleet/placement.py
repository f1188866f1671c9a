"""``steelyard fleet place``: which job on which platform.

In: flags. Out: tables, one JSON document, a page. Not here: figures (``fleet``), views (``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.fleet.options import Jobs, numbers_by_name
from steelyard.cli.fleet.query import over, query

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

Cost = Annotated[str, typer.Option("--cost", metavar="cycles|cpu-s", help="Cost to minimise.")]
Work = Annotated[str, typer.Option("--work", metavar="instructions|operations", help="Unit of work.")]
Capacity = Annotated[
    str,
    typer.Option(
        "--capacity",
        metavar="used|machines",
        help="Capacity of platforms: used (their present work) or machines (all of their machines).",
    ),
]
Utilisation = Annotated[
    float,
    typer.Option("--utilisation", metavar="RATIO", help="With --capacity machines: maximum utilisation."),
]
Scale = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="PLATFORM=FACTOR",
        help="Scale the capacity of a platform (0 closes it); repeatable.",
    ),
]
MoveCost = Annotated[float, typer.Option("--move-cost", metavar="CPU_S", help="CPU time to move one task.")]
Horizon = Annotated[float, typer.Option("--horizon-days", help="Days in which a move must pay off.")]
LeastSamples = Annotated[
    int, typer.Option("--least-samples", help="Minimum samples of a job on a platform to place it there.")
]
AssumeWorst = Annotated[
    float | None,
    typer.Option(
        "--assume-worst",
        metavar="FACTOR",
        help="Allow platforms without samples of a job, at this factor of its worst CPI.",
    ),
]


def _loads(store: Store) -> Any:
    from steelyard.fleet.placement.inputs import PlaceSettings, loads

    return loads(store.table("task_samples"), PlaceSettings())


@query(
    "place",
    result="steelyard.fleet.placement.plan:PlaceResult",
    expressions={
        "place loads": _loads,
        "place capacities": over("steelyard.fleet.placement.inputs:capacities", "machine_samples"),
    },
    examples=("", "--scale old=0 --assume-worst 1.2", "--capacity machines --report place.html"),
)
def place(
    store: Store,
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
) -> Answer:
    """Place jobs on platforms at the lowest cost; exit with 1 if the work does not fit."""
    from steelyard.fleet.placement.inputs import PlaceSettings
    from steelyard.fleet.placement.plan import place as plan
    from steelyard.report.fleet import placement

    settings = PlaceSettings(
        cost=cost,
        work=work,
        capacity=capacity,
        utilisation_ratio=utilisation,
        scale=numbers_by_name("--scale", scale or [], "PLATFORM=0.5", fits=lambda factor: 0 <= factor < 1e6),
        move_cost_cpu_s=move_cost,
        horizon_days=horizon_days,
        least_samples=least_samples,
        assume_worst_ratio=assume_worst,
        jobs=tuple(jobs or ()),
    )
    return placement.place(plan(store.table("task_samples"), store.table("machine_samples"), settings))
