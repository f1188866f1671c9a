"""Options that every ``steelyard fleet`` query has, the store that they open, and how its answer is shown.

Not here: the commands, which import this module and add themselves by ``register(app)``.
"""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Store
    from steelyard.report.fleet.content import Answer

StoreUrl = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="STORE",
        help="Store of the fleet: a folder or s3://bucket/prefix.",
        show_default=False,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine", metavar="ENGINE", help="Query engine: duckdb, spark-local or spark://HOST:PORT."
    ),
]
From = Annotated[
    str | None, typer.Option("--from", metavar="DATE", help="First day, such as 2026-01-31 (UTC).")
]
To = Annotated[str | None, typer.Option("--to", metavar="DATE", help="Last day (inclusive).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Report = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a self-contained page.")
]
Jobs = Annotated[list[str] | None, typer.Option("--job", help="Use only this job; repeatable.")]
Platforms = Annotated[
    list[str] | None, typer.Option("--platform", help="Use only this platform; repeatable.")
]

DUCKDB = "duckdb"
"""The engine unless another is named."""


def opened(store: str, engine: str = DUCKDB, first: str | None = None, last: str | None = None) -> Store:
    """Open the store that the options name; the caller closes it (``with opened(...) as store``)."""
    from steelyard.fleet.store.store import open_store

    return open_store(store, engine, first=first, last=last)


def show(store: Store, answer: Answer, *, as_json: bool, report: Path | None) -> None:
    """Write the page if one is wanted, and print the answer: one JSON document, or some rows of each table.

    The store is still open: what was put aside while it was read is told in each of them.
    """
    problems = store.problems
    if report is not None:
        _write(report, answer, [f"{one.path}: {one.reason}" for one in problems])
    if as_json:
        from steelyard.cli.output import print_json

        aside = [{"path": one.path, "table": one.table, "reason": one.reason} for one in problems]
        where = {"report": str(report)} if report is not None else {}
        asked = {"store": store.url, "engine": store.engine.name}
        print_json(finite({**asked, **answer.document, "problems": aside, **where}))
        return

    from steelyard.cli.output import output_console
    from steelyard.report.fleet.table import terminal

    console = output_console(highlight=False)
    said = {"heading": answer.heading, "subline": answer.subline}
    console.print(terminal(answer.sections, **said, cautions=answer.cautions, rows=answer.rows))
    if report is not None:
        console.print(f"report: {report}", markup=False, soft_wrap=True)
    warn_of_problems(store)


def finite(document: Any) -> Any:
    """Return ``document`` with null for figures that are not finite: they are missing, as on the page.

    >>> finite({"a": [1.0, float("inf")], "b": (float("nan"), 0)})
    {'a': [1.0, None], 'b': [None, 0]}
    """
    if isinstance(document, float):
        return document if math.isfinite(document) else None
    if isinstance(document, dict):
        return {key: finite(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [finite(value) for value in document]
    return document


def _write(path: Path, answer: Answer, aside: list[str]) -> None:
    from steelyard.report.fleet.page import Section, store_notes, write_page

    sections = list(answer.sections)
    if aside:
        sections.append(Section("left-out", "Left out", (store_notes(aside),)))
    write_page(
        path,
        answer.title,
        sections,
        heading=answer.heading,
        subline=answer.subline,
        cautions=answer.cautions,
        tiles=answer.tiles,
        command=shlex.join(["steelyard", *sys.argv[1:]]),
    )


def warn_of_problems(store: Store) -> None:
    """Say on standard error how many files of the tables that were read were put aside, if any were."""
    problems = store.problems
    if problems:
        from steelyard.cli.output import printable

        word = "file was" if len(problems) == 1 else "files were"
        first = printable(f"{problems[0].path}: {problems[0].reason}")
        print(
            f"steelyard: {len(problems)} {word} put aside, the first {first} (see steelyard fleet check)",
            file=sys.stderr,
        )
