"""``steelyard mcp`` as the parser has it. Not here: the server (``agents``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from steelyard._base.request import Option
from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.cli.serving.request import ServedRequest

_EXAMPLES = (
    "steelyard mcp runs",
    "steelyard mcp runs --store STORE --table servers.csv",
    "steelyard mcp runs --allow-run --budget 600",
)


@dataclass(frozen=True, kw_only=True)
class McpRequest(ServedRequest):
    """What agents may ask, and how long they may measure."""

    allow_run: Annotated[bool, Option("Let agents run benchmarks on this machine.")] = False
    budget: Annotated[
        float,
        Option(
            "With --allow-run: seconds that all benchmarks of the session may take.",
            metavar="SECONDS",
            least=1,
            most=86_400,
        ),
    ] = 300.0


def add_mcp(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(McpRequest, "steelyard.agents.server:serve", ABOUT["mcp"], report=None, has_json=False)
    app.command("mcp", epilog=examples(*_EXAMPLES))(made)
