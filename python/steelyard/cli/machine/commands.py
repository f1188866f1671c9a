"""``steelyard machine show|diff|check|counters``: what a machine is, and what that means.

In: flags. Not here: what the commands do (``inventory``, ``counters``).
"""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import RUNS, Json, Runs
from steelyard.cli.output import EXIT_CODES, examples

app = typer.Typer(
    help="Show what a machine is, what differs between two, and which settings cost performance.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)
_MACHINE = "live, a machine.json, a run, or a recorded tree (a folder, or a .tar.bz2 of one)."


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
        typer.Option(
            metavar="DIR", help="A recorded tree, a run or a machine.json; by default this machine."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show what a machine is: processors, memory, NUMA, disks, network, kernel, firmware."""
    from steelyard.cli.machine.inventory import show_machine

    return show_machine(root, as_json=as_json)


@app.command(
    "diff",
    epilog=examples("steelyard machine diff runs/A/machine.json", "steelyard machine diff latest live"),
)
def machine_diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"A machine: {_MACHINE}")],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The other one; by default this machine now.")
    ] = "live",
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Compare two machines, or one at two times, most telling first; 1 when something differs."""
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
    name: Annotated[str, typer.Argument(metavar="MACHINE", help=f"A machine: {_MACHINE}")] = "live",
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Skip this check; repeatable.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show checks that passed, too.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for notes (low severity), too.")
    ] = False,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Check a machine for settings that cost performance or spoil a measurement, and say what to do."""
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
    name: Annotated[str, typer.Argument(metavar="MACHINE", help=f"A machine: {_MACHINE}")] = "live",
    scope: Annotated[
        str, typer.Option(help="What is counted: system, cpu, process or cgroup.", metavar="SCOPE")
    ] = "system",
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this metric; repeatable.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what to count, for steelyard-probe record --counters."),
    ] = None,
    definitions: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Take events and metrics from a checkout of Intel's perfmon, Arm's telemetry-solution, or"
            " the kernel's tools/perf/pmu-events.",
        ),
    ] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> int:
    """Show which metrics a machine's counters give, their formulas, and why others are missing."""
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
