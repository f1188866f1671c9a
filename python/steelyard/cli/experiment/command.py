"""``steelyard experiment`` as the parser has it."""

import typer

from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.experiment.request.fields import ExperimentRequest

_EXAMPLES = (
    "steelyard experiment tao --a memory=64MiB --b memory=256MiB",
    "steelyard experiment --sweep level=1,6,9 -- gzip -{level} -k -f file",
    "steelyard experiment --ops prometheus:http://127.0.0.1:9113/metrics#nginx_http_requests_total"
    " --a './set small' --b './set large'",
    "steelyard experiment --from curves.csv --metric p99_ms --lower-is-better",
)


def add_experiment(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(
        ExperimentRequest, "steelyard.cli.experiment.make:experiment_and_show", ABOUT["experiment"]
    )
    app.command("experiment", epilog=examples(*_EXAMPLES))(made)
