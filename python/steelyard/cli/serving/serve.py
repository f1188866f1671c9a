"""``steelyard serve`` as the parser has it. Not here: the server (``web``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from steelyard._base.request import Option
from steelyard.cli.output import examples
from steelyard.cli.overview import ABOUT
from steelyard.cli.requests import command
from steelyard.cli.serving.request import ServedRequest

_EXAMPLES = (
    "steelyard serve",
    "steelyard serve runs --store STORE --table servers.csv",
    "steelyard serve --host 0.0.0.0 --name weigh.example.org --token-file token",
)


@dataclass(frozen=True, kw_only=True)
class ServeRequest(ServedRequest):
    """What is served, and where."""

    host: Annotated[
        str,
        Option("Address to listen on. Beyond loopback, whoever asks must have the token.", metavar="HOST"),
    ] = "127.0.0.1"
    port: Annotated[int, Option("Port to listen on, 0 for any that is free.", least=0, most=65535)] = 8120
    names: Annotated[
        Sequence[str],
        Option("Name by which browsers may call this server; repeatable.", flag="--name", metavar="NAME"),
    ] = ()
    token_file: Annotated[
        Path | None, Option("File with the token (default: a new one each start).", metavar="FILE")
    ] = None
    index: Annotated[
        Path | None,
        Option("File of the index of runs (default: .steelyard-index.sqlite in RUNS).", metavar="FILE"),
    ] = None


def add_serve(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    made = command(ServeRequest, "steelyard.web.serve:serve", ABOUT["serve"], report=None, has_json=False)
    app.command("serve", epilog=examples(*_EXAMPLES))(made)
