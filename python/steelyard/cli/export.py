"""``steelyard export``: a run, or whatever else a folder holds, in the formats of other tools.

In: a name and a format. Out: a file or standard output. Not here: the formats (``report.exports``).
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from steelyard._base import ExitCode, ResultSaysNoError, UsageError
from steelyard.bench.options import RUNS
from steelyard.cli.options import Json, Runs
from steelyard.cli.output import examples, print_json, printable
from steelyard.cli.overview import ABOUT

if TYPE_CHECKING:
    import pyarrow as pa

    from steelyard.report.answer import Answer
    from steelyard.report.exports.runs import ExportedRun


class ExportTo(StrEnum):
    """The formats."""

    CSV = "csv"
    PARQUET = "parquet"
    OPENMETRICS = "openmetrics"
    OTLP = "otlp"
    PPROF = "pprof"
    SPEEDSCOPE = "speedscope"
    PERFETTO = "perfetto"
    FINDINGS = "findings"


class Side(StrEnum):
    """What was sampled, where servers and load were sampled apart."""

    SERVER = "server"
    LOAD = "load"


_TABLES = (ExportTo.CSV, ExportTo.PARQUET)
_PROFILES = (ExportTo.PPROF, ExportTo.SPEEDSCOPE, ExportTo.PERFETTO)
_BINARY = (ExportTo.PARQUET, ExportTo.PPROF)
_SUFFIXES = {
    ".csv": ExportTo.CSV,
    ".parquet": ExportTo.PARQUET,
    ".prom": ExportTo.OPENMETRICS,
    ".pb.gz": ExportTo.PPROF,
    ".speedscope.json": ExportTo.SPEEDSCOPE,
}
"""Formats by the ends of file names that stand for no other."""
_EXAMPLES = (
    "steelyard export latest --to otlp",
    "steelyard export runs/RUN figures.parquet",
    "steelyard export latest series.csv --to csv --series",
    "steelyard export latest --to findings > findings.jsonl",
)


def add_export(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("export", help=ABOUT["export"], epilog=examples(*_EXAMPLES))(export)


def export(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Id or folder of a run, a suite, an experiment or the like, or `latest`.",
        ),
    ],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="File to write; by default standard output.")
    ] = None,
    to: Annotated[
        ExportTo | None,
        typer.Option(
            metavar="FORMAT",
            help="Format: csv or parquet (all figures), openmetrics or otlp (metrics), pprof, speedscope or"
            " perfetto (the profile), findings (JSON Lines); by default that of FILE's suffix.",
        ),
    ] = None,
    series: Annotated[
        bool,
        typer.Option("--series", help="With csv and parquet: the readings over time instead of the figures."),
    ] = False,
    side: Annotated[
        Side | None,
        typer.Option(
            metavar="SIDE", help="With a format of profiles: server (default) or load, sampled apart."
        ),
    ] = None,
    runs: Runs = RUNS,
    print_document: Json = False,
) -> int:
    """Write a result as CSV, Parquet, OpenMetrics, OTLP, a profile, or findings as JSON Lines."""
    # Not `as_json`: a command with that has --format too, which here would name formats a second time.
    if to is None and file is not None and not print_document:
        to = _format_of(file)
    if print_document is (to is not None):
        raise UsageError("export needs one of --to FORMAT and --json")
    if series and to not in _TABLES:
        raise UsageError("--series is for --to csv and --to parquet")
    if side is not None and to not in _PROFILES:
        raise UsageError("--side is for --to pprof, speedscope and perfetto")
    if to in _BINARY and file is None:
        raise UsageError(f"{to} needs a file", hint=f"steelyard export {name} FILE --to {to}")
    if print_document and file is not None:
        raise UsageError("--json prints to standard output", hint="give the file with > FILE")
    from steelyard.report.folders.naming import find

    folder = find(name, runs)
    if to is None:
        return _print_document(folder)
    write = _writer(folder, to, side or Side.SERVER, series=series)
    if file is None:
        write(None)
    else:
        from steelyard._base import replacing

        with replacing(file) as partial:
            write(partial)
    return int(ExitCode.OK)


def _format_of(file: Path) -> ExportTo:
    """Return the format that a file's suffix stands for. Raises UsageError."""
    found = next((to for suffix, to in _SUFFIXES.items() if file.name.endswith(suffix)), None)
    if found is None:
        raise UsageError(
            f"{file.name}: its suffix names no format",
            hint=f"give --to FORMAT, or one of {', '.join(_SUFFIXES)}",
        )
    return found


