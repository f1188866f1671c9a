"""``steelyard fleet numa``: what NUMA locality costs the fleet.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.fleet.options import Jobs, Platforms
from steelyard.cli.fleet.query import query

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer


def _scored(function: str, *more: Any) -> Any:
    """Return the expression that a function of the query makes of samples with a score."""

    def expression(store: Store) -> Any:
        from steelyard.fleet.numa import locality

        return getattr(locality, function)(locality.scored(store.table("task_samples")), *more)

    return expression


@query(
    "numa",
    result="steelyard.fleet.numa.locality:NumaAnswer",
    expressions={
        "numa days": _scored("days"),
        "numa bins": _scored("bins_of"),
        "numa sums": _scored("sums", ("cpi", "latency_mean"), "load"),
        "numa sums by hour": _scored("sums", ("cpu_use",), "hour"),
    },
    examples=("", "--job search --report numa.html"),
)
def numa(
    store: Store,
    job: Jobs = None,
    platform: Platforms = None,
    bins: Annotated[int, typer.Option(min=2, max=100, help="Number of ranges of scores.")] = 10,
) -> Answer:
    """Show the distribution of NUMA locality, and its cost in CPI, CPU time and latency."""
    from steelyard.fleet.numa.locality import numa as find
    from steelyard.report.fleet import numa as view

    samples = store.table("task_samples")
    return view.numa(find(samples, jobs=job or [], platforms=platform or [], bins=bins))
