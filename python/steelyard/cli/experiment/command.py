"""The flags of ``steelyard experiment``."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import (
    RUNS,
    Budget,
    Chosen,
    Compared,
    Hook,
    Json,
    LeastEffect,
    OrderSeed,
    Out,
    Report,
    Tier,
    Timeout,
    ToTheEnd,
)
from steelyard.cli.output import examples

_EXAMPLES = (
    "steelyard experiment tao --a memory=64MiB --b memory=256MiB",
    "steelyard experiment --sweep level=1,6,9 -- gzip -{level} -k -f file",
    "steelyard experiment --ops prometheus:http://127.0.0.1:9113/metrics#nginx_http_requests_total"
    " --a './set small' --b './set large'",
    "steelyard experiment --from curves.csv --metric p99_ms --lower-is-better",
)


def add_experiment(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("experiment", epilog=examples(*_EXAMPLES))(experiment)


def experiment(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BENCHMARK|DIR|FILE.toml|-- CMD...]",
            help="What a trial runs, an experiment in a file, or the folder of one to show.",
        ),
    ] = None,
    a: Annotated[
        str | None, typer.Option("--a", metavar="ARM", help="First arm: NAME=VALUE,... or a command.")
    ] = None,
    b: Annotated[str | None, typer.Option("--b", metavar="ARM", help="Second arm.")] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE,...", help="An arm for each value of a parameter, or of {NAME} in CMD."
        ),
    ] = None,
    metric: Compared = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="With a REGEX or --from: smaller numbers are better.")
    ] = False,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals", help="With a REGEX: each match is an interval; average them once they settled."
        ),
    ] = False,
    least_effect: LeastEffect = "1%",
    guard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=REGEX]=MARGIN",
            help="Another metric that must not get worse than this share; +5% where more of it is worse.",
        ),
    ] = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=REGEX", help="Another number of the output to keep; p99_... is drawn over a sweep."
        ),
    ] = None,
    ops: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Look at a running service, as `characterize --ops`; arms are commands that change it.",
        ),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long a trial looks at the service (60s).")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Try both arms at once on two hosts, which change places."),
    ] = None,
    ssh: Annotated[str, typer.Option(help="ssh and its options, for --hosts.")] = "ssh",
    remote_command: Annotated[
        str, typer.Option(metavar="PATH", help="steelyard on the hosts, for benchmarks.")
    ] = "steelyard",
    blocks: Annotated[int, typer.Option(help="Most blocks; each tries every arm once.")] = 40,
    budget: Budget = None,
    to_the_end: ToTheEnd = False,
    set_: Chosen = None,
    tier: Tier = None,
    hook: Hook = None,
    seed: OrderSeed = None,
    timeout: Timeout = "10min",
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the interrupted experiment in this folder.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE.csv", help="Analyse values that were measured elsewhere; run nothing."
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Show how many blocks earlier experiments call for; run nothing."),
    ] = False,
    pilot: Annotated[
        int | None,
        typer.Option(metavar="N", help="Try the first arm beside itself in N blocks, for the blocks needed."),
    ] = None,
    page: Report = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Compare two or more variants by interleaved trials, until the difference is known."""
    from steelyard.bench.parameters import parse_assignments
    from steelyard.cli.experiment.begin import Request
    from steelyard.cli.experiment.make import experiment_and_show

    request = Request(
        words=words or (),
        a=a,
        b=b,
        sweep=sweep,
        metric=metric,
        lower_is_better=lower_is_better,
        intervals=intervals,
        blocks=blocks,
        budget=budget,
        least_effect=least_effect,
        to_the_end=to_the_end,
        seed=seed,
        tier=tier,
        chosen=parse_assignments(set_ or []),
        hooks=hook or (),
        timeout=timeout,
        hosts=hosts,
        ssh=ssh,
        remote_command=remote_command,
        sources=ops or (),
        window=window,
        guards=guard or (),
        resume=resume,
        plan=plan,
        pilot=pilot,
        readings=reading or (),
        source=source,
        out=out,
    )
    return experiment_and_show(request, report=page, as_json=as_json)
