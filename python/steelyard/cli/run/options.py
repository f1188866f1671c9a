"""Options of ``steelyard run`` beside the common ones. Light, since every command's help imports it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="Make the load on this host, over ssh; repeatable.",
    ),
]
Plan = Annotated[
    bool, typer.Option("--plan", help="Show the CPUs and memory of each process, and run nothing.")
]
Preflight = Annotated[
    bool, typer.Option("--preflight", help="Show time, memory and disk of each member, and run nothing.")
]
Resume = Annotated[
    str | None,
    typer.Option(metavar="SUITE", help="Go on with an interrupted suite: a directory, an id or latest."),
]
Root = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="With --plan: a recorded machine (a folder or .tar.bz2)."),
]


def assignments(texts: Sequence[str] | None, hosts: Sequence[str] | None) -> list[str]:
    """Return the texts of ``--set``, with those hosts that ``--host`` names."""
    return [*(texts or ()), *([f"hosts={' '.join(hosts)}"] if hosts else ())]
