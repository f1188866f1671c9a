"""Options that every ``steelyard fleet`` query has, the store that they open, and how its answer is shown.

Not here: the commands, which import this module and add themselves by ``register(app)``.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.options import Json, Report

if TYPE_CHECKING:
    from steelyard.fleet.store.store import Problem, Store
    from steelyard.report.answer import Answer

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


def answer(
    ask: Callable[..., Any],
    own: Mapping[str, Any],
    *,
    store: StoreUrl,
    engine: Engine = DUCKDB,
    first: From = None,
    last: To = None,
    as_json: Json = False,
    report: Report = None,
) -> int:
    """Ask a query with its ``own`` options and those that every query has; return the exit code.

    Writes the page if one is wanted, and prints one JSON document, or some rows of each table. Files that
    were put aside while the store was read are named in each of them.
    """
    with opened(store, engine, first, last) as source:
        result: Answer = ask(source, **own)
        problems, url, name = source.problems, source.url, source.engine.name
    # The engine is closed by now: its memory is free for what follows.
    if report is not None:
        _write(report, result, problems)
    if as_json:
        from steelyard.cli.output import print_json
        from steelyard.fleet.answer import FleetAnswer

        print_json(FleetAnswer(url, name, result.result, problems, report))
        return int(result.says_no)

    from steelyard.cli.output import output_console
    from steelyard.report.answer.terminal import Shown

    console = output_console(highlight=False)
    console.print(Shown(result))
    if report is not None:
        console.print(f"report: {report}", markup=False, soft_wrap=True)
    _warn_of(problems)
    return int(result.says_no)


def numbers_by_name(
    flag: str, texts: Sequence[str], like: str, *, fits: Callable[[float], bool], name: str = ""
) -> dict[str, float]:
    """Return the numbers of texts such as ``NAME=0.5``; ``name`` stands for a name left out.

    >>> numbers_by_name("--uplift", ["0.2", "rome=0.28"], "0.25", fits=lambda ratio: ratio > 0, name="*")
    {'*': 0.2, 'rome': 0.28}

    Raises UsageError, which says what ``flag`` is ``like``, for one without a name or that does not fit.
    """
    from steelyard._base import UsageError

    numbers = {}
    for text in texts:
        key, _, number = text.rpartition("=")
        key = key.strip() or name
        try:
            numbers[key] = float(number)
        except ValueError:
            key = ""
        if not key or not fits(numbers[key]):
            raise UsageError(f"{flag} {text!r} is not like {like}")
    return numbers


def with_aside(answer: Answer, problems: Sequence[Problem]) -> Answer:
    """Return the answer of a page: with the files that were put aside while the store was read."""
    from steelyard.report.answer import Section, store_notes

    aside = [f"{problem.path}: {problem.reason}" for problem in problems]
    left = [Section("left-out", "Left out", (store_notes(aside),))] if aside else []
    return replace(answer, sections=[*answer.sections, *left])


def _write(path: Path, answer: Answer, problems: Sequence[Problem]) -> None:
    from steelyard.report.answer.page import write_page

    command = shlex.join(["steelyard", *sys.argv[1:]])
    write_page(path, replace(with_aside(answer, problems), command=command))


def _warn_of(problems: Sequence[Problem]) -> None:
    """Say on standard error how many files of the tables that were read were put aside, if any were."""
    if problems:
        from steelyard.cli.output import printable

        word = "file was" if len(problems) == 1 else "files were"
        first = printable(f"{problems[0].path}: {problems[0].reason}")
        print(
            f"steelyard: {len(problems)} {word} put aside, the first {first} (see steelyard fleet check)",
            file=sys.stderr,
        )
