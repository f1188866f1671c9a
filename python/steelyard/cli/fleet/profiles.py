"""``steelyard fleet top``, ``diff``, ``symbols``: what a fleet spends its cycles on.

In: flags. Out: tables or one JSON document, and a page. Not here: finding it (``fleet``), drawing it
(``report``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.commands import Commands
from steelyard.cli.fleet.options import Jobs, Platforms, StoreUrl
from steelyard.cli.fleet.query import query
from steelyard.cli.options import EVENT_HELP, Json, Rows
from steelyard.cli.output import examples
from steelyard.cli.overview import EXIT_CODES

if TYPE_CHECKING:
    from steelyard.fleet.profiles.stacks import Selection
    from steelyard.fleet.store.store import Store
    from steelyard.report.answer import Answer

_SELECTION = "Selection FIELD=VALUE,...: from, to, platform, job, task, machine, cluster, label.NAME."

By = Annotated[
    str,
    typer.Option("--by", metavar="function|binary|job|platform|cluster|category", help="What to group by."),
]
Where = Annotated[str, typer.Option("--where", metavar="SELECTION", help=_SELECTION)]
Event = Annotated[str | None, typer.Option("--event", metavar="EVENT", help=EVENT_HELP)]
RulesFile = Annotated[
    list[Path] | None,
    typer.Option("--rules", metavar="FILE", help="Tax map rules that come before the shipped ones."),
]


def register(app: typer.Typer) -> None:
    """Add the command that is no query to ``app``."""
    symbols = typer.Typer(
        cls=Commands,
        help="Manage the names of functions for profiles.",
        epilog=EXIT_CODES,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    symbols.command(
        "add",
        epilog=examples(
            "steelyard fleet symbols add ./server --store STORE",
            "steelyard fleet symbols add ./server ./libcrypto.so --store STORE --json",
        ),
    )(add)
    app.add_typer(symbols, name="symbols")


@query(
    "top",
    reads="profiles",
    result="steelyard.fleet.profiles.top:Top",
    expressions="steelyard.fleet.profiles.expressions:TOP",
    examples=("", "--by category --job search", "--where label.config=candidate --report top.html"),
)
def top(
    store: Store,
    by: By = "function",
    platform: Platforms = None,
    job: Jobs = None,
    where: Where = "",
    event: Event = None,
    rows: Rows = 30,
    rules: RulesFile = None,
) -> Answer:
    """Show the top consumers of cycles: functions, binaries, jobs or tax categories."""
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.fleet.profiles.top import top as find
    from steelyard.report.fleet import profiles

    found_rules = rules_with(rules or [])
    result = find(
        store.table("profiles"),
        store.table("symbols"),
        by=by,
        selection=_selection(where, platform, job),
        task_samples=store.table("task_samples"),
        event=event,
        rows=rows,
        rules=found_rules,
    )
    return profiles.top(result, rules=found_rules)


@query(
    "diff",
    reads="profiles",
    result="steelyard.fleet.profiles.diff:FleetDiff",
    expressions="steelyard.fleet.profiles.expressions:DIFF",
    examples=(
        "label.config=stock label.config=candidate",
        "to=2026-01-07 from=2026-01-08 --report diff.html",
    ),
)
def diff(
    store: Store,
    a: Annotated[str, typer.Argument(metavar="A", help=_SELECTION)],
    b: Annotated[str, typer.Argument(metavar="B", help="Selection to compare with, in the same form.")],
    by: By = "function",
    event: Event = None,
    rules: RulesFile = None,
) -> Answer:
    """Compare the profiles of two parts of the fleet, or of two periods."""
    from steelyard.analyze.profiles.tax_rules import rules_with
    from steelyard.fleet.profiles.diff import diff as find
    from steelyard.fleet.profiles.stacks import Selection
    from steelyard.report.fleet import profiles_diff

    found_rules = rules_with(rules or [])
    result = find(
        store.table("profiles"),
        store.table("symbols"),
        Selection.parse(a),
        Selection.parse(b),
        by=by,
        task_samples=store.table("task_samples"),
        event=event,
        rules=found_rules,
    )
    return profiles_diff.diff(result, rules=found_rules)


def add(
    binaries: Annotated[
        list[Path], typer.Argument(metavar="BINARY...", help="Unstripped programs or libraries.")
    ],
    store: StoreUrl,
    as_json: Json = False,
) -> int:
    """Add the functions of programs to the store, to name them in profiles of the same build."""
    from steelyard._base import executable
    from steelyard.cli.output import print_json, printable
    from steelyard.fleet.profiles.symbols import PROGRAM, SymbolsAdded
    from steelyard.fleet.profiles.symbols import add as put

    added = put(store, binaries, executable(PROGRAM))
    if as_json:
        print_json(SymbolsAdded(added))
    else:
        for entry in added:
            line = f"{entry.path}: {entry.symbols:,} functions of {entry.module}, build {entry.build_id}"
            print(printable(line))
    return 0


def _selection(where: str, platform: Sequence[str] | None, job: Sequence[str] | None) -> Selection:
    from dataclasses import replace

    from steelyard.fleet.profiles.stacks import Selection

    chosen = Selection.parse(where)
    return replace(chosen, platform=(*chosen.platform, *(platform or ())), job=(*chosen.job, *(job or ())))
