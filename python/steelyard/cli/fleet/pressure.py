"""``steelyard fleet pressure`` and ``pair``: where jobs press, and which can share a machine.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
"""

from __future__ import annotations

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
from steelyard.cli.fleet.profiles import Job
from steelyard.cli.output import EXIT_CODES

_TABLES = ("task_samples", "machine_samples", "machines")


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("pressure", epilog=EXIT_CODES)(pressure)
    app.command("pair", epilog=EXIT_CODES)(pair)


def pressure(
    store: StoreUrl,
    job: Job = None,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    report: Report = None,
    as_json: Json = False,
) -> int:
    """Show on which resources jobs press: CPU, DRAM capacity and bandwidth, disk, network."""
    from steelyard.fleet.pressure import pressure as find
    from steelyard.report.fleet import pressure as drawn
    from steelyard.report.fleet.content import Answer

    with opened(store, engine, first, last) as source:
        tasks, samples, machines = (source.table(name) for name in _TABLES)
        jobs = find(tasks, samples, machines, job or [])
        told = Answer(
            "Pressure points",
            drawn.pressure_heading(jobs),
            drawn.pressure_sections(jobs),
            {"jobs": [one.document() for one in jobs]},
        )
        show(source, told, as_json=as_json, report=report)
    return 0


def pair(
    store: StoreUrl,
    job: Job = None,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    report: Report = None,
    as_json: Json = False,
) -> int:
    """Say which jobs can share a machine and which must not, from what their CPI does beside each other."""
    from steelyard.fleet.placement.pair import pair as find
    from steelyard.fleet.pressure import pressure as press
    from steelyard.report.fleet import pressure as drawn
    from steelyard.report.fleet.content import Answer

    with opened(store, engine, first, last) as source:
        tasks, samples, machines = (source.table(name) for name in _TABLES)
        answer = find(tasks, press(tasks, samples, machines, job or []), job or [])
        told = Answer(
            "Pairs",
            drawn.pair_heading(answer),
            drawn.pair_sections(answer),
            answer.document(),
            drawn.pair_subline(answer),
        )
        show(source, told, as_json=as_json, report=report)
    return 0
