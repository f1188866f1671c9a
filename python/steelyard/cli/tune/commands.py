"""``steelyard tune run|sweep|show|list|apply|verify|restore``: flags of each.

``steelyard tune --benchmark tao`` is ``steelyard tune run --benchmark tao``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard._base import ExitCode
from steelyard.cli.commands import Commands
from steelyard.cli.options import Json, Report
from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT, EXIT_CODES
from steelyard.cli.requests import command
from steelyard.tune.request import SweepRequest, TuneRequest


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
    help=ABOUT["tune"],
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
)

Root = Annotated[Path, typer.Option(metavar="DIR", help="Root of /proc, /sys and /dev.")]
UserFile = Annotated[
    Path | None, typer.Option("--knobs", metavar="FILE.toml", help="Knobs and guardrails of your own.")
]
SoftSku = Annotated[Path, typer.Argument(metavar="SOFTSKU.toml", help="What a tuning wrote.")]


app.command(
    "run",
    epilog=examples(
        "steelyard tune run --benchmark tao --budget 10min",
        "steelyard tune run --knob thp_enabled --knob level=6,1,9 -- gzip -{level} -k -f file",
        "steelyard tune run --ops prometheus:http://127.0.0.1:9113/metrics#nginx_http_requests_total",
        "steelyard tune run --benchmark tao --advice",
    ),
    context_settings={"allow_interspersed_args": False},
)(
    command(
        TuneRequest,
        "steelyard.cli.tune.make:tune_and_show",
        "Try knobs by interleaved trials, compose what helps, and confirm the whole.",
    )
)
app.command(
    "sweep",
    epilog=examples(
        "steelyard tune sweep cache_ways --benchmark tao",
        "steelyard tune sweep huge_pages_2MiB=0,128,256,512 --metric cpu_s -- program",
        "steelyard tune sweep memory_max=64MiB,128MiB,256MiB -- program",
    ),
    context_settings={"allow_interspersed_args": True},
)(
    command(
        SweepRequest,
        "steelyard.cli.tune.sweep:sweep_and_show",
        "Measure a workload at every level of one knob: its curve, and the knee.",
    )
)


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
