"""``steelyard tune run|sweep|show|list|apply|verify|restore``: flags of each.

``steelyard tune --benchmark tao`` is ``steelyard tune run --benchmark tao``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard._base import ExitCode
from steelyard.cli.commands import Commands
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
)
from steelyard.cli.output import EXIT_CODES, examples


class _Tune(Commands):
    """A group whose flags are those of ``run``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--benchmark`` and its like for those of ``run``."""
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    cls=_Tune,
    help="Find settings of the machine and the program that serve a workload best (a soft SKU).",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Root = Annotated[Path, typer.Option(metavar="DIR", help="Root of /proc, /sys and /dev.")]
UserFile = Annotated[
    Path | None, typer.Option("--knobs", metavar="FILE.toml", help="Knobs and guardrails of your own.")
]
Command = Annotated[list[str] | None, typer.Argument(metavar="[-- CMD...]", help="Command of a trial.")]
Benchmark = Annotated[str | None, typer.Option(metavar="NAME", help="Benchmark of a trial.")]
LowerIsBetter = Annotated[
    bool, typer.Option("--lower-is-better", help="With a REGEX or --ops: smaller numbers are better.")
]
Ops = Annotated[
    list[str] | None,
    typer.Option(metavar="SOURCE", help="Look at a running service, as `characterize --ops`; repeatable."),
]
Window = Annotated[
    str | None, typer.Option(metavar="TIME", help="How long a trial looks at the service (60s).")
]
Settle = Annotated[str, typer.Option(metavar="TIME", help="Time before a trial, after changes.")]
SoftSku = Annotated[Path, typer.Argument(metavar="SOFTSKU.toml", help="What a tuning wrote.")]


@app.command(
    epilog=examples(
        "steelyard tune run --benchmark tao --budget 10min",
        "steelyard tune run --knob thp_enabled --knob level=6,1,9 -- gzip -{level} -k -f file",
        "steelyard tune run --ops prometheus:http://127.0.0.1:9113/metrics#nginx_http_requests_total",
        "steelyard tune run --benchmark tao --advice",
    ),
    context_settings={"allow_interspersed_args": False},
)
def run(
    command: Command = None,
    benchmark: Benchmark = None,
    ops: Ops = None,
    window: Window = None,
    knob: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=LEVEL,...]",
            help="Try this knob, a parameter, a {NAME} in CMD, memory_max or env:NAME; by default what --risk"
            " allows.",
        ),
    ] = None,
    knobs: UserFile = None,
    risk: Annotated[str, typer.Option(help="Most that knobs may risk: low, medium or high.")] = "low",
    guard: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC<=N", help="Drop a level whose run breaches this bound; repeatable."),
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Order of trials: one-at-a-time, hill-climb, exhaustive or optuna.")
    ] = "one-at-a-time",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=REGEX]",
            help="What to improve: a metric of the benchmark, a source's name, elapsed_s, cpu_s, or a number"
            " in the output.",
        ),
    ] = None,
    lower_is_better: LowerIsBetter = False,
    least_effect: LeastEffect = "1%",
    blocks: Annotated[int, typer.Option(help="Most blocks; each tries every arm once.")] = 40,
    confirm_blocks: Annotated[int, typer.Option(help="Blocks of the confirmation.")] = 40,
    budget: Budget = None,
    settle: Settle = "0s",
    set_: Chosen = None,
    tier: Tier = None,
    hook: Hook = None,
    seed: OrderSeed = None,
    timeout: Timeout = "10min",
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Go on with the interrupted tuning in this folder.")
    ] = None,
    advice: Annotated[
        bool, typer.Option("--advice", help="Show what would be tried, and change nothing.")
    ] = False,
    root: Root = Path("/"),
    report: Report = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Try knobs by interleaved trials, compose what helps, and confirm the whole."""
    from steelyard.bench.parameters import parse_assignments
    from steelyard.cli.tune.make import Request, tune_and_show

    request = Request(
        command=command or [],
        benchmark=benchmark,
        sources=ops or [],
        window=window,
        knobs=knob or [],
        user_file=knobs,
        risk=risk,
        guards=guard or [],
        strategy=strategy,
        metric=metric,
        lower_is_better=lower_is_better,
        least_effect=least_effect,
        blocks=blocks,
        confirm_blocks=confirm_blocks,
        budget=budget,
        settle=settle,
        chosen=parse_assignments(set_ or []),
        tier=tier,
        hooks=hook or [],
        seed=seed,
        timeout=timeout,
        resume=resume,
        advice=advice,
        root=root,
        out=out,
    )
    return tune_and_show(request, report=report, as_json=as_json)


