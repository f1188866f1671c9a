"""``--format table|json|csv|markdown|jsonl``: one flag, the same on every command that prints tables.

In: the commands, and what they print with `output_console`. Out: their tables in the format asked for. With
``csv`` and ``markdown`` nothing but tables (and, in Markdown, the sentences beside them) reaches standard
output: whatever else a command says goes to standard error. ``--json`` is short for ``--format json``.

Not here: the formats themselves (``report.answer.delimited``).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TextIO, get_type_hints

import typer

from steelyard._base import UsageError


class Format(StrEnum):
    """How a command prints its tables."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    JSONL = "jsonl"
    """A JSON object a figure and line."""


FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Format of the output: table, json, csv, markdown, or jsonl (a figure a line).",
        metavar="FORMAT",
    ),
]


@dataclass
class Writing:
    """Where tables go as CSV or Markdown, and how many went."""

    format: Format
    file: TextIO
    tables: int = 0


_writing: ContextVar[Writing | None] = ContextVar("writing", default=None)


def writing() -> Writing | None:
    """Return where tables go that are not for a terminal; None where they are."""
    return _writing.get()


def add_format(app: typer.Typer) -> None:
    """Give ``--format`` to every command of ``app``, and of its groups, that has ``--json``."""
    for command in app.registered_commands:
        callback = command.callback
        parameters = {} if callback is None else inspect.signature(callback).parameters
        # A group is added to several command lines of a process.
        if callback is not None and "as_json" in parameters and "output_format" not in parameters:
            command.callback = _formatted(callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_format(group.typer_instance)


def _formatted(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(*, output_format: Format | None = None, **values: Any) -> Any:
        if output_format is Format.JSON:
            values["as_json"] = True
        if output_format not in (Format.CSV, Format.MARKDOWN, Format.JSONL):
            return callback(**values)
        if values["as_json"]:
            raise UsageError(f"--json and --format {output_format} name two formats", hint="give one of them")
        with _written_as(output_format) as target:
            code = callback(**values)
        if not target.tables:
            raise UsageError(f"no table to write as {output_format}", hint="--json has the whole result")
        return code

    hints = get_type_hints(callback, include_extras=True)
    signature = inspect.signature(callback)
    option = inspect.Parameter(
        "output_format", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=FormatOption
    )
    named = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in signature.parameters.values()
    ]
    run.__signature__ = signature.replace(parameters=[*named, option])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "output_format": FormatOption}
    return run


@contextlib.contextmanager
def _written_as(form: Format) -> Iterator[Writing]:
    target = Writing(form, sys.stdout)
    token = _writing.set(target)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield target
    finally:
        _writing.reset(token)
