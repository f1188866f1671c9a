"""How commands speak: results on standard output, everything else on standard error.

Invariants: with ``--json`` nothing but one JSON document reaches standard output; an expected error is one
line with its hint; no traceback is ever shown unless ``STEELYARD_DEBUG`` is set.
"""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import ExitCode, SteelyardError
from steelyard._base.documents import as_document
from steelyard.cli.formats import Format, Writing, writing
from steelyard.cli.overview import EXIT_CODES

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    from steelyard.report.answer import Answer

_WIDE_COLUMNS = 4000
"""Width of output that goes to a file or a pipe: wider than any table, so that nothing is cut or broken."""


def examples(*lines: str) -> str:
    """Return what stands below a command's options: examples, one a line, and the exit codes."""
    shown = "\n".join(f"  {line}" for line in lines)
    return f"\b\nExamples:\n{shown}\n\n{EXIT_CODES}"


def print_json(result: Any) -> None:
    """Write a result as one JSON document to standard output."""
    text = json.dumps(as_document(result), indent=2, allow_nan=False)
    # At once: an interrupt leaves no half document behind.
    sys.stdout.write(text + "\n")


def output_console(*, highlight: bool = True) -> "Console":
    """Return what tables are printed with: as wide as the terminal, and as they need elsewhere.

    ``COLUMNS`` in the environment sets the width in either case.
    """
    make = _console_class()
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return make(file=sys.stdout, highlight=highlight)
    return make(file=sys.stdout, highlight=highlight, width=_WIDE_COLUMNS)


@cache
def _console_class() -> "type[Console]":
    from rich.console import Console
    from rich.segment import Segment

    from steelyard.report.controls import without_controls

    class OutputConsole(Console):
        def render(
            self, renderable: "RenderableType", options: "ConsoleOptions | None" = None
        ) -> "Iterable[Segment]":
            # Whatever a name is, and whoever puts it into a table: a terminal obeys none.
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else without_controls(text), style, control)

        def print(self, *objects: Any, **options: Any) -> None:
            target = writing()
            if target is not None:
                _write_tables(target, objects)
                return
            if self.width != _WIDE_COLUMNS:
                # A path that is wider than the terminal is the terminal's to break: so it can be copied.
                super().print(*objects, **{"crop": False, **options})
                return
            # What fills a terminal's width with blanks must not fill this one with them.
            for item in objects:
                _fit_to_content(item)
            with self.capture() as captured:
                super().print(*objects, **options)
            lines = captured.get().split("\n")
            self.file.write("\n".join(line.rstrip() for line in lines))

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return OutputConsole


def _fit_to_content(renderable: Any) -> None:
    """Make tables that fill the width as narrow as what stands in them."""
    from rich.console import Group
    from rich.table import Table

    if isinstance(renderable, Group):
        for child in renderable.renderables:
            _fit_to_content(child)
    elif isinstance(renderable, Table):
        renderable.expand = False
        for column in renderable.columns:
            column.ratio = None


def _write_tables(target: Writing, objects: Sequence[Any]) -> None:
    """Write answers as CSV or Markdown, and in Markdown what is said beside their tables.

    CSV has the main table of an answer: a file of several would be read by nothing. Other lines, as where a
    record is, are for people.
    """
    from steelyard.report.answer.delimited import (
        Plain,
        as_csv,
        as_markdown,
        main_table_of,
        parts_of,
        sentence,
    )
    from steelyard.report.answer.terminal import Shown

    answers = [item.answer for item in objects if isinstance(item, Shown)]
    if target.format is Format.JSONL:
        _write_figures(target, answers)
        return
    left = 0
    for answer in answers:
        parts: list[Plain | str] = list(parts_of(answer))
        if target.format is Format.CSV:
            table, more = main_table_of(answer)
            parts = [] if table is None else [table]
            left += more
        for part in parts:
            if isinstance(part, Plain):
                gap = "\n" if target.tables else ""
                target.tables += 1
                if target.format is Format.CSV:
                    title = f"# {part.title}\n" if part.title and target.tables > 1 else ""
                    target.file.write(f"{gap}{title}{as_csv(part)}")
                else:
                    target.file.write(f"{as_markdown(part)}\n\n")
            elif target.format is Format.MARKDOWN:
                target.file.write(f"{sentence(part)}\n\n")
    if left:
        # Of a table that is lost nobody wants the rest.
        target.file.flush()
        word = "table" if left == 1 else "tables"
        print(f"steelyard: {left} more {word}; --format jsonl has all figures", file=sys.stderr)


def _write_figures(target: Writing, answers: Sequence["Answer"]) -> None:
    """Write figures as JSON objects, a line each."""
    from steelyard.report.answer.delimited import FIGURES, figures_of

    for answer in answers:
        target.tables += 1
        for figure in figures_of(answer):
            target.file.write(json.dumps(as_document(dict(zip(FIGURES, figure, strict=True)))) + "\n")


def show_answer(answer: "Answer", report: Path | None) -> int:
    """Write the page of an answer if one is wanted, and print it; return the exit code."""
    from steelyard.report.answer.terminal import Shown

    page = page_of(answer, report)
    output_console(highlight=False).print(Shown(answer))
    if page is not None:
        print_path("report", page)
    return int(answer.says_no)


def page_of(answer: "Answer", report: Path | None) -> Path | None:
    """Write the page of an answer if one is wanted; return its path."""
    if report is None:
        return None
    # Templates are loaded where a page is written.
    from steelyard.report.answer.page import write_page
    from steelyard.report.template import PAGE

    return write_page(report / PAGE if report.is_dir() else report, answer)


def print_path(name: str, path: Path) -> None:
    """Print where something was written, whole: no terminal's width breaks it."""
    output_console().print(f"{name}: {path}", markup=False, highlight=False, soft_wrap=True)


def command_line() -> str:
    """Return the command that is running, as a shell would read it."""
    return shlex.join(["steelyard", *sys.argv[1:]])


def finish_output() -> None:
    """Write what is still buffered; a reader that has left is no error.

    Left to the interpreter's end, it would complain of a closed pipe and exit with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            leave_pipe(stream.fileno())
        except (OSError, ValueError, SteelyardError):
            with contextlib.suppress(OSError, ValueError):
                leave_pipe(stream.fileno())


def leave_pipe(descriptor: int) -> None:
    """Let further output to ``descriptor`` go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def complain(error: SteelyardError) -> None:
    """Tell an expected error in one line."""
    hint = f" ({error.hint})" if error.hint else ""
    line = " ".join(printable(error.message + hint).split())
    print(f"steelyard: {line}", file=sys.stderr)


def printable(text: str) -> str:
    """Return ``text``, which may be from anywhere, without what would control a terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in text)


def unexpected(error: BaseException) -> ExitCode:
    """Tell a bug in one line."""
    if os.environ.get("STEELYARD_DEBUG"):
        raise error
    line = " ".join(printable(f"{type(error).__name__}: {error}").split())
    print(f"steelyard: internal error: {line} (STEELYARD_DEBUG=1 shows where)", file=sys.stderr)
    return ExitCode.FAILED
