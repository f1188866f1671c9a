"""``steelyard fleet smt`` and ``steelyard fleet frequency``: capacity that is left, and that power took.

In: flags. Out: tables, one JSON document, a page. Not here: figures (``fleet``), views (``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.fleet.options import numbers_by_name
from steelyard.cli.fleet.query import over, query

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

Uplifts = Annotated[
    list[str] | None,
    typer.Option(
        "--uplift",
        metavar="[PLATFORM=]RATIO",
        help="Throughput gain of a core's second thread, such as 0.25; repeatable. Without it, bounds are"
        " shown.",
    ),
]
Reference = Annotated[str, typer.Option("--reference", metavar="nominal|max", help="Reference frequency.")]


@query(
    "smt",
    reads="machine_samples",
    result="steelyard.fleet.capacity.smt:SmtResult",
    expressions={"smt": over("steelyard.fleet.capacity.smt:expression", "machine_samples")},
    examples=("", "--uplift 0.25 --report smt.html"),
)
def smt(store: Store, uplift: Uplifts = None) -> Answer:
    """Show used and free core capacity, which CPU utilisation misstates with SMT."""
    from steelyard.fleet.capacity.smt import used_of_fleet
    from steelyard.report.fleet import capacity

    like = "0.25 or PLATFORM=0.25"
    uplifts = numbers_by_name("--uplift", uplift or [], like, fits=lambda _: True, name="*")
    return capacity.smt(used_of_fleet(store.table("machine_samples"), uplifts=uplifts))


_FREQUENCY = "steelyard.fleet.capacity.frequency"


@query(
    "frequency",
    reads="machine_samples",
    result=f"{_FREQUENCY}:FrequencyResult",
    expressions={
        "frequency": over(f"{_FREQUENCY}:expression", "machine_samples", "machines"),
        "frequency by machine": over(f"{_FREQUENCY}:by_machine", "machine_samples", "machines"),
    },
    examples=("", "--reference max --from 2026-01-01 --to 2026-01-07"),
)
def frequency(store: Store, reference: Reference = "nominal") -> Answer:
    """Show the frequencies of the fleet, and the loss to power capping."""
    from steelyard.fleet.capacity.frequency import frequency_of_fleet
    from steelyard.report.fleet import capacity

    samples, machines = store.table("machine_samples"), store.table("machines")
    return capacity.frequency(frequency_of_fleet(samples, machines, reference))
