"""Commands that say what limits a workload: their options, declared for the command line.

Not here: what they do (``characterize``, ``matrix``).
"""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import RUNS, Chosen, Json, Out, Report, Tier

SetLimit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PART=RATE",
        help="Limit an interface or disk during each run of a benchmark (lo=1Gbit, sda=200MB); repeatable.",
    ),
]


def characterize(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD...]", help="Command to start and profile.")
    ] = None,
    pid: Annotated[list[int] | None, typer.Option(help="Profile this process; repeatable.")] = None,
    cgroup: Annotated[str | None, typer.Option(metavar="PATH", help="Profile this control group.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Profile the whole machine (default).")] = False,
    duration: Annotated[
        str | None,
        typer.Option(
            help="Time to measure (10s), after which a started command is ended; 0 waits for its end."
        ),
    ] = None,
    interval: Annotated[str | None, typer.Option(help="Time between two samples of the counters.")] = None,
    hz: Annotated[
        int | None, typer.Option(help="Stack samples per second and CPU (99); 0 turns profiling off.")
    ] = None,
    call_graph: Annotated[str | None, typer.Option(help="How to unwind stacks: fp, dwarf or none.")] = None,
    counters: Annotated[
        bool | None,
        typer.Option("--counters/--no-counters", help="Count performance events, or not."),
    ] = None,
    perf_stat: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Read the counts from the output of perf stat (-o FILE, also with -x or -j); repeatable."
            " Without a command, --pid, --cgroup or --all, show the files and measure nothing.",
        ),
    ] = None,
    ops: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Read counts of operations from log:PATH[:REGEX], prometheus:URL#METRIC,"
            " prometheus-query:URL#PROMQL, csv,time=COLUMN:PATH or load:FILE, with options"
            " (docs/reference/operations.md); repeatable.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME|DIR", help="Run this suite, or read a run of one, and show its matrix."),
    ] = None,
    tier: Tier = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART=RATE",
            help="With --suite: a limit to compare with (lo=1Gbit, sda=200MB, dram=20GB); repeatable.",
        ),
    ] = None,
    set_limit: SetLimit = None,
    chosen: Chosen = None,
    page: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="With --suite: write a self-contained page."),
    ] = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Find what limits a workload: a command, processes, a cgroup, the machine, or each of a suite."""
    from steelyard._base import UsageError
    from steelyard.bench.characterize.benchmark import Request
    from steelyard.cli.characterize import characterize_and_show

    if suite is not None:
        if everything or command or pid or cgroup or perf_stat or ops:
            raise UsageError("--suite characterizes its own workloads: it takes no command or process")
        from steelyard.cli.matrix import show_matrix

        return show_matrix(
            suite, tier, limit or [], set_limit or [], chosen or [], out, report=page, as_json=as_json
        )
    if tier is not None or limit or set_limit or chosen or page is not None:
        raise UsageError("--tier, --limit, --set-limit, --set and --report need --suite")
    if everything and (command or pid or cgroup):
        raise UsageError("--all profiles the whole machine: it takes no command, --pid or --cgroup")
    options = {"duration": duration, "interval": interval, "hz": hz, "call_graph": call_graph}
    options["counters"] = None if counters is None else str(counters).lower()
    if perf_stat and not (everything or command or pid or cgroup or ops):
        given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
        if given:
            raise UsageError(
                f"{given[0]}: --perf-stat alone measures nothing",
                hint="name a command or a process, or --all for the whole machine",
            )
        from steelyard.cli.compare.perf_files import show_files

        return show_files(perf_stat, as_json=as_json)
    request = Request(
        command=command or [],
        pids=pid or [],
        cgroup=cgroup,
        chosen={name: str(value) for name, value in options.items() if value is not None},
        out=out,
        perf_stat=perf_stat or [],
        ops=ops or [],
    )
    return characterize_and_show(request, as_json=as_json)


def colocate(
    first: Annotated[
        str,
        typer.Argument(metavar="A", help="Benchmark, as NAME[:PARAMETER=VALUE,...], or a command in quotes."),
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="The workload beside it.")],
    tier: Tier = None,
    repeats: Annotated[
        int, typer.Option(metavar="N", help="Number of blocks: A alone, B alone and both, in random order.")
    ] = 3,
    duration: Annotated[
        str | None, typer.Option(help="Time to measure in each run (10s); by default that of the tier.")
    ] = None,
    server_cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="CPUs for the servers, such as 0-3,8.")
    ] = None,
    load_cpus: Annotated[
        str | None, typer.Option(metavar="LIST", help="CPUs for the load generator, such as 0-3,8.")
    ] = None,
    set_limit: SetLimit = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the order of the runs.")] = None,
    page: Report = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Measure what it costs two workloads to share this machine, beside what was predicted."""
    from steelyard.cli.colocate import colocate_and_show, request_of

    request = request_of(
        first,
        second,
        tier=tier,
        repeats=repeats,
        duration=duration,
        server_cpus=server_cpus,
        load_cpus=load_cpus,
        set_limit=set_limit or [],
        seed=seed,
        out=out,
    )
    return colocate_and_show(request, report=page, as_json=as_json)
