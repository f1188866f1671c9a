"""Options that every ``steelyard fleet`` query has, and the store that they open.

Not here: the commands (``fleet_*``), which import this module and add themselves by ``register(app)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from steelyard.fleet.store import Store

StoreUrl = Annotated[
    str,
    typer.Option("--store", metavar="STORE", help="A folder or s3://bucket/prefix.", show_default=False),
]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar="ENGINE", help="duckdb, spark-local, or spark://HOST:PORT."),
]
From = Annotated[str | None, typer.Option("--from", metavar="DATE", help="First day, as 2026-01-31 (UTC).")]
To = Annotated[str | None, typer.Option("--to", metavar="DATE", help="Last day, included.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a self-contained page.")
]

DUCKDB = "duckdb"
"""The engine unless another is named."""


def opened(store: str, engine: str = DUCKDB, first: str | None = None, last: str | None = None) -> Store:
    """Open the store that the options name; the caller closes it (``with opened(...) as store``)."""
    from steelyard.fleet.store import open_store

    return open_store(store, engine, first=first, last=last)


def warn_of_problems(store: Store) -> None:
    """Say on standard error how many files of the tables that were read were put aside, if any were."""
    import sys

    problems = store.problems
    if problems:
        word = "file was" if len(problems) == 1 else "files were"
        print(
            f"steelyard: {len(problems)} {word} put aside, the first {problems[0].path}:"
            f" {problems[0].reason} (see steelyard fleet check)",
            file=sys.stderr,
        )
