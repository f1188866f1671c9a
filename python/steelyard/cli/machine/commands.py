"""``steelyard machine show|diff|check|counters``: what a machine is, and what that means.

In: flags. Not here: what the commands do (``inventory``, ``counters``).
"""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.bench.options import RUNS
from steelyard.cli.commands import Commands
from steelyard.cli.options import Json, Runs
from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT, EXIT_CODES

app = typer.Typer(
    cls=Commands,
    help=ABOUT["machine"],
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)
_MACHINE = "Machine: live, a machine.json, a run, or a recorded tree (a folder or .tar.bz2)."


@app.command(
    "show",
    epilog=examples(
        "steelyard machine show",
        "steelyard machine show --root tree.tar.bz2",
        "steelyard machine show --json",
    ),
)
def machine_show(
    root: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Recorded tree, run or machine.json; by default this machine."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show a machine: processors, memory, NUMA, disks, network, kernel, firmware."""
    from steelyard.cli.machine.inventory import show_machine

    return show_machine(root, as_json=as_json)


@app.command(
    "diff",
    epilog=examples("steelyard machine diff runs/A/machine.json", "steelyard machine diff latest live"),
)
def machine_diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_MACHINE)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another machine; by default this one.")] = "live",
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Compare two machines, or one at two times; exit with 1 if they differ."""
    from steelyard.cli.machine.inventory import show_diff

    return show_diff(a, b, runs, as_json=as_json)


@app.command(
    "check",
    epilog=examples(
        "steelyard machine check",
        "steelyard machine check --all --strict",
        "steelyard machine check latest --ignore smt",
    ),
)
def machine_check(
    name: Annotated[str, typer.Argument(metavar="MACHINE", help=_MACHINE)] = "live",
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Skip the check with this id; repeatable.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show the checks that passed.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for notes (low severity) as well.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Check a machine for settings that cost performance or disturb measurements."""
    from steelyard.cli.machine.inventory import show_check

    return show_check(name, runs, ignore=ignore or [], everything=everything, strict=strict, as_json=as_json)


@app.command(
    "counters",
    epilog=examples(
        "steelyard machine counters",
        "steelyard machine counters --metric ipc --plan plan.json",
        "steelyard machine counters latest --scope process",
    ),
)
def machine_counters(
    name: Annotated[str, typer.Argument(metavar="MACHINE", help=_MACHINE)] = "live",
    scope: Annotated[
        str, typer.Option(help="What to count: system, cpu, process or cgroup.", metavar="SCOPE")
    ] = "system",
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Show only this metric; repeatable.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the plan of events for steelyard-probe record --counters."),
    ] = None,
    definitions: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Read events and metrics from a checkout of Intel's perfmon, Arm's telemetry-solution, or"
            " the kernel's tools/perf/pmu-events.",
        ),
    ] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Show the metrics that a machine's counters give, and why others are missing."""
    from steelyard.cli.machine.counters import show_counters

    return show_counters(
        name,
        runs,
        scope=scope,
        metrics=metric or [],
        plan=plan,
        checkout=definitions,
        as_json=as_json,
    )
