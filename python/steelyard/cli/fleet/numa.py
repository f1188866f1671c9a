"""``steelyard fleet numa``: what NUMA locality costs the fleet.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
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
from steelyard.cli.fleet.profiles import Job, Platform
from steelyard.cli.output import EXIT_CODES


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("numa", epilog=EXIT_CODES)(numa)


def numa(
    store: StoreUrl,
    job: Job = None,
    platform: Platform = None,
    bins: Annotated[int, typer.Option(min=2, max=100, help="Ranges of scores.")] = 10,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    report: Report = None,
    as_json: Json = False,
) -> int:
    """Say how scores of NUMA locality are spread, and what they cost in CPI, CPU time and latency."""
    from steelyard.fleet.numa.locality import numa as find
    from steelyard.report.fleet import numa as drawn
    from steelyard.report.fleet.content import Answer

    with opened(store, engine, first, last) as source:
        answer = find(source.table("task_samples"), jobs=job or [], platforms=platform or [], bins=bins)
        told = Answer(
            "NUMA locality",
            drawn.heading(answer),
            drawn.sections(answer),
            answer.document(),
            drawn.subline(answer),
            drawn.cautions(answer),
            drawn.tiles(answer),
        )
        show(source, told, as_json=as_json, report=report)
    return 0
