"""``steelyard fleet check | compact | expire``: look after a store.

In: flags. Out: a table or one JSON document. Not here: the work itself (``fleet``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.fleet.options import From, StoreUrl, To, opened
from steelyard.cli.options import Json
from steelyard.cli.output import examples, output_console

if TYPE_CHECKING:
    from steelyard.fleet.store.check import Check
    from steelyard.fleet.store.compact import Compaction

TableNames = Annotated[
    list[str] | None, typer.Option("--table", metavar="TABLE", help="Use only this table; repeatable.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(
        "check",
        epilog=examples(
            "steelyard fleet check --store STORE",
            "steelyard fleet check --store STORE --from 2026-01-01 --json",
        ),
    )(check)
    app.command(
        "compact",
        epilog=examples(
            "steelyard fleet compact --store STORE",
            "steelyard fleet compact --store STORE --table task_samples --dry-run",
        ),
    )(compact)
    app.command(
        "expire",
        epilog=examples(
            "steelyard fleet expire --store STORE --keep-days 30",
            "steelyard fleet expire --store STORE --keep-days 90 --table profiles --dry-run",
        ),
    )(expire)


def check(store: StoreUrl, first: From = None, last: To = None, as_json: Json = False) -> int:
    """Check a store for bad files and rows; exit with 1 if there are any."""
    from steelyard._base import ExitCode
    from steelyard.cli.output import print_json
    from steelyard.fleet.store.check import check_store

    with opened(store, first=first, last=last) as open_store:
        result = check_store(open_store)
    if as_json:
        print_json(result)
    else:
        _print_check(result)
    return int(ExitCode.OK if result.clean else ExitCode.NO)


def _print_check(result: Check) -> None:

    from steelyard.cli.output import printable
    from steelyard.fleet.store.check import NAMED
    from steelyard.report.format import several

    console = output_console(highlight=False)

    def say(text: str) -> None:
        # Names of machines, tasks and files are from outside.
        console.print(printable(text), markup=False, soft_wrap=True)

    for name, table in result.tables.items():
        replaced = f" ({table.replaced_files} held by compacted files)" if table.replaced_files else ""
        say(f"{name:16} {several(table.files, 'file'):>14} {several(table.rows, 'row'):>20}{replaced}")
    for problem in result.problems[:NAMED]:
        say(f"put aside: {problem.path}: {problem.reason}")
    if len(result.problems) > NAMED:
        say(f"... and {len(result.problems) - NAMED} files more")
    for name, table in result.tables.items():
        for bad in table.bad[:NAMED]:
            whose = f" of {bad.machine}" if bad.machine else ""
            say(f"left out: {several(bad.rows, 'row')}{whose} in {name}: {bad.reason}")
        if len(table.bad) > NAMED:
            rest = sum(bad.rows for bad in table.bad[NAMED:])
            say(f"... and {rest} rows more in {name}")
        for doubtful in table.doubtful[:NAMED]:
            rows = several(doubtful.rows, "row")
            say(f"doubtful: {rows} of {doubtful.machine} in {name}: {doubtful.reason}")
        again = table.repeated
        if again.repeated_rows:
            by = f", most by {', '.join(again.repeated_by[:3])}" if again.repeated_by else ""
            say(f"counted once: {several(again.repeated_rows, 'row')} that came again in {name}{by}")
    for renamed in result.renamed:
        say(f"renamed: {renamed.task} on {renamed.machine} ran as {' and '.join(renamed.jobs)}")
    if result.renamed_count > len(result.renamed):
        say(f"... and {result.renamed_count - len(result.renamed)} renamed tasks more")
    say(
        "No bad files or rows."
        if result.clean
        else "Queries skip these rows; `fleet compact` moves them to quarantine."
    )


def compact(
    store: StoreUrl,
    table: TableNames = None,
    first: From = None,
    last: To = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Join small files into large sorted ones, and move bad rows to STORE/quarantine.

    Safe to kill and to run again: at every moment a row is read once.
    """
    from steelyard.cli.output import print_json
    from steelyard.fleet.store.compact import compact_store

    with opened(store, first=first, last=last) as open_store:
        done = compact_store(open_store, table or None, dry_run=dry_run)
    if as_json:
        print_json(done)
    else:
        _print_compaction(done, dry_run=dry_run)
    return 0


def _print_compaction(done: Compaction, *, dry_run: bool) -> None:

    from steelyard.report.format import several

    console = output_console(highlight=False)
    would = "would become" if dry_run else "became"
    for name, table in done.tables.items():
        if table.files_before:
            console.print(
                f"{name:16} {table.files_before:,} files {would} {table.files_after:,}:"
                f" {table.rows:,} rows, {table.repeated_rows:,} duplicates dropped,"
                f" {table.quarantined_rows:,} moved to quarantine",
                markup=False,
                soft_wrap=True,
            )
    if not any(table.files_before for table in done.tables.values()):
        console.print("Nothing to join.", markup=False)
    if done.removed_leftovers:
        console.print(
            f"{several(done.removed_leftovers, 'file')} of an earlier compaction removed", markup=False
        )


def expire(
    store: StoreUrl,
    keep_days: Annotated[int, typer.Option(min=1, help="Days to keep, including today.")],
    table: TableNames = None,
    today: Annotated[
        str | None, typer.Option(metavar="DATE", help="Day to count from; by default today (UTC).")
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Remove old rows: samples, profiles, incidents, or the given tables."""

    from steelyard.cli.output import print_json
    from steelyard.fleet.store.files import Place
    from steelyard.fleet.store.retention import expire_store
    from steelyard.fleet.store.store import check_marker

    place = Place(store)
    check_marker(place)
    done = expire_store(place, keep_days, tables=table or None, today=today, dry_run=dry_run)
    if as_json:
        print_json(done)
        return 0
    console = output_console(highlight=False)
    would = "would be removed" if dry_run else "removed"
    for name, removed in done.removed.items():
        console.print(
            f"{name:16} {removed.files:,} files {would}, {removed.bytes / 1e6:,.1f} MB", markup=False
        )
    console.print(f"Kept: days from {done.first_kept}.", markup=False)
    return 0
