"""``steelyard scale`` as the parser has it."""

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.experiment.request.fields import CurveRequest

_EXAMPLES = (
    "steelyard scale tao",
    r"steelyard scale --metric 'rate=(\S+) ops/sec' -- db_bench --threads={cpus} --benchmarks=readrandom",
    "steelyard scale --from curve.csv --profile-low one.txt --profile-high many.txt",
    "steelyard scale --from curve.csv --predict 64 --siblings-of other.csv",
)


def add_scale(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(CurveRequest, "steelyard.cli.scale.make:scale_and_show", ABOUT["scale"])
    app.command("scale", epilog=examples(*_EXAMPLES))(made)