@app.command(
    epilog=examples(
        "steelyard tune sweep cache_ways --benchmark tao",
        "steelyard tune sweep huge_pages_2MiB=0,128,256,512 --metric cpu_s -- program",
        "steelyard tune sweep memory_max=64MiB,128MiB,256MiB -- program",
    ),
    context_settings={"allow_interspersed_args": True},
)
def sweep(
    knob: Annotated[
        str, typer.Argument(metavar="KNOB[=LEVEL,...]", help="The knob; by default all of its levels.")
    ],
    command: Command = None,
    benchmark: Benchmark = None,
    ops: Ops = None,
    window: Window = None,
    knobs: UserFile = None,
    metric: Compared = None,
    lower_is_better: LowerIsBetter = False,
    least_effect: LeastEffect = "1%",
    blocks: Annotated[int, typer.Option(help="Most blocks; each tries every level once.")] = 40,
    budget: Budget = None,
    settle: Settle = "0s",
    set_: Chosen = None,
    tier: Tier = None,
    hook: Hook = None,
    seed: OrderSeed = None,
    timeout: Timeout = "10min",
    root: Root = Path("/"),
    report: Report = None,
    out: Out = RUNS,
    as_json: Json = False,
) -> int:
    """Measure a workload at every level of one knob: its curve, and the knee."""
    from steelyard.bench.parameters import parse_assignments
    from steelyard.cli.tune.make import Request
    from steelyard.cli.tune.sweep import sweep_and_show

    request = Request(
        command=command or [],
        benchmark=benchmark,
        sources=ops or [],
        window=window,
        knobs=[knob],
        user_file=knobs,
        metric=metric,
        lower_is_better=lower_is_better,
        least_effect=least_effect,
        blocks=blocks,
        budget=budget,
        settle=settle,
        chosen=parse_assignments(set_ or []),
        tier=tier,
        hooks=hook or [],
        seed=seed,
        timeout=timeout,
        root=root,
        out=out,
    )
    return sweep_and_show(request, report=report, as_json=as_json)


@app.command(
    epilog=examples("steelyard tune show runs/TUNING", "steelyard tune show runs/TUNING --report page.html")
)
def show(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a tuning.")],
    report: Report = None,
    as_json: Json = False,
) -> int:
    """Show what a tuning found."""
    from steelyard.cli.tune.make import show_tuning
    from steelyard.tune.session import load

    return show_tuning(directory, load(directory), report, as_json=as_json)


@app.command("list", epilog=examples("steelyard tune list", "steelyard tune list --knobs mine.toml --json"))
def list_(knobs: UserFile = None, root: Root = Path("/"), as_json: Json = False) -> int:
    """List the knobs of this machine, and those that it lacks with the reasons."""
    from steelyard.cli.tune.deployed import list_knobs

    return list_knobs(root, knobs, as_json=as_json)


@app.command(
    epilog=examples(
        "steelyard tune apply softsku.toml", "steelyard tune apply softsku.toml --knobs mine.toml"
    )
)
def apply(softsku: SoftSku, knobs: UserFile = None, root: Root = Path("/"), as_json: Json = False) -> int:
    """Set the knobs of a soft SKU, until `steelyard tune restore` or a reboot."""
    from steelyard.cli.tune.deployed import apply_softsku

    return apply_softsku(softsku, knobs, root, as_json=as_json)


@app.command(
    epilog=examples("steelyard tune verify softsku.toml", "steelyard tune verify softsku.toml --json")
)
def verify(softsku: SoftSku, knobs: UserFile = None, root: Root = Path("/"), as_json: Json = False) -> int:
    """Check that the machine has the values of a soft SKU."""
    from steelyard.cli.tune.deployed import verify_softsku

    return verify_softsku(softsku, knobs, root, as_json=as_json)


@app.command(epilog=examples("steelyard tune restore", "steelyard tune restore --json"))
def restore(as_json: Json = False) -> int:
    """Undo what killed tunings left behind, and soft SKUs that were applied."""
    from steelyard.cli.tune.deployed import restore_all

    return int(restore_all(as_json=as_json) or ExitCode.OK)
