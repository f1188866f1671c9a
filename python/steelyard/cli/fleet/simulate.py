"""``steelyard fleet simulate``: write a store of a fleet with known truth.

In: flags. Out: a store, and a table or one JSON document of what was written. Not here: the simulation
(``fleet``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.options import Json
from steelyard.cli.output import examples, output_console

_START = "2026-03-02"
NewStore = Annotated[
    str,
    typer.Option(
        "--store", metavar="STORE", help="New store: a folder or s3://bucket/prefix.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(
        "simulate",
        epilog=examples(
            "steelyard fleet simulate --store STORE",
            "steelyard fleet simulate --store STORE --machines 500 --days 7 --seed 2",
        ),
    )(simulate)


def simulate(
    store: NewStore,
    machines: Annotated[int, typer.Option(help="Number of machines.")] = 50,
    jobs: Annotated[int, typer.Option(help="Number of jobs; the first twelve have special roles.")] = 12,
    days: Annotated[int, typer.Option(help="Number of days.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 1,
    files: Annotated[
        str, typer.Option(help="machine (one file per machine and day, as agents upload) or compact.")
    ] = "compact",
    start: Annotated[str, typer.Option(metavar="DATE", help="First day (UTC).")] = _START,
    step_s: Annotated[int, typer.Option(help="Length of a task's window in seconds.")] = 60,
    tasks_per_machine: Annotated[int | None, typer.Option(help="Mean number of tasks per machine.")] = None,
    clusters: Annotated[int | None, typer.Option(help="Number of clusters.")] = None,
    platforms: Annotated[int, typer.Option(help="Number of platforms, 1 to 4.")] = 4,
    profiled_ratio: Annotated[float, typer.Option(help="Share of machine-minutes with profiles.")] = 0.01,
    episodes: Annotated[float, typer.Option(help="Mean number of antagonists per machine and day.")] = 0.3,
    faults: Annotated[
        bool, typer.Option("--faults", help="Add bad input of every kind, listed in truth.json.")
    ] = False,
    compression: Annotated[str, typer.Option(help="zstd (as agents use) or snappy (faster).")] = "zstd",
    as_json: Json = False,
) -> int:
    """Simulate a fleet: write the Parquet files of its agents, and the known truth to truth.json."""
    import time

    from steelyard.cli.output import print_json
    from steelyard.fleet.simulate import Settings
    from steelyard.fleet.simulate import simulate as run
    from steelyard.report.format import several

    settings = Settings(
        machines=machines,
        jobs=jobs,
        days=days,
        seed=seed,
        files=files,
        start=start,
        step_s=step_s,
        tasks_per_machine=tasks_per_machine,
        clusters=clusters,
        platforms=platforms,
        profiled_ratio=profiled_ratio,
        episodes_per_machine_day=episodes,
        compression=compression,
        faults=faults,
    )
    began_s = time.monotonic()
    truth = run(settings, store)
    took_s = time.monotonic() - began_s
    tables = {
        name: {"rows": rows, "files": truth["files"][name], "bytes": truth["bytes"][name]}
        for name, rows in truth["rows"].items()
    }
    if as_json:
        print_json(
            {"store": store, "took_s": took_s, "tables": tables, "truth": f"{store.rstrip('/')}/truth.json"}
        )
        return 0

    console = output_console(highlight=False)
    for name, totals in tables.items():
        console.print(
            f"{name:16} {several(totals['files'], 'file'):>13} {several(totals['rows'], 'row'):>19}"
            f" {totals['bytes'] / 1e6:10,.1f} MB"
        )
    rate = tables["task_samples"]["rows"] / took_s / 1e6
    console.print(
        f"{took_s:.1f} s, {rate:.2f} million task samples per second; {store.rstrip('/')}/truth.json"
    )
    return 0