def _print_document(folder: Path) -> int:
    """Print every figure of an answer as one document."""
    from steelyard.report.answer.delimited import FIGURES
    from steelyard.report.exports.figures import figures
    from steelyard.report.folders.kinds import kind_of

    answer, found = _whole(folder)
    print_json(
        {
            "folder": folder,
            "holds": kind_of(folder),
            "title": answer.title,
            "heading": answer.heading,
            "figures": [dict(zip(FIGURES, row, strict=True)) for row in figures(answer, found)],
        }
    )
    return int(ExitCode.OK)


def _whole(folder: Path) -> tuple[Answer, list[ExportedRun]]:
    """Return the answer of a folder, and the runs whose metrics stand before its figures."""
    from steelyard.report.exports.runs import runs_in
    from steelyard.report.folders.answers import answer_of
    from steelyard.report.folders.kinds import Kind, kind_of

    has_runs = kind_of(folder) in (Kind.RUN, Kind.SUITE)
    return answer_of(folder), runs_in(folder) if has_runs else []


Write = Callable[[Path | None], None]
"""Writes an export to a file, or to standard output."""


def _writer(folder: Path, to: ExportTo, side: Side, *, series: bool) -> Write:
    """Return what writes the export. Errors come before anything is written wherever that can be."""
    if to in _TABLES and not series:
        return _figures(folder, to)
    from steelyard.report.exports.runs import runs_in

    found = runs_in(folder)
    if to in _TABLES:
        return lambda path: _write_series(found, to, path)
    if to is ExportTo.FINDINGS:
        return lambda path: _write_findings(found, path)
    return _text(found, to) if to not in _PROFILES else _profile(found, to, side)


def _figures(folder: Path, to: ExportTo) -> Write:
    from steelyard.report.exports.figures import figures, figures_csv, figures_table

    answer, found = _whole(folder)
    rows = figures(answer, found)
    if to is ExportTo.CSV:
        return _writes(figures_csv(rows))
    table = figures_table(rows, answer.title)
    return lambda path: _write_parquet(table, path)


def _text(found: list[ExportedRun], to: ExportTo) -> Write:
    from steelyard.report.exports.metrics import metrics_text
    from steelyard.report.exports.otlp import otlp_lines

    if not any(one.metrics for one in found):
        reasons = "; ".join(f"{one.run.run_id} is {one.run.status}" for one in found[:4])
        raise ResultSaysNoError(f"no metrics: {reasons}")
    return _writes(metrics_text(found) if to is ExportTo.OPENMETRICS else otlp_lines(found))


def _profile(found: list[ExportedRun], to: ExportTo, side: Side) -> Write:
    from steelyard.report.exports.profiles import only_run, pprof_of, profile_of
    from steelyard.report.profiles.exports import speedscope, trace_events

    one = only_run(found)
    if to is ExportTo.PPROF:
        data = pprof_of(one, side.value)
        return lambda path: None if path is None else _write_bytes(data, path)
    profile = profile_of(one, side.value)
    name = one.run.run_id
    return _writes(speedscope(profile, name) if to is ExportTo.SPEEDSCOPE else trace_events(profile, name))


def _writes(text: str) -> Write:
    def write(path: Path | None) -> None:
        if path is None:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        else:
            path.write_text(text, encoding="utf-8", newline="")

    return write


def _write_bytes(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _write_parquet(table: pa.Table, path: Path | None) -> None:
    import pyarrow.parquet as pq

    assert path is not None
    pq.write_table(table, path)


def _write_findings(found: list[ExportedRun], path: Path | None) -> None:
    from steelyard.report.exports.findings import findings_lines

    count = 0
    with contextlib.nullcontext(sys.stdout) if path is None else _text_file(path) as out:
        for line in findings_lines(found):
            out.write(line)
            count += 1
    if not count:
        _say("no rule found anything in what was recorded")


def _write_series(found: list[ExportedRun], to: ExportTo, path: Path | None) -> None:
    """Write readings table by table, so that memory holds one reading of one run."""
    import pyarrow.parquet as pq

    from steelyard.report.exports.series import SCHEMA, series_csv, series_of

    missing: list[str] = []
    rows = 0
    with contextlib.ExitStack() as files:
        writer = files.enter_context(pq.ParquetWriter(path, SCHEMA)) if to is ExportTo.PARQUET else None
        out = files.enter_context(_text_file(path)) if writer is None and path is not None else sys.stdout
        for table in (table for one in found for table in series_of(one, missing)):
            if writer is not None:
                writer.write_table(table)
            else:
                out.write(series_csv(table, head=not rows))
            rows += table.num_rows
    for line in missing:
        _say(f"not exported: {line}")
    if not rows:
        raise ResultSaysNoError("nothing was recorded over time")


def _text_file(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="")


def _say(text: str) -> None:
    print(f"steelyard: {printable(text)}", file=sys.stderr)
