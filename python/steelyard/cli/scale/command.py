"""The flags of ``steelyard scale``."""

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.options import RUNS, Budget, Chosen, Hook, Json, OrderSeed, Out, Report, Tier, Timeout
from steelyard.cli.output import examples

_EXAMPLES = (
    "steelyard scale tao",
    r"steelyard scale --metric 'rate=(\S+) ops/sec' -- db_bench --threads={cpus} --benchmarks=readrandom",
    "steelyard scale --from curve.csv --profile-low one.txt --profile-high many.txt",
    "steelyard scale --from curve.csv --predict 64 --siblings-of other.csv",
)


def add_scale(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("scale", epilog=examples(*_EXAMPLES))(scale)


def scale(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BENCHMARK|DIR|-- CMD...]",
            help="What a trial runs ({cpus} is the number of CPUs), or the folder of a curve to show.",
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(metavar="N,N,...", help="Numbers of CPUs to try (1, 2, 4 ... and all)."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=REGEX]",
            help="Throughput: a metric of the benchmark, a number in the output, or elapsed_s.",
        ),
    ] = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=REGEX",
            help="Another number of the output to show by step, such as latency_p99_us; repeatable.",
        ),
    ] = None,
    blocks: Annotated[int, typer.Option(min=1, help="Blocks; each tries every step once.")] = 5,
    budget: Budget = None,
    profile: Annotated[
        bool,
        typer.Option("--profile/--no-profile", help="Sample stacks of a command at both ends, or not."),
    ] = True,
    set_: Chosen = None,
    tier: Tier = None,
    hook: Hook = None,
    seed: OrderSeed = None,
    timeout: Timeout = "10min",
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the interrupted curve in this folder.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.csv", help="Analyse a curve that was measured elsewhere."),
    ] = None,
    profile_low: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Profile or `perf report` of the fewest CPUs, measured elsewhere."),
    ] = None,
    profile_high: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same of the most CPUs.")
    ] = None,
    predict: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="N", help="Predict throughput at N CPUs (or threads), measured or not; repeatable."
        ),
    ] = None,
    sibling_worth: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="RATIO",
            help="For --predict: what second threads of cores add, of what the cores do alone, as 0.3.",
        ),
    ] = None,
    siblings_of: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE.csv",
            help="The same from the curve of another machine with this processor; repeatable.",
        ),
    ] = None,
    page: Report = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Measure how throughput grows with CPUs, and name what it is lost to."""
    from steelyard.bench.parameters import parse_assignments
    from steelyard.cli.scale.make import Request, scale_and_show

    request = Request(
        words=words or [],
        steps=steps,
        metric=metric,
        readings=reading or [],
        blocks=blocks,
        budget=budget,
        profile=profile,
        chosen=parse_assignments(set_ or []),
        tier=tier,
        hooks=hook or [],
        seed=seed,
        timeout=timeout,
        resume=resume,
        source=source,
        profiles=(profile_low, profile_high),
        predict=predict or [],
        sibling_worth=sibling_worth,
        siblings_of=siblings_of or [],
        out=out,
    )
    return scale_and_show(request, report=page, as_json=as_json)
