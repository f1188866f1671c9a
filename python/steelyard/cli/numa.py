"""``steelyard numa map|score|experiment``: the nodes of a machine, how local what runs is to its memory, and
where it should be.

In: flags. Out: tables or one JSON document. Not here: measuring (``numa``, ``experiment.numa``), drawing
(``report.numa``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard._base import ExitCode, UsageError
from steelyard.cli.commands import Commands
from steelyard.cli.leftovers import is_here, put_back
from steelyard.cli.options import Json, Rows
from steelyard.cli.output import examples, show_answer
from steelyard.cli.overview import ABOUT, EXIT_CODES
from steelyard.cli.requests import command
from steelyard.experiment.request.fields import ScenarioRequest

if TYPE_CHECKING:
    from steelyard.numa.distances import Table
    from steelyard.records import HealthResult

app = typer.Typer(
    cls=Commands,
    help=ABOUT["numa"],
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Health = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A health.json or its folder, from `steelyard health`."),
]
Pids = Annotated[list[int] | None, typer.Option(min=1, help="Score this process; repeatable.")]
Cgroups = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Score this control group and those below it; repeatable."),
]
Duration = Annotated[
    str, typer.Option(help="Window in which CPU time counts; 0 counts it since each thread's start.")
]
Looks = Annotated[
    int,
    typer.Option(min=1, max=10_000, help="Samples of thread placement in the window."),
]
Distances = Annotated[
    str,
    typer.Option(
        metavar="slit|hmat|FILE",
        help="Source of distances: firmware (slit, hmat), a table, or a health.json (bandwidth).",
    ),
]
Largest = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Skip processes with more memory: a scan locks their memory map."),
]


@app.command(
    "map",
    epilog=examples(
        "steelyard numa map", "steelyard numa map --health runs/health/ID/TIME", "steelyard numa map --json"
    ),
)
def map_(
    machine: Annotated[
        str,
        typer.Option(
            metavar="MACHINE", help="live, a machine.json, a run, or a recorded tree (a folder or .tar.bz2)."
        ),
    ] = "live",
    health: Health = None,
    as_json: Json = False,
) -> int:
    """Show NUMA nodes, CPUs, memory and distances; with --health also latency and bandwidth."""
    from steelyard.cli.output import print_json
    from steelyard.machine.sources import machine_of
    from steelyard.numa import map_of
    from steelyard.numa.map import MapOf

    numa_map = map_of(machine_of(machine), _health(health))
    if as_json:
        print_json(MapOf(machine, numa_map))
    else:
        from steelyard.report.numa import map_answer

        show_answer(map_answer(numa_map), None)
    return int(ExitCode.OK)


@app.command(
    epilog=examples(
        "steelyard numa score", "steelyard numa score 4711 --duration 5s", "steelyard numa score --json"
    )
)
def score(
    pids: Annotated[
        list[int] | None, typer.Argument(metavar="[PID...]", min=1, help="Processes, as with --pid.")
    ] = None,
    pid: Pids = None,
    cgroup: Cgroups = None,
    everything: Annotated[bool, typer.Option("--all", help="Score every process (default).")] = False,
    duration: Duration = "1s",
    looks: Looks = 10,
    distances: Distances = "slit",
    running: Annotated[
        bool, typer.Option("--running", help="Score only processes that run in the window.")
    ] = False,
    pages: Annotated[
        bool, typer.Option("--pages", help="Read page locations even on a machine with one node.")
    ] = False,
    largest: Largest = None,
    root: Annotated[Path | None, typer.Option(metavar="DIR", help="Root of /proc and /sys.")] = None,
    rows: Rows = 30,
    as_json: Json = False,
) -> int:
    """Score the NUMA locality of processes or control groups: 1 means all memory is local."""
    from steelyard.numa import ScoreRequest, measure

    pid = [*(pids or ()), *(pid or ())]
    if (everything and (pid or cgroup)) or (pid and cgroup):
        raise UsageError("--pid, --cgroup and --all exclude each other")
    request = ScoreRequest(
        pids=pid or (),
        cgroups=cgroup or (),
        everything=not (pid or cgroup),
        duration=duration,
        looks=looks,
        distances=_distances(distances, root),
        running=running,
        pages=pages,
        largest=largest,
        root=root,
    )
    if is_here(root):
        put_back()
    record = measure(request)
    if as_json:
        from steelyard.cli.output import print_json

        print_json(record.model_dump(mode="json"))
    else:
        from steelyard.report.numa import score_answer

        show_answer(score_answer(record, limit=rows), None)
    return int(ExitCode.OK)


app.command(
    "experiment",
    epilog=examples(
        "steelyard numa experiment --plan",
        "steelyard numa experiment --with 'stress-ng --vm 4' -- sysbench memory run",
        "steelyard numa experiment --from figures.csv",
    ),
)(
    command(
        ScenarioRequest,
        "steelyard.cli.experiment.scenarios:experiment_and_show",
        "Measure whether memory locality or cache sharing matters more, in six placements between two nodes.",
    )
)


def _health(path: Path | None) -> HealthResult | None:
    if path is None:
        return None
    from steelyard.records import HealthResult, read

    return read(HealthResult, path / "health.json" if path.is_dir() else path)


def _distances(name: str, root: Path | None) -> str | Table:
    """Return the name for the executable, or the table that a health check makes."""
    path = Path(name)
    if name in ("slit", "hmat") or path.suffix != ".json":
        return name
    from steelyard.machine.sources import machine_of
    from steelyard.numa import map_of
    from steelyard.numa.map import bandwidth_distances

    return bandwidth_distances(map_of(machine_of("live" if root is None else root), _health(path)))
