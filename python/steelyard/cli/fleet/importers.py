"""``steelyard fleet import``: bring traces, Prometheus's metrics or a CSV into a store.

In: flags. Out: what was brought, as a table or one JSON document. Not here: layouts (``fleet.importers``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.fleet.options import From, StoreUrl, To
from steelyard.cli.options import Json
from steelyard.cli.output import examples, output_console

if TYPE_CHECKING:
    from steelyard.fleet.importers import Imported

KINDS = ("google-2011", "google-2019", "alibaba-2017", "alibaba-2018", "prometheus", "csv")


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(
        "import",
        epilog=examples(
            "steelyard fleet import google-2019 FOLDER --store STORE",
            "steelyard fleet import alibaba-2018 FOLDER --store STORE --start 2018-01-01",
            "steelyard fleet import csv samples.csv --store STORE --mapping mapping.toml",
        ),
    )(import_)


def import_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=", ".join(KINDS) + ".")],
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="Files or folders, or the address of a Prometheus server."),
    ],
    store: StoreUrl,
    cluster: Annotated[
        str | None, typer.Option(help="Name of the cluster; by default that of the kind.")
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Mapping of columns (csv), or queries (prometheus)."),
    ] = None,
    cpu_scale: Annotated[
        float | None,
        typer.Option(metavar="CPUS", help="CPUs of the largest machine, the unit of Google's traces."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="First day of Alibaba's traces, which have no dates."),
    ] = None,
    first: From = None,
    last: To = None,
    step: Annotated[int, typer.Option(min=1, help="Length of a Prometheus window in seconds.")] = 60,
    as_json: Json = False,
) -> int:
    """Import a published cluster trace, metrics of Prometheus, or a CSV file into a store."""
    from steelyard._base import ExitCode, ResultSaysNoError, UsageError
    from steelyard.cli.output import complain, print_json

    paths = [Path(name) for name in inputs]
    named = {} if cluster is None else {"cluster": cluster}
    begun = {} if start is None else {"start": start}
    done: Imported
    if kind in ("google-2011", "google-2019"):
        from steelyard.fleet.importers import google

        take = google.import_2011 if kind == "google-2011" else google.import_2019
        done = take(paths, store, cpu_scale=cpu_scale, **named)
    elif kind in ("alibaba-2017", "alibaba-2018"):
        from steelyard.fleet.importers import alibaba

        bring = alibaba.import_2017 if kind == "alibaba-2017" else alibaba.import_2018
        done = bring(paths, store, **named, **begun)
    elif kind == "prometheus":
        done = _prometheus(inputs, store, mapping, (first, last), step, named)
    elif kind == "csv":
        from steelyard.fleet.importers import mapping as mapped

        if mapping is None:
            raise UsageError("csv needs --mapping FILE.toml", hint="see docs/reference/store.md")
        done = mapped.import_csv(paths, store, mapped.read_mapping(mapping), **named)
    else:
        raise UsageError(f"nothing is imported as {kind!r}", hint=", ".join(KINDS))
    done.note_unread()
    if as_json:
        print_json(done)
    else:
        _print(done)
    if not done.rows:
        why = done.notes[0] if done.notes else "the input has no rows"
        complain(ResultSaysNoError(f"nothing was imported: {why}"))
        return int(ExitCode.NO)
    return int(ExitCode.OK)


def _prometheus(
    inputs: list[str],
    store: str,
    mapping: Path | None,
    days: tuple[str | None, str | None],
    step: int,
    named: dict[str, str],
) -> Imported:
    from steelyard._base import UsageError
    from steelyard.fleet.importers import prometheus
    from steelyard.fleet.store.layout import check_date, start_of

    first, last = days
    if first is None or last is None or len(inputs) != 1:
        raise UsageError("prometheus needs one address, --from and --to")
    source = prometheus.read_source(inputs[0], mapping)
    begin, end = start_of(check_date(first)), start_of(check_date(last)) + 86_400
    return prometheus.import_range(source, store, begin_unix_s=begin, end_unix_s=end, step_s=step, **named)


def _print(done: Imported) -> None:

    from steelyard.cli.output import printable
    from steelyard.report.format import several

    console = output_console(highlight=False)
    for table, rows in done.rows.items():
        console.print(f"{table:16} {rows:15,} rows", markup=False)
    if not done.rows:
        console.print("No rows.", markup=False)
    if done.left_out:
        lacking = several(done.left_out, "row")
        console.print(f"left out: {lacking} without a required column", markup=False)
    for note in done.notes:
        console.print(f"note: {printable(note)}", markup=False, soft_wrap=True)
    if done.files > 1:
        console.print(f"{several(done.files, 'file')}; `fleet compact` joins them", markup=False)
